//! Answers to reads: successes and well-formed errors pass as they came; other errors are rebuilt in the API's shapes.

use bytes::Bytes;
use http::header::{HeaderMap, LINK};
use serde_json::Value;

use super::{Code, Reply, ReplyOrigin, bare, error_in_shape, from_upstream, own};
use crate::catalog::{ErrorShape, Operation, Violation};
use crate::stations::forward::{AnswerBody, Loss, Sent};
use crate::stations::settle::{drift, is_documented};

/// The reasons why a read has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFailure {
    Unreachable,
    Silent,
    Broken,
    Redirected,
    /// Upstream refused the gate's own credential.
    CredentialRefused,
    /// Upstream's answer contains the gate's own credential, or cannot be searched for it.
    Withheld,
}

impl ReadFailure {
    /// The failure that a status means which is neither success nor error.
    pub fn of_status(status: u16) -> ReadFailure {
        if (300..400).contains(&status) { ReadFailure::Redirected } else { ReadFailure::Broken }
    }
}

/// The answer to a read that was fetched whole, to be checked first.
#[derive(Debug)]
pub struct ReadReply {
    pub reply: Reply,
    /// The first violation of the contract in upstream's success.
    pub drift: Option<Violation>,
}

/// The body of upstream's error answer to a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    AsItCame(Bytes),
    Rebuilt(Bytes),
}

/// The answer to a read that upstream did not answer.
pub fn read_failed(failure: ReadFailure) -> Reply {
    let (code, message) = match failure {
        ReadFailure::Unreachable => (Code::UpstreamUnavailable, "upstream is unreachable. Try again."),
        ReadFailure::Silent => (Code::UpstreamTimeout, "upstream did not answer in time. Try again."),
        ReadFailure::Broken => (
            Code::UpstreamUnavailable,
            "upstream closed the connection before it answered, or its answer cannot be read. Try again.",
        ),
        ReadFailure::Redirected => {
            (Code::UpstreamUnavailable, "upstream answered with a redirect, which is not followed.")
        }
        ReadFailure::CredentialRefused => {
            (Code::UpstreamUnavailable, "upstream refused the gate's own credential. Tell the operators of the gate.")
        }
        ReadFailure::Withheld => (
            Code::UpstreamUnavailable,
            "upstream's answer could reveal the gate's own credential and was withheld. Tell the operators of the gate.",
        ),
    };
    own(code, code.status(), ErrorShape::A, message, None, None)
}

/// The answer to a read, from the result of its send.
pub fn fetched(operation: &Operation, injected: bool, sent: Sent) -> ReadReply {
    let failed = |failure| ReadReply { reply: read_failed(failure), drift: None };
    let (status, headers, body) = match sent {
        Sent::NotWritten | Sent::TooLate => return failed(ReadFailure::Unreachable),
        Sent::Lost(Loss::Broken) => return failed(ReadFailure::Broken),
        Sent::Lost(Loss::Silent) => return failed(ReadFailure::Silent),
        Sent::Answered { status: 300..=399, .. } => return failed(ReadFailure::Redirected),
        Sent::Answered { status: 401, .. } if injected => return failed(ReadFailure::CredentialRefused),
        Sent::Answered { status, headers, body } => (status, headers, body),
    };
    match body {
        AnswerBody::Complete(body) if status < 400 => checked(operation, status, &headers, body),
        AnswerBody::Incomplete { loss: Loss::Silent, .. } if status < 400 => failed(ReadFailure::Silent),
        AnswerBody::Incomplete { loss: Loss::Broken, .. } if status < 400 => failed(ReadFailure::Broken),
        AnswerBody::Complete(body) => passed(read_error(operation, status, &headers, Some(&body)), status, &headers),
        AnswerBody::Incomplete { .. } => passed(read_error(operation, status, &headers, None), status, &headers),
    }
}

/// Returns upstream's own error body if it is as documented, else a rebuilt one.
pub fn read_error(operation: &Operation, status: u16, headers: &HeaderMap, body: Option<&Bytes>) -> ReadError {
    match body {
        Some(body) if is_documented(operation, status, headers, body) => ReadError::AsItCame(body.clone()),
        Some(_) | None => {
            let message = format!("upstream answered {status} without a well-formed error.");
            let value = error_in_shape(operation.error_shape(status), status, Code::UpstreamError, &message, None);
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
                let code = Code::UpstreamError;
                let mut reply = bare(status, &Value::Null);
                reply.headers.extend(code.help_link().map(|link| (LINK, link)));
                Reply { body, origin: ReplyOrigin::Upstream, code: Some(code), ..reply }
            }
        }
    }

    pub fn body(&self) -> &Bytes {
        match self {
            ReadError::AsItCame(body) | ReadError::Rebuilt(body) => body,
        }
    }
}

fn checked(operation: &Operation, status: u16, headers: &HeaderMap, body: Bytes) -> ReadReply {
    match drift(operation, status, headers, &body) {
        None => ReadReply { reply: from_upstream(status, headers, body, None), drift: None },
        Some(violation) => {
            let message = "upstream's answer violates the API contract and was withheld.";
            let code = Code::UpstreamUnavailable;
            ReadReply { reply: own(code, code.status(), ErrorShape::A, message, None, None), drift: Some(violation) }
        }
    }
}

fn passed(error: ReadError, status: u16, headers: &HeaderMap) -> ReadReply {
    ReadReply { reply: error.into_reply(status, headers), drift: None }
}
