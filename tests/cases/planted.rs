//! Somebody who writes the Redis has a gate believe nothing of itself that it did not say.

use std::time::Duration;

use super::nodes::{paid, says, setup};
use crate::support::clock::{Watch, wait_until};
use crate::support::{Gate, Redis, Upstream};

const ROLL: &str = "sluice:{production}:n";

fn pair(upstream: &Upstream, redis: &Redis) -> [Gate; 2] {
    ["left", "right"].map(|node| {
        let setup = setup(upstream, &redis.url(), node).set("store", "seal_key", &"5e".repeat(32));
        setup.start().ready()
    })
}

/// Its heartbeats would end the process that bears the name.
#[test]
fn another_process_of_the_name_ends_no_gate_that_nobody_proves() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gates = pair(&upstream, &redis);
    let plant = |node: &str| {
        let stated = redis.ask(&["HGET", ROLL, node]).concat();
        let (_instance, rest) = stated.split_once(' ').unwrap();
        redis.ask(&["HSET", ROLL, node, &format!("{} {rest}", "ab".repeat(16))]);
    };
    let since = Watch::start();
    wait_until("some seconds to pass", || {
        ["left", "right"].into_iter().for_each(plant);
        std::thread::park_timeout(Duration::from_millis(300));
        since.elapsed() > Duration::from_secs(6)
    });
    for gate in &gates {
        paid(gate);
        assert!(!says(gate, "another gate with the same"), "{}", gate.stderr());
    }
    // Nor does it keep one from starting.
    let [left, right] = gates;
    let left = left.end();
    plant("left");
    paid(&left.start().ready());
    drop(right);
}
