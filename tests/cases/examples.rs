//! Every example of the contract, through the real gate.

use serde_json::Value;
use sluice::base::ids::is_identifier;
use sluice::catalog::{ClaimSource, Operation};

use crate::support::shape::{examples, operations, path, shape};
use crate::support::{Call, Setup, Upstream};

#[test]
fn good_bodies_go_on_as_one_canonical_text() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let (mut sent, mut without_value) = (0, 0);
    for operation in operations().filter(|o| o.body.is_some()) {
        for (name, body) in examples(operation, "good-") {
            let answer = Call::new(operation.method.as_str(), path(operation)).json(&body).send(gate.production());
            if answer.code() == "POLICY_DENIED" {
                // A contract can leave open what a payment is worth; rules cannot.
                let why = answer.text();
                assert!(why.contains("amount") && operation.has_amount(), "{name}: {answer}");
                without_value += 1;
                continue;
            }
            assert_eq!((answer.status, answer.outcome().as_str()), (200, "executed"), "{name}: {answer}");
            let seen = upstream.wait_for(sent);
            let value: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(seen.text(), value.to_string(), "{name}");
            sent += 1;
        }
    }
    assert!(sent > 40 && without_value < 10, "{sent} good examples, and {without_value} without a value");
}

#[test]
fn bad_bodies_are_refused_each_with_its_places_and_without_its_values() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let mut refused = 0;
    for operation in operations().filter(|o| o.body.is_some()) {
        for (name, body) in examples(operation, "bad-") {
            let answer = Call::new(operation.method.as_str(), path(operation)).json(&body).send(gate.production());
            assert_eq!((answer.status, answer.origin().as_str()), (400, "gateway"), "{name}: {answer}");
            assert_eq!(shape(&answer.json()), "C", "{name}: {answer}");
            let looked_up = answer.code() == "INVALID_REQUEST" && is_named(operation, &body);
            let outcome = if operation.claim.is_none() || looked_up { "not-executed" } else { "unknown" };
            assert_eq!(answer.outcome(), outcome, "{name}");
            match answer.code().as_str() {
                "INVALID_REQUEST" => assert!(!answer.violations().is_empty(), "{name}: {answer}"),
                // A number that not every reader reads alike.
                "INVALID_JSON" => assert!(answer.text().contains("a number has"), "{name}: {answer}"),
                other => panic!("{name}: {other}"),
            }
            for value in personal(&serde_json::from_slice(&body).unwrap()) {
                assert!(!answer.text().contains(&value), "{name}: {value} is repeated in {answer}");
            }
            refused += 1;
        }
    }
    assert!(refused > 150, "only {refused} bad examples");
    assert_eq!(upstream.seen().len(), 0);
}

/// Whether it can be told by which requestId it would be claimed.
fn is_named(operation: &Operation, body: &[u8]) -> bool {
    let Some(ClaimSource::Body(pointer)) = &operation.claim else { return operation.claim.is_some() };
    let Ok(body) = serde_json::from_slice::<Value>(body) else { return false };
    pointer.get(&body).and_then(Value::as_str).is_some_and(is_identifier)
}

/// Long enough texts of a body that are no words of the schema.
fn personal(body: &Value) -> Vec<String> {
    match body {
        Value::String(text) if text.len() > 11 => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(personal).collect(),
        Value::Object(members) => members.values().flat_map(personal).collect(),
        _ => Vec::new(),
    }
}
