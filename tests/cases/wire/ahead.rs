//! Connections that are opened ahead: never used before, and dead ones are noticed before anything is written.
//!
//! `SLUICE_WIRE_CALLS` says how many calls meet an upstream that closes its idle connections.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::{swap, told};
use crate::support::clock::wait_until;
use crate::support::shape::swap_record;
use crate::support::tls::Authority;
use crate::support::upstream::answer;
use crate::support::{Act, Setup, Upstream};

/// How many calls there are without `SLUICE_WIRE_CALLS`.
const CALLS: usize = 300;
const AT_ONCE: usize = 4;

fn events(gate: &crate::support::Gate, what: &str) -> u64 {
    gate.metric(&format!(r#"sluice_upstream_connections_total{{environment="production",what="{what}"}}"#))
}

#[test]
fn every_write_has_a_connection_of_its_own_that_was_opened_ahead() {
    let authority = Authority::new();
    for tls in [false, true] {
        let upstream = match tls {
            false => Upstream::start(),
            true => Upstream::start_tls(authority.certify(&["127.0.0.1"]).server()),
        };
        let setup = Setup::of(&upstream).file("ca.pem", &authority.pem());
        let gate = if tls { setup.set("production", "upstream_ca", "ca.pem") } else { setup }.start();
        let (mut calls, mut in_a_row) = (0, 0);
        wait_until("calls that open no connection themselves", || {
            // Such a call has one connection opened: the next one.
            let before = events(&gate, "opened");
            let answer = swap(&format!("own-{calls}")).send(gate.production());
            assert_eq!(answer.status, 200, "{answer}");
            calls += 1;
            std::thread::park_timeout(Duration::from_millis(20));
            in_a_row = if events(&gate, "opened") == before + 1 { in_a_row + 1 } else { 0 };
            in_a_row == 5
        });
        assert_eq!(events(&gate, "used"), calls);
        let mut connections: Vec<usize> = upstream.seen().iter().map(|seen| seen.connection).collect();
        connections.sort_unstable();
        connections.dedup();
        assert_eq!(connections.len() as u64, calls, "a connection carried two writes");
    }
}

#[test]
fn an_idle_gate_opens_and_keeps_no_connection() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).timeout_ms("upstream_idle_ms", 200).start();
    assert_eq!(upstream.connections(), 0);
    assert_eq!(swap("idle-1").send(gate.production()).status, 200);
    wait_until("the connection that was opened ahead to be discarded", || events(&gate, "discarded") == 1);
    assert_eq!((events(&gate, "opened"), events(&gate, "used")), (2, 1));
}

#[test]
fn a_connection_on_which_upstream_speaks_unasked_is_not_used() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let stray: &[u8] = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";
    for at in 0..10 {
        upstream.next(Act::done(200).send(stray));
        let answer = swap(&format!("stray-{at}")).send(gate.production());
        assert_eq!((answer.status, answer.outcome().as_str()), (200, "executed"), "{answer}");
    }
}

/// An upstream that closes each connection on which nothing came for a time, as servers and load balancers do.
fn impatient(listener: &TcpListener, idle: Duration, served: &AtomicUsize, ended: &AtomicBool) {
    std::thread::scope(|scope| {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            if ended.load(Ordering::SeqCst) {
                return;
            }
            scope.spawn(move || {
                stream.set_read_timeout(Some(idle)).unwrap();
                stream.set_nodelay(true).unwrap();
                let mut request = Vec::new();
                let mut piece = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut piece) {
                    request.extend_from_slice(&piece[..count]);
                    if is_whole(&request) {
                        served.fetch_add(1, Ordering::SeqCst);
                        let record = swap_record("COMPLETED");
                        let json = [("Content-Type", "application/json")];
                        drop(stream.write_all(&answer(201, &json, record.as_bytes())));
                        request.clear();
                    }
                }
            });
        }
    });
}

/// Ends the upstream when the test ends, however it does.
struct Ending<'e>(&'e AtomicBool, SocketAddr);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.1));
    }
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

#[expect(clippy::disallowed_methods, reason = "a count is given by who runs it")]
fn calls() -> usize {
    std::env::var("SLUICE_WIRE_CALLS").ok().and_then(|text| text.parse().ok()).unwrap_or(CALLS)
}

#[test]
fn dying_idle_connections_cause_no_doubt() {
    let calls = calls();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (served, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    let idle = Duration::from_millis(60);
    std::thread::scope(|scope| {
        scope.spawn(|| impatient(&listener, idle, &served, &ended));
        let _ending = Ending(&ended, address);
        let gate = Setup::new().environment("production", &format!("http://{address}")).start();
        std::thread::scope(|callers| {
            for caller in 0..AT_ONCE {
                let gate = &gate;
                callers.spawn(move || {
                    for at in 0..calls / AT_ONCE {
                        let answer = swap(&format!("dying-{caller}-{at}")).send(gate.production());
                        assert_eq!(told(&answer), (201, "-".into(), "executed".into()), "call {at}: {answer}");
                        // The pauses go through all ages around the one at which upstream closes.
                        std::thread::park_timeout(Duration::from_millis((at as u64 * 7 + caller as u64) % 97));
                    }
                });
            }
        });
        assert_eq!(events(&gate, "used"), (calls / AT_ONCE * AT_ONCE) as u64);
        assert!(events(&gate, "discarded") > 0, "no connection died while it waited");
        assert_eq!(served.load(Ordering::SeqCst), calls / AT_ONCE * AT_ONCE);
    });
}
