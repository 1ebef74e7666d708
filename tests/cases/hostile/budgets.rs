//! The memory of slow callers has one bound: who holds the most loses its slowest connection, and nobody else any.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::connections::connect_from;
use super::crowds::{memory, rest};
use super::http2::frames::{END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, block, frame, read};
use super::line::{Line, with_tls};
use super::{OPEN, wait_until};
use crate::cases::claims::swap;
use crate::support::clock::PATIENCE;
use crate::support::shape::ID;
use crate::support::shared::Signal;
use crate::support::{Act, Call, Gate, Setup, Upstream, get, token};

pub(super) const ATTACKER: [u8; 4] = [127, 0, 0, 9];
pub(super) const KIB: usize = 1024;

pub(super) fn resets(gate: &Gate) -> u64 {
    gate.metric(r#"sluice_connections_reset_total{listener="production"}"#)
}

pub(super) fn buffered(gate: &Gate) -> usize {
    usize::try_from(gate.metric(r#"sluice_buffered_bytes{listener="production"}"#)).unwrap()
}

/// What a well-behaved caller gets, over a connection of its own.
pub(super) fn is_served(gate: &Gate) -> bool {
    get("/v2/users").send(gate.production()).status == 200
}

/// An address from which a connection comes, and which sends so many bytes of a head.
fn half_head(from: [u8; 4], to: SocketAddr, bytes: usize) -> TcpStream {
    let mut socket = connect_from(from, to);
    let begin = b"GET /v2/users HTTP/1.1\r\nHost: g\r\nX-Long: ";
    socket.write_all(&[&begin[..], &vec![b'a'; bytes - begin.len()]].concat()).unwrap();
    socket
}

#[test]
fn half_heads_of_one_address_are_reset_and_those_of_another_go_on() {
    let upstream = Upstream::start();
    // The probes have the other half.
    let gate = Setup::of(&upstream).limit("answer_bytes", 128 * KIB).limit("buffered_bytes", 256 * KIB).start();
    let mut patient = half_head([127, 0, 0, 1], gate.production(), 15_000);
    wait_until("its head to be counted", || buffered(&gate) >= 15_000);
    let attack: Vec<TcpStream> = (0..60).map(|_| half_head(ATTACKER, gate.production(), 15_000)).collect();
    wait_until("most of them to be reset", || resets(&gate) >= 50 && gate.metric(OPEN) <= 11);
    assert!(buffered(&gate) <= 128 * KIB);
    assert!(is_served(&gate));
    patient.set_read_timeout(Some(PATIENCE)).unwrap();
    patient
        .write_all(&[&b"\r\n"[..], &get("/v2/users").bytes()[b"GET /v2/users HTTP/1.1\r\n".len()..]].concat())
        .unwrap();
    let mut answer = [0; 12];
    patient.read_exact(&mut answer).unwrap();
    // Two hosts: it is refused, but it was read and answered.
    assert_eq!(&answer, b"HTTP/1.1 400");
    drop(attack);
    wait_until("all bytes to be given back", || buffered(&gate) == 0);
}

#[test]
fn answers_that_nobody_takes_are_bounded_and_their_calls_are_replayed() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).limit("answer_bytes", 1280 * KIB).limit("buffered_bytes", 2560 * KIB).start();
    let large = |id: &str| {
        let padding = "x".repeat(1 << 20);
        let details = format!(r#"{{"id":"{ID}","status":"PENDING","requestId":"{id}","padding":"{padding}"}}"#);
        let record = format!(r#"{{"transferType":"WALLET.SWAP","transferDetails":{details}}}"#);
        Act::json(201, record)
    };
    let calls: Vec<Call> = (0..8).map(|_| swap()).collect();
    let mut stalled = Vec::new();
    for call in &calls {
        upstream.next(large(&call.request_id()));
        let before = upstream.seen().len();
        let mut socket = connect_from(ATTACKER, gate.production());
        socket.write_all(&call.bytes()).unwrap();
        stalled.push(socket);
        upstream.wait_for(before);
    }
    // The room has a place for one of these answers.
    wait_until("most of them to be reset", || resets(&gate) >= 7);
    assert!(buffered(&gate) <= 1280 * KIB);
    assert!(is_served(&gate));
    let again = calls[0].send(gate.production());
    assert!(again.status == 201 && again.body.len() > 1 << 20, "{} {}", again.status, again.body.len());
    assert_eq!(again.header("sluice-replayed").as_deref(), Some("true"));
    drop(stalled);
    wait_until("all bytes to be given back", || buffered(&gate) == 0);
    wait_until("no request to be in progress", || gate.metric("sluice_requests_in_flight") == 0);
}

#[test]
fn long_answers_that_upstream_does_not_end_wait_in_their_callers_share_and_others_pass() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).limit("answer_bytes", 256 * KIB).limit("answers_bytes", 1024 * KIB).start();
    let goes_on = Signal::new();
    let calls: Vec<Call> = (0..4).map(|_| swap()).collect();
    let mut open = Vec::new();
    for call in &calls {
        let record = format!(
            r#"{{"transferType":"WALLET.SWAP","transferDetails":{{"id":"{ID}","status":"PENDING","requestId":"{}","padding":"{}"}}}}"#,
            call.request_id(),
            "x".repeat(80 * KIB)
        );
        let (begin, rest) = record.split_at(40 * KIB);
        let head = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
        let begin = format!("{head}{:x}\r\n{begin}\r\n", begin.len());
        let rest = format!("{:x}\r\n{rest}\r\n0\r\n\r\n", rest.len());
        upstream.next(Act::bytes(begin).wait(&goes_on).send(rest));
        let before = upstream.seen().len();
        let mut socket = connect_from(ATTACKER, gate.production());
        socket.write_all(&call.bytes()).unwrap();
        open.push(socket);
        upstream.wait_for(before);
    }
    // A caller's half of the room has places for two answers whose length is not known.
    wait_until("two of them to wait", || gate.metric(r#"sluice_answers_waited_total{environment="production"}"#) == 2);
    assert_eq!(swap().send(gate.production()).status, 200);
    // Another caller's answer of that kind has room, and does not wait.
    let mut claims = token::claims();
    claims["sub"] = "another".into();
    let call = swap().without("authorization").header("Authorization", format!("Bearer {}", token::signed(&claims)));
    let record = format!(
        r#"{{"transferType":"WALLET.SWAP","transferDetails":{{"id":"{ID}","status":"PENDING","requestId":"{}","padding":"{}"}}}}"#,
        call.request_id(),
        "x".repeat(80 * KIB)
    );
    let head = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    upstream.next(Act::bytes(format!("{head}{:x}\r\n{record}\r\n0\r\n\r\n", record.len())));
    let answer = call.send(gate.production());
    assert!(answer.status == 201 && answer.body.len() > 80 * KIB, "{} {}", answer.status, answer.body.len());
    assert_eq!(gate.metric(r#"sluice_answers_waited_total{environment="production"}"#), 2);
    goes_on.give();
    for mut socket in open {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 201");
    }
}

#[test]
fn refused_streams_whose_answers_are_not_taken_are_bounded_over_all_connections() {
    let upstream = Upstream::start();
    let gate = with_tls(Setup::of(&upstream)).limit("buffered_bytes", 16 << 20).start();
    let no_window = [frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])].concat();
    let mut refused = read();
    refused.retain(|(name, _)| *name != "authorization");
    let streams: Vec<u8> =
        (0..64).flat_map(|at| frame(HEADERS, END_HEADERS | END_STREAM, at * 2 + 1, &block(&refused))).collect();
    let attack: Vec<Line> = (0..16)
        .map(|_| {
            let mut line = Line::tls_with(gate.production(), b"h2");
            line.send([PREFACE, &no_window, &streams].concat());
            line
        })
        .collect();
    // Each stream counts 32 KiB besides its answer: 8 MiB have room for less than four connections.
    wait_until("most of them to be reset", || resets(&gate) >= 12);
    assert!(buffered(&gate) <= 8 << 20);
    wait_until("their streams to end", || gate.metric("sluice_requests_in_flight") <= 4 * 64);
    let mut good = super::http2::frames::Two::connect(&gate);
    assert_eq!(good.ask(1, &read()).outcome(1), "200");
    drop((attack, good));
    wait_until("all bytes to be given back", || buffered(&gate) == 0);
    wait_until("no request to be in progress", || gate.metric("sluice_requests_in_flight") == 0);
}

#[test]
fn two_addresses_cannot_take_all_places() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).limit("connections", 24).start();
    let mut open = Vec::new();
    for (from, most) in [([127, 0, 0, 8], 12), ([127, 0, 0, 9], 6)] {
        for _ in 0..24 {
            open.push(connect_from(from, gate.production()));
        }
        let at_most = open.len() / 24 * 6 + 6;
        wait_until("its places to be taken", || gate.metric(OPEN) == at_most as u64 && at_most >= most);
    }
    for _ in 0..3 {
        assert!(is_served(&gate));
    }
}

#[test]
fn an_idle_connection_takes_little_memory_before_and_between_its_requests() {
    const MANY: u64 = 1_500;
    let upstream = Upstream::start();
    // None is closed, however long the others take.
    let gate = Setup::of(&upstream).timeout_ms("head_ms", 300_000).timeout_ms("keepalive_ms", 300_000).start();
    assert!(is_served(&gate));
    let base = rest(&gate);
    let mut idle: Vec<TcpStream> = (0..MANY).map(|_| connect_from(ATTACKER, gate.production())).collect();
    wait_until("all to be open", || gate.metric(OPEN) == MANY);
    let fresh = memory(&gate, "VmRSS").saturating_sub(base) / MANY;
    let call = get("/v2/users").bytes();
    for socket in &mut idle {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(&call).unwrap();
        let mut head = [0; 12];
        socket.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
    }
    std::thread::park_timeout(Duration::from_millis(50));
    let used = memory(&gate, "VmRSS").saturating_sub(base) / MANY;
    println!("KiB for each connection: {fresh} before its first request, {used} behind it");
    assert!(fresh <= 16, "{fresh} KiB for each connection");
    assert!(used <= 16, "{used} KiB for each connection");
}
