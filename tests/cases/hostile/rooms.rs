//! The room for bodies has a part for each environment, and in it a share for each caller.

use std::net::SocketAddr;

use serde_json::json;

use super::wait_until;
use crate::support::shape::ID;
use crate::support::token::{claims, signed};
use crate::support::{Act, Call, Caller, Gate, Setup, Upstream, get, post};

const LIMIT: usize = 1000;
/// The part that arrives of a body that is as long as the limit.
const SENT: usize = LIMIT - 1;

fn update() -> Call {
    post(format!("/v2/users/{ID}"))
}

/// The same call by another caller.
fn by(subject: &str, call: Call) -> Call {
    let mut said = claims();
    said["sub"] = json!(subject);
    call.without("Authorization").header("Authorization", format!("Bearer {}", signed(&said)))
}

fn overloaded(gate: &Gate, environment: &str) -> u64 {
    let labels = format!(r#"code="OVERLOADED",environment="{environment}",operation="updateUser",origin="gateway""#);
    gate.metric(&format!(r#"sluice_requests_total{{{labels},outcome="not-executed",status="503"}}"#))
}

/// Takes the share of a caller with bodies that are never sent whole. A body that meets a probe of the share is refused.
fn fill(gate: &Gate, at: SocketAddr, who: &str) -> Vec<Caller> {
    let (large, small) = (by(who, update().json(vec![b' '; LIMIT])), by(who, update().json("{}")));
    let mut holding = Vec::new();
    wait_until("a share to be taken", || {
        let mut caller = Caller::connect(at);
        caller.send(large.head_bytes()).send(&large.body_bytes()[..SENT]);
        holding.push(caller);
        small.send(at).status == 503
    });
    assert!(gate.metric("sluice_requests_in_flight") > 0);
    holding
}

#[test]
fn bodies_take_the_room_of_the_bytes_that_came_not_of_those_that_they_promise() {
    let (upstream, other) = (Upstream::start(), Upstream::start());
    let gate = Setup::of(&upstream).sandbox(&other).limit("body_bytes", LIMIT).limit("bodies_bytes", 4 * LIMIT).start();
    let promised = update().header("Expect", "100-continue").json(vec![b' '; LIMIT]);
    let slow: Vec<Caller> = (0..64)
        .map(|_| {
            let mut caller = Caller::connect(gate.sandbox());
            // The gate asks for the body: it is being read.
            assert_eq!(caller.send(promised.head_bytes()).head().first, "HTTP/1.1 100 Continue");
            caller.send(" ");
            caller
        })
        .collect();
    for address in [gate.production(), gate.sandbox()] {
        assert_eq!(update().json("{}").send(address).status, 200);
    }
    assert_eq!(update().json(format!("{{{}}}", " ".repeat(LIMIT - 2))).send(gate.production()).status, 200);
    assert_eq!((overloaded(&gate, "production"), overloaded(&gate, "sandbox")), (0, 0));
    drop(slow);
}

#[test]
fn a_caller_at_its_limit_takes_nothing_from_another_caller_or_environment() {
    let (upstream, other) = (Upstream::start(), Upstream::start());
    // Half for each environment: 8 bodies, of which a caller alone may have 4.
    let setup = Setup::of(&upstream).sandbox(&other);
    let gate = setup.limit("body_bytes", LIMIT).limit("bodies_bytes", 16 * SENT).start();
    let small = by("one", update().json("{}"));
    let large = update().json(format!("{{{}}}", " ".repeat(LIMIT - 2)));
    let holding = fill(&gate, gate.sandbox(), "one");

    let full = small.send(gate.sandbox());
    assert_eq!((full.status, full.code().as_str()), (503, "OVERLOADED"), "{full}");
    assert_eq!(full.header("retry-after").as_deref(), Some("1"));
    assert_eq!(full.outcome(), "not-executed");
    // What needs no room passes.
    assert_eq!(get("/v2/users").send(gate.sandbox()).status, 200);
    for _ in 0..10 {
        assert_eq!(by("another", large.clone()).send(gate.sandbox()).status, 200);
        assert_eq!(large.send(gate.production()).status, 200);
    }
    assert_eq!(overloaded(&gate, "production"), 0);

    // The last byte of the first body does not fit; its end makes room for the other three.
    let ended = holding.into_iter().map(|mut caller| {
        caller.try_send(" ").ok();
        caller.answer().code()
    });
    assert_eq!(ended.filter(|code| code == "INVALID_JSON").count(), 3);
    assert_eq!(by("one", large).send(gate.sandbox()).status, 200, "the room comes free");
    let left = fill(&gate, gate.sandbox(), "one");
    drop(left);
    wait_until("the room to come free", || small.send(gate.sandbox()).status == 200);
}

#[test]
fn two_callers_at_their_limits_leave_room_for_a_third() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).limit("body_bytes", LIMIT).limit("bodies_bytes", 12 * SENT).start();
    let holding = ["first", "second"].map(|who| fill(&gate, gate.production(), who));
    let large = by("third", update().json(format!("{{{}}}", " ".repeat(LIMIT - 2))));
    for _ in 0..10 {
        assert_eq!(large.send(gate.production()).status, 200);
    }
    drop(holding);
}

#[test]
fn a_body_takes_the_room_of_what_is_read_from_it() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).limit("body_bytes", 100_000).limit("bodies_bytes", 400_000).start();
    // Five bodies of 300 objects would be 10 kB of text.
    let objects = format!("{{\"metadata\":[{}{{}}]}}", "{\"a\":0},".repeat(150));
    let slow: Vec<Caller> = (0..1)
        .map(|nth| {
            upstream.next(Act::silence().hang());
            let mut caller = Caller::connect(gate.production());
            caller.send(by("greedy", update().json(objects.clone())).bytes());
            upstream.wait_for(nth);
            caller
        })
        .collect();
    let refused = by("greedy", update().json(objects.clone())).send(gate.production());
    assert_eq!((refused.status, refused.code()), (503, "OVERLOADED".to_owned()), "{refused}");
    // What is small finds room, and another caller does.
    assert_eq!(by("greedy", update().json("{}")).send(gate.production()).status, 200);
    assert_eq!(by("another", update().json("{\"metadata\":[{\"a\":0}]}")).send(gate.production()).status, 200);
    drop(slow);
    wait_until("the room to be free", || {
        by("greedy", update().json(objects.clone())).send(gate.production()).status == 200
    });
    // One that is larger than the room as a tree passes where its caller is alone.
    let large = format!("{{\"metadata\":[{}{{}}]}}", "{\"a\":0},".repeat(5_000));
    assert_eq!(update().json(large).send(gate.production()).status, 200);
}

/// A caller with calls that upstream does not answer.
#[test]
fn one_caller_leaves_room_for_the_calls_of_others() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).limit("calls", 4).start();
    let read = |who: &str| by(who, get("/v2/users"));
    let slow = |nth: usize| {
        upstream.next(Act::silence().hang());
        let mut caller = Caller::connect(gate.production());
        caller.send(read("greedy").bytes());
        upstream.wait_for(nth);
        caller
    };
    let slow: Vec<Caller> = (0..2).map(slow).collect();
    let refused = read("greedy").send(gate.production());
    assert_eq!((refused.status, refused.code()), (503, "OVERLOADED".to_owned()), "{refused}");
    assert!(refused.text().contains("limits.calls"), "{refused}");
    assert_eq!(read("another").send(gate.production()).status, 200);
    drop(slow);
    wait_until("its share to be free", || read("greedy").send(gate.production()).status == 200);
}
