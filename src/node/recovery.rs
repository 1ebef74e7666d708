//! Tells a store what it forgot, from this node's audit log.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use super::Node;
use super::journalling::{RecoverError, bring};
use super::operate::freeze as freeze_money;
use super::retry::Retry;
use crate::adapters::audit::{another_history, entries_above};
use crate::adapters::store::sealed::Seals;
use crate::base::ids::Environment;
use crate::ledger::{Commit, CommitError, Conflict, Content, Kind, Outstanding, RecordKey, Step, StoreFault};
use crate::people::activation::{active, in_force_key};
use crate::stations::claim::{
    self, Claim, Executions, Forgotten, Freeze, KnownClaim, LackedEntries, OpenedBeginning, PastAttempt, Tale,
    ToldChange,
};

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

pub(super) fn told_of(node: &Node, environment: Environment, error: &RecoveryError) {
    match error {
        RecoveryError::Store(fault) => node.told_of(fault),
        RecoveryError::Files(error) => {
            tracing::error!(%environment, %error, "this node's audit log cannot be read; money stays closed");
        }
    }
}

/// Brings what the outbox has to the files.
pub(super) async fn brought(node: &Node, environment: Environment) -> Result<(), RecoveryError> {
    bring(node, environment).await.map(drop).map_err(|error| match error {
        RecoverError::Store(fault) => RecoveryError::Store(fault),
        RecoverError::Audit(fault) => RecoveryError::Files(std::io::Error::other(fault)),
        RecoverError::Unsettled(error) => RecoveryError::Files(error),
    })
}

/// Tells all claims above a number, and the freezes and words on gates of people that the store lacks; returns how many claims
/// the store did not know. After that nobody waits for this node.
pub async fn remember(
    node: &Arc<Node>,
    environment: Environment,
    (from, waits): (u64, &Forgotten),
    (folder, seals): (&Path, &Seals),
) -> Result<usize, RecoveryError> {
    // The outbox must be in the files first.
    brought(node, environment).await?;
    let (folder, seals, id, sender) = (folder.to_owned(), seals.clone(), node.id.clone(), node.sender());
    let told_by_themselves = if waits.differ.contains(&node.id) { waits.here.clone() } else { BTreeSet::new() };
    let reading = tokio::task::spawn_blocking(move || {
        let apart_up_to = another_history(&folder, &id, environment)?;
        let mut tale = Tale::of(sender).apart_up_to(apart_up_to);
        let told = &mut |entry: Outstanding| {
            if entry.node != id && told_by_themselves.contains(&entry.node) {
                return ControlFlow::Continue(());
            }
            let written = written_claim(&seals, &entry).unwrap_or_else(|error| {
                tracing::error!(%environment, %error, "what a call used of limits cannot be read in the journal");
                None
            });
            tale.add(&entry, written.as_ref());
            ControlFlow::Continue(())
        };
        entries_above(&folder, &id, environment, from, told).map(|()| (tale, apart_up_to))
    });
    let read = reading.await.map_err(|error| RecoveryError::Files(std::io::Error::other(error)))?;
    let (tale, apart_up_to) = read.map_err(RecoveryError::Files)?;
    let lacks = LackedEntries::of(&node.id, waits, from, apart_up_to);
    Ok(tell_tale(node, environment, tale, &lacks).await?)
}

/// Tells a tale to the store that lacks it: see [`remember`].
pub async fn tell_tale(
    node: &Arc<Node>,
    environment: Environment,
    tale: Tale,
    lacks: &LackedEntries,
) -> Result<usize, StoreFault> {
    // A store that goes on without these commits must not let pass what people stopped.
    for (freeze, person, reason) in tale.acts.lacked_freezes(lacks) {
        freeze_money(node, environment, &freeze, &person, &reason).await?;
    }
    for (sender, commit) in tale.acts.gone_again(lacks, environment) {
        // One that came back is not gone.
        if !node.is_heard(environment, &sender).await? {
            commit_or_stand(node, commit).await?;
        }
    }
    let (record, _) = node.store.read(&in_force_key(environment)).await?;
    let stored = record.and_then(|record| active(&record).ok()).map(|active| active.set.version);
    let is_in_force = |version: &str| match &stored {
        Some(stored) => stored == version,
        // The first beginning writes it.
        None => node.activations.is_in_force(environment, version),
    };
    if let Some(why) = tale.acts.not_told(lacks, &is_in_force) {
        must_be_opened(node, environment, &why).await?;
    }
    let now = node.store.time().await?;
    let told = tale.into_claims().filter(|(_, told)| !told.is_past(now, &node.terms));
    let (counting, mut others): (Vec<_>, Vec<_>) = told.partition(|(_, told)| told.counts(now));
    let unknown = others.iter().filter(|(_, told)| told.lacks_booking()).count();
    if unknown > 0 {
        let why = format!("what {unknown} calls in the journal of `{}` used of limits is not known", node.id);
        must_be_opened(node, environment, &why).await?;
    }
    let (mut count, mut tombstones) = (0_usize, Vec::new());
    for one in counting {
        count = count.saturating_add(settle_batch(node, environment, [one].into(), &mut tombstones).await?);
    }
    while !others.is_empty() {
        let rest = others.split_off(others.len().min(BATCH));
        let batch = std::mem::replace(&mut others, rest);
        let settled = settle_batch(node, environment, batch.into_iter().collect(), &mut tombstones).await?;
        count = count.saturating_add(settled);
    }
    if let Some(first) = tombstones.first() {
        let why = format!(
            "the store has only tombstones of {} calls that the journal of `{}` has as executed, or perhaps executed, in another \
             history (the first is `{first}`): they do not count in limits, and may have been executed twice; look them up in \
             upstream's records",
            tombstones.len(),
            node.id
        );
        must_be_opened(node, environment, &why).await?;
    }
    told_all(node, environment).await?;
    Ok(count)
}

/// Returns the claim as the commit of an entry wrote it; `None` where it wrote none.
pub fn written_claim(seals: &Seals, entry: &Outstanding) -> Result<Option<Claim>, StoreFault> {
    let steps = seals.steps(entry)?.map(|journalled| journalled.steps).unwrap_or_default();
    for step in steps {
        match step {
            Step::Create { key, value, .. } | Step::Replace { key, value, .. } if key.kind == Kind::Claim => {
                return Ok(claim::decode_claim(&seals.open(&key, value)?).ok());
            }
            _ => {}
        }
    }
    Ok(None)
}

/// Settles one batch. A claim that the store knows is left out, or ended as the audit log says. `tombstones` gets the calls of
/// another history of which the store has no more.
async fn settle_batch(
    node: &Node,
    environment: Environment,
    mut batch: BTreeMap<String, KnownClaim>,
    tombstones: &mut Vec<String>,
) -> Result<usize, StoreFault> {
    let mut over = 0_usize;
    while !batch.is_empty() {
        let names: Vec<&str> = batch.keys().map(String::as_str).collect();
        let now = node.store.time().await?;
        let steps = batch.iter().flat_map(|(name, told)| told.steps(environment, name, &node.terms, now)).collect();
        let commit = claim::remember(environment, &names, steps, &node.id);
        let Some((commit, conflicts)) = commit_told(node, commit).await? else {
            return Ok(batch.len().saturating_add(over));
        };
        let known = claim::in_the_way(&commit, conflicts);
        if known.is_empty() {
            return Err(StoreFault::Away("a conflict that is not a claim".to_owned()));
        }
        for (key, record) in known {
            let Some(told) = batch.remove(&key.name) else { continue };
            if record.content == Content::Spent && told.is_beside_a_tombstone() {
                tombstones.push(key.name);
                continue;
            }
            let terms = (&node.terms, now);
            let change = claim::whole(&record).and_then(|claim| told.over(&key, &record, &claim, terms));
            let Some(ToldChange { steps, beside }) = change else { continue };
            if let Some((attempt, executions)) = &beside {
                tell_executed_beside(node, &key, attempt, *executions).await?;
            }
            let commit = claim::remember(environment, &[key.name.as_str()], steps, &node.id);
            match commit_told(node, commit).await? {
                None => {
                    over = over.saturating_add(1);
                    if let Some((_, executions)) = &beside {
                        node.metrics.paid_twice(environment.as_str(), executions.as_str());
                    }
                }
                // The claim changed meanwhile; of another history, nobody else may know.
                Some(_) if beside.is_some() => {
                    batch.insert(key.name, told);
                }
                // The change of the claim meanwhile was based on as much as the audit log knows.
                Some(_) => {}
            }
        }
    }
    Ok(over)
}

/// Has people look at a call of which the store knows another attempt than this journal, before it counts.
async fn tell_executed_beside(
    node: &Node,
    key: &RecordKey,
    attempt: &PastAttempt,
    executions: Executions,
) -> Result<(), StoreFault> {
    let PastAttempt { number, sender, .. } = attempt;
    let why = match executions {
        Executions::Twice => format!(
            "the call `{}` was executed twice: the store knows one attempt, and the journal of `{}` another one, number {number} \
             by `{}`; look up both in upstream's records and call one back",
            key.name, node.id, sender.node
        ),
        _ => format!(
            "the call `{}` may have been executed twice: the store knows one attempt, and the journal of `{}` another one, \
             number {number} by `{}`; look up both in upstream's records",
            key.name, node.id, sender.node
        ),
    };
    must_be_opened(node, key.environment, &why).await
}

/// Commits what is told of claims, without what is held already; or returns the commit, and what stood in its way.
async fn commit_told(node: &Node, mut commit: Commit) -> Result<Option<(Commit, Vec<Conflict>)>, StoreFault> {
    while let Some(conflicts) = commit_or_stand(node, commit.clone()).await? {
        match claim::without_held(&commit, &conflicts) {
            Some(without) => commit = without,
            None => return Ok(Some((commit, conflicts))),
        }
    }
    Ok(None)
}

/// Returns the number for which people opened money that lacked what was before; 0 where they did not.
pub(super) async fn opened_beginning(node: &Node, environment: Environment) -> Result<u64, StoreFault> {
    let (record, _) = node.store.read(&OpenedBeginning::key(environment)).await?;
    let Some(Content::Whole(bytes)) = record.map(|record| record.content) else { return Ok(0) };
    Ok(OpenedBeginning::read(&bytes).as_u64())
}

/// Says why what this node reports does not open money. It is awaited until it has reported.
pub(super) async fn must_be_opened(node: &Node, environment: Environment, why: &str) -> Result<(), StoreFault> {
    tracing::error!(%environment, why, "this journal does not open money");
    let mut retry = Retry::default();
    loop {
        let (record, _) = node.store.read(&Freeze::Restored.key(environment)).await?;
        let Some(record) = record else { return Ok(()) };
        let Content::Whole(bytes) = &record.content else { return Ok(()) };
        let forgotten = Forgotten::read(bytes);
        if forgotten.by_person && forgotten.reasons.iter().any(|known| known == why) {
            return Ok(());
        }
        let commit = claim::closed_for_gap(environment, Some(record.version), forgotten, why, &node.id);
        if node.commit(commit).await?.is_some() {
            return Ok(());
        }
        retry.conflict().await?;
    }
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
