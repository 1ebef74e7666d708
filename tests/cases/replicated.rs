//! A Redis whose replica is away: what a failover could undo is neither sent nor journalled.

use super::claims::{swap, told};
use super::doctor::{findings, json as doctor};
use super::nodes::{says, setup};
use crate::support::clock::wait_until;
use crate::support::{Gate, Redis, Upstream};

/// How many entries the gate's journal has that begin an attempt.
pub(super) fn journalled(gate: &Gate) -> usize {
    entries(gate, "sending")
}

/// How many entries of a kind the gate's journal has.
pub(super) fn entries(gate: &Gate, what: &str) -> usize {
    let what = format!("\"what\":\"{what}\"");
    let folder = std::fs::read_dir(gate.path("sluice-audit")).unwrap();
    let files =
        folder.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    files.map(|file| std::fs::read_to_string(file).unwrap().matches(&what).count()).sum()
}

#[test]
fn an_entry_that_no_replica_has_comes_to_no_journal() {
    let (upstream, redis, replica) = (Upstream::start(), Redis::start_kept(), Redis::start_kept());
    let follow = || replica.ask(&["REPLICAOF", "127.0.0.1", &redis.port().to_string()]);
    follow();
    let gates = ["left", "right"]
        .map(|node| setup(&upstream, &redis.url(), node).set("redis", "durability", "replicated").start());
    for gate in &gates {
        wait_until("money to move", || told(&swap().send(gate.production())) == "200 - executed");
    }
    wait_until("all to be journalled", || journalled(&gates[0]) == journalled(&gates[1]));
    let before = journalled(&gates[0]);

    replica.ask(&["REPLICAOF", "NO", "ONE"]);
    let call = swap();
    let sent = upstream.seen().len();
    assert_eq!(told(&call.send(gates[0].production())), "503 STORE_UNAVAILABLE unknown");
    for gate in &gates {
        wait_until("the gate to look for entries", || says(gate, "what was read may be undone"));
        assert_eq!(journalled(gate), before);
    }
    assert_eq!(upstream.seen().len(), sent);

    follow();
    for gate in &gates {
        wait_until("money to move again", || told(&swap().send(gate.production())) == "200 - executed");
        wait_until("the entry to be journalled", || journalled(gate) > before + 1);
    }
    wait_until("the call to be paid", || told(&call.send(gates[1].production())).starts_with("20"));
}

/// The reasons why money cannot move.
fn reasons(gate: &Gate) -> Vec<String> {
    let said = gate.probe("/readyz/money").json();
    let reasons = said["reasons"].as_array().unwrap().iter();
    reasons
        .map(|reason| format!("{} {}", reason["reason"].as_str().unwrap(), reason["text"].as_str().unwrap()))
        .collect()
}

#[test]
fn without_the_demanded_replicas_probe_and_doctor_say_that_money_is_closed() {
    let (upstream, redis, replica) = (Upstream::start(), Redis::start_kept(), Redis::start_kept());
    let follow = || replica.ask(&["REPLICAOF", "127.0.0.1", &redis.port().to_string()]);
    let replicated = |node| setup(&upstream, &redis.url(), node).set("redis", "durability", "replicated");
    let (gate, asks) = (replicated("left").start(), replicated("asks"));
    let closed = || reasons(&gate).iter().any(|reason| reason.starts_with("store-not-durable"));
    wait_until("the gate to miss the replica before any call", closed);
    let why = "on 0 replicas instead of 1";
    assert!(reasons(&gate).iter().any(|reason| reason.contains(why)), "{:?}", reasons(&gate));
    assert_eq!((gate.probe("/readyz").status, gate.probe("/readyz/money").status), (200, 503));
    assert_eq!(told(&swap().send(gate.production())), "503 STORE_UNAVAILABLE unknown");
    let (code, said) = doctor(&asks);
    assert_eq!((code, &said["environments"][0]["money"]), (8, &"closed".into()), "{said}");
    assert!(findings(&said).contains("too few: 0 of 1"), "{said}");

    follow();
    wait_until("money to be open", || gate.probe("/readyz/money").status == 200);
    wait_until("money to move", || told(&swap().send(gate.production())) == "200 - executed");
    wait_until("the doctor to say so", || doctor(&asks).1["environments"][0]["money"] == "open");
    assert!(findings(&doctor(&asks).1).is_empty() || !findings(&doctor(&asks).1).contains("replicas"));

    // A replica that goes later is missed, too, without a call.
    replica.ask(&["REPLICAOF", "NO", "ONE"]);
    wait_until("the gate to miss the replica", closed);
    assert_eq!(doctor(&asks).0, 8);
}
