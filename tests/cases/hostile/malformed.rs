//! Every row of the table, over plain and TLS listeners, without and with a token.

use std::net::SocketAddr;

use super::line::{Line, with_tls};
use super::table::{self, Case};
use super::{descriptors_at_rest, wait_for_rest};
use crate::support::shape::ID;
use crate::support::token::bearer;
use crate::support::{Gate, Setup, Upstream};

/// The line that rows with a token have.
fn token_line() -> String {
    format!("Authorization: {}\r\n", bearer())
}

/// The bytes of a row.
fn bytes(text: &str, token: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['<', '|']) {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        if rest.as_bytes()[at] == b'|' {
            out.extend_from_slice(b"\r\n");
            rest = &rest[at + 1..];
        } else {
            let end = at + rest[at..].find('>').unwrap();
            out.extend(part(&rest[at + 1..end], token));
            rest = &rest[end + 1..];
        }
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

fn part(name: &str, token: &str) -> Vec<u8> {
    let read = format!("GET /v2/users HTTP/1.1\r\nHost: g\r\n{token}\r\n");
    match name {
        "h" => format!("Host: g\r\n{token}").into_bytes(),
        "t" => token.as_bytes().to_vec(),
        "j" => b"Content-Type: application/json\r\n".to_vec(),
        "id" => ID.as_bytes().to_vec(),
        // As many as fill a head up to this, with the line of the token or without.
        _ if name.starts_with("fill ") => {
            let count: usize = name["fill ".len()..].parse().unwrap();
            "a".repeat(count - token.len()).into_bytes()
        }
        _ => match (name.split_once('*'), name.split_once(' ')) {
            (Some((what, count)), _) => what.repeat(count.parse().unwrap()).into_bytes(),
            (_, Some((count, "reads"))) => read.repeat(count.parse().unwrap()).into_bytes(),
            (_, Some((count, "headers"))) => {
                let count: usize = count.parse().unwrap();
                (0..count).map(|at| format!("X-{at}: a\r\n")).collect::<String>().into_bytes()
            }
            _ => vec![u8::from_str_radix(name, 16).unwrap_or_else(|_| panic!("<{name}> means nothing"))],
        },
    }
}

/// What came of a row, in the words of the table.
fn outcome(line: &mut Line, bytes: &[u8]) -> String {
    line.send(bytes);
    let Some(told) = line.answer() else { return "close".to_owned() };
    let closes = if told.keeps { "" } else { " close" };
    if !told.keeps {
        assert!(line.ends(), "after {told:?}");
    }
    format!("{}{closes}", told.short())
}

/// Runs every row; what is wrong is told at once for all rows.
fn run(connect: fn(SocketAddr) -> Line, gate: &Gate, upstream: &Upstream, token: &str) {
    let mut wrong = Vec::new();
    for &(name, text, with, without) in table::all() {
        let expected = if token.is_empty() && without != "=" { without } else { with };
        let before = upstream.seen().len();
        let mut line = connect(gate.production());
        let outcome = outcome(&mut line, &bytes(text, token));
        let reached = upstream.seen().len() - before;
        let may_reach = usize::from(expected.starts_with("200"));
        if outcome != expected || reached != may_reach {
            wrong.push(format!("{name}: {outcome}, expected {expected}; {reached} reached upstream"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), table::all().count(), wrong.join("\n"));
}

/// How many rows may reach upstream with a token.
fn good() -> Vec<&'static Case> {
    table::all().filter(|(_, _, with, _)| with.starts_with("200")).collect()
}

fn assert_the_table_holds(connect: fn(SocketAddr) -> Line, setup: fn(Setup) -> Setup) {
    let upstream = Upstream::start();
    let gate =
        setup(Setup::of(&upstream).timeout_ms("head_ms", 300).timeout_ms("body_ms", 2000).timeout_ms("drain_ms", 300))
            .start();
    let base = descriptors_at_rest(&gate, &upstream);
    let with = token_line();
    for token in ["", with.as_str()] {
        run(connect, &gate, &upstream, token);
    }
    // Nothing hidden was executed, also not late: what upstream saw is exactly the good requests.
    let lines: Vec<String> = upstream.seen().iter().map(|seen| seen.line().to_owned()).collect();
    assert_eq!(lines.len(), good().len());
    let known = ["GET /v2/users".to_owned(), "GET /v2/users?limit=5".to_owned(), format!("POST /v2/users/{ID}")];
    assert!(lines.iter().all(|line| known.contains(line)), "{lines:?}");
    assert_nothing_of_the_caller_went_on(&upstream);
    let mut line = connect(gate.production());
    assert_eq!(outcome(&mut line, &bytes("GET /v2/users HTTP/1.1|<h>|", &token_line())), "200");
    drop(line);
    wait_for_rest(&gate, &upstream, base);
    assert!(!gate.has_ended());
}

/// Headers that upstream may see.
const KNOWN: [&str; 9] = [
    "accept",
    "accept-encoding",
    "authorization",
    "content-length",
    "content-type",
    "host",
    "traceparent",
    "user-agent",
    "x-request-id",
];

fn assert_nothing_of_the_caller_went_on(upstream: &Upstream) {
    for seen in upstream.seen() {
        for name in seen.head.names() {
            assert!(KNOWN.contains(&name.as_str()), "{name} in {:?}", seen.head.headers);
        }
        assert_eq!(seen.head.header("authorization").as_deref(), Some(bearer()));
        assert_eq!(seen.head.header("host"), Some(upstream.address().to_string()));
        assert!(seen.text().is_empty() || seen.text() == "{}", "{}", seen.text());
    }
}

#[test]
fn the_table_is_long_enough() {
    assert!(table::all().count() >= 150, "{}", table::all().count());
    let mut names: Vec<&str> = table::all().map(|(name, ..)| *name).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all, "a name appears twice");
    assert_eq!(good().len(), 37);
}

#[test]
fn the_table_holds_on_a_plain_listener() {
    assert_the_table_holds(Line::plain, |setup| setup);
}

#[test]
fn the_table_holds_through_tls() {
    assert_the_table_holds(Line::tls, with_tls);
}
