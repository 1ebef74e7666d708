//! Everything that the simulator refuses, and the one place that says with which status and in which shape.

use http::Method;
use serde_json::{Value, json};

use super::answer::Answer;
use crate::base::json::JsonError;
use crate::catalog::{Operation, Shape, Violation};

/// A call that is not carried out.
#[derive(Clone, Debug)]
pub(super) enum Refusal {
    NoCredentials,
    BadCredentials,
    UnknownPath,
    WrongMethod { allowed: Vec<Method> },
    TooLarge,
    NotJson,
    Unreadable(JsonError),
    Violations(Vec<Violation>),
    NotFound { what: &'static str },
    NotCancellable { status: &'static str, requested: bool },
    OfferNotOpen { status: &'static str },
    InsufficientBalance,
    NoBehaviour,
}

impl Refusal {
    /// A single violation of a parameter or field.
    pub(super) fn violation(pointer: &str, keyword: &str, expected: &str) -> Refusal {
        Refusal::Violations(vec![Violation::new(pointer, keyword, expected)])
    }

    /// The answer: its shape is the one that the contract documents for the status, else the usual one.
    pub(super) fn answer(&self, operation: Option<&Operation>) -> Answer {
        let status = self.status();
        let documented = operation.and_then(|o| o.answer(status)).and_then(|a| a.shape);
        let body = match documented.unwrap_or_else(|| self.usual_shape()) {
            Shape::A => json!({"code": status, "error": self.code(), "errorDetails": self.message()}),
            Shape::B => json!({"status": "error", "error": {"code": self.code(), "message": self.message()}}),
            Shape::C => {
                let error = json!({"code": self.code(), "message": self.message(), "details": self.details()});
                json!({"status": "error", "error": error})
            }
            Shape::D => json!({"error": self.message()}),
        };
        Answer { status, headers: self.headers(), body }
    }

    fn status(&self) -> u16 {
        match self {
            Refusal::NoCredentials | Refusal::BadCredentials => 401,
            Refusal::UnknownPath | Refusal::NotFound { .. } => 404,
            Refusal::WrongMethod { .. } => 405,
            Refusal::TooLarge => 413,
            Refusal::NotJson => 415,
            Refusal::Unreadable(_)
            | Refusal::Violations(_)
            | Refusal::NotCancellable { .. }
            | Refusal::OfferNotOpen { .. }
            | Refusal::InsufficientBalance => 400,
            Refusal::NoBehaviour => 501,
        }
    }

    fn usual_shape(&self) -> Shape {
        match self {
            Refusal::NoCredentials | Refusal::NoBehaviour => Shape::A,
            Refusal::BadCredentials => Shape::D,
            Refusal::UnknownPath | Refusal::NotFound { .. } | Refusal::WrongMethod { .. } => Shape::B,
            Refusal::TooLarge
            | Refusal::NotJson
            | Refusal::Unreadable(_)
            | Refusal::Violations(_)
            | Refusal::NotCancellable { .. }
            | Refusal::OfferNotOpen { .. }
            | Refusal::InsufficientBalance => Shape::C,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Refusal::NoCredentials | Refusal::BadCredentials => "UNAUTHORIZED",
            Refusal::UnknownPath => "ROUTE_NOT_FOUND",
            Refusal::WrongMethod { .. } => "METHOD_NOT_ALLOWED",
            Refusal::TooLarge => "PAYLOAD_TOO_LARGE",
            Refusal::NotJson => "UNSUPPORTED_MEDIA_TYPE",
            Refusal::Unreadable(_) => "INVALID_JSON",
            Refusal::Violations(_) => "VALIDATION_ERROR",
            Refusal::NotFound { .. } => "NOT_FOUND",
            Refusal::NotCancellable { .. } => "SWAP_NOT_CANCELLABLE",
            Refusal::OfferNotOpen { .. } => "OFFER_NOT_OPEN",
            Refusal::InsufficientBalance => "INSUFFICIENT_BALANCE",
            Refusal::NoBehaviour => "NOT_IMPLEMENTED",
        }
    }

    fn message(&self) -> String {
        match self {
            Refusal::NoCredentials => "missing credentials: send `Authorization: Bearer <ACCESS_TOKEN>`".to_owned(),
            Refusal::BadCredentials => "API key is invalid or user not found".to_owned(),
            Refusal::UnknownPath => "no such route".to_owned(),
            Refusal::WrongMethod { .. } => "the route does not take this method".to_owned(),
            Refusal::TooLarge => "the body is too large".to_owned(),
            Refusal::NotJson => "send the body as `Content-Type: application/json`".to_owned(),
            Refusal::Unreadable(error) => format!("the body is not JSON: {error}"),
            Refusal::Violations(_) => "the request does not satisfy the interface".to_owned(),
            Refusal::NotFound { what } => format!("{what} not found"),
            Refusal::NotCancellable { status, .. } => format!("the swap is {status} and cannot be cancelled"),
            Refusal::OfferNotOpen { status } => format!("the offer is {status} and cannot be accepted"),
            Refusal::InsufficientBalance => "the source wallet does not hold this amount".to_owned(),
            Refusal::NoBehaviour => {
                "the simulator knows neither a behaviour nor an example of this operation".to_owned()
            }
        }
    }

    fn details(&self) -> Value {
        match self {
            Refusal::Violations(violations) => {
                json!({"violations": violations.iter().map(Violation::to_json).collect::<Vec<_>>()})
            }
            Refusal::NotCancellable { status, requested } => {
                json!({"status": status, "cancellable": false, "cancellationRequested": requested})
            }
            Refusal::OfferNotOpen { status } => json!({"status": status}),
            Refusal::NoCredentials
            | Refusal::BadCredentials
            | Refusal::UnknownPath
            | Refusal::WrongMethod { .. }
            | Refusal::TooLarge
            | Refusal::NotJson
            | Refusal::Unreadable(_)
            | Refusal::NotFound { .. }
            | Refusal::InsufficientBalance
            | Refusal::NoBehaviour => json!({}),
        }
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        match self {
            Refusal::NoCredentials | Refusal::BadCredentials => vec![("www-authenticate", "Bearer".to_owned())],
            Refusal::WrongMethod { allowed } => {
                vec![("allow", allowed.iter().map(Method::as_str).collect::<Vec<_>>().join(", "))]
            }
            Refusal::UnknownPath
            | Refusal::TooLarge
            | Refusal::NotJson
            | Refusal::Unreadable(_)
            | Refusal::Violations(_)
            | Refusal::NotFound { .. }
            | Refusal::NotCancellable { .. }
            | Refusal::OfferNotOpen { .. }
            | Refusal::InsufficientBalance
            | Refusal::NoBehaviour => Vec::new(),
        }
    }
}
