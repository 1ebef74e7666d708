//! Changes that readers see, and that are not on the disk of the database yet: the journal has their commits.
//!
//! After a failure of the disk the database is opened again, without them; they are made again before anything else. After a
//! crash the next start takes them from the journal.

use std::collections::BTreeMap;
use std::time::Duration;

use redb::Database;

use super::content_sum::KeptSum;
use super::database::{SyncTime, lasts, transact};
use crate::adapters::clock::Stopwatch;
use crate::adapters::store::plan::PlannedChange;
use crate::adapters::store::sealed::Seals;
use crate::base::ids::Environment;
use crate::ledger::Receipt;

/// How long changes may wait for the disk.
const LONGEST: Duration = Duration::from_secs(5);
/// How many bytes of changes may wait.
const MOST_BYTES: usize = 16 << 20;

#[derive(Debug, Default)]
pub(super) struct UnsyncedChanges {
    changes: Vec<PlannedChange>,
    bytes: usize,
    /// The latest commit of each environment among them.
    last: BTreeMap<Environment, u64>,
    /// When the first of them was made.
    since: Option<Stopwatch>,
}

impl UnsyncedChanges {
    pub fn add(&mut self, changes: &[PlannedChange]) {
        let bytes = changes.iter().map(|change| match change {
            PlannedChange::Put(key, value) => key.len().saturating_add(value.len()),
            PlannedChange::Remove(key) => key.len(),
        });
        self.bytes = self.bytes.saturating_add(bytes.sum());
        self.changes.extend_from_slice(changes);
        self.since.get_or_insert_with(Stopwatch::start);
    }

    pub fn note(&mut self, environment: Environment, receipt: &Receipt) {
        self.last.insert(environment, receipt.number().as_u64());
    }

    /// Forgets them: they are on disk.
    pub fn are_synced(&mut self) {
        *self = UnsyncedChanges::default();
    }

    /// Returns how long they may still wait; `None` where there are none.
    pub fn wait(&self) -> Option<Duration> {
        let since = self.since.as_ref()?;
        Some(if self.bytes > MOST_BYTES { Duration::ZERO } else { LONGEST.saturating_sub(since.elapsed()) })
    }

    pub fn are_due(&self) -> bool {
        self.wait() == Some(Duration::ZERO)
    }

    /// Makes them again in a database that was opened anew, if it lacks them. What has no number can be left out: the journal
    /// tells again what it has, and a sweep is repeated.
    pub fn make_again(&mut self, database: &Database, seals: &Seals) -> Result<(), String> {
        let stands: BTreeMap<Environment, u64> = lasts(database)?.into_iter().collect();
        if self.last.iter().all(|(environment, last)| stands.get(environment).is_some_and(|stands| stands >= last)) {
            self.are_synced();
            return Ok(());
        }
        transact(database, SyncTime::Later, |table| {
            let mut sum = KeptSum::of(table, seals)?;
            sum.make(table, self.changes.clone())?;
            sum.write(table)
        })
    }
}
