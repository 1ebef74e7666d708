//! What a node does besides answering: entries to disk, leases that lapsed, what an earlier life left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::books::{Books, Drained, Place};
use super::operate::MOST_FROZEN;
use crate::base::ids::Environment;
use crate::commit::{Index, Kind, Number, Outstanding, RecordKey, StoreFault};
use crate::ports::AuditFault;
use crate::stations::claim::{self, Doubt, Event, Freeze, Standpoint, State};

/// How many are taken at one time.
const HANDFUL: usize = 256;
const GATHER: Duration = Duration::from_millis(50);
const AGAIN: Duration = Duration::from_secs(1);
/// How often leases are looked at.
const LEASES_EVERY: Duration = Duration::from_secs(1);
/// How often the outbox is searched for what was lost on its way.
const OUTBOX_EVERY: Duration = Duration::from_secs(10);
const SWEEP_EVERY: Duration = Duration::from_secs(60);
const BETWEEN_SWEEPS: Duration = Duration::from_millis(200);
/// How many of what was lost are taken up at one time.
const MOST_LOST: usize = 8_192;
/// An Entry so old is not on its way any more.
const LOST_AFTER: Duration = Duration::from_secs(5);

/// Why a node cannot begin.
#[derive(Debug)]
pub enum RecoverError {
    Store(StoreFault),
    Audit(AuditFault),
    Unsettled(std::io::Error),
}

impl std::fmt::Display for RecoverError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RecoverError::Store(fault) => write!(f, "{fault}"),
            RecoverError::Audit(fault) => write!(f, "{fault}"),
            RecoverError::Unsettled(error) => write!(f, "the outcomes that wait to be stored cannot be read: {error}"),
        }
    }
}

impl std::error::Error for RecoverError {}

/// Before anything is served: what an earlier life of this node left behind. Its entries go to disk, its outcomes to the
/// store, and what it was sending is in doubt: nobody else waits for an answer to it.
pub async fn recover(books: &Arc<Books>, environments: &[Environment]) -> Result<(), RecoverError> {
    for environment in environments {
        flush(books, *environment).await?;
    }
    settle_what_waits(books).await?;
    for environment in environments {
        let sending = books.store.due(*environment, Index::Sending, None, usize::MAX).await;
        for (_, name) in sending.map_err(RecoverError::Store)? {
            let key = RecordKey { environment: *environment, kind: Kind::Claim, name };
            let Some((record, claim)) = books.find(&key).await.map_err(RecoverError::Store)? else { continue };
            if matches!(&claim.state, State::Sending { node, .. } if *node == books.node) {
                tracing::warn!(
                    attempt = record.version.as_u64(),
                    "was being sent when this node ended; its outcome is unknown"
                );
                let place = Place::Claim { key, claim: Box::new(claim), at: record.at };
                books.try_to_settle(&place, record.version, &Event::Doubted(Doubt::Lapsed)).await;
            }
        }
    }
    Ok(())
}

/// Brings all to disk that is in the outbox now, but for what can never stand there: that is left in it, and the drain
/// tells it.
pub async fn flush(books: &Books, environment: Environment) -> Result<(), RecoverError> {
    let mut left = BTreeSet::new();
    loop {
        let count = HANDFUL.saturating_add(left.len());
        let waiting = books.store.outbox(environment, &books.node, count).await.map_err(RecoverError::Store)?;
        let mut waiting: Vec<_> = waiting.into_iter().filter(|entry| !left.contains(&entry.number)).collect();
        if waiting.is_empty() {
            return Ok(());
        }
        let refused = append(books, &waiting).await.map_err(RecoverError::Audit)?;
        left.extend(refused.iter().map(|(entry, _)| entry.number));
        waiting.retain(|entry| !left.contains(&entry.number));
        let numbers: Vec<Number> = waiting.iter().map(|entry| entry.number).collect();
        books.store.drained(environment, &numbers).await.map_err(RecoverError::Store)?;
    }
}

/// Brings entries to disk; what can never stand there is given back with the reason, and keeps nothing else from it.
async fn append(books: &Books, entries: &[Outstanding]) -> Result<Vec<(Outstanding, String)>, AuditFault> {
    let mut lists: Vec<&[Outstanding]> = Some(entries).filter(|list| !list.is_empty()).into_iter().collect();
    let mut refused = Vec::new();
    while let Some(list) = lists.pop() {
        match (books.audit.append(list.to_vec()).await, list) {
            (Ok(()), _) => {}
            (Err(AuditFault::Refused(why)), [entry]) => refused.push((entry.clone(), why)),
            (Err(AuditFault::Refused(_)), _) => {
                let (first, rest) = list.split_at(list.len().div_ceil(2));
                lists.extend([rest, first].into_iter().filter(|list| !list.is_empty()));
            }
            (Err(fault @ AuditFault::Disk(_)), _) => return Err(fault),
        }
    }
    Ok(refused)
}

async fn settle_what_waits(books: &Arc<Books>) -> Result<(), RecoverError> {
    let Some(unsettled) = &books.unsettled else { return Ok(()) };
    for waiting in unsettled.waiting().await.map_err(RecoverError::Unsettled)? {
        match books.find(&waiting.key).await.map_err(RecoverError::Store)? {
            Some((record, claim)) => {
                let place = Place::Claim { key: waiting.key.clone(), claim: Box::new(claim), at: record.at };
                books.try_to_settle(&place, waiting.attempt, &waiting.event).await;
            }
            None if matches!(waiting.event, Event::Undone) => {}
            // Somebody has said meanwhile that nothing was executed. This is the only proof that it was.
            None => {
                books.late(&waiting.key, waiting.attempt, &waiting.event).await.map_err(RecoverError::Store)?;
            }
        }
        unsettled.forget(waiting.into_file()).await;
    }
    Ok(())
}

/// Brings entries to disk that nobody waits for, and takes from the store's outbox what is there.
pub async fn drain(books: Arc<Books>, mut entries: mpsc::Receiver<Drained>) {
    let mut full = false;
    let mut refused = BTreeSet::new();
    while let Some(first) = entries.recv().await {
        if !full {
            tokio::time::sleep(GATHER).await;
        }
        let mut batch = vec![first];
        while batch.len() < HANDFUL
            && let Ok(next) = entries.try_recv()
        {
            batch.push(next);
        }
        full = batch.len() == HANDFUL;
        let (mut waiting, mut on_disk) = (Vec::new(), BTreeMap::<Environment, Vec<Number>>::new());
        for entry in batch {
            match entry {
                // It is found in the outbox again and again, and was told.
                Drained::Waiting(entry) if refused.contains(&(entry.environment, entry.number)) => {}
                Drained::Waiting(entry) => {
                    on_disk.entry(entry.environment).or_default().push(entry.number);
                    waiting.push(entry);
                }
                Drained::OnDisk(environment, number) => on_disk.entry(environment).or_default().push(number),
            }
        }
        for (entry, why) in bring_to_disk(&books, &waiting).await {
            let Outstanding { environment, number, .. } = entry;
            tracing::error!(%environment, %number, why, "an Entry can never stand in the audit chain; it stays in the store");
            books.metrics.audit_refused(environment.as_str());
            refused.insert((environment, number));
            on_disk.entry(environment).or_default().retain(|one| *one != number);
        }
        for (environment, numbers) in on_disk {
            if let Err(fault) = books.store.drained(environment, &numbers).await {
                books.told_of(&fault);
            }
        }
    }
}

/// However long it takes; says what can never stand there.
async fn bring_to_disk(books: &Books, waiting: &[Outstanding]) -> Vec<(Outstanding, String)> {
    loop {
        match append(books, waiting).await {
            Ok(refused) => return refused,
            Err(fault) => {
                tracing::error!(%fault, "entries wait to be brought to disk");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// Claims whose node said nothing more within their lease are in doubt.
pub async fn watch_leases(books: Arc<Books>, environments: Vec<Environment>) {
    loop {
        let mut is_up = true;
        for environment in &environments {
            if let Err(fault) = lapse(&books, *environment).await {
                is_up = false;
                books.told_of(&fault);
            }
        }
        books.metrics.store_up(is_up);
        tokio::time::sleep(LEASES_EVERY).await;
    }
}

/// One look at the leases of an environment.
pub async fn lapse(books: &Books, environment: Environment) -> Result<(), StoreFault> {
    let now = books.time().await?;
    for (_, name) in books.store.due(environment, Index::Sending, Some(now), HANDFUL).await? {
        let key = RecordKey { environment, kind: Kind::Claim, name };
        let (record, claim) = match books.find(&key).await {
            Ok(Some(found)) => found,
            Ok(None) => continue,
            // One that cannot be read does not stand in the way of the others.
            Err(fault @ StoreFault::Broken(_)) => {
                books.told_of(&fault);
                continue;
            }
            Err(fault) => return Err(fault),
        };
        let here = Standpoint { key: &key, version: record.version, at: record.at, claim: &claim };
        if let Some(commit) = claim::lapse(here, &books.node, &books.terms)
            && books.commit(commit).await?.is_some()
        {
            tracing::warn!(attempt = record.version.as_u64(), "a lease lapsed; the outcome is unknown");
            books.metrics.claim_settled(environment.as_str(), "unknown");
        }
    }
    let in_doubt = books.store.due(environment, Index::Unknown, None, HANDFUL.saturating_mul(16)).await?;
    books.metrics.in_doubt(environment.as_str(), in_doubt.len());
    let held = books.store.due(environment, Index::Held, None, HANDFUL.saturating_mul(16)).await?;
    books.metrics.holds_open(environment.as_str(), held.len());
    // The next to expire comes first.
    let expires = held.first().map(|(at, _)| at.as_micros() / 1_000_000);
    books.metrics.holds_expire(environment.as_str(), expires);
    tell_what_is_frozen(books, environment).await
}

/// What is frozen is the same for all nodes, and each tells it.
async fn tell_what_is_frozen(books: &Books, environment: Environment) -> Result<(), StoreFault> {
    let frozen = books.store.due(environment, Index::Frozen, None, MOST_FROZEN).await?;
    let scopes: Vec<&str> = frozen.iter().filter_map(|(_, name)| Some(Freeze::parse(name)?.scope())).collect();
    for scope in Freeze::SCOPES {
        let count = scopes.iter().filter(|one| **one == scope).count();
        books.metrics.frozen(environment.as_str(), scope, count);
    }
    Ok(())
}

/// Finds entries again that were lost on their way to the disk, and removes what is past its time.
pub async fn search_and_sweep(books: Arc<Books>, environments: Vec<Environment>) {
    let mut since_sweep = Duration::ZERO;
    loop {
        tokio::time::sleep(OUTBOX_EVERY).await;
        since_sweep = since_sweep.saturating_add(OUTBOX_EVERY);
        for environment in &environments {
            if let Err(fault) = search(&books, *environment).await {
                books.told_of(&fault);
            }
        }
        if since_sweep >= SWEEP_EVERY {
            since_sweep = Duration::ZERO;
            if let Err(fault) = sweep(&books).await {
                books.told_of(&fault);
            }
        }
    }
}

/// A part at a time, until nothing is past its time.
async fn sweep(books: &Books) -> Result<(), StoreFault> {
    while books.store.sweep().await? > 0 {
        tokio::time::sleep(BETWEEN_SWEEPS).await;
    }
    Ok(())
}

/// What is lost goes the same way once more, as fast as that way is; so does what nodes that are gone left behind.
async fn search(books: &Books, environment: Environment) -> Result<(), StoreFault> {
    let now = books.store.time().await?;
    let mut lost = books.store.outbox(environment, &books.node, MOST_LOST).await?;
    let oldest = lost.first().map(|entry| now.since(entry.at)).unwrap_or_default();
    books.metrics.outbox(environment.as_str(), lost.len(), oldest);
    lost.extend(books.store.take_over(environment, &books.node, MOST_LOST).await?);
    for entry in lost {
        if now.since(entry.at) > LOST_AFTER && books.drain.send(Drained::Waiting(entry)).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}
