//! Somebody writes other numbers into the Redis of gates with a seal key: their journals know better. Nothing goes out
//! twice, and no journal forgets what was before.

use serde_json::json;

use super::claims::{swap, told};
use super::console::{console, freeze, lift};
use super::nodes::{CLOSED, all_have_it, commits, paid, says, setup};
use crate::support::clock::wait_until;
use crate::support::{Call, Gate, Redis, Upstream};

const ROOT: &str = "sluice:{production}";
const AGAIN: &str = "200 - executed again";
const FROZEN: &str = "503 FROZEN unknown";
const NOTICED: &str = "no entry of production has the numbers from";
/// The highest number that a Redis can count exactly.
const END: i64 = (1 << 53) - 1;

fn start(upstream: &Upstream, redis: &Redis, nodes: &[&str]) -> Vec<Gate> {
    let sealed = |node: &&str| setup(upstream, &redis.url(), node).set("store", "seal_key", &"5e".repeat(32));
    nodes.iter().map(|node| console(sealed(node)).start().ready()).collect()
}

fn pay(gates: &[Gate], count: usize) -> Vec<Call> {
    gates.iter().cycle().take(count).map(paid).collect()
}

fn keys(redis: &Redis, pattern: &str) -> Vec<String> {
    redis.ask(&["KEYS", &format!("{ROOT}:{pattern}")])
}

/// Writes a number and removes keys in one step, so that nobody sees one without the other.
fn write(redis: &Redis, (field, number): (&str, i64), removed: &[String]) {
    let removal = "for i = 2, #KEYS do redis.call('DEL', KEYS[i]) end";
    redis.set_head_and(ROOT, field, number, removal, removed);
}

fn await_notice(gates: &[Gate]) {
    wait_until("the number to be noticed", || gates.iter().any(|gate| says(gate, NOTICED)));
    wait_until("money to be closed", || gates.iter().all(|gate| told(&swap().send(gate.production())) == FROZEN));
}

/// People open money, and everything is known as before.
fn open(gates: &[Gate], calls: &[Call]) {
    assert_eq!(lift(&gates[0], json!("restored")).json()["changed"], true);
    for (call, gate) in calls.iter().flat_map(|call| gates.iter().map(move |gate| (call, gate))) {
        wait_until("what was paid to be known", || {
            let answer = told(&call.send(gate.production()));
            assert!([CLOSED, FROZEN, AGAIN].contains(&answer.as_str()), "{answer}");
            answer == AGAIN
        });
    }
}

#[test]
fn a_number_that_leaps_lets_nothing_go_out_twice() {
    for nodes in [&["left", "right"][..], &["alone"]] {
        let (upstream, redis) = (Upstream::start(), Redis::start_kept());
        let gates = start(&upstream, &redis, nodes);
        let calls = pay(&gates, 4);
        all_have_it(&redis);
        let sent = upstream.seen().len();
        write(&redis, ("last", commits(&redis) + 1), &keys(&redis, "r:claim:request/*"));
        // Nobody has looked yet.
        let answers: Vec<String> =
            calls.iter().zip(gates.iter().cycle()).map(|(call, gate)| told(&call.send(gate.production()))).collect();
        assert_eq!(upstream.seen().len(), sent, "{answers:?}");
        await_notice(&gates);
        open(&gates, &calls);
        assert_eq!(upstream.seen().len(), sent);
        pay(&gates, 2);
        // What is removed afterwards is known as well.
        all_have_it(&redis);
        let sent = upstream.seen().len();
        keys(&redis, "r:claim:request/*").iter().for_each(|key| drop(redis.ask(&["DEL", key])));
        calls.iter().for_each(|call| drop(call.send(gates[0].production())));
        assert_eq!(upstream.seen().len(), sent);
    }
}

#[test]
fn a_freeze_that_is_removed_beside_a_number_that_leaps_holds() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = start(&upstream, &redis, &["left", "right"]);
    let calls = pay(&gates, 2);
    assert_eq!(freeze(&gates[0], json!("all")).status, 201);
    all_have_it(&redis);
    let sent = upstream.seen().len();
    let removed = [keys(&redis, "r:freeze:*"), vec![format!("{ROOT}:i:frozen")]].concat();
    write(&redis, ("last", commits(&redis) + 1), &removed);
    for gate in gates.iter().cycle().take(6) {
        swap().send(gate.production());
    }
    await_notice(&gates);
    assert_eq!(upstream.seen().len(), sent);
    open(&gates, &calls);
    assert_eq!(told(&swap().send(gates[0].production())), "503 FROZEN not-executed");
    assert_eq!(upstream.seen().len(), sent);
}

#[test]
fn a_number_near_the_end_of_all_numbers_stops_money_until_people_open_it() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = start(&upstream, &redis, &["left", "right"]);
    let calls = pay(&gates, 2);
    all_have_it(&redis);
    // Of a store that is not lost, it means nothing.
    write(&redis, ("above", END - 1), &[]);
    pay(&gates, 2);
    all_have_it(&redis);
    write(&redis, ("last", END - 1), &[]);
    await_notice(&gates);
    open(&gates, &calls);
    pay(&gates, 2);
    assert!(commits(&redis) < 1 << 41, "{}", commits(&redis));
}
