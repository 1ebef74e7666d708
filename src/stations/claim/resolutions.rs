//! Resolutions by people, for unknown outcomes that no read can settle.
//!
//! People who have upstream's record may say that a call was executed. That it was not takes two people, neither
//! of whom asked for it, and the gate that sent it must have told all that it knows: then the caller may send it again.
//! That nobody will ever know takes two people as well: then it is never sent again.
//!
//! A person has one word on a call: the latest. The first of two words waits for the second for a day.

use super::first_word::FirstWord;
use super::outcomes::{Settled, Superseded, settle};
use super::owner::Owner;
use super::past_attempts::PastAttempt;
use super::state::{Claim, ClaimEvent, ClaimState, NextState, StoredAnswer, entry};
use super::stored_form::encode_claim;
use super::terms::Terms;
use crate::audit::{Entry, EntryKind};
use crate::base::digest::Fingerprint;
use crate::ledger::{Commit, Keep, NodeId, Number, Sender, Step, StoreTime, Versioned};

/// The reasons why a resolution is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolveRefusal {
    NotInDoubt,
    /// The requester of a payment must not resolve it.
    Owner,
    /// Upstream may still act until this time.
    TooEarly(StoreTime),
    /// The gate that sent it may hold a proof of execution, and has not been heard since.
    SenderAway(Sender),
    /// The same person said so before; a second person is needed.
    SaidAlready,
    /// This person showed upstream's record that it was executed.
    SaidExecuted(Owner),
}

/// The last report of a gate about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeardGate {
    pub sender: Sender,
    /// The store's time at which it was so.
    pub at: StoreTime,
    /// The earliest attempt that it still sends, listens for or has to settle.
    pub open_from: Option<Number>,
    /// Whether it ended in order after that, so that it will never know more.
    pub has_left: bool,
}

impl HeardGate {
    /// Whether this gate has told all that it will ever know of an attempt that is quiet since `quiet`.
    fn has_told_all_of(&self, past: &PastAttempt, quiet: StoreTime) -> bool {
        let is_late_enough = self.has_left || self.at >= quiet;
        self.sender == past.sender && is_late_enough && self.open_from.is_none_or(|from| from > past.number)
    }
}

/// The knowledge about the gates that may have sent a call.
#[derive(Clone, Debug, Default)]
pub struct SenderNews {
    pub gates: Vec<HeardGate>,
    /// Whether two people declared the sender gone.
    pub is_gone: bool,
}

/// The two words that take two people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JointWord {
    /// The call was not executed: the caller may send it again.
    Absent,
    /// Nobody will ever know: it is never sent again.
    Abandoned,
}

/// Records one person's word on a call whose outcome is unknown. A second person's settles it.
pub fn say_jointly(
    here: Versioned<'_, Claim>,
    word: JointWord,
    (person, reason): (&Owner, &str),
    (now, news): (StoreTime, &SenderNews),
    node: &NodeId,
    terms: &Terms,
) -> Result<(Commit, Option<NextState>), ResolveRefusal> {
    let mut claim = here.value.clone();
    let past = here.value.in_doubt().ok_or(ResolveRefusal::NotInDoubt)?;
    let ClaimState::Unknown { said_absent, said_abandoned, doubted, .. } = &mut claim.state else {
        return Err(ResolveRefusal::NotInDoubt);
    };
    if here.value.is_asked_by(person) {
        return Err(ResolveRefusal::Owner);
    }
    let quiet = past.since.plus(terms.quiet);
    if now < quiet {
        return Err(ResolveRefusal::TooEarly(quiet));
    }
    let has_told_all = news.is_gone || news.gates.iter().any(|gate| gate.has_told_all_of(past, quiet));
    if word == JointWord::Absent && !has_told_all {
        return Err(ResolveRefusal::SenderAway(past.sender.clone()));
    }
    let (said, other, once, both) = match word {
        JointWord::Absent => (said_absent, said_abandoned, EntryKind::SaidAbsent, EntryKind::Undone),
        JointWord::Abandoned => (said_abandoned, said_absent, EntryKind::SaidAbandoned, EntryKind::Abandoned),
    };
    let who = person.to_string();
    if let Some(first) = said.as_ref().filter(|first| first.stands(now)) {
        if first.by.is_same_person(person) {
            return Err(ResolveRefusal::SaidAlready);
        }
        let said_by = [first.by.to_string(), who];
        let people = said_by.to_vec();
        let event = match word {
            JointWord::Absent => ClaimEvent::ShownAbsent { said_by },
            JointWord::Abandoned => ClaimEvent::Abandoned { said_by },
        };
        let (mut commit, settled) =
            settle(here, past.number, event, node, terms).map_err(|Superseded| ResolveRefusal::NotInDoubt)?;
        let Settled::Moved(next) = settled else { return Err(ResolveRefusal::NotInDoubt) };
        let entry = entry(both, here.key, here.value, past.number);
        commit.entry = entry.with("saidBy", people).with("reason", reason).to_bytes();
        return Ok((commit, Some(next)));
    }
    *said = Some(FirstWord { by: person.clone(), said: now });
    // The latest word of a person is the one that stands.
    if other.as_ref().is_some_and(|other| other.by.is_same_person(person)) {
        *other = None;
    }
    doubted.get_or_insert(here.at);
    let entry = entry(once, here.key, here.value, past.number).with("saidBy", vec![who]).with("reason", reason);
    let (key, version, value) = (here.key.clone(), here.version, encode_claim(&claim));
    let steps = vec![Step::Replace { key, version, value, keep: Keep::Forever }];
    let commit = Commit { environment: here.key.environment, node: node.clone(), steps, entry: entry.to_bytes() };
    Ok((commit, None))
}

/// Returns the attempt that upstream's record shows, also against what was said or believed of the call before, and the
/// entry of the first of two people who show it.
pub fn shown_attempt(
    here: Versioned<'_, Claim>,
    made: Option<i64>,
    person: &Owner,
) -> Result<(Number, Entry), ResolveRefusal> {
    let attempt = shown_attempt_of(here.value, made).ok_or(ResolveRefusal::NotInDoubt)?;
    if here.value.is_asked_by(person) {
        return Err(ResolveRefusal::Owner);
    }
    Ok((attempt, entry(EntryKind::SaidExecuted, here.key, here.value, attempt)))
}

/// Returns the attempt that upstream's record shows, which was made at this time.
pub fn shown_attempt_of(claim: &Claim, made: Option<i64>) -> Option<Number> {
    let past = match &claim.state {
        ClaimState::Sending { .. } | ClaimState::Done { executed: true, .. } => None,
        // What upstream itself refused, its record does not show.
        _ => {
            let fits = |past: &&PastAttempt| made.is_none_or(|made| past.can_have_made(made));
            let mut attempts = claim.attempts.iter().rev().filter(fits);
            let latest = attempts.clone().next();
            attempts.find(|past| !past.end.is_proved_not_executed()).or(latest)
        }
    };
    past.map(|past| past.number)
}

/// Returns the step that takes a person's other words away from a call in doubt, as the person shows that it was executed;
/// `None` where its outcome is not in doubt. It changes the record, so that no second word of others overlooks this one.
pub fn without_words_of(here: Versioned<'_, Claim>, person: &Owner) -> Option<Step> {
    let mut claim = here.value.clone();
    let ClaimState::Unknown { said_absent, said_abandoned, doubted, .. } = &mut claim.state else { return None };
    for said in [said_absent, said_abandoned] {
        said.take_if(|said| said.by.is_same_person(person));
    }
    doubted.get_or_insert(here.at);
    let (key, version, value) = (here.key.clone(), here.version, encode_claim(&claim));
    Some(Step::Replace { key, version, value, keep: Keep::Forever })
}

impl Claim {
    /// Forgets the first of two words on an attempt in doubt, where it does not count.
    pub fn forget_word_unless(&mut self, word: JointWord, counts: impl Fn(&Owner) -> bool) {
        let ClaimState::Unknown { said_absent, said_abandoned, .. } = &mut self.state else { return };
        let said = match word {
            JointWord::Absent => said_absent,
            JointWord::Abandoned => said_abandoned,
        };
        said.take_if(|one| !counts(&one.by));
    }
}

/// Records that people showed upstream's record of an attempt.
pub fn say_executed(
    here: Versioned<'_, Claim>,
    attempt: Number,
    (people, reason): (&[String], &str),
    answer: StoredAnswer,
    node: &NodeId,
    terms: &Terms,
) -> Result<Commit, ResolveRefusal> {
    let (status, shown) = (answer.status, Fingerprint::of(&[&answer.body]));
    let (mut commit, _) = settle(here, attempt, ClaimEvent::Found(answer), node, terms)
        .map_err(|Superseded| ResolveRefusal::NotInDoubt)?;
    let entry = entry(EntryKind::Executed, here.key, here.value, attempt).with("status", status);
    commit.entry = entry.with("shown", shown).with("saidBy", people.to_vec()).with("reason", reason).to_bytes();
    Ok(commit)
}

#[cfg(test)]
mod tests;
