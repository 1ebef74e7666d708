//! The caller hangs up: what was sent goes on to its end.

use crate::support::shape::{operation, valid};
use crate::support::shared::Signal;
use crate::support::{Act, Caller, Setup, Upstream};

#[test]
fn a_write_goes_on_when_its_caller_is_gone() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    for (at, id) in ["createSwap", "createOfframp", "cancelSwap"].into_iter().enumerate() {
        let go = Signal::new();
        upstream.next(Act::done(201).after(&go));
        let call = valid(operation(id)).header("X-Request-Id", format!("gone-{at}"));
        let mut caller = Caller::connect(gate.production());
        caller.send(call.bytes());
        let seen = upstream.wait_for(at);
        assert!(seen.whole);
        if at % 2 == 0 {
            caller.reset();
        } else {
            drop(caller);
        }
        go.give();
        let line = gate.request_line(&format!("gone-{at}"));
        assert_eq!((&line["http.response.status_code"], &line["outcome"]), (&201.into(), &"executed".into()), "{line}");
    }
    assert_eq!(valid(operation("createSwap")).send(gate.production()).status, 200);
    assert_eq!(upstream.seen().len(), 4);
}

#[test]
fn a_caller_who_leaves_inside_the_body_sends_nothing() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let call = valid(operation("createSwap")).header("X-Request-Id", "half");
    let mut caller = Caller::connect(gate.production());
    let body = call.body_bytes();
    caller.send(call.head_bytes()).send(&body[..body.len() - 1]);
    drop(caller);
    let line = gate.request_line("half");
    assert_eq!(
        (&line["http.response.status_code"], &line["code"]),
        (&400.into(), &"MALFORMED_REQUEST".into()),
        "{line}"
    );
    assert!(upstream.seen().is_empty());
}

#[test]
fn a_read_whose_caller_is_gone_ends() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).timeout_ms("answer_ms", 2000).start();
    upstream.next(Act::silence().hang());
    let mut caller = Caller::connect(gate.production());
    caller.send(valid(operation("listUsers")).header("X-Request-Id", "left").bytes());
    upstream.wait_for(0);
    caller.reset();
    gate.request_line("left");
    assert_eq!(valid(operation("listUsers")).send(gate.production()).status, 200);
}
