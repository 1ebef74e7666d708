//! A store that is unavailable until this node has recovered the commits that its previous process left behind.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::base::ids::Environment;
use crate::ledger::{
    Commit, CommitError, Number, Query, QueryAnswer, Receipt, RecordKey, Sender, StoreFault, TimeBounds,
};
use crate::ports::Store;

/// Whether a store can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Openness {
    /// Its opening goes on, and a call may wait for it.
    Soon,
    /// A disk is in trouble: nobody knows how long it lasts.
    InTrouble,
    Open,
}

/// A store that opens when recovery is done.
#[derive(Debug)]
pub struct Awaited {
    inner: Arc<dyn Store>,
    is_open: watch::Receiver<Openness>,
    patience: Duration,
}

impl Awaited {
    /// Wraps a store; calls reach it once it is open, and wait that long for it.
    pub fn new(inner: Arc<dyn Store>, is_open: watch::Receiver<Openness>, patience: Duration) -> Awaited {
        Awaited { inner, is_open, patience }
    }

    async fn inner(&self) -> Result<&dyn Store, StoreFault> {
        if *self.is_open.borrow() == Openness::Soon && !self.patience.is_zero() {
            let mut is_open = self.is_open.clone();
            tokio::time::timeout(self.patience, is_open.wait_for(|is_open| *is_open != Openness::Soon)).await.ok();
        }
        match *self.is_open.borrow() {
            Openness::Open => Ok(&*self.inner),
            Openness::Soon => Err(StoreFault::Away("it was not there since this gate was started".to_owned())),
            Openness::InTrouble => Err(StoreFault::Away("a disk of this gate is in trouble".to_owned())),
        }
    }
}

#[async_trait]
impl Store for Awaited {
    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        self.inner().await.map_err(CommitError::Fault)?.commit(commit).await
    }

    async fn commit_for_journal(&self, commit: Commit) -> Result<Receipt, CommitError> {
        self.inner().await.map_err(CommitError::Fault)?.commit_for_journal(commit).await
    }

    fn leans_on_journal(&self) -> bool {
        self.inner.leans_on_journal()
    }

    fn journal_has(&self, key: &RecordKey) -> Result<bool, StoreFault> {
        self.inner.journal_has(key)
    }

    fn time_bounds(&self, environment: Environment) -> Option<TimeBounds> {
        self.inner.time_bounds(environment)
    }

    async fn flush(&self) -> Result<(), StoreFault> {
        self.inner().await?.flush().await
    }

    async fn query(&self, query: Query) -> Result<QueryAnswer, StoreFault> {
        match query {
            // It says nothing of records, and people must know it also before recovery is done.
            Query::Refusal => self.inner.query(query).await,
            query => self.inner().await?.query(query).await,
        }
    }

    async fn kept(&self, environment: Environment, by: &Sender, up_to: Number) -> Result<(), StoreFault> {
        self.inner().await?.kept(environment, by, up_to).await
    }

    async fn sweep(&self) -> Result<usize, StoreFault> {
        self.inner().await?.sweep().await
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::adapters::clock::SystemClock;
    use crate::adapters::store::memory::MemoryStore;
    use crate::ledger::NodeId;

    #[tokio::test]
    async fn nothing_reaches_the_store_before_the_records_of_an_earlier_run_are_recovered() {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let (opens, is_open) = watch::channel(Openness::Soon);
        let awaited = Awaited::new(store.clone(), is_open, Duration::ZERO);
        let environment = Environment::Production;
        let node = NodeId::parse("gate").unwrap();
        let commit = || Commit { environment, node: node.clone(), steps: Vec::new(), entry: Bytes::from_static(b"{}") };
        let is_away = |fault: &StoreFault| matches!(fault, StoreFault::Away(_));
        for refused in [awaited.commit(commit()).await, awaited.commit_for_journal(commit()).await] {
            assert!(matches!(refused, Err(CommitError::Fault(fault)) if is_away(&fault)));
        }
        let windows = || Query::Windows { environment, limit: None, behind: None, count: 1 };
        assert!(awaited.query(windows()).await.is_err_and(|fault| is_away(&fault)));
        assert!(awaited.flush().await.is_err_and(|fault| is_away(&fault)));
        assert!(awaited.sweep().await.is_err_and(|fault| is_away(&fault)));
        assert_eq!(store.calls(), 0);
        // People must know also before why the store refuses.
        awaited.query(Query::Refusal).await.unwrap();
        opens.send(Openness::Open).unwrap();
        awaited.commit(commit()).await.unwrap();
        awaited.query(windows()).await.unwrap();
    }

    #[tokio::test]
    async fn a_call_waits_for_the_recovery_as_long_as_it_may() {
        let (opens, is_open) = watch::channel(Openness::Soon);
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let awaited = Awaited::new(store.clone(), is_open, Duration::from_secs(60));
        let swept = tokio::spawn(async move { awaited.sweep().await });
        tokio::task::yield_now().await;
        assert_eq!(store.calls(), 0);
        opens.send(Openness::Open).unwrap();
        swept.await.unwrap().unwrap();
        assert!(store.calls() > 0);
    }
}
