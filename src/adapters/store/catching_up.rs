//! Brings a store up to the end of its journal: the last commits before a crash are in the journal alone.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redb::Database;

use super::embedded::{Embedded, KeptSum, SyncTime, lasts, transact};
use super::gathered::OpenTable;
use super::repeated::{self, ReadEntry, RepeatedCommit};
use super::sealed::Seals;
use crate::adapters::audit::{Follower, SnapshotFile, catch_up};
use crate::audit::Highest;
use crate::base::ids::Environment;
use crate::ledger::{NodeId, Outstanding, StoreFault};

/// A store that takes in what its journal has and it lacks.
#[derive(Debug)]
struct CatchingUp {
    database: Arc<Database>,
    seals: Seals,
    commits: AtomicU64,
}

impl Embedded {
    /// Makes the commits that the journal has and this store lacks, and returns how many they were. One that is `Broken` says
    /// why the store must be built anew. Nothing else uses the store yet, and it must be opened again afterwards: its time went on.
    pub fn catch_up(&self, journal: &Path, node: &NodeId) -> Result<u64, StoreFault> {
        let (database, seals) = self.opened()?;
        let store = CatchingUp { database, seals, commits: AtomicU64::new(0) };
        self.told_from_damage(|| catch_up(&store, journal, node, &mut |_, _| {}).map_err(StoreFault::Broken))?;
        Ok(store.commits.into_inner())
    }
}

impl Follower for CatchingUp {
    fn follow(&self, entries: &[Outstanding], is_durable: bool) -> Result<Vec<Option<String>>, String> {
        let mut commits = 0_u64;
        transact(&self.database, if is_durable { SyncTime::Now } else { SyncTime::Later }, |table| {
            let sum = KeptSum::of(table, &self.seals)?;
            let mut map = OpenTable { table, sum: Some(sum) };
            for entry in entries {
                let read = ReadEntry::of(entry, &self.seals);
                match repeated::repeat(&mut map, entry, read, self.seals.is_sealing())? {
                    RepeatedCommit::Known => {}
                    RepeatedCommit::Made { missing: None } => commits = commits.saturating_add(1),
                    other => {
                        let why = other.contradiction().unwrap_or_default();
                        return Err(StoreFault::Broken(format!("entry {} of the journal: {why}", entry.number)));
                    }
                }
            }
            let OpenTable { table, sum } = map;
            sum.map_or(Ok(()), |sum| sum.write(table))
        })?;
        self.commits.fetch_add(commits, Ordering::Relaxed);
        Ok(vec![None; entries.len()])
    }

    fn skip(&self, environment: Environment, up_to: u64) -> Result<(), String> {
        Err(format!("the journal lacks entries of {environment} before number {up_to}"))
    }

    fn begin_anew(&self) -> Result<(), String> {
        Ok(())
    }

    fn restore(&self, _snapshot: &SnapshotFile) -> Result<Option<String>, String> {
        Ok(Some("the journal's files begin behind the end of the store".to_owned()))
    }

    fn reached(&self) -> Result<Highest, String> {
        let lasts = lasts(&self.database)?;
        Ok(lasts.into_iter().filter(|(_, number)| *number > 0).collect())
    }
}
