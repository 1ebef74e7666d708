//! Calls that wait for people: how they wait, who judges them, and that they are sent once or never.

mod attacks;
mod awaited;
mod believed_sets;
mod callers;
mod comments;
mod entries;
mod judging;
mod key_recovery;
mod known_elsewhere;
mod look_alikes;
mod midnight;
mod newcomers;
mod ordered;
mod path;
mod persons;
mod proved;
mod proved_times;
mod queue;
mod races;
mod releasing;
mod replayed;
mod restored;
mod room;
mod sign_acts;
mod sign_command;
mod signed;
mod signed_acts;
mod stand_ins;
mod terminal;
mod watching;

use std::net::SocketAddr;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::clock::wait_until;
use crate::support::gate::sluice;
use crate::support::token::{SECRET, claims, signed};
use crate::support::{Act, Answer, Call, Gate, Redis, Setup, Upstream, post};

/// What tokens of people say in `iss`.
const PEOPLE: &str = "https://people.test";

/// Small swaps go; larger ones wait for two of ops and one of finance.
pub(super) const RULES: &str = r#"
[[rule]]
id = "reads"
effect = "allow"
when = { op = "@read" }
[[rule]]
id = "small"
effect = "allow"
when = { op = "createSwap", amount = "(0, 100] USD" }
[[rule]]
id = "larger"
effect = "hold"
approval = "dual"
when = { op = "createSwap", amount = "(100, inf) USD" }
[[rule]]
id = "others"
effect = "hold"
approval = "one"
when = { op = ["updateUser", "acceptOffer"] }
[approval.dual]
all = [{ of = "ops", n = 2 }, { of = "finance", n = 1 }]
expires = "8h"
[approval.one]
of = "ops"
n = 1
expires = "8h"
[group.ops]
members = ["people:ops-1", "people:ops-2", "people:ops-3", "people:test"]
[group.finance]
members = ["people:finance-1", "people:finance-2", "people:ops-3"]
"#;

/// A gate with a console and a credential of its own, by these rules.
pub(super) fn gate(upstream: &Upstream, rules: &str) -> Setup {
    upstream.always(Act::done(201));
    Setup::of(upstream)
        .file("policies/everything.toml", rules)
        .set("production", "credential", "upstream-s-own-token")
        .set("issuer.people", "issuer", PEOPLE)
        .set_raw("issuer.people", "audience", r#"["sluice"]"#)
        .set_raw("issuer.people", "environments", "[]")
        .set_raw("issuer.people", "algorithms", r#"["HS256"]"#)
        .set("issuer.people", "shared_secret", SECRET)
        .set("issuer.people", "roles", "roles")
        .set("console", "listen", "127.0.0.1:0")
        .set("console", "issuer", "people")
        .set_raw("console", "hosts", r#"["gate.example"]"#)
        .timeout_ms("answer_ms", 500)
        .set_raw("reconcile", "first_look_ms", "100")
}

/// One of the gates on a Redis; a busy machine may take its time.
pub(super) fn on_redis(setup: Setup, redis: &Redis, node: &str) -> Setup {
    let setup = setup.set("store", "kind", "redis").set("store", "node", node);
    setup.set("redis", "url", &redis.url()).set_raw("redis", "timeout_ms", "10000")
}

/// The token of a person with these roles.
pub(super) fn person(subject: &str, roles: &[&str]) -> String {
    let mut claims = claims();
    claims["iss"] = json!(PEOPLE);
    claims["sub"] = json!(subject);
    claims["roles"] = json!(roles);
    signed(&claims)
}

fn approver(subject: &str) -> String {
    person(subject, &["approver"])
}

/// Its members stand in the order in which they are sent.
fn body(request_id: &str, amount: &str) -> String {
    format!(
        r#"{{"destination":{{"chain":"POLYGON","currency":"usdc","walletAddress":"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}},"requestId":"{request_id}","source":{{"amount":"{amount}","chain":"POLYGON","currency":"usdt"}}}}"#
    )
}

pub(super) fn swap(request_id: &str, amount: &str) -> Call {
    post("/v2/wallets/swaps").json(body(request_id, amount))
}

/// A larger swap that waits; the hold as its caller is told of it.
pub(super) fn held(gate: &Gate, request_id: &str) -> Value {
    let answer = swap(request_id, "500").send_when_met(gate.production());
    assert_eq!((answer.status, answer.outcome()), (202, "held".to_owned()), "{answer}");
    answer.json()["hold"].clone()
}

pub(super) fn text<'v>(hold: &'v Value, name: &str) -> &'v str {
    hold[name].as_str().unwrap_or_else(|| panic!("no `{name}` in {hold}"))
}

fn ask_at(console: SocketAddr, method: &str, path: &str, token: &str, body: Option<&Value>) -> Answer {
    let call = Call::new(method, format!("/sluice/v1/{path}")).without("Authorization");
    let call = call.header("Authorization", format!("Bearer {token}"));
    let call = match body {
        Some(body) => call.json(body.to_string()),
        None => call,
    };
    call.send(console)
}

pub(super) fn ask(gate: &Gate, method: &str, path: &str, token: &str, body: Option<Value>) -> Answer {
    ask_at(gate.console().expect("a console"), method, path, token, body.as_ref())
}

/// Returns the members of a vote: the bytes that the hold tells and, where it approves, the reasons.
fn named(hold: &Value, act: &str) -> Value {
    let mut body = json!({ "fingerprint": hold["fingerprint"] });
    match act {
        "approve" => body["causes"] = json!(causes(hold)),
        "reject" => body["reason"] = json!("a wrong account"),
        _ => {}
    }
    body
}

/// The digest of the reasons that a hold tells.
fn causes(hold: &Value) -> String {
    let mut digest = Sha256::new();
    for reason in hold["reasons"].as_array().unwrap() {
        for text in [&reason["rule"], &reason["text"]].map(|text| text.as_str().unwrap_or_default()) {
            digest.update((text.len() as u64).to_be_bytes());
            digest.update(text);
        }
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sends the vote of a person on what the hold tells.
pub(super) fn say(gate: &Gate, act: &str, hold: &Value, who: &str) -> Answer {
    let body = named(hold, act);
    ask(gate, "POST", &format!("holds/{}/{act}", text(hold, "id")), &approver(who), Some(body))
}

/// Everyone who is needed agrees.
pub(super) fn all_agree(gate: &Gate, hold: &Value) {
    for who in ["ops-1", "finance-1", "ops-2"] {
        let answer = say(gate, "approve", hold, who);
        assert_eq!(answer.status, 200, "{who}: {answer}");
    }
}

/// A hold as it is now.
pub(super) fn shown(gate: &Gate, hold: &Value) -> Value {
    ask(gate, "GET", &format!("holds/{}", text(hold, "id")), &approver("ops-1"), None).json()
}

pub(super) fn state(gate: &Gate, hold: &Value) -> String {
    text(&shown(gate, hold), "state").to_owned()
}

/// Repeats a call until it is answered otherwise than that it waits or is being sent.
pub(super) fn answered(gate: &Gate, call: &Call) -> Answer {
    let mut last = call.send(gate.production());
    wait_until("a call that waited to be answered", || {
        last = call.send(gate.production());
        last.status != 202 && last.code() != "REQUEST_IN_PROGRESS"
    });
    last
}

/// `sluice` as a person, at this console: exit code, and what it says.
fn command(gate: &Gate, words: &[&str], who: &str) -> (i32, String, String) {
    let url = format!("http://{}", gate.console().unwrap());
    let mut command = sluice(&[words, &["--console", &url]].concat());
    let output = command.env("SLUICE_TOKEN", approver(who)).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// How often upstream received a swap.
pub(super) fn sent(upstream: &Upstream) -> usize {
    upstream.seen().iter().filter(|seen| seen.line() == "POST /v2/wallets/swaps").count()
}
