//! Records of a Redis that somebody changed, in a way that no commit did: what a read finds is not believed, and the gates
//! mend the store from their journals.

use std::thread::{scope, sleep};
use std::time::Duration;

use serde_json::json;

use super::claims::{swap, told};
use super::console::{console, lift};
use super::nodes::{EXECUTED, all_have_it, await_log, says, setup};
use crate::support::clock::wait_until;
use crate::support::{Answer, Call, Gate, Redis, Upstream};

const BUDGET: &str = "[[limit]]\nid = \"budget\"\nops = [\"createSwap\"]\nwindow = \"rolling 30d\"\nmax = \"100 calls\"\nover = \"deny\"\n";
/// The fields of the Redis that no gate seals.
const ROOT: &str = "sluice:{production}";

fn gates<const N: usize>(upstream: &Upstream, redis: &Redis, names: [&str; N]) -> [Gate; N] {
    names.map(|name| {
        console(setup(upstream, &redis.url(), name)).set("store", "seal_key", &"5e".repeat(32)).start().ready()
    })
}

/// What was paid, and what its caller was told.
fn paid(gate: &Gate) -> (Call, Answer) {
    let call = swap();
    let first = call.send(gate.production());
    assert_eq!(told(&first), EXECUTED);
    (call, first)
}

fn contradictions(gate: &Gate) -> u64 {
    gate.metric("sluice_store_contradictions_total{environment=\"production\"}")
}

fn keys(redis: &Redis, kind: &str) -> Vec<String> {
    redis.ask(&["KEYS", &format!("{ROOT}:r:{kind}:*")])
}

/// Makes what is left of a claim whose content expired.
fn spend(redis: &Redis, key: &str) {
    let script = "redis.call('SET', KEYS[1], string.sub(redis.call('GET', KEYS[1]), 1, 32) .. 's') return 'OK'";
    redis.ask(&["EVAL", script, "1", key]);
}

fn asks_people(gate: &Gate) {
    wait_until("people to be asked", || gate.probe("/readyz/money").text().contains("restored"));
}

/// All is as before once people open money.
fn assert_mended(upstream: &Upstream, gates: &[Gate], paid: &[(Call, Answer)]) {
    let sent = upstream.seen().len();
    for gate in gates {
        asks_people(gate);
    }
    assert_eq!(lift(&gates[0], json!("restored")).json()["changed"], true);
    for gate in gates {
        wait_until("money to move again", || told(&swap().send(gate.production())) == EXECUTED);
        for (call, first) in paid {
            assert_eq!(call.send(gate.production()).text(), first.text());
        }
    }
    assert_eq!(upstream.seen().len(), sent + gates.len());
    let before: Vec<u64> = gates.iter().map(contradictions).collect();
    sleep(Duration::from_secs(12));
    assert_eq!(gates.iter().map(contradictions).collect::<Vec<_>>(), before, "nothing is left that is another one");
}

#[test]
fn one_claim_that_somebody_changed_is_mended_though_it_is_read_once() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = gates(&upstream, &redis, ["left"]);
    let paid = [paid(&gates[0])];
    all_have_it(&redis);
    spend(&redis, &keys(&redis, "claim")[0]);
    assert_eq!(told(&paid[0].0.send(gates[0].production())), "503 STORE_UNAVAILABLE unknown");
    assert_mended(&upstream, &gates, &paid);
    assert!(contradictions(&gates[0]) >= 2);
}

#[test]
fn two_claims_in_each_others_place_are_mended() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = gates(&upstream, &redis, ["left", "right"]);
    let paid = [paid(&gates[0]), paid(&gates[1])];
    all_have_it(&redis);
    let [one, other] = keys(&redis, "claim").try_into().unwrap();
    for (from, to) in [(one.as_str(), "aside"), (other.as_str(), one.as_str()), ("aside", other.as_str())] {
        redis.ask(&["RENAME", from, to]);
    }
    for (call, _) in &paid {
        assert!(told(&call.send(gates[0].production())).starts_with("503"));
    }
    assert_mended(&upstream, &gates, &paid);
}

#[test]
fn the_policies_in_force_that_somebody_removed_are_mended() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = gates(&upstream, &redis, ["left"]);
    let paid = [paid(&gates[0])];
    all_have_it(&redis);
    let in_force = keys(&redis, "in-force");
    assert!(!in_force.is_empty());
    in_force.iter().for_each(|key| drop(redis.ask(&["DEL", key])));
    assert!(told(&swap().send(gates[0].production())).starts_with("503"));
    assert_mended(&upstream, &gates, &paid);
}

/// The limit holds all the same: people would be told that nothing of it is used.
#[test]
fn the_list_of_windows_that_somebody_removed_is_mended() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = ["left", "right"].map(|node| {
        let setup = console(setup(&upstream, &redis.url(), node)).set("store", "seal_key", &"5e".repeat(32));
        setup.file("policies/budget.toml", BUDGET).start().ready()
    });
    let paid = [paid(&gates[0])];
    all_have_it(&redis);
    let used =
        |gate: &Gate| gate.metric(r#"sluice_limit_used_calls{environment="production",limit="budget",mode="enforce"}"#);
    wait_until("the other gate to know of it", || used(&gates[1]) == 1);
    let list = format!("{ROOT}:l");
    redis.ask(&["DEL", &list]);
    wait_until("the window to be listed", || redis.ask(&["ZCARD", &list]) == ["1"]);
    for gate in &gates {
        wait_until("all payments to count", || used(gate) == 1);
    }
    // Nothing else is done: no payment depends on the list.
    assert_eq!(gates.iter().map(contradictions).collect::<Vec<_>>(), [0, 0]);
    assert_eq!(told(&paid[0].0.send_when_met(gates[1].production())), "200 - executed again");
    assert_eq!(told(&swap().send(gates[1].production())), "200 - executed");
}

/// Journals are behind the store, and records are written while they are read.
#[test]
fn what_gates_write_while_others_read_it_is_no_contradiction() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = gates(&upstream, &redis, ["left", "right"]);
    scope(|threads| {
        for nth in 0..8 {
            let gates = &gates;
            threads.spawn(move || {
                for round in 0..15 {
                    let (call, gate) = (swap(), &gates[(nth + round) % 2]);
                    asks_both(&call, [gate, &gates[(nth + round + 1) % 2]]);
                }
            });
        }
    });
    sleep(Duration::from_secs(3));
    assert_eq!(gates.iter().map(contradictions).collect::<Vec<_>>(), [0, 0]);
    assert_eq!(upstream.seen().len(), 120);
}

/// Both gates are asked at once, and again.
fn asks_both(call: &Call, gates: [&Gate; 2]) {
    scope(|threads| {
        for gate in gates {
            threads.spawn(move || drop(call.send(gate.production())));
        }
    });
    gates.iter().for_each(|gate| drop(call.send(gate.production())));
}

#[test]
fn a_store_of_another_generation_is_told_once_and_its_remedy_keeps_the_journals() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = gates(&upstream, &redis, ["left"]);
    let paid = paid(&gates[0]);
    all_have_it(&redis);
    let generation = redis.generation(ROOT);
    redis.set_generation(ROOT, &"a".repeat(generation.len()));
    wait_until("it to be told", || says(&gates[0], "belongs to another store"));
    await_log(&gates[0], "keep every `audit.folder`");
    sleep(Duration::from_secs(4));
    let told_of =
        gates[0].log.all().iter().filter(|line| line.to_string().contains("belongs to another store")).count();
    assert_eq!(told_of, 1);
    assert!(told(&paid.0.send(gates[0].production())).starts_with("503"));
    redis.set_generation(ROOT, &generation);
    wait_until("money to move again", || told(&swap().send(gates[0].production())) == EXECUTED);
    assert_eq!(paid.0.send(gates[0].production()).text(), paid.1.text());
}
