//! Looks again at records that a read found otherwise than this gate's journal has them.
//!
//! Such a record is refused, whoever reads it, and no gate writes it again: its call would fail for ever. A read alone proves
//! little, as the journal may be behind, or the record be written meanwhile. So the gate waits until its journal has all that
//! the store had, and compares the two at one time. A record that is another one then is reported like a commit that
//! contradicts the journal: two such records, or one that stays so, and the store is rebuilt from the journals. A record that a
//! commit left which the journal lacks is none: a gap has money closed, and what the store alone knows must stay.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::Node;
use super::membership::{Membership, POLL_INTERVAL};
use crate::adapters::audit::entries_above;
use crate::adapters::store::journalled_records::JournalledRecords as _;
use crate::adapters::store::redis::ALIKE_AT_START;
use crate::base::ids::Environment;
use crate::ledger::{NodeId, Number, RecordKey, StoreFault};
use crate::ports::Store as _;

/// The pause between two looks at one record: one that is still another one then stays so.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// How long the journal may take to have what the store has.
const CATCH_UP: Duration = Duration::from_secs(2);
/// How many records are looked at again.
const MAX_LOOKED_AT: usize = 64;

/// A record that is doubted.
#[derive(Debug)]
struct DoubtedRecord {
    why: String,
    /// When it is looked at.
    look: Duration,
}

impl Membership {
    /// Compares what is in the store with the journal, as long as the process lives.
    pub async fn watch_content(self: Arc<Membership>, node: Arc<Node>) {
        tokio::join!(self.watch_indexes(&node), self.watch_records(&node));
    }

    async fn watch_records(&self, node: &Node) {
        let mut doubted: BTreeMap<RecordKey, DoubtedRecord> = BTreeMap::new();
        loop {
            let now = node.clock.elapsed();
            for (key, why) in self.replica.take_doubted() {
                if doubted.len() < MAX_LOOKED_AT || doubted.contains_key(&key) {
                    doubted.entry(key).or_insert(DoubtedRecord { why, look: now });
                }
            }
            let due = doubted.iter().filter(|(_, one)| one.look <= now).map(|(key, _)| key.clone());
            for key in due.collect::<Vec<_>>() {
                let is_changed = self.is_record_changed(node, &key).await;
                if matches!(is_changed, Ok(Some(false))) {
                    doubted.remove(&key);
                    continue;
                }
                let Some(one) = doubted.get_mut(&key) else { continue };
                one.look = node.clock.elapsed().saturating_add(LOOK_AGAIN);
                match is_changed {
                    Ok(Some(_)) => node.contradicted(key.environment, None, &one.why),
                    Ok(None) => {}
                    Err(fault) => {
                        tracing::debug!(environment = %key.environment, %fault, "a record cannot be compared with the journal");
                    }
                }
            }
            let next = doubted.values().map(|one| one.look.saturating_sub(node.clock.elapsed())).min();
            tokio::select! {
                () = self.replica.doubts() => {}
                () = tokio::time::sleep(next.unwrap_or(LOOK_AGAIN)) => {}
            }
        }
    }

    /// Whether the store has a record otherwise than the journal, once the journal has all that the store had; `None` where
    /// that cannot be told.
    async fn is_record_changed(&self, node: &Node, key: &RecordKey) -> Result<Option<bool>, StoreFault> {
        let (found, at) = self.store.read(key).await?;
        let last = self.store.last(key.environment).await?;
        let until = node.clock.elapsed().saturating_add(CATCH_UP);
        while self.replica.last(key.environment)? < last {
            if node.clock.elapsed() > until {
                return Ok(None);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let (stored, _) = self.store.times(key.environment).await?;
        // A record that expires may have been removed by the time of a gate that is ahead of this one.
        let at = if found.is_some() { at } else { at.max(stored).plus(ALIKE_AT_START) };
        let known = self.replica.known(key, at)?;
        // Where no commit wrote it meanwhile, both looks found the same.
        let (again, _) = self.store.read(key).await?;
        if again != found {
            return Ok(None);
        }
        let is_changed = known.is_contradicted_by(found.as_ref());
        if found.as_ref().is_some_and(|found| found.version > last) {
            return Ok(Some(true));
        }
        let known_version = known.record.map(|record| record.version);
        match found.filter(|found| is_changed && Some(found.version) > known_version) {
            Some(found) if self.lacks(node, key.environment, found.version).await? => Ok(None),
            _ => Ok(Some(is_changed)),
        }
    }

    /// Whether this journal goes on without a commit. What that left is in the store alone, and a rebuild would lose it.
    async fn lacks(&self, node: &Node, environment: Environment, number: Number) -> Result<bool, StoreFault> {
        let behind = number.as_u64().saturating_sub(1);
        let read = move |folder: &Path, id: &NodeId| {
            let mut first = Vec::new();
            entries_above(folder, id, environment, behind, &mut |entry| {
                first.push(entry);
                ControlFlow::Break(())
            })?;
            Ok(first)
        };
        Ok(self.read_files(node, read).await?.first().is_none_or(|entry| entry.number != number))
    }
}
