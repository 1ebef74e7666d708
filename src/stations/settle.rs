//! What became of a call: it never guesses.

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};

use super::claim::{self, Answer, Event};
use super::forward::{AnswerBody, Loss, Sent};
use crate::base::json::{self, Limits};
use crate::catalog::{Operation, Violation};

/// What became of one call of upstream.
#[derive(Debug)]
pub enum Outcome {
    /// Upstream said so with a 2xx head, whatever became of the body.
    Executed {
        status: u16,
        headers: HeaderMap,
        body: AnswerBody,
    },
    /// Certainly not.
    NotExecuted(NotExecuted),
    Unknown(Doubt),
}

#[derive(Debug)]
pub enum NotExecuted {
    /// Nothing was sent.
    NotSent,
    /// Upstream did not take the gate's own credential.
    CredentialRefused,
    /// Upstream refused, with a status that proves it and a body that says it as documented.
    Refused { status: u16, headers: HeaderMap, body: Bytes },
}

/// Why nobody knows.
#[derive(Debug)]
pub enum Doubt {
    Silent,
    Broken,
    Redirected,
    /// A 401 that proves nothing, to the gate's own credential.
    CredentialRefused,
    /// An answer that proves nothing. The body is there if it is well formed.
    Answered {
        status: u16,
        headers: HeaderMap,
        body: Option<Bytes>,
    },
}

/// The outcome, from what is known after sending.
///
/// Where the credential is `injected`, upstream's 401 is about the gate and not about the caller.
pub fn settle(operation: &Operation, injected: bool, sent: Sent) -> Outcome {
    let (status, headers, body) = match sent {
        Sent::NotWritten => return Outcome::NotExecuted(NotExecuted::NotSent),
        Sent::Lost(Loss::Silent) => return Outcome::Unknown(Doubt::Silent),
        Sent::Lost(Loss::Broken) => return Outcome::Unknown(Doubt::Broken),
        Sent::Answered { status, headers, body } => (status, headers, body),
    };
    if (200..300).contains(&status) {
        return Outcome::Executed { status, headers, body };
    }
    if (300..400).contains(&status) {
        return Outcome::Unknown(Doubt::Redirected);
    }
    let body = match body {
        AnswerBody::Complete(body) if is_documented(operation, status, &headers, &body) => Some(body),
        AnswerBody::Complete(_) | AnswerBody::Incomplete(_) => None,
    };
    if injected && status == 401 && body.is_none() {
        return Outcome::Unknown(Doubt::CredentialRefused);
    }
    match body {
        Some(_) if injected && status == 401 && operation.not_executed.contains(&status) => {
            Outcome::NotExecuted(NotExecuted::CredentialRefused)
        }
        Some(body) if operation.not_executed.contains(&status) => {
            Outcome::NotExecuted(NotExecuted::Refused { status, headers, body })
        }
        body => Outcome::Unknown(Doubt::Answered { status, headers, body }),
    }
}

/// What became of it, as it happens to its claim.
pub fn event(outcome: &Outcome, answer: Answer) -> Event {
    match outcome {
        Outcome::Executed { .. } => Event::Executed(answer),
        Outcome::NotExecuted(NotExecuted::NotSent | NotExecuted::CredentialRefused)
        | Outcome::NotExecuted(NotExecuted::Refused { status: 401 | 429, .. }) => Event::Undone,
        Outcome::NotExecuted(NotExecuted::Refused { .. }) => Event::Refused(answer),
        Outcome::Unknown(Doubt::Silent) => Event::Doubted(claim::Doubt::Silent),
        Outcome::Unknown(Doubt::Broken) => Event::Doubted(claim::Doubt::Broken),
        Outcome::Unknown(Doubt::Redirected | Doubt::CredentialRefused | Doubt::Answered { .. }) => {
            Event::Doubted(claim::Doubt::Unproven)
        }
    }
}

/// Whether an answer is what the contract says of its operation and status.
pub fn is_documented(operation: &Operation, status: u16, headers: &HeaderMap, body: &[u8]) -> bool {
    drift(operation, status, headers, body).is_none()
}

/// The first thing in which an answer is not what the contract says.
pub fn drift(operation: &Operation, status: u16, headers: &HeaderMap, body: &[u8]) -> Option<Violation> {
    if let Some(violation) = media_drift(headers) {
        return Some(violation);
    }
    let Some(answer) = operation.answer(status) else {
        return Some(Violation::new("", "status", "a status of the contract"));
    };
    match json::parse(body, Limits::ANSWER) {
        Ok(value) => answer.contract.violations(&value).into_iter().next(),
        Err(error) => Some(Violation::new("", "json", error.to_string())),
    }
}

/// What the head alone says against a body, whatever stands in it.
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
mod tests {
    use super::*;
    use crate::base::ids::OperationId;
    use crate::catalog::{Catalog, SchemaFiles};

    const SHAPE_A: &str = r#"{"code":400,"error":"X","errorDetails":"y"}"#;
    const SHAPE_D: &str = r#"{"error":"x"}"#;

    fn outcome(status: u16, content_type: &str, body: Option<&'static str>) -> &'static str {
        let catalog = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap();
        let operation = catalog.operation(&OperationId::new("createSwap")).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, content_type.parse().unwrap());
        let body = body
            .map_or(AnswerBody::Incomplete(Loss::Broken), |b| AnswerBody::Complete(Bytes::from_static(b.as_bytes())));
        match settle(operation, false, Sent::Answered { status, headers, body }) {
            Outcome::Executed { .. } => "executed",
            Outcome::NotExecuted(_) => "not executed",
            Outcome::Unknown(_) => "unknown",
        }
    }

    #[test]
    fn a_head_of_2xx_is_executed_whatever_follows() {
        for body in [Some("{}"), Some("not json"), Some(""), None] {
            assert_eq!(outcome(200, "application/json", body), "executed");
            assert_eq!(outcome(201, "text/html", body), "executed");
        }
    }

    #[test]
    fn only_a_documented_refusal_proves_that_nothing_happened() {
        for status in [400, 401, 403, 404, 413, 415, 422, 429] {
            assert_eq!(outcome(status, "application/json", Some(SHAPE_A)), "not executed", "{status}");
            assert_eq!(outcome(status, "application/json; charset=utf-8", Some(SHAPE_D)), "not executed", "{status}");
            assert_eq!(outcome(status, "text/html", Some(SHAPE_A)), "unknown", "{status}");
            assert_eq!(outcome(status, "application/json", Some("<html>")), "unknown", "{status}");
            assert_eq!(outcome(status, "application/json", Some("{}")), "unknown", "{status}");
            assert_eq!(outcome(status, "application/json", None), "unknown", "{status}");
        }
        for status in [302, 307, 402, 405, 408, 409, 410, 418, 500, 502, 503, 504] {
            assert_eq!(outcome(status, "application/json", Some(SHAPE_A)), "unknown", "{status}");
        }
    }
}
