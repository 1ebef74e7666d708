//! Two people agree that a looser set of policies takes force; every node learns of it from the store.

use std::time::Duration;

use super::retry::Retry;
use super::sign_act;
use super::sign_act::{SaidWord, UnsignedAct};
use super::{InForce, Node, Snapshot};
use crate::base::ids::Environment;
use crate::ledger::{Number, StoreFault};
use crate::notify::NoticeEvent;
use crate::people::activation;
use crate::people::activation::Agreed;
use crate::people::agreement;
use crate::people::agreement::{AgreedAlready, AgreedWord, PEOPLE, Succession};
use crate::people::signed_act::{ActTerms, PersonAct, SignedAct};
use crate::policy::Policies;
use crate::stations::claim::Owner;

/// How often it is tried to tell webhooks while the store is away.
const TELL_INTERVAL: Duration = Duration::from_secs(5);

/// The reasons why an agreement is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActivationError {
    AgreedAlready,
    Unsigned(UnsignedAct),
}

impl From<StoreFault> for ActivationError {
    fn from(fault: StoreFault) -> ActivationError {
        ActivationError::Unsigned(UnsignedAct::Store(fault))
    }
}

impl From<UnsignedAct> for ActivationError {
    fn from(unsigned: UnsignedAct) -> ActivationError {
        ActivationError::Unsigned(unsigned)
    }
}

/// Returns the people who have agreed so far, by the set in force.
pub async fn agreed(node: &Node, in_force: &Policies, succession: Succession<'_>) -> Result<Vec<Owner>, StoreFault> {
    let (record, _) = node.store.read(&succession.key()).await?;
    let act = succession.act();
    Ok(people(&agreement::agreed(record.as_ref(), terms(succession, &act, in_force))))
}

/// Returns the agreement if it is complete, by the set in force.
pub async fn agreement(
    node: &Node,
    in_force: &Policies,
    succession: Succession<'_>,
) -> Result<Option<Agreed>, StoreFault> {
    let (key, act) = (succession.key(), succession.act());
    let (record, _) = node.store.read(&key).await?;
    let words = agreement::agreed(record.as_ref(), terms(succession, &act, in_force));
    let complete = record.filter(|_| words.len() >= PEOPLE);
    let people = people(&words);
    let signed = SignedAct::of(succession.environment, &act, words.into_iter().map(|word| word.signed));
    Ok(complete.map(|record| Agreed { key, version: record.version, people, signed }))
}

fn terms<'t>(succession: Succession<'_>, act: &'t PersonAct, in_force: &'t Policies) -> ActTerms<'t> {
    ActTerms { environment: succession.environment, act, signing: in_force.rules.signing.as_ref() }
}

fn people(words: &[AgreedWord]) -> Vec<Owner> {
    words.iter().map(|word| word.person.clone()).collect()
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
    in_force: &Policies,
    succession: Succession<'_>,
    said: SaidWord<'_>,
) -> Result<Vec<Owner>, ActivationError> {
    let act = succession.act();
    let terms = terms(succession, &act, in_force);
    let mut retry = Retry::default();
    loop {
        let (record, _) = node.store.read(&succession.key()).await?;
        let words = agreement::agreed(record.as_ref(), terms);
        if words.len() >= PEOPLE {
            return Ok(people(&words));
        }
        let (signed, used) = sign_act::take(node, terms, in_force.version(), said).await?;
        let word = (said.person, said.reason, signed);
        let agreed = agreement::agree(succession, record.as_ref(), word, terms, &node.id);
        let (mut commit, words) = agreed.map_err(|AgreedAlready| ActivationError::AgreedAlready)?;
        commit.steps.extend(used);
        if node.commit_lasting(commit).await?.is_some() {
            return Ok(people(&words));
        }
        retry.conflict().await?;
    }
}
