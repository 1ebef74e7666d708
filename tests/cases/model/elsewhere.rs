//! A store that answers in the time of the world, asked in the time of the model: which stands still meanwhile.

use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::channel;

use async_trait::async_trait;
use sluice::base::ids::Environment;
use sluice::commit::{
    Commit, CommitError, Committed, Index, NodeId, Number, Outstanding, Record, RecordKey, Span, StoreFault, StoreTime,
    WindowKey,
};
use sluice::ports::{Clock, Part, Store};
use tokio::runtime::Handle;

use super::super::store::{BEGIN, Hand};

#[derive(Debug)]
pub struct Elsewhere {
    pub store: Arc<dyn Store>,
    /// What the store goes by.
    pub hand: Arc<Hand>,
    /// What the hand follows.
    pub clock: Arc<dyn Clock>,
    pub runtime: Handle,
}

impl Elsewhere {
    fn wait<T: Send + 'static>(&self, asked: impl Future<Output = T> + Send + 'static) -> T {
        self.hand.set(BEGIN + i64::try_from(self.clock.elapsed().as_micros()).unwrap());
        let (tell, told) = channel();
        self.runtime.spawn(async move { tell.send(asked.await).ok() });
        told.recv().expect("an answer of the store")
    }
}

/// Asks the same of the store behind it.
macro_rules! there {
    ($self:ident, $store:ident => $asked:expr) => {{
        let $store = $self.store.clone();
        $self.wait(async move { $asked.await })
    }};
}

#[async_trait]
impl Store for Elsewhere {
    async fn commit(&self, commit: Commit) -> Result<Committed, CommitError> {
        there!(self, store => store.commit(commit))
    }

    async fn read(&self, key: &RecordKey) -> Result<(Option<Record>, StoreTime), StoreFault> {
        let key = key.clone();
        there!(self, store => store.read(&key))
    }

    async fn due(
        &self,
        environment: Environment,
        index: Index,
        until: Option<StoreTime>,
        count: usize,
    ) -> Result<Vec<(StoreTime, String)>, StoreFault> {
        there!(self, store => store.due(environment, index, until, count))
    }

    async fn part(
        &self,
        environment: Environment,
        index: Index,
        part: Part,
    ) -> Result<Vec<(StoreTime, String)>, StoreFault> {
        there!(self, store => store.part(environment, index, part))
    }

    async fn used(&self, environment: Environment, window: &WindowKey, span: Span) -> Result<u64, StoreFault> {
        let window = window.clone();
        there!(self, store => store.used(environment, &window, span))
    }

    async fn member(
        &self,
        environment: Environment,
        index: Index,
        member: &str,
    ) -> Result<Option<StoreTime>, StoreFault> {
        let member = member.to_owned();
        there!(self, store => store.member(environment, index, &member))
    }

    async fn windows(
        &self,
        environment: Environment,
        limit: Option<&str>,
        count: usize,
    ) -> Result<Vec<WindowKey>, StoreFault> {
        let limit = limit.map(str::to_owned);
        there!(self, store => store.windows(environment, limit.as_deref(), count))
    }

    async fn outbox(
        &self,
        environment: Environment,
        node: &NodeId,
        count: usize,
    ) -> Result<Vec<Outstanding>, StoreFault> {
        let node = node.clone();
        there!(self, store => store.outbox(environment, &node, count))
    }

    async fn take_over(
        &self,
        environment: Environment,
        node: &NodeId,
        count: usize,
    ) -> Result<Vec<Outstanding>, StoreFault> {
        let node = node.clone();
        there!(self, store => store.take_over(environment, &node, count))
    }

    async fn drained(&self, environment: Environment, numbers: &[Number]) -> Result<(), StoreFault> {
        let numbers = numbers.to_vec();
        there!(self, store => store.drained(environment, &numbers))
    }

    async fn last(&self, environment: Environment) -> Result<Number, StoreFault> {
        there!(self, store => store.last(environment))
    }

    async fn sweep(&self) -> Result<usize, StoreFault> {
        there!(self, store => store.sweep())
    }

    async fn time(&self) -> Result<StoreTime, StoreFault> {
        there!(self, store => store.time())
    }
}
