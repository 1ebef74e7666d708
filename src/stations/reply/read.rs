//! Answers to reads: success passes, well-formed errors pass as they came, the rest is said again in the API's shapes.

use bytes::Bytes;
use http::header::HeaderMap;
use serde_json::Value;

use super::{Code, Origin, Reply, bare, error_in_shape, from_upstream, own};
use crate::catalog::{Operation, Shape, Violation};
use crate::stations::forward::{AnswerBody, Loss, Sent};
use crate::stations::settle::{drift, is_documented};

/// Why there is no answer to a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFailure {
    Unreachable,
    Silent,
    Broken,
    Redirected,
    /// Upstream did not take the gate's own credential.
    CredentialRefused,
}

impl ReadFailure {
    /// What a status is that is neither success nor an error.
    pub fn of_status(status: u16) -> ReadFailure {
        if (300..400).contains(&status) { ReadFailure::Redirected } else { ReadFailure::Broken }
    }
}

/// The answer to a read that was fetched whole, to be checked before it goes on.
#[derive(Debug)]
pub struct Fetched {
    pub reply: Reply,
    /// In what upstream's success was not what the contract says.
    pub drift: Option<Violation>,
}

/// The body of the answer to a read that upstream refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    AsItCame(Bytes),
    Rebuilt(Bytes),
}

/// The answer to a read that upstream did not answer.
pub fn read_failed(failure: ReadFailure) -> Reply {
    let (code, message) = match failure {
        ReadFailure::Unreachable => (Code::UpstreamUnavailable, "upstream cannot be reached. Try again."),
        ReadFailure::Silent => (Code::UpstreamTimeout, "upstream did not answer in time. Try again."),
        ReadFailure::Broken => (Code::UpstreamUnavailable, "upstream broke off before it answered. Try again."),
        ReadFailure::Redirected => {
            (Code::UpstreamUnavailable, "upstream answered with a redirect, which is not followed.")
        }
        ReadFailure::CredentialRefused => {
            (Code::UpstreamUnavailable, "upstream refused the gate's own credential. Tell who runs the gate.")
        }
    };
    own(code, code.status(), Shape::A, message, None, None)
}

/// The answer to a read, from what is known after sending it.
pub fn fetched(operation: &Operation, injected: bool, sent: Sent) -> Fetched {
    let failed = |failure| Fetched { reply: read_failed(failure), drift: None };
    let (status, headers, body) = match sent {
        Sent::NotWritten => return failed(ReadFailure::Unreachable),
        Sent::Lost(Loss::Broken) => return failed(ReadFailure::Broken),
        Sent::Lost(Loss::Silent) => return failed(ReadFailure::Silent),
        Sent::Answered { status: 300..=399, .. } => return failed(ReadFailure::Redirected),
        Sent::Answered { status: 401, .. } if injected => return failed(ReadFailure::CredentialRefused),
        Sent::Answered { status, headers, body } => (status, headers, body),
    };
    match body {
        AnswerBody::Complete(body) if status < 400 => checked(operation, status, &headers, body),
        AnswerBody::Incomplete(Loss::Silent) if status < 400 => failed(ReadFailure::Silent),
        AnswerBody::Incomplete(Loss::Broken) if status < 400 => failed(ReadFailure::Broken),
        AnswerBody::Complete(body) => passed(read_error(operation, status, &headers, Some(&body)), status, &headers),
        AnswerBody::Incomplete(_) => passed(read_error(operation, status, &headers, None), status, &headers),
    }
}

/// What is said of an error of upstream: its own body if that is as documented, else a rebuilt one.
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

impl ReadError {
    /// The whole answer.
    pub fn into_reply(self, status: u16, headers: &HeaderMap) -> Reply {
        match self {
            ReadError::AsItCame(body) => from_upstream(status, headers, body, None),
            ReadError::Rebuilt(body) => {
                let code = Some(Code::UpstreamError);
                Reply { body, origin: Origin::Upstream, code, ..bare(status, &Value::Null) }
            }
        }
    }

    pub fn body(&self) -> &Bytes {
        match self {
            ReadError::AsItCame(body) | ReadError::Rebuilt(body) => body,
        }
    }
}

fn checked(operation: &Operation, status: u16, headers: &HeaderMap, body: Bytes) -> Fetched {
    match drift(operation, status, headers, &body) {
        None => Fetched { reply: from_upstream(status, headers, body, None), drift: None },
        Some(violation) => {
            let message = "upstream's answer is not what the contract says, and was held back.";
            let code = Code::UpstreamUnavailable;
            Fetched { reply: own(code, code.status(), Shape::A, message, None, None), drift: Some(violation) }
        }
    }
}

fn passed(error: ReadError, status: u16, headers: &HeaderMap) -> Fetched {
    Fetched { reply: error.into_reply(status, headers), drift: None }
}
