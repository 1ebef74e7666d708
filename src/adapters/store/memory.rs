//! A store in memory: for the model and for tests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::SWEEP;
use super::gathered::StoreMap;
use super::plan::{self, PlannedChange};
use super::queries;
use super::queries::{Pair, StoreView};
use super::repeated::{self, ReadEntry};
use super::sealed::Seals;
use super::ticker::{Ticker, TickerStart};
use crate::base::ids::Environment;
use crate::ledger::{
    Commit, CommitError, Number, Outstanding, Query, QueryAnswer, Receipt, Sender, Step, StoreFault, StoreTime,
};
use crate::ports::{Clock, Store};

/// A store without a disk. The same calls at the same times always give the same answers.
#[derive(Debug)]
pub struct MemoryStore {
    map: Mutex<MemoryMap>,
    ticker: Ticker,
    calls: AtomicU64,
}

type MemoryMap = BTreeMap<Vec<u8>, Vec<u8>>;

impl MemoryStore {
    pub fn new(clock: Arc<dyn Clock>) -> MemoryStore {
        let ticker = Ticker::new(clock, StoreTime::default(), TickerStart::OfDay);
        MemoryStore { map: Mutex::default(), ticker, calls: AtomicU64::new(0) }
    }

    /// Returns a replica that has all of it.
    #[must_use]
    pub fn replica(&self, clock: Arc<dyn Clock>) -> MemoryStore {
        let map = self.map.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let ticker = Ticker::new(clock, self.ticker.now(), TickerStart::OfDay);
        MemoryStore { map: Mutex::new(map), ticker, calls: AtomicU64::new(0) }
    }

    /// Makes the commits of a journal again, which must be in the order of their numbers. Returns the first that those before
    /// it do not allow.
    pub fn of_journal(clock: Arc<dyn Clock>, entries: &[Outstanding], seals: &Seals) -> Result<MemoryStore, String> {
        let mut map = MemoryMap::default();
        for entry in entries {
            let made = repeated::repeat(&mut map, entry, ReadEntry::of(entry, seals), false);
            let made = made.map_err(|fault| fault.to_string())?;
            if let Some(why) = made.contradiction() {
                return Err(format!("entry {}: {why}", entry.number));
            }
        }
        let since = queries::time(&map).map_err(|fault| fault.to_string())?;
        Ok(MemoryStore {
            map: Mutex::new(map),
            ticker: Ticker::new(clock, since, TickerStart::OfDay),
            calls: AtomicU64::new(0),
        })
    }

    /// Returns the number of calls so far: the round trips that a remote store would need.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    fn called(&self) -> MutexGuard<'_, MemoryMap> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StoreView for MemoryMap {
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

fn make(map: &mut MemoryMap, changes: Vec<PlannedChange>) {
    for change in changes {
        match change {
            PlannedChange::Put(key, value) => drop(map.insert(key, value)),
            PlannedChange::Remove(key) => drop(map.remove(&key)),
        }
    }
}

impl StoreMap for MemoryMap {
    fn make(&mut self, changes: Vec<PlannedChange>) -> Result<(), StoreFault> {
        make(self, changes);
        Ok(())
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        let mut map = self.called();
        let plan = plan::plan(&*map, self.ticker.now(), &commit)?;
        make(&mut map, plan.changes);
        if commit.steps.contains(&Step::FollowClock) {
            self.ticker.follow();
        }
        Ok(plan.committed)
    }

    async fn query(&self, query: Query) -> Result<QueryAnswer, StoreFault> {
        queries::answer(&*self.called(), query, &self.ticker)
    }

    async fn kept(&self, environment: Environment, by: &Sender, up_to: Number) -> Result<(), StoreFault> {
        let mut map = self.called();
        let changes = plan::kept(&*map, environment, by, up_to)?;
        make(&mut map, changes);
        Ok(())
    }

    async fn sweep(&self) -> Result<usize, StoreFault> {
        let mut map = self.called();
        let (count, changes) = plan::sweep(&*map, self.ticker.now(), SWEEP)?;
        make(&mut map, changes);
        Ok(count)
    }
}
