//! A replica takes in what its gate's journal has: its entries, and the snapshots that stand for those before them.

use std::sync::mpsc::{self, SyncSender};
use std::thread;

use super::changes_writer::ChangesWriter;
use super::gathered::StoreMap as _;
use super::layout::{self, Item};
use super::plan::{self, PlannedChange};
use super::repeated;
use super::replica::Replica;
use super::snapshot::ProvenSnapshot;
use crate::adapters::audit::{Follower, SnapshotFile};
use crate::audit::Highest;
use crate::base::ids::Environment;
use crate::ledger::{Number, Outstanding, StoreFault};

/// How many bytes of a snapshot's content are gathered before they are written. As many are written meanwhile.
const GATHERED: usize = 48 << 20;
/// How many changes go from one thread to another at a time, and how many such parts may wait.
const PART: usize = 1_024;
const QUEUE: usize = 4;

impl Follower for Replica {
    fn follow(&self, entries: &[Outstanding], is_durable: bool) -> Result<Vec<Option<String>>, String> {
        let snapshots = self.taken.before(entries);
        if snapshots.is_empty() {
            return self.follow_behind(entries, &[], is_durable).map_err(|fault| fault.to_string());
        }
        let made = self.follow_behind(entries, &snapshots, true);
        self.taken.are_over(&snapshots);
        let made = made.or_else(|fault| {
            tracing::error!(%fault, "the snapshot of the rebuilt store cannot be taken in: this journal begins behind the rebuild");
            self.follow_behind(entries, &[], is_durable)
        });
        made.map_err(|fault| fault.to_string())
    }

    fn skip(&self, environment: Environment, up_to: u64) -> Result<(), String> {
        // What is known may have changed in the entries that are left out.
        let skipped = self.write(true, |table| repeated::forget(table, environment, Number::new(up_to)));
        skipped.map_err(|fault| fault.to_string())
    }

    fn begin_anew(&self) -> Result<(), String> {
        let parts = Environment::ALL.into_iter().flat_map(layout::contents);
        let found = parts.map(|part| self.range(&part, &layout::behind(&part), 1));
        let has_some = found.collect::<Result<Vec<_>, _>>().map(|found| found.iter().any(|pairs| !pairs.is_empty()));
        let begun = has_some.and_then(|has_some| if has_some { self.forget_all() } else { Ok(()) });
        begun.map_err(|fault| fault.to_string())
    }

    fn restore(&self, snapshot: &SnapshotFile) -> Result<(), String> {
        let restored = self.restore_all(snapshot).inspect_err(|_| {
            // A start that comes later must not take a part of it for the whole.
            if let Err(fault) = self.forget_all() {
                tracing::error!(%fault, "the replica cannot be emptied");
            }
        });
        restored.map_err(|fault| format!("`{}`: {fault}", snapshot.path.display()))
    }

    fn reached(&self) -> Result<Highest, String> {
        let last = |environment| self.last(environment).map(|last| (environment, last.as_u64()));
        let all: Result<Highest, StoreFault> = Environment::ALL.into_iter().map(last).collect();
        all.map(|all| all.into_iter().filter(|(_, number)| *number > 0).collect()).map_err(|fault| fault.to_string())
    }
}

impl Replica {
    fn forget_all(&self) -> Result<(), StoreFault> {
        self.write(true, |table| {
            Environment::ALL
                .into_iter()
                .try_for_each(|environment| repeated::forget(table, environment, Number::default()))
        })
    }

    /// Takes the content of a snapshot and nothing else. The numbers up to which it reaches come last: a start after a crash
    /// that does not find them begins anew.
    fn restore_all(&self, snapshot: &SnapshotFile) -> Result<(), StoreFault> {
        let proven = ProvenSnapshot::open(snapshot, &self.seals)?;
        self.forget_all()?;
        let mut gathered = self.gather(GATHERED)?;
        let reach = thread::scope(|scope| {
            let (parts, to_make) = mpsc::sync_channel(QUEUE);
            let reading = scope.spawn(move || read_changes(proven, parts));
            let mut writer = ChangesWriter::begin(scope, self);
            for changes in to_make {
                gathered.make(changes)?;
                if gathered.are_enough() {
                    writer.write(&mut gathered)?;
                }
            }
            let reach = reading.join().unwrap_or_else(|_| Err(ended()))?;
            writer.write_all(&mut gathered)?;
            Ok::<_, StoreFault>(reach)
        })?;
        self.write(true, |table| table.make(reach))
    }
}

/// Reads a snapshot and passes on what it puts into a table; returns what says up to which number it reaches.
fn read_changes(
    snapshot: ProvenSnapshot,
    parts: SyncSender<Vec<PlannedChange>>,
) -> Result<Vec<PlannedChange>, StoreFault> {
    let (mut part, mut reach) = (Vec::with_capacity(PART), Vec::new());
    snapshot.items(&mut |item| {
        if matches!(item, Item::Last(..)) {
            reach.extend(plan::puts(&item));
            return Ok(());
        }
        part.extend(plan::puts(&item));
        if part.len() < PART {
            return Ok(());
        }
        let full = std::mem::replace(&mut part, Vec::with_capacity(PART));
        parts.send(full).map_err(|_| ended())
    })?;
    parts.send(part).map_err(|_| ended())?;
    Ok(reach)
}

fn ended() -> StoreFault {
    StoreFault::Away("a thread that took a snapshot in has ended".to_owned())
}
