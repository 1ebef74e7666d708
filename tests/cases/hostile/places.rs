//! Callers without a place among the calls are counted as well, by their address: those not known yet, handshakes, and
//! connections of HTTP/2 that do nothing.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use serde_json::json;

use super::budgets::{ATTACKER, KIB, buffered, is_served, resets};
use super::connections::{connect_from, refused};
use super::http2::frames::{
    END_HEADERS, END_STREAM, HEADERS, Headers, PREFACE, SETTINGS, Said, Two, WINDOW_UPDATE, block, frame, read,
};
use super::line::{AUTHORITY, Line, with_tls};
use super::wait_until;
use crate::support::shape::ID;
use crate::support::token::claims;
use crate::support::{Act, Gate, Setup, Upstream};

const NEIGHBOUR: [u8; 4] = [127, 0, 0, 1];

/// A gate whose listeners have this much memory each: the probes have the other half.
fn gate(upstream: &Upstream, listener_bytes: usize) -> Setup {
    with_tls(Setup::of(upstream)).limit("answer_bytes", 64 * KIB).limit("buffered_bytes", 2 * listener_bytes)
}

fn in_flight(gate: &Gate) -> u64 {
    gate.metric("sluice_requests_in_flight")
}

fn is_empty(gate: &Gate) {
    wait_until("all bytes to be given back", || buffered(gate) == 0);
    wait_until("no request to be in progress", || in_flight(gate) == 0);
}

/// A request without a token, whose body may still come.
fn open_ended(path: &str) -> Headers<'_> {
    let mut headers = read();
    headers[3].1 = path;
    headers.push(("content-length", "0"));
    headers
}

fn is_good(gate: &Gate) -> bool {
    Two::over(Line::tls_from(NEIGHBOUR, gate.production(), b"h2")).ask(1, &read()).outcome(1) == "200"
}

#[test]
fn nobody_without_a_token_is_waited_for() {
    let upstream = Upstream::start();
    let gate = with_tls(Setup::of(&upstream)).timeout_ms("body_ms", 300_000).start();
    for path in ["/sluice/v1/openapi.json", &format!("/sluice/v1/holds/{}", "0a".repeat(16)), "/sluice/v1/receipts/a"] {
        let mut headers = open_ended(path);
        headers.retain(|(name, _)| *name != "authorization");
        assert_eq!(Two::connect(&gate).begin(1, &headers).outcome(1), "401", "{path}");
    }
    is_empty(&gate);
}

#[test]
fn requests_for_the_gate_itself_take_places_among_the_calls() {
    let upstream = Upstream::start();
    let gate = with_tls(Setup::of(&upstream)).limit("calls", 4).timeout_ms("body_ms", 300_000).start();
    let mut open = Two::connect(&gate);
    for (at, path) in
        ["/sluice/v1/openapi.json", &format!("/sluice/v1/holds/{ID}"), "/sluice/v1/receipts/a"].into_iter().enumerate()
    {
        open.begin(u32::try_from(at).unwrap() * 2 + 1, &open_ended(path));
    }
    // Alone, a caller has half of the places.
    assert!(open.until(|said| matches!(said, Said::Status(_, 503))).is_some());
    assert_eq!(Two::connect(&gate).ask(1, &read()).outcome(1), "503");
    drop(open);
    is_empty(&gate);
    assert!(is_good(&gate));
}

/// An issuer whose keys do not come.
fn with_slow_issuer(setup: Setup, keys: &Upstream) -> Setup {
    keys.always(Act::silence().hang());
    setup
        .set("issuer.slow", "issuer", "https://slow.test")
        .set_raw("issuer.slow", "audience", r#"["sluice"]"#)
        .set_raw("issuer.slow", "environments", r#"["production"]"#)
        .set_raw("issuer.slow", "algorithms", r#"["EdDSA"]"#)
        .set("issuer.slow", "jwks_url", &format!("{}/keys", keys.url()))
}

/// A token that anybody can make.
fn forged() -> String {
    let mut said = claims();
    said["iss"] = json!("https://slow.test");
    let encoded = |text: &str| URL_SAFE_NO_PAD.encode(text);
    format!("Bearer {}.{}.{}", encoded(r#"{"alg":"EdDSA","kid":"k"}"#), encoded(&said.to_string()), "A".repeat(86))
}

fn turned_away(gate: &Gate) -> u64 {
    let labels = r#"code="OVERLOADED",environment="production",operation="listUsers",origin="gateway""#;
    gate.metric(&format!(r#"sluice_requests_total{{{labels},outcome="none",status="503"}}"#))
}

#[test]
fn streams_that_wait_for_an_issuers_keys_are_bounded_by_address() {
    let (upstream, keys) = (Upstream::start(), Upstream::start());
    let gate = with_slow_issuer(gate(&upstream, 1024 * KIB), &keys).start();
    let token = forged();
    let mut headers = read();
    headers[4].1 = &token;
    let streams: Vec<u8> =
        (0..8).flat_map(|at| frame(HEADERS, END_HEADERS | END_STREAM, at * 2 + 1, &block(&headers))).collect();
    let attack: Vec<Two> = (0..12)
        .map(|_| {
            let mut line = Two::over(Line::tls_from(ATTACKER, gate.production(), b"h2"));
            line.send(&streams);
            line
        })
        .collect();
    // Each stream counts 32 KiB and its head: 1 MiB has room for three connections.
    wait_until("most of them to be reset", || resets(&gate) >= 8);
    wait_until("their streams to be turned away", || turned_away(&gate) >= 8 * 8);
    assert!(buffered(&gate) <= 1024 * KIB);
    assert!(is_good(&gate));
    drop(attack);
    is_empty(&gate);
}

#[test]
fn requests_that_wait_for_an_issuers_keys_are_bounded_by_address() {
    let (upstream, keys) = (Upstream::start(), Upstream::start());
    let setup = Setup::of(&upstream).limit("answer_bytes", 64 * KIB).limit("buffered_bytes", 2 * 1024 * KIB);
    let gate = with_slow_issuer(setup, &keys).start();
    let call = format!("GET /v2/users HTTP/1.1\r\nHost: g\r\nAuthorization: {}\r\n\r\n", forged());
    let attack: Vec<TcpStream> = (0..80)
        .map(|_| {
            let mut socket = connect_from(ATTACKER, gate.production());
            socket.write_all(call.as_bytes()).unwrap();
            socket
        })
        .collect();
    wait_until("most of them to be turned away", || turned_away(&gate) >= 30);
    assert!(resets(&gate) >= 30 && buffered(&gate) <= 1024 * KIB);
    assert!(is_served(&gate));
    drop(attack);
    is_empty(&gate);
}

/// The beginning of a handshake's message of 64 KB.
fn half_hello(from: [u8; 4], to: SocketAddr, bytes: usize) -> TcpStream {
    let message: Vec<u8> = [&[1, 0, 0xff, 0xf0, 3, 3][..], &vec![b'a'; bytes]].concat();
    let records = message.chunks(16 << 10).flat_map(|part| {
        let length = u16::try_from(part.len()).unwrap().to_be_bytes();
        [&[22, 3, 1][..], &length, part].concat()
    });
    let mut socket = connect_from(from, to);
    // Whoever is reset in the middle has sent enough.
    drop(socket.write_all(&records.collect::<Vec<u8>>()));
    socket
}

#[test]
fn handshakes_of_one_address_are_bounded_and_those_of_another_go_on() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, 512 * KIB).timeout_ms("client_handshake_ms", 300_000).start();
    let mut patient = half_hello(NEIGHBOUR, gate.production(), 30_000);
    wait_until("its bytes to be counted", || buffered(&gate) >= 30_000);
    let attack: Vec<TcpStream> = (0..24).map(|_| half_hello(ATTACKER, gate.production(), 60_000)).collect();
    wait_until("most of them to end", || refused(&gate, "handshake_no_room") >= 15);
    assert!(resets(&gate) >= 15 && buffered(&gate) <= 512 * KIB);
    assert!(is_good(&gate));
    drop(attack);
    wait_until("their bytes to be given back", || buffered(&gate) < 60_000);
    assert!(buffered(&gate) >= 30_000);
    patient.set_read_timeout(Some(std::time::Duration::from_millis(1))).unwrap();
    assert_eq!(patient.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    drop(patient);
    is_empty(&gate);
}

#[test]
fn a_record_that_does_not_end_is_counted() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, 512 * KIB).start();
    let name = ServerName::try_from("gate.example").unwrap();
    let mut connection = ClientConnection::new(Arc::new(AUTHORITY.client(&[b"http/1.1"])), name).unwrap();
    let mut socket = connect_from(ATTACKER, gate.production());
    connection.complete_io(&mut socket).unwrap();
    let mut record = Vec::new();
    connection.writer().write_all(&vec![b'x'; 16 << 10]).unwrap();
    connection.write_tls(&mut record).unwrap();
    for part in record[..12_000].chunks(3_000) {
        socket.write_all(part).unwrap();
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
    wait_until("its bytes to be counted", || buffered(&gate) >= 9_000);
    drop(socket);
    is_empty(&gate);
}

#[test]
fn idle_connections_of_http_2_are_bounded_by_address_and_told() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, 1024 * KIB).start();
    let mut patient = Two::over(Line::tls_from(NEIGHBOUR, gate.production(), b"h2"));
    assert_eq!(patient.ask(1, &read()).outcome(1), "200");
    wait_until("its connection to be counted", || buffered(&gate) >= 48 * KIB);
    let mut attack: Vec<Two> = (0..30).map(|_| Two::over(Line::tls_from(ATTACKER, gate.production(), b"h2"))).collect();
    // 1 MiB has room for twenty.
    wait_until("the others to be reset", || resets(&gate) >= 10);
    assert!(resets(&gate) <= 20 && buffered(&gate) <= 1024 * KIB);
    assert!(attack[0].until(|said| *said == Said::Away(11)).is_some());
    assert_eq!(patient.ask(3, &read()).outcome(3), "200");
    drop((attack, patient));
    is_empty(&gate);
}

#[test]
fn a_connection_keeps_counting_the_streams_that_it_had_at_once() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, 4096 * KIB).start();
    let mut refused = read();
    refused.retain(|(name, _)| *name != "authorization");
    let streams: Vec<u8> =
        (0..60).flat_map(|at| frame(HEADERS, END_HEADERS | END_STREAM, at * 2 + 1, &block(&refused))).collect();
    let mut line = Two::over(Line::tls_from(ATTACKER, gate.production(), b"h2"));
    line.send(&streams);
    for _ in 0..60 {
        assert!(line.until(|said| matches!(said, Said::Ended(_))).is_some());
    }
    wait_until("its requests to be over", || in_flight(&gate) == 0);
    wait_until("its places to be counted", || (48 * KIB + 60 * 1_280..160 * KIB).contains(&buffered(&gate)));
    drop(line);
    is_empty(&gate);
}

/// The caller permits the engine to send, and takes nothing: the answers stay in this machine's memory.
#[test]
fn answers_that_are_not_taken_are_counted() {
    let upstream = Upstream::start();
    upstream.always(Act::json(200, json!({ "records": [], "nextCursor": "x".repeat(56 * KIB) }).to_string()));
    let gate = gate(&upstream, 4096 * KIB).start();
    let wide = [frame(SETTINGS, 0, 0, &[0, 4, 0, 16, 0, 0]), frame(WINDOW_UPDATE, 0, 0, &[63, 0, 0, 0])].concat();
    let mut line = Line::tls_from(ATTACKER, gate.production(), b"h2");
    line.send([PREFACE, &wide].concat());
    let asked = block(&read());
    let mut streams = (0..600).map(|at| at * 2 + 1);
    wait_until("answers to be counted", || {
        if in_flight(&gate) < 24 {
            let more: Vec<u8> =
                streams.by_ref().take(8).flat_map(|at| frame(HEADERS, END_HEADERS | END_STREAM, at, &asked)).collect();
            line.send(more);
        }
        buffered(&gate) > 1024 * KIB
    });
    drop(line);
    is_empty(&gate);
}
