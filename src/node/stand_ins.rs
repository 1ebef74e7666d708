//! Naming and revoking stand-ins: one commit each, with its audit entry.

use super::Node;
use super::retry::Retry;
use crate::base::ids::Environment;
use crate::ledger::{StoreFault, StoreTime};
use crate::policy::Policies;
use crate::stations::claim::Owner;
use crate::stations::hold::{StandIn, StandInError, member_of};

/// The reasons why a stand-in is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StandInActError {
    /// The person is in no group, so there is no vote to give away.
    NoMember,
    Invalid(StandInError),
    Store(StoreFault),
}

impl From<StoreFault> for StandInActError {
    fn from(fault: StoreFault) -> StandInActError {
        StandInActError::Store(fault)
    }
}

/// The period of a stand-in; it begins now where no beginning is given.
#[derive(Clone, Copy, Debug)]
pub struct StandInPeriod {
    pub from: Option<StoreTime>,
    pub until: StoreTime,
}

/// Names a stand-in for a member, by that member alone.
pub async fn name(
    node: &Node,
    policies: &Policies,
    environment: Environment,
    (member, person): (&Owner, &Owner),
    period: StandInPeriod,
    reason: &str,
) -> Result<StandIn, StandInActError> {
    let seat = member_of(member);
    if !policies.rules.groups.values().any(|people| people.contains(&seat)) {
        return Err(StandInActError::NoMember);
    }
    let mut retry = Retry::default();
    loop {
        let (before, now) = node.stand_ins(environment).await?;
        let named = StandIn {
            member: member.clone(),
            person: person.clone(),
            from: period.from.unwrap_or(now),
            until: period.until,
            reason: reason.to_owned(),
        };
        let commit = before.name(named.clone(), now, environment, &node.id).map_err(StandInActError::Invalid)?;
        if node.commit_lasting_act(member, commit).await?.is_some() {
            node.changes.happened();
            return Ok(named);
        }
        retry.conflict().await?;
    }
}

/// Revokes a stand-in. Returns `false` where there was none.
pub async fn revoke(
    node: &Node,
    environment: Environment,
    pair: (&Owner, &Owner),
    why: (&Owner, &str),
) -> Result<bool, StoreFault> {
    let mut retry = Retry::default();
    loop {
        let (before, now) = node.stand_ins(environment).await?;
        let Some(commit) = before.revoke(pair, now, why, environment, &node.id) else { return Ok(false) };
        if node.commit_lasting(commit).await?.is_some() {
            node.changes.happened();
            return Ok(true);
        }
        retry.conflict().await?;
    }
}
