//! The model: three nodes, one store that takes no writes at times, upstream and impatient callers in one thread, where
//! everything that can be late, lost, repeated, paused or dead is so by one seed. Every history must keep the promises. In
//! `losses`, the store loses its memory, and journals are archived or lost; in `leaps`, its clock leaps; in `splits`, gates use
//! two of it; in `holds`, gates follow the set in force one after the other.
//!
//! A failure prints its seed; `SLUICE_SEED=N cargo test --test main model` runs that history alone. `SLUICE_HISTORIES`
//! says how many there are.

mod callers;
mod elsewhere;
mod fate;
mod holds;
mod leaps;
mod limits;
mod losses;
mod node;
mod ports;
mod quorum;
mod split_redis;
mod splits;
mod stopping;
mod told;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use elsewhere::Elsewhere;
use fate::ModelClock;
use sluice::adapters::store::redis::RedisStore;
use sluice::ports::Store;
use sluice::stations::reply::Executed;
use tokio::time::timeout;
use world::{NODES, World, in_memory};

use super::store::redis::connected;
use super::store::{BEGIN, Hand};
use crate::support::Redis;

/// Histories that failed once.
const COMMITTED_SEEDS: [u64; 0] = [];
const HISTORIES: u64 = 200;
/// Those that are told by a real Redis as well.
const REDIS_HISTORIES: u64 = 6;
const REQUEST_IDS: u64 = 4;

#[test]
fn no_history_breaks_a_promise() {
    all_histories(&COMMITTED_SEEDS, HISTORIES, |seed| drop(history(seed, in_memory)));
}

/// Runs the histories of these seeds, and so many others.
fn all_histories(committed: &[u64], histories: u64, history: impl Fn(u64) + Sync) {
    let seeds: Vec<u64> = match variable("SLUICE_SEED") {
        Some(seed) => vec![seed],
        None => {
            let all = 1..=variable("SLUICE_HISTORIES").unwrap_or(histories);
            committed.iter().copied().chain(all).collect()
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let broken = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::SeqCst)) {
                    if broken.load(Ordering::SeqCst) {
                        return;
                    }
                    if let Err(why) = catch_unwind(AssertUnwindSafe(|| history(*seed))) {
                        broken.store(true, Ordering::SeqCst);
                        eprintln!("history {seed} breaks a promise; SLUICE_SEED={seed} runs it again");
                        resume_unwind(why);
                    }
                }
            });
        }
    });
}

/// One to begin, one to settle; a repeat asks once.
#[test]
fn a_swap_costs_two_round_trips_to_the_store_and_its_repeat_one() {
    in_model_time(async {
        let world = World::calm();
        assert_eq!(world.ask_counted("request-1").await, (Some(Executed::Yes), 2));
        assert_eq!(world.ask_counted("request-1").await, (Some(Executed::Yes), 1));
    });
}

/// Not sent is not the same as never sent: what a restored store does not know, it may have forgotten.
#[test]
fn without_its_audit_chain_a_gate_says_no_more_than_it_knows() {
    in_model_time(async {
        let world = World::calm();
        assert_eq!(world.ask_unwell("request-1").await, (503, Some(Executed::No)));
        assert_eq!(world.ask_counted("request-2").await.0, Some(Executed::Yes));
        world.restore().await;
        assert_eq!(world.ask_unwell("request-1").await, (503, Some(Executed::Unknown)));
        assert_eq!(world.ask_unwell("request-2").await, (201, Some(Executed::Yes)));
    });
}

/// What a store does to a history is the same in a real Redis and in memory.
#[test]
fn a_real_redis_tells_the_same_histories() {
    let redis = Redis::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let there = runtime.block_on(connected(&redis.url()));
    for seed in 1..=variable("SLUICE_REDIS_HISTORIES").unwrap_or(REDIS_HISTORIES) {
        redis.ask(&["FLUSHALL"]);
        let in_redis = |clock: Arc<ModelClock>| -> Arc<dyn Store> {
            let hand = Hand::at(BEGIN);
            let store = Arc::new(RedisStore::by_clock(there.clone(), hand.clone()));
            Arc::new(Elsewhere { store, hand, clock, runtime: runtime.handle().clone() })
        };
        assert_eq!(history(seed, in_redis), history(seed, in_memory), "history {seed}");
    }
}

fn in_model_time<T>(history: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let told = runtime.block_on(history);
    runtime.shutdown_background();
    told
}

/// What happened in it.
fn history(seed: u64, store: impl FnOnce(Arc<ModelClock>) -> Arc<dyn Store>) -> Vec<String> {
    in_model_time(async move {
        let world = World::new(seed, store);
        let alive: Vec<_> = (0..NODES).map(|at| tokio::spawn(Arc::clone(&world).keep_alive(at))).collect();
        let people = tokio::spawn(Arc::clone(&world).people());
        let pauses = tokio::spawn(Arc::clone(&world).pauses());
        callers(&world).await;
        callers(&world).await;
        people.abort();
        pauses.abort();
        alive.iter().for_each(tokio::task::JoinHandle::abort);
        world.rest().await;
        world.people_look().await;
        callers(&world).await;
        world.rest().await;
        world.check().await;
        world.told()
    })
}

/// Several callers for each requestId, all at once.
async fn callers(world: &Arc<World>) {
    let asked = world.asked_for();
    let twice = asked.iter().chain(&asked);
    let callers: Vec<_> = twice.map(|name| tokio::spawn(Arc::clone(world).caller(name.clone()))).collect();
    for caller in callers {
        timeout(Duration::from_secs(36_000), caller).await.expect("a caller never ended").unwrap();
    }
}

#[expect(clippy::disallowed_methods, reason = "a seed and a count are given by who runs it")]
fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}
