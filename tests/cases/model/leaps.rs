//! Histories in which the clock of the store leaps, ahead and back, for minutes, while machines are paused: gates compare it with
//! their own clocks, as their heartbeats do, and close money; people open it when the clock is right again.
//!
//! The store in memory goes on at the pace of the monotonic clock, as the embedded one does. The same of the script of a Redis
//! is not in the model: `clocks` has it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use sluice::adapters::store::redis::{ComparedClock, RAN_WITHIN};
use sluice::ledger::{ClockAnchor, NodeId, Number, StoreTime};
use sluice::node::Node;
use sluice::node::clock_leaps::{ClockTestimony, LeapConsequence, OtherClocks};
use sluice::ports::Clock as _;
use sluice::stations::claim::{self, Freeze, Owner};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::fate::{Fate, ModelClock};
use super::world::{ENVIRONMENT, NODES, World, in_memory};
use super::{all_histories, callers, in_model_time};

/// Histories that failed once.
const COMMITTED_SEEDS: [u64; 0] = [];
const HISTORIES: u64 = 24;
const ROUNDS: usize = 4;
const BETWEEN: Duration = Duration::from_secs(60);
const BEAT: Duration = Duration::from_secs(1);
/// A heartbeat that took longer compares nothing.
const BEAT_WITHIN: Duration = Duration::from_secs(1);
/// After so many heartbeats of one gate that found the clock wrong, money is closed: one of two gates alone waits for the other
/// one, and for its silence.
const SURE: u32 = 16;

/// What a gate last told the others of the store's clock, what it asked them, and when.
struct ToldClock {
    at: Duration,
    clock: ClockTestimony,
    asks: Option<String>,
}

type ToldClocks = Mutex<BTreeMap<usize, ToldClock>>;

impl World {
    /// Compares the store's clock with the node's own, as long as each of its lives lasts.
    async fn compare_clocks(self: Arc<World>, at: usize, told: Arc<ToldClocks>) {
        loop {
            let books = {
                let node = self.nodes[at].lock().unwrap();
                (node.serving && !node.life.is_over()).then(|| node.books.clone())
            };
            match books {
                // A call that belongs to a life which is over never returns.
                Some(books) => tokio::select! {
                    () = self.compares(books.clone(), at, &told) => {}
                    () = self.ends(at, &books) => {}
                },
                None => sleep(BEAT).await,
            }
        }
    }

    async fn ends(&self, at: usize, books: &Arc<Node>) {
        let goes_on = || {
            let node = self.nodes[at].lock().unwrap();
            Arc::ptr_eq(&node.books, books) && !node.life.is_over()
        };
        while goes_on() {
            sleep(BEAT).await;
        }
    }

    async fn compares(&self, books: Arc<Node>, at: usize, told: &ToldClocks) {
        let (mut anchor, mut seen) = (None::<ClockAnchor>, 0);
        loop {
            sleep(BEAT).await;
            let from = self.clock.elapsed();
            let Ok(time) = books.store.time().await else { continue };
            let now = self.clock.elapsed();
            if now - from > BEAT_WITHIN {
                continue;
            }
            let shown = StoreTime::of_micros(self.clock.now().as_microsecond());
            let leap = anchor.get_or_insert(ClockAnchor::new(time, now)).leap(shown, (now, now));
            let own = ComparedClock { clock: shown, leap };
            let others = {
                let mut told = told.lock().unwrap();
                let others = told.iter().filter(|(other, told)| **other != at && now - told.at < RAN_WITHIN);
                let (clocks, asks): (Vec<_>, Vec<_>) =
                    others.map(|(_, told)| (told.clock.clone(), told.asks.clone())).unzip();
                let clock = ClockTestimony::of(own, asks.into_iter().flatten().collect());
                let asks = books.clocks.leaps.question(ENVIRONMENT);
                told.insert(at, ToldClock { at: now, clock, asks });
                OtherClocks { running: clocks.len(), told: clocks }
            };
            seen = if leap.is_some() { seen + 1 } else { 0 };
            match books.judge_clock(ENVIRONMENT, Some(own), &others, None).await {
                // The store of this model goes on by itself.
                Ok(LeapConsequence::KeepsOwn | LeapConsequence::GoesOn) => {}
                Ok(LeapConsequence::TakesTime | LeapConsequence::TakesTimeAndCloses) => {
                    let wrong = format!("node {at} takes the time of a clock that leapt: {own:?}");
                    self.upstream.wrong.lock().unwrap().push(wrong);
                }
                Err(_) => continue,
            }
            if seen >= SURE && self.frozen_since().await.is_none() {
                let wrong = format!("node {at} sees {own:?} since {seen} heartbeats, and money is open");
                self.upstream.wrong.lock().unwrap().push(wrong);
            }
        }
    }

    async fn frozen_since(&self) -> Option<Number> {
        let (record, _) = self.store.read(&Freeze::Clock.key(ENVIRONMENT)).await.unwrap();
        record.map(|record| record.version)
    }

    /// People open money when the clock is right.
    async fn open_when_right(self: Arc<World>) {
        loop {
            sleep(Duration::from_secs(5) + self.fate.millis(30_000)).await;
            let Some(version) = self.frozen_since().await else { continue };
            if self.clock.leap().is_zero() {
                let (person, node) = (Owner::named("console", "ann"), NodeId::parse("people").unwrap());
                let why = "the clock is right";
                let commit = claim::unfreeze(&Freeze::Clock, ENVIRONMENT, version, (None, &person), why, &node);
                self.store.commit(commit).await.ok();
            }
        }
    }

    /// Nothing was begun while money was closed for the clock; returns how often it was.
    async fn closings(&self) -> usize {
        let outbox = self.store.outbox(ENVIRONMENT, Number::new(0), usize::MAX).await.unwrap();
        let mut entries: BTreeMap<Number, Value> = BTreeMap::new();
        let written = self.files.iter().flat_map(|file| file.lock().unwrap().values().cloned().collect::<Vec<_>>());
        for entry in written.chain(outbox) {
            entries.insert(entry.number, serde_json::from_slice(&entry.entry).unwrap());
        }
        let (mut is_closed, mut closings) = (false, 0);
        for (number, entry) in entries {
            let is_of_clock = entry["freeze"] == "clock";
            match entry["what"].as_str().unwrap_or_default() {
                "frozen" if is_of_clock => {
                    closings += usize::from(!is_closed);
                    is_closed = true;
                }
                "unfrozen" if is_of_clock => is_closed = false,
                "sending" => assert!(!is_closed, "{number}: begun while the clock was doubted"),
                _ => {}
            }
        }
        assert!(!is_closed, "nobody opened money");
        closings
    }
}

#[test]
fn no_history_of_leaps_breaks_a_promise() {
    let closings = AtomicUsize::default();
    all_histories(&COMMITTED_SEEDS, HISTORIES, |seed| {
        closings.fetch_add(history(seed), Ordering::SeqCst);
    });
    assert!(closings.into_inner() > 0, "no leap closed money");
}

fn history(seed: u64) -> usize {
    in_model_time(async move {
        let world = World::of(Fate::new(seed), ModelClock::leaping_seldom(seed), in_memory);
        let told: Arc<ToldClocks> = Arc::default();
        let alive: Vec<_> = (0..NODES).map(|at| tokio::spawn(Arc::clone(&world).keep_alive(at))).collect();
        let compared: Vec<_> =
            (0..NODES).map(|at| tokio::spawn(Arc::clone(&world).compare_clocks(at, told.clone()))).collect();
        let opened = tokio::spawn(Arc::clone(&world).open_when_right());
        let others = [tokio::spawn(Arc::clone(&world).people()), tokio::spawn(Arc::clone(&world).pauses())];
        for _ in 0..ROUNDS {
            callers(&world).await;
            world.asks_for_others();
            sleep(BETWEEN).await;
        }
        others.iter().chain(&alive).for_each(JoinHandle::abort);
        world.clock.is_set_right();
        world.rest().await;
        world.people_look().await;
        callers(&world).await;
        world.rest().await;
        for task in compared.into_iter().chain([opened]) {
            assert!(!task.is_finished(), "a part of the world failed");
            task.abort();
        }
        world.check().await;
        world.closings().await
    })
}
