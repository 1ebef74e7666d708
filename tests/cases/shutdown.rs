//! An orderly end: what runs is finished, nothing new begins.

use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::support::clock::{PATIENCE, Watch};
use crate::support::gate::sluice;
use crate::support::shape::{operation, valid};
use crate::support::shared::Signal;
use crate::support::{Act, Answer, Caller, Gate, Setup, Upstream};

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
        upstream.next(Act::done(200).after(&go));
        let mut caller = Caller::connect(gate.production());
        caller.send(valid(operation(id)).header("X-Request-Id", "last").bytes());
        upstream.wait_for(0);
        assert_eq!(gate.probe("/readyz").status, 200);

        ending(&gate);

        assert_eq!((gate.probe("/readyz").status, gate.probe("/livez").status), (503, 200));
        assert!(!gate.has_ended());
        go.give();
        let answer = caller.answer();
        assert_eq!((answer.status, answer.origin().as_str()), (200, "upstream"), "{id}");
        assert_eq!(
            answer.header("connection").as_deref(),
            Some("close"),
            "{id}: the next call would meet a closed connection"
        );
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
    upstream.next(Act::done(201).after(&go));
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
fn an_end_is_announced_while_all_is_served() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).set_raw("timeouts", "notice_secs", "600").start();
    let mut open = Caller::connect(gate.production());
    let swap = || valid(operation("createSwap"));
    let goes_on = |answer: &Answer| answer.header("connection").is_none_or(|value| value == "keep-alive");
    assert!(goes_on(&swap().over(&mut open)));
    ending(&gate);
    assert_eq!((gate.probe("/readyz").status, gate.probe("/readyz").text().as_str()), (503, "draining\n"));
    // Who was there before is told to come again; who comes now is served as ever.
    let last = swap().over(&mut open);
    assert_eq!((last.status, last.header("connection").as_deref()), (200, Some("close")));
    let mut late = Caller::connect(gate.production());
    let answer = swap().over(&mut late);
    assert!(answer.status == 200 && goes_on(&answer), "{answer}");
    // A second word ends it at once, and in order where nothing runs.
    gate.terminate();
    assert_eq!(gate.wait_end().code(), Some(0));
}

#[test]
fn who_waits_hears_what_is_known_and_what_comes_late_is_refused() {
    let (upstream, go) = (Upstream::start(), Signal::new());
    let gate = Setup::of(&upstream).start();
    upstream.next(Act::done(200).after(&go));
    let call = valid(operation("createSwap"));
    let [mut first, mut waits, mut late] = std::array::from_fn(|_| Caller::connect(gate.production()));
    first.send(call.bytes());
    upstream.wait_for(0);
    waits.send(call.clone().header("Prefer", "wait=60").bytes());
    gate.terminate();
    let answer = waits.answer();
    assert_eq!((answer.status, answer.code().as_str()), (409, "REQUEST_IN_PROGRESS"), "{answer}");
    assert!(answer.took.as_secs() < 30, "{:?}", answer.took);

    gate.log.wait("what comes late to be refused", |lines| {
        let message = "ending: new requests on open connections are refused";
        let told = |line: &&serde_json::Value| line["message"] == message;
        lines.iter().find(told).map(|_| ())
    });
    let refused = valid(operation("createSwap")).over(&mut late);
    assert_eq!((refused.status, refused.code().as_str(), refused.outcome().as_str()), (503, "DRAINING", "unknown"));
    let told = |name| refused.header(name).unwrap_or_default();
    assert_eq!((told("retry-after").as_str(), told("connection").as_str()), ("1", "close"), "{refused}");
    go.give();
    assert_eq!(first.answer().status, 200);
    assert_eq!(gate.wait_end().code(), Some(0));
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn a_second_signal_ends_it_at_once_and_what_was_sent_is_in_doubt() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    upstream.next(Act::silence().hang());
    let call = valid(operation("createSwap"));
    let mut caller = Caller::connect(gate.production());
    caller.send(call.bytes());
    upstream.wait_for(0);
    ending(&gate);
    assert!(!gate.has_ended());
    gate.signal("INT");
    assert_eq!(gate.wait_end().code(), Some(6));
    let gate = gate.end().start();
    let again = call.send(gate.production());
    assert_eq!((again.status, again.code().as_str()), (409, "OUTCOME_UNKNOWN"), "{again}");
}

#[test]
fn a_supervisor_is_told_how_it_is() {
    let upstream = Upstream::start();
    let setup = Setup::of(&upstream);
    let (path, name) = (setup.path("notify"), format!("sluice-test-{}", std::process::id()));
    let [on_disk, nowhere] = [UnixDatagram::bind(&path), UnixDatagram::bind_addr(&abstract_name(&name))];
    let heard = |socket: &UnixDatagram| {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut text = [0; 256];
        let length = socket.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    let until =
        |socket: &UnixDatagram, word: &str| while !heard(socket).split('\n').any(|line| line.starts_with(word)) {};
    let mut setup = setup;
    for (socket, name) in
        [(on_disk.unwrap(), path.to_str().unwrap().to_owned()), (nowhere.unwrap(), format!("@{name}"))]
    {
        let gate = setup.variable("NOTIFY_SOCKET", &name).variable("WATCHDOG_USEC", "300000").start();
        until(&socket, "READY=1");
        until(&socket, "WATCHDOG=1");
        gate.signal("HUP");
        until(&socket, "RELOADING=1");
        until(&socket, "READY=1");
        gate.terminate();
        until(&socket, "STOPPING=1");
        assert_eq!(gate.wait_end().code(), Some(0));
        setup = gate.end();
    }
}

fn abstract_name(name: &str) -> SocketAddr {
    SocketAddr::from_abstract_name(name).unwrap()
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
    assert_eq!(last["place"]["length"], chain.len(), "{last}");
    assert!(last["checkpoint"].as_str().unwrap().contains(&format!("\n{}\n", chain.lines().count())), "{last}");
}
