//! Resolutions by people, for unknown outcomes that no read can settle.
//!
//! People who have upstream's record may say that a call was executed. That it was not takes two people, neither
//! of whom asked for it, and the gate that sent it must have told all that it knows: then the caller may send it again.
//! That nobody will ever know takes two people as well: then it is never sent again.
//!
//! A person has one word on a call: the latest. The first of two words waits for the second for a day.

use std::time::Duration;

use super::outcomes::{Settled, Superseded, settle};
use super::owner::Owner;
use super::past_attempts::PastAttempt;
use super::state::{Claim, ClaimEvent, ClaimState, FirstWord, NextState, StoredAnswer, entry};
use super::stored_form::encode_claim;
use super::terms::Terms;
use crate::audit::{Entry, EntryKind};
use crate::base::digest::Fingerprint;
use crate::ledger::{Commit, Keep, NodeId, Number, Sender, Step, StoreTime, Versioned};

/// How long the first of two words waits for the second.
pub const WORD_LASTS: Duration = Duration::from_hours(24);

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

impl FirstWord {
    /// Whether it still waits for the second one.
    pub fn stands(&self, now: StoreTime) -> bool {
        now.since(self.said) < WORD_LASTS
    }
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
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::super::bookings::Booking;
    use super::super::past_attempts::AttemptEnd;
    use super::super::state::{Claim, DoubtCause, SentRequest};
    use super::*;
    use crate::base::ids::{Environment, OperationId, RequestId, TraceId};
    use crate::ledger::{JournalId, Kind, Number, RecordKey, StoreTime};

    /// The attempt was made at 2, and one second later it is quiet.
    const QUIET: StoreTime = StoreTime::of_micros(1_000_002);

    fn person(issuer: &str, subject: &str) -> Owner {
        Owner::named(issuer, subject)
    }

    fn named(text: &str) -> Owner {
        let (issuer, subject) = text.split_once('/').unwrap();
        person(issuer, subject)
    }

    fn said_early(text: &str) -> FirstWord {
        FirstWord { by: named(text), said: StoreTime::of_micros(5) }
    }

    fn sender(journal: &str) -> Sender {
        Sender { node: NodeId::parse("gate").unwrap(), journal: JournalId::parse(&journal.repeat(32)).unwrap() }
    }

    fn heard(journal: &str, at: StoreTime, open_from: Option<u64>) -> SenderNews {
        let gate = HeardGate { sender: sender(journal), at, open_from: open_from.map(Number::new), has_left: false };
        SenderNews { gates: vec![gate], is_gone: false }
    }

    fn left(journal: &str, open_from: Option<u64>) -> SenderNews {
        let mut news = heard(journal, StoreTime::of_micros(3), open_from);
        news.gates[0].has_left = true;
        news
    }

    fn in_doubt(said_absent: Option<&str>, said_abandoned: Option<&str>) -> Claim {
        Claim {
            owner: person("main", "payroll"),
            requester: Some("ann".to_owned()),
            operation: OperationId::new("createSwap"),
            fingerprint: Fingerprint::of(&[]),
            request_id: RequestId::parse("r-1"),
            trace: TraceId::parse("t-1").unwrap(),
            moves: None,
            hold: None,
            attempts: vec![PastAttempt {
                number: Number::new(7),
                sender: sender("a"),
                since: StoreTime::of_micros(2),
                booked: Booking::default(),
                end: AttemptEnd::Unknown,
            }],
            state: ClaimState::Unknown {
                doubt: DoubtCause::Silent,
                doubted: None,
                sent: SentRequest { target: "/v2/wallets/swaps".to_owned(), body: Bytes::from_static(b"{}") },
                looks: 0,
                said_absent: said_absent.map(said_early),
                said_abandoned: said_abandoned.map(said_early),
            },
        }
    }

    fn say(
        claim: &Claim,
        word: JointWord,
        person: &Owner,
        now: StoreTime,
        news: &SenderNews,
    ) -> Result<Option<NextState>, ResolveRefusal> {
        let key = RecordKey { environment: Environment::Production, kind: Kind::Claim, name: "request/r-1".to_owned() };
        let here = Versioned { key: &key, version: Number::new(9), at: StoreTime::of_micros(3), value: claim };
        let keep = Keep::For { whole: Duration::from_secs(1), spent: Duration::from_secs(1) };
        let [begin_within, lease, first_look, quiet] = [Duration::from_secs(1); 4];
        let terms = Terms { begin_within, lease, first_look, quiet, keep };
        let node = NodeId::parse("gate").unwrap();
        say_jointly(here, word, (person, "looked"), (now, news), &node, &terms).map(|(_, next)| next)
    }

    fn said(said_absent: Option<&str>, person: &Owner) -> Result<Option<NextState>, ResolveRefusal> {
        say(&in_doubt(said_absent, None), JointWord::Absent, person, QUIET, &heard("a", QUIET, None))
    }

    #[test]
    fn it_takes_two_people_neither_of_whom_asked() {
        assert_eq!(said(None, &person("people", "ops-1")), Ok(None));
        assert_eq!(said(Some("people/ops-1"), &person("people", "ops-2")), Ok(Some(NextState::Absent)));
        for same in [person("people", "ops-1"), person("others", "ops-1")] {
            assert_eq!(said(Some("people/ops-1"), &same), Err(ResolveRefusal::SaidAlready), "{same}");
        }
        for owner in [person("main", "payroll"), person("people", "PAYROLL"), person("people", "\u{ff41}nn")] {
            assert_eq!(said(None, &owner), Err(ResolveRefusal::Owner), "{owner}");
            assert_eq!(said(Some("people/ops-1"), &owner), Err(ResolveRefusal::Owner), "{owner}");
        }
    }

    #[test]
    fn nobody_says_so_while_upstream_may_still_do_it() {
        let early = StoreTime::of_micros(QUIET.as_micros() - 1);
        for (absent, abandoned) in [(None, None), (Some("people/ops-1"), Some("people/ops-1"))] {
            for word in [JointWord::Absent, JointWord::Abandoned] {
                let claim = in_doubt(absent, abandoned);
                let said = say(&claim, word, &person("people", "ops-2"), early, &heard("a", QUIET, None));
                assert_eq!(said, Err(ResolveRefusal::TooEarly(QUIET)));
            }
        }
    }

    #[test]
    fn nobody_says_absent_while_the_gate_that_sent_it_may_hold_a_proof() {
        let (claim, ops) = (in_doubt(Some("people/ops-1"), None), person("people", "ops-2"));
        let say = |news: &SenderNews| say(&claim, JointWord::Absent, &ops, QUIET, news);
        let before = StoreTime::of_micros(QUIET.as_micros() - 1);
        for away in [
            SenderNews::default(),
            heard("a", before, None),
            heard("a", QUIET, Some(7)),
            heard("a", QUIET, Some(3)),
            // A gate of the same name that lost its journal.
            heard("b", QUIET, None),
            // It ended with an outcome that it could not store.
            left("a", Some(7)),
        ] {
            assert_eq!(say(&away), Err(ResolveRefusal::SenderAway(sender("a"))), "{away:?}");
        }
        for told in [
            heard("a", QUIET, None),
            heard("a", QUIET, Some(8)),
            left("a", None),
            SenderNews { is_gone: true, ..SenderNews::default() },
        ] {
            assert_eq!(say(&told), Ok(Some(NextState::Absent)), "{told:?}");
        }
    }

    #[test]
    fn two_people_may_give_up_without_hearing_the_gate() {
        let ops = person("people", "ops-2");
        let give_up = |claim: &Claim| say(claim, JointWord::Abandoned, &ops, QUIET, &SenderNews::default());
        assert_eq!(give_up(&in_doubt(None, None)), Ok(None));
        // Who said absent did not say abandoned.
        assert_eq!(give_up(&in_doubt(Some("people/ops-1"), None)), Ok(None));
        assert_eq!(give_up(&in_doubt(None, Some("people/ops-1"))), Ok(Some(NextState::Abandoned)));
        assert_eq!(give_up(&in_doubt(None, Some("people/ops-2"))), Err(ResolveRefusal::SaidAlready));
    }

    /// A tombstone is the only thing that says that a call must never be sent.
    #[test]
    fn a_call_that_people_gave_up_is_kept_as_long_as_any_tombstone() {
        let [whole, spent, hundred_years] = [35, 400, 365 * 100].map(|days| Duration::from_hours(24 * days));
        let [begin_within, lease, first_look, quiet] = [Duration::from_secs(1); 4];
        let terms = Terms { begin_within, lease, first_look, quiet, keep: Keep::For { whole, spent } };
        let (node, claim) = (NodeId::parse("gate").unwrap(), in_doubt(None, Some("people/ops-1")));
        for (name, spent) in [("request/r-1", spent), ("call/5eed", spent), ("path/acceptOffer/w/o", hundred_years)] {
            let key = RecordKey { environment: Environment::Production, kind: Kind::Claim, name: name.to_owned() };
            let here = Versioned { key: &key, version: Number::new(9), at: StoreTime::of_micros(3), value: &claim };
            let (by, heard) = (person("people", "ops-2"), SenderNews::default());
            let said =
                say_jointly(here, JointWord::Abandoned, (&by, "nobody knows"), (QUIET, &heard), &node, &terms).unwrap();
            let kept = said.0.steps.iter().find_map(|step| match step {
                Step::Replace { keep, .. } => Some(*keep),
                _ => None,
            });
            assert_eq!(kept, Some(Keep::For { whole, spent }), "{name}");
        }
    }

    #[test]
    fn subjects_with_slashes_are_still_themselves() {
        assert_eq!(said(Some("people/a/b"), &person("people", "a/b")), Err(ResolveRefusal::SaidAlready));
        assert_eq!(said(Some("people/a/b"), &person("people", "b")), Ok(Some(NextState::Absent)));
    }

    #[test]
    fn a_person_in_other_letters_is_no_second_person() {
        for same in ["OPS-1", "Ops-1", " ops-1 ", "\u{ff4f}ps-1"] {
            assert_eq!(said(Some("people/ops-1"), &person("other", same)), Err(ResolveRefusal::SaidAlready), "{same}");
        }
    }

    #[test]
    fn a_word_waits_for_the_second_for_a_day() {
        let (claim, ops) = (in_doubt(Some("people/ops-1"), None), person("people", "ops-2"));
        let late = StoreTime::of_micros(5).plus(WORD_LASTS);
        for (now, next) in [(StoreTime::of_micros(late.as_micros() - 1), Some(NextState::Absent)), (late, None)] {
            let again = say(&claim, JointWord::Absent, &person("people", "ops-1"), now, &heard("a", now, None));
            assert_eq!(again.is_ok(), next.is_none(), "it may be said again once it has ended");
            assert_eq!(say(&claim, JointWord::Absent, &ops, now, &heard("a", now, None)), Ok(next));
        }
    }

    /// The claim after one more word.
    fn after(claim: &Claim, word: JointWord, who: &str) -> Claim {
        let key = RecordKey { environment: Environment::Production, kind: Kind::Claim, name: "request/r-1".to_owned() };
        let here = Versioned { key: &key, version: Number::new(9), at: StoreTime::of_micros(3), value: claim };
        let (node, heard) = (NodeId::parse("gate").unwrap(), heard("a", QUIET, None));
        let (by, keep) = (person("people", who), Keep::Forever);
        let [begin_within, lease, first_look, quiet] = [Duration::from_secs(1); 4];
        let terms = Terms { begin_within, lease, first_look, quiet, keep };
        let (commit, next) = say_jointly(here, word, (&by, "looked"), (QUIET, &heard), &node, &terms).unwrap();
        assert_eq!(next, None);
        stored(commit.steps)
    }

    fn stored(steps: Vec<Step>) -> Claim {
        let Some(Step::Replace { value, .. }) = steps.into_iter().next() else { panic!("it is not replaced") };
        super::super::stored_form::decode_claim(&value).unwrap()
    }

    #[test]
    fn a_person_has_one_word_the_latest() {
        let (first, second) = (in_doubt(None, None), person("people", "ops-2"));
        for (word, other) in [(JointWord::Absent, JointWord::Abandoned), (JointWord::Abandoned, JointWord::Absent)] {
            let claim = after(&after(&first, word, "ops-1"), other, "OPS-1");
            let say = |word| say(&claim, word, &second, QUIET, &heard("a", QUIET, None)).unwrap();
            assert_eq!(say(word), None, "{word:?} was taken back");
            assert!(say(other).is_some(), "{other:?} stands");
            // Others keep theirs.
            let of_two = after(&after(&first, word, "ops-1"), other, "ops-3");
            let next = super::tests::say(&of_two, word, &second, QUIET, &heard("a", QUIET, None)).unwrap();
            assert!(next.is_some());
        }
    }

    #[test]
    fn who_shows_that_it_was_executed_takes_back_what_was_said_before() {
        let key = RecordKey { environment: Environment::Production, kind: Kind::Claim, name: "request/r-1".to_owned() };
        let shown = |claim: &Claim, who: &str| {
            let here = Versioned { key: &key, version: Number::new(9), at: StoreTime::of_micros(3), value: claim };
            without_words_of(here, &person("others", who)).map(|step| stored(vec![step]))
        };
        let both = in_doubt(Some("people/ops-1"), Some("people/ops-2"));
        for (who, left) in [
            ("ops-1", in_doubt(None, Some("people/ops-2"))),
            ("OPS-2", in_doubt(Some("people/ops-1"), None)),
            ("ops-3", both.clone()),
        ] {
            let now = shown(&both, who).unwrap();
            let (
                ClaimState::Unknown { said_absent, said_abandoned, doubted, .. },
                ClaimState::Unknown { said_absent: absent, said_abandoned: abandoned, .. },
            ) = (&now.state, &left.state)
            else {
                panic!("it is in doubt")
            };
            assert_eq!((said_absent, said_abandoned), (absent, abandoned), "{who}");
            assert_eq!(*doubted, Some(StoreTime::of_micros(3)));
        }
        assert_eq!(shown(&Claim { state: ClaimState::Absent, ..both }, "ops-1"), None);
    }
}
