//! The wire of a money call: connections, deadlines, and what is heard after them.

mod ahead;
mod cut;
mod giving_up;
mod heads;
mod late;

use serde_json::json;

use crate::support::shape::{examples, operation};
use crate::support::{Answer, Call, Gate, Setup, Upstream, post};

/// `timeouts.answer_ms` of these tests.
const ANSWER_MS: u64 = 400;

fn setup(upstream: &Upstream) -> Setup {
    Setup::of(upstream).timeout_ms("answer_ms", ANSWER_MS)
}

/// A swap with this requestId.
fn swap(request_id: &str) -> Call {
    let (_, body) = &examples(operation("createSwap"), "good-")[0];
    let mut body: serde_json::Value = serde_json::from_slice(body).unwrap();
    body["requestId"] = json!(request_id);
    post("/v2/wallets/swaps").json(body.to_string())
}

/// What a call is told: its status, code and outcome.
fn told(answer: &Answer) -> (u16, String, String) {
    (answer.status, answer.code(), answer.outcome())
}

/// Repeats a swap until its outcome is no longer unknown.
fn until_known(gate: &Gate, request_id: &str) -> Answer {
    let mut last = None;
    crate::support::clock::wait_until("a known outcome", || {
        let answer = swap(request_id).send(gate.production());
        let is_known = answer.outcome() != "unknown";
        last = Some(answer);
        is_known
    });
    last.unwrap()
}
