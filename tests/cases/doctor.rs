//! What the doctor says of the store and of the gates that share it.

mod states;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::claims::{swap, told};
use super::console::{ask, console, operator};
use super::nodes::{commits, have_all, pair, setup};
use super::witness::have_witnessed;
use crate::support::clock::{PATIENCE, Watch, wait_until};
use crate::support::gate::{EVERYTHING, sluice};
use crate::support::{Act, Gate, Redis, Setup, Upstream};

/// Its exit codes, besides 0.
const PROBLEMS: i32 = 7;
const CLOSED: i32 = 8;
const UNKNOWN: i32 = 9;

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

/// A rebuild leaves more than a million numbers free: no journal lacks entries for that.
#[test]
fn numbers_that_a_rebuild_left_free_are_not_told_as_lacking() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let asks = setup(&upstream, &redis.url(), "asks");
    let [left, right] = pair(&upstream, &redis);
    for gate in [&left, &right] {
        assert_eq!(told(&swap().send(gate.production())), "200 - executed");
    }
    have_all(&redis, &["left", "right"]);
    let (number, away) = (commits(&redis), right.kill());
    redis.ask(&["FLUSHALL"]);
    let rebuilds = "sluice_store_rebuilds_total{environment=\"production\"}";
    wait_until("the store to be rebuilt", || left.metric(rebuilds) == 1);
    assert!(commits(&redis) > number + 1_000_000);
    let lacks = |said: &Value, name: &str| {
        let nodes = said["environments"][0]["nodes"].as_array().unwrap();
        let node = nodes.iter().find(|node| node["node"] == name).unwrap_or_else(|| panic!("no `{name}`: {said}"));
        node["journalLacks"].as_u64().unwrap()
    };
    let (_, said) = json(&asks);
    assert!(lacks(&said, "left") < 10 && (1..10).contains(&lacks(&said, "right")), "{said}");
    let _right = away.start().ready();
    wait_until("all to be well", || json(&asks).0 == 0);
    let (_, said) = json(&asks);
    assert_eq!((lacks(&said, "left"), lacks(&said, "right")), (0, 0), "{said}");
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
    let (_, lines) = doctor(&asks, "table");
    assert!(lines.contains("production: money is OPEN\n  left: live, version"), "{lines}");
    assert!(lines.ends_with("No problems found.\n"), "{lines}");

    let [policies, theirs] = [0, 1].map(|at| production["nodes"][at]["policies"].as_str().unwrap().to_owned());
    assert!(policies == theirs && policies.len() > 12, "{policies} {theirs}");
    let rules = right.path("policies/everything.toml");
    // Until it goes on, it has the set that was in force before.
    left.signal("STOP");
    fs::write(
        &rules,
        format!("{EVERYTHING}[[rule]]\nid = \"none\"\neffect = \"deny\"\nwhen = {{ op = \"@money\" }}\n"),
    )
    .unwrap();
    wait_until("the difference to be named", || {
        let found = findings(&json(&asks).1);
        found.contains("decide by different policies") && found.contains("(left)") && found.contains("(right)")
    });
    left.signal("CONT");
    fs::write(&rules, EVERYTHING).unwrap();
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
        code == CLOSED && production["money"] == "closed" && waits
    });
    let (_, lines) = doctor(&asks, "table");
    assert!(lines.contains("production: money is CLOSED\n  frozen: restored for "), "{lines}");
    assert!(lines.contains("sluice unfreeze --environment production --restored --reason TEXT"), "{lines}");

    let left = left.start();
    wait_until("all to be well", || json(&asks).0 == 0);
    drop((left, right));
}

#[test]
fn the_doctor_says_what_is_wrong_with_a_redis_that_is_away_or_unfit() {
    let (upstream, mut redis) = (Upstream::start(), Redis::start());
    let asks = setup(&upstream, &redis.url(), "asks");
    let (code, said) = json(&asks);
    assert_eq!(code, UNKNOWN);
    assert!(findings(&said).contains("appendonly yes"), "{said}");
    assert_eq!(said["environments"][0]["money"], "unknown");
    redis.go();
    let (code, said) = json(&asks);
    assert_eq!(code, UNKNOWN);
    assert!(findings(&said).contains("does not answer"), "{said}");
}

/// The configuration of a running gate with the addresses that its probes and its console really have.
pub(super) fn config_of(gate: &Gate) -> PathBuf {
    let config = gate.path("doctor.toml");
    let mut text = listening(&fs::read_to_string(gate.path("sluice.toml")).unwrap(), "probes", gate.probes());
    if let Some(console) = gate.console() {
        text = listening(&text, "console", console);
    }
    fs::write(&config, text).unwrap();
    config
}

/// A configuration with another address of this listener.
fn listening(config: &str, section: &str, address: SocketAddr) -> String {
    let (before, rest) = config.split_once(&format!("[{section}]\n")).unwrap();
    let (at, _) = rest.match_indices("listen = ").next().unwrap();
    let end = rest[at..].find('\n').map_or(rest.len(), |length| at + length);
    format!("{before}[{section}]\n{}listen = \"{address}\"{}", &rest[..at], &rest[end..])
}

/// What it says of a running gate: its exit code, lines and JSON.
fn of_gate(config: &Path) -> (i32, String, Value) {
    let ask = |output: &str| {
        let asked = sluice(&["doctor", "--config", config.to_str().unwrap(), "--output", output]).output().unwrap();
        (asked.status.code().unwrap(), String::from_utf8(asked.stdout).unwrap())
    };
    let (code, lines) = ask("table");
    (code, lines, serde_json::from_str(&ask("json").1).unwrap())
}

/// Waits until it ends with this code and a line that contains this, and gives the JSON.
#[track_caller]
fn wait_for(config: &Path, code: i32, line: &str) -> Value {
    let mut said = Value::Null;
    let mut last = String::new();
    let watch = Watch::start();
    while watch.elapsed() < PATIENCE {
        let (ended, lines, json) = of_gate(config);
        let is_so = ended == code && lines.contains(line);
        assert!(ended == 0 || !lines.contains("No problems found"), "{lines}");
        (said, last) = (json, format!("{ended}: {lines}"));
        if is_so {
            return said;
        }
    }
    panic!("not {code} with `{line}`, but {last} {said}");
}

#[test]
fn the_doctor_looks_at_an_embedded_store_with_and_without_its_gate() {
    let upstream = Upstream::start();
    let setup = Setup::of(&upstream);
    let (code, said) = doctor(&setup, "table");
    assert!(code == UNKNOWN && said.contains("there is no store yet"), "{said}");
    assert!(!setup.path("sluice-data").exists());
    let gate = setup.start().ready();
    let said = wait_for(&config_of(&gate), 0, "No problems found.");
    assert_eq!(said["environments"].as_array().unwrap().len(), 1, "only what is served: {said}");
    assert_eq!(said["environments"][0]["money"], "open");
    for subject in [
        "gate",
        "reads",
        "clock",
        "money",
        "outcomes",
        "holds",
        "issuer",
        "store",
        "audit log",
        "reloads",
        "upstream",
        "disk",
    ] {
        let found = said["checks"].as_array().unwrap().iter().find(|check| check["check"] == subject);
        assert_eq!(found.unwrap_or_else(|| panic!("{subject}: {said}"))["state"], "ok", "{said}");
    }
    // The gate of the configuration cannot be asked: nothing is well.
    let (code, lines, said) = of_gate(&gate.path("sluice.toml"));
    assert!(code == UNKNOWN && lines.contains("NOT ALL IS KNOWN") && !lines.contains("No problems"), "{lines}");
    assert_eq!(said["environments"][0]["money"], "unknown");
    let setup = Gate::end(gate);
    let (code, said) = doctor(&setup, "table");
    assert!(code == CLOSED && said.contains("no gate serves from this store"), "{said}");
    assert!(said.contains("production: money is CLOSED"), "{said}");
}

#[test]
fn the_doctor_says_that_money_is_frozen_and_since_when() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start().ready();
    let config = config_of(&gate);
    let freeze = |scope: Value| {
        let body = json!({"environment": "production", "scope": scope, "reason": "a drill"});
        assert_eq!(ask(&gate, "POST", "freezes", &operator("ops-1"), Some(body)).status, 201);
    };
    freeze(json!({"operation": "createSwap"}));
    wait_for(&config, PROBLEMS, "production: freezes 1 operations are frozen");
    freeze(json!("all"));
    let said = wait_for(&config, CLOSED, "money is frozen");
    assert_eq!(said["environments"][0]["money"], "closed");
    assert!(findings(&said).contains("(since 20") && findings(&said).contains("sluice unfreeze"), "{said}");
}

#[test]
fn the_doctor_says_that_upstream_is_dead() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start().ready();
    let config = config_of(&gate);
    drop(upstream);
    wait_for(&config, PROBLEMS, "cannot be reached from this machine");
}

#[test]
fn the_doctor_says_that_an_outcome_is_unknown() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start().ready();
    let config = config_of(&gate);
    upstream.next(Act::silence().close());
    assert_eq!(swap().send(gate.production()).outcome(), "unknown");
    let said = wait_for(&config, PROBLEMS, "production: outcomes of 1 call is unknown, for ");
    assert!(findings(&said).contains("sluice requests list"), "{said}");
}

#[test]
fn the_doctor_says_that_the_audit_log_cannot_be_written() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).set_raw("audit", "file_bytes", "4096").start().ready();
    let config = config_of(&gate);
    fs::rename(gate.path("sluice-audit"), gate.path("away")).unwrap();
    assert!((0..100).any(|_| swap().send(gate.production()).status == 503));
    wait_for(&config, CLOSED, "audit log cannot be written");
    // The outcome of a call may have been kept in a folder of that name meanwhile.
    drop(fs::remove_dir_all(gate.path("sluice-audit")));
    fs::rename(gate.path("away"), gate.path("sluice-audit")).unwrap();
    wait_for(&config, 0, "No problems found.");
}

#[test]
fn the_doctor_says_that_witnesses_do_not_sign() {
    let upstream = Upstream::start();
    let scene = have_witnessed(Setup::of(&upstream), &[("unwitnessed", "\"close\""), ("unwitnessed_seconds", "2")]);
    let config = config_of(&scene.gate);
    wait_until("the gate to be well", || told(&swap().send(scene.gate.production())) == "200 - executed");
    wait_for(&config, 0, "2 of 2 must sign the journal; lines have waited ");
    scene.cut_off();
    wait_until("money to be closed", || told(&swap().send(scene.gate.production())).starts_with("503 "));
    wait_for(&config, CLOSED, "fewer than 2 of 2 have signed the journal for ");
}

#[test]
fn the_doctor_says_that_money_is_closed_because_the_store_may_have_lost_payments() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start().ready();
    assert_eq!(swap().send(gate.production()).status, 200);
    let setup = gate.end();
    fs::rename(setup.path("sluice-audit"), setup.path("journal")).unwrap();
    let gate = setup.start();
    assert_eq!(swap().send(gate.production()).status, 503);
    let setup = gate.end();
    fs::rename(setup.path("sluice-data"), setup.path("away")).unwrap();
    let gate = setup.start();
    let said = wait_for(&config_of(&gate), CLOSED, "the store may have lost payments");
    assert!(findings(&said).contains("start every gate that has an audit log"), "{said}");
}

#[test]
fn the_doctor_lists_refusals_that_the_contract_does_not_list() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start().ready();
    let config = config_of(&gate);
    wait_for(&config, 0, "No problems found.");
    assert!(!of_gate(&config).1.contains("ADVICE"));
    for _ in 0..2 {
        upstream.next(Act::json(422, r#"{"status":"error","error":{"code":"NO_SUCH_WALLET","message":"y"}}"#));
        assert_eq!(told(&swap().send(gate.production())), "422 NO_SUCH_WALLET not-executed");
    }
    let (code, lines, json) = of_gate(&config);
    let advice =
        "ADVICE: production: upstream refused `createSwap` with 422 `NO_SUCH_WALLET`, which the contract does not list";
    assert!(code == 0 && lines.contains(advice) && lines.contains("`doesNotProve`"), "{lines}");
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
