//! Refused before the body was read: who is still sending sees the answer.

use crate::support::shape::ID;
use crate::support::{Call, Caller, Gate, Setup, Upstream, post};

const MIB: usize = 1024 * 1024;

fn update() -> Call {
    post(format!("/v2/users/{ID}"))
}

/// Calls that are refused by their heads, each with its status.
fn refused(size: usize) -> Vec<(u16, Call)> {
    let body = vec![b' '; size];
    let mut calls = vec![
        (401, update().without("Authorization").json(&body)),
        (415, update().header("Content-Type", "text/plain").chunk(&body, 1000)),
        (404, post("/nowhere").json(&body)),
        (405, Call::new("PUT", "/v2/offramps").json(&body)),
        (400, Call::new("GET", "/v2/offramps").json(&body)),
        (401, update().without("Authorization").chunked(&body, 1000)),
    ];
    if size > MIB {
        calls.push((413, update().json(&body)));
    }
    calls
}

fn gate(upstream: &Upstream) -> Gate {
    Setup::of(upstream).timeout_ms("drain_ms", 400).start()
}

#[test]
fn a_body_that_is_under_way_meets_no_reset() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    for (status, call) in [refused(100_000), refused(2 * MIB)].concat() {
        let mut caller = Caller::connect(gate.production());
        caller.send(call.head_bytes());
        let answer = caller.answer();
        assert_eq!(answer.status, status, "{answer}");
        assert_eq!(answer.header("connection").as_deref(), Some("close"), "{answer}");
        let sent = caller.try_send(call.body_bytes());
        assert!(sent.is_ok(), "{sent:?} after {answer}");
        assert!(caller.rest().unwrap().is_empty());
    }
    assert!(upstream.seen().is_empty());
}

#[test]
fn the_sender_of_an_endless_body_can_still_read_the_answer() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    for (status, call) in refused(16 * MIB) {
        let mut caller = Caller::connect(gate.production());
        // It is cut off at some point; what was answered is there all the same.
        drop(caller.try_send(call.bytes()));
        assert_eq!(caller.answer().status, status);
    }
    assert!(upstream.seen().is_empty());
}

#[test]
fn who_never_sends_the_body_is_not_waited_for() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    for (status, call) in refused(100_000) {
        let mut caller = Caller::connect(gate.production());
        let answer = caller.send(call.header("Expect", "100-continue").head_bytes()).answer();
        assert_eq!(answer.status, status, "{answer}");
        assert!(answer.took.as_millis() < 400, "the answer waited for the body");
        assert!(caller.rest().unwrap().is_empty());
    }
}
