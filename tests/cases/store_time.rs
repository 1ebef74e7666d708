//! A store whose time is wrong when gates start, or that somebody changes: nothing ends early, and nothing is paid twice.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::claims::{swap, told};
use super::clocks::{CLOSED, DAY, HALF_AN_HOUR, is_closed, is_doubted, open_gate, swaps, tight, unfreeze, with_clock};
use super::console::{self, ask, operator};
use super::holds;
use super::nodes::{await_log, says, setup};
use crate::support::clock::wait_until;
use crate::support::false_clock::FalseClock;
use crate::support::{Gate, Redis, Setup, Upstream};

const FULL: &str = "403 LIMIT_EXCEEDED not-executed";
/// The fields of the Redis that no gate seals.
const ROOT: &str = "sluice:{production}";

/// The machine was started anew: how much time passed since the last commit is not known.
fn reboot(setup: &Setup) {
    fs::remove_file(setup.path("sluice-data/store.clock")).unwrap();
}

/// The clock of the Redis leaps while no gate runs, and returns later.
fn leaps_while_stopped(by: i64, names: &[&str]) {
    let (upstream, clock) = (Upstream::start(), FalseClock::new());
    let redis = Redis::start_with_clock(clock.clone());
    let start = |name: &&str| tight(setup(&upstream, &redis.url(), name)).asks_date().start();
    let gates: Vec<Gate> = names.iter().map(start).map(Gate::ready).collect();
    let (paid, waits) = (swap(), holds::swap("waits", "2000"));
    assert_eq!(told(&waits.send(gates[0].production())), "202 - held");
    let first = paid.send(gates[0].production());
    assert_eq!(told(&first), "200 - executed");
    let setups: Vec<Setup> = gates.into_iter().map(Gate::end).collect();
    clock.leap(by);
    let gates: Vec<Gate> = setups.into_iter().map(Setup::start).collect();
    for gate in &gates {
        wait_until("money to close", || is_closed(gate));
        assert_eq!(swaps(gate), CLOSED);
        // A claim outlives neither 40 nor 450 days.
        assert_eq!(paid.send(gate.production()).text(), first.text());
        assert_eq!(told(&waits.send(gate.production())), "202 - held");
        wait_until("it to be told", || gates.iter().any(|gate| says(gate, "the clock of the store leapt")));
    }
    clock.leap(0);
    wait_until("the return to be noticed", || {
        let all = gates.iter().map(|gate| gate.metric("sluice_store_clock_leaps_total{environment=\"production\"}"));
        all.sum::<u64>() >= 2
    });
    unfreeze(&gates[0]);
    for gate in &gates {
        assert_eq!(swaps(gate), FULL);
        assert_eq!(paid.send(gate.production()).text(), first.text());
        assert_eq!(told(&waits.send(gate.production())), "202 - held");
    }
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn a_redis_whose_clock_leapt_while_its_only_gate_was_stopped_frees_nothing() {
    leaps_while_stopped(450 * DAY, &["left"]);
}

#[test]
fn a_redis_whose_clock_leapt_while_all_gates_were_stopped_frees_nothing() {
    leaps_while_stopped(40 * DAY, &["left", "right"]);
}

#[test]
fn a_redis_whose_clock_was_set_back_while_its_only_gate_was_stopped_stops_no_time() {
    leaps_while_stopped(-2 * DAY, &["left"]);
}

#[test]
fn gates_that_were_stopped_for_a_while_find_that_time_has_passed() {
    for kind in ["embedded", "redis"] {
        let (upstream, clock) = (Upstream::start(), FalseClock::new());
        let redis = Redis::start_with_clock(clock.clone());
        let place = if kind == "redis" { setup(&upstream, &redis.url(), "left") } else { Setup::of(&upstream) };
        let gate = with_clock(tight(place).asks_date(), &clock).start().ready();
        assert_eq!(told(&swap().send(gate.production())), "200 - executed");
        assert_eq!(swaps(&gate), FULL);
        let stopped = gate.end();
        clock.leap(HALF_AN_HOUR);
        upstream.tells_date(Some(HALF_AN_HOUR));
        if kind == "embedded" {
            reboot(&stopped);
        }
        let gate = stopped.start();
        assert_eq!(swaps(&gate), "200 - executed", "{kind}");
        wait_until("the metric to say so", || !is_doubted(&gate));
        assert!(!is_closed(&gate), "{kind}");
        assert_eq!(swaps(&gate), FULL, "{kind}");
    }
}

#[test]
fn an_embedded_store_ends_nothing_by_a_clock_that_is_wrong_after_a_reboot() {
    let (upstream, clock) = (Upstream::start(), FalseClock::new());
    let gate = with_clock(tight(Setup::of(&upstream)).asks_date(), &clock).start().ready();
    let paid = swap();
    let first = paid.send(gate.production());
    assert_eq!(told(&first), "200 - executed");
    let stopped = gate.end();
    reboot(&stopped);
    clock.leap(HALF_AN_HOUR);
    let gate = stopped.start();
    wait_until("the gate to doubt its clock", || is_doubted(&gate));
    assert_eq!(swaps(&gate), CLOSED);
    // It is set right, and people open money as they are told.
    let stopped = gate.end();
    clock.leap(0);
    let gate = stopped.start();
    wait_until("the store to be open", || swaps(&gate) == CLOSED);
    open_gate(&gate, "gate");
    assert_eq!(swaps(&gate), FULL);
    assert_eq!(paid.send(gate.production()).text(), first.text());
    assert!(!is_closed(&gate));
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn what_is_committed_at_a_first_start_before_any_right_date_has_the_time_of_day() {
    for date in [None, Some(HALF_AN_HOUR)] {
        let upstream = Upstream::start();
        upstream.tells_date(date);
        let gate = tight(Setup::of(&upstream)).asks_date().start();
        wait_until("the freeze", || console::freeze(&gate, json!("all")).status == 201);
        // Its entries are in the journal, and read again.
        let gate = gate.end().start();
        upstream.tells_date(Some(0));
        let people = ask(&gate, "GET", "freezes", &operator("ops-1"), None).text();
        assert!(people.contains("a drill"), "{date:?}: {people}");
        assert_eq!(swaps(&gate), CLOSED, "{date:?}");
    }
}

/// Writes into the head of the store, as somebody who can write it.
fn write(redis: &Redis, fields: &[(&str, i64)]) {
    for (name, value) in fields {
        redis.set_head(ROOT, name, *value);
    }
}

/// The clock of the Redis, in seconds.
fn now(redis: &Redis) -> i64 {
    redis.ask(&["TIME"])[0].trim().parse().unwrap()
}

fn stored_time(redis: &Redis) -> i64 {
    redis.head(ROOT, "time")
}

/// How many seconds the stored time is ahead of the clock of the Redis.
fn ahead(redis: &Redis) -> i64 {
    stored_time(redis) / 1_000_000 - now(redis)
}

#[test]
fn a_time_that_somebody_writes_into_the_store_ends_nothing() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gate = tight(setup(&upstream, &redis.url(), "left")).asks_date().start().ready();
    let paid = swap();
    let first = paid.send(gate.production());
    let far = (now(&redis) + 500 * DAY) * 1_000_000;
    let same = |gate: &Gate| {
        assert_eq!(swaps(gate), FULL);
        assert_eq!(paid.send(gate.production()).text(), first.text());
    };
    write(&redis, &[("time", far)]);
    same(&gate);
    // While nobody runs, nobody puts it right.
    let stopped = gate.end();
    write(&redis, &[("time", far)]);
    let gate = stopped.start();
    wait_until("the store to take calls", || !swaps(&gate).contains("503"));
    same(&gate);
    await_log(&gate, "somebody wrote it");
    write(&redis, &[("time", far)]);
    wait_until("the time to be put right", || {
        same(&gate);
        stored_time(&redis) < far
    });
    let ahead = ahead(&redis);
    assert!(ahead < 5, "{ahead} s are lost");
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn people_who_open_money_for_a_clock_take_no_time_that_somebody_wrote() {
    let (upstream, clock) = (Upstream::start(), FalseClock::new());
    let redis = Redis::start_with_clock(clock.clone());
    let gate = tight(setup(&upstream, &redis.url(), "left")).start().ready();
    assert_eq!(told(&swap().send(gate.production())), "200 - executed");
    let write_far = || write(&redis, &[("time", (now(&redis) + 40 * DAY) * 1_000_000)]);
    let leaps = || gate.metric("sluice_store_clock_leaps_total{environment=\"production\"}");
    for round in 1..=2 {
        let before = leaps();
        write_far();
        clock.leap(2 * DAY);
        wait_until("money to close", || is_closed(&gate));
        write_far();
        clock.leap(0);
        wait_until("the return to be noticed", || leaps() >= before + 2);
        write_far();
        unfreeze(&gate);
        let noticed = leaps();
        // The gate compares the clock with what it went on from.
        sleep(Duration::from_secs(3));
        assert_eq!(swaps(&gate), FULL, "{round}");
        assert_eq!(leaps(), noticed, "{round}: money is closed again");
        let skew = redis.head(ROOT, "skew") / 1_000_000;
        assert!(skew.abs() < 10 && ahead(&redis) < 10, "{round}: {skew} {}", ahead(&redis));
    }
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn people_s_word_to_follow_the_clock_counts_where_the_journal_has_it() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gate = tight(setup(&upstream, &redis.url(), "left")).asks_date().start().ready();
    let paid = swap();
    let first = paid.send(gate.production());
    let ahead = 40 * DAY * 1_000_000;
    redis.ask(&["HSET", ROOT, "epoch", "7"]);
    write(&redis, &[("skew", ahead), ("time", now(&redis) * 1_000_000 + ahead)]);
    wait_until("money to close", || {
        let answer = swaps(&gate);
        assert!(answer == FULL || answer == CLOSED, "{answer}");
        assert_eq!(paid.send(gate.production()).text(), first.text());
        is_closed(&gate)
    });
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn a_store_whose_time_is_ahead_waits_for_a_date_at_a_start() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gate = tight(setup(&upstream, &redis.url(), "left")).asks_date().start().ready();
    assert_eq!(told(&swap().send(gate.production())), "200 - executed");
    let stopped = gate.end();
    write(&redis, &[("time", (now(&redis) + 500 * DAY) * 1_000_000)]);
    upstream.tells_date(None);
    let gate = stopped.start();
    wait_until("the probe to say so", || {
        gate.probe("/readyz/money").text().contains("its time is ahead of this machine's clock")
    });
    assert!(told(&swap().send(gate.production())).starts_with("503"));
    upstream.tells_date(Some(0));
    wait_until("the store to take calls", || swaps(&gate) == FULL);
    let people = ask(&gate, "GET", "freezes", &operator("ops-1"), None).json();
    assert_eq!(people["freezes"], json!([]), "{people}");
}

/// A gate that does not run, as somebody who can write the store makes it up: it says what a gate that runs once said.
fn plants_gate(redis: &Redis, of: &str, name: &str, said: &str) {
    let now = (now(redis) + 1) * 1_000_000;
    let roll = format!("{ROOT}:n");
    let its_own = redis.ask(&["HGET", &roll, of]).concat();
    let run = its_own.split(' ').nth(2).unwrap();
    redis.ask(&["HSET", &roll, name, &format!("ffff {now} {run}  {said}")]);
}

#[test]
fn a_gate_that_somebody_made_up_is_no_witness_of_a_correction_that_nobody_committed() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let sealed = tight(setup(&upstream, &redis.url(), "left")).set("store", "seal_key", &"5e".repeat(32));
    let gate = sealed.asks_date().start().ready();
    let paid = swap();
    let first = paid.send(gate.production());
    let roll = redis.ask(&["HGET", &format!("{ROOT}:n"), "left"]).concat();
    let said = roll.splitn(5, ' ').last().unwrap().to_owned();
    plants_gate(&redis, "left", "right", &said);
    wait_until("the store to take calls", || swaps(&gate) == FULL);
    write(&redis, &[("skew", 450 * DAY * 1_000_000)]);
    wait_until("money to close", || {
        plants_gate(&redis, "left", "right", &said);
        let again = paid.send(gate.production());
        assert!(again.text() == first.text() || told(&again).contains("STORE_UNAVAILABLE"), "{again}");
        is_closed(&gate)
    });
    assert_eq!(swaps(&gate), CLOSED);
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn a_small_correction_that_nobody_committed_closes_money() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gate = tight(setup(&upstream, &redis.url(), "left")).asks_date().start().ready();
    assert_eq!(told(&swap().send(gate.production())), "200 - executed");
    // It is no leap.
    write(&redis, &[("skew", 1_000_000)]);
    wait_until("money to close", || is_closed(&gate));
    await_log(&gate, "its clock is corrected otherwise than any commit says");
    // Closing it put the correction right.
    wait_until("the correction to be right", || redis.head(ROOT, "skew") != 1_000_000);
    unfreeze(&gate);
    assert_eq!(swaps(&gate), FULL);
}

#[test]
fn people_have_no_clock_followed_but_as_they_committed() {
    let (upstream, clock) = (Upstream::start(), FalseClock::new());
    let redis = Redis::start_with_clock(clock.clone());
    let gate = tight(setup(&upstream, &redis.url(), "left")).start().ready();
    let paid = swap();
    let first = paid.send(gate.production());
    clock.leap(DAY);
    wait_until("money to close", || is_closed(&gate));
    clock.leap(0);
    wait_until("the return to be noticed", || {
        gate.metric("sluice_store_clock_leaps_total{environment=\"production\"}") >= 2
    });
    for person in ["ops-1", "ops-2"] {
        let body = json!({"environment": "production", "scope": "clock", "reason": "the clock is right"});
        ask(&gate, "POST", "freezes/lift", &operator(person), Some(body));
    }
    // The gate has not heard yet that it follows the clock.
    write(&redis, &[("skew", 450 * DAY * 1_000_000)]);
    wait_until("money to be closed again", || {
        let again = paid.send(gate.production());
        assert!(again.text() == first.text() || told(&again).contains("STORE_UNAVAILABLE"), "{again}");
        gate.metric("sluice_store_clock_leaps_total{environment=\"production\"}") >= 3 && is_closed(&gate)
    });
    assert_eq!(upstream.seen().len(), 1);
    unfreeze(&gate);
    assert_eq!(swaps(&gate), FULL);
}

/// Whoever writes beside the store, while no gate runs, has neither its clock nor the time of day.
#[test]
fn the_time_that_is_kept_beside_an_embedded_store_moves_nothing_ahead() {
    for days in [2, 450] {
        let upstream = Upstream::start();
        let gate = tight(Setup::of(&upstream)).asks_date().start().ready();
        let paid = swap();
        let first = paid.send(gate.production());
        assert_eq!(told(&first), "200 - executed");
        let stopped = gate.end();
        let file = stopped.path("sluice-data/store.clock");
        let mut kept: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        kept["at"] = json!(kept["at"].as_i64().unwrap() + days * 24 * 3_600_000_000);
        fs::write(&file, kept.to_string()).unwrap();
        let gate = stopped.start();
        assert_eq!(swaps(&gate), FULL, "{days} days");
        assert_eq!(paid.send(gate.production()).text(), first.text());
        assert!(!is_closed(&gate) && upstream.seen().len() == 1, "{days} days");
    }
}
