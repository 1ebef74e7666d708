//! Tells a store what it forgot, from this node's audit log.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::Node;
use super::journalling::{RecoverError, bring};
use super::retry::Retry;
use crate::adapters::audit::entries_above;
use crate::base::ids::Environment;
use crate::ledger::{Commit, CommitError, Conflict, Content, StoreFault};
use crate::stations::claim::{self, Forgotten, Freeze, KnownClaim, Tale};

/// The most claims in one commit.
const BATCH: usize = 64;

/// The reasons why recovery failed.
#[derive(Debug)]
pub enum RecoveryError {
    Store(StoreFault),
    Files(std::io::Error),
}

impl From<StoreFault> for RecoveryError {
    fn from(fault: StoreFault) -> RecoveryError {
        RecoveryError::Store(fault)
    }
}

/// Tells all claims above a number, and returns how many the store did not know. After that nobody waits for this node.
pub async fn remember(
    node: &Arc<Node>,
    environment: Environment,
    from: u64,
    folder: &Path,
) -> Result<usize, RecoveryError> {
    // The outbox must be in the files first.
    bring(node, environment).await.map_err(|error| match error {
        RecoverError::Store(fault) => RecoveryError::Store(fault),
        RecoverError::Audit(fault) => RecoveryError::Files(std::io::Error::other(fault)),
        RecoverError::Unsettled(error) => RecoveryError::Files(error),
    })?;
    let (folder, id, sender) = (folder.to_owned(), node.id.clone(), node.sender());
    let reading = tokio::task::spawn_blocking(move || {
        let mut tale = Tale::of(sender);
        entries_above(&folder, &id, environment, from, &mut |entry| tale.add(&entry)).map(|()| tale)
    });
    let tale = reading.await.map_err(|error| RecoveryError::Files(std::io::Error::other(error)))?;
    let tale = tale.map_err(RecoveryError::Files)?;
    let now = node.store.time().await?;
    let mut claims: Vec<(String, KnownClaim)> =
        tale.into_claims().filter(|(_, told)| !told.is_past(now, &node.terms)).collect();
    let mut count = 0_usize;
    while !claims.is_empty() {
        let rest = claims.split_off(claims.len().min(BATCH));
        let batch = std::mem::replace(&mut claims, rest);
        count = count.saturating_add(settle_batch(node, environment, batch.into_iter().collect()).await?);
    }
    told_all(node, environment).await?;
    Ok(count)
}

/// Settles one batch. A claim that the store knows is left out, or ended as the audit log says.
async fn settle_batch(
    node: &Node,
    environment: Environment,
    mut batch: BTreeMap<String, KnownClaim>,
) -> Result<usize, StoreFault> {
    let mut over = 0_usize;
    while !batch.is_empty() {
        let names: Vec<&str> = batch.keys().map(String::as_str).collect();
        let steps = batch.iter().flat_map(|(name, told)| told.steps(environment, name, &node.terms)).collect();
        let commit = claim::remember(environment, &names, steps, &node.id);
        let conflicts = match commit_or_stand(node, commit.clone()).await? {
            None => return Ok(batch.len().saturating_add(over)),
            Some(conflicts) => conflicts,
        };
        let known = claim::in_the_way(&commit, conflicts);
        if known.is_empty() {
            return Err(StoreFault::Away("a conflict that is not a claim".to_owned()));
        }
        for (key, record) in known {
            let Some(told) = batch.remove(&key.name) else { continue };
            let steps = claim::whole(&record).and_then(|claim| told.over(&key, &record, &claim, &node.terms));
            let Some(steps) = steps else { continue };
            let commit = claim::remember(environment, &[key.name.as_str()], steps, &node.id);
            // The change of the claim meanwhile was based on as much as the audit log knows.
            if commit_or_stand(node, commit).await?.is_none() {
                over = over.saturating_add(1);
            }
        }
    }
    Ok(over)
}

/// Says why this node's journal is not the one that the store waits for: only a person can open money.
pub async fn cannot_remember(node: &Node, environment: Environment, why: &str) -> Result<(), StoreFault> {
    let mut retry = Retry::default();
    loop {
        let (record, _) = node.store.read(&Freeze::Restored.key(environment)).await?;
        let Some(record) = record else { return Ok(()) };
        let Content::Whole(bytes) = &record.content else { return Ok(()) };
        let forgotten = Forgotten::read(bytes);
        if !forgotten.nodes.contains_key(&node.id) {
            return Ok(());
        }
        let commit = claim::never_remembered(environment, record.version, forgotten, why, &node.id);
        if node.commit(commit).await?.is_some() {
            return Ok(());
        }
        retry.conflict().await?;
    }
}

async fn told_all(node: &Node, environment: Environment) -> Result<(), StoreFault> {
    let mut retry = Retry::default();
    loop {
        let (record, _) = node.store.read(&Freeze::Restored.key(environment)).await?;
        let Some(record) = record else { return Ok(()) };
        let Content::Whole(bytes) = &record.content else { return Ok(()) };
        let (forgotten, former) = (Forgotten::read(bytes), claim::frozen(bytes));
        if !forgotten.nodes.contains_key(&node.id) {
            return Ok(());
        }
        if forgotten.nodes.len() == 1 && forgotten.opens_by_itself() {
            // This opens money again: every node has reported what it sent.
            node.forget_holds(environment).await?;
        }
        let commit = claim::remembered(environment, record.version, forgotten, &former, &node.id);
        if node.commit(commit).await?.is_some() {
            return Ok(());
        }
        retry.conflict().await?;
    }
}

/// Commits, or returns the conflicts.
async fn commit_or_stand(node: &Node, commit: Commit) -> Result<Option<Vec<Conflict>>, StoreFault> {
    match node.store.commit(commit).await {
        Ok(_) => {
            node.news.notify_one();
            Ok(None)
        }
        Err(CommitError::Rejected { conflicts, .. }) => Ok(Some(conflicts)),
        Err(CommitError::Fault(fault)) => Err(fault),
    }
}
