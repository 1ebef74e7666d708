//! HTTP/2 through TLS, by frames written by hand.

use super::line::{Line, with_tls};
use super::{OPEN, descriptors_at_rest, wait_for_rest, wait_until};
use crate::support::shape::ID;
use crate::support::{Act, Gate, Setup, Upstream};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Headers as HPACK writes them at its plainest: no table, no Huffman.
fn block(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in headers {
        out.push(0);
        for text in [name, value] {
            length(text.len(), &mut out);
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

/// A length with a prefix of seven bits.
fn length(mut rest: usize, out: &mut Vec<u8>) {
    if rest < 127 {
        out.push(u8::try_from(rest).unwrap());
        return;
    }
    out.push(127);
    rest -= 127;
    while rest >= 128 {
        out.push(u8::try_from(rest % 128).unwrap() | 128);
        rest /= 128;
    }
    out.push(u8::try_from(rest).unwrap());
}

type Headers<'h> = Vec<(&'h str, &'h str)>;

fn read<'h>() -> Headers<'h> {
    vec![
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "gate.example"),
        (":path", "/v2/users"),
        ("authorization", "Bearer t.o.k"),
    ]
}

fn write<'h>(path: &'h str, length: &'h str) -> Headers<'h> {
    let mut headers = read();
    headers[0].1 = "POST";
    headers[3].1 = path;
    headers.extend([("content-type", "application/json"), ("content-length", length)]);
    headers
}

/// What the gate said on a stream or on the whole connection.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    /// The status of an answer, if it is in HPACK's static table or written out.
    Status(u32, u16),
    Reset(u32, u32),
    Away(u32),
    Pong,
    Ended(u32),
}

struct Two {
    line: Line,
}

impl Two {
    fn connect(gate: &Gate) -> Two {
        let mut line = Line::tls_with(gate.production(), b"h2");
        line.send([PREFACE, &frame(SETTINGS, 0, 0, b"")].concat());
        Two { line }
    }

    fn send(&mut self, frames: impl AsRef<[u8]>) -> &mut Two {
        self.line.send(frames);
        self
    }

    fn ask(&mut self, stream: u32, headers: &[(&str, &str)]) -> &mut Two {
        self.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(headers)))
    }

    fn begin(&mut self, stream: u32, headers: &[(&str, &str)]) -> &mut Two {
        self.send(frame(HEADERS, END_HEADERS, stream, &block(headers)))
    }

    /// The next thing said; `None` when the connection has ended.
    fn said(&mut self) -> Option<Said> {
        loop {
            let head = self.line.wire().exactly(9).ok()?;
            let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let payload = self.line.wire().exactly(length).ok()?;
            let code = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
            match (head[3], head[4]) {
                (HEADERS, _) => return Some(Said::Status(stream, status(&payload))),
                (DATA, flags) if flags & END_STREAM != 0 => return Some(Said::Ended(stream)),
                (RESET, _) => return Some(Said::Reset(stream, code(0))),
                (GOAWAY, _) => return Some(Said::Away(code(4))),
                (SETTINGS, 0) => drop(self.send(frame(SETTINGS, ACK, 0, b""))),
                (PING, flags) if flags & ACK != 0 => return Some(Said::Pong),
                (PING, _) => drop(self.send(frame(PING, ACK, 0, &payload))),
                _ => {}
            }
        }
    }

    /// The first thing said of this kind.
    fn until(&mut self, is_it: impl Fn(&Said) -> bool) -> Option<Said> {
        loop {
            let said = self.said()?;
            if is_it(&said) {
                return Some(said);
            }
        }
    }

    /// How a stream ends: its status, or how it was reset; or how the connection ended instead.
    fn outcome(&mut self, stream: u32) -> String {
        match self.until(|said| {
            matches!(said, Said::Status(s, _) | Said::Reset(s, _) if *s == stream) || matches!(said, Said::Away(1..))
        }) {
            Some(Said::Status(_, status)) => status.to_string(),
            Some(Said::Reset(_, code)) => format!("reset {code}"),
            Some(Said::Away(code)) => format!("away {code}"),
            _ => "end".to_owned(),
        }
    }
}

/// The status is the first field of an answer.
fn status(block: &[u8]) -> u16 {
    match block.first().map(|first| first & 0x7f) {
        Some(at @ 8..=14) if block[0] & 0x80 != 0 => [200, 204, 206, 304, 400, 404, 500][usize::from(at) - 8],
        _ => {
            // A literal with the name `:status` of the table, and a value that may be Huffman: digits alone then.
            let (huffman, length) = (block[1] & 0x80 != 0, usize::from(block[1] & 0x7f));
            let value = &block[2..2 + length];
            if huffman { digits(value) } else { String::from_utf8_lossy(value).parse().unwrap_or(0) }
        }
    }
}

/// Digits in HPACK's Huffman code: 0 to 2 take five bits, 3 to 9 six.
fn digits(value: &[u8]) -> u16 {
    let bits: String = value.iter().map(|byte| format!("{byte:08b}")).collect();
    let (mut at, mut number) = (0, 0);
    for _ in 0..3 {
        let five = u16::from_str_radix(&bits[at..at + 5], 2).unwrap();
        if five <= 2 {
            number = number * 10 + five;
            at += 5;
        } else {
            number = number * 10 + u16::from_str_radix(&bits[at..at + 6], 2).unwrap() - 0x19 + 3;
            at += 6;
        }
    }
    number
}

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
    let long = "a".repeat(16_150);
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
        ("an absolute path", other(3, "http://g/v2/users"), &["400", "reset 1"]),
        ("a line in the path", other(3, "/v2/users\r\nX-A: b"), &["reset 1", "400"]),
        ("a space in the path", other(3, "/v2/users HTTP/1.1"), &["reset 1", "400"]),
        ("NUL in the path", other(3, "/v2/users\0"), &["reset 1", "400"]),
        ("no path", without(3), &["reset 1"]),
        ("an empty path", other(3, ""), &["reset 1"]),
        ("no method", without(0), &["reset 1"]),
        ("no scheme", without(1), &["reset 1"]),
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
    upstream.next(Act::json(200, "{}").after(&go)).next(Act::json(200, "{}").after(&go));
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
        ("the preface", Vec::new(), PREFACE.repeat(100)),
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
