//! A claim speaks to its owner alone: nobody else learns what became of it, nor whether anything did.

use serde_json::Value;

use super::{assert_again, lasting, pay, swap, told};
use crate::support::shape::swap_record;
use crate::support::shared::Signal;
use crate::support::token::{ISSUER, SECRET, claims, signed};
use crate::support::upstream::answer;
use crate::support::{Act, Answer, Call, Caller, Gate, Setup, Upstream};

const SECOND: &str = "https://second.test";
const SECRET_OF_THE_FIRST: &str = "known to its owner";

fn gate(upstream: &Upstream) -> Gate {
    Setup::of(upstream)
        .timeout_ms("answer_ms", 400)
        .set("issuer.second", "issuer", SECOND)
        .set_raw("issuer.second", "audience", r#"["sluice"]"#)
        .set_raw("issuer.second", "environments", r#"["production", "sandbox"]"#)
        .set_raw("issuer.second", "algorithms", r#"["HS256"]"#)
        .set("issuer.second", "shared_secret", SECRET)
        .start()
}

/// The call, with a token of this issuer for this subject.
fn by(issuer: &str, subject: &str, call: &Call) -> Call {
    let mut said: Value = claims();
    said["iss"] = issuer.into();
    said["sub"] = subject.into();
    call.clone().without("Authorization").header("Authorization", format!("Bearer {}", signed(&said)))
}

/// What strangers hear of a call, whose owner is `test` of the first issuer; all hear the same.
fn heard_by_strangers(gate: &Gate, call: &Call) -> (Vec<(String, String)>, String) {
    let strangers = [by(ISSUER, "other", call), by(SECOND, "test", call), by(ISSUER, "Test", call)];
    let mut heard = strangers.into_iter().map(|stranger| {
        let answer: Answer = stranger.header("Prefer", "wait=60").send(gate.production());
        assert_eq!(told(&answer), "422 REQUEST_ID_REUSED unknown", "{answer}");
        assert!(!answer.to_string().contains(SECRET_OF_THE_FIRST), "{answer}");
        (lasting(&answer.head), answer.text())
    });
    let first = heard.next().unwrap();
    heard.for_each(|other| assert_eq!(other, first));
    first
}

#[test]
fn strangers_hear_the_same_whatever_became_of_it() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let mut heard = Vec::new();

    let done = swap();
    let headers = [("Content-Type", "application/json"), ("Location", "/v2/known to its owner")];
    let body = swap_record(SECRET_OF_THE_FIRST);
    upstream.next(Act::bytes(answer(201, &headers, body.as_bytes())));
    let first = done.send(gate.production());
    assert_eq!(told(&first), "201 - executed");
    heard.push(heard_by_strangers(&gate, &done));
    assert_again(&first, &by(ISSUER, "test", &done).send(gate.production()));

    let refused = swap();
    let body = format!(r#"{{"status":"error","error":{{"code":"X","message":"{SECRET_OF_THE_FIRST}"}}}}"#);
    upstream.next(Act::json(400, body));
    assert_eq!(told(&refused.send(gate.production())), "400 X not-executed");
    heard.push(heard_by_strangers(&gate, &refused));

    let in_doubt = swap();
    upstream.next(Act::silence().close());
    assert_eq!(told(&in_doubt.send(gate.production())), "502 OUTCOME_UNKNOWN unknown");
    heard.push(heard_by_strangers(&gate, &in_doubt));

    // What its owner hears of another request under that name is no more.
    let other = pay(String::from_utf8(done.body_bytes()).unwrap().replace("0.000001", "0.000002"));
    let answer = other.send(gate.production());
    assert_eq!(told(&answer), "422 REQUEST_ID_REUSED unknown", "{answer}");
    heard.push((lasting(&answer.head), answer.text()));

    assert!(heard.iter().all(|one| *one == heard[0]), "{heard:#?}");
    assert_eq!(upstream.seen().len(), 3);
}

#[test]
fn strangers_hear_the_same_while_it_is_sent() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let (call, go) = (swap(), Signal::new());
    upstream.next(Act::done(201).after(&go));
    let mut owner = Caller::connect(gate.production());
    owner.send(call.bytes());
    upstream.wait_for(0);
    let heard = |call: &Call| {
        let answer = by(ISSUER, "other", call).header("Prefer", "wait=60").send(gate.production());
        assert_eq!(told(&answer), "422 REQUEST_ID_REUSED unknown", "{answer}");
        (lasting(&answer.head), answer.text())
    };
    let before = heard(&call);
    go.give();
    assert_eq!(told(&owner.answer()), "201 - executed");
    assert_eq!(heard(&call), before);
    assert_eq!(upstream.seen().len(), 1);
}
