//! A node's background work: lapsed leases, records past their time, and the leftovers of an earlier process.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::frozen_index::FrozenIndex;
use super::journalling::{RecoverError, bring};
use super::state::Node;
use crate::adapters::audit::put_back_journal_id;
use crate::adapters::unsettled_outcomes::WaitingOutcomes;
use crate::audit::{Entry, EntryKind};
use crate::base::ids::Environment;
use crate::ledger::{Commit, Index, Kind, Number, RecordKey, StoreFault, Versioned};
use crate::stations::claim::{self, ClaimEvent, ClaimState, DoubtCause, Freeze, Settlement, SettlementPlace};

/// The most records of one pass.
const BATCH: usize = 256;
/// The poll interval for leases.
const LEASES_INTERVAL: Duration = Duration::from_secs(1);
/// The poll interval for the file with the identity of the journal.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
const BETWEEN_SWEEPS: Duration = Duration::from_millis(200);

/// Recovers from an earlier process of this node, before anything is served: its entries go to disk, its outcomes to
/// the store, and calls that it was sending get an unknown outcome.
pub async fn recover(node: &Arc<Node>, environments: &[Environment]) -> Result<(), RecoverError> {
    for environment in environments {
        bring(node, *environment).await?;
    }
    settle_what_waits(node).await?;
    for environment in environments {
        let sending = node.store.due(*environment, Index::Sending, None, usize::MAX).await;
        for (_, name) in sending.map_err(RecoverError::Store)? {
            let key = RecordKey { environment: *environment, kind: Kind::Claim, name };
            let (record, claim) = match node.find(&key).await {
                Ok(Some(found)) => found,
                Ok(None) => continue,
                // A record that cannot be read does not stop the start; nobody can send its call.
                Err(fault @ StoreFault::Broken(_)) => {
                    node.told_of(&fault);
                    continue;
                }
                Err(fault) => return Err(RecoverError::Store(fault)),
            };
            if matches!(&claim.state, ClaimState::Sending { sender, .. } if sender.node == node.id) {
                tracing::warn!(
                    attempt = record.version.as_u64(),
                    "a call was being sent when this node ended; its outcome is unknown"
                );
                let settlement = Settlement::of_claim(key, record.version, &record, claim);
                let lapsed = ClaimEvent::Doubted(DoubtCause::Lapsed);
                node.settle_once(&settlement, &lapsed).await.map_err(RecoverError::Store)?;
            }
        }
    }
    Ok(())
}

/// Journals that this gate takes records in plain text, although it has a seal key.
pub async fn tell_of_plain(node: Arc<Node>, environments: Vec<Environment>) {
    for environment in environments {
        let entry = Entry::of(EntryKind::TookPlain).with("node", node.id.as_str()).to_bytes();
        let commit = Commit { environment, node: node.id.clone(), steps: Vec::new(), entry };
        while let Err(fault) = node.commit(commit.clone()).await {
            node.told_of(&fault);
            tokio::time::sleep(LEASES_INTERVAL).await;
        }
    }
}

async fn settle_what_waits(node: &Arc<Node>) -> Result<(), RecoverError> {
    let Some(unsettled) = &node.unsettled else { return Ok(()) };
    let WaitingOutcomes { mut outcomes, unreadable } = unsettled.waiting().await.map_err(RecoverError::Unsettled)?;
    for file in unreadable {
        // Without its name it may hold a proof of any attempt.
        match file {
            Some((environment, attempt)) => node.open.keep_open(environment, attempt),
            None => Environment::ALL.into_iter().for_each(|one| node.open.keep_open(one, Number::new(0))),
        }
    }
    // Proofs of execution come first: the store takes them in any case.
    outcomes.sort_by_key(|waiting| !matches!(waiting.event, ClaimEvent::Executed(_)));
    for waiting in outcomes {
        let place =
            SettlementPlace::Claim { key: waiting.key.clone(), claim: Box::new(waiting.claim.clone()), at: waiting.at };
        let settlement = Settlement { attempt: waiting.attempt, place };
        match node.settle_once(&settlement, &waiting.event).await {
            Ok(()) => unsettled.forget(waiting.into_file()).await,
            // Its file stays, and does not stop the others.
            Err(fault @ StoreFault::Broken(_)) => {
                node.told_of(&fault);
                node.open.keep_open(waiting.key.environment, waiting.attempt);
            }
            Err(fault) => return Err(RecoverError::Store(fault)),
        }
    }
    Ok(())
}

/// Gives claims an unknown outcome whose node let the lease lapse.
pub async fn watch_leases(node: Arc<Node>, environments: Vec<Environment>) {
    loop {
        for environment in &environments {
            if let Err(fault) = lapse(&node, *environment).await {
                node.told_of(&fault);
            }
        }
        tokio::time::sleep(LEASES_INTERVAL).await;
    }
}

/// Makes one pass over the leases of an environment.
pub async fn lapse(node: &Node, environment: Environment) -> Result<(), StoreFault> {
    let now = node.time().await?;
    for (_, name) in node.store.due(environment, Index::Sending, Some(now), BATCH).await? {
        let key = RecordKey { environment, kind: Kind::Claim, name };
        let (record, claim) = match node.find(&key).await {
            Ok(Some(found)) => found,
            Ok(None) => continue,
            // A record that cannot be read does not stop the others.
            Err(fault @ StoreFault::Broken(_)) => {
                node.told_of(&fault);
                continue;
            }
            Err(fault) => return Err(fault),
        };
        let here = Versioned { key: &key, version: record.version, at: record.at, value: &claim };
        if let Some(commit) = claim::lapse(here, &node.id, &node.terms)
            && node.commit(commit).await?.is_some()
        {
            tracing::warn!(attempt = record.version.as_u64(), "a lease lapsed; the outcome of its call is unknown");
            node.metrics.claim_settled(environment.as_str(), "unknown");
        }
    }
    let in_doubt = node.store.due(environment, Index::Unknown, None, BATCH.saturating_mul(16)).await?;
    node.metrics.in_doubt(environment.as_str(), in_doubt.len());
    let held = node.store.due(environment, Index::Held, None, BATCH.saturating_mul(16)).await?;
    node.metrics.holds_open(environment.as_str(), held.len());
    // The list is in the order of expiry.
    let expires = held.first().map(|(at, _)| at.as_micros() / 1_000_000);
    node.metrics.holds_expire(environment.as_str(), expires);
    tell_what_is_frozen(node, environment).await
}

/// Sets the gauge of freezes, which is the same on all nodes.
async fn tell_what_is_frozen(node: &Node, environment: Environment) -> Result<(), StoreFault> {
    let found = FrozenIndex::read(&*node.store, environment, Some(&node.id)).await?;
    for scope in Freeze::SCOPES {
        let count = found.freezes.iter().filter(|(_, freeze)| freeze.scope() == scope).count();
        node.metrics.frozen(environment.as_str(), scope, count);
    }
    Ok(())
}

/// Puts the identity of the journal back where somebody removed it: the next start would end without it.
pub async fn keep_journal_id(node: Arc<Node>, folder: PathBuf) {
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        if !node.audit.is_well() {
            continue;
        }
        let (id, journal, folder) = (node.id.clone(), node.journal.clone(), folder.clone());
        let looking = tokio::task::spawn_blocking(move || put_back_journal_id(&folder, &id, &journal));
        match looking.await.map_err(io::Error::other).flatten() {
            Ok(false) => {}
            Ok(true) => tracing::warn!("the identity of this gate's journal was removed or spoilt; it was put back"),
            Err(error) => tracing::debug!(%error, "the identity of this gate's journal cannot be looked at"),
        }
    }
}

/// Sweeps records past their time.
pub async fn keep_sweeping(node: Arc<Node>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        if let Err(fault) = sweep(&node).await {
            node.told_of(&fault);
        }
    }
}

/// Sweeps in parts until nothing is past its time. While the clock is doubted nobody knows what is.
async fn sweep(node: &Node) -> Result<(), StoreFault> {
    for environment in Environment::ALL {
        if node.store.read(&Freeze::Clock.key(environment)).await?.0.is_some() {
            return Ok(());
        }
    }
    while node.store.sweep().await? > 0 {
        tokio::time::sleep(BETWEEN_SWEEPS).await;
    }
    Ok(())
}
