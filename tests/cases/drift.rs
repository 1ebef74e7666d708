//! Answers that break the contract: counted where they are observed, refused where that is enforced, and never
//! where something was executed.

use serde_json::Value;
use sluice::catalog::Operation;

use crate::support::shape::{examples, odd_answer, operation, operations, shape, valid};
use crate::support::{Act, Call, Gate, Setup, Upstream};

fn drifted(gate: &Gate, operation: &str) -> u64 {
    gate.metric(&format!("sluice_answer_drift_total{{environment=\"production\",operation=\"{operation}\"}}"))
}

fn wait_for_drift(gate: &Gate, operation: &str, count: usize) {
    gate.log.wait("the log of the drift", |lines| {
        let told =
            lines.iter().filter(|l| l["level"] == "WARN" && l["operation"] == operation && l["keyword"].is_string());
        (told.count() == count).then_some(())
    });
}

#[test]
fn a_wrong_answer_to_a_read_passes_and_is_counted() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    for operation in operations().filter(|o| !o.is_write()) {
        let bad = examples(operation, "answer-bad-");
        for (name, body) in &bad {
            upstream.next(Act::json(200, body));
            let answer = valid(operation).send(gate.production());
            assert_eq!((answer.status, &answer.body), (200, body), "{name}");
        }
        upstream.next(Act::json(200, odd_answer(operation)));
        assert_eq!(valid(operation).send(gate.production()).status, 200);
        wait_for_drift(&gate, operation.id.as_str(), bad.len());
        assert_eq!(drifted(&gate, operation.id.as_str()), bad.len() as u64);
    }
    assert_eq!(gate.metric("sluice_answers_unchecked_total"), 0);
}

#[test]
fn a_wrong_answer_to_a_read_is_refused_where_that_is_enforced() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).enforce().start();
    for operation in operations().filter(|o| !o.is_write()) {
        let bad = examples(operation, "answer-bad-");
        for (name, body) in &bad {
            upstream.next(Act::json(200, body));
            let answer = valid(operation).send(gate.production());
            let told = (answer.status, shape(&answer.json()), answer.code(), answer.origin());
            let refused = (502, "A", "UPSTREAM_UNAVAILABLE".to_owned(), "gateway".to_owned());
            assert_eq!(told, refused, "{name}: {answer}");
        }
        for (name, body) in examples(operation, "answer-good-") {
            upstream.next(Act::json(200, &body));
            let answer = valid(operation).send(gate.production());
            assert_eq!((answer.status, answer.body), (200, body), "{name}");
        }
        assert_eq!(drifted(&gate, operation.id.as_str()), bad.len() as u64);
    }
}

/// An additive change of upstream must not turn payments into doubts, and a record of nobody's must not pass.
#[test]
fn a_wrong_answer_to_a_write_passes_if_it_bears_the_calls_own_request_id() {
    let upstream = Upstream::start();
    for setup in [Setup::of(&upstream), Setup::of(&upstream).enforce()] {
        let gate = setup.start();
        for operation in operations().filter(|o| o.is_write()) {
            let bad = examples(operation, "answer-bad-");
            let mut drifts = 0;
            for (name, body) in &bad {
                let call = valid(operation);
                let own = bearing(operation, &call, body);
                for (body, executed) in [(Some(body.clone()), false), (own, true)] {
                    let Some(body) = body else { continue };
                    upstream.next(Act::json(201, &body));
                    let answer = valid_again(operation, &call, executed).send(gate.production());
                    let told = (answer.status, answer.outcome());
                    let expected = if executed { (201, "executed") } else { (502, "unknown") };
                    assert_eq!(told, (expected.0, expected.1.to_owned()), "{name}: {answer}");
                    assert!(!executed || answer.body == body, "{name}: {answer}");
                    drifts += 1;
                }
            }
            wait_for_drift(&gate, operation.id.as_str(), drifts);
            assert_eq!(drifted(&gate, operation.id.as_str()), drifts as u64, "{}", operation.id);
        }
    }
}

/// The same call where its answer bears its requestId, else another one.
fn valid_again(operation: &Operation, call: &Call, is_own: bool) -> Call {
    if is_own { call.clone() } else { valid(operation) }
}

/// A body with the requestId of the call where records have it; `None` where it has no such place, or is good with it.
fn bearing(operation: &Operation, call: &Call, body: &[u8]) -> Option<Vec<u8>> {
    let place = operation.answered_request_id.as_ref()?;
    let own: Value = serde_json::from_slice(&call.body_bytes()).unwrap();
    let mut record: Value = serde_json::from_slice(body).unwrap();
    let parent = place.parent().map_or("", |_| place.as_str().rsplit_once('/').unwrap().0).to_owned();
    record.pointer_mut(&parent)?.as_object_mut()?.insert("requestId".to_owned(), own["requestId"].clone());
    let is_bad = !operation.success().unwrap().contract.accepts(&record);
    is_bad.then(|| record.to_string().into_bytes())
}

#[test]
fn an_answer_that_is_too_large_to_check_is_counted_as_unchecked() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).limit("answer_bytes", 1024).start();
    upstream.next(Act::json(200, vec![b' '; 100_000]));
    let answer = valid(operation("listUsers")).header("X-Request-Id", "large").send(gate.production());
    assert_eq!((answer.status, answer.body.len()), (200, 100_000));
    gate.request_line("large");
    // Checking runs beside: the next answer's drift is told after it.
    upstream.next(Act::json(200, "[]"));
    valid(operation("listUsers")).send(gate.production());
    wait_for_drift(&gate, "listUsers", 1);
    assert_eq!(gate.metric("sluice_answers_unchecked_total"), 1);
}
