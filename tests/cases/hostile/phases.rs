//! Callers who leave, half-close, send too early or never read, in each phase of a request.

use super::line::{Line, with_tls};
use super::{OPEN, descriptors_at_rest, wait_for_rest, wait_until};
use crate::support::shape::{ID, odd_answer, operation};
use crate::support::shared::Signal;
use crate::support::token::bearer;
use crate::support::upstream::answer;
use crate::support::{Act, Caller, Gate, Setup, Upstream, get, post};

fn update() -> crate::support::Call {
    post(format!("/v2/users/{ID}"))
}

fn unreadable(gate: &Gate, reason: &str) -> u64 {
    gate.metric(&format!(r#"sluice_unreadable_requests_total{{listener="production",reason="{reason}"}}"#))
}

fn assert_all_gone(gate: &Gate) {
    wait_until("every connection to end", || gate.metric(OPEN) == 0);
}

/// An answer of this size, valid for the list of users and for the update of one.
fn large(size: usize) -> Act {
    let mut page: serde_json::Value = serde_json::from_slice(&odd_answer(operation("listUsers"))).unwrap();
    page["id"] = crate::support::shape::ID.into();
    let mut body = page.to_string().into_bytes();
    body.resize(size, b' ');
    Act::json(200, body)
}

#[test]
fn a_body_is_asked_for_only_when_its_head_is_good() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).timeout_ms("drain_ms", 300).start();
    let expecting = |call: crate::support::Call| call.header("Expect", "100-continue");
    for (status, call) in [
        (401, update().without("Authorization").json("{}")),
        (401, update().without("Authorization").header("Authorization", "Bearer a b").json("{}")),
        (415, update().header("Content-Type", "text/plain").body("{}")),
        (415, update().header("Content-Encoding", "gzip").json("{}")),
        (413, update().header("Content-Type", "application/json").header("Content-Length", "1048577")),
        (404, post("/v2/nothing").json("{}")),
        (405, post("/v2/users").json("{}")),
        (400, post("/v2//users").json("{}")),
        (400, update().header("Upgrade", "x").json("{}")),
        (400, update().json("{}").header("Transfer-Encoding", "chunked")),
        (400, get("/v2/users").json("{}")),
    ] {
        let mut caller = Caller::connect(gate.production());
        let head = caller.send(expecting(call).head_bytes()).head();
        assert!(head.first.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {head:?}");
        assert_eq!(head.header("connection").as_deref(), Some("close"), "{head:?}");
    }
    assert!(upstream.seen().is_empty());
    let call = expecting(update().json("{}"));
    let mut caller = Caller::connect(gate.production());
    assert_eq!(caller.send(call.head_bytes()).head().first, "HTTP/1.1 100 Continue");
    assert_eq!(caller.send(call.body_bytes()).answer().status, 200);
    // Asking did not cost the connection.
    assert_eq!(call.over(&mut caller).status, 200);
}

#[test]
fn who_ends_only_the_sending_side_gets_the_answer() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    for call in [get("/v2/users"), update().json("{}")] {
        let (go, at) = (Signal::new(), upstream.seen().len());
        upstream.next(Act::done(200).after(&go));
        let mut caller = Caller::connect(gate.production());
        caller.send(call.bytes()).end_sending();
        upstream.wait_for(at);
        // By now the gate has met the end of what this caller sends, or meets it while it waits.
        go.give();
        assert_eq!(caller.answer().status, 200);
        assert!(caller.rest().unwrap().is_empty());
    }
    for (reason, bytes) in
        [("head_cut", b"GET /v2/users HTTP/1.1\r\nHost: g\r\n".to_vec()), ("head_cut", b"GET".to_vec())]
    {
        let before = unreadable(&gate, reason);
        let mut caller = Caller::connect(gate.production());
        caller.send(bytes).end_sending();
        assert_eq!(caller.answer().status, 400);
        assert_eq!(unreadable(&gate, reason), before + 1);
    }
    for (call, keep) in [(update().json(r#"{"a":1}"#), 3), (update().chunked(r#"{"a":1}"#, 2), 8)] {
        let mut caller = Caller::connect(gate.production());
        caller.send(call.head_bytes()).send(&call.body_bytes()[..keep]).end_sending();
        assert_eq!(caller.answer().status, 400);
    }
    assert_eq!(upstream.seen().len(), 2);
    assert_all_gone(&gate);
}

#[test]
fn who_leaves_in_any_phase_leaves_nothing_behind() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).timeout_ms("answer_ms", 2000).start();
    let base = descriptors_at_rest(&gate, &upstream);
    let write = update().json(r#"{"a":1}"#);
    let phases: Vec<(&str, Vec<u8>)> = vec![
        ("nothing sent", Vec::new()),
        ("inside the request line", b"GET /v2".to_vec()),
        ("inside the head", b"GET /v2/users HTTP/1.1\r\nHost:".to_vec()),
        ("before the body", write.head_bytes()),
        ("inside the body", [write.head_bytes(), b"{\"a".to_vec()].concat()),
        ("inside a chunk", [update().chunked(r#"{"a":1}"#, 7).head_bytes(), b"7\r\n{".to_vec()].concat()),
        ("before the answer", write.bytes()),
        ("before the answer to a read", get("/v2/users").bytes()),
    ];
    for hard in [false, true] {
        for (what, bytes) in &phases {
            let mut caller = Caller::connect(gate.production());
            caller.send(bytes);
            if hard {
                caller.reset()
            } else {
                drop(caller)
            }
            assert!(!gate.has_ended(), "{what}");
        }
    }
    // In the middle of an answer that does not fit between.
    for hard in [false, true] {
        upstream.next(large(32 << 20));
        let mut caller = Caller::connect(gate.production());
        caller.send(get("/v2/users").bytes()).head();
        if hard { caller.reset() } else { drop(caller) }
    }
    assert_all_gone(&gate);
    // A reset meets what upstream still holds open, too.
    upstream.forget();
    assert_eq!(update().json("{}").send(gate.production()).status, 200);
    wait_for_rest(&gate, &upstream, base);
}

#[test]
fn who_never_reads_is_cut() {
    type Shape = (fn(Setup) -> Setup, fn(std::net::SocketAddr) -> Line);
    let shapes: [Shape; 3] = [(|s| s, Line::plain), (Setup::enforce, Line::plain), (with_tls, Line::tls)];
    for (setup, connect) in shapes {
        let upstream = Upstream::start();
        let gate = setup(Setup::of(&upstream))
            .timeout_ms("client_write_ms", 300)
            .timeout_ms("drain_ms", 100)
            .limit("answer_bytes", 32 << 20)
            .limit("answers_bytes", 128 << 20)
            .start();
        let base = gate.metric(OPEN);
        upstream.always(large(16 << 20));
        let mut deaf: Vec<Line> = Vec::new();
        for call in [get("/v2/users"), update().json("{}")] {
            let mut line = connect(gate.production());
            line.send(call.without("Authorization").header("Authorization", bearer()).bytes());
            deaf.push(line);
        }
        upstream.wait_for(1);
        wait_until("those who never read to be cut", || gate.metric(OPEN) == base);
        for mut line in deaf {
            assert!(!line.answer().is_some_and(|told| told.whole), "all of 16 MiB were held for one who never reads");
        }
    }
}

#[test]
fn a_piece_of_an_answer_is_not_kept_back() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let go = Signal::new();
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\n";
    upstream.next(Act::bytes(head).send("[1").wait(&go).send(",2").close());
    let mut line = Line::plain(gate.production());
    line.send(get("/v2/users").bytes());
    line.wire().head().unwrap().unwrap();
    assert_eq!(line.wire().exactly(2).unwrap(), b"[1");
    go.give();
    assert_eq!(line.wire().exactly(2).unwrap(), b",2");
}

#[test]
fn an_answer_under_way_outlives_the_time_for_idling_and_a_second_request() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).timeout_ms("keepalive_ms", 150).start();
    let body = vec![b'x'; 200_000];
    let bytes = answer(200, &[("Content-Type", "application/json")], &body);
    for second in [None, Some(get("/v2/offramps").bytes())] {
        let (go, at) = (Signal::new(), upstream.seen().len());
        upstream.next(Act::bytes(&bytes[..100_000]).wait(&go).send(&bytes[100_000..]));
        let mut caller = Caller::connect(gate.production());
        caller.send(get("/v2/users").bytes());
        upstream.wait_for(at);
        if let Some(second) = &second {
            let before = unreadable(&gate, "pipelined");
            caller.send(second);
            wait_until("the second request to be met", || unreadable(&gate, "pipelined") == before + 1);
        }
        // Somebody who is idle is cut meanwhile: that long has this answer stood still.
        let mut idle = Caller::connect(gate.production());
        assert_eq!(get("/nowhere").over(&mut idle).status, 404);
        assert!(idle.rest().unwrap().is_empty());
        go.give();
        let told = caller.answer();
        assert_eq!((told.status, told.body.len()), (200, body.len()));
        assert!(caller.rest().unwrap().is_empty());
        assert_eq!(upstream.seen().len(), at + 1);
    }
}

#[test]
fn a_refused_sender_reads_its_answer_through_tls() {
    let upstream = Upstream::start();
    let gate = with_tls(Setup::of(&upstream)).start();
    let call = update().without("Authorization").json(vec![b' '; 1 << 20]);
    for _ in 0..8 {
        let told = Line::tls(gate.production()).send(call.bytes()).answer();
        assert_eq!(told.map(|told| told.short()).as_deref(), Some("401 UNAUTHORIZED"));
    }
    assert_all_gone(&gate);
}
