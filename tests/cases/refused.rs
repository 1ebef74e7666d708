//! Calls that are refused: nobody is told that one was not executed whose claim the gate's journal has, whatever the Redis
//! says.

use serde_json::json;

use super::claims::told;
use super::console::freeze;
use super::holds::{self, on_redis, swap};
use super::nodes::{CLOSED, all_have_it, await_log};
use crate::support::clock::wait_until;
use crate::support::{Gate, Redis, Upstream};

const FROZEN: &str = "503 FROZEN not-executed";

/// Two gates with a limit that two payments use up, one made at each.
fn used_up(upstream: &Upstream, redis: &Redis, over: &str) -> [Gate; 2] {
    let limit = format!(
        "[[limit]]\nid = \"budget\"\nops = [\"createSwap\"]\nwindow = \"rolling 30d\"\nmax = \"2 calls\"\n{over}\n"
    );
    let rules = format!("{}{limit}", holds::RULES);
    let gates = ["left", "right"].map(|node| on_redis(holds::gate(upstream, &rules), redis, node).start().ready());
    for (gate, id) in gates.iter().zip(["of-left", "of-right"]) {
        wait_until("money to move", || told(&swap(id, "10").send(gate.production())).contains(" executed"));
    }
    for gate in &gates {
        for id in ["of-left", "of-right"] {
            wait_until("both to have it", || told(&swap(id, "10").send(gate.production())).ends_with("executed again"));
        }
    }
    all_have_it(redis);
    gates
}

/// Somebody removes the claim of what a gate paid, and the call comes again there and at the other.
fn assert_not_believed(upstream: &Upstream, redis: &Redis, gates: &[Gate; 2]) {
    assert_eq!(redis.ask(&["DEL", "sluice:{production}:r:claim:request/of-left"]), ["1"]);
    for gate in [&gates[0], &gates[1], &gates[0]] {
        let answer = told(&swap("of-left", "10").send(gate.production()));
        assert!([CLOSED, "503 FROZEN unknown"].contains(&answer.as_str()), "{answer}");
    }
    await_log(&gates[0], "the store contradicts the journal");
    for gate in gates {
        let again = || told(&swap("of-left", "10").send(gate.production())).ends_with("executed again");
        wait_until("it to be known again", again);
    }
    assert_eq!(holds::sent(upstream), 2);
}

#[test]
fn what_was_paid_is_not_told_as_denied_because_its_claim_was_removed() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = used_up(&upstream, &redis, "over = \"deny\"");
    let denied = told(&swap("another", "10").send(gates[0].production()));
    assert_eq!(denied, "403 LIMIT_EXCEEDED not-executed");
    assert_not_believed(&upstream, &redis, &gates);
}

/// People would vote on what was paid.
#[test]
fn what_was_paid_does_not_wait_for_people_because_its_claim_was_removed() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = used_up(&upstream, &redis, "over = \"hold\"\napproval = \"one\"");
    assert_not_believed(&upstream, &redis, &gates);
    let open = redis.ask(&["ZCARD", "sluice:{production}:i:held"]).concat();
    assert_eq!(open, "0");
}

#[test]
fn what_was_paid_is_not_told_as_frozen_before_it_was_sent() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = used_up(&upstream, &redis, "over = \"deny\"");
    assert_eq!(freeze(&gates[0], json!("all")).status, 201);
    for gate in &gates {
        wait_until("it to be frozen", || told(&swap("new", "10").send(gate.production())) == FROZEN);
    }
    all_have_it(&redis);
    assert_not_believed(&upstream, &redis, &gates);
}
