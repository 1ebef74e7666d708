//! Rates through the real gate: who is limited, when, and what is told of it.

mod concurrent;
mod keys;
mod quotas;
mod shared;
mod told;

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;

use crate::support::clock::{PATIENCE, Watch};
use crate::support::shape::{operation, valid};
use crate::support::token::{claims, signed};
use crate::support::{Answer, Call, Setup};

/// A setup with these policies; tokens may name roles.
pub(super) fn with(setup: Setup, policies: &str) -> Setup {
    setup.file("policies/rates.toml", policies).set("issuer.main", "roles", "roles")
}

/// One rate, with these lines.
pub(super) fn rate(id: &str, lines: &str) -> String {
    let ops = if lines.contains("ops = ") { "" } else { "ops = [\"*\"]\n" };
    format!("[[rate]]\nid = \"{id}\"\n{ops}{lines}\n")
}

fn token(subject: &str, roles: &[&str]) -> String {
    let mut claims = claims();
    claims["sub"] = json!(subject);
    claims["roles"] = json!(roles);
    signed(&claims)
}

/// A valid call of this operation by this caller.
fn call(id: &str, token: &str) -> Call {
    by(valid(operation(id)), token)
}

fn by(call: Call, token: &str) -> Call {
    call.without("Authorization").header("Authorization", format!("Bearer {token}"))
}

fn list(subject: &str) -> Call {
    call("listUsers", &token(subject, &[]))
}

/// How many of so many calls pass; every other one is limited.
fn passed(address: SocketAddr, call: &Call, times: usize) -> usize {
    let answers = (0..times).map(|_| call.send(address));
    answers.filter(|answer| !is_limited(answer)).count()
}

fn is_limited(answer: &Answer) -> bool {
    let is_limited = answer.code() == "RATE_LIMITED";
    assert_eq!(answer.status == 429, is_limited, "{answer}");
    is_limited
}

/// The parts of a list of structured fields: the name, and a parameter of it.
fn parameter(answer: &Answer, header: &str, id: &str, name: &str) -> Option<u64> {
    let value = answer.header(header)?;
    let item = value.split(", ").find_map(|item| item.strip_prefix(&format!("\"{id}\"")))?;
    item.split(';').find_map(|part| part.strip_prefix(&format!("{name}="))).map(|value| value.parse().unwrap())
}

/// Waits for what no thread of this process can tell of.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let watch = Watch::start();
    while !is_so() {
        assert!(watch.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}
