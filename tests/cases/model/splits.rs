//! Histories of splits: a gate stays with the former primary and pays there, while the others use the promoted one.
//!
//! The promoted primary has all that the former one had; what is paid there afterwards, it does not know. The fence
//! keeps it from paying before the last payment there is over; then the journal of the gate there is joined to the others, as
//! after a loss, and all is known. A fence that does not hold, on either side, has something happen twice.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use sluice::adapters::redis::Fence;
use sluice::adapters::store::memory::MemoryStore;
use sluice::adapters::store::sealed::{Sealed, Seals};
use sluice::base::ids::Environment;
use sluice::ledger::{Commit, CommitError, Number, Query, QueryAnswer, Receipt, Sender, StoreFault};
use sluice::ports::{Clock as _, Store};
use tokio::time::sleep;

use super::fate::{Fate, ModelClock};
use super::losses::{Journal, connected};
use super::world::{ENVIRONMENT, NODES, World};
use super::{all_histories, callers, in_model_time};

/// Histories that failed once.
const COMMITTED_SEEDS: [u64; 0] = [];
const HISTORIES: u64 = 40;
const ROUNDS: usize = 4;
const BETWEEN: Duration = Duration::from_secs(60);
const MAX_SPLITS: usize = 4;
const FENCE: Duration = Duration::from_secs(30);

/// The primary in use, and the former one with the gate that stayed there.
#[derive(Debug)]
struct SplitStore {
    primary: Mutex<Arc<MemoryStore>>,
    former: Mutex<Option<(usize, Arc<MemoryStore>)>>,
}

/// The store as one gate reaches it.
#[derive(Debug)]
struct Side {
    split: Arc<SplitStore>,
    /// `None` for who looks at the primary.
    at: Option<usize>,
}

impl Side {
    fn now(&self) -> Arc<MemoryStore> {
        match &*self.split.former.lock().unwrap() {
            Some((at, former)) if Some(*at) == self.at => former.clone(),
            _ => self.split.primary.lock().unwrap().clone(),
        }
    }
}

#[async_trait]
impl Store for Side {
    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        self.now().commit(commit).await
    }

    async fn query(&self, query: Query) -> Result<QueryAnswer, StoreFault> {
        self.now().query(query).await
    }

    async fn kept(&self, environment: Environment, by: &Sender, up_to: Number) -> Result<(), StoreFault> {
        self.now().kept(environment, by, up_to).await
    }

    async fn sweep(&self) -> Result<usize, StoreFault> {
        self.now().sweep().await
    }
}

impl World {
    /// The gates use a primary that is made of all journals.
    async fn join_journals(&self, split: &SplitStore) {
        let mut journal = Journal::new();
        for file in &self.files {
            journal.extend(file.lock().unwrap().iter().map(|(number, entry)| (number.as_u64(), entry.clone())));
        }
        let highest = journal.last_key_value().map_or(0, |(highest, _)| *highest);
        let store = MemoryStore::of_journal(self.clock.clone(), &connected(journal), &Seals::default());
        *split.primary.lock().unwrap() = Arc::new(store.expect("the journals agree"));
        self.opens_or_closes(highest, false).await;
    }

    /// A majority of the Sentinels names the primary to all gates but the one that is cut off.
    async fn name_primary(self: Arc<World>, split: Arc<SplitStore>) {
        loop {
            let cut = split.former.lock().unwrap().as_ref().map(|(at, _)| *at);
            for at in (0..NODES).filter(|at| Some(*at) != cut) {
                self.fence(at).named(self.clock.elapsed());
            }
            sleep(Duration::from_secs(1)).await;
        }
    }

    /// The gate meets a primary that was promoted that long ago.
    fn meets_promoted(&self, at: usize, since: Duration) {
        let now = self.clock.elapsed();
        self.fence(at).begins_anew();
        self.fence(at).named(now);
        self.fence(at).meets(ENVIRONMENT, now, Some(since));
    }

    async fn splits(self: Arc<World>, split: Arc<SplitStore>) {
        for _ in 0..MAX_SPLITS {
            sleep(Duration::from_secs(10) + self.fate.millis(120_000)).await;
            let cut = self.fate.below(NODES as u64) as usize;
            self.end_all(Some(cut));
            let former = split.primary.lock().unwrap().clone();
            *split.primary.lock().unwrap() = Arc::new(former.replica(self.clock.clone()));
            *split.former.lock().unwrap() = Some((cut, former));
            // What is written from now on has numbers of its own.
            let last = self.store.last(ENVIRONMENT).await.unwrap().as_u64();
            self.opens_or_closes(last, false).await;
            for at in (0..NODES).filter(|at| *at != cut) {
                self.meets_promoted(at, Duration::ZERO);
            }
            // The gates at the promoted primary do not pay yet, and the one at the former primary does no more.
            sleep(FENCE - Duration::from_secs(1)).await;
            self.end_all(None);
            *split.former.lock().unwrap() = None;
            self.join_journals(&split).await;
            self.meets_promoted(cut, FENCE);
        }
    }
}

#[test]
fn no_history_of_splits_breaks_a_promise() {
    all_histories(&COMMITTED_SEEDS, HISTORIES, history);
}

fn history(seed: u64) {
    in_model_time(async move {
        let clock = Arc::new(ModelClock::new());
        let primary = Arc::new(MemoryStore::new(clock.clone()));
        let split = Arc::new(SplitStore { primary: Mutex::new(primary), former: Mutex::default() });
        let side = |at: Option<usize>| -> Arc<dyn Store> {
            Arc::new(Sealed::new(Arc::new(Side { split: split.clone(), at }), Seals::default()))
        };
        let sides = (0..NODES).map(|at| (side(Some(at)), Arc::new(Fence::new(Some(FENCE))))).collect();
        let world = World::with_sides(Fate::new(seed), clock, side(None), sides);
        for at in 0..NODES {
            world.fence(at).meets(ENVIRONMENT, world.clock.elapsed(), None);
        }
        let alive: Vec<_> = (0..NODES).map(|at| tokio::spawn(Arc::clone(&world).keep_alive(at))).collect();
        let naming = tokio::spawn(Arc::clone(&world).name_primary(split.clone()));
        let mut splitting = tokio::spawn(Arc::clone(&world).splits(split));
        let mut rounds = 0;
        while !splitting.is_finished() || rounds < ROUNDS {
            callers(&world).await;
            sleep(BETWEEN).await;
            rounds += 1;
        }
        (&mut splitting).await.expect("a part of the world failed");
        alive.iter().for_each(tokio::task::JoinHandle::abort);
        world.rest().await;
        world.people_look().await;
        callers(&world).await;
        world.rest().await;
        naming.abort();
        world.check().await;
    });
}
