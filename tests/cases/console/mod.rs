//! The console: who may do what, what freezing does, and how calls in doubt are resolved.

mod access;
mod activation;
mod cannot_run;
mod commands;
mod crowds;
mod emergency;
mod entries;
mod exports;
mod freezing;
mod gates;
mod history;
mod hostile;
pub(super) mod in_force;
mod many_freezes;
mod many_windows;
mod moved;
mod payments;
pub(super) mod policies;
mod provider;
mod resolving;
mod restored;
mod sessions;
mod sessions_away;
mod transfers;
mod unrecorded;

use serde_json::{Value, json};

use crate::support::clock::{PATIENCE, Watch};
use crate::support::shape::{examples, operation};
use crate::support::token::{ISSUER, SECRET, claims, signed};
use crate::support::{Act, Answer, Call, Gate, Setup, Upstream, post};

/// What tokens of people say in `iss`.
pub(super) const PEOPLE: &str = "https://people.test";

/// A gate with a console, whose issuer is one of people alone.
pub(super) fn console(setup: Setup) -> Setup {
    setup
        .set("issuer.people", "issuer", PEOPLE)
        .set_raw("issuer.people", "audience", r#"["sluice"]"#)
        .set_raw("issuer.people", "environments", "[]")
        .set_raw("issuer.people", "algorithms", r#"["HS256"]"#)
        .set("issuer.people", "shared_secret", SECRET)
        .set("issuer.people", "roles", "roles")
        .set("console", "listen", "127.0.0.1:0")
        .set("console", "issuer", "people")
        .set_raw("console", "hosts", r#"["gate.example"]"#)
        .short_quiet_time()
        .set_raw("reconcile", "first_look_ms", "100")
}

fn token_of(issuer: &str, subject: &str, roles: &[&str]) -> String {
    let mut claims = claims();
    claims["iss"] = json!(issuer);
    claims["sub"] = json!(subject);
    claims["roles"] = json!(roles);
    signed(&claims)
}

pub(super) fn operator(subject: &str) -> String {
    token_of(PEOPLE, subject, &["operator"])
}

/// An act at the console, with this token.
fn act(method: &str, path: &str, token: &str) -> Call {
    let call = Call::new(method, format!("/sluice/v1/{path}")).without("Authorization");
    call.header("Authorization", format!("Bearer {token}"))
}

pub(super) fn ask(gate: &Gate, method: &str, path: &str, token: &str, body: Option<Value>) -> Answer {
    let call = act(method, path, token);
    let call = match body {
        Some(body) => call.json(body.to_string()),
        None => call,
    };
    call.send(gate.console().expect("a console"))
}

pub(super) fn freeze(gate: &Gate, scope: Value) -> Answer {
    let body = json!({"environment": "production", "scope": scope, "reason": "a drill"});
    ask(gate, "POST", "freezes", &operator("ops-1"), Some(body))
}

/// One person says that a freeze is to be lifted.
fn say_lift(gate: &Gate, scope: Value, who: &str) -> Answer {
    let body = json!({"environment": "production", "scope": scope, "reason": "seen it"});
    ask(gate, "POST", "freezes/lift", &operator(who), Some(body))
}

/// Two people say so; gives what the second is told, or the first where nothing is frozen.
pub(super) fn lift(gate: &Gate, scope: Value) -> Answer {
    let first = say_lift(gate, scope.clone(), "ops-1");
    match first.status {
        202 => say_lift(gate, scope, "ops-2"),
        _ => first,
    }
}

/// The body of a good call, under this requestId.
fn body(id: &str, request_id: &str) -> Value {
    let mut body: Value = serde_json::from_slice(&examples(operation(id), "good-")[0].1).unwrap();
    body["requestId"] = json!(request_id);
    body
}

fn swap(request_id: &str) -> Call {
    post("/v2/wallets/swaps").json(body("createSwap", request_id).to_string())
}

/// Status and code of an answer.
fn told(answer: &Answer) -> (u16, String) {
    (answer.status, answer.code())
}

/// A swap that upstream received, and of which nobody knows what became.
fn in_doubt(gate: &Gate, upstream: &Upstream, request_id: &str) {
    upstream.next(Act::silence().close());
    let answer = swap(request_id).send(gate.production());
    assert_eq!((answer.status, answer.outcome()), (502, "unknown".to_owned()), "{answer}");
}

/// Waits until the audit chain holds an Entry of which all this is so, and gives it.
pub(super) fn audited(gate: &Gate, members: &[(&str, Value)]) -> Value {
    let watch = Watch::start();
    loop {
        let mut lines = Vec::new();
        for entry in std::fs::read_dir(gate.path("sluice-audit")).unwrap() {
            let path = entry.unwrap().path();
            let text = if path.is_file() { std::fs::read_to_string(path).unwrap_or_default() } else { String::new() };
            lines.extend(text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()));
        }
        let is_so = |entry: &Value| members.iter().all(|(pointer, value)| entry.pointer(pointer) == Some(value));
        let found = lines.iter().filter_map(|line| line.get("entry")).find(|entry| is_so(entry));
        if let Some(found) = found {
            return found.clone();
        }
        assert!(watch.elapsed() < PATIENCE, "no Entry has {members:?}: {lines:?}");
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
}
