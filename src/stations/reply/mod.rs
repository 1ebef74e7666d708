//! What the caller hears: the one place where refusals and outcomes become answers.
//!
//! Every answer says who made it and, where something could have been executed, whether it was. An outage is
//! never dressed up as a refusal, a refusal never as an outage, a payment never as a failure.

mod claimed;
mod codes;
mod decided;
mod held;
mod rate;
mod read;
mod upstream;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use serde_json::{Value, json};

pub use claimed::{Closed, claimed, closed};
pub use codes::Code;
pub use decided::{Earlier, denied, not_held};
pub use held::{Waiting, declined, held};
pub use rate::{Exceeded, RATE_LIMIT, RATE_LIMIT_POLICY, Rated, exceeded, rate_fields};
pub use read::{Fetched, ReadError, ReadFailure, fetched, read_error, read_failed};
pub use upstream::{error_in_shape, is_passed};

use super::admit::{AdmitRefusal, LONGEST_TARGET, TokenFault};
use super::check::CheckRefusal;
use super::forward::AnswerBody;
use super::settle::{Doubt, NotExecuted, Outcome};
use crate::base::ids::RequestId;
use crate::catalog::{Claim, Class, Operation, Shape, Violation};

pub const ORIGIN: HeaderName = HeaderName::from_static("sluice-origin");
pub const OUTCOME: HeaderName = HeaderName::from_static("sluice-outcome");
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An answer, ready to be written.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub origin: Origin,
    pub executed: Option<Executed>,
    /// What Sluice says itself, if it speaks.
    pub code: Option<Code>,
}

/// Who made an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    Gateway,
    Upstream,
}

impl Origin {
    pub fn as_str(self) -> &'static str {
        match self {
            Origin::Gateway => "gateway",
            Origin::Upstream => "upstream",
        }
    }
}

/// Whether the call was executed, as `Sluice-Outcome` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Executed {
    Yes,
    No,
    /// It waits for people.
    Held,
    Unknown,
}

impl Executed {
    pub fn as_str(self) -> &'static str {
        match self {
            Executed::Yes => "executed",
            Executed::No => "not-executed",
            Executed::Held => "held",
            Executed::Unknown => "unknown",
        }
    }
}

/// The station that refused, and why.
#[derive(Clone, Debug)]
pub enum Refusal {
    Admit(AdmitRefusal),
    Exceeded(Exceeded),
    Check(CheckRefusal),
    /// The body did not come within its time.
    BodySlow,
    /// The body broke off or was framed wrongly.
    BodyBroken,
    /// As many bodies are held as may be.
    NoRoom,
    /// This gate ends, and begins nothing new.
    Draining,
}

/// The answer to a call that went no further. `operation` is `None` where the call names none.
pub fn refused(refusal: &Refusal, operation: Option<&Operation>) -> Reply {
    refused_as(refusal, operation, operation.and_then(not_looked_up))
}

/// The answer to a write that went no further, and of which there is no claim.
pub fn refused_unclaimed(refusal: &Refusal, operation: &Operation) -> Reply {
    refused_as(refusal, Some(operation), Some(Executed::No))
}

fn refused_as(refusal: &Refusal, operation: Option<&Operation>, executed: Option<Executed>) -> Reply {
    let (code, message, violations) = told(refusal);
    let message = match executed {
        Some(Executed::Unknown) => {
            format!(
                "{message}. This attempt sent nothing. Whether an earlier one did was not looked up: {}.",
                repeat(operation)
            )
        }
        _ => format!("{message}."),
    };
    let details = match refusal {
        Refusal::Exceeded(exceeded) => {
            Some(json!({ "rates": exceeded.rates.iter().map(AsRef::as_ref).collect::<Vec<&str>>() }))
        }
        _ => (!violations.is_empty())
            .then(|| json!({ "violations": violations.iter().map(Violation::to_json).collect::<Vec<_>>() })),
    };
    let mut reply = own(code, code.status(), code.shape(), &message, details, executed);
    match refusal {
        Refusal::Exceeded(exceeded) => {
            reply.headers.insert(RETRY_AFTER, HeaderValue::from(exceeded.retry_after_secs));
        }
        Refusal::Admit(AdmitRefusal::Unauthorized(_)) => {
            reply.headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        Refusal::Admit(AdmitRefusal::NotBelieved(_)) if code == Code::Unauthorized => {
            reply.headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer error=\"invalid_token\""));
        }
        _ => {}
    }
    if let Refusal::Admit(AdmitRefusal::MethodNotAllowed(allowed)) = refusal {
        let names: Vec<&str> = allowed.iter().map(http::Method::as_str).collect();
        reply.headers.extend(HeaderValue::from_str(&names.join(", ")).ok().map(|value| (ALLOW, value)));
    }
    reply
}

/// The answer to a write that was tried.
pub fn settled(outcome: &Outcome, operation: &Operation, request_id: Option<&RequestId>) -> Reply {
    match outcome {
        Outcome::Executed { status, headers, body: AnswerBody::Complete(body) } => {
            from_upstream(*status, headers, body.clone(), Some(Executed::Yes))
        }
        Outcome::Executed { status, body: AnswerBody::Incomplete(_), .. } => executed_without_body(*status, request_id),
        Outcome::NotExecuted(NotExecuted::Refused { status, headers, body }) => {
            from_upstream(*status, headers, body.clone(), Some(Executed::No))
        }
        Outcome::NotExecuted(NotExecuted::CredentialRefused) => {
            let message = "upstream refused the gate's own credential; nothing was executed. Tell who runs the gate.";
            own(Code::UpstreamUnavailable, 502, Shape::A, message, None, Some(Executed::No))
        }
        Outcome::NotExecuted(NotExecuted::NotSent) => {
            let message = format!("upstream cannot be reached; nothing was sent: {}.", repeat(Some(operation)));
            own(Code::UpstreamUnavailable, 502, Shape::A, &message, None, Some(Executed::No))
        }
        Outcome::Unknown(doubt) => in_doubt(doubt, operation),
    }
}

/// What people are told who ask the gate itself: it speaks of no call.
pub fn said(status: u16, body: &Value) -> Reply {
    bare(status, body)
}

/// The same, where it is not what they asked for.
pub fn unsaid(code: Code, message: &str, details: Option<Value>) -> Reply {
    own(code, code.status(), code.shape(), message, details, None)
}

/// Upstream's answer as it came, without what concerns only the connection to upstream.
pub fn from_upstream(status: u16, headers: &HeaderMap, body: Bytes, executed: Option<Executed>) -> Reply {
    let passed = headers.iter().filter(|(name, _)| is_passed(name, status, headers));
    let mut kept = HeaderMap::with_capacity(headers.len());
    for (name, value) in passed {
        kept.append(name.clone(), value.clone());
    }
    Reply { status, headers: kept, body, origin: Origin::Upstream, executed, code: None }
}

/// Whether something of this operation could have been executed before, which no refusal here has looked up.
fn not_looked_up(operation: &Operation) -> Option<Executed> {
    match (operation.class, &operation.claim) {
        (Class::Read, _) => None,
        (Class::Change | Class::Money, Some(_)) => Some(Executed::Unknown),
        (Class::Change | Class::Money, None) => Some(Executed::No),
    }
}

/// How a call is made again.
fn repeat(operation: Option<&Operation>) -> &'static str {
    match operation.and_then(|o| o.claim.as_ref()) {
        Some(Claim::Body(_)) => "repeat with the same requestId",
        Some(Claim::Path(_)) | None => "repeat the call",
    }
}

fn told(refusal: &Refusal) -> (Code, String, &[Violation]) {
    let plain = |code: Code, message: &str| (code, message.to_owned(), &[][..]);
    match refusal {
        Refusal::Admit(AdmitRefusal::Malformed(why)) => plain(Code::MalformedRequest, why),
        Refusal::Admit(AdmitRefusal::HeadTooLarge(why)) => plain(Code::HeadTooLarge, why),
        Refusal::Admit(AdmitRefusal::HeadSlow) => plain(Code::RequestTimeout, "the head did not arrive in time"),
        Refusal::Admit(AdmitRefusal::TargetTooLong) => {
            (Code::TargetTooLong, format!("the request target is longer than {LONGEST_TARGET} bytes"), &[])
        }
        Refusal::Admit(AdmitRefusal::UnknownPath) => plain(Code::OperationNotFound, "no operation has this path"),
        Refusal::Admit(AdmitRefusal::MethodNotAllowed(_)) => plain(
            Code::MethodNotAllowed,
            "this path has no operation with this method; the Allow header names those that it has",
        ),
        Refusal::Admit(AdmitRefusal::Unauthorized(why)) => plain(Code::Unauthorized, why),
        Refusal::Admit(AdmitRefusal::NotBelieved(TokenFault::NoKeys { .. })) => {
            plain(Code::KeysUnavailable, "the keys of the token's issuer cannot be had at this moment")
        }
        // Only who holds a token that was once good is told what is wrong with it.
        Refusal::Admit(AdmitRefusal::NotBelieved(TokenFault::Expired)) => {
            plain(Code::Unauthorized, "the token has expired")
        }
        Refusal::Admit(AdmitRefusal::NotBelieved(_)) => plain(Code::Unauthorized, "the token is not accepted"),
        Refusal::Admit(AdmitRefusal::WrongEnvironment) => {
            plain(Code::Forbidden, "this token may not be used in this environment")
        }
        Refusal::Exceeded(exceeded) => {
            let rates = exceeded.rates.iter().map(|rate| format!("`{rate}`")).collect::<Vec<_>>().join(", ");
            (Code::RateLimited, format!("these are more calls than are allowed by {rates}"), &[])
        }
        Refusal::Check(CheckRefusal::MediaType(why)) => plain(Code::UnsupportedMediaType, why),
        Refusal::Check(CheckRefusal::TooLarge { limit_bytes }) => {
            (Code::BodyTooLarge, format!("the body is larger than {limit_bytes} bytes"), &[])
        }
        Refusal::Check(CheckRefusal::Json(error)) => {
            (Code::InvalidJson, format!("the body is not one JSON value: {error}"), &[])
        }
        Refusal::Check(CheckRefusal::Violations(violations)) => (
            Code::InvalidRequest,
            "the request is not what the contract says; details.violations names each place".to_owned(),
            violations,
        ),
        Refusal::BodySlow => plain(Code::RequestTimeout, "the body did not arrive in time"),
        Refusal::NoRoom => plain(Code::Overloaded, "more is being sent at this moment than is taken at one time"),
        Refusal::Draining => plain(Code::Draining, "this gate is being stopped, and begins nothing new"),
        Refusal::BodyBroken => plain(Code::MalformedRequest, "the body broke off or is framed wrongly"),
    }
}

fn executed_without_body(status: u16, request_id: Option<&RequestId>) -> Reply {
    let mut body = json!({ "status": "executed" });
    if let (Some(members), Some(id)) = (body.as_object_mut(), request_id) {
        members.insert("requestId".to_owned(), Value::from(id.as_str()));
    }
    Reply { status, origin: Origin::Upstream, executed: Some(Executed::Yes), ..bare(status, &body) }
}

fn in_doubt(doubt: &Doubt, operation: &Operation) -> Reply {
    let advice = match operation.claim {
        Some(Claim::Body(_)) => "Whether it was executed is not known: do not send it under another requestId",
        Some(Claim::Path(_)) | None => "Whether it was executed is not known: look before it is sent again",
    };
    let unknown = Some(Executed::Unknown);
    let lost = |status: u16, what: &str| {
        own(Code::OutcomeUnknown, status, Shape::A, &format!("{what}. {advice}."), None, unknown)
    };
    match doubt {
        Doubt::Silent => lost(504, "upstream did not answer in time"),
        Doubt::Broken => lost(502, "upstream broke off before it answered"),
        Doubt::Redirected => lost(502, "upstream answered with a redirect, which is not followed"),
        Doubt::CredentialRefused => lost(502, "upstream answered 401 to the gate's own credential"),
        Doubt::Answered { status, headers, body: Some(body) } if operation.claim.is_none() => {
            from_upstream(*status, headers, body.clone(), unknown)
        }
        Doubt::Answered { status, .. } => {
            let message = format!("upstream answered {status}. {advice}.");
            let shape = operation.answer(*status).and_then(|a| a.shape).unwrap_or_else(|| Shape::usual(*status));
            Reply { origin: Origin::Upstream, ..own(Code::OutcomeUnknown, *status, shape, &message, None, unknown) }
        }
    }
}

fn own(
    code: Code,
    status: u16,
    shape: Shape,
    message: &str,
    details: Option<Value>,
    executed: Option<Executed>,
) -> Reply {
    let mut reply =
        Reply { executed, code: Some(code), ..bare(status, &error_in_shape(shape, status, code, message, details)) };
    if let Some(seconds) = code.retry_after_secs() {
        reply.headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    reply
}

fn bare(status: u16, body: &Value) -> Reply {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, JSON);
    Reply { status, headers, body: Bytes::from(body.to_string()), origin: Origin::Gateway, executed: None, code: None }
}

#[cfg(test)]
mod tests;
