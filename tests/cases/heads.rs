//! Heads that mean two things, or nothing: refused before upstream.

use crate::support::shape::{ID, shape};
use crate::support::token::token;
use crate::support::{Answer, Call, Caller, Setup, Upstream, get, post};

#[test]
fn a_target_has_one_reading_or_none() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    for target in [
        "/v2//offramps",
        "/v2/../v2/offramps",
        "/v2/./offramps",
        "/v2/offramps%2f",
        "/v2/%6ffframps",
        "/v2\\offramps",
        "/v2/offramps;a=b",
        "/v2/offramps/..",
        "/v2/users/%2e%2e/kyc/status",
        "http://other.example/v2/offramps",
        "http://gate.example/v2/offramps",
    ] {
        let answer = get(target).send(gate.production());
        let told = (answer.status, answer.code(), shape(&answer.json()));
        assert_eq!(told, (400, "MALFORMED_REQUEST".to_owned(), "C"), "{target}: {answer}");
    }
    let long = get(format!("/v2/offramps?userId={}", "a".repeat(4096))).send(gate.production());
    assert_eq!((long.status, long.code().as_str()), (414, "TARGET_TOO_LONG"));
    assert!(upstream.seen().is_empty());
}

#[test]
fn unknown_paths_and_methods_are_told_apart() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    for target in ["/", "/v2", "/v2/offramps/", "/V2/offramps", "/tos-link", "/metrics", "/sluice/v1/freezes"] {
        let answer = get(target).send(gate.production());
        let told = (answer.status, answer.code(), shape(&answer.json()), answer.origin());
        assert_eq!(told, (404, "OPERATION_NOT_FOUND".to_owned(), "B", "gateway".to_owned()), "{target}");
    }
    for (method, target, allow) in [
        ("DELETE", "/v2/offramps", "GET, POST"),
        ("HEAD", "/v2/offramps", "GET, POST"),
        ("OPTIONS", "/v2/offramps", "GET, POST"),
        ("TRACE", "/v2/users", "GET"),
        ("GET", "/v2/wallets/swaps", "POST"),
        ("PATCH", &format!("/v2/users/{ID}"), "POST"),
    ] {
        let mut caller = Caller::connect(gate.production());
        caller.send(Call::new(method, target).bytes());
        let head = caller.head();
        assert!(head.first.starts_with("HTTP/1.1 405 "), "{method} {target}: {head:?}");
        assert_eq!(head.header("allow").as_deref(), Some(allow));
    }
    assert!(upstream.seen().is_empty());
}

#[test]
fn one_readable_bearer_token_is_needed() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let bare = || get("/v2/users").without("Authorization");
    for call in [
        bare(),
        bare().header("Authorization", ""),
        bare().header("Authorization", "Basic YTpi"),
        bare().header("Authorization", "Bearer"),
        bare().header("Authorization", "Bearer a b"),
        bare().header("Authorization", "Bearer a, Bearer b"),
    ] {
        let answer = call.send(gate.production());
        let told = (answer.status, answer.code(), shape(&answer.json()), answer.header("www-authenticate"));
        assert_eq!(told, (401, "UNAUTHORIZED".to_owned(), "A", Some("Bearer".to_owned())), "{call:?}");
    }
    let twice = get("/v2/users").header("authorization", "Bearer other").send(gate.production());
    assert_eq!((twice.status, twice.code().as_str()), (400, "MALFORMED_REQUEST"));
    let write = post(format!("/v2/users/{ID}")).without("Authorization").json("{}").send(gate.production());
    assert_eq!((write.status, write.outcome().as_str()), (401, "not-executed"));
    let claimed = post("/v2/wallets/swaps").without("Authorization").json("{}").send(gate.production());
    assert_eq!((claimed.status, claimed.outcome().as_str()), (401, "unknown"));
    assert!(upstream.seen().is_empty());
}

/// Sends raw bytes, and hangs up the sending side.
fn raw(gate: std::net::SocketAddr, bytes: &str) -> Option<Answer> {
    let mut caller = Caller::connect(gate);
    drop(caller.try_send(bytes));
    caller.end_sending();
    caller.try_answer().ok()
}

#[test]
fn framing_with_two_readings_reaches_nobody() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).timeout_ms("body_ms", 1000).timeout_ms("drain_ms", 300).start();
    let head = |lines: &str, body: &str| {
        let token = token();
        format!(
            "POST /v2/users/{ID} HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n{lines}\r\n{body}"
        )
    };
    let smuggled = format!("GET /v2/users HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {}\r\n\r\n", token());
    for (what, bytes) in [
        (
            "length and chunked",
            head("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", &format!("0\r\n\r\n{smuggled}")),
        ),
        ("two lengths", head("Content-Length: 2\r\nContent-Length: 3\r\n", "{} ")),
        ("a list of lengths", head("Content-Length: 2, 3\r\n", "{} ")),
        ("signed length", head("Content-Length: +2\r\n", "{}")),
        ("negative length", head("Content-Length: -2\r\n", "{}")),
        ("gzip, chunked", head("Transfer-Encoding: gzip, chunked\r\n", "2\r\n{}\r\n0\r\n\r\n")),
        ("chunked, gzip", head("Transfer-Encoding: chunked, gzip\r\n", "2\r\n{}\r\n0\r\n\r\n")),
        ("chunked twice", head("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n")),
        ("xchunked", head("Transfer-Encoding: xchunked\r\n", "2\r\n{}\r\n0\r\n\r\n")),
        ("identity", head("Transfer-Encoding: identity\r\n", "{}")),
        ("space before the colon", head("Content-Length : 2\r\n", "{}")),
        ("folded header", head("Content-Length: 2\r\nX-A: b\r\n c\r\n", "{}")),
        ("no host", head("Content-Length: 2\r\n", "{}").replace("Host: g\r\n", "")),
        ("two hosts", head("Content-Length: 2\r\nHost: h\r\n", "{}")),
    ] {
        let answer = raw(gate.production(), &bytes);
        let status = answer.as_ref().map_or(0, |a| a.status);
        assert!(matches!(status, 0 | 400), "{what}: {status}");
        assert!(upstream.seen().is_empty(), "{what}: {:?}", upstream.seen());
    }
}

#[test]
fn what_is_no_http_is_answered_shortly_and_closed() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    for bytes in
        ["nonsense\r\n\r\n", "GET\r\n\r\n", "GET /v2/users HTTP/1.1\r\nno colon\r\n\r\n", "\x16\x03\x01\x02\x00"]
    {
        if let Some(answer) = raw(gate.production(), bytes) {
            assert_eq!(answer.status, 400, "{bytes:?}");
        }
    }
    assert!(upstream.seen().is_empty());
    assert_eq!(get("/v2/users").send(gate.production()).status, 200);
}

#[test]
fn a_head_is_taken_up_to_its_limit() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let with = |size: usize| get("/v2/users").header("X-Long", "a".repeat(size)).send(gate.production());
    assert_eq!(with(15 * 1024).status, 200);
    for size in [16 * 1024, 64 * 1024, 200 * 1024] {
        let answer = with(size);
        let told = (answer.status, answer.code(), shape(&answer.json()));
        assert_eq!(told, (431, "HEAD_TOO_LARGE".to_owned(), "C"), "{size}");
    }
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn an_upgrade_goes_no_further() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let call = get("/v2/users")
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Key", "x");
    let answer = call.send(gate.production());
    assert!(matches!(answer.status, 200 | 400), "{answer}");
    for seen in upstream.seen() {
        assert_eq!((seen.head.header("upgrade"), seen.head.header("sec-websocket-key")), (None, None));
    }
}

#[test]
fn another_version_is_refused_in_words() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    for version in ["HTTP/1.0", "HTTP/2.0", "HTTP/0.9", "http/1.1", "HTTP/1.2"] {
        let request = format!("GET /v2/users {version}\r\nHost: g\r\nAuthorization: Bearer {}\r\n\r\n", token());
        let answer = Caller::connect(gate.production()).send(request).answer();
        assert_eq!((answer.status, answer.code().as_str()), (400, "MALFORMED_REQUEST"), "{version}: {answer}");
    }
    assert!(upstream.seen().is_empty());
}

#[test]
fn calls_that_follow_at_once_are_answered_in_order() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let write = post(format!("/v2/users/{ID}")).json("{}");
    let mut caller = Caller::connect(gate.production());
    caller.send([write.bytes(), get("/nowhere").bytes(), write.bytes(), get("/v2/users").bytes()].concat());
    let mut answered = Vec::new();
    while let Ok(answer) = caller.try_answer() {
        answered.push(answer.status);
        if answered.len() == 4 {
            break;
        }
    }
    // An engine may close after the first; it may not mix them up.
    assert!([200, 404, 200, 200].starts_with(&answered), "{answered:?}");
    assert!(!answered.is_empty());
}
