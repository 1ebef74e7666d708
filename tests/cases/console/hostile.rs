//! What else comes in at the console.

use std::io::Write as _;
use std::net::TcpStream;

use serde_json::json;

use super::{PEOPLE, act, ask, console, operator, swap, token_of, told};
use crate::cases::hostile::connections::connect_from;
use crate::support::clock::wait_until;
use crate::support::{Answer, Call, Caller, Gate, Setup, Upstream};

fn good() -> String {
    json!({"environment": "production", "scope": "all", "reason": "r"}).to_string()
}

fn start(upstream: &Upstream) -> Gate {
    console(Setup::of(upstream)).timeout_ms("body_ms", 300).start()
}

fn send(gate: &Gate, call: &Call) -> Answer {
    call.send(gate.console().unwrap())
}

fn freezes(gate: &Gate) -> usize {
    ask(gate, "GET", "freezes", &operator("o"), None).json()["freezes"].as_array().unwrap().len()
}

#[test]
fn bodies_that_are_not_what_the_document_says_do_nothing() {
    let upstream = Upstream::start();
    let gate = start(&upstream);
    let post = || act("POST", "freezes", &operator("ops-1"));
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    let twice = r#"{"environment":"production","scope":"all","scope":"all","reason":"r"}"#;
    let huge = format!(r#"{{"environment":"production","scope":"all","reason":"{}"}}"#, "r".repeat(400_000));
    for (what, call, expected) in [
        ("huge", post().json(&huge), (413, "BODY_TOO_LARGE")),
        ("huge in chunks", post().chunked(&huge, 16_384), (413, "BODY_TOO_LARGE")),
        ("deep", post().json(&deep), (400, "INVALID_JSON")),
        ("twice", post().json(twice), (400, "INVALID_JSON")),
        ("empty", post().json(""), (400, "INVALID_JSON")),
        ("trailing", post().json(format!("{}{{}}", good())), (400, "INVALID_JSON")),
        ("not UTF-8", post().json(b"{\"reason\":\"\xff\"}"), (400, "INVALID_JSON")),
        ("untyped", post().body(good()), (415, "UNSUPPORTED_MEDIA_TYPE")),
        (
            "a form",
            post().header("Content-Type", "application/x-www-form-urlencoded").body("reason=r"),
            (415, "UNSUPPORTED_MEDIA_TYPE"),
        ),
        ("a page's", post().header("Content-Type", "text/plain").body(good()), (415, "UNSUPPORTED_MEDIA_TYPE")),
        ("compressed", post().header("Content-Encoding", "gzip").json(good()), (415, "UNSUPPORTED_MEDIA_TYPE")),
    ] {
        let answer = send(&gate, &call);
        assert_eq!(told(&answer), (expected.0, expected.1.to_owned()), "{what}: {answer}");
    }
    for wrong in [
        json!([]),
        json!({}),
        json!({"environment": "production", "scope": "all"}),
        json!({"environment": "production", "scope": "all", "reason": ""}),
        json!({"environment": "production", "scope": "all", "reason": "   "}),
        json!({"environment": "production", "scope": "all", "reason": "a\nb"}),
        json!({"environment": "production", "scope": "all", "reason": "r".repeat(501)}),
        json!({"environment": "sandbox", "scope": "all", "reason": "not served here"}),
        json!({"environment": "production", "scope": "everything", "reason": "r"}),
        json!({"environment": "production", "scope": {}, "reason": "r"}),
        json!({"environment": "production", "scope": {"operation": "createSwap", "caller": {}}, "reason": "r"}),
        json!({"environment": "production", "scope": {"caller": {"issuer": "main"}}, "reason": "r"}),
        json!({"environment": "production", "scope": {"caller": {"issuer": "a/b", "subject": "c"}}, "reason": "r"}),
        json!({"environment": "production", "scope": "all", "reason": "r", "by": "somebody-else"}),
    ] {
        let answer = send(&gate, &post().json(wrong.to_string()));
        assert_eq!(told(&answer), (400, "INVALID_REQUEST".to_owned()), "{wrong}");
        assert!(!answer.violations().is_empty(), "{wrong}");
    }
    let resolve =
        |body: serde_json::Value| ask(&gate, "POST", "requests/production/x/resolve", &operator("o"), Some(body));
    for wrong in [
        json!({"outcome": "executed", "reason": "r"}),
        json!({"outcome": "absent", "record": {}, "reason": "r"}),
        json!({"outcome": "maybe", "reason": "r"}),
        json!({"outcome": "executed", "record": [], "reason": "r"}),
    ] {
        assert_eq!(told(&resolve(wrong.clone())), (400, "INVALID_REQUEST".to_owned()), "{wrong}");
    }
    assert_eq!(freezes(&gate), 0);
}

#[test]
fn addresses_have_one_reading_or_none() {
    let upstream = Upstream::start();
    let gate = start(&upstream);
    let token = operator("ops-1");
    for (method, target, expected) in [
        ("GET", "/sluice/v1/freezes/", 400),
        ("GET", "/sluice/v1//freezes", 400),
        ("GET", "/sluice/v1/../v1/freezes", 400),
        ("GET", "/sluice/v1/%66reezes", 400),
        ("GET", "/sluice/v1/freezes%2Flift", 400),
        ("GET", "/sluice/v1/freezes;x=y", 400),
        ("GET", "/SLUICE/v1/freezes", 404),
        ("GET", "/", 200),
        ("GET", "/sluice/v1/requests/production", 404),
        ("GET", "/sluice/v1/requests/production/a/b", 404),
        ("GET", "/sluice/v1/requests/production/..", 400),
        ("GET", "/sluice/v1/requests/production/a%2Fb", 400),
        ("GET", "/sluice/v1/requests/staging/a", 404),
        ("GET", "/sluice/v1/requests/production/a::b", 404),
        ("GET", "/sluice/v1/freezes?x=1", 400),
        ("DELETE", "/sluice/v1/freezes", 405),
        ("PUT", "/sluice/v1/freezes", 405),
        ("OPTIONS", "/sluice/v1/freezes", 405),
        ("HEAD", "/sluice/v1/freezes", 405),
        ("GET", "/sluice/v1/freezes/lift", 405),
        ("post", "/sluice/v1/freezes", 400),
    ] {
        let call = Call::new(method, target).without("Authorization");
        let call = call.header("Authorization", format!("Bearer {token}")).header("Connection", "close");
        let mut caller = Caller::connect(gate.console().unwrap());
        caller.send(call.bytes());
        let head = caller.head();
        assert_eq!(head.first.split(' ').nth(1), Some(expected.to_string().as_str()), "{method} {target}");
        assert_eq!(head.header("allow").is_some(), expected == 405, "{method} {target}");
    }
    for header in ["X-HTTP-Method-Override", "X-Method-Override", "X-HTTP-Method"] {
        let call = act("POST", "freezes/lift", &token).header(header, "GET").json(good());
        assert_eq!(send(&gate, &call).json()["changed"], false, "{header}");
        let call = act("GET", "freezes", &token).header(header, "POST");
        assert!(send(&gate, &call).json()["freezes"].is_array(), "{header}");
    }
    assert_eq!(freezes(&gate), 0);
}

#[test]
fn a_read_has_no_body_and_a_body_has_a_deadline() {
    let upstream = Upstream::start();
    let gate = start(&upstream);
    let read = act("GET", "freezes", &operator("o")).json(good());
    assert_eq!(told(&send(&gate, &read)), (400, "MALFORMED_REQUEST".to_owned()));
    let mut slow = Caller::connect(gate.console().unwrap());
    slow.send(
        act("POST", "freezes", &operator("o")).header("Content-Type", "application/json").body(good()).head_bytes(),
    );
    slow.send("{");
    assert_eq!(told(&slow.answer()), (408, "REQUEST_TIMEOUT".to_owned()));
    // Who may not do it is told so before the body comes.
    let mut early = Caller::connect(gate.console().unwrap());
    early.send(act("POST", "freezes", "x").header("Content-Type", "application/json").body(good()).head_bytes());
    assert_eq!(early.answer().status, 401);
    assert_eq!(freezes(&gate), 0);
}

#[test]
fn what_cannot_be_read_is_answered_in_shape() {
    let upstream = Upstream::start();
    let gate = start(&upstream);
    for bytes in ["GET /sluice/v1/freezes HTTP/1.1\r\n\r\n", "nonsense\r\n\r\n", "GET / HTTP/1.0\r\nHost: x\r\n\r\n"] {
        let mut caller = Caller::connect(gate.console().unwrap());
        caller.send(bytes);
        let answer = caller.answer();
        assert_eq!(told(&answer), (400, "MALFORMED_REQUEST".to_owned()), "{bytes:?}: {answer}");
        assert_eq!(caller.rest().unwrap(), b"", "{bytes:?}");
    }
}

#[test]
fn connections_are_used_again_and_requests_come_one_by_one() {
    let upstream = Upstream::start();
    let gate = start(&upstream);
    let mut caller = Caller::connect(gate.console().unwrap());
    for _ in 0..3 {
        caller.send(act("GET", "freezes", &operator("o")).bytes());
        assert_eq!(caller.answer().status, 200);
        caller.send(act("POST", "freezes/lift", &operator("o")).json(good()).bytes());
        assert_eq!(caller.answer().status, 200);
    }
    let two = [act("GET", "freezes", &operator("o")).bytes(), act("GET", "freezes", &operator("o")).bytes()].concat();
    let mut crowd = Caller::connect(gate.console().unwrap());
    crowd.send(two);
    let answer = crowd.answer();
    assert_eq!((answer.status, answer.header("connection").as_deref()), (200, Some("close")));
    assert_eq!(crowd.rest().unwrap(), b"", "the second one is not answered");
}

#[test]
fn every_answer_keeps_to_itself() {
    let upstream = Upstream::start();
    let gate = start(&upstream);
    for call in [
        act("GET", "freezes", &operator("o")).header("Origin", "https://evil.example"),
        act("GET", "freezes", "x").header("Origin", "https://evil.example"),
        act("OPTIONS", "freezes", "x").header("Access-Control-Request-Method", "POST"),
        act("GET", "openapi.json", "x"),
        act("GET", "nothing", "x"),
    ] {
        let answer = send(&gate, &call);
        for (name, value) in [
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("sluice-origin", "gateway"),
        ] {
            assert_eq!(answer.header(name).as_deref(), Some(value), "{answer}");
        }
        assert!(answer.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
        assert!(answer.header("x-request-id").is_some() && answer.header("access-control-allow-origin").is_none());
    }
}

#[test]
fn an_idle_connection_does_not_hold_the_process_back() {
    let upstream = Upstream::start();
    let gate = start(&upstream);
    let mut idle = Caller::connect(gate.console().unwrap());
    idle.send(act("GET", "freezes", &operator("o")).bytes());
    assert_eq!(idle.answer().status, 200);
    gate.terminate();
    assert!(gate.wait_end().success());
    assert_eq!(idle.rest().unwrap(), b"");
}

/// What came of an answer so far, without taking it.
fn begun(socket: &TcpStream) -> String {
    let mut bytes = [0; 12];
    socket.set_nonblocking(true).unwrap();
    let count = socket.peek(&mut bytes).unwrap_or(0);
    socket.set_nonblocking(false).unwrap();
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

#[test]
fn bodies_that_do_not_end_are_bounded_for_one_person_and_others_find_room() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).timeout_ms("body_ms", 60_000).start();
    let author = |name: &str| token_of(PEOPLE, name, &["policy-admin"]);
    let whole = act("POST", "policies/try", &author("pat")).json("x".repeat(4 << 20)).bytes();
    let open: Vec<TcpStream> = (0..5)
        .map(|_| {
            let mut socket = TcpStream::connect(gate.console().unwrap()).unwrap();
            // Where it is refused, the connection ends before all is written.
            drop(socket.write_all(&whole[..whole.len() - 1]));
            socket
        })
        .collect();
    // One person alone gets half of 16 MiB.
    wait_until("three to be refused", || open.iter().filter(|socket| begun(socket) == "HTTP/1.1 503").count() == 3);
    assert_eq!(open.iter().filter(|socket| begun(socket).is_empty()).count(), 2);
    let small = json!({"files": [{"name": "a.toml", "text": "x".repeat(1 << 20)}]});
    assert_ne!(ask(&gate, "POST", "policies/try", &author("quinn"), Some(small)).status, 503);
    let stop = json!({"environment": "production", "scope": "all", "reason": "r"});
    assert_eq!(ask(&gate, "POST", "freezes", &operator("ops-1"), Some(stop)).status, 201);
    drop(open);
    wait_until("their room to be free", || {
        ask(&gate, "POST", "policies/try", &author("pat"), Some(json!({"files": []}))).status != 503
    });
}

#[test]
fn answers_that_nobody_takes_are_bounded() {
    let upstream = Upstream::start();
    // The console has a third of the memory, and an answer counts as half of that at most.
    let most: usize = 640 << 10;
    let gate = console(Setup::of(&upstream)).limit("answer_bytes", most).limit("buffered_bytes", 3 * most).start();
    for nth in 0..300 {
        assert_eq!(swap(&format!("long-{nth}")).send(gate.production()).status, 200);
    }
    let export = |name: &str| {
        let viewer = token_of(PEOPLE, name, &["viewer"]);
        act("POST", "history/export", &viewer).json(json!({"format": "jsonl"}).to_string())
    };
    let stalled: Vec<TcpStream> = (0..6)
        .map(|_| {
            let mut socket = connect_from([127, 0, 0, 9], gate.console().unwrap());
            socket2::SockRef::from(&socket).set_recv_buffer_size(8 << 10).unwrap();
            socket.write_all(&export("vera").bytes()).unwrap();
            socket
        })
        .collect();
    let metric = |name: &str| gate.metric(&format!("{name}{{listener=\"console\"}}"));
    wait_until("most of them to be reset", || metric("sluice_connections_reset_total") >= 3);
    assert!(metric("sluice_buffered_bytes") <= u64::try_from(most).unwrap());
    let answer = send(&gate, &export("walt"));
    assert!(answer.status == 200 && answer.body.len() > 300 << 10, "{} {}", answer.status, answer.body.len());
    drop(stalled);
    wait_until("all bytes to be given back", || metric("sluice_buffered_bytes") == 0);
}
