//! Histories in which the store is emptied or set back again and again, and journals are archived or lost.
//!
//! At a loss every gate ends, and the next ones do what a start does: a store that ends before the journals is built anew
//! from them. Money opens by itself only if all journals are there; otherwise two people find out what was paid, tell its
//! callers not to repeat it, and open money.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use sluice::adapters::store::memory::MemoryStore;
use sluice::adapters::store::sealed::{Sealed, Seals};
use sluice::audit::UnusedNumbers;
use sluice::base::ids::Environment;
use sluice::ledger::{
    Commit, CommitError, Index, NodeId, Number, Outstanding, Query, QueryAnswer, Receipt, Sender, StoreFault,
};
use sluice::ports::Store;
use sluice::stations::claim::{self, ClaimState, Forgotten, Freeze, MoneyAfterRebuild, Owner, RebuildClosing};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::fate::{Fate, ModelClock};
use super::ports::AuditFile;
use super::world::{ENVIRONMENT, NODES, World};
use super::{all_histories, callers, in_model_time};

/// Histories that failed once.
const COMMITTED_SEEDS: [u64; 0] = [];
const HISTORIES: u64 = 24;
/// How often callers come, and how long lies between.
const ROUNDS: usize = 6;
const BETWEEN: Duration = Duration::from_secs(120);
const MAX_LOSSES: u64 = 4;
/// After this time nothing becomes of what was sent before.
const QUIET: Duration = Duration::from_secs(120);

/// A store that can lose its memory.
#[derive(Debug)]
struct ForgetfulStore {
    now: Mutex<Arc<MemoryStore>>,
}

impl ForgetfulStore {
    fn now(&self) -> Arc<MemoryStore> {
        self.now.lock().unwrap().clone()
    }

    fn becomes(&self, store: MemoryStore) {
        *self.now.lock().unwrap() = Arc::new(store);
    }
}

#[async_trait]
impl Store for ForgetfulStore {
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

/// What became of journals and of what they held.
#[derive(Debug, Default)]
pub struct LostMemory {
    /// Entries that were moved out of a journal; they can be had.
    archived: AuditFile,
    /// Entries of journals that were lost.
    gone: AuditFile,
    /// Whether money is closed until a person opens it.
    is_closed: AtomicBool,
    /// Whether anything was ever lost for good.
    lacks: AtomicBool,
    /// How often the store stood as before after a loss.
    whole: AtomicU64,
    /// Whether answers are lost, as claims were told by an audit log that did not keep them.
    lacks_answers: AtomicBool,
    /// RequestIds that callers were told not to use any more.
    retracted: Mutex<BTreeSet<String>>,
}

impl LostMemory {
    pub fn files(&self) -> [&AuditFile; 2] {
        [&self.archived, &self.gone]
    }

    pub fn is_retracted(&self, request_id: &str) -> bool {
        self.retracted.lock().unwrap().contains(request_id)
    }

    /// Journals may hold other entries than the store, whose claims are told to it.
    pub fn has_other_histories(&self) {
        self.lacks.store(true, Ordering::SeqCst);
        self.lacks_answers.store(true, Ordering::SeqCst);
    }

    pub fn is_answer_lost(&self) -> bool {
        self.lacks_answers.load(Ordering::SeqCst)
    }

    /// Whether limits and numbers can be exact.
    pub fn is_all_known(&self) -> bool {
        !self.lacks.load(Ordering::SeqCst)
    }
}

pub type Journal = BTreeMap<u64, Outstanding>;

/// What callers and people rely on: whatever happens to the store, it stands as it stood.
#[derive(Debug, PartialEq, Eq)]
struct Standing {
    /// Each claim as a text.
    claims: Vec<String>,
    /// The calls that are under way or in doubt.
    open: [Vec<String>; 2],
    /// What the limit counts.
    used: u64,
}

impl World {
    async fn standing(&self) -> Standing {
        let claims = self.claims().await.iter().map(|claim| format!("{claim:?}")).collect();
        let mut open = [Vec::new(), Vec::new()];
        for (members, index) in open.iter_mut().zip([Index::Sending, Index::Unknown]) {
            let due = self.store.due(ENVIRONMENT, index, None, usize::MAX).await.unwrap();
            members.extend(due.into_iter().map(|(_, name)| name));
            members.sort();
        }
        Standing { claims, open, used: self.used().await }
    }

    /// The journals at hand, as one.
    fn journal(&self) -> Journal {
        let mut journal = Journal::new();
        for file in self.files.iter().chain([&self.lost.archived]) {
            journal.extend(file.lock().unwrap().iter().map(|(number, entry)| (number.as_u64(), entry.clone())));
        }
        journal
    }

    async fn lose_memory(self: Arc<World>, store: Arc<ForgetfulStore>) {
        while self.fate.losses.load(Ordering::SeqCst) < MAX_LOSSES {
            sleep(Duration::from_secs(10) + self.fate.millis(200_000)).await;
            self.loses_memory(&store).await;
        }
    }

    /// Every gate ends, and what is on its way to the store does not reach it.
    pub fn end_all(&self, but: Option<usize>) {
        self.fate.losses.fetch_add(1, Ordering::SeqCst);
        for (_, node) in self.nodes.iter().enumerate().filter(|(at, _)| Some(*at) != but) {
            let mut node = node.lock().unwrap();
            node.life.end();
            node.work.iter().for_each(JoinHandle::abort);
            node.serving = false;
        }
    }

    async fn loses_memory(&self, store: &ForgetfulStore) {
        self.end_all(None);
        let made = |entries: &[Outstanding]| {
            MemoryStore::of_journal(self.clock.clone(), entries, &Seals::default())
                .expect("a journal agrees with itself")
        };
        let stood = (self.store.last(ENVIRONMENT).await.unwrap().as_u64(), self.standing().await);
        // An earlier state, or nothing.
        let before = connected(self.journal());
        let kept = if self.fate.chance(500) { 0 } else { self.fate.below(before.len() as u64 + 1) };
        store.becomes(made(&before[..usize::try_from(kept).unwrap()]));

        let file = &self.files[self.fate.below(NODES as u64) as usize];
        let mut lacks = self.lost.is_closed.load(Ordering::SeqCst);
        match self.fate.below(4) {
            0 => {
                self.lost.gone.lock().unwrap().append(&mut file.lock().unwrap());
                lacks = true;
                self.lost.lacks.store(true, Ordering::SeqCst);
            }
            1 => {
                let mut file = file.lock().unwrap();
                let middle = file.keys().nth(file.len() / 2).copied();
                let newer = middle.map(|middle| file.split_off(&middle)).unwrap_or_default();
                self.lost.archived.lock().unwrap().append(&mut *file);
                *file = newer;
            }
            _ => {}
        }
        let journal = self.journal();
        let highest = journal.last_key_value().map_or(0, |(highest, _)| *highest);
        if self.store.last(ENVIRONMENT).await.unwrap().as_u64() < highest {
            store.becomes(made(&connected(journal)));
        }
        // Where the journals at hand have all that the store had, nothing is another than before.
        if self.store.last(ENVIRONMENT).await.unwrap().as_u64() == stood.0 {
            assert_eq!(self.standing().await, stood.1, "after a loss");
            self.lost.whole.fetch_add(1, Ordering::SeqCst);
        }
        self.opens_or_closes(highest, lacks).await;
    }

    /// The commit behind a rebuild, above all numbers that anybody knows.
    pub async fn opens_or_closes(&self, highest: u64, lacks: bool) {
        let last = self.store.last(ENVIRONMENT).await.unwrap();
        let above = last.as_u64().max(highest) + 1_000 + self.fate.below(1_000);
        let (closed, _) = self.store.read(&Freeze::Restored.key(ENVIRONMENT)).await.unwrap();
        let before = closed.map(|record| record.version);
        let closing = lacks.then(|| RebuildClosing {
            before,
            waits_for: Forgotten { by_person: true, ..Forgotten::default() },
            why: "a journal is lost".to_owned(),
        });
        self.lost.is_closed.store(lacks, Ordering::SeqCst);
        let unused = UnusedNumbers { behind: last.as_u64(), last: above, begins: 0 };
        let money = closing.map_or(MoneyAfterRebuild::Open(before), MoneyAfterRebuild::Closed);
        let commit = claim::rebuilt(ENVIRONMENT, unused, money, &NodeId::parse("node-0").unwrap());
        self.store.commit(commit).await.unwrap();
    }

    async fn find_out_and_open(self: Arc<World>) {
        loop {
            sleep(Duration::from_secs(15)).await;
            if self.lost.is_closed.load(Ordering::SeqCst) {
                self.finds_out_and_opens().await;
            }
        }
    }

    async fn finds_out_and_opens(&self) {
        let losses = self.fate.losses.load(Ordering::SeqCst);
        sleep(QUIET).await;
        for (request_id, state) in self.claims().await {
            let is_known = matches!(
                state,
                Some(ClaimState::Done { executed: true, .. } | ClaimState::Unknown { .. } | ClaimState::Sending { .. })
            );
            if !is_known && !self.upstream.effects_of(&request_id).is_empty() {
                self.lost.retracted.lock().unwrap().insert(request_id);
            }
        }
        // What callers asked for before they were told is refused by now.
        sleep(QUIET).await;
        if self.fate.losses.load(Ordering::SeqCst) != losses {
            return;
        }
        let (record, _) = self.store.read(&Freeze::Restored.key(ENVIRONMENT)).await.unwrap();
        let (version, node) = (record.unwrap().version, NodeId::parse("people").unwrap());
        let person = Owner::named("console", "ann");
        let commit = claim::unfreeze(&Freeze::Restored, ENVIRONMENT, version, (None, &person), "found out", &node);
        self.store.commit(commit).await.unwrap();
        self.lost.is_closed.store(false, Ordering::SeqCst);
    }
}

/// Returns the entries from the first one on, up to where numbers are missing that nobody explains.
pub fn connected(journal: Journal) -> Vec<Outstanding> {
    let (mut entries, mut last) = (Vec::new(), 0);
    for (number, entry) in journal {
        if number != last + 1 && !says_unused(&entry, last) {
            break;
        }
        last = number;
        entries.push(entry);
    }
    entries
}

/// Whether an entry says that no number between another one and its own was ever used.
pub fn says_unused(entry: &Outstanding, behind: u64) -> bool {
    let entry: Value = serde_json::from_slice(&entry.entry).unwrap();
    let number = |name: &str| entry[name].as_u64();
    let (Some(first), Some(last)) = (number("upTo"), number("above")) else { return false };
    (first..=last).contains(&behind)
}

#[test]
fn no_history_of_losses_breaks_a_promise() {
    let whole = AtomicU64::default();
    all_histories(&COMMITTED_SEEDS, HISTORIES, |seed| {
        whole.fetch_add(history(seed), Ordering::SeqCst);
    });
    assert!(whole.into_inner() > 0, "no loss was like one that a journal makes good");
}

fn history(seed: u64) -> u64 {
    in_model_time(async move {
        let forgetful = Arc::new(std::sync::OnceLock::new());
        let of_world = forgetful.clone();
        let world = World::of(Fate::new(seed), ModelClock::new(), move |clock| {
            let store = Arc::new(ForgetfulStore { now: Mutex::new(Arc::new(MemoryStore::new(clock))) });
            of_world.set(store.clone()).unwrap();
            Arc::new(Sealed::new(store, Seals::default()))
        });
        let store = forgetful.get().unwrap().clone();
        let alive: Vec<_> = (0..NODES).map(|at| tokio::spawn(Arc::clone(&world).keep_alive(at))).collect();
        let others = [
            tokio::spawn(Arc::clone(&world).people()),
            tokio::spawn(Arc::clone(&world).lose_memory(store)),
            tokio::spawn(Arc::clone(&world).find_out_and_open()),
        ];
        for _ in 0..ROUNDS {
            callers(&world).await;
            sleep(BETWEEN).await;
        }
        for task in others.into_iter().chain(alive) {
            task.abort();
            let failed = task.await.is_err_and(|error| error.is_panic());
            assert!(!failed, "a part of the world failed");
        }
        world.rest().await;
        world.people_look().await;
        callers(&world).await;
        world.rest().await;
        world.check().await;
        world.lost.whole.load(Ordering::SeqCst)
    })
}
