//! The contract as tests see it: valid calls made from the catalogue, and the four error shapes.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use sluice::base::ids::OperationId;
use sluice::catalog::{Catalog, ClaimSource, Operation, SchemaFiles};

use super::call::Call;
use super::clock::upstream_time;

pub const ID: &str = "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11";

pub static FILES: LazyLock<SchemaFiles> = LazyLock::new(SchemaFiles::built_in);
pub static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog::build(&FILES, &[]).unwrap());

pub fn operation(id: &str) -> &'static Operation {
    CATALOG.operation(&OperationId::new(id)).unwrap()
}

/// Operations that are on as shipped.
pub fn operations() -> impl Iterator<Item = &'static Operation> {
    CATALOG.operations().iter().map(AsRef::as_ref).filter(|o| o.enabled)
}

/// The examples of an operation whose names start so: name and bytes.
pub fn examples(operation: &Operation, kind: &str) -> Vec<(String, Vec<u8>)> {
    let folder = format!("examples/{}", operation.id);
    let all = FILES.folder(&folder).filter(|(name, _)| name.starts_with(kind));
    all.map(|(name, bytes)| (format!("{}/{name}", operation.id), bytes.to_vec())).collect()
}

/// The path of an operation, an id in each of its parameters.
pub fn path(operation: &Operation) -> String {
    let values: Vec<(String, String)> =
        operation.template.parameters().map(|name| (name.to_owned(), ID.to_owned())).collect();
    operation.template.fill(&values)
}

/// Every documented parameter with a value that it takes.
pub fn query(operation: &Operation) -> Vec<(String, &'static str)> {
    let candidates = ["100", "business", "2024-07-01T10:30:00.000Z", "u-1"];
    let accepted = |parameter: &sluice::catalog::Parameter| {
        candidates.into_iter().find(|c| parameter.contract.accepts(&Value::from(*c))).unwrap()
    };
    operation.query_parameters.iter().map(|p| (p.name.clone(), accepted(p))).collect()
}

/// A valid call, claimed by no other: whoever means the same one again sends its clone.
pub fn valid(operation: &Operation) -> Call {
    let call = Call::new(operation.method.as_str(), fresh_path(operation));
    match operation.body {
        Some(_) => call.json(fresh(operation, &examples(operation, "good-")[0].1)),
        None => call,
    }
}

/// A body with a requestId that nothing else bears, and otherwise byte for byte as it was.
pub fn fresh(operation: &Operation, body: &[u8]) -> Vec<u8> {
    let Some(ClaimSource::Body(pointer)) = &operation.claim else { return body.to_vec() };
    let (text, value) = (std::str::from_utf8(body).unwrap(), serde_json::from_slice(body).unwrap());
    let written = pointer.get(&value).unwrap().to_string();
    let member = text.find("\"requestId\"").unwrap();
    let (before, after) = text.split_at(member);
    [before, &after.replacen(&written, &format!("\"{}\"", fresh_id()), 1)].concat().into_bytes()
}

/// A UUID that was not given before.
pub fn fresh_id() -> String {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    format!("5eed{:04x}-c1a1-4a5e-9a52-6a1c0f7d4e11", GIVEN.fetch_add(1, Ordering::SeqCst))
}

/// The path of an operation, an id in each of its parameters; fresh ones where they are its name.
fn fresh_path(operation: &Operation) -> String {
    match operation.claim {
        Some(ClaimSource::Path(_)) => path(operation).replace(ID, &fresh_id()),
        Some(ClaimSource::Body(_)) | None => path(operation),
    }
}

/// An answer that the operation may give to any call, with white space that no serializer writes.
pub fn odd_answer(operation: &Operation) -> Vec<u8> {
    let good = examples(operation, "answer-good-").remove(0).1;
    // A good example bears the requestId of another call.
    let good = if operation.claim.is_some() { least_answer(operation) } else { good };
    let good = answering(operation, &path(operation), good);
    [b"\n\t ", good.as_slice(), b" \r\n\n"].concat()
}

/// The smallest answer of an operation that the contract takes for one.
pub fn least_answer(operation: &Operation) -> Vec<u8> {
    let good = examples(operation, "answer-good-").into_iter().map(|(_, body)| body);
    answering(operation, &path(operation), good.min_by_key(Vec::len).unwrap_or(b"{}".to_vec()))
}

/// An answer with the id of the record that this path names, where the contract says that it is that record.
pub fn answering(operation: &Operation, target: &str, answer: Vec<u8>) -> Vec<u8> {
    let Some(record) = &operation.answered_record else { return answer };
    let path = target.split('?').next().unwrap();
    let segments: Vec<&str> = path[path.find("/v2/").unwrap() + 1..].split('/').collect();
    let values = operation.template.values(&segments);
    let Some((_, own)) = values.into_iter().find(|(name, _)| *name == record.parameter) else { return answer };
    let text = String::from_utf8(answer).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    match record.id.get(&value).and_then(Value::as_str) {
        Some(other) => text.replacen(&format!("\"{other}\""), &format!("\"{own}\""), 1).into_bytes(),
        None => text.into_bytes(),
    }
}

/// The record of a swap, told from others by its status.
pub fn swap_record(status: &str) -> String {
    format!(r#"{{"transferType":"WALLET.SWAP","transferDetails":{{"id":"{ID}","status":"{status}"}}}}"#)
}

/// Which of the four shapes a body has: `A` to `D`, or `-`.
pub fn shape(body: &Value) -> &'static str {
    let Some(members) = body.as_object() else { return "-" };
    let names: Vec<&str> = members.keys().map(String::as_str).collect();
    match names.as_slice() {
        ["code", "error", "errorDetails"]
            if body["code"].is_u64() && body["error"].is_string() && body["errorDetails"].is_string() =>
        {
            "A"
        }
        ["error", "status"] if body["status"] == "error" => {
            let inner: Vec<&str> =
                body["error"].as_object().map(|o| o.keys().map(String::as_str).collect()).unwrap_or_default();
            match inner.as_slice() {
                ["code", "message"] => "B",
                ["code", "details", "message"] if body["error"]["details"].is_object() => "C",
                _ => "-",
            }
        }
        ["error"] if body["error"].is_string() => "D",
        _ => "-",
    }
}

/// A record as upstream gives it, of this requestId, which it makes now.
pub fn record_of(id: &str, request_id: &str) -> Value {
    let mut record: Value = serde_json::from_slice(&examples(operation(id), "answer-good-")[0].1).unwrap();
    record["transferDetails"]["requestId"] = Value::from(request_id);
    record["transferDetails"]["createdAt"] = Value::from(upstream_time(0));
    record
}
