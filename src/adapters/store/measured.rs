//! A store whose calls are measured: how long each took, and what failed.

use std::sync::Arc;

use async_trait::async_trait;

use crate::adapters::clock::Stopwatch;
use crate::base::ids::Environment;
use crate::commit::{
    Commit, CommitError, Committed, Index, NodeId, Number, Outstanding, Record, RecordKey, Span, StoreFault, StoreTime,
    WindowKey,
};
use crate::ports::{Part, Store};
use crate::telemetry::{Metrics, StoreMeter};

/// See the module.
#[derive(Debug)]
pub struct Measured {
    inner: Arc<dyn Store>,
    commit: StoreMeter,
    read: StoreMeter,
    due: StoreMeter,
    windows: StoreMeter,
    member: StoreMeter,
    outbox: StoreMeter,
    sweep: StoreMeter,
    time: StoreMeter,
}

impl Measured {
    pub fn new(inner: Arc<dyn Store>, metrics: &Metrics) -> Measured {
        Measured {
            inner,
            commit: metrics.of_store("commit"),
            read: metrics.of_store("read"),
            due: metrics.of_store("due"),
            windows: metrics.of_store("windows"),
            member: metrics.of_store("member"),
            outbox: metrics.of_store("outbox"),
            sweep: metrics.of_store("sweep"),
            time: metrics.of_store("time"),
        }
    }
}

async fn measured<T>(meter: &StoreMeter, call: impl Future<Output = Result<T, StoreFault>>) -> Result<T, StoreFault> {
    let since = Stopwatch::start();
    let answer = call.await;
    meter.seconds.observe(since.elapsed().as_secs_f64());
    answer.inspect_err(|fault| meter.failed(fault))
}

#[async_trait]
impl Store for Measured {
    async fn commit(&self, commit: Commit) -> Result<Committed, CommitError> {
        let since = Stopwatch::start();
        let answer = self.inner.commit(commit).await;
        self.commit.seconds.observe(since.elapsed().as_secs_f64());
        if let Err(CommitError::Fault(fault)) = &answer {
            self.commit.failed(fault);
        }
        answer
    }

    async fn read(&self, key: &RecordKey) -> Result<(Option<Record>, StoreTime), StoreFault> {
        measured(&self.read, self.inner.read(key)).await
    }

    async fn due(
        &self,
        environment: Environment,
        index: Index,
        until: Option<StoreTime>,
        count: usize,
    ) -> Result<Vec<(StoreTime, String)>, StoreFault> {
        measured(&self.due, self.inner.due(environment, index, until, count)).await
    }

    async fn part(
        &self,
        environment: Environment,
        index: Index,
        part: Part,
    ) -> Result<Vec<(StoreTime, String)>, StoreFault> {
        measured(&self.due, self.inner.part(environment, index, part)).await
    }

    async fn used(&self, environment: Environment, window: &WindowKey, span: Span) -> Result<u64, StoreFault> {
        measured(&self.windows, self.inner.used(environment, window, span)).await
    }

    async fn member(
        &self,
        environment: Environment,
        index: Index,
        member: &str,
    ) -> Result<Option<StoreTime>, StoreFault> {
        measured(&self.member, self.inner.member(environment, index, member)).await
    }

    async fn windows(
        &self,
        environment: Environment,
        limit: Option<&str>,
        count: usize,
    ) -> Result<Vec<WindowKey>, StoreFault> {
        measured(&self.windows, self.inner.windows(environment, limit, count)).await
    }

    async fn outbox(
        &self,
        environment: Environment,
        node: &NodeId,
        count: usize,
    ) -> Result<Vec<Outstanding>, StoreFault> {
        measured(&self.outbox, self.inner.outbox(environment, node, count)).await
    }

    async fn take_over(
        &self,
        environment: Environment,
        node: &NodeId,
        count: usize,
    ) -> Result<Vec<Outstanding>, StoreFault> {
        measured(&self.outbox, self.inner.take_over(environment, node, count)).await
    }

    async fn drained(&self, environment: Environment, numbers: &[Number]) -> Result<(), StoreFault> {
        measured(&self.outbox, self.inner.drained(environment, numbers)).await
    }

    async fn last(&self, environment: Environment) -> Result<Number, StoreFault> {
        measured(&self.time, self.inner.last(environment)).await
    }

    async fn sweep(&self) -> Result<usize, StoreFault> {
        measured(&self.sweep, self.inner.sweep()).await
    }

    async fn time(&self) -> Result<StoreTime, StoreFault> {
        measured(&self.time, self.inner.time()).await
    }
}
