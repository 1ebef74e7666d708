//! Whose word counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::state::{Hold, member};
use crate::base::digest::Fingerprint;
use crate::commit::StoreTime;
use crate::policy::Rules;
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

/// Whether a person may say something of a hold now: by the groups of this moment and the approvals that are asked for,
/// of the bytes that they saw.
pub fn may_say(
    (hold, written): (&Hold, StoreTime),
    say: Say,
    person: &Owner,
    seen: Option<Fingerprint>,
    now: StoreTime,
    (rules, asked, owners): (&Rules, &BTreeSet<Arc<str>>, &Owners),
) -> Result<(), Unheard> {
    if !hold.state.is_open() {
        return Err(Unheard::Over(hold.state.as_str()));
    }
    if hold.deadline(written) <= now {
        return Err(Unheard::Over("expired"));
    }
    if seen != Some(hold.fingerprint) && say != Say::Comment {
        return Err(Unheard::OtherBytes);
    }
    if hold.is_asked_by(&person.subject, owners) && say != Say::Comment {
        return Err(Unheard::Asked);
    }
    let member = member(person);
    if !asked.iter().any(|approval| rules.may_say(approval, &member)) && say != Say::Comment {
        return Err(Unheard::NotAsked);
    }
    let words = if say == Say::Comment { hold.notes.len() } else { hold.votes.len() };
    if matches!(say, Say::Approve | Say::Comment) && words >= MOST_WORDS {
        return Err(Unheard::Full);
    }
    Ok(())
}
