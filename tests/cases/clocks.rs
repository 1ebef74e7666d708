//! A clock that leaps closes money, and neither the leap nor the return frees anything or stops it for good. A machine that
//! was paused, or whose clock is wrong at a start, sends nothing until it is known to be right.

use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use super::claims::{swap, told};
use super::console::{ask, console, operator};
use super::doctor::{findings, json as doctor};
use super::holds;
use super::nodes::{await_log, read, says, setup};
use crate::support::clock::{Watch, http_date, wait_until};
use crate::support::false_clock::FalseClock;
use crate::support::upstream::Reserved;
use crate::support::upstream::answer;
use crate::support::{Act, Caller, Gate, Redis, Setup, Upstream, get};

pub const DAY: i64 = 24 * 3_600;
/// Tokens outlive it, and limits do not.
pub const HALF_AN_HOUR: i64 = 1_800;

/// One swap fits.
const TIGHT: &str = "[[rule]]\nid = \"all\"\neffect = \"allow\"\nwhen = { op = \"createSwap\" }\n\
    [[limit]]\nid = \"once\"\nops = [\"createSwap\"]\nwindow = \"rolling 10m\"\nmax = \"1 call\"\nover = \"deny\"\n\
    [[rule]]\nid = \"large\"\neffect = \"hold\"\napproval = \"one\"\n\
    when = { op = \"createSwap\", amount = \"(1000, inf) USD\" }\n\
    [approval.one]\nof = \"ops\"\nn = 1\nexpires = \"10m\"\n[group.ops]\nmembers = [\"people:ops-1\", \"people:ops-2\"]\n";
pub const CLOSED: &str = "503 FROZEN not-executed";

pub fn tight(setup: Setup) -> Setup {
    console(setup.file("policies/everything.toml", TIGHT)).set("production", "credential", "upstream-s-own-token")
}

pub fn is_closed(gate: &Gate) -> bool {
    gate.metric("sluice_frozen{environment=\"production\",scope=\"clock\"}") == 1
}

/// What a fresh swap is told, as soon as the store takes calls again.
pub fn swaps(gate: &Gate) -> String {
    let mut last = String::new();
    wait_until("the store to take calls", || {
        last = told(&swap().send(gate.production()));
        !last.contains("STORE_UNAVAILABLE")
    });
    last
}

pub fn unfreeze(gate: &Gate) {
    for person in ["ops-1", "ops-2"] {
        let body = json!({"environment": "production", "scope": "clock", "reason": "the clock is right"});
        ask(gate, "POST", "freezes/lift", &operator(person), Some(body));
    }
    wait_until("money to be open", || !is_closed(gate));
}

pub fn with_clock(setup: Setup, clock: &FalseClock) -> Setup {
    let variables = clock.variables().into_iter().chain([clock.pauses()]);
    variables.fold(setup, |setup, (name, value)| setup.variable(&name, &value))
}

/// Whether the money of this gate waits or is closed for its own clock.
pub fn is_doubted(gate: &Gate) -> bool {
    gate.metric("sluice_gate_clock_doubted{environment=\"production\"}") == 1
}

/// Two people open the money of a gate, at any gate.
pub fn open_gate(at: &Gate, node: &str) {
    let freezes = ask(at, "GET", "freezes", &operator("ops-1"), None).json();
    assert_eq!(freezes["freezes"][0]["scope"], json!({ "gateClock": node }), "{freezes}");
    for (person, status) in [("ops-1", 202), ("ops-1", 409), ("ops-2", 200)] {
        let scope = json!({ "gateClock": node });
        let body = json!({"environment": "production", "scope": scope, "reason": "the clock is right"});
        assert_eq!(ask(at, "POST", "freezes/lift", &operator(person), Some(body)).status, status);
    }
}

/// The clock is ahead or behind for as long as it takes to notice, and returns.
fn leaps_and_returns(by: i64, gates: &[Gate], clock: &FalseClock) {
    let waits = holds::swap("waits", "2000");
    assert_eq!(told(&waits.send(gates[0].production())), "202 - held");
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
        assert_eq!(told(&waits.send(gate.production())), "202 - held");
    }
}

pub fn on_redis(node: &str, upstream: &Upstream, redis: &Redis) -> Gate {
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

/// The other gate ends before it could tell what it sees, and its last heartbeat counts for a while.
fn leaps_while_the_other_gate_ends(signal: &str) {
    let (upstream, other, clock) = (Upstream::start(), Upstream::start(), FalseClock::new());
    let redis = Redis::start_with_clock(clock.clone());
    let [left, right] = ["left", "right"].map(|node| {
        tight(setup(&upstream, &redis.url(), node))
            .sandbox(&other)
            .set("sandbox", "credential", "a-token-of-sandbox")
            .start()
            .ready()
    });
    let paid = swap();
    let first = paid.send(left.production());
    assert_eq!(told(&first), "200 - executed");
    clock.leap(450 * DAY);
    sleep(Duration::from_millis(900));
    right.signal(signal);
    for environment in ["production", "sandbox"] {
        let frozen = format!("sluice_frozen{{environment=\"{environment}\",scope=\"clock\"}}");
        wait_until("money to close", || {
            // A claim outlives 450 days.
            let again = paid.send(left.production());
            assert!(again.text() == first.text() || told(&again).contains("STORE_UNAVAILABLE"), "{again}");
            left.metric(&frozen) == 1
        });
    }
    assert_eq!(swaps(&left), CLOSED);
    assert_eq!(paid.send(left.production()).text(), first.text());
    right.signal("CONT");
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn a_redis_whose_clock_leaps_while_the_other_gate_is_killed_frees_nothing() {
    leaps_while_the_other_gate_ends("KILL");
}

#[test]
fn a_redis_whose_clock_leaps_while_the_other_gate_stands_still_frees_nothing() {
    leaps_while_the_other_gate_ends("STOP");
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
    wait_until("the log to say so", || has_logged(&left) || has_logged(&right));
    drop(left.kill());
    // The lease ends although the clock is two days behind.
    wait_until("the outcome to be unknown", || told(&call.send(right.production())).contains("OUTCOME_UNKNOWN"));
    unfreeze(&right);
    assert_eq!(swaps(&right), "403 LIMIT_EXCEEDED not-executed");
}

#[test]
fn an_embedded_store_follows_no_leap_and_none_at_its_start() {
    let (upstream, clock) = (Upstream::start(), FalseClock::new());
    let gate = with_clock(tight(Setup::of(&upstream)), &clock).start().ready();
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

/// The pause is one event: the time of day and `BOOTTIME` go on, `MONOTONIC` stands still.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_gate_whose_machine_was_paused_pays_nothing_until_it_has_met_the_store_again() {
    let upstream = Upstream::start();
    for kind in ["embedded", "redis"] {
        let clock = FalseClock::new();
        // The time of the Redis goes on while the gate's machine is paused.
        let redis = Redis::start_with_clock(clock.clone());
        let setup = if kind == "redis" { setup(&upstream, &redis.url(), "left") } else { Setup::of(&upstream) };
        let gate = with_clock(setup, &clock).start().ready();
        assert_eq!(told(&swap().send(gate.production())), "200 - executed");
        // Between two looks at the store there is time for a call, but on a slow machine not at once.
        wait_until("a call to come before the store was met", || {
            let before = upstream.seen().len();
            clock.pause(1);
            let answer = told(&swap().send(gate.production()));
            let is_stopped = answer == "503 STORE_UNAVAILABLE unknown";
            assert!(is_stopped || answer == "200 - executed", "{kind}: {answer}");
            assert_eq!(upstream.seen().len(), before + usize::from(!is_stopped), "{kind}: {answer}");
            is_stopped
        });
        wait_until("the log to say so", || says(&gate, "this machine was paused, and has not met the store since"));
        // It meets the store by itself.
        wait_until("money to move again", || told(&swap().send(gate.production())) == "200 - executed");
        assert!(!is_closed(&gate), "{kind}: a pause is no leap");
    }
}

/// Leases end while the machine is paused: what it still had to send is never sent.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_long_pause_of_an_embedded_machine_is_no_leap_and_ends_what_it_must() {
    let (upstream, clock) = (Upstream::start(), FalseClock::new());
    let gate = with_clock(tight(Setup::of(&upstream)), &clock).start().ready();
    assert_eq!(told(&swap().send(gate.production())), "200 - executed");
    assert_eq!(swaps(&gate), "403 LIMIT_EXCEEDED not-executed");
    clock.pause(300);
    assert_eq!(swaps(&gate), "403 LIMIT_EXCEEDED not-executed");
    // The time went on while the machine was paused, as everywhere else.
    clock.pause(600);
    wait_until("the limit to be free", || swaps(&gate) == "200 - executed");
    assert!(!is_closed(&gate));
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
    clock.leap(HALF_AN_HOUR);
    // Nobody is asked: the first date that is heard counts.
    let gate = with_clock(console(Setup::of(&upstream)), &clock).start().ready();
    hears_date(&gate, &upstream);
    wait_until("money to close", || is_doubted(&gate));
    assert_eq!(swaps(&gate), CLOSED);
    await_log(&gate, "ahead of the date of upstream at the start");
    open_gate(&gate, "gate");
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

#[test]
fn a_gate_whose_clock_is_wrong_at_a_start_closes_its_own_money_only() {
    let (upstream, redis, clock) = (Upstream::start(), Redis::start_kept(), FalseClock::new());
    clock.leap(HALF_AN_HOUR);
    let node = |name: &str| console(setup(&upstream, &redis.url(), name)).asks_date();
    let right = node("right").start().ready();
    let left = with_clock(node("left"), &clock).start();
    wait_until("the gate to doubt its clock", || is_doubted(&left));
    for _ in 0..2 {
        assert_eq!(swaps(&left), CLOSED);
        assert_eq!(told(&swap().send(right.production())), "200 - executed");
    }
    assert_eq!(read(&left).status, 200);
    assert!(!is_doubted(&right) && !is_closed(&right) && !is_closed(&left));
    let answer = swap().send(left.production());
    assert!(answer.text().contains("nobody knows whether the clock of its machine is right"), "{answer}");
    await_log(&left, "ahead of the date of upstream at the start");
    wait_until("the probe to say so", || left.probe("/readyz/money").text().contains("\"gate-clock\""));
    assert_eq!(right.probe("/readyz/money").status, 200);
    let asks = setup(&upstream, &redis.url(), "asks");
    wait_until("the doctor to tell it", || {
        let found = findings(&doctor(&asks).1);
        found.contains("the money of gate `left` is closed") && found.contains("--gate-clock left")
    });
    // It starts again before anybody opened it, with a clock that is right by now.
    clock.leap(0);
    let left = left.end().start();
    assert_eq!(swaps(&left), CLOSED);
    open_gate(&right, "left");
    wait_until("money to move", || swaps(&left) == "200 - executed");
    assert!(upstream.dates_asked() >= 3);
}

#[test]
fn money_waits_for_a_date_at_a_start_and_reads_do_not() {
    let reserved = Reserved::new();
    let gate = Setup::new().environment("production", &reserved.url()).asks_date().start();
    // Upstream cannot be reached: it might be there a moment later.
    assert_eq!(told(&swap().send(gate.production())), CLOSED);
    assert_eq!(read(&gate).code(), "UPSTREAM_UNAVAILABLE");
    wait_until("the metric to say so", || is_doubted(&gate));
    let stops = gate.probe("/readyz/money").text();
    assert!(stops.contains("nobody has told this gate the date since its start"), "{stops}");
    let upstream = reserved.start();
    wait_until("money to move", || swaps(&gate) == "200 - executed");
    wait_until("the metric to say so", || !is_doubted(&gate));
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn the_first_calls_of_a_start_wait_for_the_date() {
    let upstream = Upstream::start();
    for _ in 0..3 {
        let gate = Setup::of(&upstream).asks_date().start();
        assert_eq!(told(&swap().send(gate.production())), "200 - executed");
        gate.end();
    }
    assert_eq!((upstream.seen().len(), upstream.dates_asked()), (3, 3));
}

#[test]
fn an_upstream_that_tells_no_date_opens_no_money_and_one_that_tells_another_closes_it() {
    let upstream = Upstream::start();
    upstream.tells_date(None);
    let gate = Setup::of(&upstream).asks_date().start();
    assert_eq!(told(&swap().send(gate.production())), CLOSED);
    upstream.tells_date(Some(0));
    wait_until("money to move", || swaps(&gate) == "200 - executed");
    let setup = gate.end();
    upstream.tells_date(Some(-1_000));
    let gate = setup.start();
    assert_eq!(swaps(&gate), CLOSED);
    wait_until("the log to say so", || says(&gate, "s ahead of the date of upstream at the start"));
    upstream.tells_date(Some(0));
    // People have to open it from now on.
    let gate = gate.end().start();
    assert_eq!(swaps(&gate), CLOSED);
    assert_eq!(upstream.seen().len(), 1);
}
