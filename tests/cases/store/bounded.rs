//! What a query or a sweep costs in a Redis is bounded by what is asked, not by what is kept: counted, not timed.

use sluice::adapters::store::redis::RedisStore;
use sluice::ledger::{Index, IndexPart, Step};
use sluice::ports::Store;

use super::asked::*;
use super::{BEGIN, Hand};
use crate::support::Redis;
use crate::support::clock::wait_until;

/// More than one scan of the Redis reads.
const CLAIMS: usize = 3_000;
/// Of these each has one slot, and one more in the hour after.
const WINDOWS: usize = 40;
/// What one sweep removes.
const SWEPT: usize = 500;

/// Commands besides those that connections are checked by.
fn of_store(told: &[String]) -> Vec<&String> {
    let is_check =
        |line: &&String| ["\"PING\"", "\"INFO\"", ":write-check", "\"MARK\""].iter().any(|one| line.contains(one));
    told.iter().filter(|line| !is_check(line)).collect()
}

/// All commands that the Redis gets meanwhile, those of scripts included.
async fn commands_of<T>(redis: &Redis, act: impl Future<Output = T>) -> (T, usize) {
    let told = redis.monitor();
    let done = act.await;
    redis.ask(&["ECHO", "MARK"]);
    wait_until("the Redis to tell all", || told.all().iter().any(|line| line.contains("\"MARK\"")));
    let told = told.all();
    (done, of_store(&told).len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usage_lists_and_sweeping_cost_the_same_beside_many_claims() {
    let (clock, redis) = (Hand::at(BEGIN), Redis::start());
    let store = RedisStore::by_clock(super::redis::connected(&redis.url()).await, clock.clone());
    let span = rolling(secs(3_600), 24);
    for first in (0..CLAIMS).step_by(500) {
        let names = (first..first + 500).map(|at| format!("claim-{at}"));
        let steps = names.flat_map(|name| {
            let index = add(Index::Sending, &name, secs(30));
            [create_for(&name, secs(60), secs(60)), index]
        });
        does(&store, steps.collect()).await;
    }
    for _ in 0..2 {
        for at in 0..WINDOWS {
            let (window, holder) =
                (window("day", &format!("caller-{at:02}")), format!("{at} {}", clock_text(&store).await));
            does(&store, vec![Step::Reserve { window, span, holder, units: 1, max: 10 }]).await;
        }
        clock.advance(secs(3_600));
    }

    for (limit, count) in [(None, 5), (Some("day"), 5), (Some("day"), 1_000), (Some("none"), 5)] {
        let (found, commands) = commands_of(&redis, store.windows(ENVIRONMENT, limit, count)).await;
        let expected = if limit == Some("none") { 0 } else { count.min(WINDOWS) };
        assert_eq!((found.unwrap().len(), commands), (expected, 1), "{limit:?} {count}");
    }
    let (used, commands) = commands_of(&redis, store.used(ENVIRONMENT, &window("day", "caller-07"), span)).await;
    assert!(used == Ok(2) && commands <= 6, "{used:?} {commands}");
    let part = IndexPart { backwards: true, behind: None, count: 5 };
    let (listed, commands) = commands_of(&redis, store.part(ENVIRONMENT, Index::Sending, part)).await;
    assert_eq!((listed.unwrap().len(), commands), (5, 1));
    let (due, commands) = commands_of(&redis, store.due(ENVIRONMENT, Index::Sending, None, 5)).await;
    assert!(due.unwrap().len() == 5 && commands <= 10, "{commands}");

    // Every claim has expired. A sweep does a part of them, with few commands for each.
    let (swept, commands) = commands_of(&redis, store.sweep()).await;
    assert_eq!(swept, Ok(SWEPT));
    assert!(commands <= 4 * SWEPT + 20, "{commands}");
}

/// What tells the holders of one hour from those of another.
async fn clock_text(store: &RedisStore) -> String {
    store.time().await.unwrap().as_micros().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_without_slots_is_not_found() {
    let (clock, redis) = (Hand::at(BEGIN), Redis::start());
    let store = RedisStore::by_clock(super::redis::connected(&redis.url()).await, clock.clone());
    let span = rolling(secs(60), 1);
    let found = async || store.windows(ENVIRONMENT, None, 10).await.unwrap();
    does(&store, vec![reserve(span, "a", 1, 10)]).await;
    assert_eq!(found().await, [day()]);
    does(&store, vec![give_back("a")]).await;
    assert_eq!(found().await, []);
    does(&store, vec![reserve(span, "b", 1, 10)]).await;
    clock.advance(secs(6_000));
    while store.sweep().await.unwrap() > 0 {}
    assert_eq!(found().await, []);
    assert!(redis.ask(&["KEYS", "*:l"]).is_empty(), "the index of windows is left");
}
