//! Gates that cannot run the set in force, and texts of it that the store lost.

use serde_json::json;

use super::in_force::{TIGHT, candidate, of_one, pay, take_force, version, with, write};
use crate::cases::belief::write_contract;
use crate::cases::claims::told;
use crate::cases::holds;
use crate::cases::nodes::{all_have_it, setup};
use crate::support::clock::wait_until;
use crate::support::gate::EVERYTHING;
use crate::support::{Gate, Redis, Setup, Upstream, get};

/// Rules that name this issuer run at no gate without it.
fn with_second_issuer(setup: Setup) -> Setup {
    setup
        .set("issuer.second", "issuer", "https://second.test")
        .set_raw("issuer.second", "audience", r#"["sluice"]"#)
        .set_raw("issuer.second", "environments", r#"["production"]"#)
        .set_raw("issuer.second", "algorithms", r#"["HS256"]"#)
        .set("issuer.second", "shared_secret", "another-secret-of-the-second-issuer-32")
}

#[test]
fn a_gate_that_cannot_run_the_set_serves_reads_and_says_so() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let left = with(setup(&upstream, &redis.url(), "left"), EVERYTHING).start();
    let right = with(setup(&upstream, &redis.url(), "right"), EVERYTHING).start();
    assert_eq!(pay(&left, "r-1", "20").status, 200);
    // The rules of one gate name an issuer that the other does not know.
    let rules = "[[rule]]\nid = \"second\"\neffect = \"deny\"\nwhen = { op = \"createSwap\", issuer = \"second\" }\n";
    let rules = format!("{EVERYTHING}{rules}");
    let left = with_second_issuer(left.end()).file("policies/everything.toml", &rules).start();
    assert_eq!(pay(&left, "r-2", "20").status, 200);
    let refusal = "503 POLICIES_UNAVAILABLE unknown";
    wait_until("the other gate sends nothing", || told(&pay(&right, "r-3", "20")) == refusal);
    assert_eq!(get("/v2/users").send(right.production()).status, 200);
    assert_eq!(pay(&right, "r-2", "20").header("sluice-replayed").as_deref(), Some("true"));
    let probe = right.probe("/readyz/money");
    assert_eq!(
        (probe.status, probe.json()["reasons"][0]["reason"].clone()),
        (503, json!("policies-not-run")),
        "{probe}"
    );
    assert_eq!((right.metric("sluice_policy_not_run"), right.probe("/readyz").status), (1, 200));
}

/// By the rules that it still has, it would block what people agreed to by those in force.
#[test]
fn a_gate_that_cannot_run_the_set_decides_on_no_hold() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let rules = holds::RULES.replace("approval = \"dual\"", "approval = \"one\"");
    let before = rules.replace("(100, inf)", "(100, 400]");
    let start = |node: &str| of_one(&upstream, &redis, node).file("policies/everything.toml", &before).start();
    let [left, right] = ["left", "right"].map(start);
    let second = "[[rule]]\nid = \"second\"\neffect = \"deny\"\nwhen = { op = \"createSwap\", issuer = \"second\" }\n";
    let now = format!("{rules}{second}");
    let left = with_second_issuer(left.end()).file("policies/everything.toml", &now).start();
    wait_until("its set is in force", || holds::swap("r-1", "500").send(left.production()).status == 202);
    let hold = holds::held(&left, "r-1");
    wait_until("the other gate cannot run the set", || right.metric("sluice_policy_not_run") == 1);
    // Nothing is released meanwhile.
    assert!(super::freeze(&left, json!("all")).status < 300);
    assert_eq!(holds::say(&left, "approve", &hold, "ops-1").status, 200);
    let looks = || right.metric("sluice_store_seconds_count{call=\"due\"}");
    let before = looks();
    wait_until("the other gate to look at what is approved", || looks() >= before + 30);
    assert_eq!((holds::state(&right, &hold), holds::sent(&upstream)), ("approved".to_owned(), 0));
    assert_eq!(super::lift(&left, json!("all")).json()["changed"], true);
    assert_eq!(holds::answered(&left, &holds::swap("r-1", "500")).status, 201);
}

/// What two people agreed to is not for one of them to take back, by the folder of a gate that cannot run it.
#[test]
fn a_gate_that_cannot_run_the_set_proposes_nothing() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let left = with_second_issuer(with(setup(&upstream, &redis.url(), "left"), EVERYTHING));
    let schemas = left.path("schemas");
    write_contract(&schemas, |_| {});
    let left = left.set("catalog", "schemas", schemas.to_str().unwrap()).start();
    let right = with(setup(&upstream, &redis.url(), "right"), EVERYTHING).start();
    assert_eq!(pay(&left, "r-1", "20").status, 200);
    write_contract(&schemas, |document| {
        document["x-sluice"] =
            json!({"notExecuted": {"proves": [{"status": 409, "codes": ["BUSY"]}], "doesNotProve": []}});
    });
    let rules = "[[rule]]\nid = \"second\"\neffect = \"deny\"\nwhen = { op = \"createSwap\", issuer = \"second\" }\n";
    write(&left, &format!("{EVERYTHING}{rules}"));
    left.signal("HUP");
    take_force(&left);
    let agreed = version(&left);
    wait_until("the other gate cannot run the set", || right.metric("sluice_policy_not_run") == 1);
    // One person changes its folder. Its contract is the one of before.
    let rules =
        "[[rule]]\nid = \"large\"\neffect = \"deny\"\nwhen = { op = \"createSwap\", amount = \"(900, inf) USD\" }\n";
    write(&right, &format!("{EVERYTHING}{rules}"));
    let reads = || right.metric("sluice_reloads_total{outcome=\"unchanged\"}");
    let (looks, before) = (|| right.metric("sluice_store_seconds_count{call=\"read\"}"), reads());
    right.signal("HUP");
    wait_until("the folder to be read", || reads() > before);
    let before = looks();
    wait_until("the gate to look at the store again", || looks() >= before + 10);
    assert_eq!(
        (version(&left), told(&pay(&right, "r-2", "20"))),
        (agreed.clone(), "503 POLICIES_UNAVAILABLE unknown".to_owned())
    );
    assert_eq!(pay(&left, "r-3", "20").status, 200);
    // Once it can run the set, its folder proposes like any other: the contract waits for two people.
    let right = with_second_issuer(right.end()).start();
    let waiting = candidate(&right);
    assert_eq!((version(&left), version(&right)), (agreed.clone(), agreed.clone()));
    assert_ne!(waiting, agreed);
}

fn texts(redis: &Redis) -> Vec<String> {
    ["policy-set", "contract"].map(|kind| redis.ask(&["KEYS", &format!("sluice:{{production}}:r:{kind}:*")])).concat()
}

fn runs(gate: &Gate) -> bool {
    gate.metric("sluice_policy_not_run") == 0
}

/// The journal has the texts, so that it tells that somebody removed them.
#[test]
fn texts_that_somebody_removed_come_back_from_the_journal() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let left = with(setup(&upstream, &redis.url(), "left"), EVERYTHING).start();
    assert_eq!(pay(&left, "r-1", "20").status, 200);
    all_have_it(&redis);
    let removed = texts(&redis);
    assert_eq!(removed.len(), 2, "{removed:?}");
    removed.iter().for_each(|key| drop(redis.ask(&["DEL", key])));
    wait_until("the texts to be there again", || texts(&redis) == removed);
    wait_until("money to be closed", || left.probe("/readyz/money").text().contains("restored"));
    let right = with(setup(&upstream, &redis.url(), "right"), TIGHT).start();
    wait_until("the new gate to run the set", || version(&right) == version(&left));
    assert!(runs(&left) && runs(&right));
}
