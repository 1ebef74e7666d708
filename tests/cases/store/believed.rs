//! What a store says of a record is compared with the journal, absence included.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use sluice::adapters::store::memory::MemoryStore;
use sluice::adapters::store::replica::Replica;
use sluice::adapters::store::sealed::{Sealed, Seals};
use sluice::base::ids::Environment;
use sluice::ledger::{
    Commit, CommitError, Content, Keep, Kind, Number, Query, QueryAnswer, Receipt, Record, RecordKey, Sender, Step,
    StoreFault,
};
use sluice::ports::Store;
use tempfile::TempDir;

use super::asked::*;
use super::{BEGIN, Hand};

/// A store that somebody writes who makes no commits.
#[derive(Debug)]
struct Tampered {
    inner: MemoryStore,
    /// What it answers in the place of what it has.
    put: Mutex<BTreeMap<String, Option<Record>>>,
}

#[async_trait]
impl Store for Tampered {
    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        self.inner.commit(commit).await
    }

    async fn query(&self, query: Query) -> Result<QueryAnswer, StoreFault> {
        let put = match &query {
            Query::Record(key) => self.put.lock().unwrap().get(&key.name).cloned(),
            _ => None,
        };
        match (self.inner.query(query).await?, put) {
            (QueryAnswer::Record(_, now), Some(put)) => Ok(QueryAnswer::Record(put, now)),
            (answer, _) => Ok(answer),
        }
    }

    async fn kept(&self, environment: Environment, by: &Sender, up_to: Number) -> Result<(), StoreFault> {
        self.inner.kept(environment, by, up_to).await
    }

    async fn sweep(&self) -> Result<usize, StoreFault> {
        self.inner.sweep().await
    }
}

struct Compared {
    clock: Arc<Hand>,
    store: Arc<Tampered>,
    replica: Arc<Replica>,
    sealed: Sealed,
    _folder: TempDir,
}

impl Compared {
    fn new() -> Compared {
        let (clock, folder) = (Hand::at(BEGIN), TempDir::new().unwrap());
        let store = Arc::new(Tampered { inner: MemoryStore::new(clock.clone()), put: Mutex::default() });
        let replica = Arc::new(Replica::open(folder.path(), Seals::default()).unwrap());
        let sealed = Sealed::new(store.clone(), Seals::default()).compared_with(Some(replica.clone()));
        Compared { clock, store, replica, sealed, _folder: folder }
    }

    /// The journal gets all that it does not have yet.
    async fn journals(&self) {
        self.replica.apply(&outbox(&*self.store).await, true).unwrap();
    }

    fn put(&self, key: &RecordKey, record: Option<Record>) {
        self.store.put.lock().unwrap().insert(key.name.clone(), record);
    }

    async fn read(&self, key: &RecordKey) -> Result<Option<Record>, StoreFault> {
        self.sealed.read(key).await.map(|(record, _)| record)
    }

    async fn is_refused(&self, key: &RecordKey) -> bool {
        match self.read(key).await {
            Err(StoreFault::Broken(why)) => {
                // Somebody looks at it again, once for each record.
                assert_eq!(self.replica.take_doubted().get(key), Some(&why));
                why.contains("differs from what this gate's journal has")
            }
            Err(fault) => panic!("{fault}"),
            Ok(_) => {
                assert!(self.replica.take_doubted().is_empty());
                false
            }
        }
    }
}

fn of(kind: Kind, name: &str) -> RecordKey {
    RecordKey { kind, ..claim(name) }
}

fn creates(key: &RecordKey, keep: Keep) -> Step {
    Step::Create { key: key.clone(), value: "{}".into(), keep }
}

#[tokio::test]
async fn a_record_that_somebody_removed_is_not_absent() {
    let compared = Compared::new();
    for kind in Kind::ALL.into_iter().filter(|kind| kind.is_journalled()) {
        let key = of(kind, kind.as_str());
        does(&compared.sealed, vec![creates(&key, Keep::Forever)]).await;
        compared.put(&key, None);
        // The journal does not know the record yet.
        assert_eq!(compared.read(&key).await, Ok(None), "{kind:?}");
        compared.journals().await;
        assert!(compared.is_refused(&key).await, "{kind:?}");
        // Commits of other records, which the journal does not have yet, say nothing of it.
        does(&compared.sealed, vec![create(&format!("beside-{}", kind.as_str()), "x")]).await;
        assert!(compared.is_refused(&key).await, "{kind:?}");
    }
    // No journal has sessions.
    let key = of(Kind::Session, "session");
    does(&compared.sealed, vec![creates(&key, Keep::Forever)]).await;
    compared.journals().await;
    compared.put(&key, None);
    assert_eq!(compared.read(&key).await, Ok(None));
}

#[tokio::test]
async fn a_record_is_absent_that_a_commit_removed_which_the_journal_lacks() {
    let compared = Compared::new();
    let key = of(Kind::Freeze, "all");
    let version = does(&compared.sealed, vec![creates(&key, Keep::Forever)]).await.number();
    compared.journals().await;
    for nth in 0..300 {
        does(&compared.sealed, vec![create(&format!("beside-{nth}"), "x")]).await;
    }
    does(&compared.sealed, vec![Step::Delete { key: key.clone(), version }]).await;
    assert_eq!(compared.read(&key).await, Ok(None));
    compared.journals().await;
    assert_eq!(compared.read(&key).await, Ok(None));
}

#[tokio::test]
async fn what_expired_may_be_absent_and_nothing_expires_early() {
    let compared = Compared::new();
    let key = of(Kind::SessionEnd, "ended");
    let keep = Keep::For { whole: secs(60), spent: secs(60) };
    does(&compared.sealed, vec![creates(&key, keep)]).await;
    compared.journals().await;
    let whole = compared.read(&key).await.unwrap();
    let spent = whole.clone().map(|record| Record { content: Content::Spent, ..record });
    for (absent, is_spent, is_gone) in [(59, false, false), (61, true, false), (119, true, false), (121, true, true)] {
        compared.clock.set(BEGIN + i64::from(absent) * 1_000_000);
        // As it is in the store.
        compared.store.put.lock().unwrap().clear();
        let expected = if is_gone {
            None
        } else if is_spent {
            spent.clone()
        } else {
            whole.clone()
        };
        assert_eq!(compared.read(&key).await, Ok(expected), "{absent}");
        for (put, stands) in [(None, is_gone), (spent.clone(), is_spent && !is_gone), (whole.clone(), !is_spent)] {
            compared.put(&key, put.clone());
            assert_eq!(compared.is_refused(&key).await, !stands, "{absent}: {put:?}");
        }
    }
}

#[tokio::test]
async fn a_removed_record_that_somebody_put_back_is_refused() {
    let compared = Compared::new();
    let keys = ["early", "late"].map(|name| of(Kind::Agreement, name));
    let mut removed = Vec::new();
    for key in &keys {
        let version = does(&compared.sealed, vec![creates(key, Keep::Forever)]).await.number();
        let record = compared.read(key).await.unwrap();
        does(&compared.sealed, vec![Step::Delete { key: key.clone(), version }]).await;
        removed.push((key, record));
    }
    compared.journals().await;
    for (key, record) in removed.clone() {
        compared.put(key, record);
        assert!(compared.is_refused(key).await, "{}", key.name);
    }
    // A journal that begins between them knows the later one alone.
    let begins = Compared::new();
    begins.replica.forget(ENVIRONMENT, Number::new(2)).unwrap();
    begins.replica.apply(&outbox(&*compared.store).await, true).unwrap();
    let sealed = Sealed::new(compared.store.clone(), Seals::default()).compared_with(Some(begins.replica.clone()));
    let [(early, record), (late, _)] = removed.try_into().unwrap();
    assert_eq!(sealed.read(early).await.map(|(record, _)| record), Ok(record));
    assert!(matches!(sealed.read(late).await, Err(StoreFault::Broken(_))));
}

/// Claims and holds go by it.
#[tokio::test]
async fn a_record_of_another_time_is_refused() {
    let compared = Compared::new();
    for kind in Kind::ALL.into_iter().filter(|kind| kind.is_journalled()) {
        let key = of(kind, kind.as_str());
        does(&compared.sealed, vec![creates(&key, Keep::Forever)]).await;
        let record = compared.read(&key).await.unwrap().unwrap();
        for at in [record.at.minus(secs(1)), record.at.plus(secs(3_600))] {
            compared.put(&key, Some(Record { at, ..record.clone() }));
            // A journal that does not have the commit yet reads it in the store's entries.
            assert!(compared.is_refused(&key).await, "{kind:?}");
        }
        compared.journals().await;
        for at in [record.at.minus(secs(3_600)), record.at.plus(secs(1))] {
            compared.put(&key, Some(Record { at, ..record.clone() }));
            assert!(compared.is_refused(&key).await, "{kind:?}");
            // Nor does a version help that no commit has.
            let version = Number::new(record.version.as_u64() + 1_000);
            compared.put(&key, Some(Record { at, version, ..record.clone() }));
            assert!(compared.is_refused(&key).await, "{kind:?}");
        }
        compared.put(&key, Some(record.clone()));
        assert_eq!(compared.read(&key).await, Ok(Some(record)), "{kind:?}");
    }
}

/// A commit meets a record as it was before.
#[tokio::test]
async fn what_stands_in_the_way_of_a_commit_is_as_the_journal_has_it() {
    let compared = Compared::new();
    let version = does(&compared.sealed, vec![create("a", "one")]).await.number();
    does(&compared.sealed, vec![replace("a", version, "two")]).await;
    // The store has an older state than the journal.
    let behind = Compared::new();
    does(&behind.sealed, vec![create("a", "one")]).await;
    behind.replica.apply(&outbox(&*compared.store).await, true).unwrap();
    let refused = behind.sealed.commit(commit(vec![create("a", "x")])).await.unwrap_err();
    assert!(matches!(refused, CommitError::Fault(StoreFault::Broken(_))), "{refused:?}");
}
