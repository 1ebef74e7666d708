//! HTTP/2 through TLS, by frames written by hand.

pub(super) mod frames;

use std::time::Duration;

use frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, Headers, PREFACE, RESET, SETTINGS, Said, Two, block, frame,
    read, write,
};

use super::line::{Line, with_tls};
use super::{OPEN, descriptors_at_rest, wait_for_rest, wait_until};
use crate::support::clock::Watch;
use crate::support::shape::ID;
use crate::support::token::bearer;
use crate::support::{Act, Gate, Setup, Upstream};

fn gate(upstream: &Upstream) -> Gate {
    with_tls(Setup::of(upstream)).timeout_ms("head_ms", 500).timeout_ms("body_ms", 500).start()
}

/// Asked on a connection of its own.
fn outcome(gate: &Gate, headers: &[(&str, &str)]) -> String {
    Two::connect(gate).ask(1, headers).outcome(1)
}

#[test]
fn heads_are_as_strict_as_those_of_http_1() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let base = descriptors_at_rest(&gate, &upstream);
    let with = |more: &[(&'static str, &'static str)]| [read(), more.to_vec()].concat();
    let other = |at: usize, value: &'static str| {
        let mut headers = read();
        headers[at].1 = value;
        headers
    };
    let without = |at: usize| {
        let mut headers = read();
        headers.remove(at);
        headers
    };
    let long = "a".repeat(16_162 - bearer().len());
    let target = format!("/v2/users?limit={}", "0".repeat(4090));
    let rows: Vec<(&str, Headers<'_>, &[&str])> = vec![
        ("a read", read(), &["200"]),
        ("no token", without(4), &["401"]),
        ("two tokens", with(&[("authorization", "Bearer x")]), &["401", "400"]),
        ("a method in lower case", other(0, "get"), &["405"]),
        ("TRACE", other(0, "TRACE"), &["405"]),
        ("CONNECT with a path", other(0, "CONNECT"), &["reset 1", "400", "405"]),
        (
            "OPTIONS *",
            {
                let mut h = other(3, "*");
                h[0].1 = "OPTIONS";
                h
            },
            &["400"],
        ),
        ("dot segments", other(3, "/v2/../v2/users"), &["400"]),
        ("%2e%2e", other(3, "/v2/%2e%2e/users"), &["400"]),
        ("%2f", other(3, "/v2%2fusers"), &["400"]),
        ("//", other(3, "/v2//users"), &["400"]),
        ("a backslash", other(3, "/v2\\users"), &["400", "reset 1"]),
        // The library cuts it off before anything of the gate sees it; so it is neither decided on nor sent.
        ("a fragment", other(3, "/v2/users#x"), &["200"]),
        ("an absolute path", other(3, "http://g/v2/users"), &["400", "reset 1"]),
        ("a line in the path", other(3, "/v2/users\r\nX-A: b"), &["reset 1", "400"]),
        ("a space in the path", other(3, "/v2/users HTTP/1.1"), &["reset 1", "400"]),
        ("NUL in the path", other(3, "/v2/users\0"), &["reset 1", "400"]),
        ("no path", without(3), &["reset 1"]),
        ("an empty path", other(3, ""), &["reset 1"]),
        ("no method", without(0), &["reset 1"]),
        ("no scheme", without(1), &["reset 1"]),
        ("another scheme", other(1, "filex"), &["400"]),
        ("no authority", without(2), &["400"]),
        (
            "two paths",
            {
                let mut h = read();
                h.insert(1, (":path", "/v2/offramps"));
                h
            },
            &["reset 1"],
        ),
        (
            "an unknown pseudo header",
            {
                let mut h = read();
                h.insert(0, (":x", "y"));
                h
            },
            &["reset 1", "away 1"],
        ),
        (
            "a pseudo header of answers",
            {
                let mut h = read();
                h.insert(0, (":status", "200"));
                h
            },
            &["reset 1"],
        ),
        ("a pseudo header behind", with(&[(":path", "/v2/offramps")]), &["reset 1"]),
        ("a name in upper case", with(&[("X-Upper", "a")]), &["reset 1", "away 1"]),
        ("a name with a colon", with(&[("x:y", "a")]), &["reset 1", "away 1"]),
        ("a line in a value", with(&[("x-a", "b\r\nx-b: c")]), &["reset 1", "away 1"]),
        ("connection", with(&[("connection", "close")]), &["reset 1"]),
        ("transfer-encoding", with(&[("transfer-encoding", "chunked")]), &["reset 1"]),
        ("upgrade", with(&[("upgrade", "websocket")]), &["reset 1"]),
        ("keep-alive", with(&[("keep-alive", "1")]), &["reset 1"]),
        ("proxy-connection", with(&[("proxy-connection", "1")]), &["reset 1"]),
        ("te", with(&[("te", "gzip")]), &["reset 1"]),
        ("host and authority", with(&[("host", "other.example")]), &["400"]),
        ("two hosts", with(&[("host", "gate.example"), ("host", "gate.example")]), &["400"]),
        (
            "a long target",
            {
                let mut h = read();
                h[3].1 = &target;
                h
            },
            &["414"],
        ),
        ("a long head", [read(), vec![("x-long", long.as_str())]].concat(), &["431"]),
        ("many headers", [read(), vec![("x-a", "b"); 100]].concat(), &["431"]),
        (
            "a length without a body",
            {
                let mut h = read();
                h.push(("content-length", "2"));
                h
            },
            &["reset 1"],
        ),
        ("a length that is no number", with(&[("content-length", "x")]), &["reset 1", "400"]),
        (
            "internal headers",
            with(&[
                ("sluice-outcome", "executed"),
                ("x-forwarded-for", "1.1.1.1"),
                ("cookie", "a=b"),
                ("x-http-method-override", "DELETE"),
            ]),
            &["200"],
        ),
    ];
    let mut wrong = Vec::new();
    let mut good = 0;
    for (name, headers, expected) in &rows {
        let came = outcome(&gate, headers);
        if !expected.contains(&came.as_str()) {
            wrong.push(format!("{name}: {came}, expected {expected:?}"));
        }
        good += usize::from(expected.contains(&"200"));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert_eq!(upstream.seen().len(), good);
    for seen in upstream.seen() {
        assert_eq!(seen.line(), "GET /v2/users");
        for name in ["sluice-outcome", "x-forwarded-for", "cookie", "x-http-method-override"] {
            assert_eq!(seen.head.header(name), None);
        }
    }
    wait_for_rest(&gate, &upstream, base);
}

#[test]
fn bodies_are_as_long_as_they_say() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let path = format!("/v2/users/{ID}");
    let body = |two: &mut Two, pieces: &[&[u8]]| {
        for (at, piece) in pieces.iter().enumerate() {
            let last = if at + 1 == pieces.len() { END_STREAM } else { 0 };
            two.send(frame(DATA, last, 1, piece));
        }
        two.outcome(1)
    };
    let mut two = Two::connect(&gate);
    assert_eq!(body(two.begin(1, &write(&path, "2")), &[b"{", b"}"]), "200");
    for (what, length, pieces) in
        [("too long", "2", vec![&b"{} "[..]]), ("too short", "3", vec![&b"{}"[..]]), ("empty", "2", vec![&b""[..]])]
    {
        let mut two = Two::connect(&gate);
        let came = body(two.begin(1, &write(&path, length)), &pieces);
        assert!(["reset 1", "400"].contains(&came.as_str()), "{what}: {came}");
    }
    let mut two = Two::connect(&gate);
    assert_eq!(two.begin(1, &write(&path, "2000000")).outcome(1), "413");
    // A body of nothing but empty frames comes to no end, and is cut.
    let mut two = Two::connect(&gate);
    two.begin(1, &write(&path, "2"));
    let empty = frame(DATA, 0, 1, b"").repeat(1000);
    for _ in 0..20 {
        two.send(&empty);
    }
    let came = two.outcome(1);
    assert!(["408", "away 11"].contains(&came.as_str()), "{came}");
    assert_eq!(upstream.seen().len(), 1);
    wait_until("all to be gone", || gate.metric(OPEN) <= 5);
}

/// A server may take a field of a trailer for one of the head.
#[test]
fn trailers_are_refused() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let path = format!("/v2/users/{ID}");
    let counted = r#"sluice_unreadable_requests_total{listener="production",reason="trailers"}"#;
    let plain = |length: &'static str| [read(), vec![("content-length", length)]].concat();
    let announced = [write(&path, "2"), vec![("trailer", "x-a")]].concat();
    let unstated: Headers<'_> = write(&path, "2").into_iter().filter(|(name, _)| *name != "content-length").collect();
    let heads: [(&str, Headers<'_>, Option<&[u8]>); 7] = [
        ("a write", write(&path, "2"), Some(b"{}")),
        ("a write that announces them", announced, Some(b"{}")),
        ("a write of unknown length", unstated, Some(b"{}")),
        ("an empty write", write(&path, "0"), None),
        ("an empty write, with a piece", write(&path, "0"), Some(b"")),
        ("a read", read(), None),
        ("a read of length 0", plain("0"), Some(b"")),
    ];
    let mut wrong = Vec::new();
    for (what, head, body) in &heads {
        for trailer in [("x-a", "b"), ("content-length", "2"), ("authorization", "Bearer x"), (":path", "/v2/users")] {
            let mut two = Two::connect(&gate);
            two.begin(1, head);
            if let Some(body) = body {
                two.send(frame(DATA, 0, 1, body));
            }
            let came = two.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[trailer]))).outcome(1);
            if came != "400" && !(trailer.0.starts_with(':') && came == "reset 1") {
                wrong.push(format!("{what}, {trailer:?}: {came}"));
            }
            // The connection goes on.
            let next = two.ask(3, &read()).outcome(3);
            if next != "200" {
                wrong.push(format!("{what}, {trailer:?}: the next read got {next}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(upstream.seen().iter().all(|seen| seen.head.first.starts_with("GET")), "a write was sent");
    assert!(gate.metric(counted) >= 20, "{}", gate.metric(counted));
    // A request may end behind its head and its body.
    for head in [plain("0"), write(&path, "2")] {
        let (mut two, is_read) = (Two::connect(&gate), head[0].1 == "GET");
        two.begin(1, &head).send(frame(DATA, 0, 1, if is_read { b"" } else { b"{}" }));
        assert_eq!(two.send(frame(DATA, END_STREAM, 1, b"")).outcome(1), "200");
    }
}

/// A client takes what follows the head for the next answer's, or for an error of the protocol.
#[test]
fn an_answer_to_a_head_request_has_no_body() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let mut head = read();
    head[0].1 = "HEAD";
    let mut two = Two::connect(&gate);
    assert_eq!(two.ask(1, &head).outcome(1), "405");
    assert_eq!((two.until(|said| *said == Said::Ended(1)), two.body_bytes()), (Some(Said::Ended(1)), 0));
    assert_eq!(two.ask(3, &read()).outcome(3), "200");
    assert!(two.until(|said| *said == Said::Ended(3)).is_some() && two.body_bytes() > 0);
}

#[test]
fn floods_end_their_own_connection_and_nobody_elses() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let base = descriptors_at_rest(&gate, &upstream);
    let mut good = Two::connect(&gate);
    let mut stream = 1;
    let request = block(&read());
    type Flood<'f> = (&'f str, Box<dyn Fn(u32) -> Vec<u8> + 'f>);
    let floods: Vec<Flood<'_>> = vec![
        (
            "resets",
            Box::new(|at| {
                let stream = at * 2 + 1;
                [frame(HEADERS, END_HEADERS | END_STREAM, stream, &request), frame(RESET, 0, stream, &[0, 0, 0, 8])]
                    .concat()
            }),
        ),
        (
            "a block without an end",
            Box::new(|at| match at {
                0 => frame(HEADERS, END_STREAM, 1, &request),
                _ => frame(CONTINUATION, 0, 1, &block(&[("x-a", "b")])),
            }),
        ),
        (
            "an empty block without an end",
            Box::new(|at| match at {
                0 => frame(HEADERS, END_STREAM, 1, &request),
                _ => frame(CONTINUATION, 0, 1, b""),
            }),
        ),
        (
            "heads that are malformed",
            Box::new(|at| frame(HEADERS, END_HEADERS | END_STREAM, at * 2 + 1, &block(&[("connection", "x")]))),
        ),
    ];
    for (what, flood) in &floods {
        let mut two = Two::connect(&gate);
        for at in 0..20_000 {
            two.send(flood(at));
            if at % 64 == 0 && gate.has_ended() {
                break;
            }
        }
        let ended = two.until(|said| matches!(said, Said::Away(1..)));
        assert!(matches!(ended, Some(Said::Away(_)) | None), "{what}: {ended:?}");
        good.ask(stream, &read());
        assert_eq!(good.outcome(stream), "200", "beside {what}");
        stream += 2;
    }
    drop(good);
    assert_eq!(outcome(&gate, &read()), "200");
    wait_for_rest(&gate, &upstream, base);
}

#[test]
fn streams_at_one_time_and_requests_in_all_are_bounded() {
    let upstream = Upstream::start();
    let gate =
        with_tls(Setup::of(&upstream)).limit("streams_per_connection", 2).limit("requests_per_connection", 5).start();
    let go = crate::support::shared::Signal::new();
    upstream.next(Act::done(200).after(&go)).next(Act::done(200).after(&go));
    let mut two = Two::connect(&gate);
    two.ask(1, &read()).ask(3, &read());
    upstream.wait_for(1);
    assert_eq!(two.ask(5, &read()).outcome(5), "reset 7");
    go.give();
    let mut answered = 0;
    while answered < 2 {
        answered += usize::from(matches!(two.said(), Some(Said::Status(1 | 3, 200))));
    }
    // The fourth and fifth request are answered, then the gate says that it is enough.
    for stream in [7, 9] {
        two.ask(stream, &read());
    }
    assert!(two.until(|said| matches!(said, Said::Away(0))).is_some(), "five requests were not enough");
    while two.said().is_some() {}
    wait_until("the connection to end", || gate.metric(OPEN) == 0);
}

#[test]
fn slow_frames_are_cut_however_steadily_they_come() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let request = frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&read()));
    let slow = r#"sluice_unreadable_requests_total{listener="production",reason="head_slow"}"#;
    for (what, before, drip) in [
        ("nothing", Vec::new(), Vec::new()),
        ("the preface", Vec::new(), PREFACE[..23].to_vec()),
        ("a head", [PREFACE, &frame(SETTINGS, 0, 0, b"")].concat(), request),
        (
            "a block",
            [PREFACE, &frame(SETTINGS, 0, 0, b""), &frame(HEADERS, END_STREAM, 1, &block(&read()))].concat(),
            frame(CONTINUATION, 0, 1, b"").repeat(200),
        ),
    ] {
        let counted = gate.metric(slow);
        let mut line = Line::tls_with(gate.production(), b"h2");
        line.send(&before);
        wait_until("the connection to be there", || gate.metric(OPEN) == 1);
        for byte in &drip {
            if gate.metric(OPEN) == 0 {
                break;
            }
            line.send([*byte]);
            std::thread::park_timeout(std::time::Duration::from_millis(10));
        }
        wait_until("the slow one to be cut", || gate.metric(OPEN) == 0);
        assert_eq!(gate.metric(slow), counted + u64::from(!drip.is_empty()), "{what}");
    }
    assert!(upstream.seen().is_empty());
}

/// It gives no room for answers, never answers a PING, so that it is never told which of its requests is the last, and asks on.
#[test]
fn who_asks_on_does_not_keep_a_gate_from_its_end() {
    let upstream = Upstream::start();
    let gate = with_tls(Setup::of(&upstream)).timeout_ms("client_write_ms", 2_000).start().ready();
    let (mut caller, mut stream) = (Two::connect(&gate), 1);
    let no_window = [0, 4, 0, 0, 0, 0];
    caller.send(frame(SETTINGS, 0, 0, &no_window));
    let mut ask = || {
        caller.ask(stream, &read());
        stream += 2;
    };
    ask();
    wait_until("a request to be open", || gate.metric(OPEN) > 0);
    let watch = Watch::start();
    gate.terminate();
    while !gate.has_ended() {
        ask();
        assert!(watch.elapsed().as_secs() < 20, "the gate has not ended");
        std::thread::park_timeout(Duration::from_millis(200));
    }
    assert_eq!(gate.wait_end().code(), Some(0));
}
