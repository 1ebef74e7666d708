//! An orderly end: what runs is finished, nothing new begins.

use std::net::TcpStream;

use crate::support::clock::Watch;
use crate::support::gate::sluice;
use crate::support::shape::{operation, valid};
use crate::support::shared::Signal;
use crate::support::{Act, Caller, Gate, Setup, Upstream};

fn ending(gate: &Gate) {
    gate.terminate();
    gate.log.wait("the gate to begin its end", |lines| {
        lines.iter().any(|l| l["message"].as_str().is_some_and(|m| m.starts_with("ending"))).then_some(())
    });
}

#[test]
fn what_is_in_flight_is_finished_and_readyz_fails_meanwhile() {
    for id in ["createSwap", "listUsers"] {
        let (upstream, go) = (Upstream::start(), Signal::new());
        let gate = Setup::of(&upstream).start();
        upstream.next(Act::json(200, "{}").after(&go));
        let mut caller = Caller::connect(gate.production());
        caller.send(valid(operation(id)).header("X-Request-Id", "last").bytes());
        upstream.wait_for(0);
        assert_eq!(gate.probe("/readyz").status, 200);

        ending(&gate);

        assert_eq!((gate.probe("/readyz").status, gate.probe("/livez").status), (503, 200));
        assert!(!gate.has_ended());
        go.give();
        let answer = caller.answer();
        assert_eq!((answer.status, answer.text().as_str()), (200, "{}"), "{id}");
        assert_eq!(gate.wait_end().code(), Some(0), "{id}");
        gate.request_line("last");
    }
}

#[test]
fn an_idle_gate_ends_at_once_with_connections_open() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let mut idle = Caller::connect(gate.production());
    assert_eq!(valid(operation("createSwap")).over(&mut idle).status, 200);
    let watch = Watch::start();
    gate.terminate();
    assert_eq!(gate.wait_end().code(), Some(0));
    assert!(watch.elapsed().as_secs() < 5, "{:?}", watch.elapsed());
    assert!(TcpStream::connect(gate.production()).is_err());
}

#[test]
fn a_write_whose_caller_is_gone_is_waited_for() {
    let (upstream, go) = (Upstream::start(), Signal::new());
    let gate = Setup::of(&upstream).start();
    upstream.next(Act::json(201, "{}").after(&go));
    let mut caller = Caller::connect(gate.production());
    caller.send(valid(operation("createSwap")).header("X-Request-Id", "gone").bytes());
    upstream.wait_for(0);
    caller.reset();
    ending(&gate);
    assert!(!gate.has_ended());
    go.give();
    assert_eq!(gate.request_line("gone")["outcome"], "executed");
    assert_eq!(gate.wait_end().code(), Some(0));
}

#[test]
fn an_end_waits_until_an_answer_is_given_up() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).timeout_ms("answer_ms", 600).start();
    upstream.next(Act::silence().hang());
    let mut caller = Caller::connect(gate.production());
    caller.send(valid(operation("createSwap")).bytes());
    upstream.wait_for(0);
    ending(&gate);
    let answer = caller.answer();
    assert_eq!((answer.status, answer.outcome().as_str()), (504, "unknown"));
    assert_eq!(gate.wait_end().code(), Some(0));
}

#[test]
fn both_signals_end_it() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    gate.signal("INT");
    assert_eq!(gate.wait_end().code(), Some(0));
}

#[test]
fn a_hangup_is_heard_and_ends_nothing() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    gate.signal("HUP");
    gate.log.wait("the hangup to be told", |lines| {
        lines.iter().any(|l| l["message"].as_str().is_some_and(|m| m.starts_with("SIGHUP"))).then_some(())
    });
    assert_eq!(valid(operation("createSwap")).send(gate.production()).status, 200);
    gate.terminate();
    assert_eq!(gate.wait_end().code(), Some(0));
}

#[test]
fn an_end_closes_the_books() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).set_raw("audit", "checkpoint_key", r#"{ file = "key.pem" }"#);
    assert!(sluice(&["audit", "key", gate.path("key.pem").to_str().unwrap()]).status().unwrap().success());
    let gate = gate.start();
    assert_eq!(valid(operation("createSwap")).send(gate.production()).status, 200);
    let setup = gate.end();
    let checkpoints = std::fs::read_to_string(setup.path("sluice-audit/audit-gate.checkpoints.jsonl")).unwrap();
    let last: serde_json::Value = serde_json::from_str(checkpoints.lines().last().unwrap()).unwrap();
    let chain = std::fs::read_to_string(setup.path("sluice-audit/audit-gate-00000001.jsonl")).unwrap();
    assert!(chain.contains(r#""what":"executed""#), "{chain}");
    assert!(last.to_string().contains(&format!(r#""length":{}"#, chain.len())), "{last}");
}
