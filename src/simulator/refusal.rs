//! All refusals of the simulator, and the one place that gives them a status and a shape.

use http::Method;
use serde_json::{Value, json};

use super::answer::SimulatorAnswer;
use crate::base::json::JsonError;
use crate::catalog::{ErrorShape, Operation, Violation};

/// A call that is not executed.
#[derive(Clone, Debug)]
pub(super) enum SimulatorRefusal {
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

impl SimulatorRefusal {
    /// Returns a single violation of a parameter or field.
    pub(super) fn violation(pointer: &str, keyword: &str, expected: &str) -> SimulatorRefusal {
        SimulatorRefusal::Violations(vec![Violation::new(pointer, keyword, expected)])
    }

    /// Returns the answer: in the shape that the contract documents for the status, else in the usual one.
    pub(super) fn answer(&self, operation: Option<&Operation>) -> SimulatorAnswer {
        let status = self.status();
        let documented = operation.and_then(|o| o.answer(status)).and_then(|a| a.shape);
        let body = match documented.unwrap_or_else(|| self.usual_shape()) {
            ErrorShape::A => json!({"code": status, "error": self.code(), "errorDetails": self.message()}),
            ErrorShape::B => json!({"status": "error", "error": {"code": self.code(), "message": self.message()}}),
            ErrorShape::C => {
                let error = json!({"code": self.code(), "message": self.message(), "details": self.details()});
                json!({"status": "error", "error": error})
            }
            ErrorShape::D => json!({"error": self.message()}),
        };
        SimulatorAnswer { status, headers: self.headers(), body }
    }

    fn status(&self) -> u16 {
        match self {
            SimulatorRefusal::NoCredentials | SimulatorRefusal::BadCredentials => 401,
            SimulatorRefusal::UnknownPath | SimulatorRefusal::NotFound { .. } => 404,
            SimulatorRefusal::WrongMethod { .. } => 405,
            SimulatorRefusal::TooLarge => 413,
            SimulatorRefusal::NotJson => 415,
            SimulatorRefusal::Unreadable(_)
            | SimulatorRefusal::Violations(_)
            | SimulatorRefusal::NotCancellable { .. }
            | SimulatorRefusal::OfferNotOpen { .. }
            | SimulatorRefusal::InsufficientBalance => 400,
            SimulatorRefusal::NoBehaviour => 501,
        }
    }

    fn usual_shape(&self) -> ErrorShape {
        match self {
            SimulatorRefusal::NoCredentials | SimulatorRefusal::NoBehaviour => ErrorShape::A,
            SimulatorRefusal::BadCredentials => ErrorShape::D,
            SimulatorRefusal::UnknownPath
            | SimulatorRefusal::NotFound { .. }
            | SimulatorRefusal::WrongMethod { .. } => ErrorShape::B,
            SimulatorRefusal::TooLarge
            | SimulatorRefusal::NotJson
            | SimulatorRefusal::Unreadable(_)
            | SimulatorRefusal::Violations(_)
            | SimulatorRefusal::NotCancellable { .. }
            | SimulatorRefusal::OfferNotOpen { .. }
            | SimulatorRefusal::InsufficientBalance => ErrorShape::C,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            SimulatorRefusal::NoCredentials | SimulatorRefusal::BadCredentials => "UNAUTHORIZED",
            SimulatorRefusal::UnknownPath => "ROUTE_NOT_FOUND",
            SimulatorRefusal::WrongMethod { .. } => "METHOD_NOT_ALLOWED",
            SimulatorRefusal::TooLarge => "PAYLOAD_TOO_LARGE",
            SimulatorRefusal::NotJson => "UNSUPPORTED_MEDIA_TYPE",
            SimulatorRefusal::Unreadable(_) => "INVALID_JSON",
            SimulatorRefusal::Violations(_) => "VALIDATION_ERROR",
            SimulatorRefusal::NotFound { .. } => "NOT_FOUND",
            SimulatorRefusal::NotCancellable { .. } => "SWAP_NOT_CANCELLABLE",
            SimulatorRefusal::OfferNotOpen { .. } => "OFFER_NOT_OPEN",
            SimulatorRefusal::InsufficientBalance => "INSUFFICIENT_BALANCE",
            SimulatorRefusal::NoBehaviour => "NOT_IMPLEMENTED",
        }
    }

    fn message(&self) -> String {
        match self {
            SimulatorRefusal::NoCredentials => {
                "missing credentials: send `Authorization: Bearer <ACCESS_TOKEN>`".to_owned()
            }
            SimulatorRefusal::BadCredentials => "API key is invalid or user not found".to_owned(),
            SimulatorRefusal::UnknownPath => "no such route".to_owned(),
            SimulatorRefusal::WrongMethod { .. } => "the route does not take this method".to_owned(),
            SimulatorRefusal::TooLarge => "the body is too large".to_owned(),
            SimulatorRefusal::NotJson => "send the body as `Content-Type: application/json`".to_owned(),
            SimulatorRefusal::Unreadable(error) => format!("the body is not JSON: {error}"),
            SimulatorRefusal::Violations(_) => "the request does not satisfy the interface".to_owned(),
            SimulatorRefusal::NotFound { what } => format!("{what} not found"),
            SimulatorRefusal::NotCancellable { status, .. } => format!("the swap is {status} and cannot be cancelled"),
            SimulatorRefusal::OfferNotOpen { status } => format!("the offer is {status} and cannot be accepted"),
            SimulatorRefusal::InsufficientBalance => "the source wallet does not hold this amount".to_owned(),
            SimulatorRefusal::NoBehaviour => {
                "the simulator has neither a behaviour nor an example for this operation".to_owned()
            }
        }
    }

    fn details(&self) -> Value {
        match self {
            SimulatorRefusal::Violations(violations) => {
                json!({"violations": violations.iter().map(Violation::to_json).collect::<Vec<_>>()})
            }
            SimulatorRefusal::NotCancellable { status, requested } => {
                json!({"status": status, "cancellable": false, "cancellationRequested": requested})
            }
            SimulatorRefusal::OfferNotOpen { status } => json!({"status": status}),
            SimulatorRefusal::NoCredentials
            | SimulatorRefusal::BadCredentials
            | SimulatorRefusal::UnknownPath
            | SimulatorRefusal::WrongMethod { .. }
            | SimulatorRefusal::TooLarge
            | SimulatorRefusal::NotJson
            | SimulatorRefusal::Unreadable(_)
            | SimulatorRefusal::NotFound { .. }
            | SimulatorRefusal::InsufficientBalance
            | SimulatorRefusal::NoBehaviour => json!({}),
        }
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        match self {
            SimulatorRefusal::NoCredentials | SimulatorRefusal::BadCredentials => {
                vec![("www-authenticate", "Bearer".to_owned())]
            }
            SimulatorRefusal::WrongMethod { allowed } => {
                vec![("allow", allowed.iter().map(Method::as_str).collect::<Vec<_>>().join(", "))]
            }
            SimulatorRefusal::UnknownPath
            | SimulatorRefusal::TooLarge
            | SimulatorRefusal::NotJson
            | SimulatorRefusal::Unreadable(_)
            | SimulatorRefusal::Violations(_)
            | SimulatorRefusal::NotFound { .. }
            | SimulatorRefusal::NotCancellable { .. }
            | SimulatorRefusal::OfferNotOpen { .. }
            | SimulatorRefusal::InsufficientBalance
            | SimulatorRefusal::NoBehaviour => Vec::new(),
        }
    }
}
