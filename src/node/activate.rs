//! Two people agree that a looser set of policies takes force; every node learns of it from the store.

use std::time::Duration;

use super::retry::Retry;
use super::{InForce, Node, Snapshot};
use crate::base::ids::Environment;
use crate::ledger::{Number, StoreFault};
use crate::notify::NoticeEvent;
use crate::people::activation;
use crate::people::activation::Agreed;
use crate::people::agreement;
use crate::people::agreement::{AgreedAlready, PEOPLE, Succession};
use crate::stations::claim::Owner;

/// How often it is tried to tell webhooks while the store is away.
const TELL_INTERVAL: Duration = Duration::from_secs(5);

/// The reasons why an agreement is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActivationError {
    AgreedAlready,
    Store(StoreFault),
}

impl From<StoreFault> for ActivationError {
    fn from(fault: StoreFault) -> ActivationError {
        ActivationError::Store(fault)
    }
}

/// Returns the people who have agreed so far.
pub async fn agreed(node: &Node, succession: Succession<'_>) -> Result<Vec<Owner>, StoreFault> {
    let (record, _) = node.store.read(&succession.key()).await?;
    Ok(agreement::agreed(record.as_ref()))
}

/// Returns the agreement if it is complete.
pub async fn agreement(node: &Node, succession: Succession<'_>) -> Result<Option<Agreed>, StoreFault> {
    let key = succession.key();
    let (record, _) = node.store.read(&key).await?;
    let people = agreement::agreed(record.as_ref());
    let complete = record.filter(|_| people.len() >= PEOPLE);
    Ok(complete.map(|record| Agreed { key, version: record.version, people }))
}

/// Tells webhooks once that a set waits, as long as it does; the commit `replaces` put the set in force that it waits for.
pub async fn tell_of_waiting(
    node: &Node,
    environment: Environment,
    in_force: &InForce,
    (replaces, then): (Number, &Snapshot),
) {
    let Some(candidate) =
        then.candidate.as_ref().filter(|_| node.outlets.takes(NoticeEvent::PoliciesWait, environment))
    else {
        return;
    };
    let (from, to) = (then.policies.version(), candidate.policies.version());
    while in_force.now().candidate.as_ref().is_some_and(|one| one.policies.version() == to) {
        match node.commit(activation::waits(environment, (replaces, from), to, &node.id)).await {
            // Whoever comes second need not tell.
            Ok(_) => return,
            Err(fault) => node.told_of(&fault),
        }
        tokio::time::sleep(TELL_INTERVAL).await;
    }
}

/// Records one person's agreement, and returns everybody who has agreed, that person included.
pub async fn agree(
    node: &Node,
    succession: Succession<'_>,
    person: &Owner,
    reason: &str,
) -> Result<Vec<Owner>, ActivationError> {
    let mut retry = Retry::default();
    loop {
        let (record, _) = node.store.read(&succession.key()).await?;
        let people = agreement::agreed(record.as_ref());
        if people.len() >= PEOPLE {
            return Ok(people);
        }
        let agreed = agreement::agree(succession, record.as_ref(), person, reason, &node.id);
        let (commit, people) = agreed.map_err(|AgreedAlready| ActivationError::AgreedAlready)?;
        if node.commit_lasting(commit).await?.is_some() {
            return Ok(people);
        }
        retry.conflict().await?;
    }
}
