//! The newest entries of an environment, read backwards.

use super::*;

fn entry_of(environment: Environment, number: u64) -> Outstanding {
    Outstanding { environment, ..entry(number) }
}

#[tokio::test]
async fn the_newest_entries_of_an_environment_come_in_order_from_as_many_files_as_they_need() {
    let folder = tempfile::tempdir().unwrap();
    let settings = AuditSettings { rotate_bytes: 1_000, ..settings(folder.path()) };
    let audit = AuditFiles::open(settings, Arc::new(Hand::default())).unwrap();
    let (sandbox, production) = (Environment::Sandbox, Environment::Production);
    audit.append(vec![entry_of(sandbox, 1), entry_of(sandbox, 2)]).await.unwrap();
    for number in 1..=40 {
        audit.append(vec![entry_of(production, number)]).await.unwrap();
    }
    assert!(audit_files(folder.path()).unwrap().len() > 4);
    let newest = |environment, highest, entries, bytes| {
        let room = EntryRoom { entries, bytes };
        let found = newest_entries(folder.path(), &node(), (environment, Number::new(highest)), room).unwrap();
        found.iter().map(|entry| entry.number.as_u64()).collect::<Vec<_>>()
    };
    assert_eq!(newest(production, 40, 25, usize::MAX), (16..=40).collect::<Vec<_>>());
    assert_eq!(newest(production, 40, 100, usize::MAX), (1..=40).collect::<Vec<_>>());
    assert_eq!(newest(production, 40, 100, 1), [40]);
    assert_eq!(newest(sandbox, 2, 1, usize::MAX), [2]);
    assert_eq!(newest(sandbox, 2, 9, usize::MAX), [1, 2]);
    assert_eq!(newest(Environment::Sandbox, 0, 9, usize::MAX), [0; 0]);
    assert_eq!(newest(production, 40, 0, 0), [0; 0]);
}

#[tokio::test]
async fn the_newest_entries_are_of_one_history() {
    let folder = tempfile::tempdir().unwrap();
    let audit = AuditFiles::open(settings(folder.path()), Arc::new(Hand::default())).unwrap();
    let (sandbox, production) = (Environment::Sandbox, Environment::Production);
    audit.append(vec![entry_of(production, 1), entry_of(sandbox, 1), entry_of(production, 2)]).await.unwrap();
    audit.begin_again(production, Number::new(2)).await.unwrap();
    let newest = |environment, highest| {
        let room = EntryRoom { entries: 9, bytes: usize::MAX };
        let found = newest_entries(folder.path(), &node(), (environment, Number::new(highest)), room).unwrap();
        found.iter().map(|entry| entry.number.as_u64()).collect::<Vec<_>>()
    };
    assert_eq!((newest(production, 2), newest(sandbox, 1)), (vec![], vec![1]));
    audit.append(vec![entry_of(production, 3), entry_of(sandbox, 2)]).await.unwrap();
    assert_eq!((newest(production, 3), newest(sandbox, 2)), (vec![3], vec![1, 2]));
}

/// The other environment's comes last.
#[tokio::test]
async fn an_entry_that_is_not_read_in_time_is_not_taken_for_none() {
    let folder = tempfile::tempdir().unwrap();
    let audit = AuditFiles::open(settings(folder.path()), Arc::new(Hand::default())).unwrap();
    let (sandbox, production) = (Environment::Sandbox, Environment::Production);
    audit.append(vec![entry_of(production, 1), entry_of(sandbox, 1)]).await.unwrap();
    let room = EntryRoom { entries: 1, bytes: usize::MAX };
    let within = |bytes| {
        let budget = ReadBudget { bytes, time: std::time::Duration::from_mins(1) };
        lost_entries::newest_within(folder.path(), &node(), (production, Number::new(1)), room, budget)
    };
    assert_eq!(within(u64::MAX).unwrap().len(), 1);
    assert_eq!(within(0).unwrap_err().kind(), std::io::ErrorKind::TimedOut);
}
