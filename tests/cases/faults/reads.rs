//! Reads: errors are said again in the API's shapes; once the head is out, a broken answer is a cut connection.

use std::time::Duration;

use super::{
    A, B, Bench, C, D, Faults, chunked, garbage, gate, gzip, half_body, half_head, head_only, html, in_time, is_json,
    leaked, problem, redirect, unframed,
};
use crate::support::caller::Answer;
use crate::support::clock::{Watch, wait_until};
use crate::support::shape::{odd_answer, operation, shape, valid};
use crate::support::{Act, Caller, Upstream};

/// What is expected, as one line: status, shape of the body (or `same`), code, origin; or `cut`.
type Row = (&'static str, Act, &'static str);

const EARLY_HINTS: &str = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";

impl Bench {
    fn read(&self, id: &str, (name, act, expected): &Row, faults: &mut Faults) {
        let before = self.upstream.seen().len();
        if act.is_blind() {
            self.upstream.close_idle();
        }
        // A read may be tried a second time, and is to meet the same.
        self.upstream.next(act.clone()).next(act.clone());

        let mut caller = Caller::connect(self.gate.production());
        let watch = Watch::start();
        caller.send(valid(operation(id)).bytes());
        let got = match caller.try_answer() {
            Err((head, _)) => format!("{} cut", head.map_or_else(|| "no head".to_owned(), |h| h.first)),
            Ok(answer) => {
                faults.unless(answer.outcome() == "-", || format!("{name}: a read with an outcome"));
                said_again(id, name, &answer, faults);
                let kind = if answer.body.is_empty() { "empty" } else { shape(&is_json(&answer.body)) };
                format!("{} {kind} {} {}", answer.status, answer.code(), answer.origin())
            }
        };
        faults.unless(&got == expected, || format!("{name}: {got}, expected {expected}"));
        faults.unless(watch.elapsed() < in_time(), || format!("{name}: took {:?}", watch.elapsed()));
        let seen = self.upstream.seen().len() - before;
        faults.unless(seen <= 2, || format!("{name}: upstream saw it {seen} times"));
        self.upstream.forget();
        let served = valid(operation(id)).send(self.gate.production()).status;
        faults.unless(served == 200, || format!("{name}: the next one got {served}"));
    }

    fn reads(id: &str, enforce: bool, rows: &[Row]) {
        let upstream = Upstream::start();
        upstream.always(Act::json(200, odd_answer(operation(id))));
        let setup = gate(&upstream).limit("answer_bytes", 16_384);
        let gate = if enforce { setup.enforce() } else { setup }.start();
        let bench = Bench { gate, upstream };
        let mut faults = Faults::default();
        rows.iter().for_each(|row| bench.read(id, row, &mut faults));
        faults.assert_none();
    }
}

/// An error in Sluice's own words is as documented, and has nothing of upstream's in it.
fn said_again(id: &str, name: &str, answer: &Answer, faults: &mut Faults) {
    if !answer.code().starts_with("UPSTREAM_") {
        return;
    }
    let leaked = leaked(&answer.to_string());
    faults.unless(leaked.is_none(), || format!("{name}: leaks {leaked:?}"));
    let types = (answer.header("content-type"), answer.header("content-encoding"));
    faults.unless(types == (Some("application/json".to_owned()), None), || format!("{name}: {types:?}"));
    let documented = operation(id).answer(answer.status).unwrap().contract.accepts(&is_json(&answer.body));
    faults.unless(documented, || format!("{name}: not documented: {answer}"));
}

/// Rows that are alike in both modes.
fn common() -> Vec<Row> {
    let big = format!(r#"{{"error":"{}"}}"#, "x".repeat(20_000));
    vec![
        ("500 HTML", html(500), "500 A UPSTREAM_ERROR upstream"),
        ("500 gzip", gzip(500), "500 A UPSTREAM_ERROR upstream"),
        ("404 empty", Act::json(404, ""), "404 B UPSTREAM_ERROR upstream"),
        (
            "404 empty, no type",
            Act::bytes("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
            "404 B UPSTREAM_ERROR upstream",
        ),
        ("404 empty, chunked", chunked(404, ""), "404 B UPSTREAM_ERROR upstream"),
        ("404 empty, without a length", unframed(404, ""), "404 B UPSTREAM_ERROR upstream"),
        ("404 problem+json", problem(404), "404 B UPSTREAM_ERROR upstream"),
        ("502 plain", Act::answer(502, "text/plain", "at pg-host.internal"), "502 A UPSTREAM_ERROR upstream"),
        ("429 HTML", html(429), "429 C UPSTREAM_ERROR upstream"),
        ("403 of no shape", Act::json(403, r#"{"at":"db-7.internal"}"#), "403 C UPSTREAM_ERROR upstream"),
        ("500 oversize", Act::json(500, &big), "500 A UPSTREAM_ERROR upstream"),
        ("600", html(600), "502 A UPSTREAM_UNAVAILABLE gateway"),
        (
            "101",
            Act::bytes("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"),
            "502 A UPSTREAM_UNAVAILABLE gateway",
        ),
        ("302", redirect(), "502 A UPSTREAM_UNAVAILABLE gateway"),
        ("304", Act::bytes("HTTP/1.1 304 Not Modified\r\n\r\n"), "502 A UPSTREAM_UNAVAILABLE gateway"),
        ("500 of shape A", Act::json(500, A), "500 A X upstream"),
        ("403 of shape B", Act::json(403, B), "403 B X upstream"),
        ("422 of shape C, chunked", chunked(422, C), "422 C X upstream"),
        ("403 of shape D, without a length", unframed(403, D), "403 D Invalid API key upstream"),
        ("1xx first", Act::bytes(EARLY_HINTS).send(ok_bytes()), "200 - - upstream"),
        ("reset before anything is read", Act::silence().blind().reset(), "502 A UPSTREAM_UNAVAILABLE gateway"),
        ("reset after receiving", Act::silence().reset(), "502 A UPSTREAM_UNAVAILABLE gateway"),
        ("closed after receiving", Act::silence().close(), "502 A UPSTREAM_UNAVAILABLE gateway"),
        ("garbage", garbage(), "502 A UPSTREAM_UNAVAILABLE gateway"),
        ("half a head", half_head(), "502 A UPSTREAM_UNAVAILABLE gateway"),
        (
            "half a head that stalls",
            Act::bytes("HTTP/1.1 200 OK\r\nContent-Ty").hang(),
            "504 A UPSTREAM_TIMEOUT gateway",
        ),
        ("hang", Act::silence().hang(), "504 A UPSTREAM_TIMEOUT gateway"),
    ]
}

fn ok_bytes() -> Vec<u8> {
    crate::support::upstream::answer(
        200,
        &[("Content-Type", "application/json")],
        br#"{"count":0,"records":[],"users":[]}"#,
    )
}

fn observed() -> Vec<Row> {
    let mut rows = common();
    rows.extend([
        (
            "1xx without end",
            Act::bytes(EARLY_HINTS.repeat(5_000)).send(ok_bytes()),
            "502 A UPSTREAM_UNAVAILABLE gateway",
        ),
        ("200 broken JSON passes", Act::json(200, "{\"a\":"), "200 - - upstream"),
        ("200 HTML passes", Act::answer(200, "text/html", "<p>"), "200 - - upstream"),
        ("200 empty passes", Act::json(200, ""), "200 empty - upstream"),
        ("204 passes", Act::bytes("HTTP/1.1 204 No Content\r\n\r\n"), "204 empty - upstream"),
        ("200 gzip passes", gzip(200), "200 - - upstream"),
        ("200 oversize passes", Act::json(200, vec![b' '; 20_000]), "200 - - upstream"),
        ("200 cut", half_body(200).close(), "HTTP/1.1 200 OK cut"),
        ("200 reset in the body", half_body(200).reset(), "HTTP/1.1 200 OK cut"),
        ("200 stalls", half_body(200).hang(), "HTTP/1.1 200 OK cut"),
    ]);
    rows
}

fn enforced() -> Vec<Row> {
    let refused = "502 A UPSTREAM_UNAVAILABLE gateway";
    let mut rows = common();
    rows.extend([
        ("200 broken JSON", Act::json(200, "{\"a\":"), refused),
        ("200 HTML", Act::answer(200, "text/html", "<p>"), refused),
        ("200 empty", Act::json(200, ""), refused),
        ("204", Act::bytes("HTTP/1.1 204 No Content\r\n\r\n"), refused),
        ("200 gzip", gzip(200), refused),
        ("200 oversize", Act::json(200, vec![b' '; 20_000]), refused),
        ("200 cut", half_body(200).close(), refused),
        ("200 reset in the body", half_body(200).reset(), refused),
        ("200 reset after the head", head_only(200).reset(), refused),
        ("200 stalls", half_body(200).hang(), "504 A UPSTREAM_TIMEOUT gateway"),
        ("500 cut", half_body(500).close(), "500 A UPSTREAM_ERROR upstream"),
        ("500 stalls", half_body(500).hang(), "500 A UPSTREAM_ERROR upstream"),
    ]);
    rows
}

/// A client that takes 103 for the final answer would hear this answer on its next call.
#[test]
fn no_interim_answer_of_upstream_reaches_the_caller() {
    let upstream = Upstream::start();
    let gate = gate(&upstream).start();
    for interim in [EARLY_HINTS, "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 102 Processing\r\n\r\n"] {
        upstream.next(Act::bytes(interim).send(ok_bytes()));
        let mut caller = Caller::connect(gate.production());
        caller.send(valid(operation("listUsers")).header("Expect", "100-continue").bytes());
        assert_eq!(caller.head().first, "HTTP/1.1 200 OK", "{interim}");
    }
}

/// Each piece comes in time, the whole never does.
#[test]
fn an_answer_that_drips_ends_by_the_deadline() {
    const PAUSE: Duration = Duration::from_millis(20);
    for enforce in [false, true] {
        let upstream = Upstream::start();
        let setup = gate(&upstream);
        let gate = if enforce { setup.enforce() } else { setup }.start();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Pad: ";
        for endless in [format!("{head}{}", "x".repeat(500)), "HTTP/1.1 100 Continue\r\n\r\n".repeat(50)] {
            upstream.next(Act::silence().drip(endless, PAUSE).close());
            let answer = valid(operation("listUsers")).send(gate.production());
            assert_eq!((answer.status, shape(&answer.json())), (504, "A"), "{answer}");
            assert_eq!(answer.code(), "UPSTREAM_TIMEOUT", "{answer}");
            assert!(answer.took < in_time(), "{:?}", answer.took);
        }

        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n";
        upstream.next(Act::bytes(head).drip("x".repeat(500), PAUSE).close());
        let mut caller = Caller::connect(gate.production());
        let watch = Watch::start();
        match caller.send(valid(operation("listUsers")).bytes()).try_answer() {
            Ok(answer) => assert!(enforce && answer.status == 504, "{answer}"),
            Err((head, _)) => assert_eq!(head.map(|head| head.first).as_deref(), Some("HTTP/1.1 200 OK")),
        }
        assert!(watch.elapsed() < in_time(), "enforce {enforce}: {:?}", watch.elapsed());
    }
}

/// The deadline is upstream's, not the caller's.
#[test]
fn a_caller_may_take_its_time_for_a_large_answer() {
    let upstream = Upstream::start();
    let gate = gate(&upstream).start();
    let body = format!("\"{}\"", "x".repeat(16 * 1024 * 1024));
    upstream.next(Act::json(200, &body));
    let mut caller = Caller::connect(gate.production());
    caller.send(valid(operation("listUsers")).bytes());
    let watch = Watch::start();
    wait_until("the deadline to be over", || watch.elapsed() > in_time());
    let answer = caller.answer();
    assert_eq!((answer.status, answer.body.len()), (200, body.len()));
}

#[test]
fn a_read_with_documented_error_shapes_streams() {
    let mut rows = observed();
    rows.extend(mapped());
    Bench::reads("listOfframps", false, &rows);
}

#[test]
fn a_read_with_documented_error_shapes_is_held_back() {
    let mut rows = enforced();
    rows.extend(mapped());
    Bench::reads("listOfframps", true, &rows);
}

#[test]
fn a_read_with_any_error_shape_streams() {
    let mut rows = observed();
    rows.extend(unmapped());
    Bench::reads("listUsers", false, &rows);
}

#[test]
fn a_read_with_any_error_shape_is_held_back() {
    let mut rows = enforced();
    rows.extend(unmapped());
    Bench::reads("listUsers", true, &rows);
}

/// Where the interface maps a shape to the status, another shape is rebuilt.
fn mapped() -> [Row; 3] {
    [
        ("401 of shape D", Act::json(401, D), "401 A UPSTREAM_ERROR upstream"),
        ("404 of shape A", Act::json(404, A), "404 B UPSTREAM_ERROR upstream"),
        ("404 of shape B", Act::json(404, B), "404 B X upstream"),
    ]
}

/// Where it does not, any of the four passes.
fn unmapped() -> [Row; 2] {
    [
        ("401 of shape D", Act::json(401, D), "401 D Invalid API key upstream"),
        ("404 of shape A", Act::json(404, A), "404 A X upstream"),
    ]
}

#[test]
fn nobody_listening_is_told_in_time() {
    for enforce in [false, true] {
        let upstream = Upstream::start();
        let setup = gate(&upstream);
        let gate = if enforce { setup.enforce() } else { setup }.start();
        drop(upstream);
        let answer = valid(operation("listUsers")).send(gate.production());
        assert_eq!((answer.status, shape(&answer.json())), (502, "A"), "{answer}");
        assert_eq!(answer.code(), "UPSTREAM_UNAVAILABLE");
        assert!(answer.took < in_time());
    }
}

/// A client acts on the framing, so it is the gate's own: upstream's may have two readings.
#[test]
fn a_streamed_answer_is_framed_by_the_gate() {
    const BODY: &str = r#"{"count":0,"records":[],"users":[]}"#;
    let upstream = Upstream::start();
    let gate = gate(&upstream).start();
    let length = BODY.len();
    let (plain, in_chunks) = (format!("length {length}"), "chunked".to_owned());
    let (listed, twice) = (
        format!("Content-Length: {length}, {length}"),
        format!("Content-Length: {length}\r\nContent-Length: {length}"),
    );
    let as_chunks = format!("{length:x}\r\n{BODY}\r\n0\r\n\r\n");
    let until_its_end = |status: u16, framing: &str| (status, framing.to_owned(), BODY.to_owned(), true);
    let rows = [
        ((200, format!("Content-Length: {length}"), BODY.to_owned(), false), &plain),
        ((200, listed, BODY.to_owned(), false), &plain),
        ((200, twice, BODY.to_owned(), false), &plain),
        ((200, format!("Content-Length: 00{length}"), BODY.to_owned(), false), &plain),
        ((200, "Transfer-Encoding: chunked".to_owned(), as_chunks.clone(), false), &in_chunks),
        ((200, "Transfer-Encoding: identity, chunked".to_owned(), as_chunks.clone(), false), &in_chunks),
        ((200, format!("Transfer-Encoding: chunked\r\nContent-Length: {length}"), as_chunks, false), &in_chunks),
        (until_its_end(200, "Transfer-Encoding: identity"), &in_chunks),
        (until_its_end(200, "X-No: framing"), &in_chunks),
        ((404, "Content-Length: 0, 0".to_owned(), String::new(), false), &"length 115".to_owned()),
        ((204, "Content-Length: 5".to_owned(), String::new(), false), &"none".to_owned()),
        ((204, "Transfer-Encoding: chunked".to_owned(), String::new(), false), &"none".to_owned()),
    ]
    .map(|(sent, expected)| (sent, expected.clone()));
    let mut faults = Faults::default();
    for ((status, framing, body, closes), expected) in rows {
        let head = format!("HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\n{framing}\r\n\r\n");
        let act = Act::bytes(head).send(body);
        upstream.next(if closes { act.close() } else { act });
        let mut caller = Caller::connect(gate.production());
        let answer = caller.send(valid(operation("listUsers")).bytes()).answer();
        let shown = match (answer.header("content-length"), answer.header("transfer-encoding")) {
            (Some(length), None) => format!("length {length}"),
            (None, Some(coding)) => coding,
            (None, None) => "none".to_owned(),
            both => format!("{both:?}"),
        };
        faults.unless((answer.status, &shown) == (status, &expected), || {
            format!("{status} {framing:?}: {} {shown}, expected {expected}", answer.status)
        });
        let whole = (answer.status != 200) || answer.text() == BODY;
        faults.unless(whole, || format!("{framing:?}: {:?}", answer.text()));
        upstream.forget();
        if answer.header("connection").as_deref() == Some("close") {
            continue;
        }
        // The connection goes on, and the next answer on it is the next call's.
        let next = caller.try_send(valid(operation("listUsers")).bytes()).ok().and_then(|()| caller.try_answer().ok());
        faults.unless(next.is_some_and(|next| next.status == 200), || format!("{framing:?}: no next answer"));
    }
    faults.assert_none();
}

#[test]
fn well_formed_errors_pass_byte_for_byte() {
    for enforce in [false, true] {
        let upstream = Upstream::start();
        let setup = gate(&upstream);
        let gate = if enforce { setup.enforce() } else { setup }.start();
        for body in [A, B, C, D] {
            let headers = [("Content-Type", "application/json;charset=UTF-8"), ("Retry-After", "7")];
            upstream.next(Act::bytes(crate::support::upstream::answer(429, &headers, body.as_bytes())));
            let answer = valid(operation("listUsers")).send(gate.production());
            assert_eq!((answer.status, answer.text().as_str()), (429, body), "enforce {enforce}");
            assert_eq!(answer.header("retry-after").as_deref(), Some("7"));
            assert_eq!(answer.header("content-type").as_deref(), Some("application/json;charset=UTF-8"));
        }
    }
}

/// The gate asked for no coding, and cannot look into one.
#[test]
fn an_answer_in_another_transfer_coding_than_chunks_is_none() {
    let upstream = Upstream::start();
    let gate = gate(&upstream).start();
    for coding in [
        "gzip, chunked",
        "chunked, gzip",
        "gzip",
        "xchunked",
        "chunked, chunked",
        "chunked\r\nTransfer-Encoding: identity",
        "chunked;q=1",
        "",
    ] {
        let head = |status: u16| {
            format!("HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\nTransfer-Encoding: {coding}\r\n\r\n")
        };
        for status in [200, 404] {
            upstream.next(Act::bytes(head(status)).send("2\r\n{}\r\n0\r\n\r\n").close());
            let read = valid(operation("listUsers")).send(gate.production());
            assert_eq!((read.status, read.code().as_str()), (502, "UPSTREAM_UNAVAILABLE"), "{coding} {status}: {read}");
            upstream.next(Act::bytes(head(status)).send("2\r\n{}\r\n0\r\n\r\n").close());
            let write = valid(operation("createSwap")).send(gate.production());
            let told = (write.code(), write.outcome());
            assert_eq!(told, ("OUTCOME_UNKNOWN".to_owned(), "unknown".to_owned()), "{coding} {status}: {write}");
        }
    }
}
