//! A store whose calls are measured: how long each took, and which failed.

use std::sync::Arc;

use async_trait::async_trait;

use crate::adapters::clock::Stopwatch;
use crate::base::ids::Environment;
use crate::ledger::{
    Commit, CommitError, Number, Query, QueryAnswer, Receipt, RecordKey, Sender, StoreFault, TimeBounds,
};
use crate::ports::Store;
use crate::telemetry::{Metrics, StoreMeter};

/// A store that measures each call to the store inside.
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

    fn meter(&self, query: &Query) -> &StoreMeter {
        match query {
            Query::Record(_) => &self.read,
            Query::Due { .. } | Query::Part { .. } => &self.due,
            Query::Member { .. } => &self.member,
            Query::Used { .. } | Query::Windows { .. } => &self.windows,
            Query::Outbox { .. } => &self.outbox,
            Query::Last(_) | Query::DurableLast(_) | Query::Time | Query::Refusal => &self.time,
        }
    }

    async fn committed(
        &self,
        call: impl Future<Output = Result<Receipt, CommitError>>,
    ) -> Result<Receipt, CommitError> {
        let since = Stopwatch::start();
        let answer = call.await;
        self.commit.seconds.observe(since.elapsed().as_secs_f64());
        if let Err(CommitError::Fault(fault)) = &answer {
            self.commit.failed(fault);
        }
        answer
    }
}

/// Measures a call to the store.
async fn measured<T>(meter: &StoreMeter, call: impl Future<Output = Result<T, StoreFault>>) -> Result<T, StoreFault> {
    let since = Stopwatch::start();
    let answer = call.await;
    meter.seconds.observe(since.elapsed().as_secs_f64());
    answer.inspect_err(|fault| meter.failed(fault))
}

#[async_trait]
impl Store for Measured {
    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        self.committed(self.inner.commit(commit)).await
    }

    async fn commit_for_journal(&self, commit: Commit) -> Result<Receipt, CommitError> {
        self.committed(self.inner.commit_for_journal(commit)).await
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
        measured(&self.sweep, self.inner.flush()).await
    }

    async fn query(&self, query: Query) -> Result<QueryAnswer, StoreFault> {
        measured(self.meter(&query), self.inner.query(query)).await
    }

    async fn kept(&self, environment: Environment, by: &Sender, up_to: Number) -> Result<(), StoreFault> {
        measured(&self.outbox, self.inner.kept(environment, by, up_to)).await
    }

    async fn sweep(&self) -> Result<usize, StoreFault> {
        measured(&self.sweep, self.inner.sweep()).await
    }
}
