//! The model: two nodes, one store, upstream and impatient callers in one thread, where everything that can be late,
//! lost, repeated or dead is so by one seed. Every history must keep the promises.
//!
//! A failure prints its seed; `SLUICE_SEED=N cargo test --test main model` runs that history alone. `SLUICE_HISTORIES`
//! says how many there are.

mod fate;
mod limits;
mod ports;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use sluice::stations::reply::Executed;
use tokio::time::timeout;
use world::World;

/// Histories that failed once.
const COMMITTED_SEEDS: [u64; 0] = [];
const HISTORIES: u64 = 2_000;
const REQUEST_IDS: u64 = 4;

#[test]
fn no_history_breaks_a_promise() {
    let one = variable("SLUICE_SEED");
    let seeds: Vec<u64> = match one {
        Some(seed) => vec![seed],
        None => COMMITTED_SEEDS.into_iter().chain(1..=variable("SLUICE_HISTORIES").unwrap_or(HISTORIES)).collect(),
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

fn in_model_time(history: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(history);
    runtime.shutdown_background();
}

fn history(seed: u64) {
    in_model_time(async move {
        let world = World::new(seed);
        let alive: Vec<_> = (0..2).map(|at| tokio::spawn(Arc::clone(&world).keep_alive(at))).collect();
        let people = tokio::spawn(Arc::clone(&world).people());
        callers(&world).await;
        callers(&world).await;
        people.abort();
        alive.iter().for_each(tokio::task::JoinHandle::abort);
        world.rest().await;
        world.people_look().await;
        callers(&world).await;
        world.rest().await;
        world.check().await;
    });
}

/// Several callers for each requestId, all at once.
async fn callers(world: &Arc<World>) {
    let callers: Vec<_> = (0..REQUEST_IDS * 2)
        .map(|n| tokio::spawn(Arc::clone(world).caller(format!("request-{}", n % REQUEST_IDS))))
        .collect();
    for caller in callers {
        timeout(Duration::from_secs(36_000), caller).await.expect("a caller never ended").unwrap();
    }
}

#[expect(clippy::disallowed_methods, reason = "a seed and a count are given by who runs it")]
fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}
