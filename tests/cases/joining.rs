//! A gate that comes with an empty folder learns what was before from a gate that knows it, and moves no money before.

use std::fs;

use serde_json::{Value, json};

use super::claims::told;
use super::console;
use super::fleet::closings;
use super::holds;
use super::nodes::{EXECUTED, all_have_it, await_log, paid, says, setup};
use crate::support::clock::wait_until;
use crate::support::{Call, Gate, Redis, Setup, Upstream, copy_folder};

const RECORDS: &str = "sluice:{production}:r:";

fn request_id(call: &Call) -> String {
    let body: Value = serde_json::from_slice(&call.body_bytes()).unwrap();
    body["requestId"].as_str().unwrap().to_owned()
}

/// Somebody removes the record of a claim.
fn remove_claim(redis: &Redis, call: &Call) {
    assert_eq!(redis.ask(&["DEL", &format!("{RECORDS}claim:request/{}", request_id(call))]), ["1"]);
}

fn sealed(setup: Setup) -> Setup {
    setup.set("store", "seal_key", &"a5".repeat(32))
}

fn comes(upstream: &Upstream, redis: &Redis, node: &str) -> Gate {
    console::console(sealed(setup(upstream, &redis.url(), node))).start()
}

/// A gate paid until every journal had all, so that nothing waits in the outbox for gates that come.
fn in_use(upstream: &Upstream, redis: &Redis) -> (Gate, Call) {
    let gate = comes(upstream, redis, "first").ready();
    let call = paid(&gate);
    all_have_it(redis);
    (gate, call)
}

fn reasons(gate: &Gate) -> Vec<Value> {
    let said = gate.probe("/readyz/money").json();
    said["reasons"].as_array().unwrap().iter().map(|reason| reason["reason"].clone()).collect()
}

#[test]
fn a_gate_that_came_late_finds_what_was_removed_from_before() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let (first, call) = in_use(&upstream, &redis);
    let late = comes(&upstream, &redis, "late").ready();
    assert_eq!(told(&call.send(late.production())), "200 - executed again");
    first.terminate();
    first.wait_end();
    await_log(&first, "this gate retired");
    remove_claim(&redis, &call);
    let again = told(&call.send(late.production()));
    assert_ne!(again, EXECUTED);
    assert_eq!(upstream.seen().len(), 1, "{again}");
    // The journal does not begin in the middle after a restart either.
    let late = late.end().start();
    wait_until("the store to be rebuilt", || told(&call.send(late.production())) == "200 - executed again");
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn an_older_hold_is_not_believed_by_a_gate_that_came_late() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let start = |node: &str| {
        let setup = sealed(holds::on_redis(holds::gate(&upstream, holds::RULES), &redis, node));
        setup.start().ready()
    };
    let first = start("first");
    let hold = holds::held(&first, "r-1");
    for who in ["ops-1", "finance-1"] {
        assert_eq!(holds::say(&first, "approve", &hold, who).status, 200);
    }
    let key = format!("{RECORDS}hold:{}", hold["id"].as_str().unwrap());
    assert_eq!(redis.ask(&["COPY", &key, "older"]), ["1"]);
    assert_eq!(holds::say(&first, "withdraw", &hold, "finance-1").status, 200);
    all_have_it(&redis);
    let late = start("late");
    first.terminate();
    first.wait_end();
    assert_eq!(redis.ask(&["COPY", "older", &key, "REPLACE"]), ["1"]);
    let answer = holds::say(&late, "approve", &hold, "ops-2");
    assert_ne!(answer.status, 200, "{answer}");
    assert_eq!(holds::sent(&upstream), 0);
}

#[test]
fn where_no_gate_knows_what_was_before_people_open_money() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let (first, call) = in_use(&upstream, &redis);
    let first = first.end();
    fs::remove_dir_all(first.path("sluice-audit")).unwrap();
    fs::remove_dir_all(first.path("sluice-data")).ok();
    let late = first.start();
    wait_until("money to be closed for people", || reasons(&late).contains(&json!("restored")));
    assert!(closings(&late).iter().any(|why| why.contains("no gate runs that knows what was before")));
    let other = super::claims::swap();
    assert_eq!(told(&other.send(late.production())), "503 FROZEN unknown");
    assert_eq!(console::lift(&late, json!("restored")).json()["changed"], true);
    wait_until("money to move", || told(&other.send(late.production())).starts_with(EXECUTED));
    assert_eq!(told(&call.send(late.production())), "200 - executed again");
    // What people answered for is not asked again.
    let late = late.end().start().ready();
    assert_eq!(told(&super::claims::swap().send(late.production())), EXECUTED);
}

/// The gate that knows it comes back a little later.
#[test]
fn a_gate_waits_for_one_that_knows_what_was_before() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let (first, call) = in_use(&upstream, &redis);
    let first = first.kill();
    let late = comes(&upstream, &redis, "late");
    let other = super::claims::swap();
    wait_until("the gate to wait", || says(&late, "begins in the middle") || !reasons(&late).is_empty());
    assert_eq!(told(&other.send(late.production())), "503 STORE_UNAVAILABLE unknown");
    let first = first.start().ready();
    let late = late.ready();
    assert_eq!(told(&other.send(late.production())), EXECUTED);
    assert_eq!(told(&call.send(late.production())), "200 - executed again");
    assert_eq!(closings(&late), [""; 0]);
    drop(first);
}

/// A snapshot that was made without the key is no word of a gate.
#[test]
fn a_gate_takes_no_snapshot_of_somebody_without_the_key() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let (first, call) = in_use(&upstream, &redis);
    let first = first.kill();
    let kept = first.path("kept");
    copy_folder(&first.path("sluice-audit"), &kept);
    // One part whose name says that it is whole, and the empty part that ends it.
    let part = |nth: u64, bytes: &str| format!("- forged {nth} forged 1 late\n{bytes}");
    let late = comes(&upstream, &redis, "late");
    for nth in 1..=2 {
        redis.ask(&["HSET", "sluice:{production}:u", "part", &part(nth, if nth == 1 { "{}\n{}\n" } else { "" })]);
        wait_until("the part to be taken", || {
            let refused = || says(&late, "is refused") || says(&late, "ends at");
            redis.ask(&["HGET", "sluice:{production}:v", "late"]).concat() == format!("forged {nth}") || refused()
        });
    }
    assert_ne!(told(&super::claims::swap().send(late.production())), EXECUTED);
    assert_ne!(told(&call.send(late.production())), EXECUTED);
    assert_eq!(upstream.seen().len(), 1);
}
