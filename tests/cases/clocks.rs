//! A clock that leaps closes money, and neither the leap nor the return frees anything or stops it for good.

use std::time::Duration;

use serde_json::json;

use super::claims::{swap, told};
use super::console::{ask, console, operator};
use super::doctor::{findings, json as doctor};
use super::nodes::setup;
use crate::support::clock::{Watch, http_date, wait_until};
use crate::support::false_clock::FalseClock;
use crate::support::upstream::answer;
use crate::support::{Act, Caller, Gate, Redis, Setup, Upstream, get};

const DAY: i64 = 24 * 3_600;
/// Tokens outlive it, and limits do not.
const HALF_AN_HOUR: i64 = 1_800;

/// One swap fits.
const TIGHT: &str = "[[rule]]\nid = \"all\"\neffect = \"allow\"\nwhen = { op = \"createSwap\" }\n\
    [[limit]]\nid = \"once\"\nops = [\"createSwap\"]\nwindow = \"rolling 10m\"\nmax = \"1 call\"\nover = \"deny\"\n";
const CLOSED: &str = "503 FROZEN not-executed";

fn tight(setup: Setup) -> Setup {
    console(setup.file("policies/everything.toml", TIGHT))
}

fn is_closed(gate: &Gate) -> bool {
    gate.metric("sluice_frozen{environment=\"production\",scope=\"clock\"}") == 1
}

/// What a fresh swap is told, as soon as the store takes calls again.
fn swaps(gate: &Gate) -> String {
    let mut last = String::new();
    wait_until("the store to take calls", || {
        last = told(&swap().send(gate.production()));
        !last.contains("STORE_UNAVAILABLE")
    });
    last
}

fn unfreeze(gate: &Gate) {
    for person in ["ops-1", "ops-2"] {
        let body = json!({"environment": "production", "scope": "clock", "reason": "the clock is right"});
        ask(gate, "POST", "freezes/lift", &operator(person), Some(body));
    }
    wait_until("money to be open", || !is_closed(gate));
}

/// The clock is ahead or behind for as long as it takes to notice, and returns.
fn leaps_and_returns(by: i64, gates: &[Gate], clock: &FalseClock) {
    assert_eq!(told(&swap().send(gates[0].production())), "200 - executed");
    assert_eq!(swaps(&gates[0]), "403 LIMIT_EXCEEDED not-executed");
    clock.leap(by);
    for gate in gates {
        wait_until("money to close", || is_closed(gate));
        assert_eq!(swaps(gate), CLOSED);
        wait_until("the probe to say so", || {
            gate.probe("/readyz/money").text().contains("the clock of the store leapt")
        });
    }
    clock.leap(0);
    let returned = Watch::start();
    // The return is a leap as well; the time goes on.
    wait_until("the return to be noticed", || {
        let all = gates.iter().map(|gate| gate.metric("sluice_store_clock_leaps_total{environment=\"production\"}"));
        all.sum::<u64>() >= 2 || returned.elapsed() > Duration::from_secs(5)
    });
    unfreeze(&gates[0]);
    for gate in gates {
        assert_eq!(swaps(gate), "403 LIMIT_EXCEEDED not-executed");
    }
}

fn on_redis(node: &str, upstream: &Upstream, redis: &Redis) -> Gate {
    tight(setup(upstream, &redis.url(), node)).start().ready()
}

#[test]
fn a_redis_whose_clock_leaps_frees_no_limit_with_one_gate() {
    let (upstream, clock) = (Upstream::start(), FalseClock::new());
    let redis = Redis::start_with_clock(clock.clone());
    let gate = on_redis("left", &upstream, &redis);
    leaps_and_returns(450 * DAY, &[gate], &clock);
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn a_redis_whose_clock_leaps_frees_no_limit_with_two_gates() {
    let (upstream, clock) = (Upstream::start(), FalseClock::new());
    let redis = Redis::start_with_clock(clock.clone());
    let gates = ["left", "right"].map(|node| on_redis(node, &upstream, &redis));
    leaps_and_returns(2 * DAY, &gates, &clock);
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn a_redis_whose_clock_is_set_back_stops_no_time() {
    let (upstream, clock) = (Upstream::start(), FalseClock::new());
    let redis = Redis::start_with_clock(clock.clone());
    let asks = setup(&upstream, &redis.url(), "asks");
    let [left, right] = ["left", "right"].map(|node| on_redis(node, &upstream, &redis));
    let is_found = || findings(&doctor(&asks).1).contains("the clock of the store leapt");
    assert!(!is_found());
    let call = swap();
    upstream.next(Act::silence().hang());
    let mut caller = Caller::connect(left.production());
    caller.send(call.bytes());
    upstream.wait_for(0);
    clock.leap(-2 * DAY);
    wait_until("money to close", || [&left, &right].into_iter().all(is_closed));
    assert!(is_found());
    let has_logged =
        |gate: &Gate| gate.log.all().iter().any(|line| line.to_string().contains("the clock of the store leapt"));
    assert!(has_logged(&left) || has_logged(&right));
    drop(left.kill());
    // The lease ends although the clock is two days behind.
    wait_until("the outcome to be unknown", || told(&call.send(right.production())).contains("OUTCOME_UNKNOWN"));
    unfreeze(&right);
    assert_eq!(swaps(&right), "403 LIMIT_EXCEEDED not-executed");
}

#[test]
fn an_embedded_store_follows_no_leap_and_none_at_its_start() {
    let (upstream, clock) = (Upstream::start(), FalseClock::new());
    let variables = clock.variables();
    let setup = variables.iter().fold(tight(Setup::of(&upstream)), |setup, (name, value)| setup.variable(name, value));
    let gate = setup.start().ready();
    assert_eq!(told(&swap().send(gate.production())), "200 - executed");
    let setup = gate.end();
    // It was set ahead while the gate did not run.
    clock.leap(HALF_AN_HOUR);
    let gate = setup.start();
    wait_until("money to close", || is_closed(&gate));
    assert_eq!(swaps(&gate), CLOSED);
    clock.leap(0);
    unfreeze(&gate);
    assert_eq!(swaps(&gate), "403 LIMIT_EXCEEDED not-executed");
    clock.leap(HALF_AN_HOUR);
    wait_until("money to close again", || is_closed(&gate));
    assert_eq!(swaps(&gate), CLOSED);
    // Whoever says that this clock is right has it followed.
    unfreeze(&gate);
    wait_until("the limit to be free", || told(&swap().send(gate.production())) == "200 - executed");
}

/// A read whose answer tells the time.
fn hears_date(gate: &Gate, upstream: &Upstream) {
    let date = http_date(0);
    let headers = [("Content-Type", "application/json"), ("Date", date.as_str())];
    upstream.next(Act::bytes(answer(200, &headers, b"[]")));
    assert_eq!(get("/v2/users").send(gate.production()).status, 200);
}

#[test]
fn a_clock_that_is_wrong_at_a_start_closes_money_until_people_open_it() {
    let (upstream, clock) = (Upstream::start(), FalseClock::new());
    let variables = clock.variables();
    let setup =
        variables.iter().fold(console(Setup::of(&upstream)), |setup, (name, value)| setup.variable(name, value));
    clock.leap(HALF_AN_HOUR);
    let gate = setup.start().ready();
    hears_date(&gate, &upstream);
    wait_until("money to close", || is_closed(&gate));
    assert_eq!(swaps(&gate), CLOSED);
    let told =
        gate.log.all().iter().any(|line| line.to_string().contains("ahead of the date of upstream at the start"));
    assert!(told, "{}", gate.stderr());
    unfreeze(&gate);
    assert_eq!(swaps(&gate), "200 - executed");
    // People opened it: it is not closed again for the same reason.
    hears_date(&gate, &upstream);
    assert_eq!(swaps(&gate), "200 - executed");
}

#[test]
fn a_clock_that_agrees_with_upstream_closes_nothing() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start().ready();
    hears_date(&gate, &upstream);
    assert_eq!(swaps(&gate), "200 - executed");
    assert!(!is_closed(&gate));
}
