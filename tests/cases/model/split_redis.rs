//! A Redis with a replica that may lag, as each gate reaches it: the primary in use, and the former one behind a split.
//!
//! Its script and the heartbeats of gates do not run here, so what they guard is written again, on the store in memory: a gate
//! that has not met a primary does nothing with it, an entry that no replica has comes to no journal where `durability` is
//! `replicated`, and each primary keeps the mark of every entry that it ever had.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use sluice::adapters::store::memory::MemoryStore;
use sluice::base::ids::Environment;
use sluice::ledger::{
    Commit, CommitError, NodeId, Number, Outstanding, Query, QueryAnswer, Receipt, Sender, StoreFault, StoreTime,
};
use sluice::ports::{Clock as _, Store};

use super::fate::ModelClock;
use super::world::NODES;

/// What tells an entry from another one with its number.
pub type Mark = (StoreTime, NodeId);

/// One Redis: its store, and what it knows of journals.
#[derive(Debug)]
pub struct Primary {
    pub store: MemoryStore,
    /// Which one it is.
    pub run: u64,
    /// When it was promoted; `None` for the first one.
    pub promoted: Option<Duration>,
    pub marks: Mutex<BTreeMap<u64, Mark>>,
    /// The number up to which the journal of a gate has every entry, as the gate said here.
    pub said: Mutex<BTreeMap<NodeId, u64>>,
}

impl Primary {
    fn first(clock: Arc<ModelClock>) -> Primary {
        let (marks, said) = (Mutex::default(), Mutex::default());
        Primary { store: MemoryStore::new(clock), run: 1, promoted: None, marks, said }
    }

    /// The name by which the Sentinels know it.
    pub fn name(&self) -> String {
        format!("redis-{}", self.run)
    }

    fn copy(&self, clock: Arc<ModelClock>, run: u64, promoted: Option<Duration>) -> Primary {
        let marks = Mutex::new(self.marks.lock().unwrap().clone());
        let said = Mutex::new(self.said.lock().unwrap().clone());
        Primary { store: self.store.replica(clock), run, promoted, marks, said }
    }

    /// The number of its last commit.
    pub fn last(&self) -> u64 {
        self.marks.lock().unwrap().last_key_value().map_or(0, |(last, _)| *last)
    }
}

#[derive(Debug)]
pub struct SplitRedis {
    clock: Arc<ModelClock>,
    /// Whether a commit is confirmed once a replica has it.
    pub is_replicated: bool,
    primary: Mutex<Arc<Primary>>,
    /// What the replica has: less than the primary where that does not wait for it.
    replica: Mutex<Primary>,
    /// The former primary, and the gates that stayed there.
    former: Mutex<Option<(Arc<Primary>, BTreeSet<usize>)>>,
    /// The primary that each gate has met.
    met: Mutex<[u64; NODES]>,
}

impl SplitRedis {
    pub fn new(clock: Arc<ModelClock>, is_replicated: bool) -> SplitRedis {
        let primary = Primary::first(clock.clone());
        let replica = Mutex::new(primary.copy(clock.clone(), 0, None));
        let (primary, met) = (Mutex::new(Arc::new(primary)), Mutex::new([1; NODES]));
        SplitRedis { clock, is_replicated, primary, replica, former: Mutex::default(), met }
    }

    pub fn primary(&self) -> Arc<Primary> {
        self.primary.lock().unwrap().clone()
    }

    /// The primary that a gate reaches.
    pub fn reached(&self, at: usize) -> Arc<Primary> {
        match &*self.former.lock().unwrap() {
            Some((former, stayed)) if stayed.contains(&at) => former.clone(),
            _ => self.primary(),
        }
    }

    pub fn stayed(&self) -> BTreeSet<usize> {
        self.former.lock().unwrap().as_ref().map(|(_, stayed)| stayed.clone()).unwrap_or_default()
    }

    pub fn has_met(&self, at: usize) -> bool {
        self.met.lock().unwrap()[at] == self.reached(at).run
    }

    pub fn is_met(&self, at: usize, primary: &Primary) {
        self.met.lock().unwrap()[at] = primary.run;
    }

    /// The replica has all that the primary has.
    pub fn replicate(&self) {
        *self.replica.lock().unwrap() = self.primary().copy(self.clock.clone(), 0, None);
    }

    /// The replica is promoted. These gates stay at the former primary, which has no replica any more.
    pub fn split(&self, stay: BTreeSet<usize>) {
        let former = self.primary();
        let promoted =
            self.replica.lock().unwrap().copy(self.clock.clone(), former.run + 1, Some(self.clock.elapsed()));
        *self.primary.lock().unwrap() = Arc::new(promoted);
        *self.former.lock().unwrap() = Some((former, stay));
        self.replicate();
    }

    /// A gate leaves the former primary.
    pub fn leaves(&self, at: usize) {
        let mut former = self.former.lock().unwrap();
        if let Some((_, stayed)) = &mut *former {
            stayed.remove(&at);
            if stayed.is_empty() {
                *former = None;
            }
        }
    }
}

/// The Redis as one gate reaches it.
#[derive(Debug)]
pub struct Side {
    pub redis: Arc<SplitRedis>,
    /// `None` for who looks at the primary in use.
    pub at: Option<usize>,
}

impl Side {
    fn here(&self) -> Result<Arc<Primary>, StoreFault> {
        match self.at {
            None => Ok(self.redis.primary()),
            Some(at) if self.redis.has_met(at) => Ok(self.redis.reached(at)),
            Some(_) => Err(StoreFault::Away("the gate waits until it has met this Redis".to_owned())),
        }
    }

    /// Whether no replica follows this primary, though it must.
    fn lacks_replica(&self, primary: &Primary) -> bool {
        self.redis.is_replicated && primary.run != self.redis.primary().run
    }
}

#[async_trait]
impl Store for Side {
    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        let primary = self.here().map_err(CommitError::Fault)?;
        let node = commit.node.clone();
        let receipt = primary.store.commit(commit).await?;
        primary.marks.lock().unwrap().insert(receipt.number().as_u64(), (receipt.at(), node));
        if self.lacks_replica(&primary) {
            let why = "no replica confirmed it in time".to_owned();
            return Err(CommitError::Fault(StoreFault::InDoubt(why)));
        }
        if self.redis.is_replicated {
            self.redis.replicate();
        }
        Ok(receipt)
    }

    async fn query(&self, query: Query) -> Result<QueryAnswer, StoreFault> {
        let primary = self.here()?;
        let is_for_journal = match &query {
            Query::DurableLast(_) if self.lacks_replica(&primary) => {
                return Err(StoreFault::Away("no replica confirmed it in time".to_owned()));
            }
            Query::Outbox { for_journal, .. } => *for_journal,
            _ => false,
        };
        let answer = primary.store.query(query).await?;
        let QueryAnswer::Entries(mut entries) = answer else { return Ok(answer) };
        if is_for_journal && self.lacks_replica(&primary) {
            // The promoted one was its replica: what both have is safe.
            let promoted = self.redis.primary();
            let promoted = promoted.marks.lock().unwrap();
            let is_safe =
                |entry: &Outstanding| promoted.get(&entry.number.as_u64()) == Some(&(entry.at, entry.node.clone()));
            entries.retain(is_safe);
        }
        Ok(QueryAnswer::Entries(entries))
    }

    async fn kept(&self, environment: Environment, by: &Sender, up_to: Number) -> Result<(), StoreFault> {
        let primary = self.here()?;
        primary.store.kept(environment, by, up_to).await?;
        primary.said.lock().unwrap().insert(by.node.clone(), up_to.as_u64());
        Ok(())
    }

    async fn sweep(&self) -> Result<usize, StoreFault> {
        self.here()?.store.sweep().await
    }
}
