//! A store that is unavailable until this node has recovered the commits that its previous process left behind.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::base::ids::Environment;
use crate::ledger::{Commit, CommitError, Number, Query, QueryAnswer, Receipt, Sender, StoreFault};
use crate::ports::Store;

/// A store that opens when recovery is done.
#[derive(Debug)]
pub struct Awaited {
    inner: Arc<dyn Store>,
    is_open: watch::Receiver<bool>,
    patience: Duration,
}

impl Awaited {
    /// Wraps a store; calls reach it once `is_open` is true, and wait that long for it.
    pub fn new(inner: Arc<dyn Store>, is_open: watch::Receiver<bool>, patience: Duration) -> Awaited {
        Awaited { inner, is_open, patience }
    }

    async fn inner(&self) -> Result<&dyn Store, StoreFault> {
        if !*self.is_open.borrow() && !self.patience.is_zero() {
            let mut is_open = self.is_open.clone();
            tokio::time::timeout(self.patience, is_open.wait_for(|is_open| *is_open)).await.ok();
        }
        match *self.is_open.borrow() {
            true => Ok(&*self.inner),
            false => Err(StoreFault::Away("it was not there since this gate was started".to_owned())),
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
