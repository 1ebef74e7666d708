//! An embedded store that is verified while the gate serves reads already.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use super::embedded::Embedded;
use super::snapshot::{SnapshotSource, StoreContent};
use crate::base::ids::Environment;
use crate::ledger::{Commit, CommitError, Number, Query, QueryAnswer, Receipt, Sender, StoreFault};
use crate::ports::Store;

/// A store that is unavailable until it is opened.
#[derive(Debug, Default)]
pub struct OpeningStore(watch::Sender<Option<Arc<Embedded>>>);

impl OpeningStore {
    /// From now on calls reach this store.
    pub fn opens(&self, store: Arc<Embedded>) {
        self.0.send_replace(Some(store));
    }

    /// Waits until the store is there.
    pub async fn opened(&self) -> Arc<Embedded> {
        let mut opened = self.0.subscribe();
        match opened.wait_for(Option::is_some).await.map(|store| store.clone()) {
            Ok(Some(store)) => store,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    fn store(&self) -> Result<Arc<Embedded>, StoreFault> {
        let store = self.0.borrow().clone();
        store.ok_or_else(|| StoreFault::Away("its content is still being verified".to_owned()))
    }
}

impl SnapshotSource for OpeningStore {
    fn content(&self) -> Result<StoreContent, StoreFault> {
        self.store()?.content()
    }
}

#[async_trait]
impl Store for OpeningStore {
    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        self.store().map_err(CommitError::Fault)?.commit(commit).await
    }

    async fn commit_for_journal(&self, commit: Commit) -> Result<Receipt, CommitError> {
        self.store().map_err(CommitError::Fault)?.commit_for_journal(commit).await
    }

    fn leans_on_journal(&self) -> bool {
        true
    }

    async fn flush(&self) -> Result<(), StoreFault> {
        self.store()?.flush().await
    }

    async fn query(&self, query: Query) -> Result<QueryAnswer, StoreFault> {
        self.store()?.query(query).await
    }

    async fn kept(&self, environment: Environment, by: &Sender, up_to: Number) -> Result<(), StoreFault> {
        self.store()?.kept(environment, by, up_to).await
    }

    async fn sweep(&self) -> Result<usize, StoreFault> {
        self.store()?.sweep().await
    }
}
