//! Answers where a claim has the word, or where nobody can ask it.

use http::header::{DATE, HeaderName, HeaderValue, RETRY_AFTER};

use super::{Code, Executed, Origin, Reply, declined, own, repeat};
use crate::catalog::{Claim, Operation, Shape};
use crate::stations::claim::{Answer, Said};

const REPLAYED: HeaderName = HeaderName::from_static("sluice-replayed");
/// What of an answer's head was true of that moment alone.
const OF_THE_MOMENT: [HeaderName; 6] = [
    DATE,
    RETRY_AFTER,
    HeaderName::from_static("ratelimit"),
    HeaderName::from_static("ratelimit-policy"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];
/// When it is worth asking again what became of a call in doubt.
const DOUBT_RETRY_SECS: u32 = 30;

impl Reply {
    /// What is kept of it, to be said again.
    pub fn kept(&self) -> Answer {
        let mut headers = self.headers.clone();
        for name in OF_THE_MOMENT {
            headers.remove(name);
        }
        Answer { status: self.status, headers, body: self.body.clone() }
    }
}

/// Why nothing is sent that concerns neither the call nor its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The store does not answer, or not in time. Whether there is a claim is not known.
    Store,
    /// The audit chain cannot be written; there is no claim.
    Audit,
    /// An operator froze it; there is no claim.
    Frozen,
    /// It is frozen because the store may have forgotten claims.
    Forgotten,
}

/// The answer to a call whose name is claimed.
pub fn claimed(said: Said, operation: &Operation) -> Reply {
    let name = match operation.claim {
        Some(Claim::Path(_)) => "call",
        Some(Claim::Body(_)) | None => "requestId",
    };
    let refused = |code, message: &str| own(code, 409, Shape::C, message, None, Some(Executed::Unknown));
    match said {
        Said::Done { executed, answer } => {
            let mut headers = answer.headers;
            headers.insert(REPLAYED, HeaderValue::from_static("true"));
            let executed = Some(if executed { Executed::Yes } else { Executed::No });
            Reply { status: answer.status, headers, body: answer.body, origin: Origin::Upstream, executed, code: None }
        }
        Said::Declined(why) => declined(&why, name),
        Said::Held(_) => refused(
            Code::RequestInProgress,
            &format!("this {name} waits for people, and has just changed; ask again for its answer."),
        ),
        Said::InProgress => refused(
            Code::RequestInProgress,
            &format!("this {name} is being sent at this moment; ask again for its answer, or with `Prefer: wait=N`."),
        ),
        Said::InDoubt => {
            let message = format!(
                "whether this {name} was executed is not known yet. It is not sent again: ask again later, and do not \
                 pay under another requestId."
            );
            let mut reply = refused(Code::OutcomeUnknown, &message);
            reply.headers.insert(RETRY_AFTER, HeaderValue::from(DOUBT_RETRY_SECS));
            reply
        }
        Said::Spent => {
            refused(Code::RequestIdSpent, &format!("this {name} was used long ago; its answer is no longer kept."))
        }
        Said::Reused => {
            let message = format!(
                "this {name} was used already, with another request or by another caller. This attempt sent nothing."
            );
            let code = Code::RequestIdReused;
            own(code, code.status(), code.shape(), &message, None, Some(Executed::Unknown))
        }
    }
}

/// The answer where nothing is sent for reasons of the gate's own.
pub fn closed(why: Closed, operation: &Operation) -> Reply {
    let again = repeat(Some(operation));
    let unknown = if operation.claim.is_some() { Executed::Unknown } else { Executed::No };
    let (code, message, executed) = match why {
        Closed::Store if operation.claim.is_none() => (
            Code::StoreUnavailable,
            format!("what is done cannot be written down at this moment; nothing was sent: {again}."),
            unknown,
        ),
        Closed::Store => (
            Code::StoreUnavailable,
            format!(
                "what was done before cannot be looked up at this moment. This attempt sent nothing; whether an \
                 earlier one did is not known: {again}."
            ),
            unknown,
        ),
        Closed::Audit => (
            Code::AuditUnavailable,
            format!("the audit chain cannot be written at this moment; nothing was sent: {again}."),
            Executed::No,
        ),
        Closed::Forgotten => (
            Code::Frozen,
            format!(
                "money is stopped until an operator opens it: what was done before may have been forgotten. This \
                 attempt sent nothing; whether an earlier one did is not known: {again} when it is open again."
            ),
            unknown,
        ),
        Closed::Frozen => (
            Code::Frozen,
            format!("an operator has frozen this; nothing was sent: {again} when it is open again."),
            Executed::No,
        ),
    };
    own(code, code.status(), code.shape(), &message, None, Some(executed))
}
