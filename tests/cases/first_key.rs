//! A store that was made without a seal key, and gets its first one; and one whose key is replaced by another.

use serde_json::Value;

use super::claims::{swap, told};
use super::doctor::{findings, json as doctor};
use super::nodes::{await_log, paid, says, setup};
use crate::support::clock::wait_until;
use crate::support::{Redis, Setup, Upstream, get};

const CHANGED: &str = "somebody changed the store";

fn key(byte: &str) -> String {
    byte.repeat(32)
}

/// A gate without a key has paid, and ended.
fn begin(upstream: &Upstream) -> Setup {
    let gate = Setup::of(upstream).start();
    assert_eq!(told(&swap().send(gate.production())), "200 - executed");
    gate.end()
}

/// What a program is told must be what money does.
#[test]
fn records_that_the_key_does_not_open_close_money_and_are_told_as_that() {
    let upstream = Upstream::start();
    let setup = begin(&upstream).set("store", "seal_key", &key("5e"));
    assert!(findings(&doctor(&setup).1).contains("the sum of the store has no seal"));
    let gate = setup.start();
    wait_until("money to be closed", || gate.probe("/readyz/money").status == 503);
    assert_eq!(told(&swap().send(gate.production())), "503 POLICIES_UNAVAILABLE unknown");
    let probe = gate.probe("/readyz/money");
    let reason = probe.json()["reasons"][0].clone();
    assert_eq!(reason["reason"], "policies-not-run", "{probe}");
    for words in ["in plain text", "`store.allow_plain = true`", "`rotate.md`"] {
        assert!(reason["text"].as_str().unwrap().contains(words), "{words}: {probe}");
    }
    assert_eq!((gate.metric("sluice_policy_not_run"), gate.probe("/readyz").status), (1, 200));
    assert_eq!(get("/v2/users").send(gate.production()).status, 200);
    let warned = || gate.log.all().iter().filter(|line| line.to_string().contains("the store failed")).count();
    let before = warned();
    let refused =
        || gate.metric("sluice_store_records_refused_total{environment=\"production\",reason=\"plain-text\"}");
    let seen = refused();
    wait_until("the gate to look again", || refused() >= seen + 3);
    assert_eq!(warned(), before, "it is told again and again");
}

#[test]
fn an_environment_whose_records_cannot_be_read_is_closed_alone() {
    let upstreams = [Upstream::start(), Upstream::start()];
    let gate = Setup::of(&upstreams[0]).sandbox(&upstreams[1]).start();
    assert_eq!(told(&swap().send(gate.sandbox())), "200 - executed");
    let gate = gate.end().set("store", "seal_key", &key("5e")).start();
    assert_eq!(told(&swap().send(gate.production())), "200 - executed");
    wait_until("sandbox to be closed", || gate.probe("/readyz/money").status == 503);
    let stops = gate.probe("/readyz/money").json()["reasons"].clone();
    let of = |name: &str| stops.as_array().unwrap().iter().map(|stop| stop[name].clone()).collect::<Vec<_>>();
    assert_eq!(
        (of("reason"), of("environment")),
        (vec![Value::from("policies-not-run")], vec![Value::from("sandbox")]),
        "{stops}"
    );
    assert_eq!(told(&swap().send(gate.sandbox())), "503 POLICIES_UNAVAILABLE unknown");
    assert_eq!(told(&swap().send(gate.production())), "200 - executed");
}

/// A key is set, and plain text is taken until what stays is sealed.
fn taken_over(setup: Setup, plain: u64) -> Setup {
    let gate = setup.set_raw("store", "allow_plain", "true").start();
    await_log(&gate, "records of the store that stay were sealed anew");
    assert_eq!(told(&swap().send(gate.production())), "200 - executed");
    await_log(&gate, "records in plain text are left");
    let left = gate.metric("sluice_store_plain_records{environment=\"production\"}");
    assert_eq!(left, plain, "more than claims from before the key");
    assert!(!says(&gate, CHANGED), "{}", gate.stderr());
    let setup = gate.end();
    setup.set_raw("store", "allow_plain", "false")
}

#[test]
fn the_takeover_of_a_store_from_before_the_key_ends() {
    let upstream = Upstream::start();
    let setup = begin(&upstream).set("store", "seal_key", &key("5e"));
    let gate = taken_over(setup, 1).start();
    let call = swap();
    assert_eq!(told(&call.send(gate.production())), "200 - executed");
    assert_eq!(gate.probe("/readyz/money").status, 200);
    assert!(!says(&gate, CHANGED));
    // With the next key, nothing that stays needs the former one.
    let setup = gate.end().set("store", "seal_key", &key("6f")).set("store", "seal_key_id", "second");
    let setup = setup.set("store", "former_seal_key", &key("5e")).set("store", "former_seal_key_id", "1");
    let gate = setup.start();
    await_log(&gate, "records of the store that stay were sealed anew");
    assert_eq!(call.send(gate.production()).header("sluice-replayed").as_deref(), Some("true"));
    let setup = gate.end().set("store", "former_seal_key", &key("11"));
    let gate = setup.set("store", "former_seal_key_id", "none").start();
    assert_eq!(told(&swap().send(gate.production())), "200 - executed");
}

#[test]
fn the_takeover_of_a_redis_from_before_the_key_ends() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gate = setup(&upstream, &redis.url(), "gate").start();
    let first = paid(&gate);
    let setup = gate.end().set("store", "seal_key", &key("5e"));
    let claims = upstream.seen().iter().filter(|seen| seen.line().starts_with("POST ")).count();
    let gate = taken_over(setup, claims.try_into().unwrap()).start();
    paid(&gate);
    assert!(told(&first.send(gate.production())).starts_with("503 STORE_UNAVAILABLE"));
}
