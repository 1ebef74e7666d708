//! Settles a call: turns the result of its send into an outcome, and never guesses.
//!
//! A success is believed if it is the answer to this call; a refusal proves something only on the terms of the call.

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};

use super::check::Intent;
use super::claim::{self, ClaimEvent, StoredAnswer};
use super::forward::{AnswerBody, Loss, Sent};
use super::refusal::{self, ProofTerms};
use crate::base::ids::RequestId;
use crate::base::json::{FlatJson, FlatKind, FlatValue, Limits};
use crate::base::normal;
use crate::catalog::{AnsweredRecord, Operation, Violation};

/// The outcome of one call.
#[derive(Debug)]
pub enum Outcome {
    /// Upstream answered this call with a success; `None` where its body is not whole or must not pass.
    Executed {
        status: u16,
        headers: HeaderMap,
        body: Option<Bytes>,
    },
    /// Certainly not executed.
    NotExecuted(NotExecuted),
    Unknown(Doubt),
}

#[derive(Debug)]
pub enum NotExecuted {
    /// Upstream could not be reached: nothing was sent.
    NotSent,
    /// The gate was too late: nothing was sent.
    TooLate,
    /// Upstream refused the gate's own credential.
    CredentialRefused,
    /// Upstream refused in a way that proves it; `None` where its body must not pass.
    Refused { status: u16, headers: HeaderMap, body: Option<Bytes> },
}

/// The causes of an unknown outcome.
#[derive(Debug)]
pub enum Doubt {
    Silent,
    Broken,
    Redirected,
    /// A 401 to the gate's own credential, which proves nothing.
    CredentialRefused,
    /// A success that is not the answer to this call.
    Unbelieved {
        status: u16,
        violation: Violation,
    },
    /// An answer that proves nothing; its body is kept if it is well formed.
    Answered {
        status: u16,
        headers: HeaderMap,
        body: Option<Bytes>,
    },
}

/// The names by which the answer to a call is recognized.
#[derive(Clone, Debug, Default)]
pub struct CallIds {
    pub request_id: Option<RequestId>,
    /// The id of the record that its path names and its answer is.
    pub record: Option<String>,
}

impl CallIds {
    pub fn of(intent: &Intent) -> CallIds {
        let parameters = intent.path_parameters().iter();
        let wanted = intent.operation().answered_record.as_ref().map(|record| &record.parameter);
        CallIds {
            request_id: intent.named().and_then(|named| named.request_id.clone()),
            record: parameters.filter(|(name, _)| Some(name) == wanted).map(|(_, id)| id.clone()).next(),
        }
    }
}

/// Returns the outcome, from the result of the send.
pub fn settle(operation: &Operation, own: &CallIds, terms: ProofTerms, sent: Sent) -> Outcome {
    let (status, headers, body) = match sent {
        Sent::NotWritten => return Outcome::NotExecuted(NotExecuted::NotSent),
        Sent::TooLate => return Outcome::NotExecuted(NotExecuted::TooLate),
        Sent::Lost(Loss::Silent) => return Outcome::Unknown(Doubt::Silent),
        Sent::Lost(Loss::Broken) => return Outcome::Unknown(Doubt::Broken),
        Sent::Answered { status, headers, body } => (status, headers, body),
    };
    if (200..300).contains(&status) {
        return match disbelief(operation, own, status, &headers, &body) {
            Some(violation) => Outcome::Unknown(Doubt::Unbelieved { status, violation }),
            None => Outcome::Executed { status, headers, body: body.whole() },
        };
    }
    if (300..400).contains(&status) {
        return Outcome::Unknown(Doubt::Redirected);
    }
    let body = body.whole().filter(|body| is_documented(operation, status, &headers, body));
    let is_proof =
        body.as_ref().is_some_and(|body| refusal::is_proof(operation, terms, (status, body), own.request_id.as_ref()));
    match (is_proof, status) {
        // The caller's own token was not refused.
        (true, 401) if terms.injected => Outcome::NotExecuted(NotExecuted::CredentialRefused),
        (false, 401) if terms.injected => Outcome::Unknown(Doubt::CredentialRefused),
        (true, _) => Outcome::NotExecuted(NotExecuted::Refused { status, headers, body }),
        (false, _) => Outcome::Unknown(Doubt::Answered { status, headers, body }),
    }
}

/// Returns why a success is not the answer to this call.
fn disbelief(
    operation: &Operation,
    own: &CallIds,
    status: u16,
    headers: &HeaderMap,
    body: &AnswerBody,
) -> Option<Violation> {
    if let Some(violation) = media_drift(headers) {
        return Some(violation);
    }
    let body = match body {
        AnswerBody::Complete(body) => body,
        AnswerBody::Incomplete { beginning, .. } => return disbelief_of_beginning(operation, own, beginning),
    };
    let answer = match FlatJson::parse(body, Limits::UPSTREAM) {
        Ok(answer) => answer,
        Err(error) => return Some(Violation::new("", "json", error.to_string())),
    };
    if let (Some(place), Some(ours)) = (&operation.answered_request_id, &own.request_id) {
        match place.find_in(answer.root()).map(FlatValue::kind) {
            // Whatever else differs from the contract, this is the record of this call.
            Some(FlatKind::Text(theirs)) if normal::uuid(theirs) == normal::uuid(ours.as_str()) => return None,
            None | Some(FlatKind::Null) => {}
            Some(_) => return Some(Violation::new(place.as_str(), "requestId", "the requestId of this call")),
        }
    }
    if let (Some(AnsweredRecord { id: place, .. }), Some(ours)) = (&operation.answered_record, &own.record) {
        match place.find_in(answer.root()).map(FlatValue::kind) {
            Some(FlatKind::Text(theirs)) if normal::uuid(theirs) == normal::uuid(ours) => {}
            _ => return Some(Violation::new(place.as_str(), "record", "the record that the path names")),
        }
    }
    match operation.success_of(status) {
        Some(documented) => documented.first_violation(body),
        None => Some(Violation::new("", "status", "a status of the contract")),
    }
}

/// Returns why the beginning of a success does not show that it answers this call: only the call's own requestId does or,
/// where answers have none, the id of the record that the path names.
fn disbelief_of_beginning(operation: &Operation, own: &CallIds, beginning: &[u8]) -> Option<Violation> {
    let answer = match FlatJson::parse_beginning(beginning, Limits::UPSTREAM) {
        Ok(answer) => answer,
        Err(error) => return Some(Violation::new("", "json", error.to_string())),
    };
    let (place, keyword, ours) = match (&operation.answered_request_id, &own.request_id) {
        (Some(place), Some(ours)) => (place, "requestId", ours.as_str()),
        _ => match (&operation.answered_record, &own.record) {
            (Some(AnsweredRecord { id: place, .. }), Some(ours)) => (place, "record", ours.as_str()),
            _ => return Some(Violation::new("", "json", "a whole answer")),
        },
    };
    match place.find_in(answer.root()).map(FlatValue::kind) {
        Some(FlatKind::Text(theirs)) if normal::uuid(theirs) == normal::uuid(ours) => None,
        _ => Some(Violation::new(place.as_str(), keyword, "the id of this call, before the answer breaks off")),
    }
}

impl Outcome {
    /// The same outcome without upstream's bodies and without anything that repeats them.
    pub fn withheld(self) -> Outcome {
        match self {
            Outcome::Executed { status, headers, body: _ } => Outcome::Executed { status, headers, body: None },
            Outcome::NotExecuted(NotExecuted::Refused { status, headers, body: _ }) => {
                Outcome::NotExecuted(NotExecuted::Refused { status, headers, body: None })
            }
            Outcome::Unknown(Doubt::Answered { status, headers, body: _ }) => {
                Outcome::Unknown(Doubt::Answered { status, headers, body: None })
            }
            Outcome::Unknown(Doubt::Unbelieved { status, violation }) => {
                let violation = Violation { pointer: String::new(), ..violation };
                Outcome::Unknown(Doubt::Unbelieved { status, violation })
            }
            Outcome::NotExecuted(NotExecuted::NotSent | NotExecuted::TooLate | NotExecuted::CredentialRefused)
            | Outcome::Unknown(Doubt::Silent | Doubt::Broken | Doubt::Redirected | Doubt::CredentialRefused) => self,
        }
    }
}

/// The outcome as an event of the claim.
pub fn event(outcome: &Outcome, answer: StoredAnswer) -> ClaimEvent {
    match outcome {
        Outcome::Executed { .. } => ClaimEvent::Executed(answer),
        Outcome::NotExecuted(NotExecuted::NotSent | NotExecuted::TooLate) => ClaimEvent::Undone { status: None },
        Outcome::NotExecuted(NotExecuted::CredentialRefused) => ClaimEvent::Undone { status: Some(401) },
        Outcome::NotExecuted(NotExecuted::Refused { status: status @ (401 | 429), .. }) => {
            ClaimEvent::Undone { status: Some(*status) }
        }
        Outcome::NotExecuted(NotExecuted::Refused { .. }) => ClaimEvent::Refused(answer),
        Outcome::Unknown(Doubt::Silent) => ClaimEvent::Doubted(claim::DoubtCause::Silent),
        Outcome::Unknown(Doubt::Broken) => ClaimEvent::Doubted(claim::DoubtCause::Broken),
        Outcome::Unknown(Doubt::Unbelieved { .. }) => ClaimEvent::Doubted(claim::DoubtCause::Unbelieved),
        Outcome::Unknown(Doubt::Redirected | Doubt::CredentialRefused | Doubt::Answered { .. }) => {
            ClaimEvent::Doubted(claim::DoubtCause::Unproven)
        }
    }
}

/// Returns whether an answer is as the contract documents it.
pub fn is_documented(operation: &Operation, status: u16, headers: &HeaderMap, body: &[u8]) -> bool {
    drift(operation, status, headers, body).is_none()
}

/// Returns the first violation of the contract in an answer.
pub fn drift(operation: &Operation, status: u16, headers: &HeaderMap, body: &[u8]) -> Option<Violation> {
    if let Some(violation) = media_drift(headers) {
        return Some(violation);
    }
    let Some(answer) = operation.answer(status) else {
        return Some(Violation::new("", "status", "a status of the contract"));
    };
    answer.first_violation(body)
}

/// Returns the violation that the head alone shows.
pub fn media_drift(headers: &HeaderMap) -> Option<Violation> {
    let media = |expected: &str| Some(Violation::new("", "contentMediaType", expected));
    if headers.get_all(CONTENT_ENCODING).iter().any(|e| e.as_bytes() != b"identity") {
        return media("an answer that is not compressed");
    }
    let content_type = headers.get(CONTENT_TYPE).and_then(|h| h.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") { None } else { media("application/json") }
}

#[cfg(test)]
mod tests;
