//! Upstream's errors: well-formed ones pass as they came, the rest is said again in the API's own shapes.

use bytes::Bytes;
use http::header::{CONNECTION, HeaderMap, HeaderName};
use serde_json::{Value, json};

use super::{Code, Origin, Reply};
use crate::catalog::{Operation, Shape};
use crate::stations::settle::is_documented;

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

/// Whether a header of upstream's answer goes on to the caller.
pub fn is_passed(name: &HeaderName, all: &HeaderMap) -> bool {
    let name = name.as_str();
    let nominated = || {
        let mut tokens = all.get_all(CONNECTION).iter().filter_map(|h| h.to_str().ok()).flat_map(|t| t.split(','));
        tokens.any(|token| token.trim().eq_ignore_ascii_case(name))
    };
    !NOT_PASSED.contains(&name) && !name.starts_with("sluice-") && !nominated()
}

/// The body of the answer to a read that upstream refused: its own if that is as documented, else a rebuilt one.
pub fn read_error(operation: &Operation, status: u16, headers: &HeaderMap, body: Option<&Bytes>) -> ReadError {
    match body {
        Some(body) if is_documented(operation, status, headers, body) => ReadError::AsItCame(body.clone()),
        Some(_) | None => {
            let shape = operation.answer(status).and_then(|a| a.shape).unwrap_or_else(|| Shape::usual(status));
            let message = format!("upstream answered {status} without an error that can be passed on.");
            let value = error_in_shape(shape, status, Code::UpstreamError, &message, None);
            ReadError::Rebuilt(Bytes::from(value.to_string()))
        }
    }
}

/// The body of a failed read's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    AsItCame(Bytes),
    Rebuilt(Bytes),
}

impl ReadError {
    /// The whole answer.
    pub fn into_reply(self, status: u16, headers: &HeaderMap) -> Reply {
        match self {
            ReadError::AsItCame(body) => super::from_upstream(status, headers, body, None),
            ReadError::Rebuilt(body) => Reply {
                body,
                origin: Origin::Upstream,
                code: Some(Code::UpstreamError),
                ..super::bare(status, &Value::Null)
            },
        }
    }

    pub fn body(&self) -> &Bytes {
        match self {
            ReadError::AsItCame(body) | ReadError::Rebuilt(body) => body,
        }
    }
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
