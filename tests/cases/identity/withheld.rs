//! The gate's own credential in upstream's answers: it never passes, is never kept and is never logged.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::watched::Watched;
use crate::support::shape::{ID, answering, operation, operations, swap_record, valid};
use crate::support::shared::Signal;
use crate::support::token::token;
use crate::support::{Act, Caller, Setup, Upstream};

const OURS: &str = "the-credential/of-the-gate-itself";

/// A text of JSON with each character of the credential escaped.
fn escaped() -> String {
    OURS.bytes().map(|byte| format!("\\u{byte:04x}")).collect()
}

/// The forms in which a string of JSON may contain the credential.
fn forms() -> [String; 3] {
    [OURS.to_owned(), OURS.replace('/', "\\/"), escaped()]
}

fn gate(upstream: &Upstream, enforce: bool) -> Watched {
    let setup = Setup::of(upstream).set("production", "credential", OURS);
    let gate = Watched::start(if enforce { setup.enforce() } else { setup });
    gate.hides(OURS);
    gate.hides(&escaped());
    gate
}

/// Whether any file under a folder contains a text.
fn is_kept(folder: &Path, text: &str) -> bool {
    let is_in = |path: &Path| {
        fs::read(path).is_ok_and(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
    };
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.into_iter().any(|path| if path.is_dir() { is_kept(&path, text) } else { is_in(&path) })
}

#[test]
fn an_executed_write_stays_executed_without_its_body() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, false);
    for form in forms() {
        for operation in operations().filter(|operation| operation.is_write()) {
            let call = valid(operation);
            let record = format!(
                r#"{{"id":"{ID}","transferType":"WALLET.SWAP","transferDetails":{{"id":"{ID}"}},"echo":"{form}"}}"#
            );
            let record = if operation.id.as_str() == "createOfframp" {
                record.replace("WALLET.SWAP", "OFFRAMP")
            } else {
                record
            };
            upstream.next(Act::json(201, answering(operation, &call.line(), record.into_bytes())));
            let answer = gate.call(gate.production(), call.clone(), token());
            let told = (answer.status, answer.outcome(), answer.json()["status"].clone());
            assert_eq!(told, (201, "executed".to_owned(), json!("executed")), "{}: {answer}", operation.id);
            if operation.claim.is_some() {
                let again = gate.call(gate.production(), call, token());
                assert_eq!((again.status, &again.body), (201, &answer.body), "{}: {again}", operation.id);
            }
        }
    }
    assert!(!is_kept(&gate.path("sluice-data"), OURS) && !is_kept(&gate.path("sluice-audit"), OURS));
    gate.assert_silent();
}

#[test]
fn refusals_and_doubts_keep_their_meaning_without_their_text() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, false);
    for form in forms() {
        let refusal = format!(r#"{{"code":1,"error":"X","errorDetails":"{form}"}}"#);
        let foreign = format!(r#"{{"{form}":1}}"#);
        for id in ["createSwap", "cancelSwap"] {
            for (status, body, code, outcome) in [
                (422, &refusal, "UPSTREAM_ERROR", "not-executed"),
                (500, &refusal, "OUTCOME_UNKNOWN", "unknown"),
                (201, &foreign, "OUTCOME_UNKNOWN", "unknown"),
            ] {
                upstream.next(Act::json(status, body));
                let answer = gate.call(gate.production(), valid(operation(id)), token());
                let told = (answer.code(), answer.outcome());
                assert_eq!(told, (code.to_owned(), outcome.to_owned()), "{id} {status}: {answer}");
                assert!(status == 201 || answer.status == status, "{answer}");
            }
        }
    }
    gate.assert_silent();
}

#[test]
fn a_read_that_is_checked_first_is_withheld() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, true);
    for form in forms() {
        upstream.next(Act::json(200, format!(r#"{{"count":0,"users":[],"echo":"{form}"}}"#)));
        let answer = gate.call(gate.production(), valid(operation("listUsers")), token());
        assert_eq!((answer.status, answer.code().as_str()), (502, "UPSTREAM_UNAVAILABLE"), "{answer}");
    }
    gate.assert_silent();
}

/// A stream is cut before the first byte of the credential, wherever its pieces end.
#[test]
fn a_read_that_streams_is_cut_before_the_credential() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, false);
    for form in forms() {
        for cut in 1..form.len() {
            let body = format!(r#"{{"count":0,"users":[],"echo":"{form}","more":"x"}}"#);
            let at = body.find(&form).unwrap();
            let (first, second) = body.split_at(at + cut);
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
            let go = Signal::new();
            upstream.next(Act::bytes(format!("{head}{first}")).wait(&go).send(second));
            let mut caller = Caller::connect(gate.production());
            caller.send(valid(operation("listUsers")).bytes());
            assert!(caller.head().first.contains("200"));
            go.give();
            let rest = caller.rest().unwrap_or_default();
            assert!(body.as_bytes().starts_with(&rest) && rest.len() <= at, "{}", String::from_utf8_lossy(&rest));
        }
    }
    // What only looks like its beginning passes whole.
    let body = format!(r#"{{"count":0,"users":[],"echo":"{}","more":"\u0074\u0068\u00"}}"#, &OURS[..OURS.len() - 1]);
    upstream.next(Act::json(200, &body));
    let answer = valid(operation("listUsers")).send(gate.production());
    assert_eq!((answer.status, answer.text()), (200, body));
    gate.assert_silent();
}

#[test]
fn an_error_of_a_read_is_rebuilt_and_an_encoded_answer_is_withheld() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, false);
    for form in forms() {
        upstream.next(Act::json(404, format!(r#"{{"status":"error","error":{{"code":"X","message":"{form}"}}}}"#)));
        let answer = gate.call(gate.production(), valid(operation("listUsers")), token());
        assert_eq!((answer.status, answer.code().as_str()), (404, "UPSTREAM_ERROR"), "{answer}");
    }
    let headers = [("Content-Type", "application/json"), ("Content-Encoding", "gzip")];
    upstream.next(Act::bytes(crate::support::upstream::answer(200, &headers, b"\x1f\x8b")));
    let answer = gate.call(gate.production(), valid(operation("listUsers")), token());
    assert_eq!((answer.status, answer.code().as_str()), (502, "UPSTREAM_UNAVAILABLE"), "{answer}");
    gate.assert_silent();
}

/// What counts is the credential that this call sent, not the one that is current when its answer comes.
#[test]
fn a_credential_that_was_replaced_meanwhile_is_still_withheld() {
    let upstream = Upstream::start();
    let setup = Setup::of(&upstream).file("production.token", OURS).set_raw(
        "production",
        "credential",
        r#"{ file = "production.token" }"#,
    );
    let gate = Watched::start(setup);
    gate.hides(OURS);
    let (go, call) = (Signal::new(), valid(operation("createSwap")));
    let record = format!(r#"{{"transferType":"WALLET.SWAP","transferDetails":{{"id":"{ID}"}},"echo":"{OURS}"}}"#);
    upstream.next(Act::json(201, record).after(&go));
    let mut caller = Caller::connect(gate.production());
    caller.send(call.bytes());
    upstream.wait_for(0);
    let next = "the-next-credential-of-the-gate";
    gate.hides(next);
    fs::write(gate.path("production.token"), next).unwrap();
    gate.signal("HUP");
    gate.log.wait("the next credential", |lines| {
        let is_told = |line: &&serde_json::Value| line["message"] == "the credential for upstream changed";
        lines.iter().find(is_told).map(drop)
    });
    go.give();
    let answer = caller.answer();
    assert_eq!(
        (answer.outcome().as_str(), answer.json()["status"].clone()),
        ("executed", json!("executed")),
        "{answer}"
    );
    assert!(!answer.to_string().contains(OURS), "{answer}");
    gate.assert_silent();
}

/// Parameters of `Content-Type`, and headers over several lines, in which a search would not find it.
#[test]
fn a_content_type_or_a_folded_header_does_not_pass_with_it() {
    let upstream = Upstream::start();
    for enforce in [false, true] {
        let gate = gate(&upstream, enforce);
        let (first, last) = OURS.split_at(7);
        gate.hides(last);
        for line in [
            format!("Content-Type: application/json; x={OURS}"),
            format!("Content-Type: application/json;\r\n x={first}\r\n {last}"),
            format!("Content-Type: application/json\r\nETag: \"{first}\r\n\t{last}\""),
        ] {
            for (id, status, body) in [
                ("listUsers", 200, r#"{"count":0,"users":[]}"#.to_owned()),
                ("listUsers", 404, r#"{"error":"x"}"#.to_owned()),
                ("createSwap", 201, swap_record("NEW")),
                ("createSwap", 404, r#"{"error":"x"}"#.to_owned()),
            ] {
                let head = format!("HTTP/1.1 {status} Status\r\n{line}\r\nContent-Length: {}\r\n\r\n", body.len());
                upstream.next(Act::bytes(head).send(&body));
                let answer = gate.call(gate.production(), valid(operation(id)), token());
                assert_eq!((answer.status, answer.text()), (status, body), "{line}: {answer}");
                assert_eq!(answer.header("content-type").as_deref(), Some("application/json"), "{line}: {answer}");
                assert!(!answer.to_string().contains(last), "{line}: {answer}");
            }
        }
        upstream
            .next(Act::bytes(format!("HTTP/1.1 200 OK\r\nContent-Type: text/{OURS}\r\nContent-Length: 2\r\n\r\n{{}}")));
        let answer = gate.call(gate.production(), valid(operation("listUsers")), token());
        assert!(!answer.to_string().contains(OURS), "{answer}");
        gate.assert_silent();
    }
}
