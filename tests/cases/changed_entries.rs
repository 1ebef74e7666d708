//! Entries that somebody who writes the Redis changes on their way from one gate to the journal of another.

use super::claims::{swap, told};
use super::holds;
use super::nodes::{CLOSED, EXECUTED, have_all, says, setup};
use crate::support::clock::wait_until;
use crate::support::{Call, Gate, Redis, Setup, Upstream};

const AGAIN: &str = "200 - executed again";
const FROZEN: &str = "503 FROZEN unknown";
/// The gate's words where entries are not what another gate said of its journal.
const CHANGED: &str = "somebody changed entries in it";
/// Puts the bodies of entries in the place of others: `ARGV` has for each of the newest entries which one it gets.
const CHANGES: &str = "local all = redis.call('ZRANGE', KEYS[1], -#ARGV, -1, 'WITHSCORES')
    local heads, bodies = {}, {}
    for nth = 1, #ARGV do
        heads[nth], bodies[nth] = string.match(all[2 * nth - 1], '^(%d+ %d+ %S+ )(.*)$')
    end
    for nth = 1, #ARGV do
        redis.call('ZREM', KEYS[1], all[2 * nth - 1])
        redis.call('ZADD', KEYS[1], all[2 * nth], heads[nth] .. bodies[tonumber(ARGV[nth])])
    end
    return #ARGV";

/// Two calls that one gate paid, while the other is away.
struct Away {
    upstream: Upstream,
    redis: Redis,
    gate: Gate,
    away: Setup,
    calls: [Call; 2],
}

fn paid_at_one() -> Away {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let of = |node: &str| setup(&upstream, &redis.url(), node).set("store", "seal_key", &"5e".repeat(32));
    let [gate, away] = ["left", "right"].map(|node| of(node).start().ready());
    // The first beginning writes the set in force.
    assert_eq!(told(&swap().send_when_met(gate.production())), EXECUTED);
    have_all(&redis, &["left", "right"]);
    let away = away.kill();
    let calls = [swap(), swap()];
    for call in &calls {
        assert_eq!(told(&call.send_when_met(gate.production())), EXECUTED);
    }
    have_all(&redis, &["left"]);
    Away { upstream, redis, gate, away, calls }
}

/// Each call is known at both gates, and was sent once; money is closed for people.
fn nothing_is_lost(Away { upstream, redis: _redis, gate: left, away, calls }: Away, words: &str) {
    let right = away.start();
    // What the other gate said of its journal may tell it before the entry does.
    wait_until("the gate to notice it", || [words, CHANGED].iter().any(|words| says(&right, words)));
    for gate in [&left, &right] {
        wait_until("people to be asked", || gate.probe("/readyz/money").text().contains("restored"));
        for call in &calls {
            wait_until("the call to be known", || {
                let answer = told(&call.send(gate.production()));
                assert!([CLOSED, FROZEN, AGAIN].contains(&answer.as_str()), "{answer}");
                answer == AGAIN
            });
        }
        assert_eq!(told(&swap().send_when_met(gate.production())), FROZEN);
    }
    // What a journal left out does not have the store rebuilt again and again.
    let rebuilds = |gate: &Gate| gate.metric("sluice_store_rebuilds_total{environment=\"production\"}");
    let before = [&left, &right].map(rebuilds);
    for call in [&calls; 20].into_iter().flatten() {
        assert_eq!(told(&call.send_when_met(right.production())), AGAIN);
    }
    assert_eq!([&left, &right].map(rebuilds), before);
    assert_eq!(holds::sent(&upstream), 3);
}

#[test]
fn a_copy_of_an_earlier_entry_does_not_hide_a_payment() {
    let paid = paid_at_one();
    let script = ["EVAL", CHANGES, "1", "sluice:{production}:q", "1", "2", "1", "2"];
    assert_eq!(paid.redis.ask(&script), ["4"]);
    nothing_is_lost(paid, "somebody put a copy of that one in its place");
}

/// Each of them is allowed where it stands. The gate that made them says in what order they were.
#[test]
fn entries_in_another_order_are_found_by_what_gates_say_of_their_journals() {
    let paid = paid_at_one();
    let script = ["EVAL", CHANGES, "1", "sluice:{production}:q", "3", "4", "1", "2"];
    assert_eq!(paid.redis.ask(&script), ["4"]);
    nothing_is_lost(paid, CHANGED);
}

/// No rule forbids it. The gate that made it says what its journal has.
#[test]
fn an_entry_that_is_almost_the_same_is_found_by_what_gates_say_of_their_journals() {
    let paid = paid_at_one();
    let script = "local entry, number = unpack(redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES'))
        local before, at, rest = string.match(entry, '^(%d+) (%d+) (.*)$')
        redis.call('ZREM', KEYS[1], entry)
        redis.call('ZADD', KEYS[1], number, before .. ' ' .. string.format('%d', at + 1) .. ' ' .. rest)
        return 1";
    assert_eq!(paid.redis.ask(&["EVAL", script, "1", "sluice:{production}:q"]), ["1"]);
    nothing_is_lost(paid, "somebody changed entries on their way");
}

/// In a journal it could be neither followed nor removed.
#[test]
fn an_entry_that_no_gate_makes_comes_into_no_journal() {
    for made in ["{}", "[]", "{\"steps\":1,\"values\":[5]}"] {
        let paid = paid_at_one();
        let script = "local entry, number = unpack(redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES'))
            local place = string.match(entry, '^%d+ %d+ %S+ ')
            redis.call('ZREM', KEYS[1], entry)
            redis.call('ZADD', KEYS[1], number, place .. 'w;' .. ARGV[1])
            return 1";
        assert_eq!(paid.redis.ask(&["EVAL", script, "1", "sluice:{production}:q", made]), ["1"]);
        nothing_is_lost(paid, "is none that a gate makes");
    }
}
