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

    fn take_in(&self) -> Result<bool, String> {
        let mut took = false;
        for snapshot in self.taken.of_whole_stores() {
            match self.takes_in_whole(&snapshot) {
                Ok(false) => continue,
                Ok(true) => took = true,
                Err(fault) => {
                    tracing::error!(%fault, "the snapshot of another gate cannot be taken in: this journal begins in the middle");
                }
            }
            self.taken.are_over(&[snapshot]);
        }
        Ok(took)
    }

    fn skip(&self, environment: Environment, up_to: u64) -> Result<(), String> {
        self.followed.pass_over(environment, up_to);
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

    fn restore(&self, snapshot: &SnapshotFile) -> Result<Option<String>, String> {
        let restored = ProvenSnapshot::open(snapshot, &self.seals).and_then(|proven| {
            self.restore_all(proven).inspect_err(|_| {
                if let Err(fault) = self.forget_all() {
                    tracing::error!(%fault, "a part of a snapshot stays in the replica until the next start");
                }
            })
        });
        let named = |why: String| format!("`{}`: {why}", snapshot.path.display());
        match restored {
            Ok(()) => Ok(None),
            Err(StoreFault::Broken(why)) => Ok(Some(named(why))),
            Err(fault) => Err(named(fault.to_string())),
        }
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
    fn restore_all(&self, proven: ProvenSnapshot) -> Result<(), StoreFault> {
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

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;

    use bytes::Bytes;

    use super::super::layout::{END, FOREVER, Spent, Stored, WindowSlot};
    use super::super::queries::Pair;
    use super::super::sealed::Seals;
    use super::super::snapshot::SnapshotSource as _;
    use super::*;
    use crate::adapters::audit::catch_up;
    use crate::ledger::{Content, Index, Kind, NodeId, RecordKey, StoreTime, WindowKey};

    const ENVIRONMENT: Environment = Environment::Production;

    /// The items of some payments, in no order.
    fn items(count: i64) -> impl Iterator<Item = Item> {
        let at = StoreTime::of_micros;
        (0..count).flat_map(move |nth| {
            let name = format!("request/{:016x}", nth.wrapping_mul(0x1e37_79b9_7f4a_7c15));
            let key = RecordKey { environment: ENVIRONMENT, kind: Kind::Claim, name: name.clone() };
            let content = Content::Whole(Bytes::from(name.clone()));
            let stored =
                Stored { version: Number::new(1), at: at(nth), whole_until: at(nth), gone_at: FOREVER, content };
            let window = WindowKey { limit: "day".to_owned(), key: format!("caller-{}", nth % 7) };
            let (slot, spent) = (WindowSlot { begin: at(nth), end: at(nth + 9) }, Spent { units: 5, until: FOREVER });
            [
                Item::Record(key, stored),
                Item::Member { environment: ENVIRONMENT, index: Index::Sending, member: name, due: at(nth) },
                Item::Slot { environment: ENVIRONMENT, window, slot, spent },
            ]
        })
    }

    fn replica(folder: &Path) -> Replica {
        Replica::open(folder, Seals::default()).unwrap()
    }

    fn put(replica: &Replica, items: impl Iterator<Item = Item>) {
        replica.write(true, |table| items.into_iter().try_for_each(|item| table.make(plan::puts(&item)))).unwrap();
    }

    fn all(replica: &Replica) -> Vec<Pair> {
        replica.range(&[], &END, usize::MAX).unwrap()
    }

    /// Whether it is of what commits make: records, members, slots, and when they expire.
    fn is_content((key, _): &Pair) -> bool {
        key.first().is_some_and(|letter| b"rdmshx".contains(letter))
    }

    fn snapshot_of(replica: &Replica, folder: &Path) -> SnapshotFile {
        let node = NodeId::parse("a").unwrap();
        let path = folder.join("audit-a-00000005.snapshot");
        replica.content().unwrap().write(&node, 5, &Seals::default(), &mut File::create(&path).unwrap()).unwrap();
        SnapshotFile { node, sequence: 5, path }
    }

    #[test]
    fn a_snapshot_is_taken_whole_or_not_at_all() {
        let home = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| replica(&home.path().join(name)));
        put(&from, items(3_000).chain([Item::Last(ENVIRONMENT, Number::new(70)), Item::Time(StoreTime::of_micros(9))]));
        let snapshot = snapshot_of(&from, home.path());
        // What was there before is not in the snapshot.
        let before = || items(3_100).skip(9_200).chain([Item::Last(ENVIRONMENT, Number::new(8))]);
        put(&to, before());
        to.restore(&snapshot).unwrap();
        assert_eq!(to.reached(), Ok(Highest::from([(ENVIRONMENT, 70)])));
        let content = |replica: &Replica| all(replica).into_iter().filter(is_content).collect::<Vec<_>>();
        assert!(content(&to) == content(&from));

        // One line in its middle is no item; without a key, nothing shows that beforehand.
        let text = fs::read_to_string(&snapshot.path).unwrap();
        let half = text.len() / 2;
        let line = half + text[half..].find('\n').unwrap() + 1;
        fs::write(&snapshot.path, [&text[..line], "{}\n", &text[line..]].concat()).unwrap();
        put(&to, before());
        let why = to.restore(&snapshot).unwrap().unwrap();
        assert!(why.contains("line"), "{why}");
        assert_eq!(to.reached(), Ok(Highest::new()));
        assert!(content(&to).is_empty());
    }

    /// The process was killed before it had taken the whole of a snapshot.
    #[test]
    fn a_start_forgets_a_part_of_a_snapshot() {
        let home = tempfile::tempdir().unwrap();
        let (to, journal) = (replica(&home.path().join("to")), home.path().join("journal"));
        fs::create_dir(&journal).unwrap();
        put(&to, items(20));
        catch_up(&to, &journal, &NodeId::parse("a").unwrap(), &mut |entry, why| panic!("{entry:?} {why}")).unwrap();
        assert!(!all(&to).iter().any(is_content));
        // One that has followed something keeps it.
        put(&to, items(20).chain([Item::Last(ENVIRONMENT, Number::new(8))]));
        catch_up(&to, &journal, &NodeId::parse("a").unwrap(), &mut |entry, why| panic!("{entry:?} {why}")).unwrap();
        assert!(all(&to).iter().any(is_content));
    }
}
