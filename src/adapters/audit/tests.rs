use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use jiff::Timestamp;

use super::*;
use crate::audit::{LineBody, scan};
use crate::base::ids::Environment;
use crate::ledger::{Number, StoreTime};

const DAY_SECS: i64 = 24 * 60 * 60;

/// A clock that is set by hand.
#[derive(Debug, Default)]
struct Hand(AtomicI64);

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.0.load(Ordering::Relaxed)).unwrap()
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed).unsigned_abs())
    }
}

fn node() -> NodeId {
    NodeId::parse("a").unwrap()
}

fn entry(number: u64) -> Outstanding {
    Outstanding {
        environment: Environment::Production,
        number: Number::new(number),
        at: StoreTime::of_micros(i64::try_from(number).unwrap()),
        node: node(),
        entry: Bytes::from(format!("{{\"what\":\"sending\",\"n\":{number}}}")),
    }
}

fn settings(folder: &Path) -> AuditSettings {
    AuditSettings::of(folder, node())
}

fn open(folder: &Path) -> Result<AuditFiles, OpenFault> {
    AuditFiles::open(settings(folder), Arc::new(Hand::default()))
}

/// The numbers in each file, in the order of the lines; every line is good.
fn read_numbers(folder: &Path) -> BTreeMap<u64, Vec<u64>> {
    let mut numbers = BTreeMap::new();
    let mut previous = crate::audit::Hash::NOTHING;
    for file in audit_files(folder).unwrap() {
        let mut found = Vec::new();
        let scanned = scan(fs::read(&file.path).unwrap().as_slice(), |line| {
            let LineBody::Entry(entry) = line.body else { panic!("an entry") };
            found.push(entry.number.as_u64());
        });
        let scanned = scanned.unwrap();
        assert_eq!((scanned.stop, scanned.previous), (None, previous));
        previous = scanned.hash;
        numbers.insert(file.sequence, found);
    }
    numbers
}

#[tokio::test]
async fn what_is_appended_stands_there_once_and_in_order_over_starts() {
    let folder = tempfile::tempdir().unwrap();
    let audit = open(folder.path()).unwrap();
    let (second, first) = tokio::join!(audit.append(vec![entry(2)]), audit.append(vec![entry(1)]));
    second.and(first).unwrap();
    audit.append(vec![entry(1), entry(3), entry(3)]).await.unwrap();
    assert!(audit.is_well());
    assert!(matches!(open(folder.path()), Err(OpenFault::Locked { .. })));
    drop(audit);
    let audit = open(folder.path()).unwrap();
    audit.append(vec![entry(3), entry(4)]).await.unwrap();
    assert_eq!(read_numbers(folder.path()), BTreeMap::from([(1, vec![1, 2, 3, 4])]));
}

#[tokio::test]
async fn a_number_that_comes_again_with_another_entry_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let audit = open(folder.path()).unwrap();
    audit.append(vec![entry(1)]).await.unwrap();
    let other = Outstanding { entry: Bytes::from_static(b"{}"), ..entry(1) };
    let fault = audit.append(vec![entry(2), other]).await.unwrap_err();
    assert!(fault.to_string().contains("another entry"), "{fault}");
    audit.append(vec![entry(2)]).await.unwrap();
    assert_eq!(read_numbers(folder.path()), BTreeMap::from([(1, vec![1, 2])]));
}

#[tokio::test]
async fn a_file_ends_with_its_size_and_with_the_day() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(Hand::default());
    let rotating = AuditSettings { rotate_bytes: 1200, ..settings(folder.path()) };
    let audit = AuditFiles::open(rotating, Arc::clone(&clock) as Arc<dyn Clock>).unwrap();
    audit.append((1..=7).map(entry).collect()).await.unwrap();
    clock.0.store(DAY_SECS, Ordering::Relaxed);
    audit.append(vec![entry(8)]).await.unwrap();
    let files = read_numbers(folder.path());
    assert_eq!(files.values().flatten().copied().collect::<Vec<_>>(), (1..=8).collect::<Vec<_>>());
    assert_eq!(files.values().last().unwrap(), &[8]);
    assert!(files.len() > 2, "{files:?}");
    for file in audit_files(folder.path()).unwrap() {
        assert!(fs::metadata(&file.path).unwrap().len() <= 1200);
    }
    drop(audit);
    let audit = open(folder.path()).unwrap();
    audit.append(vec![entry(1), entry(9)]).await.unwrap();
    assert_eq!(read_numbers(folder.path()).into_values().flatten().collect::<Vec<_>>(), (1..=9).collect::<Vec<_>>());
}

mod another_history;
mod checkpoints;
mod contradicting;
mod faults;
mod killed;
mod newest;
mod noting;
mod receipts;
mod start;

/// The store lost its memory: a rebuild counts on what the journal has now.
#[tokio::test]
async fn a_suspended_environment_gets_no_entry_not_even_one_that_waited() {
    let folder = tempfile::tempdir().unwrap();
    let audit = open(folder.path()).unwrap();
    let environment = entry(1).environment;
    audit.append(vec![entry(1)]).await.unwrap();
    let (waited, ()) = tokio::join!(audit.append(vec![entry(3)]), async {
        audit.gap().await;
        audit.suspend(environment).await.unwrap();
        assert_eq!(audit.highest(environment).as_u64(), 1);
    });
    assert!(matches!(waited, Err(AuditFault::Store(_))), "{waited:?}");
    assert!(audit.append(vec![entry(2)]).await.is_err());
    assert_eq!(audit.highest(environment).as_u64(), 1);
    audit.resume(environment);

    // The store was rebuilt, and gives out higher numbers.
    let rebuilt = Outstanding { entry: Bytes::from_static(b"{\"above\":9,\"begins\":0,\"upTo\":1}"), ..entry(10) };
    audit.append(vec![rebuilt]).await.unwrap();
    let late = audit.append(vec![entry(2)]).await.unwrap_err();
    assert!(late.to_string().contains("comes too late"), "{late}");
    assert_eq!(read_numbers(folder.path()), BTreeMap::from([(1, vec![1, 10])]));
}

/// The journal lacks entries from before the rebuild, which the explanation does not cover.
#[tokio::test]
async fn unused_numbers_do_not_explain_entries_that_are_missing_before_them() {
    let folder = tempfile::tempdir().unwrap();
    let audit = open(folder.path()).unwrap();
    audit.append(vec![entry(1)]).await.unwrap();
    let rebuilt = Outstanding { entry: Bytes::from_static(b"{\"above\":9,\"begins\":0,\"upTo\":5}"), ..entry(10) };
    let waiting = audit.append(vec![rebuilt.clone()]);
    tokio::select! {
        _ = waiting => panic!("entries 2 to 5 are missing"),
        () = audit.gap() => {}
    }
    audit.append((2..=5).map(entry).collect()).await.unwrap();
    audit.append(vec![rebuilt]).await.unwrap();
}
