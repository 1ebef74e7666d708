//! A store in memory: for the model and for tests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::SWEEP;
use super::look::{self, Pair, View};
use super::plan::{self, Change};
use super::ticker::Ticker;
use crate::base::ids::Environment;
use crate::commit::{
    Commit, CommitError, Committed, Index, NodeId, Number, Outstanding, Record, RecordKey, Span, StoreFault, StoreTime,
    WindowKey,
};
use crate::ports::{Clock, Part, Store};

/// Forgets everything when it goes. The same calls at the same times always give the same answers.
#[derive(Debug)]
pub struct Memory {
    map: Mutex<Map>,
    ticker: Ticker,
    calls: AtomicU64,
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

impl Memory {
    pub fn new(clock: Arc<dyn Clock>) -> Memory {
        let ticker = Ticker::new(clock, StoreTime::of_micros(i64::MIN));
        Memory { map: Mutex::default(), ticker, calls: AtomicU64::new(0) }
    }

    /// How often it was asked for anything: the round trips to a store elsewhere.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    fn called(&self) -> MutexGuard<'_, Map> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl View for Map {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreFault> {
        Ok(BTreeMap::get(self, key).cloned())
    }

    fn range(&self, from: &[u8], to: &[u8], count: usize) -> Result<Vec<Pair>, StoreFault> {
        if from >= to {
            return Ok(Vec::new());
        }
        let found = BTreeMap::range::<[u8], _>(self, (std::ops::Bound::Included(from), std::ops::Bound::Excluded(to)));
        Ok(found.take(count).map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    fn range_back(&self, from: &[u8], to: &[u8], count: usize) -> Result<Vec<Pair>, StoreFault> {
        if from >= to {
            return Ok(Vec::new());
        }
        let found = BTreeMap::range::<[u8], _>(self, (std::ops::Bound::Included(from), std::ops::Bound::Excluded(to)));
        Ok(found.rev().take(count).map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}

fn make(map: &mut Map, changes: Vec<Change>) {
    for change in changes {
        match change {
            Change::Put(key, value) => drop(map.insert(key, value)),
            Change::Remove(key) => drop(map.remove(&key)),
        }
    }
}

#[async_trait]
impl Store for Memory {
    async fn commit(&self, commit: Commit) -> Result<Committed, CommitError> {
        let mut map = self.called();
        let plan = plan::plan(&*map, self.ticker.now(), &commit)?;
        make(&mut map, plan.changes);
        Ok(plan.committed)
    }

    async fn read(&self, key: &RecordKey) -> Result<(Option<Record>, StoreTime), StoreFault> {
        let map = self.called();
        let now = self.ticker.now();
        Ok((look::record(&*map, key, now)?, now))
    }

    async fn due(
        &self,
        environment: Environment,
        index: Index,
        until: Option<StoreTime>,
        count: usize,
    ) -> Result<Vec<(StoreTime, String)>, StoreFault> {
        look::due(&*self.called(), environment, index, until, count)
    }

    async fn part(
        &self,
        environment: Environment,
        index: Index,
        part: Part,
    ) -> Result<Vec<(StoreTime, String)>, StoreFault> {
        look::part(&*self.called(), environment, index, &part)
    }

    async fn used(&self, environment: Environment, window: &WindowKey, span: Span) -> Result<u64, StoreFault> {
        let map = self.called();
        look::used(&*map, environment, window, span, self.ticker.now())
    }

    async fn member(
        &self,
        environment: Environment,
        index: Index,
        member: &str,
    ) -> Result<Option<StoreTime>, StoreFault> {
        look::member(&*self.called(), environment, index, member)
    }

    async fn windows(
        &self,
        environment: Environment,
        limit: Option<&str>,
        count: usize,
    ) -> Result<Vec<WindowKey>, StoreFault> {
        look::windows(&*self.called(), environment, limit, count)
    }

    async fn outbox(
        &self,
        environment: Environment,
        node: &NodeId,
        count: usize,
    ) -> Result<Vec<Outstanding>, StoreFault> {
        look::outbox(&*self.called(), environment, node, count)
    }

    /// Whoever has another name is taken for gone.
    async fn take_over(
        &self,
        environment: Environment,
        node: &NodeId,
        count: usize,
    ) -> Result<Vec<Outstanding>, StoreFault> {
        look::others_outbox(&*self.called(), environment, node, count)
    }

    async fn drained(&self, environment: Environment, numbers: &[Number]) -> Result<(), StoreFault> {
        make(&mut self.called(), plan::drain(environment, numbers));
        Ok(())
    }

    async fn last(&self, environment: Environment) -> Result<Number, StoreFault> {
        look::last(&*self.called(), environment).map(Number::new)
    }

    async fn sweep(&self) -> Result<usize, StoreFault> {
        let mut map = self.called();
        let (count, changes) = plan::sweep(&*map, self.ticker.now(), SWEEP)?;
        make(&mut map, changes);
        Ok(count)
    }

    async fn time(&self) -> Result<StoreTime, StoreFault> {
        let _called = self.called();
        Ok(self.ticker.now())
    }
}
