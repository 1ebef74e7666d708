//! What the doctor says of the store and of the gates that share it.

use serde_json::Value;

use super::claims::{swap, told};
use super::nodes::{pair, setup};
use crate::support::clock::wait_until;
use crate::support::gate::{EVERYTHING, sluice};
use crate::support::{Act, Gate, Redis, Setup, Upstream};

/// Its exit code and what it says.
fn doctor(setup: &Setup, output: &str) -> (i32, String) {
    let config = setup.write();
    let output = sluice(&["doctor", "--config", config.to_str().unwrap(), "--output", output]).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

pub(super) fn json(setup: &Setup) -> (i32, Value) {
    let (code, said) = doctor(setup, "json");
    (code, serde_json::from_str(&said).unwrap())
}

pub(super) fn findings(said: &Value) -> String {
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
    assert_eq!(said["healthy"], true);
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
    assert!(lines.ends_with("No problems found.\n"), "{lines}");

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

    // What a gate did that was missed before is in the journal of the other.
    let left = left.kill();
    wait_until("it to be missed", || findings(&json(&asks).1).contains("`left` has sent no heartbeat"));
    let left = left.start();
    wait_until("money to move again", || told(&swap().send(left.production())) == "200 - executed");
    let left = left.kill();
    redis.ask(&["FLUSHALL"]);
    wait_until("money to be closed", || {
        let (code, said) = json(&asks);
        let production = &said["environments"][0];
        let waits = findings(&said).contains("restored the records of their audit logs: left. Start");
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
    assert_eq!(said["environments"][0]["money"], "unknown");
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

#[test]
fn the_doctor_lists_refusals_that_the_contract_does_not_list() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let config = gate.path("doctor.toml");
    let written = std::fs::read_to_string(gate.path("sluice.toml")).unwrap();
    let [before, after] =
        ["127.0.0.1:0".to_owned(), gate.probes().to_string()].map(|a| format!("[probes]\nlisten = {a:?}"));
    std::fs::write(&config, written.replace(&before, &after)).unwrap();
    let ask = |output: &str| {
        let asked = sluice(&["doctor", "--config", config.to_str().unwrap(), "--output", output]).output().unwrap();
        assert!(asked.status.success(), "an unlisted refusal is no problem");
        String::from_utf8(asked.stdout).unwrap()
    };
    assert!(!ask("lines").contains("ADVICE"));
    for _ in 0..2 {
        upstream.next(Act::json(422, r#"{"status":"error","error":{"code":"NO_SUCH_WALLET","message":"y"}}"#));
        assert_eq!(told(&swap().send(gate.production())), "422 NO_SUCH_WALLET not-executed");
    }
    let lines = ask("lines");
    let advice =
        "ADVICE: production: upstream refused `createSwap` with 422 `NO_SUCH_WALLET`, which the contract does not list";
    assert!(lines.contains(advice) && lines.contains("`doesNotProve`"), "{lines}");
    let json: Value = serde_json::from_str(&ask("json")).unwrap();
    assert_eq!(json["advice"].as_array().unwrap().len(), 1, "{json}");
    assert_eq!((&json["healthy"], json["findings"].as_array().unwrap().len()), (&true.into(), 0), "{json}");
}

#[test]
fn refusals_that_several_gates_met_are_listed_once() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let asks = setup(&upstream, &redis.url(), "asks");
    let [left, right] = pair(&upstream, &redis);
    let refusal = |code: &str| format!(r#"{{"status":"error","error":{{"code":"{code}","message":"y"}}}}"#);
    for (gate, code) in [(&left, "ONE"), (&right, "ONE"), (&right, "TWO")] {
        upstream.next(Act::json(403, refusal(code)));
        assert_eq!(told(&swap().send(gate.production())), format!("403 {code} not-executed"));
    }
    let mut advice = Vec::new();
    wait_until("the gates to state what they met", || {
        let (code, said) = json(&asks);
        advice = said["advice"].as_array().unwrap().iter().map(|one| one["advice"].to_string()).collect();
        code == 0 && advice.len() == 2
    });
    assert!(advice[0].contains("`createSwap` with 403 `ONE`") && advice[1].contains("403 `TWO`"), "{advice:?}");
    drop((left, right));
}
