//! The headers of upstream's answers that pass, and the writing of errors.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::Code;
use crate::catalog::ErrorShape;

/// The headers of a success that pass: they describe the body, its age, or how often the caller may call.
const PASSED_OF_SUCCESSES: [&str; 15] = [
    "content-type",
    "content-encoding",
    "content-language",
    "date",
    "age",
    "cache-control",
    "expires",
    "etag",
    "last-modified",
    "vary",
    "retry-after",
    "ratelimit",
    "ratelimit-policy",
    "ratelimit-remaining",
    "ratelimit-reset",
];

/// The headers of an error that pass: none that could reveal upstream's inner workings.
const PASSED_OF_ERRORS: [&str; 8] = [
    "content-type",
    "date",
    "retry-after",
    "www-authenticate",
    "ratelimit",
    "ratelimit-policy",
    "ratelimit-remaining",
    "ratelimit-reset",
];

/// The longest value of a header that passes, or all its values together. The longest useful value is some 100 bytes long.
const MAX_HEADER_BYTES: usize = 512;

/// The headers that may be sent several times, because their values are lists.
const LISTS: [&str; 5] = ["cache-control", "vary", "www-authenticate", "ratelimit", "ratelimit-policy"];

/// Returns whether a header of upstream's answer passes to the caller: only a listed one, with short values, and sent
/// once unless its values are lists.
pub fn is_passed(name: &HeaderName, status: u16, all: &HeaderMap) -> bool {
    let listed: &[&str] = if status >= 400 { &PASSED_OF_ERRORS } else { &PASSED_OF_SUCCESSES };
    let values = all.get_all(name);
    let is_short = values.iter().map(HeaderValue::len).sum::<usize>() <= MAX_HEADER_BYTES;
    let is_alone = values.iter().nth(1).is_none() || LISTS.contains(&name.as_str());
    listed.contains(&name.as_str()) && is_short && is_alone
}

/// An error in one of the API's four shapes; details link to the help on the code.
pub fn error_in_shape(shape: ErrorShape, status: u16, code: Code, message: &str, details: Option<Value>) -> Value {
    let (code, help_path) = (code.as_str(), code.help_path());
    match shape {
        ErrorShape::A => json!({ "code": status, "error": code, "errorDetails": message }),
        ErrorShape::B => json!({ "status": "error", "error": { "code": code, "message": message } }),
        ErrorShape::C => {
            let mut details = details.unwrap_or_else(|| json!({}));
            if let Some(members) = details.as_object_mut() {
                members.insert("docs".to_owned(), Value::from(help_path));
            }
            json!({ "status": "error", "error": { "code": code, "message": message, "details": details } })
        }
        ErrorShape::D => json!({ "error": message }),
    }
}
