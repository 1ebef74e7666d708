//! A Redis whose replica is away: what a failover could undo is neither sent nor journalled.

use super::claims::{swap, told};
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
