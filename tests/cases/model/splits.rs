//! Histories of splits: gates go on at the former primary of a Redis, while the others use the promoted replica, which may
//! lag. The fence, beginnings, freezes and the telling of claims are the gates' own code; for the rest, see `split_redis`.
//!
//! - Behind a fence and with `durability = "replicated"`, nothing happens twice, however long gates stay at the former primary.
//! - With `acknowledged`, nothing happens twice where a gate that followed the former primary comes within the fence.
//! - Without a fence, a call may happen twice before the two histories meet, and not afterwards: money closes, every claim is
//!   told, and people open it.
//!
//! A promoted primary with fewer numbers than a journal is one that lost its memory, which `losses` has. Here it has as many.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use sluice::adapters::redis::Fence;
use sluice::adapters::store::sealed::{Sealed, Seals};
use sluice::ledger::{Commit, NodeId, Number, Outstanding};
use sluice::node::Node;
use sluice::node::journalling::bring;
use sluice::node::recovery::{tell_tale, written_claim};
use sluice::ports::{Clock as _, Store};
use sluice::stations::claim::{self, ClaimState, Forgotten, Freeze, LackedEntries, Owner, Tale};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::fate::{Fate, ModelClock};
use super::split_redis::{Mark, Primary, Side, SplitRedis};
use super::world::{ENVIRONMENT, NODES, World};
use super::{all_histories, callers, in_model_time};

/// Histories that failed once.
const COMMITTED_SEEDS: [u64; 0] = [];
const HISTORIES: u64 = 12;
const BETWEEN: Duration = Duration::from_secs(20);
const MAX_SPLITS: usize = 3;
const FENCE: Duration = Duration::from_secs(40);
const BEAT: Duration = Duration::from_secs(1);
/// After this time nothing becomes of what was sent before.
const QUIET: Duration = Duration::from_secs(120);

/// How the gates of a history are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protection {
    /// The fence, and commits that a replica has.
    Replicated,
    /// The fence, and a gate that followed the former primary and comes within it.
    Fence,
    /// Neither.
    Nothing,
}

/// One history of splits.
#[derive(Debug)]
struct Splits {
    redis: Arc<SplitRedis>,
    protection: Protection,
    /// From when until when a call could happen twice.
    apart: Mutex<Vec<(Duration, Duration)>>,
    /// How often a gate met another history than its own.
    differed: AtomicUsize,
}

impl World {
    /// A majority of the Sentinels names the primary in use to the gates that do not stay at the former one.
    async fn name_primary(self: Arc<World>, splits: Arc<Splits>) {
        loop {
            let stayed = splits.redis.stayed();
            for at in (0..NODES).filter(|at| !stayed.contains(at)) {
                self.fence(at).named(&[ENVIRONMENT], &splits.redis.reached(at).name(), self.clock.elapsed());
            }
            *self.unheard.lock().unwrap() = stayed;
            sleep(BEAT).await;
        }
    }

    async fn keep_meeting(self: Arc<World>, at: usize, splits: Arc<Splits>) {
        loop {
            sleep(BEAT).await;
            // A machine that is paused meets nobody.
            let life = self.nodes[at].lock().unwrap().life.clone();
            if timeout(BEAT, life.wakes()).await.is_ok() && !splits.redis.has_met(at) {
                self.meets(at, &splits).await;
            }
        }
    }

    /// A gate meets another primary: it compares its newest entry before it does anything else there.
    async fn meets(&self, at: usize, splits: &Splits) {
        let (primary, books) = (splits.redis.reached(at), self.nodes[at].lock().unwrap().books.clone());
        self.fence(at).begins_anew(&[ENVIRONMENT], Some(&primary.name()));
        let file = self.files[at].clone();
        // It may have followed since it was asked for the last time.
        let in_file = file.lock().unwrap().last_key_value().map(|(last, _)| *last);
        let highest = books.audit.highest(ENVIRONMENT).max(in_file.unwrap_or_default());
        let newest: Option<Mark> = file.lock().unwrap().get(&highest).map(|entry| (entry.at, entry.node.clone()));
        while primary.last() < highest.as_u64() {
            let (node, entry) = (NodeId::parse("other").unwrap(), Bytes::from_static(br#"{"what":"other"}"#));
            let other = Commit { environment: ENVIRONMENT, node, steps: Vec::new(), entry };
            self.store.commit(other).await.unwrap();
        }
        let here = primary.marks.lock().unwrap().get(&highest.as_u64()).cloned();
        if newest.is_some_and(|newest| here.is_some_and(|here| here != newest)) {
            splits.differed.fetch_add(1, Ordering::SeqCst);
            let last = self.closes_awaiting(&primary, &books, highest.as_u64()).await;
            books.audit.skip(ENVIRONMENT, last).await.unwrap();
        }
        splits.redis.is_met(at, &primary);
        let now = self.clock.elapsed();
        self.fence(at).named(&[ENVIRONMENT], &primary.name(), now);
        self.fence(at).meets(ENVIRONMENT, now, primary.promoted.map(|promoted| now - promoted));
    }

    /// Closes money until a person opens it and this gate has told its claims.
    async fn closes_awaiting(&self, primary: &Primary, books: &Node, kept: u64) -> Number {
        let said = primary.said.lock().unwrap().get(&books.id).copied();
        let from = said.filter(|said| *said < kept).unwrap_or_default();
        let (record, _) = self.store.read(&Freeze::Restored.key(ENVIRONMENT)).await.unwrap();
        let (before, mut forgotten) = Forgotten::of_record(record);
        forgotten.awaits_also(&Forgotten { nodes: [(books.id.clone(), from)].into(), ..Forgotten::default() });
        let commit = claim::closed_for_gap(ENVIRONMENT, before, forgotten, "two Redis were used", &books.id);
        self.store.commit(commit).await.unwrap().number()
    }

    /// A gate tells its claims to a store that waits for them.
    async fn keep_telling(self: Arc<World>, at: usize) {
        loop {
            sleep(BEAT).await;
            let books = {
                let node = self.nodes[at].lock().unwrap();
                (node.serving && !node.life.is_over()).then(|| node.books.clone())
            };
            let Some(books) = books else { continue };
            timeout(Duration::from_secs(60), self.tells(at, &books)).await.ok();
        }
    }

    async fn tells(&self, at: usize, books: &Arc<Node>) {
        let Ok((record, _)) = books.store.read(&Freeze::Restored.key(ENVIRONMENT)).await else { return };
        let (_, waits) = Forgotten::of_record(record);
        let Some(from) = waits.nodes.get(&books.id) else { return };
        if bring(books, ENVIRONMENT).await.is_err() {
            return;
        }
        let mut tale = Tale::of(books.sender());
        for (number, entry) in self.files[at].lock().unwrap().iter() {
            if number.as_u64() > *from {
                tale.add(entry, written_claim(&Seals::default(), entry).unwrap().as_ref());
            }
        }
        let lacks = LackedEntries::of(&books.id, &waits, *from, 0);
        tell_tale(books, ENVIRONMENT, tale, &lacks).await.ok();
    }

    /// People open money when every gate has told what it knows, and whatever could become of calls has become of them.
    async fn open_when_told(self: Arc<World>) {
        let key = Freeze::Restored.key(ENVIRONMENT);
        loop {
            sleep(Duration::from_secs(10)).await;
            let (before, waits) = Forgotten::of_record(self.store.read(&key).await.unwrap().0);
            if before.is_none() || !waits.nodes.is_empty() {
                continue;
            }
            sleep(QUIET).await;
            let (version, waits) = Forgotten::of_record(self.store.read(&key).await.unwrap().0);
            let Some(version) = version.filter(|_| waits.nodes.is_empty()) else { continue };
            self.is_all_told().await;
            let (person, node) = (Owner::named("console", "ann"), NodeId::parse("people").unwrap());
            let commit = claim::unfreeze(&Freeze::Restored, ENVIRONMENT, version, (None, &person), "found out", &node);
            self.store.commit(commit).await.ok();
        }
    }

    /// The store knows of everything that was sent.
    async fn is_all_told(&self) {
        for (request_id, state) in self.claims().await {
            let is_known = matches!(
                state,
                Some(ClaimState::Done { executed: true, .. } | ClaimState::Unknown { .. } | ClaimState::Sending { .. })
            );
            if !is_known && !self.upstream.effects_of(&request_id).is_empty() {
                self.upstream.wrong.lock().unwrap().push(format!("{request_id}: {state:?} when money opens, and sent"));
            }
        }
    }

    /// What is on its way to a primary does not come to another one.
    fn cuts(&self) {
        self.fate.losses.fetch_add(1, Ordering::SeqCst);
    }

    /// The process of a gate ends, and another one begins later.
    fn end(&self, at: usize) {
        let mut node = self.nodes[at].lock().unwrap();
        node.life.end();
        node.work.iter().for_each(JoinHandle::abort);
        node.serving = false;
    }

    async fn splits(self: Arc<World>, splits: Arc<Splits>) {
        let redis = &splits.redis;
        for _ in 0..MAX_SPLITS {
            sleep(Duration::from_secs(10) + self.fate.millis(100_000)).await;
            let first = self.fate.below(NODES as u64) as usize;
            let other = (first + 1 + self.fate.below(NODES as u64 - 1) as usize) % NODES;
            let follower = (self.fate.chance(500) || splits.protection == Protection::Fence).then_some(other);
            let stay: BTreeSet<usize> = [first].into_iter().chain(follower).collect();
            let began = self.clock.elapsed();
            self.cuts();
            redis.split(stay.clone());
            match (splits.protection, follower) {
                (Protection::Fence, Some(follower)) => {
                    // No gate stays away that has what the promoted one lacks.
                    for at in (0..NODES).filter(|at| !stay.contains(at)) {
                        self.end(at);
                        self.meets(at, &splits).await;
                    }
                    sleep(FENCE - BEAT * 3).await;
                    self.follows_to_the_end(follower, &redis.reached(follower)).await;
                    self.cuts();
                    redis.leaves(follower);
                    self.end(follower);
                    self.meets(follower, &splits).await;
                    sleep(self.fate.millis(90_000)).await;
                }
                _ => sleep(Duration::from_secs(5) + self.fate.millis(120_000)).await,
            }
            self.cuts();
            stay.iter().for_each(|at| redis.leaves(*at));
            while (0..NODES).any(|at| !redis.has_met(at)) {
                sleep(BEAT).await;
            }
            splits.apart.lock().unwrap().push((began, self.clock.elapsed()));
        }
    }

    /// The journal of a gate has all that its primary has.
    async fn follows_to_the_end(&self, at: usize, primary: &Primary) {
        let highest = || self.files[at].lock().unwrap().last_key_value().map_or(Number::new(0), |(last, _)| *last);
        let last = highest();
        let mut entries = primary.store.outbox(ENVIRONMENT, last, usize::MAX).await.unwrap();
        // Of a gate that has not paid yet, the outbox of this model does not know that it follows.
        for file in &self.files {
            let of_it = |entry: &&Outstanding| {
                let marks = primary.marks.lock().unwrap();
                entry.number > last && marks.get(&entry.number.as_u64()) == Some(&(entry.at, entry.node.clone()))
            };
            entries.extend(file.lock().unwrap().values().filter(of_it).cloned());
        }
        self.files[at].lock().unwrap().extend(entries.into_iter().map(|entry| (entry.number, entry)));
    }

    /// While money was closed for another history, nothing was begun.
    fn check_closed(&self, primary: &Primary) {
        let marks = primary.marks.lock().unwrap();
        let mut entries: BTreeMap<Number, Outstanding> = BTreeMap::new();
        for file in &self.files {
            let of_history =
                |entry: &&Outstanding| marks.get(&entry.number.as_u64()) == Some(&(entry.at, entry.node.clone()));
            entries.extend(file.lock().unwrap().values().filter(of_history).map(|entry| (entry.number, entry.clone())));
        }
        let mut is_closed = false;
        for (number, entry) in entries {
            let entry: Value = serde_json::from_slice(&entry.entry).unwrap();
            let is_of_history = entry["freeze"] == "restored";
            match entry["what"].as_str().unwrap_or_default() {
                "frozen" if is_of_history => is_closed = true,
                "unfrozen" if is_of_history => is_closed = false,
                "sending" => assert!(!is_closed, "{number}: begun while two histories were known"),
                _ => {}
            }
        }
    }

    /// What happened twice did so before the histories met.
    fn check_once_met(&self, splits: &Splits) {
        let apart = splits.apart.lock().unwrap().clone();
        let mut first: BTreeMap<String, Duration> = BTreeMap::new();
        let effects = self.upstream.effects.lock().unwrap().clone();
        let mut effects: Vec<_> = effects.iter().map(|effect| (effect.sent, &effect.request_id)).collect();
        effects.sort();
        for (sent, request_id) in effects {
            if let Some(before) = first.get(request_id) {
                let could = |(from, until): &(Duration, Duration)| {
                    // What was begun before they met may leave behind that.
                    (*from..*until + super::node::BEGIN_WITHIN).contains(&sent)
                };
                assert!(apart.iter().any(could), "{request_id}: sent at {before:?} and at {sent:?}, apart {apart:?}");
            }
            first.entry(request_id.clone()).or_insert(sent);
        }
    }

    async fn is_open(&self) -> bool {
        self.store.read(&Freeze::Restored.key(ENVIRONMENT)).await.unwrap().0.is_none()
    }
}

fn no_history_breaks_a_promise_by(protection: Protection) -> usize {
    let differed = AtomicUsize::default();
    all_histories(&COMMITTED_SEEDS, HISTORIES, |seed| {
        differed.fetch_add(history(seed, protection), Ordering::SeqCst);
    });
    differed.into_inner()
}

#[test]
fn no_history_of_splits_with_a_replica_breaks_a_promise() {
    assert_eq!(no_history_breaks_a_promise_by(Protection::Replicated), 0, "no journal has what no replica has");
}

#[test]
fn no_history_of_splits_behind_a_fence_breaks_a_promise() {
    assert!(no_history_breaks_a_promise_by(Protection::Fence) > 0);
}

#[test]
fn no_history_of_splits_without_a_fence_breaks_a_promise() {
    assert!(no_history_breaks_a_promise_by(Protection::Nothing) > 0);
}

fn history(seed: u64, protection: Protection) -> usize {
    in_model_time(async move {
        let clock = Arc::new(ModelClock::new());
        let redis = Arc::new(SplitRedis::new(clock.clone(), protection == Protection::Replicated));
        let side = |at: Option<usize>| -> Arc<dyn Store> {
            Arc::new(Sealed::new(Arc::new(Side { redis: redis.clone(), at }), Seals::default()))
        };
        let length = (protection != Protection::Nothing).then_some(FENCE);
        let sides = (0..NODES).map(|at| (side(Some(at)), Arc::new(Fence::new(length)))).collect();
        let world = World::with_sides(Fate::new(seed), clock, side(None), sides);
        for at in 0..NODES {
            world.fence(at).meets(ENVIRONMENT, world.clock.elapsed(), None);
        }
        let (apart, differed) = (Mutex::default(), AtomicUsize::default());
        let splits = Arc::new(Splits { redis: redis.clone(), protection, apart, differed });
        if protection != Protection::Replicated {
            world.lost.has_other_histories();
        }
        let mut tasks = vec![
            tokio::spawn(world.clone().name_primary(splits.clone())),
            tokio::spawn(world.clone().open_when_told()),
            tokio::spawn(replicates(world.clone(), redis.clone())),
        ];
        for at in 0..NODES {
            tasks.push(tokio::spawn(world.clone().keep_meeting(at, splits.clone())));
            tasks.push(tokio::spawn(world.clone().keep_telling(at)));
        }
        let alive: Vec<_> = (0..NODES).map(|at| tokio::spawn(world.clone().keep_alive(at))).collect();
        let others = [tokio::spawn(world.clone().people()), tokio::spawn(world.clone().pauses())];
        let mut splitting = tokio::spawn(world.clone().splits(splits.clone()));
        while !splitting.is_finished() {
            callers(&world).await;
            world.asks_for_others();
            sleep(BETWEEN).await;
        }
        (&mut splitting).await.expect("a part of the world failed");
        others.iter().chain(&alive).for_each(JoinHandle::abort);
        world.rest().await;
        let opens = async {
            while !world.is_open().await {
                sleep(BEAT).await;
            }
        };
        timeout(Duration::from_secs(3_600), opens).await.expect("money stays closed");
        world.people_look().await;
        callers(&world).await;
        world.rest().await;
        for task in tasks {
            assert!(!task.is_finished(), "a part of the world failed");
            task.abort();
        }
        world.check_closed(&redis.primary());
        match protection {
            Protection::Replicated => world.check().await,
            Protection::Fence => {
                world.check().await;
                world.check_limit().await;
            }
            Protection::Nothing => {
                world.check_seen();
                world.check_once_met(&splits);
            }
        }
        splits.differed.load(Ordering::SeqCst)
    })
}

/// The replica follows the primary, some time later.
async fn replicates(world: Arc<World>, redis: Arc<SplitRedis>) {
    loop {
        sleep(world.fate.millis(15_000)).await;
        redis.replicate();
    }
}
