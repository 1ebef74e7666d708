//! What the doctor says of the store and of the gates that share it.

use serde_json::Value;

use super::claims::{swap, told};
use super::nodes::{pair, setup};
use crate::support::clock::wait_until;
use crate::support::gate::{EVERYTHING, sluice};
use crate::support::{Gate, Redis, Setup, Upstream};

/// Its exit code and what it says.
fn doctor(setup: &Setup, output: &str) -> (i32, String) {
    let config = setup.write();
    let output = sluice(&["doctor", "--config", config.to_str().unwrap(), "--output", output]).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

fn json(setup: &Setup) -> (i32, Value) {
    let (code, said) = doctor(setup, "json");
    (code, serde_json::from_str(&said).unwrap())
}

fn findings(said: &Value) -> String {
    said["findings"].to_string()
}

#[test]
fn the_doctor_tells_nodes_clocks_and_why_money_is_closed() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let asks = setup(&upstream, &redis.url(), "asks");
    let [left, right] = pair(&upstream, &redis);
    for gate in [&left, &right] {
        assert_eq!(told(&swap().send(gate.production())), "200 - executed");
    }
    wait_until("all to be well", || json(&asks).0 == 0);
    let (_, said) = json(&asks);
    assert_eq!(said["well"], true);
    let production = &said["environments"][0];
    assert_eq!((&production["environment"], &production["money"]), (&"production".into(), &"open".into()));
    for (at, name) in ["left", "right"].into_iter().enumerate() {
        let node = &production["nodes"][at];
        assert_eq!((&node["node"], &node["state"]), (&name.into(), &"live".into()), "{node}");
        assert_eq!(node["software"], env!("CARGO_PKG_VERSION"));
        assert!(node["clockOffMillis"].as_i64().unwrap().abs() < 1_000, "{node}");
    }
    let (_, lines) = doctor(&asks, "lines");
    assert!(lines.contains("production: money is OPEN\n  left: live, version"), "{lines}");
    assert!(lines.ends_with("All is well.\n"), "{lines}");

    let [policies, theirs] = [0, 1].map(|at| production["nodes"][at]["policies"].as_str().unwrap().to_owned());
    assert!(policies == theirs && policies.len() > 12, "{policies} {theirs}");
    let rules = right.path("policies/everything.toml");
    std::fs::write(
        &rules,
        format!("{EVERYTHING}[[rule]]\nid = \"none\"\neffect = \"deny\"\nwhen = {{ op = \"@money\" }}\n"),
    )
    .unwrap();
    wait_until("the difference to be named", || {
        let found = findings(&json(&asks).1);
        found.contains("decide by different policies") && found.contains("(left)") && found.contains("(right)")
    });
    std::fs::write(&rules, EVERYTHING).unwrap();
    wait_until("all to be well again", || json(&asks).0 == 0);

    let left = left.kill();
    wait_until("it to be missed", || findings(&json(&asks).1).contains("`left` has not been heard of"));
    redis.ask(&["FLUSHALL"]);
    wait_until("money to be closed", || {
        let (code, said) = json(&asks);
        let production = &said["environments"][0];
        let waits = findings(&said).contains("given back what their audit chains know: left. Start");
        code == 1 && production["money"] == "closed" && waits
    });
    let (_, lines) = doctor(&asks, "lines");
    assert!(lines.contains("production: money is CLOSED\n  frozen: restored for "), "{lines}");
    assert!(lines.contains("sluice unfreeze --restored"), "{lines}");

    let left = left.start();
    wait_until("all to be well", || json(&asks).0 == 0);
    drop((left, right));
}

#[test]
fn the_doctor_says_what_is_wrong_with_a_redis_that_is_away_or_unfit() {
    let (upstream, mut redis) = (Upstream::start(), Redis::start());
    let asks = setup(&upstream, &redis.url(), "asks");
    let (code, said) = json(&asks);
    assert_eq!(code, 1);
    assert!(findings(&said).contains("appendonly yes"), "{said}");
    assert_eq!(said["environments"][0]["money"], "not known");
    redis.go();
    let (code, said) = json(&asks);
    assert_eq!(code, 1);
    assert!(findings(&said).contains("does not answer"), "{said}");
}

#[test]
fn the_doctor_looks_at_an_embedded_store_with_and_without_its_gate() {
    let upstream = Upstream::start();
    let setup = Setup::of(&upstream);
    let (code, said) = doctor(&setup, "lines");
    assert!(code == 1 && said.contains("there is no store yet"), "{said}");
    assert!(!setup.path("sluice-data").exists());
    let gate = setup.start();
    let config = gate.path("sluice.toml");
    let ask = || sluice(&["doctor", "--config", config.to_str().unwrap()]).output().unwrap();
    assert!(ask().status.success());
    assert!(String::from_utf8_lossy(&ask().stdout).contains("a gate serves from it"));
    let setup = Gate::end(gate);
    let (code, said) = doctor(&setup, "lines");
    assert!(code == 0 && said.contains("production: money is OPEN"), "{said}");
}
