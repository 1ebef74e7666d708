//! A store that is not used before what an earlier life of this node left in it is taken up: until then it is away.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::base::ids::Environment;
use crate::commit::{
    Commit, CommitError, Committed, Index, NodeId, Number, Outstanding, Record, RecordKey, Span, StoreFault, StoreTime,
    WindowKey,
};
use crate::ports::{Part, Store};

/// See the module.
#[derive(Debug)]
pub struct Awaited {
    inner: Arc<dyn Store>,
    is_open: watch::Receiver<bool>,
}

impl Awaited {
    /// It is used once it is true there.
    pub fn new(inner: Arc<dyn Store>, is_open: watch::Receiver<bool>) -> Awaited {
        Awaited { inner, is_open }
    }

    fn inner(&self) -> Result<&dyn Store, StoreFault> {
        match *self.is_open.borrow() {
            true => Ok(&*self.inner),
            false => Err(StoreFault::Away("it was not there since this gate was started".to_owned())),
        }
    }
}

#[async_trait]
impl Store for Awaited {
    async fn commit(&self, commit: Commit) -> Result<Committed, CommitError> {
        self.inner().map_err(CommitError::Fault)?.commit(commit).await
    }

    async fn read(&self, key: &RecordKey) -> Result<(Option<Record>, StoreTime), StoreFault> {
        self.inner()?.read(key).await
    }

    async fn due(
        &self,
        environment: Environment,
        index: Index,
        until: Option<StoreTime>,
        count: usize,
    ) -> Result<Vec<(StoreTime, String)>, StoreFault> {
        self.inner()?.due(environment, index, until, count).await
    }

    async fn part(
        &self,
        environment: Environment,
        index: Index,
        part: Part,
    ) -> Result<Vec<(StoreTime, String)>, StoreFault> {
        self.inner()?.part(environment, index, part).await
    }

    async fn used(&self, environment: Environment, window: &WindowKey, span: Span) -> Result<u64, StoreFault> {
        self.inner()?.used(environment, window, span).await
    }

    async fn member(
        &self,
        environment: Environment,
        index: Index,
        member: &str,
    ) -> Result<Option<StoreTime>, StoreFault> {
        self.inner()?.member(environment, index, member).await
    }

    async fn windows(
        &self,
        environment: Environment,
        limit: Option<&str>,
        count: usize,
    ) -> Result<Vec<WindowKey>, StoreFault> {
        self.inner()?.windows(environment, limit, count).await
    }

    async fn outbox(
        &self,
        environment: Environment,
        node: &NodeId,
        count: usize,
    ) -> Result<Vec<Outstanding>, StoreFault> {
        self.inner()?.outbox(environment, node, count).await
    }

    async fn take_over(
        &self,
        environment: Environment,
        node: &NodeId,
        count: usize,
    ) -> Result<Vec<Outstanding>, StoreFault> {
        self.inner()?.take_over(environment, node, count).await
    }

    async fn drained(&self, environment: Environment, numbers: &[Number]) -> Result<(), StoreFault> {
        self.inner()?.drained(environment, numbers).await
    }

    async fn last(&self, environment: Environment) -> Result<Number, StoreFault> {
        self.inner()?.last(environment).await
    }

    async fn sweep(&self) -> Result<usize, StoreFault> {
        self.inner()?.sweep().await
    }

    async fn time(&self) -> Result<StoreTime, StoreFault> {
        self.inner()?.time().await
    }
}
