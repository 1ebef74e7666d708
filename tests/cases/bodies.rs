//! What a body may not be: each refused before upstream, with its reason.

use crate::support::shape::{ID, operation, shape, valid};
use crate::support::{Answer, Call, Caller, Setup, Upstream, post};

const MIB: usize = 1024 * 1024;

fn update() -> Call {
    post(format!("/v2/users/{ID}"))
}

/// A valid body of exactly this size.
fn padded(size: usize) -> Vec<u8> {
    let mut body = b"{\"type\":\"individual\"}".to_vec();
    body.resize(size, b' ');
    body
}

fn assert_refused(what: &str, answer: &Answer, status: u16, code: &str, reason: &str) {
    let told = (answer.status, answer.code(), shape(&answer.json()), answer.origin(), answer.outcome());
    let expected = (status, code.to_owned(), "C", "gateway".to_owned(), "not-executed".to_owned());
    assert_eq!(told, expected, "{what}: {answer}");
    assert!(answer.text().contains(reason), "{what}: {answer}");
}

#[test]
fn text_that_is_not_one_plain_json_value_is_refused() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let deep = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
    // The value itself, its member, and items.
    let many = |commas: usize| format!("{{\"a\":[{}0]}}", "0,".repeat(commas));
    let rows: Vec<(&str, Vec<u8>, &str)> = vec![
        ("empty", b"".to_vec(), "is empty"),
        ("white space", b" \n".to_vec(), "is empty"),
        ("duplicate name", br#"{"a":1,"a":1}"#.to_vec(), "appears twice"),
        ("duplicate name, escaped", br#"{"a":1,"\u0061":1}"#.to_vec(), "appears twice"),
        ("duplicate name, deep", br#"{"x":[{"a":{"b":1,"b":2}}]}"#.to_vec(), "appears twice"),
        ("trailing value", b"{} {}".to_vec(), "follows the JSON value"),
        ("trailing comma", b"{\"a\":1,}".to_vec(), "does not allow here"),
        ("trailing NUL", b"{}\0".to_vec(), "follows the JSON value"),
        ("BOM", b"\xEF\xBB\xBF{}".to_vec(), "byte order mark"),
        ("UTF-16", b"\xFF\xFE{\0}\0".to_vec(), "not UTF-8"),
        ("Latin-1", b"{\"a\":\"\xE9\"}".to_vec(), "not UTF-8"),
        ("overlong UTF-8", b"{\"a\":\"\xC0\x80\"}".to_vec(), "not UTF-8"),
        ("raw surrogate", b"{\"a\":\"\xED\xA0\x80\"}".to_vec(), "not UTF-8"),
        ("high surrogate", br#"{"a":"\ud83d"}"#.to_vec(), "surrogate"),
        ("low surrogate", br#"{"a":"\ude00"}"#.to_vec(), "surrogate"),
        ("surrogates the wrong way round", br#"{"a":"\ude00\ud83d"}"#.to_vec(), "surrogate"),
        ("surrogate in a name", br#"{"\ud83d":1}"#.to_vec(), "surrogate"),
        ("control in a string", b"{\"a\":\"\x01\"}".to_vec(), "control character"),
        ("bad escape", br#"{"a":"\x41"}"#.to_vec(), "escape"),
        ("33 deep", deep(33).into_bytes(), "nested too deep"),
        ("many values", many(16_382).into_bytes(), "more than 16384 values"),
        ("many objects", format!("[{}", "{},".repeat(340_000)).into_bytes(), "more than 16384 values"),
        ("very deep", "[".repeat(500_000).into_bytes(), "nested too deep"),
        ("exponent", b"{\"a\":1e2}".to_vec(), "exponent"),
        ("huge exponent", b"{\"a\":1E400}".to_vec(), "exponent"),
        ("16 digits", b"{\"a\":1234567890123456}".to_vec(), "15 digits"),
        ("long number", format!("{{\"a\":{}}}", "1".repeat(100_000)).into_bytes(), "too long"),
        ("negative zero", b"{\"a\":-0.0}".to_vec(), "negative zero"),
        ("leading zero", b"{\"a\":01}".to_vec(), "number"),
        ("leading plus", b"{\"a\":+1}".to_vec(), "does not allow here"),
        ("hex", b"{\"a\":0x1}".to_vec(), "number"),
        ("NaN", b"{\"a\":NaN}".to_vec(), "does not allow here"),
        ("comment", b"{/**/}".to_vec(), "does not allow here"),
        ("single quotes", b"{'a':1}".to_vec(), "does not allow here"),
        ("half", b"{\"a\":".to_vec(), "ends inside"),
    ];
    for (what, body, reason) in &rows {
        assert_refused(what, &update().json(body).send(gate.production()), 400, "INVALID_JSON", reason);
    }
    assert!(upstream.seen().is_empty());
    for good in [deep(32), many(16_381)] {
        let good = update().json(good).send(gate.production());
        assert_eq!(good.status, 200, "{good}");
    }
    assert_eq!(update().json("{\"a\":123456789012345}").send(gate.production()).status, 200);
}

#[test]
fn only_plain_json_in_utf8_is_taken() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let typed = |t: &str| update().header("Content-Type", t).body("{}");
    for good in [
        "application/json",
        "Application/JSON",
        "application/json;charset=utf-8",
        "application/json; charset=\"UTF-8\"",
    ] {
        assert_eq!(typed(good).send(gate.production()).status, 200, "{good}");
    }
    let sent = upstream.seen().len();
    for bad in [
        "text/json",
        "application/jsonp",
        "application/problem+json",
        "application/json; charset=utf-16",
        "application/json; charset=latin1",
        "application/json; boundary=x",
        "application/x-www-form-urlencoded",
        "application/json, text/plain",
        "",
    ] {
        assert_refused(bad, &typed(bad).send(gate.production()), 415, "UNSUPPORTED_MEDIA_TYPE", "application/json");
    }
    let twice = typed("application/json").header("Content-Type", "application/json").send(gate.production());
    assert_eq!((twice.status, twice.code().as_str()), (400, "MALFORMED_REQUEST"), "{twice}");
    assert_refused(
        "no type",
        &update().body("{}").send(gate.production()),
        415,
        "UNSUPPORTED_MEDIA_TYPE",
        "no Content-Type",
    );
    for encoding in ["gzip", "identity, gzip", "br", "x", ""] {
        let coded = update().header("Content-Encoding", encoding).json("{}");
        assert_refused(encoding, &coded.send(gate.production()), 415, "UNSUPPORTED_MEDIA_TYPE", "compressed");
    }
    assert_eq!(upstream.seen().len(), sent);
}

#[test]
fn a_body_is_taken_up_to_its_limit() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    for chunk in [0, 1000, 70_000, 2 * MIB] {
        let call = |size| if chunk == 0 { update().json(padded(size)) } else { update().chunked(padded(size), chunk) };
        let before = upstream.seen().len();
        let edge = call(MIB).send(gate.production());
        assert_eq!(edge.status, 200, "chunks of {chunk}: {edge}");
        assert_eq!(upstream.wait_for(before).text(), r#"{"type":"individual"}"#);

        let mut caller = Caller::connect(gate.production());
        // The gate may have closed before all of it was sent.
        drop(caller.try_send(call(MIB + 1).bytes()));
        assert_refused(&format!("chunks of {chunk}"), &caller.answer(), 413, "BODY_TOO_LARGE", "1048576");
        assert_eq!(upstream.seen().len(), before + 1);
    }
}

#[test]
fn a_slow_body_is_given_up_at_its_deadline() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).timeout_ms("body_ms", 300).timeout_ms("drain_ms", 300).start();
    let mut caller = Caller::connect(gate.production());
    let call = update().json(padded(100));
    let body = call.body_bytes();
    caller.send(call.head_bytes()).send(&body[..50]);
    let answer = caller.answer();
    assert_refused("slow", &answer, 408, "REQUEST_TIMEOUT", "in time");
    assert!(answer.took.as_millis() < 800, "{:?}", answer.took);
    assert!(caller.rest().unwrap().is_empty(), "the connection is closed");
    assert!(upstream.seen().is_empty());
}

#[test]
fn a_body_that_breaks_off_or_is_framed_wrongly_goes_nowhere() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).timeout_ms("body_ms", 2000).start();
    let json = update().header("Content-Type", "application/json");
    for framing in
        ["zz\r\n{}\r\n0\r\n\r\n", "2\r\n{}0\r\n\r\n", "2\r\n{}\r\n", "-2\r\n{}\r\n0\r\n\r\n", "fffffffffffffffff\r\n{}"]
    {
        let mut caller = Caller::connect(gate.production());
        caller.send(json.clone().header("Transfer-Encoding", "chunked").head_bytes()).send(framing).end_sending();
        if let Ok(answer) = caller.try_answer() {
            assert_refused(framing, &answer, 400, "MALFORMED_REQUEST", "is framed incorrectly");
        }
    }
    let mut caller = Caller::connect(gate.production());
    caller.send(json.header("Content-Length", "10").head_bytes()).send("{}").end_sending();
    if let Ok(answer) = caller.try_answer() {
        assert_refused("half", &answer, 400, "MALFORMED_REQUEST", "ended early");
    }
    assert!(upstream.seen().is_empty());
}

#[test]
fn expect_100_continue_is_answered_and_the_connection_lives_on() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let mut caller = Caller::connect(gate.production());
    for expect in ["100-continue", "100-Continue"] {
        let call = valid(operation("createSwap")).header("Expect", expect);
        caller.send(call.head_bytes());
        assert_eq!(caller.head().first, "HTTP/1.1 100 Continue");
        let answer = caller.send(call.body_bytes()).answer();
        assert_eq!((answer.status, answer.outcome().as_str()), (200, "executed"), "{answer}");
    }
    assert_eq!(upstream.seen().len(), 2);
    assert!(upstream.seen().iter().all(|seen| seen.head.header("expect").is_none()));
}

#[test]
fn a_connection_lives_on_after_good_and_bad_calls_that_were_read_whole() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let mut caller = Caller::connect(gate.production());
    for _ in 0..3 {
        assert_eq!(valid(operation("createSwap")).over(&mut caller).status, 200);
        assert_eq!(update().json("{").over(&mut caller).status, 400);
        assert_eq!(valid(operation("cancelSwap")).over(&mut caller).status, 200);
        assert_eq!(valid(operation("listUsers")).over(&mut caller).status, 200);
        assert_eq!(update().chunked("{}", 1).over(&mut caller).status, 200);
        assert_eq!(Call::new("GET", "/nowhere").over(&mut caller).status, 404);
        assert_eq!(valid(operation("listUsers")).without("Authorization").over(&mut caller).status, 401);
    }
    assert_eq!(upstream.seen().len(), 12);
}

#[test]
fn calls_without_a_body_take_none_or_an_empty_object() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let cancel = || valid(operation("cancelSwap"));
    for call in [cancel(), cancel().body(""), cancel().json("{}"), cancel().json(" { } "), cancel().chunked("{}", 1)] {
        let at = upstream.seen().len();
        assert_eq!(call.send(gate.production()).status, 200, "{call:?}");
        let seen = upstream.wait_for(at);
        assert_eq!((seen.text().as_str(), seen.head.header("content-length").as_deref()), ("", Some("0")));
        assert_eq!(seen.head.header("content-type"), None);
    }
    for body in ["[]", "null", "{\"a\":1}", "\"\"", "0"] {
        assert_eq!(cancel().json(body).send(gate.production()).violations(), [" maxProperties"], "{body}");
    }
    assert_eq!(upstream.seen().len(), 5);
}
