//! What was answered is counted, under labels that no caller makes.

use std::collections::BTreeSet;

use crate::support::shape::{operation, valid};
use crate::support::upstream::answer;
use crate::support::{Act, Setup, Upstream, get, post};

#[test]
fn every_answer_is_counted_under_its_labels() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let named = |call: crate::support::Call, name: &str| {
        call.header("X-Request-Id", name).send(gate.production());
        gate.request_line(name);
    };
    named(valid(operation("listUsers")), "r1");
    named(valid(operation("listUsers")), "r2");
    named(valid(operation("createSwap")), "r3");
    named(post("/v2/wallets/swaps").json("{}"), "r4");
    upstream.next(Act::silence().close());
    named(valid(operation("createSwap")), "r5");
    upstream.next(Act::bytes(answer(500, &[("Content-Type", "text/html")], b"<p>")));
    named(valid(operation("listUsers")), "r6");
    let series = |operation: &str, status: u16, origin: &str, outcome: &str, code: &str| {
        gate.metric(&format!(
            "sluice_requests_total{{code=\"{code}\",environment=\"production\",operation=\"{operation}\",origin=\"{origin}\",outcome=\"{outcome}\",status=\"{status}\"}}"
        ))
    };
    assert_eq!(series("listUsers", 200, "upstream", "none", "none"), 2);
    assert_eq!(series("createSwap", 200, "upstream", "executed", "none"), 1);
    assert_eq!(series("createSwap", 400, "gateway", "unknown", "INVALID_REQUEST"), 1);
    assert_eq!(series("createSwap", 502, "gateway", "unknown", "OUTCOME_UNKNOWN"), 1);
    assert_eq!(series("listUsers", 500, "upstream", "none", "UPSTREAM_ERROR"), 1);
    let count =
        |name: &str| gate.metric(&format!("{name}_count{{environment=\"production\",operation=\"listUsers\"}}"));
    for name in ["sluice_request_seconds", "sluice_gate_seconds", "sluice_upstream_seconds"] {
        assert_eq!(count(name), 3, "{name}");
    }
    assert_eq!(gate.metric("sluice_requests_in_flight"), 0);
}

#[test]
fn callers_make_no_series() {
    let upstream = Upstream::start();
    upstream.always(Act::json(200, r#"{"status":"ACTIVE","message":"approved"}"#));
    let gate = Setup::of(&upstream).start();
    let names = || -> BTreeSet<String> {
        let text = gate.probe("/metrics").text();
        let series = text.lines().filter(|line| !line.starts_with('#'));
        series.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
    };
    let call = |at: usize| {
        get(format!("/nowhere-{at}?secret-{at}=1")).send(gate.production());
        crate::support::Call::new(&format!("M{at}"), format!("/v2/users/u-{at}/kyc/status")).send(gate.production());
        get(format!("/v2/users/u-{at}/kyc/status")).header("X-Request-Id", format!("x-{at}")).send(gate.production());
        gate.request_line(&format!("x-{at}"));
    };
    call(0);
    let before = names();
    (1..20).for_each(call);
    assert_eq!(names(), before);
    for word in ["nowhere", "secret", "u-0", "M0", "x-0"] {
        assert!(!before.iter().any(|series| series.contains(word)), "{word}");
    }
    assert!(before.iter().any(|series| series.contains("operation=\"none\"")));
}

#[test]
fn probes_are_answered_on_their_own_listener_alone() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    for (path, status) in [("/livez", 200), ("/readyz", 200), ("/metrics", 200), ("/", 404), ("/v2/users", 404)] {
        assert_eq!(gate.probe(path).status, status, "{path}");
        assert_ne!(get("/livez").send(gate.production()).status, 200);
    }
}

#[test]
fn the_log_says_nothing_of_tokens_bodies_and_paths() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).set("log", "level", "trace").start();
    let person = "Zaphod-Beeblebrox";
    let id = crate::support::shape::ID;
    let call = post(format!("/v2/users/{id}")).json(format!(r#"{{"type":"individual","firstName":"{person}"}}"#));
    assert_eq!(call.header("X-Request-Id", "l1").send(gate.production()).status, 200);
    get(format!("/v2/users?firstName={person}")).header("X-Request-Id", "l2").send(gate.production());
    upstream.next(Act::json(500, format!(r#"{{"x":"{person}"}}"#)));
    get(format!("/v2/users?firstName={person}")).header("X-Request-Id", "l3").send(gate.production());
    for name in ["l1", "l2", "l3"] {
        gate.request_line(name);
    }
    let log = format!("{:?} {}", gate.log.all(), gate.stderr());
    for word in [person, id, crate::support::token::token()] {
        assert!(!log.contains(word), "{word} is logged");
    }
}
