//! A gate all of whose own clocks leap ahead or fall behind, also the one that measures durations: it frees nothing, and
//! stops no other gate.

use super::claims::{swap, told};
use super::clocks::{
    CLOSED, HALF_AN_HOUR, is_closed, is_doubted, on_redis, open_gate, swaps, tight, unfreeze, with_clock,
};
use super::console::{ask, operator};
use super::nodes::{says, setup};
use crate::support::clock::wait_until;
use crate::support::false_clock::FalseClock;
use crate::support::{Redis, Upstream};

/// It alone is wrong: the others say so, and the store's time goes on as it was.
#[test]
fn a_gate_all_of_whose_clocks_leap_ahead_takes_the_store_s_time_and_closes_nothing() {
    for seconds in [30, 90] {
        let (upstream, clock, redis) = (Upstream::start(), FalseClock::new(), Redis::start_kept());
        let right = on_redis("right", &upstream, &redis);
        let ahead = with_clock(tight(setup(&upstream, &redis.url(), "ahead")), &clock).start().ready();
        assert_eq!(told(&swap().send(right.production())), "200 - executed");
        clock.leap_unseen(seconds);
        wait_until("the gate to take the store's time", || {
            says(&ahead, "another gate sees no leap: this machine was paused, or its clock is wrong")
        });
        for gate in [&right, &ahead] {
            wait_until("money to move", || swaps(gate) == "403 LIMIT_EXCEEDED not-executed");
            assert!(!is_closed(gate), "{seconds} s");
            assert_eq!(gate.metric("sluice_store_clock_leaps_total{environment=\"production\"}"), 0, "{seconds} s");
        }
    }
}

/// Nobody knows at first whether the clock of the Redis was set back, or that of the gate leapt ahead.
#[test]
fn a_gate_all_of_whose_clocks_leap_ahead_frees_no_limit() {
    let upstream = Upstream::start();
    for is_alone in [true, false] {
        let (clock, redis) = (FalseClock::new(), Redis::start_kept());
        let right = (!is_alone).then(|| on_redis("right", &upstream, &redis));
        let ahead = with_clock(tight(setup(&upstream, &redis.url(), "ahead")), &clock).start().ready();
        let paid = swap();
        assert_eq!(told(&paid.send(ahead.production())), "200 - executed");
        let before = upstream.posts();
        clock.leap_unseen(HALF_AN_HOUR.unsigned_abs());
        wait_until("money to close", || {
            let answer = told(&swap().send(ahead.production()));
            assert!(!answer.starts_with("200"), "{answer}");
            answer == CLOSED
        });
        assert_eq!(told(&paid.send(ahead.production())), "200 - executed again");
        if is_alone {
            // People find the clock of the Redis right.
            unfreeze(&ahead);
            assert_eq!(swaps(&ahead), "403 LIMIT_EXCEEDED not-executed");
            assert_eq!(told(&paid.send(ahead.production())), "200 - executed again");
        }
        if let Some(right) = &right {
            // The others are right: only the gate that is wrong sends nothing.
            assert_eq!(swaps(right), "403 LIMIT_EXCEEDED not-executed");
            assert!(!is_closed(right));
        }
        assert_eq!(upstream.posts(), before);
    }
}

/// A hypervisor paused it for minutes, and no clock of its machine shows that.
#[test]
fn a_gate_all_of_whose_clocks_fall_minutes_behind_closes_its_own_money_alone() {
    let (upstream, clock) = (Upstream::start(), FalseClock::new());
    let redis = Redis::start_with_clock(clock.clone());
    let right = with_clock(tight(setup(&upstream, &redis.url(), "right")), &clock).start().ready();
    let behind = on_redis("behind", &upstream, &redis);
    let paid = swap();
    assert_eq!(told(&paid.send(behind.production())), "200 - executed");
    // The time goes on for all others.
    clock.leap_unseen(400);
    wait_until("its money to close", || is_doubted(&behind));
    assert_eq!(swaps(&behind), CLOSED);
    wait_until("the store to be met", || told(&paid.send(behind.production())) == "200 - executed again");
    assert_eq!(swaps(&right), "403 LIMIT_EXCEEDED not-executed");
    assert!(!is_closed(&right));
    // Its heartbeats are new for the others: nobody declares it gone.
    let gates = ask(&right, "GET", "gates", &operator("ops-1"), None).text();
    assert!(!gates.contains("\"gone\":true"), "{gates}");
    open_gate(&right, "behind");
    wait_until("its money to open", || !is_doubted(&behind));
    assert_eq!(swaps(&behind), "403 LIMIT_EXCEEDED not-executed");
    for gate in [&right, &behind] {
        assert_eq!(gate.metric("sluice_store_clock_leaps_total{environment=\"production\"}"), 0);
    }
}
