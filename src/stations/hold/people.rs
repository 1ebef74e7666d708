//! Whose word counts.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::state::{Hold, member};
use crate::base::digest::Fingerprint;
use crate::commit::StoreTime;
use crate::policy::Rules;
use crate::stations::claim::Owner;

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
    (rules, asked): (&Rules, &BTreeSet<Arc<str>>),
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
    if hold.is_asked_by(&person.subject) && say != Say::Comment {
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
