//! Whose word counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::stand_ins::StandIns;
use super::state::Hold;
use crate::base::digest::Fingerprint;
use crate::commit::StoreTime;
use crate::policy::{Rules, each_alone};
use crate::stations::claim::Owner;

/// Whose services are whose, as configured: people who do not judge what those ask for, and names that differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners(BTreeMap<(String, String), BTreeSet<String>>);

impl Owners {
    /// `main:payroll=ops-1`: what payroll asks for, by a token of `main`, is ops-1's own. `None` if one is written
    /// otherwise.
    pub fn parse(texts: &[String]) -> Option<Owners> {
        let mut owners = Owners::default();
        for text in texts {
            let (caller, person) = text.rsplit_once('=')?;
            let (issuer, subject) = caller.split_once(':')?;
            if [issuer, subject, person].iter().any(|part| part.is_empty()) {
                return None;
            }
            owners.0.entry((issuer.to_owned(), subject.to_owned())).or_default().insert(person.to_owned());
        }
        Some(owners)
    }

    /// Whether what somebody asks for is this person's own.
    pub fn owns(&self, issuer: &str, subject: &str, person: &str) -> bool {
        let of = self.0.get(&(issuer.to_owned(), subject.to_owned()));
        of.is_some_and(|people| people.contains(person))
    }
}

/// What a person wants to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Say {
    Approve,
    Withdraw,
    Reject,
    Comment,
}

/// Why a person's word is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unheard {
    /// It is another call that the person saw.
    OtherBytes,
    /// They asked for it themselves.
    Asked,
    /// They are in none of the groups that are asked.
    NotAsked,
    /// It is decided, or its time is over.
    Over(&'static str),
    /// There is as much said of it as is kept.
    Full,
}

/// More is not kept of what people say of one hold.
const MOST_WORDS: usize = 100;

/// By what people are heard: the groups, owners and stand-ins of a time.
#[derive(Clone, Copy, Debug)]
pub struct Hearing<'h> {
    pub rules: &'h Rules,
    pub owners: &'h Owners,
    pub stand_ins: &'h StandIns,
    pub now: StoreTime,
}

/// Why nobody can bring a hold to an end but by rejecting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// There is none of the approvals any more that were asked for.
    NoApproval,
    /// An approval takes more people than there are, without those who asked.
    TooFew,
}

impl Stuck {
    pub fn in_words(self) -> &'static str {
        match self {
            Stuck::NoApproval => {
                "nobody can complete it: the policies in force have none of the approvals it was held for"
            }
            Stuck::TooFew => "nobody can complete it: its approvals take more people than their groups have for it",
        }
    }
}

impl Hearing<'_> {
    /// The members for whom a person speaks here: themselves, and those who named them. None of them asked for it; who asked
    /// for it speaks for nobody.
    pub fn voice(&self, hold: &Hold, person: &Owner) -> BTreeSet<String> {
        if hold.is_asked_by(&person.subject, self.owners) {
            return BTreeSet::new();
        }
        let others = self.stand_ins.members(person, self.now);
        let others = others.filter(|member| !hold.is_asked_by(&member.subject, self.owners));
        [person].into_iter().chain(others).map(member_of).collect()
    }

    /// Whether a person speaks for a member of one of these approvals.
    pub fn is_asked(&self, hold: &Hold, person: &Owner, asked: &BTreeSet<Arc<str>>) -> bool {
        let voice = self.voice(hold, person);
        asked.iter().any(|approval| voice.iter().any(|member| self.rules.may_say(approval, member)))
    }

    /// Whether all who could agree would not be enough. A stand-in brings no seat that its member has not.
    pub fn stuck(&self, hold: &Hold, asked: &BTreeSet<Arc<str>>) -> Option<Stuck> {
        if asked.is_empty() {
            return Some(Stuck::NoApproval);
        }
        let is_other = |member: &&String| {
            let subject = member.split_once(':').map_or(member.as_str(), |(_, subject)| subject);
            !hold.is_asked_by(subject, self.owners)
        };
        let all = each_alone(self.rules.groups.values().flatten().filter(is_other).cloned());
        let is_within_reach =
            |approval: &Arc<str>| self.rules.progress(approval, &all).is_some_and(|all| all.is_reached());
        (!asked.iter().all(is_within_reach)).then_some(Stuck::TooFew)
    }
}

/// Whether a person may say something of a hold now: by the groups of this moment and the approvals that are asked for,
/// of the bytes that they saw. What nobody can complete, every approver may reject.
pub fn may_say(
    (hold, written): (&Hold, StoreTime),
    say: Say,
    person: &Owner,
    seen: Option<Fingerprint>,
    asked: &BTreeSet<Arc<str>>,
    hearing: &Hearing<'_>,
) -> Result<(), Unheard> {
    if !hold.state.is_open() {
        return Err(Unheard::Over(hold.state.as_str()));
    }
    if hold.deadline(written) <= hearing.now {
        return Err(Unheard::Over("expired"));
    }
    if seen != Some(hold.fingerprint) && say != Say::Comment {
        return Err(Unheard::OtherBytes);
    }
    if hold.is_asked_by(&person.subject, hearing.owners) && say != Say::Comment {
        return Err(Unheard::Asked);
    }
    let is_for_all = say == Say::Comment || (say == Say::Reject && hearing.stuck(hold, asked).is_some());
    if !is_for_all && !hearing.is_asked(hold, person, asked) {
        return Err(Unheard::NotAsked);
    }
    let words = if say == Say::Comment { hold.notes.len() } else { hold.votes.len() };
    if matches!(say, Say::Approve | Say::Comment) && words >= MOST_WORDS {
        return Err(Unheard::Full);
    }
    Ok(())
}

/// A person as groups name their members.
pub fn member_of(person: &Owner) -> String {
    format!("{}:{}", person.issuer, person.subject)
}
