//! An embedded store, or the replica of a Redis, that is opened while the gate serves reads already.

use std::sync::Arc;

use async_trait::async_trait;

use super::embedded::Embedded;
use super::journalled_records::{JournalledRecords, KnownRecord};
use super::replica::Replica;
use super::snapshot::{SnapshotSource, StoreContent};
use crate::adapters::opening::Opening;
use crate::base::ids::Environment;
use crate::ledger::{
    Commit, CommitError, Number, Query, QueryAnswer, Receipt, RecordKey, Sender, StoreFault, StoreTime,
};
use crate::ports::Store;

/// A store that is unavailable until it is opened.
pub type OpeningStore = Opening<Embedded>;

impl OpeningStore {
    fn store(&self) -> Result<Arc<Embedded>, StoreFault> {
        self.now().ok_or_else(|| StoreFault::Away("its content is still being verified".to_owned()))
    }
}

impl Opening<Replica> {
    fn replica(&self) -> Result<Arc<Replica>, StoreFault> {
        self.now().ok_or_else(|| StoreFault::Away("the replica of the store is not open yet".to_owned()))
    }
}

impl SnapshotSource for Opening<Replica> {
    fn content(&self) -> Result<StoreContent, StoreFault> {
        self.replica()?.content()
    }
}

impl JournalledRecords for Opening<Replica> {
    fn known(&self, key: &RecordKey, now: StoreTime) -> Result<KnownRecord, StoreFault> {
        self.replica()?.known(key, now)
    }

    fn doubted(&self, key: &RecordKey, why: &str) {
        if let Some(replica) = self.now() {
            JournalledRecords::doubted(&*replica, key, why);
        }
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
