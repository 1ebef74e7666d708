//! Replies: the one place where refusals and outcomes become answers.
//!
//! Every answer says who made it and, where a call could have been executed, whether it was. An outage never looks like
//! a refusal, a refusal never like an outage, a payment never like a failure.

mod claimed;
mod codes;
mod decided;
mod held;
mod help;
mod rate;
mod read;
mod upstream;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LINK, RETRY_AFTER, WWW_AUTHENTICATE};
use serde_json::{Value, json};

pub use claimed::{Closed, claimed, closed};
pub use codes::Code;
pub use decided::{denied, not_held};
pub use held::{HeldCall, declined, held};
pub use help::{HELP, help};
pub use rate::{Exceeded, RATE_FIELDS, RATE_LIMIT, RATE_LIMIT_POLICY, Rated, exceeded, rate_fields};
pub use read::{ReadError, ReadFailure, ReadReply, fetched, read_error, read_failed};
pub use upstream::{error_in_shape, is_passed};

use super::admit::{AdmitRefusal, LONGEST_TARGET, TokenFault};
use super::check::CheckRefusal;
use super::claim::{Earlier, StoredAnswer};
use super::settle::{Doubt, NotExecuted, Outcome};
use crate::base::ids::RequestId;
use crate::base::word_enum::word_enum;
use crate::catalog::{ClaimSource, Class, ErrorShape, Operation, Violation};

pub const ORIGIN: HeaderName = HeaderName::from_static("sluice-origin");
pub const OUTCOME: HeaderName = HeaderName::from_static("sluice-outcome");
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The tail of a message where people alone said that earlier attempts were not executed.
const UNPROVEN: &str = "This attempt sent nothing. Nothing proves that earlier attempts were not executed, only people \
                        said so: do not pay in another way.";
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An answer, ready to be written.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub origin: ReplyOrigin,
    pub executed: Option<Executed>,
    /// Sluice's own code, where Sluice answers.
    pub code: Option<Code>,
}

word_enum! {
    /// The author of an answer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ReplyOrigin {
        Gateway = "gateway",
        Upstream = "upstream",
    }
}

word_enum! {
    /// The value of `Sluice-Outcome`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Executed {
        Yes = "executed",
        No = "not-executed",
        /// The call waits for people.
        Held = "held",
        Unknown = "unknown",
    }
}

/// A refusal, by the station that made it.
#[derive(Clone, Debug)]
pub enum Refusal {
    Admit(AdmitRefusal),
    Exceeded(Exceeded),
    Check(CheckRefusal),
    /// The body did not arrive in time.
    BodySlow,
    /// The body ended early or was framed incorrectly.
    BodyBroken,
    /// The room for request bodies is full.
    NoRoom,
    /// The caller has too many calls in progress.
    TooManyCalls,
    /// This gate is shutting down.
    Draining,
    /// The reads of this caller are frozen.
    ReadsFrozen,
}

/// The answer to a refused call; `operation` is `None` where the call names none.
pub fn refused(refusal: &Refusal, operation: Option<&Operation>) -> Reply {
    let executed = operation.and_then(not_looked_up);
    let tail = match executed {
        Some(Executed::Unknown) => {
            &*format!(" This attempt sent nothing. Earlier attempts were not looked up: {}.", repeat(operation))
        }
        _ => "",
    };
    refused_as(refusal, executed, tail)
}

/// The answer to a refused write that has no claim, or one that people called absent.
pub fn refused_unclaimed(refusal: &Refusal, operation: &Operation, earlier: Earlier) -> Reply {
    match earlier {
        Earlier::None => refused_as(refusal, Some(Executed::No), ""),
        Earlier::Forgotten => refused(refusal, Some(operation)),
        Earlier::Unproven => refused_as(refusal, Some(Executed::Unknown), &format!(" {UNPROVEN}")),
    }
}

/// `tail`: what the message says besides.
fn refused_as(refusal: &Refusal, executed: Option<Executed>, tail: &str) -> Reply {
    let (code, message, violations) = describe_refusal(refusal);
    let message = format!("{message}.{tail}");
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

/// The answer to a write that was sent.
pub fn settled(outcome: &Outcome, operation: &Operation, request_id: Option<&RequestId>, earlier: Earlier) -> Reply {
    let reply = settled_alone(outcome, operation, request_id, earlier);
    match (reply.executed, earlier) {
        // This attempt was not executed; an earlier one may have been.
        (Some(Executed::No), Earlier::Forgotten | Earlier::Unproven) => {
            Reply { executed: Some(Executed::Unknown), ..reply }
        }
        _ => reply,
    }
}

fn settled_alone(outcome: &Outcome, operation: &Operation, request_id: Option<&RequestId>, earlier: Earlier) -> Reply {
    match outcome {
        Outcome::Executed { status, headers, body: Some(body) } => {
            from_upstream(*status, headers, body.clone(), Some(Executed::Yes))
        }
        Outcome::Executed { status, body: None, .. } => executed_without_body(*status, request_id),
        Outcome::NotExecuted(NotExecuted::Refused { status, headers, body: Some(body) }) => {
            from_upstream(*status, headers, body.clone(), Some(Executed::No))
        }
        Outcome::NotExecuted(NotExecuted::Refused { status, body: None, .. }) => refused_withheld(*status, operation),
        Outcome::NotExecuted(NotExecuted::CredentialRefused) => {
            let message =
                "upstream refused the gate's own credential; nothing was executed. Tell the operators of the gate.";
            own(Code::UpstreamUnavailable, 502, ErrorShape::A, message, None, Some(Executed::No))
        }
        Outcome::NotExecuted(NotExecuted::NotSent) => {
            let again = repeat(Some(operation));
            let message = match earlier {
                Earlier::None => format!("upstream is unreachable; nothing was sent: {again}."),
                Earlier::Forgotten | Earlier::Unproven => {
                    format!("upstream is unreachable. {UNPROVEN} Later, {again}.")
                }
            };
            own(Code::UpstreamUnavailable, 502, ErrorShape::A, &message, None, Some(Executed::No))
        }
        Outcome::NotExecuted(NotExecuted::TooLate) => {
            let again = repeat(Some(operation));
            let late = "this gate was too late: its store was slow, or it is ending";
            let message = match earlier {
                Earlier::None => format!("{late}. Nothing was sent: {again}."),
                Earlier::Forgotten | Earlier::Unproven => format!("{late}. {UNPROVEN} Later, {again}."),
            };
            let code = Code::StoreUnavailable;
            own(code, code.status(), ErrorShape::A, &message, None, Some(Executed::No))
        }
        Outcome::Unknown(doubt) => in_doubt(doubt, operation),
    }
}

/// The answer to people who use the gate's own API.
pub fn ok_json(status: u16, body: &Value) -> Reply {
    bare(status, body)
}

/// A document of the gate's own API.
pub fn ok_bytes(body: Bytes) -> Reply {
    Reply { body, ..bare(200, &Value::Null) }
}

/// The error for people who use the gate's own API.
pub fn error_json(code: Code, message: &str, details: Option<Value>) -> Reply {
    own(code, code.status(), code.shape(), message, details, None)
}

/// Upstream's answer as it came, without the headers of the connection to upstream.
pub fn from_upstream(status: u16, headers: &HeaderMap, body: Bytes, executed: Option<Executed>) -> Reply {
    let passed = headers.iter().filter(|(name, _)| is_passed(name, status, headers));
    let mut kept = HeaderMap::with_capacity(headers.len());
    for (name, value) in passed {
        kept.append(name.clone(), value.clone());
    }
    Reply { status, headers: kept, body, origin: ReplyOrigin::Upstream, executed, code: None }
}

/// The outcome where a call could have been executed before and nobody looked that up.
fn not_looked_up(operation: &Operation) -> Option<Executed> {
    match (operation.class, &operation.claim) {
        (Class::Read, _) => None,
        (Class::Change | Class::Money, Some(_)) => Some(Executed::Unknown),
        (Class::Change | Class::Money, None) => Some(Executed::No),
    }
}

/// The advice on how to repeat a call.
fn repeat(operation: Option<&Operation>) -> &'static str {
    match operation.and_then(|o| o.claim.as_ref()) {
        Some(ClaimSource::Body(_)) => "repeat with the same requestId",
        Some(ClaimSource::Path(_)) | None => "repeat the call",
    }
}

fn describe_refusal(refusal: &Refusal) -> (Code, String, &[Violation]) {
    let plain = |code: Code, message: &str| (code, message.to_owned(), &[][..]);
    match refusal {
        Refusal::Admit(AdmitRefusal::Malformed(why)) => plain(Code::MalformedRequest, why),
        Refusal::Admit(AdmitRefusal::HeadTooLarge(why)) => plain(Code::HeadTooLarge, why),
        Refusal::Admit(AdmitRefusal::HeadSlow) => {
            plain(Code::RequestTimeout, "the request head did not arrive in time")
        }
        Refusal::Admit(AdmitRefusal::TargetTooLong) => {
            (Code::TargetTooLong, format!("the request target is longer than {LONGEST_TARGET} bytes"), &[])
        }
        Refusal::Admit(AdmitRefusal::UnknownPath) => {
            plain(Code::OperationNotFound, "no operation of the API has this path")
        }
        Refusal::Admit(AdmitRefusal::MethodNotAllowed(_)) => plain(
            Code::MethodNotAllowed,
            "this path does not support this method; the Allow header lists the methods that it supports",
        ),
        Refusal::Admit(AdmitRefusal::Unauthorized(why)) => plain(Code::Unauthorized, why),
        Refusal::Admit(AdmitRefusal::NotBelieved(TokenFault::NoKeys { .. })) => {
            plain(Code::KeysUnavailable, "the keys of the token's issuer are not available right now")
        }
        Refusal::Admit(AdmitRefusal::NoRoomToWait) => {
            plain(Code::Overloaded, "too many requests of this address wait for the keys of a token's issuer")
        }
        // Only the holder of a token that was once valid learns what is wrong with it.
        Refusal::Admit(AdmitRefusal::NotBelieved(TokenFault::Expired)) => {
            plain(Code::Unauthorized, "the token has expired")
        }
        Refusal::Admit(AdmitRefusal::NotBelieved(_)) => plain(Code::Unauthorized, "the token is not accepted"),
        Refusal::Admit(AdmitRefusal::WrongEnvironment) => {
            plain(Code::Forbidden, "this token is not valid in this environment")
        }
        Refusal::Exceeded(exceeded) => {
            let rates = exceeded.rates.iter().map(|rate| format!("`{rate}`")).collect::<Vec<_>>().join(", ");
            (Code::RateLimited, format!("this call exceeds the rate {rates}"), &[])
        }
        Refusal::Check(CheckRefusal::MediaType(why)) => plain(Code::UnsupportedMediaType, why),
        Refusal::Check(CheckRefusal::TooLarge { limit_bytes }) => {
            (Code::BodyTooLarge, format!("the body is larger than {limit_bytes} bytes"), &[])
        }
        Refusal::Check(CheckRefusal::Json(error)) => {
            (Code::InvalidJson, format!("the body is not valid JSON: {error}"), &[])
        }
        Refusal::Check(CheckRefusal::Violations(violations)) => (
            Code::InvalidRequest,
            "the request violates the API contract; details.violations lists each violation".to_owned(),
            violations,
        ),
        Refusal::BodySlow => plain(Code::RequestTimeout, "the body did not arrive in time"),
        Refusal::NoRoom => plain(Code::Overloaded, "the gate is receiving too many request bodies right now"),
        Refusal::TooManyCalls => {
            plain(Code::Overloaded, "this caller has its share of the calls in progress at this gate (`limits.calls`)")
        }
        Refusal::ReadsFrozen => plain(Code::Frozen, "an operator has frozen the reads of this caller"),
        Refusal::Draining => plain(Code::Draining, "this gate is shutting down and accepts no new calls"),
        Refusal::BodyBroken => plain(Code::MalformedRequest, "the body ended early or is framed incorrectly"),
    }
}

fn executed_without_body(status: u16, request_id: Option<&RequestId>) -> Reply {
    let StoredAnswer { status, headers, body } = StoredAnswer::of_executed(status, request_id);
    Reply { status, headers, body, origin: ReplyOrigin::Upstream, executed: Some(Executed::Yes), code: None }
}

/// The answer to a call that upstream refused with a body that must not pass.
fn refused_withheld(status: u16, operation: &Operation) -> Reply {
    let message = format!("upstream refused the call with {status}; its text is withheld. Nothing was executed.");
    let shape = operation.error_shape(status);
    let reply = own(Code::UpstreamError, status, shape, &message, None, Some(Executed::No));
    Reply { origin: ReplyOrigin::Upstream, ..reply }
}

fn in_doubt(doubt: &Doubt, operation: &Operation) -> Reply {
    let advice = match operation.claim {
        Some(ClaimSource::Body(_)) => "The outcome is unknown: do not send it under another requestId",
        Some(ClaimSource::Path(_)) | None => "The outcome is unknown: find out before you send it again",
    };
    let unknown = Some(Executed::Unknown);
    let lost = |status: u16, what: &str| {
        own(Code::OutcomeUnknown, status, ErrorShape::A, &format!("{what}. {advice}."), None, unknown)
    };
    match doubt {
        Doubt::Silent => lost(504, "upstream did not answer in time"),
        Doubt::Broken => lost(502, "upstream closed the connection before it answered, or its answer cannot be read"),
        Doubt::Redirected => lost(502, "upstream answered with a redirect, which is not followed"),
        Doubt::CredentialRefused => lost(502, "upstream answered 401 to the gate's own credential"),
        Doubt::Unbelieved { status, .. } => {
            lost(502, &format!("upstream answered {status}, but not with a valid answer to this call"))
        }
        Doubt::Answered { status, headers, body: Some(body) } if operation.claim.is_none() => {
            from_upstream(*status, headers, body.clone(), unknown)
        }
        Doubt::Answered { status, .. } => {
            let message = format!("upstream answered {status}. {advice}.");
            let reply = own(Code::OutcomeUnknown, *status, operation.error_shape(*status), &message, None, unknown);
            Reply { origin: ReplyOrigin::Upstream, ..reply }
        }
    }
}

fn own(
    code: Code,
    status: u16,
    shape: ErrorShape,
    message: &str,
    details: Option<Value>,
    executed: Option<Executed>,
) -> Reply {
    let mut reply =
        Reply { executed, code: Some(code), ..bare(status, &error_in_shape(shape, status, code, message, details)) };
    if let Some(seconds) = code.retry_after_secs() {
        reply.headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    reply.headers.extend(code.help_link().map(|link| (LINK, link)));
    reply
}

fn bare(status: u16, body: &Value) -> Reply {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, JSON);
    Reply {
        status,
        headers,
        body: Bytes::from(body.to_string()),
        origin: ReplyOrigin::Gateway,
        executed: None,
        code: None,
    }
}

#[cfg(test)]
mod tests;
