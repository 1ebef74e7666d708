//! Connections: how many, how slow, how long.

use std::net::{IpAddr, SocketAddr, TcpStream};

use super::line::{Line, with_tls};
use super::{OPEN, wait_until};
use crate::cases::witness::Witness;
use crate::support::gate::sluice;
use crate::support::shape::ID;
use crate::support::{Call, Caller, Gate, Setup, Upstream, get, post};

fn update() -> Call {
    post(format!("/v2/users/{ID}"))
}

pub(super) fn refused(gate: &Gate, reason: &str) -> u64 {
    gate.metric(&format!(r#"sluice_connections_refused_total{{listener="production",reason="{reason}"}}"#))
}

fn unreadable(gate: &Gate, reason: &str) -> u64 {
    gate.metric(&format!(r#"sluice_unreadable_requests_total{{listener="production",reason="{reason}"}}"#))
}

/// A connection from this address of the machine itself.
pub(in crate::cases) fn connect_from(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((IpAddr::from(from), 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

#[test]
fn connections_are_bounded_in_all_and_of_one_peer() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).limit("connections", 6).limit("connections_per_peer", 2).start();
    let (first, second) = (Caller::connect(gate.production()), Caller::connect(gate.production()));
    wait_until("two to be open", || gate.metric(OPEN) == 2);
    let mut third = Caller::connect(gate.production());
    assert!(third.rest().is_ok_and(|rest| rest.is_empty()));
    assert_eq!(refused(&gate, "too_many_of_peer"), 1);
    let other = connect_from([127, 0, 0, 2], gate.production());
    wait_until("three to be open", || gate.metric(OPEN) == 3);
    let another = connect_from([127, 0, 0, 2], gate.production());
    wait_until("four to be open", || gate.metric(OPEN) == 4);
    drop(connect_from([127, 0, 0, 2], gate.production()));
    wait_until("the fifth to be refused", || refused(&gate, "too_many_of_peer") == 2);
    drop((first, other, another));
    wait_until("places to come free", || gate.metric(OPEN) == 1);
    assert_eq!(get("/v2/users").send(gate.production()).status, 200);
    drop(second);
}

#[test]
fn a_slow_or_senseless_handshake_is_cut() {
    let upstream = Upstream::start();
    let gate = with_tls(Setup::of(&upstream)).timeout_ms("client_handshake_ms", 300).start();
    for first in [&b""[..], &[0x16, 3, 1, 2, 0, 1]] {
        let before = refused(&gate, "handshake_slow");
        let mut silent = Caller::connect(gate.production());
        silent.send(first);
        assert!(silent.rest().is_ok_and(|rest| rest.is_empty()));
        assert_eq!(refused(&gate, "handshake_slow"), before + 1);
    }
    let mut plain = Caller::connect(gate.production());
    plain.send(get("/v2/users").bytes());
    drop(plain.rest());
    wait_until("plain text to be refused", || refused(&gate, "handshake") == 1);
    wait_until("all to be gone", || gate.metric(OPEN) == 0);
    let told = Line::tls(gate.production()).send(get("/v2/users").bytes()).answer();
    assert_eq!(told.map(|told| told.status), Some(200));
}

/// Sends byte after byte, for many times as long as is allowed; what the gate says when it has had enough.
fn drip(line: &mut Caller, bytes: &[u8]) -> Option<u16> {
    let is_cut = bytes.iter().any(|byte| {
        std::thread::park_timeout(std::time::Duration::from_millis(5));
        line.try_send([*byte]).is_err()
    });
    assert!(is_cut, "all {} bytes were taken", bytes.len());
    line.try_answer().ok().map(|answer| answer.status)
}

#[test]
fn a_head_that_trickles_is_cut_however_steadily_it_comes() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).timeout_ms("head_ms", 300).timeout_ms("drain_ms", 100).start();
    let endless = [b"GET /v2/users HTTP/1.1\r\nX-A: ".to_vec(), vec![b'a'; 2000]].concat();
    assert_eq!(drip(&mut Caller::connect(gate.production()), &endless), Some(408));
    assert_eq!(unreadable(&gate, "head_slow"), 1);
    // Also the second of a connection.
    let mut caller = Caller::connect(gate.production());
    assert_eq!(get("/v2/users").over(&mut caller).status, 200);
    assert_eq!(drip(&mut caller, &endless), Some(408));
    assert_eq!(unreadable(&gate, "head_slow"), 2);
    // One that says nothing at all hears nothing.
    assert!(Caller::connect(gate.production()).rest().unwrap().is_empty());
    wait_until("all to be gone", || gate.metric(OPEN) == 0);
}

#[test]
fn a_body_that_trickles_is_cut_however_steadily_it_comes() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).timeout_ms("body_ms", 300).timeout_ms("drain_ms", 100).start();
    let long = vec![b' '; 3000];
    for call in [update().json(&long), update().chunked(&long, 1), update().chunked(&long, 3000)] {
        let mut caller = Caller::connect(gate.production());
        caller.send(call.head_bytes());
        assert_eq!(drip(&mut caller, &call.body_bytes()), Some(408), "{call:?}");
    }
    // A caller that was asked for its body and sends none.
    let mut caller = Caller::connect(gate.production());
    caller.send(update().json("{}").header("Expect", "100-continue").head_bytes());
    assert_eq!(caller.answer().status, 408);
    assert!(upstream.seen().is_empty());
    wait_until("all to be gone", || gate.metric(OPEN) == 0);
}

#[test]
fn an_idle_connection_is_cut_and_one_in_use_is_not() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).timeout_ms("keepalive_ms", 1500).start();
    for call in [get("/v2/users"), update().json("{}"), get("/nowhere")] {
        let mut caller = Caller::connect(gate.production());
        let status = call.over(&mut caller).status;
        assert_eq!(call.over(&mut caller).status, status);
        assert!(caller.rest().unwrap().is_empty());
    }
    let mut tls_free = Line::plain(gate.production());
    assert_eq!(tls_free.send(get("/v2/users").bytes()).answer().map(|told| told.keeps), Some(true));
    assert!(tls_free.ends());
}

#[test]
fn a_connection_takes_so_many_requests() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).limit("requests_per_connection", 3).start();
    for call in [get("/v2/users"), update().json("{}"), get("/nowhere")] {
        let mut caller = Caller::connect(gate.production());
        let mut kept: Vec<String> = Vec::new();
        while let Ok(answer) = {
            caller.try_send(call.bytes()).ok();
            caller.try_answer()
        } {
            kept.push(answer.header("connection").unwrap_or_default());
            if kept.len() > 4 {
                break;
            }
        }
        assert_eq!(kept.last().map(String::as_str), Some("close"), "{kept:?}");
        assert_eq!(kept.len(), 3, "{kept:?}");
    }
}

#[test]
fn who_asks_for_the_end_gets_it() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    for call in [get("/v2/users"), update().json("{}"), get("/nowhere"), get("/v2/users").without("Authorization")] {
        for close in ["close", "Close", "x-a, close"] {
            let mut caller = Caller::connect(gate.production());
            let answer = call.clone().header("Connection", close).over(&mut caller);
            assert_eq!(answer.header("connection").as_deref(), Some("close"), "{close}: {answer}");
            assert!(caller.rest().unwrap().is_empty());
        }
    }
}

/// Without a signature of its witness, a gate may have to close money.
#[test]
fn one_address_does_not_take_all_places_of_a_witness() {
    let home = tempfile::tempdir().unwrap();
    let key = home.path().join("log.pem");
    assert!(sluice(&["audit", "key", key.to_str().unwrap()]).output().unwrap().status.success());
    let witness = Witness::start(home.path(), "w.example", &home.path().join("log.pem.pub"));
    let address = SocketAddr::from(([127, 0, 0, 1], witness.port));
    let held: Vec<TcpStream> = (0..600).map(|_| connect_from([127, 0, 0, 2], address)).collect();
    let answer = get("/").send(address);
    assert!(answer.status == 200 && answer.text().contains("w.example"), "{answer}");
    drop(held);
}
