//! A store that is made from a journal alone: every commit again, in its order, in its time, with all its guards.
//!
//! It is a database in a folder of its own, with the same layout as the embedded store. A commit that its state does not
//! allow is left out: the store that made it had forgotten something, or somebody had changed it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redb::{Database, Durability, ReadableDatabase as _};

use super::doubted_records::DoubtedRecords;
use super::embedded::{
    CACHE_BYTES, KeySpace, Medium, OpenError, OpenedDatabase, ReadTable, StoreTable, TABLE, Trouble, locked,
};
pub use super::followed_entries::FollowedDigest;
use super::followed_entries::FollowedEntries;
use super::gathered::{GatheredChanges, OpenTable, StoreMap as _};
use super::journalled_records::{JournalledRecords, KnownRecord};
use super::layout::{self, Item};
use super::leaving_changes::LeavingChanges;
use super::queries::{Pair, StoreView as _};
use super::repeated::{self, ReadEntry, RepeatedCommit};
pub use super::repeated::{COPIED, MISTIMED};
use super::sealed::Seals;
use super::snapshot::{ProvenSnapshot, SnapshotSource, StoreContent};
pub use super::taken_snapshots::TakenSnapshot;
use super::taken_snapshots::{TakenSnapshots, take_in_before};
use super::{SWEEP_AFTER, plan, queries};
use crate::base::ids::Environment;
use crate::ledger::{
    Index, InstallationId, NodeId, Number, Outstanding, Record, RecordKey, StoreFault, StoreTime, WindowKey,
};
use crate::stations::claim::{self, Freeze};

/// A database that repeats the commits of a journal.
#[derive(Debug)]
pub struct Replica {
    medium: Arc<dyn Medium>,
    trouble: Arc<Trouble>,
    /// `None` after a failure of the disk, until it is opened again.
    opened: Mutex<Option<OpenedDatabase>>,
    pub(super) seals: Seals,
    pub(super) taken: TakenSnapshots,
    /// The last number at which it was known to have all that the store has, and nothing else.
    whole_at: Mutex<BTreeMap<Environment, Number>>,
    /// What reads of the store found otherwise than it is here.
    doubted: DoubtedRecords,
    pub(super) followed: FollowedEntries,
}

impl SnapshotSource for Replica {
    fn content(&self) -> Result<StoreContent, StoreFault> {
        self.latest().map(StoreContent)
    }
}

impl Replica {
    /// Opens the replica in a folder, or creates an empty one.
    pub fn open(folder: &Path, seals: Seals) -> Result<Replica, OpenError> {
        let medium: Arc<dyn Medium> = Arc::new(locked(folder, true)?);
        let trouble = Arc::new(Trouble::default());
        let opened = Mutex::new(Some(OpenedDatabase::new(&medium, &trouble, CACHE_BYTES)?));
        Ok(Replica {
            medium,
            trouble,
            opened,
            seals,
            taken: TakenSnapshots::default(),
            whole_at: Mutex::default(),
            doubted: DoubtedRecords::default(),
            followed: FollowedEntries::default(),
        })
    }

    fn database(&self) -> Result<Arc<Database>, StoreFault> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if opened.is_none() {
            *opened = Some(OpenedDatabase::new(&self.medium, &self.trouble, CACHE_BYTES).map_err(failed)?);
        }
        let database = opened.as_ref().map(|opened| Arc::clone(&opened.database));
        database.ok_or_else(|| failed("the replica is closed"))
    }

    /// Closes the database, which cannot be used after a failure of the disk.
    fn close(&self) {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(opened) = opened {
            opened.end();
        }
    }

    fn read<T>(&self, look: impl FnOnce(&ReadTable) -> Result<T, StoreFault>) -> Result<T, StoreFault> {
        look(&self.latest()?)
    }

    /// Returns the latest complete transaction.
    pub(super) fn latest(&self) -> Result<ReadTable, StoreFault> {
        let read = self.database()?.begin_read().map_err(failed)?;
        read.open_table(TABLE).map_err(failed)
    }

    /// Returns the number of the latest commit.
    pub fn last(&self, environment: Environment) -> Result<Number, StoreFault> {
        self.read(|table| queries::last(&KeySpace(table), environment).map(Number::new))
    }

    /// Makes the commits of these entries, which must be in the order of their numbers. With `is_durable`, they are on
    /// disk when this returns; without, a later durable call brings them there.
    pub fn apply(&self, entries: &[Outstanding], is_durable: bool) -> Result<Vec<RepeatedCommit>, StoreFault> {
        self.write(is_durable, |table| entries.iter().map(|entry| self.replay(table, entry)).collect())
    }

    /// Returns the number up to which entries are unknown here; 0 where every entry is known.
    pub fn begin(&self, environment: Environment) -> Result<Number, StoreFault> {
        self.read(|table| queries::begin(&KeySpace(table), environment))
    }

    /// Remembers the newest entries of the journal, which it followed before.
    pub fn followed_before(&self, environment: Environment, entries: &[Outstanding]) {
        self.followed.begin(environment, entries);
    }

    /// The store is whole again behind a loss: what it follows from now on is compared.
    pub fn follows_behind(&self, environment: Environment, loss: Option<StoreTime>) {
        self.followed.begin_behind(environment, loss);
    }

    /// Notes the lowest number that a gate had now.
    pub fn mark(&self, environment: Environment, now: Duration, lowest: Number) {
        self.followed.mark(environment, now, lowest);
    }

    /// Returns what it followed lately, for other gates to compare.
    pub fn followed_lately(&self, environment: Environment) -> Option<FollowedDigest> {
        self.followed.stated(environment)
    }

    /// Whether it followed the same entries as another gate; `None` where it does not know some of them.
    pub fn followed_the_same(&self, environment: Environment, stated: &FollowedDigest) -> Option<bool> {
        self.followed.are(environment, stated)
    }

    /// Returns the number of the first commit that was left out: the store may have what it does not.
    pub fn left_out(&self, environment: Environment) -> Result<Option<Number>, StoreFault> {
        let key = layout::left_out(environment);
        let found = self.range(&key, &layout::behind(&key), 1)?;
        let Some((key, value)) = found.first() else { return Ok(None) };
        match Item::read(key, value)? {
            Item::LeftOut(_, number) => Ok(Some(number)),
            _ => Ok(None),
        }
    }

    /// The store was rebuilt from what it has.
    pub fn nothing_is_left_out(&self, environment: Environment) -> Result<(), StoreFault> {
        self.write(true, |table| repeated::nothing_is_left_out(table, environment))
    }

    /// Notes that it has all that the store has at a number, and nothing else.
    pub fn is_whole_at(&self, environment: Environment, number: Number) {
        self.whole_at.lock().unwrap_or_else(PoisonError::into_inner).insert(environment, number);
    }

    /// Whether it has nothing that a store lacks up to a number: it begins there, or was the same as the store since.
    pub fn was_whole_since(&self, environment: Environment, number: Number) -> Result<bool, StoreFault> {
        let whole_at = self.whole_at.lock().unwrap_or_else(PoisonError::into_inner).get(&environment).copied();
        Ok(whole_at.is_some_and(|whole_at| whole_at >= number) || self.begin(environment)? >= number)
    }

    /// Goes on behind a number, and keeps what is known from before.
    #[cfg(test)]
    pub(super) fn pass_over(&self, environment: Environment, up_to: u64) -> Result<(), StoreFault> {
        self.write(true, |table| repeated::pass_over(table, environment, Number::new(up_to)))
    }

    /// Closes an environment for money until a person opens it.
    pub(super) fn close_money(&self, environment: Environment, why: &str, node: &NodeId) -> Result<(), StoreFault> {
        self.write(true, |table| {
            let key = Freeze::Restored.key(environment);
            let now = queries::time(table)?;
            let before = queries::record(table, &key, now)?.map(|record| record.version);
            let commit = claim::restored(environment, before, Number::new(0), ("sluice serve", why), node);
            let planned = plan::plan(table, now, &self.seals.sealed_commit(commit)?);
            let planned = planned.map_err(|error| StoreFault::Broken(format!("{error:?}")))?;
            table.make(planned.changes)
        })
    }

    /// Forgets all that it knows of an environment: the store has another history than the journal had.
    pub fn forget(&self, environment: Environment, up_to: Number) -> Result<(), StoreFault> {
        self.followed.pass_over(environment, up_to.as_u64());
        self.write(true, |table| repeated::forget(table, environment, up_to))
    }

    /// Notes the installation that its store of production is for.
    pub(super) fn belongs_to(&self, id: &InstallationId) -> Result<(), StoreFault> {
        self.write(true, |table| table.make(plan::puts(&Item::Created(Environment::Production, id.clone()))))
    }

    /// Returns the highest number of each node's own commits.
    pub fn committed(&self, environment: Environment) -> Result<BTreeMap<NodeId, Number>, StoreFault> {
        let all = layout::committed(environment);
        let mut committed = BTreeMap::new();
        for (key, value) in self.range(&all, &layout::behind(&all), usize::MAX)? {
            if let Item::Committed(_, node, number) = Item::read(&key, &value)? {
                committed.insert(node, number);
            }
        }
        Ok(committed)
    }

    /// Returns the version of a record, its content still sealed.
    pub fn record(&self, key: &RecordKey) -> Result<Option<Record>, StoreFault> {
        self.read(|table| {
            let view = KeySpace(table);
            queries::record(&view, key, queries::time(&view)?)
        })
    }

    /// Returns the records that reads of the store found otherwise since the last time, each with the reason.
    pub fn take_doubted(&self) -> BTreeMap<RecordKey, String> {
        self.doubted.take()
    }

    /// Returns once a read found a record otherwise.
    pub async fn doubts(&self) {
        self.doubted.noted().await;
    }

    /// Returns the members of an index, the earliest first.
    pub fn due(
        &self,
        environment: Environment,
        index: Index,
        count: usize,
    ) -> Result<Vec<(StoreTime, String)>, StoreFault> {
        self.read(|table| queries::due(&KeySpace(table), environment, index, None, count))
    }

    /// Returns when a member of an index is due, if it is one.
    pub fn member(&self, environment: Environment, index: Index, name: &str) -> Result<Option<StoreTime>, StoreFault> {
        self.read(|table| queries::member(&KeySpace(table), environment, index, name))
    }

    /// Returns the windows with reservations.
    pub fn windows(&self, environment: Environment, count: usize) -> Result<Vec<WindowKey>, StoreFault> {
        self.read(|table| queries::windows(&KeySpace(table), environment, None, None, count))
    }

    /// Returns the latest time of a commit.
    pub fn time(&self) -> Result<StoreTime, StoreFault> {
        self.read(|table| queries::time(&KeySpace(table)))
    }

    /// Returns items of an environment's content from a key on, and the key behind them; `None` at the end of a part.
    pub(super) fn contents(
        &self,
        from: &[u8],
        part: &[u8],
        count: usize,
    ) -> Result<(Vec<Item>, Option<Vec<u8>>), StoreFault> {
        let found = self.range(from, &layout::behind(part), count)?;
        let next = found.last().filter(|_| found.len() == count).map(|(key, _)| {
            let mut next = key.clone();
            next.push(0);
            next
        });
        let items = found.iter().map(|(key, value)| Item::read(key, value)).collect::<Result<_, _>>()?;
        Ok((items, next))
    }

    pub(super) fn range(&self, from: &[u8], to: &[u8], count: usize) -> Result<Vec<Pair>, StoreFault> {
        self.read(|table| KeySpace(table).range(from, to, count))
    }

    pub(super) fn write<T>(
        &self,
        is_durable: bool,
        work: impl FnOnce(&mut OpenTable<'_, '_, '_>) -> Result<T, StoreFault>,
    ) -> Result<T, StoreFault> {
        let written = self.try_to_write(is_durable, work);
        if matches!(written, Err(StoreFault::Away(_))) {
            self.close();
        }
        written
    }

    fn try_to_write<T>(
        &self,
        is_durable: bool,
        work: impl FnOnce(&mut OpenTable<'_, '_, '_>) -> Result<T, StoreFault>,
    ) -> Result<T, StoreFault> {
        self.transaction(is_durable, |table| {
            let mut table = OpenTable { table, sum: None };
            let done = work(&mut table)?;
            if is_durable {
                repeated::sweep(&mut table)?;
            }
            Ok(done)
        })
    }

    fn transaction<T>(
        &self,
        is_durable: bool,
        work: impl FnOnce(&mut StoreTable<'_>) -> Result<T, StoreFault>,
    ) -> Result<T, StoreFault> {
        let mut write = self.database()?.begin_write().map_err(failed)?;
        match is_durable {
            // What pages are free is written with it, so that a start after a crash need not read the whole file.
            true => write.set_quick_repair(true),
            false => write.set_durability(Durability::None).map_err(failed)?,
        }
        let done = work(&mut write.open_table(TABLE).map_err(failed)?)?;
        write.commit().map_err(failed)?;
        Ok(done)
    }

    /// Begins to gather so many bytes of changes. Nothing else may write the replica meanwhile.
    pub(super) fn gather(&self, enough: usize) -> Result<GatheredChanges, StoreFault> {
        GatheredChanges::before(self.latest()?, enough)
    }

    /// Makes a commit in memory; the changes that leave it come to the table with [`Replica::write_changes`].
    pub(super) fn repeat(
        &self,
        gathered: &mut GatheredChanges,
        entry: &Outstanding,
        read: ReadEntry,
    ) -> Result<RepeatedCommit, StoreFault> {
        repeated::repeat(gathered, entry, self.follows(entry, read), self.seals.is_sealing())
    }

    /// Writes changes that were gathered.
    pub(super) fn write_changes(&self, changes: &LeavingChanges, is_durable: bool) -> Result<(), StoreFault> {
        self.transaction(is_durable, |table| changes.write(table))
    }

    /// Makes the commits of entries, each behind the snapshot that stands for what was before it.
    pub(super) fn follow_behind(
        &self,
        entries: &[Outstanding],
        snapshots: &[TakenSnapshot],
        is_durable: bool,
    ) -> Result<Vec<Option<String>>, StoreFault> {
        let made = self.write(is_durable, |table| {
            let made = entries.iter().map(|entry| {
                take_in_before(entry, snapshots, table, &self.seals)?;
                match self.replay(table, entry)? {
                    // That it cannot be read says nothing about the store: perhaps a key is missing here.
                    RepeatedCommit::Unreadable(why) => Err(StoreFault::Broken(why)),
                    made => Ok(made.contradiction()),
                }
            });
            made.collect::<Result<Vec<_>, _>>()
        })?;
        for entry in entries.iter().filter(|entry| snapshots.iter().any(|snapshot| snapshot.is_before(entry))) {
            self.is_whole_at(entry.environment, entry.number);
        }
        Ok(made)
    }

    /// Takes a snapshot of another gate's replica, which counts with the first entry behind it. Fails where it was not made
    /// with a key of this gate.
    pub fn takes_snapshot(&self, snapshot: TakenSnapshot) -> Result<(), StoreFault> {
        ProvenSnapshot::open(&snapshot.file, &self.seals)?;
        self.taken.add(snapshot);
        Ok(())
    }

    /// Takes in a snapshot of a whole store; returns false where it must wait: the journal does not reach as far yet.
    pub(super) fn takes_in_whole(&self, snapshot: &TakenSnapshot) -> Result<bool, StoreFault> {
        let TakenSnapshot { environment, up_to, .. } = snapshot;
        if self.last(*environment)? < *up_to {
            return Ok(false);
        }
        // What is known behind the snapshot's end is read from the journal again.
        self.write(true, |table| snapshot.take_in(table, &self.seals))?;
        self.is_whole_at(*environment, *up_to);
        Ok(true)
    }

    fn replay(&self, table: &mut OpenTable<'_, '_, '_>, entry: &Outstanding) -> Result<RepeatedCommit, StoreFault> {
        let read = self.follows(entry, ReadEntry::of(entry, &self.seals));
        repeated::repeat(table, entry, read, self.seals.is_sealing())
    }

    /// Remembers an entry; returns its steps, unless they were made before.
    fn follows(&self, entry: &Outstanding, read: ReadEntry) -> ReadEntry {
        if self.followed.add(entry).is_some() { read.of_a_copy() } else { read }
    }
}

fn failed(error: impl std::fmt::Display) -> StoreFault {
    StoreFault::Away(error.to_string())
}

impl JournalledRecords for Replica {
    fn known(&self, key: &RecordKey, now: StoreTime) -> Result<KnownRecord, StoreFault> {
        self.read(|table| {
            let view = KeySpace(table);
            Ok(KnownRecord {
                record: queries::record(&view, key, now)?,
                begin: queries::begin(&view, key.environment)?,
                up_to: Number::new(queries::last(&view, key.environment)?),
                is_swept_ahead: queries::time(&view)?.minus(SWEEP_AFTER) > now,
            })
        })
    }

    fn doubted(&self, key: &RecordKey, why: &str) {
        self.doubted.add(key, why);
    }
}
