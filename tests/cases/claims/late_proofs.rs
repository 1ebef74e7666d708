//! A proof of execution wins, however late it comes and whatever was said before it.

use serde_json::{Value, json};

use super::told;
use super::violations::stricter;
use crate::cases::console::in_force::take_force;
use crate::cases::console::{ask, console, lift, operator};
use crate::cases::nodes::setup;
use crate::support::clock::{PATIENCE, Watch, wait_until};
use crate::support::shape::{examples, fresh_id, operation};
use crate::support::shared::Signal;
use crate::support::{Act, Answer, Between, Call, Gate, Redis, Setup, Upstream, post};

const IN_DOUBT: &str = "409 OUTCOME_UNKNOWN unknown";

fn swap(request_id: &str) -> Call {
    let mut body: Value = serde_json::from_slice(&examples(operation("createSwap"), "good-")[0].1).unwrap();
    body["requestId"] = json!(request_id);
    post("/v2/wallets/swaps").json(body.to_string())
}

fn resolve(gate: &Gate, request_id: &str, who: &str, outcome: &str) -> Answer {
    let body = json!({"outcome": outcome, "reason": "looked"});
    ask(gate, "POST", &format!("requests/production/{request_id}/resolve"), &operator(who), Some(body))
}

/// Says it again while it is too early, and returns the answer after that.
pub fn resolve_in_time(gate: &Gate, request_id: &str, who: &str, outcome: &str) -> Answer {
    let watch = Watch::start();
    loop {
        let answer = resolve(gate, request_id, who, outcome);
        if answer.code() != "TOO_EARLY" {
            return answer;
        }
        assert!(watch.elapsed() < PATIENCE, "{answer}");
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
}

fn show(gate: &Gate, request_id: &str) -> Value {
    ask(gate, "GET", &format!("requests/production/{request_id}"), &operator("ops-1"), None).json()
}

/// Repeats a call until it gets this answer.
fn until(gate: &Gate, request_id: &str, wanted: &str) {
    wait_until(wanted, || told(&swap(request_id).send(gate.production())) == wanted);
}

/// Two gates on one Redis, the first of which can lose it.
struct Pair {
    upstream: Upstream,
    redis: Redis,
    between: Between,
    left: Gate,
    right: Gate,
}

/// A port where nobody listens.
fn nowhere() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Pair {
    fn start() -> Pair {
        let (upstream, redis) = (Upstream::start(), Redis::start_kept());
        let between = Between::to(redis.port());
        let left = console(setup(&upstream, &between.url(), "left")).start().ready();
        let right = console(setup(&upstream, &redis.url(), "right")).start().ready();
        Pair { upstream, redis, between, left, right }
    }

    /// The left gate sends a call that stays in doubt, loses its store, and then hears that the call was executed.
    fn keep_a_proof(&self, request_id: &str) {
        let answer = Signal::new();
        self.upstream.next(Act::done(201).after(&answer));
        assert_eq!(told(&swap(request_id).send(self.left.production())), "504 OUTCOME_UNKNOWN unknown");
        self.between.lead(nowhere());
        answer.give();
        let folder = self.left.path("sluice-audit").join("unsettled");
        // One that is still being written is lost with its gate.
        let is_whole = |file: std::fs::DirEntry| file.path().extension().is_some_and(|ending| ending == "json");
        let holds_one = || std::fs::read_dir(&folder).is_ok_and(|files| files.flatten().any(is_whole));
        wait_until("the proof to be kept on the gate's disk", holds_one);
    }
}

#[test]
fn nobody_says_absent_of_a_call_whose_gate_may_hold_the_proof() {
    let pair = Pair::start();
    pair.keep_a_proof("proof-1");
    for who in ["ops-1", "ops-2"] {
        let answer = resolve_in_time(&pair.right, "proof-1", who, "absent");
        assert_eq!((answer.status, answer.code().as_str()), (409, "SENDER_AWAY"), "{answer}");
        assert_eq!(answer.json()["error"]["details"]["node"], "left");
    }
    assert_eq!(told(&swap("proof-1").send(pair.right.production())), IN_DOUBT);
    // The gate returns, and tells what it knows.
    pair.between.lead(pair.redis.port());
    until(&pair.right, "proof-1", "201 - executed again");
    let told = show(&pair.right, "proof-1");
    assert_eq!((&told["state"], &told["executions"]), (&json!("executed"), &json!("at-most-once")));
    assert_eq!(pair.upstream.seen().len(), 1);
}

#[test]
fn a_gate_that_was_declared_gone_still_proves_what_it_knows() {
    let pair = Pair::start();
    pair.keep_a_proof("proof-2");
    let left = pair.left.kill();
    let sender = show(&pair.right, "proof-2")["attempts"][0].clone();
    let gone = |who: &str| {
        let body = json!({
            "environment": "production", "node": sender["node"], "journal": sender["journal"], "reason": "burnt",
        });
        ask(&pair.right, "POST", "nodes/gone", &operator(who), Some(body))
    };
    let mut first = gone("ops-1");
    assert_eq!((first.status, first.code().as_str()), (409, "GATE_HEARD"), "{first}");
    wait_until("the gate to be unheard for a while", || {
        first = gone("ops-1");
        first.status != 409
    });
    assert_eq!((first.status, first.json()), (202, json!({"gone": false, "missing": 1})));
    assert_eq!(gone("ops-1").code(), "TWO_PEOPLE_NEEDED");
    assert_eq!(gone("ops-2").json(), json!({"gone": true, "missing": 0}));
    assert_eq!(resolve_in_time(&pair.right, "proof-2", "ops-1", "absent").status, 202);
    assert_eq!(resolve(&pair.right, "proof-2", "ops-2", "absent").status, 200);
    assert_eq!(show(&pair.right, "proof-2")["state"], "absent");
    assert_eq!(told(&swap("proof-2").send(pair.right.production())), "200 - executed");
    // It was wrong: the gate returns after all.
    let left = {
        pair.between.lead(pair.redis.port());
        Gate::spawn(left)
    };
    wait_until("both payments to be known", || show(&pair.right, "proof-2")["executions"] == "twice");
    let told = show(&pair.right, "proof-2");
    let ends: Vec<&Value> = told["attempts"].as_array().unwrap().iter().map(|attempt| &attempt["end"]).collect();
    assert_eq!(ends, ["executed", "executed"]);
    assert_eq!(super::told(&swap("proof-2").send(pair.right.production())), "200 - executed again");
    assert!(!left.wait_end().success(), "a gate that is gone does not go on");
    assert_eq!(pair.upstream.seen().len(), 2);
    left.log.wait("the end to be told", |lines| {
        lines.iter().any(|line| line["message"].as_str().is_some_and(|text| text.contains("gone"))).then_some(())
    });
}

#[test]
fn what_is_given_up_is_never_sent_again() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    upstream.next(Act::silence().close());
    assert_eq!(told(&swap("given-up").send(gate.production())), "502 OUTCOME_UNKNOWN unknown");
    let first = resolve_in_time(&gate, "given-up", "ops-1", "abandoned");
    assert_eq!((first.status, first.json()), (202, json!({"state": "unknown", "missing": 1})));
    assert_eq!(resolve(&gate, "given-up", "ops-1", "abandoned").code(), "TWO_PEOPLE_NEEDED");
    let second = resolve(&gate, "given-up", "ops-2", "abandoned");
    assert_eq!((second.status, second.json()), (200, json!({"state": "abandoned", "missing": 0})));
    for _ in 0..2 {
        assert_eq!(told(&swap("given-up").send(gate.production())), "409 OUTCOME_ABANDONED unknown");
    }
    let shown = show(&gate, "given-up");
    assert_eq!((&shown["state"], &shown["attempts"][0]["end"]), (&json!("abandoned"), &json!("abandoned")));
    assert_eq!(shown["attempts"][0]["saidBy"], json!(["people/ops-1", "people/ops-2"]));
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn an_absent_call_keeps_its_requestid_and_its_history() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    upstream.next(Act::silence().close());
    assert_eq!(told(&swap("again-1").send(gate.production())), "502 OUTCOME_UNKNOWN unknown");
    assert_eq!(resolve_in_time(&gate, "again-1", "ops-1", "absent").status, 202);
    assert_eq!(resolve(&gate, "again-1", "ops-2", "absent").status, 200);
    assert_eq!(show(&gate, "again-1")["state"], "absent");
    let mut other: Value = serde_json::from_slice(&swap("again-1").body_bytes()).unwrap();
    other["source"]["amount"] = json!("1");
    let refused = post("/v2/wallets/swaps").json(other.to_string()).send(gate.production());
    assert_eq!(told(&refused), "422 REQUEST_ID_REUSED unknown", "{refused}");
    // It survives a restart, and is sent again.
    let gate = gate.kill().start();
    upstream.next(Act::silence().close());
    assert_eq!(told(&swap("again-1").send(gate.production())), "502 OUTCOME_UNKNOWN unknown");
    let shown = show(&gate, "again-1");
    let ends: Vec<&Value> = shown["attempts"].as_array().unwrap().iter().map(|attempt| &attempt["end"]).collect();
    assert_eq!(ends, ["absent", "unknown"]);
    assert_eq!(upstream.seen().len(), 2);
}

/// Rules by which every swap waits for a person, or is denied.
const HOLDS: &str = r#"
[[rule]]
id = "held"
effect = "hold"
approval = "one"
when = { op = "createSwap" }
[approval.one]
of = "ops"
n = 1
expires = "8h"
[group.ops]
members = ["people:ops-1", "people:ops-2"]
"#;
const DENIES: &str = "[[rule]]\nid = \"denied\"\neffect = \"deny\"\nwhen = { op = \"createSwap\" }\n";

#[test]
fn what_people_called_absent_is_never_told_as_certainly_not_executed() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).set("production", "credential", "upstream-s-own-token").start();
    let (id, url) = (fresh_id(), upstream.url());
    upstream.next(Act::silence().close());
    assert_eq!(told(&swap(&id).send(gate.production())), "502 OUTCOME_UNKNOWN unknown");
    assert_eq!(resolve_in_time(&gate, &id, "ops-1", "absent").status, 202);
    assert_eq!(resolve(&gate, &id, "ops-2", "absent").status, 200);
    let assert_unproven = |gate: &Gate, wanted: &str| {
        let answer = swap(&id).send(gate.production());
        assert_eq!(told(&answer), wanted, "{answer}");
        assert!(answer.text().contains("This attempt sent nothing. Nothing proves"), "{answer}");
    };

    let body = json!({"environment": "production", "scope": "all", "reason": "a drill"});
    assert_eq!(ask(&gate, "POST", "freezes", &operator("ops-1"), Some(body)).status, 201);
    assert_unproven(&gate, "503 FROZEN unknown");
    assert_eq!(lift(&gate, json!("all")).status, 200);

    let gate = gate.end().set("production", "upstream", &format!("http://127.0.0.1:{}", nowhere())).start();
    assert_unproven(&gate, "502 UPSTREAM_UNAVAILABLE unknown");
    assert_eq!(show(&gate, &id)["state"], "absent");

    let setup = gate.end().set("production", "upstream", &url);
    let gate = setup.file("policies/everything.toml", DENIES).start();
    assert_unproven(&gate, "403 POLICY_DENIED unknown");

    let setup = gate.end();
    let schemas = setup.path("schemas");
    stricter(&schemas);
    let gate = setup.set("catalog", "schemas", schemas.to_str().unwrap()).start();
    take_force(&gate);
    assert_unproven(&gate, "400 INVALID_REQUEST unknown");

    let setup = gate.end().set("catalog", "schemas", concat!(env!("CARGO_MANIFEST_DIR"), "/schemas"));
    let gate = setup.file("policies/everything.toml", HOLDS).start();
    take_force(&gate);
    let held = swap(&id).send(gate.production());
    assert_eq!(told(&held), "202 - held", "{held}");
    let cancel = format!("/sluice/v1/holds/{}/cancel", held.json()["hold"]["id"].as_str().unwrap());
    assert_eq!(post(cancel).send(gate.production()).status, 200);
    assert_unproven(&gate, "403 APPROVAL_CANCELLED unknown");
    assert_eq!(upstream.seen().len(), 1);
}
