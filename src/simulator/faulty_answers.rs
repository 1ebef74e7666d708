//! The bytes of answers that faults spoil.

use serde_json::{Value, json};

use super::answer::SimulatorAnswer;
use super::delivery::{Delivery, faultless, json_headers};
use crate::base::json;
use crate::catalog::Operation;

/// Returns a head that promises the whole body, and the body without its end.
pub(super) fn without_end(answer: &SimulatorAnswer) -> Vec<u8> {
    let mut bytes = whole(answer);
    bytes.pop();
    bytes
}

pub(super) fn whole(answer: &SimulatorAnswer) -> Vec<u8> {
    let (mut bytes, body) = head_and_body(answer);
    bytes.extend(body);
    bytes
}

fn head_and_body(answer: &SimulatorAnswer) -> (Vec<u8>, Vec<u8>) {
    let body = json::to_bytes(&answer.body);
    let head = format!(
        "HTTP/1.1 {} Simulated\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        answer.status,
        body.len()
    );
    (head.into_bytes(), body)
}

/// Returns a record in which every requestId is another one.
pub(super) fn with_foreign_id(body: &Value) -> Value {
    match body {
        Value::Object(members) => {
            let foreign = |(name, value): (&String, &Value)| match name.as_str() {
                "requestId" => (name.clone(), json!("somebody-elses")),
                _ => (name.clone(), with_foreign_id(value)),
            };
            Value::Object(members.iter().map(foreign).collect())
        }
        Value::Array(items) => items.iter().map(with_foreign_id).collect(),
        other => other.clone(),
    }
}

/// Answers a repeated requestId: with its record if the status is 200, else with a refusal.
pub(super) fn already_exists(status: u16, record: &Value) -> Delivery {
    if status == 200 {
        return faultless(&SimulatorAnswer::new(status, record.clone()));
    }
    let text = "this transaction request already exists";
    let body = json!({ "code": status, "error": "TRANSACTION_REQUEST", "errorDetails": text });
    let headers = vec![("content-type", "application/json".to_owned())];
    Delivery::Http { status, headers, body: json::to_bytes(&body) }
}

pub(super) fn echo(answer: &SimulatorAnswer, credential: &str) -> Delivery {
    let mut body = answer.body.clone();
    if let Some(members) = body.as_object_mut() {
        members.insert("yourAuthorization".to_owned(), json!(credential));
    }
    let headers = json_headers(answer).into_iter().chain([("x-your-authorization", credential.to_owned())]);
    Delivery::Http { status: answer.status, headers: headers.collect(), body: json::to_bytes(&body) }
}

pub(super) fn html_500() -> Delivery {
    let page = "<html><head><title>500 Internal Server Error</title></head><body>worker-7.internal: upstream connect error</body></html>";
    let headers = vec![("content-type", "text/html".to_owned())];
    Delivery::Http { status: 500, headers, body: page.as_bytes().to_vec() }
}

pub(super) fn garbage() -> Vec<u8> {
    b"\x16\x03\x01\x02\x00\x01\x00 this is not HTTP\r\n\r\n".to_vec()
}

/// Returns the first of some odd values that the contract does not allow as an answer.
pub(super) fn wrong_shape(operation: Option<&Operation>, status: u16) -> Value {
    let odd = [json!({"unexpected": true}), json!(["unexpected"])];
    let contract = operation.and_then(|o| o.answer(status)).map(|a| &a.contract);
    let refused = odd.into_iter().find(|value| contract.is_none_or(|c| !c.accepts(value)));
    refused.unwrap_or(Value::Null)
}

pub(super) fn padded(body: &Value, bytes: usize) -> Value {
    let padding = Value::String("x".repeat(bytes));
    let mut padded = body.clone();
    match padded.as_object_mut() {
        Some(members) => {
            members.insert("padding".to_owned(), padding);
            padded
        }
        None => json!([body, padding]),
    }
}
