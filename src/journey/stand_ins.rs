//! Naming who votes in one's place, and taking it back: one commit each, with its Entry.

use super::Books;
use super::books::TRIES;
use super::operate::changing;
use crate::base::ids::Environment;
use crate::commit::{StoreFault, StoreTime};
use crate::policy::Policies;
use crate::stations::claim::Owner;
use crate::stations::hold::{NotNamed, StandIn, member_of};

/// Why a person is not named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unnamed {
    /// They are in no group themselves: there is no seat to fill.
    NoMember,
    NotNamed(NotNamed),
    Store(StoreFault),
}

impl From<StoreFault> for Unnamed {
    fn from(fault: StoreFault) -> Unnamed {
        Unnamed::Store(fault)
    }
}

/// From when and until when; from now, if nothing is said.
#[derive(Clone, Copy, Debug)]
pub struct Period {
    pub from: Option<StoreTime>,
    pub until: StoreTime,
}

/// A member names a person, for themselves alone.
pub async fn name(
    books: &Books,
    policies: &Policies,
    environment: Environment,
    (member, person): (&Owner, &Owner),
    period: Period,
    reason: &str,
) -> Result<StandIn, Unnamed> {
    let seat = member_of(member);
    if !policies.rules.groups.values().any(|people| people.contains(&seat)) {
        return Err(Unnamed::NoMember);
    }
    for _ in 0..TRIES {
        let (before, now) = books.stand_ins(environment).await?;
        let named = StandIn {
            member: member.clone(),
            person: person.clone(),
            from: period.from.unwrap_or(now),
            until: period.until,
            reason: reason.to_owned(),
        };
        let commit = before.name(named.clone(), now, environment, &books.node).map_err(Unnamed::NotNamed)?;
        if books.commit(commit).await?.is_some() {
            books.changes.happened();
            return Ok(named);
        }
    }
    Err(Unnamed::Store(changing()))
}

/// `false`: there was no such stand-in.
pub async fn revoke(
    books: &Books,
    environment: Environment,
    pair: (&Owner, &Owner),
    why: (&Owner, &str),
) -> Result<bool, StoreFault> {
    for _ in 0..TRIES {
        let (before, now) = books.stand_ins(environment).await?;
        let Some(commit) = before.revoke(pair, now, why, environment, &books.node) else { return Ok(false) };
        if books.commit(commit).await?.is_some() {
            books.changes.happened();
            return Ok(true);
        }
    }
    Err(changing())
}
