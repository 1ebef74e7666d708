//! Whatever upstream does, the caller hears it in the API's shapes, in time, with the outcome as far as it is known.

mod reads;
mod writes;

use std::time::Duration;

use serde_json::Value;

use crate::support::upstream::answer;
use crate::support::{Act, Gate, Setup, Upstream};

/// `timeouts.answer_ms`, the longest that anything in these tables may take.
const ANSWER_MS: u64 = 400;
/// What no rebuilt answer may repeat.
const INNER: &str = "at pg-host.internal";

fn gate(upstream: &Upstream) -> Setup {
    Setup::of(upstream)
        .timeout_ms("answer_ms", ANSWER_MS)
        .timeout_ms("connect_ms", ANSWER_MS)
        .limit("answer_bytes", 2048)
}

/// Past this, an answer is late.
fn in_time() -> Duration {
    Duration::from_millis(ANSWER_MS + 500)
}

const A: &str = r#" {"code":500,"error":"X","errorDetails":"y"} "#;
const B: &str = r#" {"status":"error","error":{"code":"X","message":"y"}} "#;
const C: &str = r#" {"status":"error","error":{"code":"X","message":"y","details":{"a":1}}} "#;
const D: &str = r#" {"error":"Invalid API key"} "#;

fn html(status: u16) -> Act {
    let body = format!("<h1>Error</h1> {INNER}");
    let head = format!("HTTP/1.1 {status} {INNER}\r\nContent-Type: text/html\r\nX-Debug: {INNER}\r\n");
    Act::bytes(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()))
}

/// A head that promises more than comes.
fn half_body(status: u16) -> Act {
    cut_after(status, &format!("{{\"half\": \"{INNER}"))
}

fn cut_after(status: u16, beginning: &str) -> Act {
    Act::bytes(format!(
        "HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{beginning}"
    ))
}

fn head_only(status: u16) -> Act {
    Act::bytes(format!("HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"))
}

fn chunked(status: u16, body: &str) -> Act {
    let head =
        format!("HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunk = if body.is_empty() { String::new() } else { format!("{:x}\r\n{body}\r\n", body.len()) };
    Act::bytes(format!("{head}{chunk}0\r\n\r\n"))
}

/// A body that ends with its connection.
fn unframed(status: u16, body: &str) -> Act {
    Act::bytes(format!("HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{body}"))
        .close()
}

fn gzip(status: u16) -> Act {
    let headers = [("Content-Type", "application/json"), ("Content-Encoding", "gzip"), ("X-Debug", INNER)];
    Act::bytes(answer(status, &headers, b"\x1f\x8b\x08 not really"))
}

fn redirect() -> Act {
    let headers = [("Location", "http://127.0.0.1:1/elsewhere"), ("Content-Type", "text/html")];
    Act::bytes(answer(302, &headers, INNER.as_bytes()))
}

fn problem(status: u16) -> Act {
    Act::answer(status, "application/problem+json", format!(r#"{{"title":"{INNER}"}}"#))
}

fn garbage() -> Act {
    Act::bytes("220 mail.example ESMTP\r\n\r\n").close()
}

fn half_head() -> Act {
    Act::bytes("HTTP/1.1 200 OK\r\nContent-Ty").close()
}

/// A gate in front of an upstream, one row after the other.
struct Bench {
    gate: Gate,
    upstream: Upstream,
}

/// All that was otherwise than expected in a table.
#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn unless(&mut self, holds: bool, told: impl FnOnce() -> String) {
        if !holds {
            self.0.push(told());
        }
    }

    fn assert_none(&self) {
        assert!(self.0.is_empty(), "\n{}", self.0.join("\n"));
    }
}

/// What of upstream's inner workings an answer repeats.
fn leaked(text: &str) -> Option<&'static str> {
    ["pg-host", ".internal", "<h1>", "elsewhere", "127.0.0.1"].into_iter().find(|inner| text.contains(inner))
}

fn is_json(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_default()
}
