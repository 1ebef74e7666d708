//! What upstream did, and what is heard of it then: by whoever asked, and by whoever asks again.

use std::time::Duration;

use super::{assert_again, swap, told};
use crate::support::clock::wait_until;
use crate::support::shape::{examples, operation, swap_record};
use crate::support::upstream::Reserved;
use crate::support::{Act, Call, Gate, Setup, Upstream};

const A: &str = r#"{"code":500,"error":"X","errorDetails":"y"}"#;
const B: &str = r#"{"status":"error","error":{"code":"X","message":"y"}}"#;
const C: &str = r#"{"status":"error","error":{"code":"X","message":"y","details":{"a":1}}}"#;
const EXISTS: &str = r#"{"error":"this transaction request already exists"}"#;
const TWIN: &str = r#"{"status":"error","error":{"code":"DUPLICATE_REQUEST_ID","message":"y"}}"#;
const IN_USE: &str = r#"{"code":400,"error":"REQUEST_ID_IN_USE","errorDetails":"see your transfers"}"#;
const IN_DOUBT: &str = "409 OUTCOME_UNKNOWN unknown";

/// What upstream does, and the first that is heard of it.
type Row = (&'static str, Act, &'static str);

fn gate(upstream: &Upstream) -> Gate {
    Setup::of(upstream).timeout_ms("answer_ms", 400).limit("answer_bytes", 2048).start()
}

fn half_body(status: u16) -> Act {
    cut_after(status, "{\"half\":")
}

fn cut_after(status: u16, beginning: &str) -> Act {
    Act::bytes(format!(
        "HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\nContent-Length: 4000\r\n\r\n{beginning}"
    ))
}

#[test]
fn what_was_executed_is_told_again_and_never_sent_again() {
    let rows: Vec<Row> = vec![
        ("200", Act::json(200, swap_record("COMPLETED")), "200 - executed"),
        ("202", Act::json(202, swap_record("NEW")), "202 - executed"),
    ];
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    for (name, act, expected) in rows {
        is_sent_once_and_told_again(&upstream, &gate, name, act, expected);
    }
}

/// What breaks off proves what its beginning shows, and nothing else.
#[test]
fn an_answer_that_breaks_off_is_executed_only_if_it_named_the_requestid_of_the_call() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let begin = |id: &str| format!(r#"{{"transferType":"WALLET.SWAP","transferDetails":{{"requestId":"{id}","x":""#);
    let ends: [fn(Act) -> Act; 3] = [Act::close, Act::reset, Act::hang];
    for end in ends {
        let call = swap();
        let act = end(cut_after(201, &begin(&call.request_id().to_uppercase())));
        is_sent_once(&upstream, &gate, &call, act, ("201 - executed", "201 - executed again"));
        for beginning in [
            String::new(),
            "<html>maintenance".to_owned(),
            C.to_owned(),
            r#"{"message":"under maintenance, nothing was done""#.to_owned(),
            begin("somebody-elses"),
            begin(&call.request_id()),
        ] {
            let told = ("502 OUTCOME_UNKNOWN unknown", IN_DOUBT);
            is_sent_once(&upstream, &gate, &swap(), end(cut_after(201, &beginning)), told);
        }
    }
    let large = |call: &Call| format!("{}{}", begin(&call.request_id()), "x".repeat(3000));
    let call = swap();
    is_sent_once(&upstream, &gate, &call, Act::json(201, large(&call)), ("201 - executed", "201 - executed again"));
    let other = Act::json(201, large(&swap()));
    is_sent_once(&upstream, &gate, &swap(), other, ("502 OUTCOME_UNKNOWN unknown", IN_DOUBT));
}

/// Upstream hangs on, and goes on with its answer when the caller has already heard that the outcome is unknown.
#[test]
fn the_rest_of_an_answer_that_stalled_still_proves_its_payment() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let call = swap();
    let record = swap_record("NEW").replace("\"id\"", &format!(r#""requestId":"{}","id""#, call.request_id()));
    let head = format!(
        "HTTP/1.1 201 Status\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        record.len() + 1
    );
    upstream.next(Act::bytes(head).drip(" ", Duration::from_millis(900)).send(record));
    assert_eq!(told(&call.send(gate.production())), "502 OUTCOME_UNKNOWN unknown");
    wait_until("the late answer settles it", || told(&call.send(gate.production())) == "201 - executed again");
    assert_eq!(upstream.seen().len(), 1);
}

fn is_sent_once(upstream: &Upstream, gate: &Gate, call: &Call, act: Act, (first, again): (&str, &str)) {
    let before = upstream.seen().len();
    upstream.next(act);
    let answer = call.send(gate.production());
    assert_eq!(told(&answer), first, "{answer}");
    let repeat = call.send(gate.production());
    assert_eq!(told(&repeat), again, "{answer}{repeat}");
    assert_eq!(upstream.seen().len(), before + 1);
}

#[test]
fn what_was_refused_for_certain_is_told_again_and_never_sent_again() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let rows = [(400, A), (400, C), (403, B), (404, B), (413, C), (415, C), (422, C)];
    for (status, body) in rows {
        let (name, expected) = (status.to_string(), format!("{status} X not-executed"));
        is_sent_once_and_told_again(&upstream, &gate, &name, Act::json(status, body), &expected);
    }
}

fn is_sent_once_and_told_again(upstream: &Upstream, gate: &Gate, name: &str, act: Act, expected: &str) {
    let (call, before) = (swap(), upstream.seen().len());
    upstream.next(act);
    let first = call.send(gate.production());
    assert_eq!(told(&first), expected, "{name}: {first}");
    for _ in 0..2 {
        assert_again(&first, &call.send(gate.production()));
    }
    assert_eq!(upstream.seen().len(), before + 1, "{name}");
}

#[test]
fn what_was_not_let_in_may_be_sent_again() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    for status in [401, 429] {
        let (call, at) = (swap(), upstream.seen().len());
        for _ in 0..2 {
            upstream.next(Act::json(status, B));
            assert_eq!(told(&call.send(gate.production())), format!("{status} X not-executed"));
        }
        let sent = call.send(gate.production());
        assert_eq!(told(&sent), "200 - executed", "{status}");
        assert_again(&sent, &call.send(gate.production()));
        assert_eq!(upstream.seen().len(), at + 3, "{status}");
    }
}

#[test]
fn what_is_in_doubt_is_told_so_and_never_sent_again() {
    let redirect = "HTTP/1.1 307 Status\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n";
    let foreign = examples(operation("createSwap"), "answer-good-").remove(0).1;
    let rows: Vec<Row> = vec![
        ("silence", Act::silence().hang(), "504 OUTCOME_UNKNOWN unknown"),
        ("closed", Act::silence().close(), "502 OUTCOME_UNKNOWN unknown"),
        ("reset", Act::silence().reset(), "502 OUTCOME_UNKNOWN unknown"),
        ("no HTTP", Act::bytes("220 mail.example\r\n\r\n").close(), "502 OUTCOME_UNKNOWN unknown"),
        ("half a head", Act::bytes("HTTP/1.1 200 OK\r\nConte").close(), "502 OUTCOME_UNKNOWN unknown"),
        ("307", Act::bytes(redirect), "502 OUTCOME_UNKNOWN unknown"),
        ("200, HTML", Act::answer(200, "text/html", "<h1>maintenance"), "502 OUTCOME_UNKNOWN unknown"),
        ("200, record as HTML", Act::answer(200, "text/html", swap_record("NEW")), "502 OUTCOME_UNKNOWN unknown"),
        ("200, broken JSON", Act::json(200, "{\"a\":"), "502 OUTCOME_UNKNOWN unknown"),
        ("200, empty", Act::json(200, ""), "502 OUTCOME_UNKNOWN unknown"),
        ("200, no record", Act::json(200, r#"{"id":1.50}"#), "502 OUTCOME_UNKNOWN unknown"),
        ("201, another call's record", Act::json(201, foreign), "502 OUTCOME_UNKNOWN unknown"),
        ("204", Act::bytes("HTTP/1.1 204 No Content\r\n\r\n"), "502 OUTCOME_UNKNOWN unknown"),
        ("400, exists", Act::json(400, EXISTS), "400 OUTCOME_UNKNOWN unknown"),
        ("422, exists", Act::json(422, EXISTS), "422 OUTCOME_UNKNOWN unknown"),
        ("400, duplicate code", Act::json(400, TWIN), "400 OUTCOME_UNKNOWN unknown"),
        ("400, in use", Act::json(400, IN_USE), "400 OUTCOME_UNKNOWN unknown"),
        ("500", Act::json(500, A), "500 OUTCOME_UNKNOWN unknown"),
        ("503", Act::json(503, A), "503 OUTCOME_UNKNOWN unknown"),
        ("409", Act::json(409, B), IN_DOUBT),
        ("408", Act::json(408, C), "408 OUTCOME_UNKNOWN unknown"),
        ("402", Act::json(402, C), "402 OUTCOME_UNKNOWN unknown"),
        ("400, no shape", Act::json(400, "{}"), "400 OUTCOME_UNKNOWN unknown"),
        ("401, HTML", Act::answer(401, "text/html", "<p>"), "401 OUTCOME_UNKNOWN unknown"),
        ("422, cut", half_body(422).close(), "422 OUTCOME_UNKNOWN unknown"),
    ];
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    for (at, (name, act, expected)) in rows.into_iter().enumerate() {
        upstream.next(act);
        let call = swap();
        let first = call.send(gate.production());
        assert_eq!(told(&first), expected, "{name}: {first}");
        for _ in 0..2 {
            let again = call.send(gate.production());
            assert_eq!(told(&again), IN_DOUBT, "{name}: {again}");
            assert!(again.header("retry-after").is_some(), "{name}: {again}");
        }
        assert_eq!(upstream.seen().len(), at + 1, "{name}");
    }
}

/// It may be its record.
#[test]
fn a_refusal_that_names_the_requestid_of_the_call_leaves_it_in_doubt() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let call = swap();
    let id = call.request_id().to_uppercase();
    upstream.next(Act::json(400, A.replace("y", &format!("no funds for {id}"))));
    assert_eq!(told(&call.send(gate.production())), "400 OUTCOME_UNKNOWN unknown");
    assert_eq!(told(&call.send(gate.production())), IN_DOUBT);
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn what_reached_nobody_may_be_sent_again() {
    let reserved = Reserved::new();
    let gate = Setup::new().environment("production", &reserved.url()).start();
    let call = swap();
    for _ in 0..2 {
        assert_eq!(told(&call.send(gate.production())), "502 UPSTREAM_UNAVAILABLE not-executed");
    }
    let upstream = reserved.start();
    let sent = call.send(gate.production());
    assert_eq!(told(&sent), "200 - executed", "{sent}");
    assert_again(&sent, &call.send(gate.production()));
    assert_eq!(upstream.seen().len(), 1);
}
