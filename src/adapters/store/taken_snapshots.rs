//! Snapshots that this gate took from another one. One of a rebuilt store is taken in with the entry of its rebuild, one of a
//! whole store as soon as the journal reaches as far.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::gathered::StoreMap;
use super::layout::{self, Item};
use super::sealed::Seals;
use super::snapshot::ProvenSnapshot;
use super::{plan, queries, repeated};
use crate::adapters::audit::SnapshotFile;
use crate::audit::unused_before;
use crate::base::ids::Environment;
use crate::ledger::{Number, Outstanding, StoreFault};

/// How many items are removed at a time.
const REMOVED_AT_ONCE: usize = 10_000;

/// A snapshot that stands for all of an environment up to a number.
#[derive(Clone, Debug)]
pub struct TakenSnapshot {
    pub environment: Environment,
    pub up_to: Number,
    pub file: SnapshotFile,
    /// Whether it is of a store that is being rebuilt.
    pub is_of_rebuild: bool,
}

impl TakenSnapshot {
    /// Whether this is the first entry of the store that has what the snapshot has.
    pub(super) fn is_before(&self, entry: &Outstanding) -> bool {
        self.is_of_rebuild
            && entry.environment == self.environment
            && unused_before(&entry.entry).is_some_and(|unused| unused.behind == self.up_to.as_u64())
    }

    /// Puts its content in the place of all that the map has of the environment.
    pub(super) fn take_in(&self, map: &mut impl StoreMap, seals: &Seals) -> Result<(), StoreFault> {
        let snapshot = ProvenSnapshot::open(&self.file, seals)?;
        repeated::forget(map, self.environment, Number::default())?;
        let committed = layout::committed(self.environment);
        loop {
            let some = map.range(&committed, &layout::behind(&committed), REMOVED_AT_ONCE)?;
            if some.is_empty() {
                break;
            }
            for (key, value) in some {
                map.make(plan::removes(&Item::read(&key, &value)?))?;
            }
        }
        let is_of = |environment: &Environment| *environment == self.environment;
        snapshot.items(&mut |item| {
            let is_taken = match &item {
                Item::Record(key, _) => is_of(&key.environment),
                Item::Member { environment, .. }
                | Item::Slot { environment, .. }
                | Item::Holder { environment, .. }
                | Item::Last(environment, _)
                | Item::Committed(environment, ..)
                | Item::SealedFrom(environment, _)
                | Item::Begin(environment, _) => is_of(environment),
                Item::Format(_)
                | Item::Time(_)
                | Item::Created(..)
                | Item::Outstanding(_)
                | Item::Former(..)
                // Its own.
                | Item::LeftOut(..)
                | Item::Kept(..)
                | Item::Derived => false,
            };
            if is_taken { map.make(plan::puts(&item)) } else { Ok(()) }
        })?;
        match queries::last(map, self.environment)? {
            last if last == self.up_to.as_u64() => Ok(()),
            last => Err(StoreFault::Broken(format!("the snapshot ends at {last}, not at {}", self.up_to))),
        }
    }
}

/// The snapshots that wait for their entry.
#[derive(Debug, Default)]
pub(super) struct TakenSnapshots(Mutex<BTreeMap<Environment, TakenSnapshot>>);

impl TakenSnapshots {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<Environment, TakenSnapshot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, snapshot: TakenSnapshot) {
        self.waiting().insert(snapshot.environment, snapshot);
    }

    /// Returns those whose entry is among these.
    pub fn before(&self, entries: &[Outstanding]) -> Vec<TakenSnapshot> {
        let waiting = self.waiting();
        waiting.values().filter(|one| entries.iter().any(|entry| one.is_before(entry))).cloned().collect()
    }

    /// Returns those of whole stores.
    pub fn of_whole_stores(&self) -> Vec<TakenSnapshot> {
        self.waiting().values().filter(|one| !one.is_of_rebuild).cloned().collect()
    }

    /// They are taken in, or cannot be.
    pub fn are_over(&self, snapshots: &[TakenSnapshot]) {
        for snapshot in snapshots {
            self.waiting().remove(&snapshot.environment);
            drop(fs::remove_file(&snapshot.file.path));
        }
    }
}

/// Takes in the snapshot before an entry, if there is one.
pub(super) fn take_in_before(
    entry: &Outstanding,
    snapshots: &[TakenSnapshot],
    map: &mut impl StoreMap,
    seals: &Seals,
) -> Result<(), StoreFault> {
    snapshots.iter().filter(|one| one.is_before(entry)).try_for_each(|one| one.take_in(map, seals))
}
