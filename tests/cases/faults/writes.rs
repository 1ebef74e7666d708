//! Writes: what is not certain is unknown, and nothing is ever sent twice.

use super::{
    A, ANSWER_MS, B, Bench, C, D, Faults, chunked, cut_after, garbage, gate, gzip, half_body, half_head, head_only,
    html, in_time, is_json, leaked, problem, redirect, unframed,
};
use crate::support::shape::{CATALOG, operation, shape, swap_record, valid};
use crate::support::{Act, Upstream, post};

/// The operation with a requestId, and one without.
const CLAIMED: &str = "createSwap";
const UNCLAIMED: &str = "cancelSwap";

/// What is expected, as one line: status, shape of the body (or `same`), code, outcome, origin.
type Row = (&'static str, Act, &'static str);

impl Bench {
    fn write(&self, id: &str, (name, act, expected): &Row, faults: &mut Faults) {
        let before = self.upstream.seen().len();
        self.upstream.next(act.clone());

        let answer = valid(operation(id)).send(self.gate.production());

        let body = is_json(&answer.body);
        let kind = kind(&answer.body, &body);
        let got = format!("{} {kind} {} {} {}", answer.status, answer.code(), answer.outcome(), answer.origin());
        faults.unless(&got == expected, || format!("{name}: {got}, expected {expected}"));
        faults.unless(answer.took < in_time(), || format!("{name}: took {:?}", answer.took));
        if answer.code() == "OUTCOME_UNKNOWN" {
            let leaked = leaked(&answer.to_string());
            faults.unless(leaked.is_none(), || format!("{name}: leaks {leaked:?}"));
            let documented = operation(id).answer(answer.status).unwrap().contract.accepts(&body);
            faults.unless(documented, || format!("{name}: not documented: {answer}"));
        }
        // Nothing comes again, and the next call is served.
        self.upstream.forget();
        let served = valid(operation(id)).send(self.gate.production());
        let served = (served.status, served.outcome());
        faults.unless(served == (200, "executed".to_owned()), || format!("{name}: the next one: {served:?}"));
        let seen = self.upstream.seen().len() - before;
        faults.unless(seen == 2, || format!("{name}: upstream saw {seen} calls with the next one"));
    }

    fn writes(id: &str, rows: &[Row]) {
        let upstream = Upstream::start();
        let bench = Bench { gate: gate(&upstream).start(), upstream };
        let mut faults = Faults::default();
        rows.iter().for_each(|row| bench.write(id, row, &mut faults));
        faults.assert_none();
    }
}

/// What an answer of upstream that passed is, without its content.
fn kind(bytes: &[u8], body: &serde_json::Value) -> &'static str {
    match (bytes, shape(body)) {
        (b"", _) => "empty",
        (_, "-") if body["status"] == "executed" => "stub",
        (_, "-") => "same",
        (_, shape) => shape,
    }
}

fn json(status: u16, body: &str) -> Act {
    Act::json(status, body)
}

/// Rows that are alike whether there is a requestId or not.
fn common() -> Vec<Row> {
    let big = format!(r#"{{"id":"{}"}}"#, "x".repeat(3000));
    vec![
        ("500 HTML", html(500), "500 A OUTCOME_UNKNOWN unknown upstream"),
        ("404 empty", json(404, ""), "404 B OUTCOME_UNKNOWN unknown upstream"),
        ("404 empty, chunked", chunked(404, ""), "404 B OUTCOME_UNKNOWN unknown upstream"),
        ("401 of shape D", json(401, D), "401 D Invalid API key not-executed upstream"),
        ("401 HTML", html(401), "401 A OUTCOME_UNKNOWN unknown upstream"),
        ("400 of shape A", json(400, A), "400 A X not-executed upstream"),
        ("422 of shape C", json(422, C), "422 C X not-executed upstream"),
        ("404 of shape B", json(404, B), "404 B X not-executed upstream"),
        ("429 of shape B, without a length", unframed(429, B), "429 B X not-executed upstream"),
        ("400 of no shape", json(400, r#"{"oops":"at pg-host.internal"}"#), "400 C OUTCOME_UNKNOWN unknown upstream"),
        ("400 problem+json", problem(400), "400 C OUTCOME_UNKNOWN unknown upstream"),
        ("400 gzip", gzip(400), "400 C OUTCOME_UNKNOWN unknown upstream"),
        ("400 cut", half_body(400).close(), "400 C OUTCOME_UNKNOWN unknown upstream"),
        ("400 stalls", half_body(400).hang(), "400 C OUTCOME_UNKNOWN unknown upstream"),
        ("502 plain", Act::answer(502, "text/plain", "at pg-host.internal"), "502 A OUTCOME_UNKNOWN unknown upstream"),
        ("418 HTML", html(418), "418 C OUTCOME_UNKNOWN unknown upstream"),
        ("302", redirect(), "502 A OUTCOME_UNKNOWN unknown gateway"),
        ("304", Act::bytes("HTTP/1.1 304 Not Modified\r\n\r\n"), "502 A OUTCOME_UNKNOWN unknown gateway"),
        (
            "101",
            Act::bytes("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"),
            "502 A OUTCOME_UNKNOWN unknown gateway",
        ),
        ("600", html(600), "502 A OUTCOME_UNKNOWN unknown gateway"),
        ("200 broken JSON", json(200, "{\"a\":"), "502 A OUTCOME_UNKNOWN unknown gateway"),
        ("200 HTML", Act::answer(200, "text/html", "<p>thanks"), "502 A OUTCOME_UNKNOWN unknown gateway"),
        ("200 empty", json(200, ""), "502 A OUTCOME_UNKNOWN unknown gateway"),
        ("204", Act::bytes("HTTP/1.1 204 No Content\r\n\r\n"), "502 A OUTCOME_UNKNOWN unknown gateway"),
        ("200 gzip", gzip(200), "502 A OUTCOME_UNKNOWN unknown gateway"),
        ("200 of no form", json(200, "{}"), "502 A OUTCOME_UNKNOWN unknown gateway"),
        ("200 of shape D", json(200, D), "502 A OUTCOME_UNKNOWN unknown gateway"),
        ("200 chunked", chunked(200, &swap_record("a")), "200 same - executed upstream"),
        ("200 without a length", unframed(200, &swap_record("a")), "200 same - executed upstream"),
        (
            "1xx first",
            Act::bytes("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n").send(json_bytes()),
            "201 same - executed upstream",
        ),
        ("201 cut", half_body(201).close(), "502 A OUTCOME_UNKNOWN unknown gateway"),
        ("201 reset in the body", half_body(201).reset(), "502 A OUTCOME_UNKNOWN unknown gateway"),
        ("201 reset after the head", head_only(201).reset(), "502 A OUTCOME_UNKNOWN unknown gateway"),
        ("201 stalls", half_body(201).hang(), "502 A OUTCOME_UNKNOWN unknown gateway"),
        ("200 oversize", json(200, &big), "502 A OUTCOME_UNKNOWN unknown gateway"),
        ("200 oversize, chunked", chunked(200, &big), "502 A OUTCOME_UNKNOWN unknown gateway"),
        ("400 oversize", json(400, &big), "400 C OUTCOME_UNKNOWN unknown upstream"),
        ("reset after receiving", Act::silence().reset(), "502 A OUTCOME_UNKNOWN unknown gateway"),
        ("closed after receiving", Act::silence().close(), "502 A OUTCOME_UNKNOWN unknown gateway"),
        ("garbage", garbage(), "502 A OUTCOME_UNKNOWN unknown gateway"),
        ("half a head", half_head(), "502 A OUTCOME_UNKNOWN unknown gateway"),
        (
            "half a head that stalls",
            Act::bytes("HTTP/1.1 200 OK\r\nContent-Ty").hang(),
            "504 A OUTCOME_UNKNOWN unknown gateway",
        ),
        ("hang", Act::silence().hang(), "504 A OUTCOME_UNKNOWN unknown gateway"),
        ("hang after 100", Act::bytes("HTTP/1.1 100 Continue\r\n\r\n").hang(), "504 A OUTCOME_UNKNOWN unknown gateway"),
    ]
}

fn json_bytes() -> Vec<u8> {
    crate::support::upstream::answer(201, &[("Content-Type", "application/json")], swap_record("a").as_bytes())
}

#[test]
fn a_write_with_a_request_id() {
    let mut rows = common();
    rows.extend([
        ("500 of shape A", json(500, A), "500 A OUTCOME_UNKNOWN unknown upstream"),
        ("503 of shape D", json(503, D), "503 A OUTCOME_UNKNOWN unknown upstream"),
        ("409 of shape B", json(409, B), "409 C OUTCOME_UNKNOWN unknown upstream"),
    ]);
    Bench::writes(CLAIMED, &rows);
}

#[test]
fn a_write_without_a_request_id() {
    let mut rows = common();
    rows.extend([
        ("500 of shape A", json(500, A), "500 A X unknown upstream"),
        ("503 of shape D", json(503, D), "503 D Invalid API key unknown upstream"),
        ("409 of shape B", json(409, B), "409 B X unknown upstream"),
    ]);
    Bench::writes(UNCLAIMED, &rows);
}

/// Whether a byte was written depends on when the reset arrives; nothing is told as certain that is not.
#[test]
fn a_reset_before_anything_is_read() {
    let upstream = Upstream::start();
    let gate = gate(&upstream).start();
    for id in [CLAIMED, UNCLAIMED].repeat(10) {
        upstream.close_idle().next(Act::silence().blind().reset());
        let answer = valid(operation(id)).send(gate.production());
        let told = (answer.status, answer.code(), answer.outcome());
        let unwritten = (502, "UPSTREAM_UNAVAILABLE".to_owned(), "not-executed".to_owned());
        assert!(told == unwritten || told == (502, "OUTCOME_UNKNOWN".to_owned(), "unknown".to_owned()), "{answer}");
        assert!(answer.took < in_time());
    }
    assert!(upstream.seen().is_empty(), "it was sent again");
}

#[test]
fn a_cut_answer_still_names_the_request_id() {
    let upstream = Upstream::start();
    let gate = gate(&upstream).start();
    for id in ["f5f2a67d-6c01-48db-ab38-7d5652b7e96d", "A.b_c-1", "..."] {
        let beginning = format!(r#"{{"transferType":"WALLET.SWAP","transferDetails":{{"requestId":"{id}","half""#);
        upstream.next(cut_after(201, &beginning).close());
        let body = format!(r#"{{"requestId":"{id}","source":{{"currency":"usdc","amount":"1"}},"destination":{{}}}}"#);
        let answer = post("/v2/wallets/swaps").json(body).send(gate.production());
        assert_eq!(answer.json(), serde_json::json!({"status": "executed", "requestId": id}));
    }
}

#[test]
fn nobody_listening_is_certainly_not_executed() {
    let upstream = Upstream::start();
    let gate = gate(&upstream).start();
    drop(upstream);
    for write in CATALOG.operations().iter().filter(|o| o.enabled && o.is_write()) {
        let answer = valid(write).send(gate.production());
        let told = (answer.status, shape(&answer.json()), answer.code(), answer.outcome(), answer.origin());
        let expected = (502, "A", "UPSTREAM_UNAVAILABLE".into(), "not-executed".into(), "gateway".into());
        assert_eq!(told, expected, "{}", write.id);
        assert!(answer.took < in_time());
    }
}

#[test]
fn an_upstream_that_reads_nothing_is_given_up_in_time() {
    let upstream = Upstream::start();
    let gate = gate(&upstream).timeout_ms("write_ms", ANSWER_MS).start();
    upstream.next(Act::silence().blind().hang_unread());
    let body = format!("{{\"type\":\"individual\"{}}}", " ".repeat(1_000_000));
    let padded = format!(r#"{{"a":"{}"}}"#, "x".repeat(body.len()));
    let call = post(format!("/v2/users/{}", crate::support::shape::ID)).json(padded);
    let answer = call.send(gate.production());
    assert_eq!((answer.outcome().as_str(), answer.code().as_str()), ("unknown", "OUTCOME_UNKNOWN"), "{answer}");
    // A body of this length takes its time, twice: when it is checked, and when its outcome comes to the journal.
    assert!(answer.took < in_time() * 2, "{:?}", answer.took);
}
