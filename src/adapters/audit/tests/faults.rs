//! Disks that fail.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::sync::{Condvar, MutexGuard};

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::*;
use crate::adapters::audit::log::EntryRefusal;
use crate::adapters::audit::start;

/// What becomes of the next thing that is asked of the disk.
#[derive(Clone, Copy, Debug)]
enum DiskFate {
    Good,
    /// It fails; a write has done so many bytes of it first, a sync has lost all but so many of what was not synced.
    Bad(u16),
    /// A write does no more than so many bytes, and says so.
    Short(u16),
}

/// What all files of a disk share.
#[derive(Debug, Default)]
struct DiskState {
    fates: VecDeque<DiskFate>,
    /// Bytes that fit on the disk from now on; `None` for all there are.
    room: Option<u64>,
    is_frozen: bool,
    /// How much of each file outlives a loss of power.
    synced: BTreeMap<PathBuf, u64>,
}

#[derive(Clone, Debug, Default)]
struct Faulty(Arc<(Mutex<DiskState>, Condvar)>);

#[derive(Debug)]
struct FaultyFile {
    disk: Faulty,
    file: Box<dyn DiskFile>,
    path: PathBuf,
}

fn bad() -> io::Error {
    io::Error::other("the disk fails")
}

impl Faulty {
    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.0.0.lock().unwrap()
    }

    fn set(&self, change: impl FnOnce(&mut DiskState)) {
        change(&mut self.state());
        self.0.1.notify_all();
    }

    fn next(&self) -> DiskFate {
        let mut state = self.0.1.wait_while(self.state(), |state| state.is_frozen).unwrap();
        state.fates.pop_front().unwrap_or(DiskFate::Good)
    }

    fn file(&self, path: &Path, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(FaultyFile { disk: self.clone(), file, path: path.to_owned() })
    }

    /// What was not synced is gone.
    fn lose_power(&self, folder: &Path) {
        for file in audit_files(folder).unwrap() {
            let synced = self.state().synced.get(&file.path).copied().unwrap_or(0);
            let opened = File::options().write(true).open(&file.path).unwrap();
            opened.set_len(synced.min(opened.metadata().unwrap().len())).unwrap();
        }
    }
}

impl Disk for Faulty {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        match self.next() {
            // It may be there all the same.
            DiskFate::Bad(kept) => {
                if kept % 2 == 0 {
                    MachineDisk.create(path)?;
                }
                Err(bad())
            }
            _ => {
                let file = MachineDisk.create(path)?;
                self.state().synced.insert(path.to_owned(), 0);
                Ok(self.file(path, file))
            }
        }
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        match self.next() {
            DiskFate::Bad(_) => Err(bad()),
            _ => Ok(self.file(path, MachineDisk.open(path)?)),
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match self.next() {
            DiskFate::Bad(_) => Err(bad()),
            _ => MachineDisk.remove(path),
        }
    }
}

impl DiskFile for FaultyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fate = self.disk.next();
        let mut room = self.disk.state().room;
        let fits = room.map_or(bytes.len(), |room| bytes.len().min(usize::try_from(room).unwrap()));
        let (count, fails) = match fate {
            DiskFate::Good => (fits, false),
            DiskFate::Bad(count) => (fits.min(usize::from(count) % (bytes.len() + 1)), true),
            DiskFate::Short(count) => (fits.min(1 + usize::from(count) % bytes.len()), false),
        };
        if count > 0 {
            assert_eq!(self.file.write(&bytes[..count])?, count);
        }
        if let Some(room) = &mut room {
            *room -= count as u64;
            self.disk.state().room = Some(*room);
        }
        match (fails, count) {
            (true, _) => Err(bad()),
            (false, 0) => Err(io::ErrorKind::StorageFull.into()),
            (false, count) => Ok(count),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        let length = self.file.length()?;
        if let DiskFate::Bad(kept) = self.disk.next() {
            let synced = self.disk.state().synced.get(&self.path).copied().unwrap_or(0);
            let left = synced + u64::from(kept) % (length - synced + 1);
            self.file.cut(left)?;
            return Err(bad());
        }
        // Power is lost in play only: no real sync is needed.
        self.disk.state().synced.insert(self.path.clone(), length);
        Ok(())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        if let DiskFate::Bad(_) = self.disk.next() {
            return Err(bad());
        }
        let before = self.file.length()?;
        let mut state = self.disk.state();
        let synced = state.synced.entry(self.path.clone()).or_default();
        *synced = length.min(*synced);
        if let Some(room) = &mut state.room {
            *room += before - length;
        }
        drop(state);
        self.file.cut(length)
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }
}

#[derive(Clone, Debug)]
enum DiskStep {
    /// Lists of numbers, written together.
    Append(Vec<Vec<u64>>),
    Probe,
    /// The process is killed and started again.
    Restart,
    /// The machine loses power, and comes again.
    PowerLoss,
    /// The next day begins.
    Day,
}

fn step() -> impl Strategy<Value = DiskStep> {
    let list = prop::collection::vec(1_u64..40, 0..4);
    prop_oneof![
        8 => prop::collection::vec(list, 1..4).prop_map(DiskStep::Append),
        2 => Just(DiskStep::Probe),
        1 => Just(DiskStep::Restart),
        1 => Just(DiskStep::PowerLoss),
        1 => Just(DiskStep::Day),
    ]
}

fn fate() -> impl Strategy<Value = DiskFate> {
    prop_oneof![
        5 => Just(DiskFate::Good),
        2 => any::<u16>().prop_map(DiskFate::Bad),
        1 => any::<u16>().prop_map(DiskFate::Short),
    ]
}

fn started(disk: &Faulty, folder: &Path, clock: &Arc<Hand>) -> Result<Log, TestCaseError> {
    let place = LogPosition { folder: AuditFolder::at(folder), node: node(), rotate_bytes: 1200 };
    loop {
        let start = start::find_start(folder, &node(), None).map_err(|fault| TestCaseError::fail(fault.to_string()))?;
        let clock: Arc<dyn Clock> = Arc::clone(clock) as _;
        if let Ok(log) = Log::new(Box::new(disk.clone()), clock, place.clone(), start.tip, start.remembered) {
            return Ok(log);
        }
    }
}

fn prepared(numbers: &[u64]) -> Vec<Prepared> {
    numbers.iter().map(|number| prepare(&entry(*number)).unwrap()).collect()
}

/// Every number that stands in a good line, in the order of files and lines; each once.
fn standing(folder: &Path) -> Result<BTreeSet<u64>, TestCaseError> {
    let mut numbers = BTreeSet::new();
    let mut twice = None;
    for file in audit_files(folder).unwrap() {
        scan(fs::read(&file.path).unwrap().as_slice(), |line| {
            let LineBody::Entry(entry) = line.body else { return };
            if !numbers.insert(entry.number.as_u64()) {
                twice = Some(entry.number);
            }
        })
        .unwrap();
    }
    prop_assert_eq!(twice, None);
    Ok(numbers)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The model is a set: what was acknowledged.
    #[test]
    fn what_was_acknowledged_stands_there_once_whatever_fails(
        steps in prop::collection::vec(step(), 1..24),
        fates in prop::collection::vec(fate(), 0..60),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (disk, clock) = (Faulty::default(), Arc::new(Hand::default()));
        disk.set(|state| state.fates = fates.into());
        let mut log = started(&disk, folder.path(), &clock)?;
        let mut acknowledged = BTreeSet::new();
        for step in steps {
            match step {
                DiskStep::Append(lists) => {
                    let entries: Vec<Vec<Prepared>> = lists.iter().map(|list| prepared(list)).collect();
                    let slices: Vec<&[Prepared]> = entries.iter().map(Vec::as_slice).collect();
                    for (list, result) in lists.iter().zip(log.append(&slices)) {
                        prop_assert!(!matches!(result, Err(EntryRefusal::Clash(_))));
                        if result.is_ok() {
                            acknowledged.extend(list.iter().copied());
                        }
                    }
                }
                DiskStep::Probe => drop(log.probe()),
                DiskStep::Restart => {
                    drop(log);
                    log = started(&disk, folder.path(), &clock)?;
                }
                DiskStep::PowerLoss => {
                    drop(log);
                    disk.lose_power(folder.path());
                    log = started(&disk, folder.path(), &clock)?;
                }
                DiskStep::Day => drop(clock.0.fetch_add(DAY_SECS, Ordering::Relaxed)),
            }
            prop_assert!(standing(folder.path())?.is_superset(&acknowledged), "what was acknowledged is not there");
        }
        disk.set(|state| state.fates.clear());
        let all: Vec<u64> = (1..40).collect();
        prop_assert!(log.append(&[&prepared(&all)]).iter().all(Result::is_ok), "it does not resume");
        prop_assert_eq!(read_numbers(folder.path()).into_values().flatten().collect::<BTreeSet<_>>(), all.into_iter().collect());
        prop_assert_eq!(standing(folder.path())?.len(), 39);
    }
}

async fn until(is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(Duration::from_secs(20), wait).await.unwrap();
}

#[tokio::test]
async fn a_full_disk_is_told_and_used_again_by_itself_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Faulty::default();
    let audit = AuditFiles::on(Box::new(disk.clone()), settings(folder.path()), Arc::new(Hand::default())).unwrap();
    audit.append(vec![entry(1)]).await.unwrap();
    disk.set(|state| state.room = Some(100));
    let fault = audit.append(vec![entry(2), entry(3)]).await.unwrap_err();
    assert!(fault.to_string().contains("audit-a-00000001.jsonl"), "{fault}");
    assert!(!audit.is_well());
    assert_eq!(read_numbers(folder.path()), BTreeMap::from([(1, vec![1])]));
    disk.set(|state| state.room = None);
    until(|| audit.is_well()).await;
    audit.append(vec![entry(2)]).await.unwrap();
    assert_eq!(read_numbers(folder.path()), BTreeMap::from([(1, vec![1, 2])]));
}

#[tokio::test]
async fn a_frozen_disk_fails_the_caller_in_time_and_what_it_did_after_all_is_not_done_twice() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Faulty::default();
    let hasty = AuditSettings { deadline: Duration::from_millis(50), queue: 2, ..settings(folder.path()) };
    let audit = AuditFiles::on(Box::new(disk.clone()), hasty, Arc::new(Hand::default())).unwrap();
    audit.append(vec![entry(1)]).await.unwrap();
    disk.set(|state| state.is_frozen = true);
    // More than the queue holds: all of them are answered.
    for number in 2..6 {
        let fault = audit.append(vec![entry(number)]).await.unwrap_err();
        assert!(fault.to_string().contains("50 ms"), "{fault}");
        assert!(!audit.is_well());
    }
    disk.set(|state| state.is_frozen = false);
    until(|| audit.is_well()).await;
    audit.append((1..6).map(entry).collect()).await.unwrap();
    assert_eq!(read_numbers(folder.path()), BTreeMap::from([(1, vec![1, 2, 3, 4, 5])]));
}

#[tokio::test]
async fn a_file_that_is_taken_away_or_touched_meanwhile_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let audit = open(folder.path()).unwrap();
    audit.append(vec![entry(1)]).await.unwrap();
    let path = audit_file(folder.path(), &node(), 1);
    let aside = folder.path().join("aside");
    fs::rename(&path, &aside).unwrap();
    audit.append(vec![entry(2)]).await.unwrap_err();
    assert!(!audit.is_well());
    fs::rename(&aside, &path).unwrap();
    until(|| audit.is_well()).await;
    audit.append(vec![entry(2)]).await.unwrap();

    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 10]).unwrap();
    audit.append(vec![entry(3)]).await.unwrap_err();
    assert!(!audit.is_well());
    fs::write(&path, &whole).unwrap();
    until(|| audit.is_well()).await;
    audit.append(vec![entry(3)]).await.unwrap();
    assert_eq!(read_numbers(folder.path()), BTreeMap::from([(1, vec![1, 2, 3])]));
}

#[tokio::test]
async fn a_start_that_the_disk_refuses_leaves_the_name_of_who_wrote_before() {
    let folder = tempfile::tempdir().unwrap();
    let before = open(folder.path()).unwrap();
    let instance = before.instance().to_owned();
    drop(before);
    let disk = Faulty::default();
    disk.set(|state| state.fates.push_back(DiskFate::Bad(0)));
    let refused = AuditFiles::on(Box::new(disk), settings(folder.path()), Arc::new(Hand::default()));
    assert!(matches!(refused, Err(OpenFault::Disk { .. })));
    let after = open(folder.path()).unwrap();
    assert_eq!(after.former(), Some(instance.as_str()));
}
