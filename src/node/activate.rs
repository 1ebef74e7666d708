//! Two people agree that a looser set of policies takes force, or recovery keys have signed that it only adds passkeys; every
//! node learns of it from the store.

use std::time::Duration;

use super::retry::Retry;
use super::sign_act;
use super::sign_act::{SaidWord, UnsignedAct};
use super::{InForce, Node, Snapshot};
use crate::base::ids::Environment;
use crate::ledger::{Number, StoreFault, StoreTime};
use crate::notify::NoticeEvent;
use crate::people::activation;
use crate::people::activation::{ActivationProof, Agreed};
use crate::people::agreement;
use crate::people::agreement::{AgreedAlready, AgreedWord, PEOPLE, Succession};
use crate::people::key_recovery::{KeyRecoveryError, RecoveryTerms, SignedRecovery, handed_in, handed_in_key};
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

/// The reasons why nothing was taken of recovery keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveryRefusal {
    Refused(KeyRecoveryError),
    Store(StoreFault),
}

impl From<StoreFault> for RecoveryRefusal {
    fn from(fault: StoreFault) -> RecoveryRefusal {
        RecoveryRefusal::Store(fault)
    }
}

impl From<KeyRecoveryError> for RecoveryRefusal {
    fn from(error: KeyRecoveryError) -> RecoveryRefusal {
        RecoveryRefusal::Refused(error)
    }
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

/// Returns what lets a set take force, by the set in force: two people, or recovery keys.
pub async fn agreement(
    node: &Node,
    (in_force, next): (&Policies, &Policies),
    succession: Succession<'_>,
) -> Result<Option<Agreed>, StoreFault> {
    let (key, act) = (succession.key(), succession.act());
    let (record, _) = node.store.read(&key).await?;
    let words = agreement::agreed(record.as_ref(), terms(succession, &act, in_force));
    if let Some(record) = record.filter(|_| words.len() >= PEOPLE) {
        let people = people(&words);
        let signed = SignedAct::of(succession.environment, &act, words.into_iter().map(|word| word.signed));
        let proof = signed.map(ActivationProof::People);
        return Ok(Some(Agreed { key, version: record.version, people, proof }));
    }
    let key = handed_in_key(succession);
    let (record, at) = node.store.read(&key).await?;
    let Some((record, (_, signed))) = record.and_then(|record| handed_in(&record).map(|found| (record, found))) else {
        return Ok(None);
    };
    let environments = [succession.environment];
    let terms = recovery_terms(&environments, at, (in_force, next));
    let is_good = signed.verify(terms).is_ok();
    let proof = Some(ActivationProof::RecoveryKeys(signed));
    Ok(is_good.then_some(Agreed { key, version: record.version, people: Vec::new(), proof }))
}

fn recovery_terms<'t>(
    environments: &'t [Environment],
    at: StoreTime,
    (in_force, next): (&'t Policies, &'t Policies),
) -> RecoveryTerms<'t> {
    let before = (&in_force.meaning, in_force.rules.signing.as_ref());
    RecoveryTerms { environments, at, before, then: &next.meaning }
}

/// Takes signatures of recovery keys that a person hands in, for the set that waits.
pub async fn hand_in(
    node: &Node,
    sets: (&Policies, &Policies),
    succession: Succession<'_>,
    (person, reason, signed): (&Owner, &str, &SignedRecovery),
) -> Result<(), RecoveryRefusal> {
    let environment = succession.environment;
    let mut retry = Retry::default();
    loop {
        let (before, at) = node.store.read(&handed_in_key(succession)).await?;
        let (used, _) = node.store.read(&signed.used_key(environment)).await?;
        let environments = [environment];
        let verified = signed.verify(recovery_terms(&environments, at, sets));
        if let Err(why) = verified.and(used.map_or(Ok(()), |_| Err(KeyRecoveryError::Used))) {
            node.metrics.signature_refused(environment.as_str(), "recovery");
            tracing::warn!(reason = %why, "signatures of recovery keys are refused");
            return Err(RecoveryRefusal::Refused(why));
        }
        // Keys that a newer set has no more do not count, also if that set takes force at this moment.
        let guard = node.activations.guard_of_act(environment, sets.0.version());
        let guard = guard.ok_or_else(|| KeyRecoveryError::OtherBefore(sets.0.version().to_owned()))?;
        let mut commit = signed.clone().hand_in(succession, before.as_ref(), (person, reason), &node.id);
        commit.steps.extend(guard);
        if node.commit_lasting_act(person, commit).await?.is_some() {
            return Ok(());
        }
        retry.conflict().await?;
    }
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
