//! Times that somebody changes who writes the Redis: those of records, and those of the entries that gates repeat.

use serde_json::{Value, json};

use super::claims::{pay, told};
use super::console::{ask, console, operator};
use super::holds::{self, held, say, text};
use super::nodes::{self, await_log, have_all};
use crate::support::clock::wait_until;
use crate::support::{Act, Call, Gate, Redis, Setup, Upstream};

const HOUR: i64 = 3_600_000_000;
const LIMIT: &str = "[[limit]]\nid = \"budget\"\nops = [\"createSwap\"]\nwindow = \"rolling 30d\"\nmax = \"2 calls\"\nover = \"deny\"\n";

fn sealed(setup: Setup) -> Setup {
    setup.set("store", "seal_key", &"5e".repeat(32))
}

/// Moves the time of a record by microseconds, and leaves its version and its content. It is the second double.
fn moves(redis: &Redis, name: &str, micros: i64) {
    let script = "local all = redis.call('GET', KEYS[1])
        local at = struct.unpack('<d', all, 9) + tonumber(ARGV[1])
        redis.call('SETRANGE', KEYS[1], 8, struct.pack('<d', at)) return 'OK'";
    let key = format!("sluice:{{production}}:r:{name}");
    assert_eq!(redis.ask(&["EVAL", script, "1", &key, &micros.to_string()]), ["OK"]);
}

/// As somebody does who also gives the record a version that no journal can have yet.
fn renumbers(redis: &Redis, name: &str) {
    let script = "redis.call('SETRANGE', KEYS[1], 0, struct.pack('<d', 1000000)) return 'OK'";
    redis.ask(&["EVAL", script, "1", &format!("sluice:{{production}}:r:{name}")]);
}

fn show(gate: &Gate, hold: &Value) -> crate::support::Answer {
    let who = holds::person("ops-1", &["approver"]);
    ask(gate, "GET", &format!("holds/{}", text(hold, "id")), &who, None)
}

#[test]
fn a_hold_does_not_last_longer_by_a_time_that_somebody_writes() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gate = sealed(holds::on_redis(holds::gate(&upstream, holds::RULES), &redis, "left")).start().ready();
    let hold = held(&gate, "late-1");
    let name = format!("hold:{}", text(&hold, "id"));
    assert_eq!(show(&gate, &hold).status, 200);
    for is_renumbered in [false, true] {
        moves(&redis, &name, 30 * 24 * HOUR);
        if is_renumbered {
            renumbers(&redis, &name);
        }
        assert_eq!(show(&gate, &hold).status, 503);
        assert_eq!(say(&gate, "approve", &hold, "ops-1").status, 503);
        if !is_renumbered {
            moves(&redis, &name, -30 * 24 * HOUR);
            assert_eq!(show(&gate, &hold).status, 200);
        }
    }
}

#[test]
fn the_quiet_time_of_a_call_does_not_end_by_a_time_that_somebody_writes() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gate = console(nodes::setup(&upstream, &redis.url(), "left")).set_raw("reconcile", "first_look_ms", "60_000");
    let gate = sealed(gate).start().ready();
    upstream.next(Act::silence().close());
    let call = pay(super::claims::named("lost-1"));
    assert_eq!(told(&call.send(gate.production())), "502 OUTCOME_UNKNOWN unknown");
    let body = json!({"outcome": "absent", "reason": "not in their list"});
    let absent =
        |who| ask(&gate, "POST", "requests/production/lost-1/resolve", &operator(who), Some(body.clone())).status;
    assert_eq!(absent("ops-1"), 409);
    moves(&redis, "claim:request/lost-1", -HOUR);
    assert_eq!((absent("ops-1"), absent("ops-2")), (503, 503));
    assert_eq!(told(&call.send(gate.production())).split(' ').next(), Some("503"));
    assert_eq!(upstream.seen().len(), 1);
}

fn swap(request_id: &str) -> Call {
    holds::swap(request_id, "50")
}

/// Two swaps at a gate, while the other one is away.
fn paid_at_one(upstream: &Upstream, redis: &Redis) -> (Gate, Setup) {
    let rules = format!("{}{LIMIT}", holds::RULES);
    let setup = |node: &str| sealed(holds::on_redis(holds::gate(upstream, &rules), redis, node));
    let [left, right] = ["left", "right"].map(|node| setup(node).start().ready());
    have_all(redis, &["left", "right"]);
    let away = right.kill();
    for request_id in ["a-1", "a-2"] {
        assert_eq!(told(&swap(request_id).send(left.production())), "201 - executed");
    }
    (left, away)
}

/// A gate that was away repeats entries with times that somebody set back, after which limits would forget their calls.
#[test]
fn an_entry_whose_time_somebody_set_back_is_not_repeated() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let (_left, away) = paid_at_one(&upstream, &redis);
    have_all(&redis, &["left"]);
    let script = "local all, back = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), 0
        for nth = 1, #all, 2 do
            local put, at, rest = string.match(all[nth], '^(%d+) (%d+) (.*)$')
            if string.find(rest, '^left ') then
                redis.call('ZREM', KEYS[1], all[nth])
                local earlier = string.format('%d', at - tonumber(ARGV[1]))
                redis.call('ZADD', KEYS[1], all[nth + 1], put .. ' ' .. earlier .. ' ' .. rest)
                back = back + 1
            end
        end
        return back";
    let back = redis.ask(&["EVAL", script, "1", "sluice:{production}:q", &(90 * 1_000_000).to_string()]).concat();
    assert!(back.parse::<usize>().unwrap() >= 2, "{back}");
    let right = away.start();
    await_log(&right, "somebody changed it");
    wait_until("people to be asked", || right.probe("/readyz/money").text().contains("restored"));
    assert_eq!(told(&swap("b-1").send(right.production())), "503 FROZEN unknown");
    assert_eq!(holds::sent(&upstream), 2);
}

/// Nothing is wrong where nobody changed anything: whatever gates do, they do within the times that they state.
#[test]
fn a_gate_that_was_away_repeats_what_others_did() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let (left, away) = paid_at_one(&upstream, &redis);
    let hold = held(&left, "held-1");
    assert_eq!(say(&left, "approve", &hold, "ops-1").status, 200);
    let right = away.start().ready();
    assert_eq!(told(&swap("a-1").send(right.production())), "201 - executed again");
    assert_eq!(told(&swap("b-1").send(right.production())), "403 LIMIT_EXCEEDED not-executed");
    assert_eq!(say(&right, "approve", &hold, "ops-2").status, 200);
    for gate in [&left, &right] {
        assert_eq!(gate.metric("sluice_store_contradictions_total{environment=\"production\"}"), 0);
    }
}
