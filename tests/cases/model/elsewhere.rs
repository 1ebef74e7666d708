//! A store that answers in the time of the world, asked in the time of the model: which stands still meanwhile.

use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::channel;

use async_trait::async_trait;
use sluice::base::ids::Environment;
use sluice::ledger::{Commit, CommitError, Number, Query, QueryAnswer, Receipt, Sender, StoreFault};
use sluice::ports::{Clock, Store};
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
    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        there!(self, store => store.commit(commit))
    }

    async fn query(&self, query: Query) -> Result<QueryAnswer, StoreFault> {
        there!(self, store => store.query(query))
    }

    async fn kept(&self, environment: Environment, by: &Sender, up_to: Number) -> Result<(), StoreFault> {
        let by = by.clone();
        there!(self, store => store.kept(environment, &by, up_to))
    }

    async fn sweep(&self) -> Result<usize, StoreFault> {
        there!(self, store => store.sweep())
    }
}
