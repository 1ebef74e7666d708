//! Payments of which the gate that rebuilds the Redis never heard.

use super::claims::told;
use super::doctor;
use super::nodes::{CLOSED, paid, setup};

use crate::support::clock::wait_until;
use crate::support::{Call, Gate, Redis, Upstream};

const FROZEN: &str = "503 FROZEN unknown";

/// Repeats a call until the answer is not that the store is away.
fn answer(call: &Call, gate: &Gate) -> String {
    let mut last = String::new();
    wait_until("the store to answer", || {
        last = told(&call.send(gate.production()));
        last != CLOSED
    });
    last
}

/// The gate that paid last ends and the Redis is emptied, while the other gate stands still; then that one goes on.
fn stays_closed(redis: &Redis, third: Gate, left: &Gate, last: &Call) {
    redis.ask(&["FLUSHALL"]);
    let _third = third.kill();
    left.signal("CONT");
    assert_eq!(answer(last, left), FROZEN);
}

/// Returns when the Redis heard a gate last.
fn heard(redis: &Redis, node: &str) -> String {
    let registration = redis.ask(&["HGET", "sluice:{production}:n", node]).concat();
    registration.split(' ').nth(1).expect("a registered gate").to_owned()
}

/// It stood still from before the other gate came until after its end, and returns soon enough to seem to have run.
#[test]
fn a_gate_that_came_and_went_unheard_keeps_money_closed() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let left = setup(&upstream, &redis.url(), "left").start().ready();
    paid(&left);
    left.signal("STOP");
    let third = setup(&upstream, &redis.url(), "third").start();
    let last = paid(&third);
    stays_closed(&redis, third, &left, &last);
    assert_eq!(upstream.seen().len(), 2);
}

/// Nobody heard of it for a while, and it stood still; then it pays where the gate that rebuilds the Redis stands still.
#[test]
fn a_gate_that_returned_unheard_keeps_money_closed() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, third] = ["left", "third"].map(|node| setup(&upstream, &redis.url(), node).start().ready());
    paid(&left);
    third.signal("STOP");
    let asks = setup(&upstream, &redis.url(), "asks");
    wait_until("it to be missed", || {
        doctor::findings(&doctor::json(&asks).1).contains("`third` has sent no heartbeat")
    });
    // The other gate hears that it is missed, too.
    paid(&left);
    for _ in 0..2 {
        let before = heard(&redis, "left");
        wait_until("a heartbeat", || heard(&redis, "left") != before);
    }
    left.signal("STOP");
    third.signal("CONT");
    let last = paid(&third);
    stays_closed(&redis, third, &left, &last);
    assert_eq!(upstream.seen().len(), 3);
}
