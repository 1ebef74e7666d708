//! Brings the entries of all nodes to this node's disk, in the order of their numbers, out of the store's outbox.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::journal_gaps::close_for_lost_entries;
use super::state::Node;
use crate::audit::{split_steps, unused_before};
use crate::base::ids::Environment;
use crate::ledger::{Number, Outstanding, StoreFault};
use crate::ports::AuditFault;

/// The most entries that are read at a time.
const BATCH: usize = 256;
/// How long entries are gathered that nobody waits for.
const GATHER: Duration = Duration::from_millis(50);
/// How often the outbox is looked at without a reason.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The store keeps this many entries for a journal that does not take them, or a bit more than these bytes: `script.lua`.
const KEPT_ENTRIES: usize = 16_000;
const KEPT_BYTES: usize = 60 << 20;

/// The reasons why a node cannot start.
#[derive(Debug, Error)]
pub enum RecoverError {
    #[error(transparent)]
    Store(StoreFault),
    #[error(transparent)]
    Audit(AuditFault),
    #[error("the outcomes that wait on disk cannot be read: {0}")]
    Unsettled(std::io::Error),
}

/// Brings all entries to disk that the store has, and tells the store so; returns the number of the last one.
pub async fn bring(node: &Node, environment: Environment) -> Result<Number, RecoverError> {
    let highest = bring_waiting(node, environment).await?;
    tell_kept(node, environment, highest).await?;
    Ok(highest)
}

async fn tell_kept(node: &Node, environment: Environment, highest: Number) -> Result<(), RecoverError> {
    node.store.kept(environment, &node.sender(), highest).await.map_err(RecoverError::Store)
}

/// Brings all entries to disk that the store has; returns the number of the last one. Those that come meanwhile are for the
/// next time: where other gates commit all the time, there is always one more.
async fn bring_waiting(node: &Node, environment: Environment) -> Result<Number, RecoverError> {
    let mut is_all = false;
    while !is_all {
        let highest = node.audit.highest(environment);
        let mut waiting =
            node.store.outbox_for_journal(environment, highest, BATCH).await.map_err(RecoverError::Store)?;
        let Some(first) = waiting.first() else { break };
        let first_number = first.number;
        skip_what_is_lost(node, environment, highest, first).await?;
        // The journal would wait for what is missing between them: the next look begins behind it.
        let found = waiting.len();
        waiting.truncate(connected(&waiting));
        // Others write a shared store. In the journal such an entry could be neither followed nor removed.
        let is_shared = node.others.are_known(environment);
        let no_entry = waiting.iter().enumerate().find_map(|(at, entry)| Some((at, unmade(entry)?)));
        if let Some((at, why)) = no_entry.filter(|_| is_shared) {
            if at == 0 {
                return Err(entries_are_wrong(node, environment, first_number, why));
            }
            waiting.truncate(at);
        }
        is_all = waiting.len() == found && found < BATCH;
        match node.audit.append(waiting).await {
            Ok(_on_disk) => {}
            // They are on disk.
            Err(AuditFault::Contradicted { number, why }) => node.contradicted(environment, Some(number), &why),
            Err(fault) => return Err(RecoverError::Audit(fault)),
        }
    }
    let highest = node.audit.highest(environment);
    node.fresh.are_on_disk(environment, highest);
    Ok(highest)
}

/// Returns how many entries stand before the first one that does not follow the one before it.
fn connected(entries: &[Outstanding]) -> usize {
    let behind = entries.iter().skip(1);
    let follow = entries.iter().zip(behind).take_while(|(before, next)| follows(next, before.number));
    follow.count().saturating_add(1)
}

/// Returns why no gate made an entry, if that can be told without keys.
fn unmade(entry: &Outstanding) -> Option<&'static str> {
    match split_steps(&entry.entry) {
        Err(_) => Some("it is no entry"),
        Ok(split) if split.steps.is_none() => Some("it keeps no steps"),
        Ok(split) if split.values().is_none() => Some("its values cannot be read"),
        Ok(_) => None,
    }
}

/// The store has an entry that no gate makes. It is not believed any more.
fn entries_are_wrong(node: &Node, environment: Environment, number: Number, why: &str) -> RecoverError {
    let why = format!("entry {number} of {environment} is none that a gate makes: {why}");
    node.found_changed_entries(environment, &why);
    RecoverError::Store(StoreFault::Away(why))
}

/// Whether no entry is missing between a number and an entry.
pub(super) fn follows(entry: &Outstanding, behind: Number) -> bool {
    let behind = behind.as_u64();
    entry.number.as_u64() <= behind.saturating_add(1)
        || unused_before(&entry.entry).is_some_and(|unused| unused.explains_behind(behind))
}

/// Entries before the first that the store still has can be had no more: this journal goes on without them, and knows
/// nothing any more of what they may have changed. An entry leaves the store only once this journal has it, or behind many
/// others. So where this journal had all entries, and few come behind the missing ones, somebody else wrote the numbers.
async fn skip_what_is_lost(
    node: &Node,
    environment: Environment,
    highest: Number,
    first: &Outstanding,
) -> Result<(), RecoverError> {
    let before = Number::new(first.number.as_u64().saturating_sub(1));
    // An entry that this journal took meanwhile, and told, may have left the store since.
    if follows(first, highest) || node.audit.highest(environment) >= before {
        return Ok(());
    }
    if node.losses.is_lost(environment) {
        let why = "entries are missing in a store that is about to be rebuilt".to_owned();
        return Err(RecoverError::Store(StoreFault::Away(why)));
    }
    if node.losses.has_followed(environment) && !was_passed_over(node, environment, before).await? {
        return Err(numbers_are_wrong(node, environment, highest, before).await);
    }
    // Of a store that nobody shares, the start compared the journal.
    let is_shared = node.others.are_known(environment);
    if is_shared {
        node.watched.begins_to_skip(environment);
        node.losses.skips(environment);
    }
    if highest.as_u64() > 0 {
        let missing = highest.as_u64().saturating_add(1);
        let closed = close_for_lost_entries(node, environment, missing, before.as_u64()).await;
        closed.map_err(RecoverError::Store)?;
    }
    if highest.as_u64() == 0 {
        tracing::warn!(%environment, first = first.number.as_u64(), "this journal begins in the middle: earlier entries are in the journals of other gates");
    } else {
        tracing::error!(
            %environment,
            %highest,
            first = first.number.as_u64(),
            "the store no longer has the entries behind the end of this journal: it goes on without them"
        );
    }
    node.audit.skip(environment, before).await.map_err(RecoverError::Audit)?;
    if is_shared {
        node.watched.has_skipped(environment, node.clock.elapsed());
    }
    Ok(())
}

/// Whether so much stands behind a number that the store may have passed a journal over.
async fn was_passed_over(node: &Node, environment: Environment, before: Number) -> Result<bool, RecoverError> {
    let (mut behind, mut entries, mut bytes) = (before, 0_usize, 0_usize);
    while entries < KEPT_ENTRIES && bytes < KEPT_BYTES {
        let some = node.store.outbox(environment, behind, BATCH).await.map_err(RecoverError::Store)?;
        let Some(last) = some.last() else { return Ok(false) };
        behind = last.number;
        entries = entries.saturating_add(some.len());
        bytes = some.iter().fold(bytes, |bytes, one| bytes.saturating_add(one.entry.len()));
    }
    Ok(true)
}

/// The store gave numbers, and no entry has them. It is not believed any more.
async fn numbers_are_wrong(node: &Node, environment: Environment, highest: Number, last: Number) -> RecoverError {
    // For a gate that is gone, or whose name another one bears, no entry stays.
    if !node.others.met_lately(environment, node.clock.elapsed()) || node.is_gone(environment).await.unwrap_or(true) {
        let why = "this gate stood still, or was declared gone: its journal is looked at again after it met the store";
        return RecoverError::Store(StoreFault::Away(why.to_owned()));
    }
    let why = format!(
        "no entry of {environment} has the numbers from {} to {last}, although this journal had every entry before them",
        highest.as_u64().saturating_add(1)
    );
    node.found_numbers_without_entries(environment, &why);
    RecoverError::Store(StoreFault::Away(why))
}

/// Brings all entries to disk that the store has, and compares the numbers that it gave with the entries that there are.
async fn bring_compared(node: &Node, environment: Environment) -> Result<Number, RecoverError> {
    let given = node.store.last(environment).await.map_err(RecoverError::Store)?;
    let highest = bring_waiting(node, environment).await?;
    if given <= highest {
        node.losses.follows(environment);
        return Ok(highest);
    }
    if node.losses.is_lost(environment) || !node.losses.has_followed(environment) {
        return Ok(highest);
    }
    // An entry is in the outbox from its commit on, until this journal has it.
    let waiting = node.store.outbox(environment, highest, 1).await.map_err(RecoverError::Store)?;
    // A store that was lost meanwhile gave fewer numbers; what this journal took meanwhile may have left.
    let is_same_store = node.store.last(environment).await.map_err(RecoverError::Store)? >= given;
    if waiting.is_empty() && is_same_store && node.audit.highest(environment) < given {
        return Err(numbers_are_wrong(node, environment, highest, given).await);
    }
    Ok(highest)
}

/// Brings entries of all environments to disk as long as the process lives, and measures those that this gate serves.
pub async fn keep_bringing(node: Arc<Node>, served: Vec<Environment>) {
    let (mut told, mut is_regular): (Option<String>, bool) = (None, true);
    // The last report of this worker to the store.
    let mut kept: BTreeMap<Environment, Number> = BTreeMap::new();
    loop {
        let mut fault = None;
        for environment in &Environment::ALL {
            let before = node.audit.highest(*environment);
            // A store that nobody shares waits for no journal.
            let is_shared = node.others.are_known(*environment);
            let highest = if is_shared && (is_regular || !node.losses.has_followed(*environment)) {
                bring_compared(&node, *environment).await
            } else {
                bring_waiting(&node, *environment).await
            };
            let brought = match highest {
                // Which gates run changes what may leave the outbox, so that it is said again now and then.
                Ok(highest) if is_regular || kept.get(environment) != Some(&highest) => {
                    kept.insert(*environment, highest);
                    tell_kept(&node, *environment, highest).await
                }
                Ok(_) => Ok(()),
                Err(error) => Err(error),
            };
            let nothing_waits = brought.is_ok();
            match brought {
                Ok(()) => {}
                Err(RecoverError::Audit(AuditFault::Refused(why))) => {
                    node.metrics.audit_refused(environment.as_str());
                    fault = Some(format!(
                        "the audit log can never take the entries of {environment} {}: {why}",
                        before.behind_in_words()
                    ));
                }
                Err(RecoverError::Store(fault)) => node.told_of(&fault),
                Err(RecoverError::Audit(AuditFault::Store(why))) => node.told_of(&StoreFault::Away(why)),
                Err(error) => fault = Some(error.to_string()),
            }
            if !served.contains(environment) {
                continue;
            }
            if nothing_waits {
                node.metrics.outbox(environment.as_str(), 0, Duration::ZERO);
            } else if let Err(error) = tell_what_waits(&node, *environment).await {
                node.told_of(&error);
            }
        }
        if fault.is_some() && fault != told {
            tracing::error!(why = fault, "audit entries wait to be written to disk");
        }
        told = fault;
        is_regular = true;
        tokio::select! {
            biased;
            () = node.audit.gap() => continue,
            () = node.news.notified() => {}
            () = tokio::time::sleep(LOOK_INTERVAL) => continue,
        }
        is_regular = false;
        // An entry that somebody waits for is not delayed.
        tokio::select! {
            biased;
            () = node.audit.gap() => {}
            () = tokio::time::sleep(GATHER) => {}
        }
    }
}

/// Tells how many entries wait, and for how long.
async fn tell_what_waits(node: &Node, environment: Environment) -> Result<(), StoreFault> {
    let highest = node.audit.highest(environment);
    let last = node.store.last(environment).await?;
    let oldest = match node.store.outbox(environment, highest, 1).await?.first() {
        Some(first) => node.store.time().await?.since(first.at),
        None => Duration::ZERO,
    };
    let waiting = last.as_u64().saturating_sub(highest.as_u64());
    node.metrics.outbox(environment.as_str(), usize::try_from(waiting).unwrap_or(usize::MAX), oldest);
    Ok(())
}
