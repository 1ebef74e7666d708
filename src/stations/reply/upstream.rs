//! What of upstream's answers goes on, and how an error is written.

use http::header::{CONNECTION, HeaderMap, HeaderName};
use serde_json::{Value, json};

use super::Code;
use crate::catalog::Shape;

/// What concerns only the connection to upstream, or tells of its inner workings, or is ours to say.
const NOT_PASSED: [&str; 16] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
    "server",
    "via",
    "x-powered-by",
    "set-cookie",
    "alt-svc",
    "x-request-id",
];

/// What goes on of an error's head: nothing that could tell of upstream's inner workings.
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

/// Whether a header of upstream's answer goes on to the caller.
pub fn is_passed(name: &HeaderName, status: u16, all: &HeaderMap) -> bool {
    let name = name.as_str();
    if status >= 400 {
        return PASSED_OF_ERRORS.contains(&name);
    }
    let nominated = || {
        let mut tokens = all.get_all(CONNECTION).iter().filter_map(|h| h.to_str().ok()).flat_map(|t| t.split(','));
        tokens.any(|token| token.trim().eq_ignore_ascii_case(name))
    };
    !NOT_PASSED.contains(&name) && !name.starts_with("sluice-") && !nominated()
}

/// An error in one of the API's four shapes.
pub fn error_in_shape(shape: Shape, status: u16, code: Code, message: &str, details: Option<Value>) -> Value {
    let code = code.as_str();
    match shape {
        Shape::A => json!({ "code": status, "error": code, "errorDetails": message }),
        Shape::B => json!({ "status": "error", "error": { "code": code, "message": message } }),
        Shape::C => {
            let details = details.unwrap_or_else(|| json!({}));
            json!({ "status": "error", "error": { "code": code, "message": message, "details": details } })
        }
        Shape::D => json!({ "error": message }),
    }
}
