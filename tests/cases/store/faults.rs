//! The embedded store on a disk that is full, fails, or does not answer.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use sluice::adapters::store::embedded::{Embedded, Medium, Options};
use sluice::ledger::{CommitError, ConflictCause, Receipt, StoreFault, WriteRefusal};
use sluice::ports::Store;
use tokio::task::JoinSet;

use super::asked::*;
use super::{BEGIN, Hand};
use crate::support::clock::{PATIENCE, Watch};

const ENOSPC: i32 = 28;
const EIO: i32 = 5;

/// A disk under a page cache: what was not synced is gone when the power is, and what a sync could not write counts as
/// written from then on, as on Linux.
#[derive(Debug, Default)]
struct Disk {
    pages: Mutex<Pages>,
    /// Takes nothing new; what is there can be overwritten.
    is_full: AtomicBool,
    /// Nothing works.
    is_dead: AtomicBool,
    /// Writes and syncs until one of them fails; then none does.
    fails_after: AtomicI64,
    /// So many syncs fail.
    failing_syncs: AtomicI64,
    /// Syncs wait as long as this holds.
    is_stuck: Mutex<bool>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Pages {
    cache: Vec<u8>,
    disk: Vec<u8>,
    dirty: Vec<(usize, usize)>,
    /// What was written once; the rest of the file are holes.
    taken: usize,
}

impl Disk {
    fn new() -> Arc<Disk> {
        Arc::new(Disk { fails_after: AtomicI64::new(i64::MAX), ..Disk::default() })
    }

    fn lose_power(&self) {
        let mut pages = self.pages.lock().unwrap();
        pages.cache = pages.disk.clone();
        pages.dirty.clear();
    }

    fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
    }

    fn set_stuck(&self, is_stuck: bool) {
        *self.is_stuck.lock().unwrap() = is_stuck;
        self.moved.notify_all();
    }

    fn fail_after(&self, count: i64) {
        self.fails_after.store(count, Ordering::SeqCst);
    }

    fn alive(&self) -> io::Result<()> {
        if self.is_dead.load(Ordering::SeqCst) { Err(io::Error::from_raw_os_error(EIO)) } else { Ok(()) }
    }

    fn act(&self) -> io::Result<()> {
        self.alive()?;
        if self.fails_after.fetch_sub(1, Ordering::SeqCst) == 0 {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        Ok(())
    }
}

impl Medium for Disk {
    fn size(&self) -> io::Result<u64> {
        self.alive()?;
        Ok(self.pages.lock().unwrap().cache.len() as u64)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.alive()?;
        let offset = usize::try_from(offset).unwrap();
        let pages = self.pages.lock().unwrap();
        let from = pages.cache.get(offset..offset + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(from);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.act()?;
        let offset = usize::try_from(offset).unwrap();
        let mut pages = self.pages.lock().unwrap();
        let end = offset + data.len();
        if self.is_full.load(Ordering::SeqCst) && end > pages.taken {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        pages.taken = pages.taken.max(end);
        if pages.cache.len() < end {
            pages.cache.resize(end, 0);
        }
        pages.cache[offset..end].copy_from_slice(data);
        pages.dirty.push((offset, end));
        Ok(())
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.act()?;
        let size = usize::try_from(size).unwrap();
        let mut pages = self.pages.lock().unwrap();
        pages.cache.resize(size, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let stuck = self.is_stuck.lock().unwrap();
        drop(self.moved.wait_while(stuck, |is_stuck| *is_stuck).unwrap());
        let fails = self.failing_syncs.fetch_sub(1, Ordering::SeqCst) > 0;
        let acted = if fails { Err(io::Error::from_raw_os_error(EIO)) } else { self.act() };
        let mut pages = self.pages.lock().unwrap();
        let dirty = std::mem::take(&mut pages.dirty);
        acted?;
        let Pages { cache, disk, .. } = &mut *pages;
        disk.resize(cache.len(), 0);
        for (from, to) in dirty {
            let to = to.min(cache.len());
            if from < to {
                disk[from..to].copy_from_slice(&cache[from..to]);
            }
        }
        Ok(())
    }

    fn has_room(&self) -> io::Result<()> {
        self.alive()?;
        if self.is_full.load(Ordering::SeqCst) { Err(io::Error::from_raw_os_error(ENOSPC)) } else { Ok(()) }
    }
}

fn open(disk: &Arc<Disk>, options: Options) -> Embedded {
    Embedded::over(disk.clone(), Hand::at(BEGIN), options).unwrap()
}

fn in_short() -> Options {
    Options { deadline: Duration::from_millis(500), queue: 2, ..Options::default() }
}

async fn creates(store: &Embedded, name: &str, value: &str) -> Result<Receipt, CommitError> {
    store.commit(commit(vec![create(name, value)])).await
}

/// As a caller would that comes again.
async fn creates_at_last(store: &Embedded, name: &str) -> Receipt {
    let watch = Watch::start();
    loop {
        match creates(store, name, "at last").await {
            Ok(committed) => return committed,
            Err(CommitError::Fault(StoreFault::Away(why))) => assert!(!watch.left().is_zero(), "{why}"),
            Err(other) => panic!("{other:?}"),
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_and_goes_on_when_there_is_room() {
    let disk = Disk::new();
    let store = open(&disk, Options::default());
    creates(&store, "before", "one").await.unwrap();
    disk.set_full(true);
    let large = "x".repeat(3_000_000);
    for round in 0..5 {
        let refused = creates(&store, &format!("while-{round}"), &large).await;
        assert!(matches!(refused, Err(CommitError::Fault(StoreFault::Away(_)))), "{refused:?}");
        // What is there can be read all the time.
        assert_eq!(value(&store, "before").await.unwrap(), "one");
        assert_eq!(value(&store, "while-0").await, None);
        assert_eq!(store.refusal().await, Ok(Some(WriteRefusal::Disk)));
    }
    disk.set_full(false);
    // It finds that out by itself, without a commit.
    let watch = Watch::start();
    while store.refusal().await != Ok(None) {
        assert!(watch.elapsed() < PATIENCE, "it never takes writes again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(creates_at_last(&store, "after").await.number().as_u64(), 2);
    assert_eq!(creates(&store, "large", &large).await.unwrap().number().as_u64(), 3);
    drop(store);
    disk.lose_power();
    let store = open(&disk, Options::default());
    assert_eq!(value(&store, "after").await.unwrap(), "at last");
    assert_eq!(value(&store, "large").await.unwrap(), large);
}

/// Every write and sync of a run fails once, each in a run of its own: no answer is ever untrue.
#[tokio::test(flavor = "multi_thread")]
async fn wherever_the_disk_fails_every_answer_is_true() {
    for at in 0.. {
        let disk = Disk::new();
        let store = Arc::new(open(&disk, Options::default()));
        creates(&store, "first", "one").await.unwrap();
        disk.fail_after(at);
        let mut answers = Vec::new();
        for round in 0..3 {
            let mut tasks = JoinSet::new();
            for who in 0..4 {
                let store = Arc::clone(&store);
                // Two and two want the same name.
                let name = format!("{round}-{}", who / 2);
                tasks.spawn(async move { (name.clone(), creates(&store, &name, &who.to_string()).await) });
            }
            answers.extend(tasks.join_all().await);
        }
        let has_failed = disk.fails_after.load(Ordering::SeqCst) < 0;
        let last = creates_at_last(&store, "last").await;
        drop(store);
        disk.lose_power();
        let store = open(&disk, Options::default());
        let mut done = 0;
        for (name, answer) in answers {
            let record = store.read(&claim(&name)).await.unwrap().0;
            match answer {
                Ok(committed) => {
                    assert_eq!(record.unwrap().version, committed.number(), "{at}: {name}");
                    done += 1;
                }
                Err(CommitError::Rejected { conflicts, .. }) => {
                    assert_eq!(Some(&conflicts[0].found), record.map(ConflictCause::Record).as_ref(), "{at}: {name}");
                }
                Err(CommitError::Fault(StoreFault::Away(_))) => {}
                Err(other) => panic!("{at}: {name}: it could be known: {other:?}"),
            }
        }
        assert_eq!(last.number().as_u64(), done + 2, "{at}");
        assert_eq!(outbox(&store).await.len() as u64, done + 2, "{at}");
        if !has_failed {
            assert!(at > 5, "only {at} places to fail at");
            break;
        }
    }
}

/// What the journal keeps is not on the store's disk when it fails; it is not lost as long as the process lives.
#[tokio::test(flavor = "multi_thread")]
async fn wherever_the_disk_fails_what_the_journal_keeps_stays() {
    for at in 0.. {
        let disk = Disk::new();
        let store = open(&disk, Options::default());
        let mut kept = Vec::new();
        let mut keep = async |name: &str| match store.commit_for_journal(commit(vec![create(name, "one")])).await {
            Ok(receipt) => kept.push((name.to_owned(), receipt.number())),
            Err(CommitError::Fault(StoreFault::Away(_))) => {}
            Err(other) => panic!("{at}: {other:?}"),
        };
        for name in ["a", "b", "c"] {
            keep(name).await;
        }
        disk.fail_after(at);
        // One of them brings all to the disk, or fails.
        drop(creates(&store, "durable", "one").await);
        keep("d").await;
        drop(store.flush().await);
        keep("e").await;
        let has_failed = disk.fails_after.load(Ordering::SeqCst) < 0;
        creates_at_last(&store, "last").await;
        assert!(kept.len() >= 3, "{at}");
        let mut store = Some(store);
        for when in ["while it runs", "after an end in order and a power failure"] {
            let reading = store.take().unwrap_or_else(|| open(&disk, Options::default()));
            for (name, number) in &kept {
                let record = reading.read(&claim(name)).await.unwrap().0;
                assert_eq!(record.map(|record| record.version), Some(*number), "{at}: {name}, {when}");
            }
            drop(reading);
            disk.lose_power();
        }
        if !has_failed {
            assert!(at > 5, "only {at} places to fail at");
            break;
        }
    }
}

/// What the page cache shows after a failed fsync may never have reached the disk, and a later fsync does not bring it
/// there. With a tree of many pages nothing else writes them again either.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_failed_fsync_left_behind_is_not_believed() {
    for failing in 1..4 {
        let disk = Disk::new();
        let store = open(&disk, Options::default());
        let large = "x".repeat(2_000);
        for first in 0..10 {
            let steps = (0..30).map(|at| create(&format!("{first}-{at}"), &large)).collect();
            does(&store, steps).await;
        }
        disk.failing_syncs.store(failing, Ordering::SeqCst);
        let steps = (0..30).map(|at| create(&format!("5-{at}-more"), &large)).collect();
        let answer = store.commit(commit(steps)).await;
        disk.failing_syncs.store(0, Ordering::SeqCst);
        creates_at_last(&store, "z").await;
        drop(store);
        disk.lose_power();
        let store = open(&disk, Options::default());
        for at in 0..30 {
            let there = value(&store, &format!("5-{at}-more")).await;
            match &answer {
                Ok(_) => assert_eq!(there.as_deref(), Some(large.as_str()), "{failing}: {at}"),
                Err(CommitError::Fault(StoreFault::Away(_))) => assert_eq!(there, None, "{failing}: {at}"),
                // The disk did not even let it be seen what became of it.
                Err(CommitError::Fault(StoreFault::InDoubt(_))) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        for first in 0..10 {
            for at in 0..30 {
                assert!(value(&store, &format!("{first}-{at}")).await.is_some());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_gone_leaves_doubt_and_comes_back() {
    let disk = Disk::new();
    let store = Arc::new(open(&disk, Options::default()));
    creates(&store, "before", "one").await.unwrap();
    disk.set_stuck(true);
    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { creates(&store, "during", "two").await }
    });
    // Once the header has it, nobody can say any more.
    disk.is_dead.store(true, Ordering::SeqCst);
    disk.set_stuck(false);
    let answer = waiting.await.unwrap();
    let Err(CommitError::Fault(fault)) = &answer else { panic!("{answer:?}") };
    assert!(matches!(fault, StoreFault::InDoubt(_) | StoreFault::Away(_)));
    assert!(matches!(store.read(&claim("before")).await, Err(StoreFault::Away(_))));
    assert!(matches!(creates(&store, "x", "y").await, Err(CommitError::Fault(StoreFault::Away(_)))));
    disk.is_dead.store(false, Ordering::SeqCst);
    creates_at_last(&store, "after").await;
    assert_eq!(value(&*store, "before").await.unwrap(), "one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_does_not_answer_is_waited_for_until_the_deadline() {
    let disk = Disk::new();
    let store = Arc::new(open(&disk, in_short()));
    creates(&store, "before", "one").await.unwrap();
    disk.set_stuck(true);
    let of = |name: &'static str| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { creates(&store, name, "two").await })
    };
    let begun = of("begun").await.unwrap();
    assert!(matches!(begun, Err(CommitError::Fault(StoreFault::InDoubt(_)))), "{begun:?}");
    // What waits behind it is given up before it is begun; of more than two, the rest are refused at once.
    let watch = Watch::start();
    let answers = [of("a"), of("b"), of("c"), of("d")];
    for answer in answers {
        let answer = answer.await.unwrap();
        assert!(matches!(answer, Err(CommitError::Fault(StoreFault::Away(_)))), "{answer:?}");
    }
    assert!(watch.elapsed() < Duration::from_secs(5));
    assert!(matches!(store.sweep().await, Err(StoreFault::Away(_))));
    assert_eq!(value(&*store, "before").await.unwrap(), "one");

    disk.set_stuck(false);
    assert_eq!(creates_at_last(&store, "after").await.number().as_u64(), 3);
    assert_eq!(value(&*store, "begun").await.unwrap(), "two");
    for name in ["a", "b", "c", "d"] {
        assert_eq!(value(&*store, name).await, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_goes_away_takes_nothing_back() {
    let disk = Disk::new();
    let store = Arc::new(open(&disk, Options::default()));
    disk.set_stuck(true);
    let task = tokio::spawn({
        let store = Arc::clone(&store);
        async move { creates(&store, "a", "one").await }
    });
    tokio::task::yield_now().await;
    task.abort();
    disk.set_stuck(false);
    let outcome = creates(&store, "b", "two").await.unwrap();
    let is_there = value(&*store, "a").await.is_some();
    assert_eq!(outcome.number().as_u64(), if is_there { 2 } else { 1 });
}
