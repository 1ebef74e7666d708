//! Answers by an existing claim, and answers while claims cannot be read.

use http::header::{DATE, HeaderName, HeaderValue, RETRY_AFTER};

use super::{Code, Executed, RATE_FIELDS, Reply, ReplyOrigin, UNPROVEN, declined, own, repeat};
use crate::catalog::{ClaimSource, ErrorShape, Operation};
use crate::stations::claim::{ClaimStatus, Earlier, StoredAnswer};
use crate::stations::hold::NoPlace;

const REPLAYED: HeaderName = HeaderName::from_static("sluice-replayed");
/// Response headers that were true only at that moment.
const OF_THE_MOMENT: [HeaderName; 2] = [DATE, RETRY_AFTER];
/// The retry time for an unknown outcome.
const DOUBT_RETRY_SECS: u32 = 30;

impl Reply {
    /// The part of an answer that is stored for repeats.
    pub fn kept(&self) -> StoredAnswer {
        let mut headers = self.headers.clone();
        for name in OF_THE_MOMENT.into_iter().chain(RATE_FIELDS) {
            headers.remove(name);
        }
        StoredAnswer { status: self.status, headers, body: self.body.clone() }
    }
}

/// The gate's own reasons to send nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The store does not answer in time, so a claim may exist.
    Store,
    /// The audit log cannot be written; there is no claim, or one that people called absent.
    Audit(Earlier),
    /// An operator has frozen the call; there is no claim, or one that people called absent.
    Frozen(Earlier),
    /// Nobody knows whether the clock of this gate's machine is right; there is no claim, or one that people called absent.
    Clock(Earlier),
    /// Money is closed because the store may have lost claims.
    Forgotten,
    /// There is no place for a further hold; there is no claim, or one that people called absent.
    Holds(NoPlace, Earlier),
    /// The caller has its share of entries about refused calls; there is no claim, or one that people called absent.
    Refusals(Earlier),
    /// This gate does not run the set that the store names; a claim may exist.
    Policies,
}

/// Why a gate whose clock is doubted sends nothing.
const CLOCK: &str = "this gate sends no money: nobody knows whether the clock of its machine is right";

/// People froze them, or a gate closed money.
const FROZEN: &str = "these calls are closed until people open them";

/// Why a call that the rules refuse is not recorded.
const REFUSALS: &str = "the rules refuse this call, and this caller has its share of the entries about refused calls \
                        (`limits.refusals`)";

/// The answer to a call whose claim exists.
pub fn claimed(said: ClaimStatus, operation: &Operation) -> Reply {
    let name = match operation.claim {
        Some(ClaimSource::Path(_)) => "call",
        Some(ClaimSource::Body(_)) | None => "requestId",
    };
    let refused = |code, message: &str| own(code, 409, ErrorShape::C, message, None, Some(Executed::Unknown));
    match said {
        ClaimStatus::Done { executed, answer, earlier } => {
            let mut headers = answer.headers;
            headers.insert(REPLAYED, HeaderValue::from_static("true"));
            let executed = match (executed, earlier) {
                (true, _) => Executed::Yes,
                (false, Earlier::None) => Executed::No,
                (false, Earlier::Forgotten | Earlier::Unproven) => Executed::Unknown,
            };
            Reply {
                status: answer.status,
                headers,
                body: answer.body,
                origin: ReplyOrigin::Upstream,
                executed: Some(executed),
                code: None,
            }
        }
        ClaimStatus::Declined(why, earlier) => declined(&why, name, earlier),
        ClaimStatus::Held(_) => refused(
            Code::RequestInProgress,
            &format!("this {name} waits for approval and has just changed; repeat the request for its answer."),
        ),
        ClaimStatus::InProgress => refused(
            Code::RequestInProgress,
            &format!(
                "this {name} is being sent right now; repeat the request for its answer, or send `Prefer: wait=N`."
            ),
        ),
        ClaimStatus::InDoubt => {
            let message = format!(
                "the outcome of this {name} is unknown. It is not sent again: ask again later, and do not pay under another \
                 requestId."
            );
            let mut reply = refused(Code::OutcomeUnknown, &message);
            reply.headers.insert(RETRY_AFTER, HeaderValue::from(DOUBT_RETRY_SECS));
            reply
        }
        ClaimStatus::Abandoned => refused(
            Code::OutcomeAbandoned,
            &format!(
                "nobody can find out whether this {name} was executed, and two people have given it up. It is never sent, and \
                 limits count it. Ask the people who operate the gate before you pay in another way."
            ),
        ),
        ClaimStatus::Absent(_) => refused(
            Code::RequestInProgress,
            &format!(
                "two people have just said that this {name} was not executed; repeat the request to send it again."
            ),
        ),
        ClaimStatus::Spent => refused(
            Code::RequestIdSpent,
            &format!("this {name} was used long ago, and its answer is no longer stored."),
        ),
        ClaimStatus::Reused => {
            let message = format!(
                "this {name} was already used with another request or by another caller. This attempt sent nothing."
            );
            let code = Code::RequestIdReused;
            own(code, code.status(), code.shape(), &message, None, Some(Executed::Unknown))
        }
    }
}

/// The answer where the gate itself sends nothing.
pub fn closed(why: Closed, operation: &Operation) -> Reply {
    let again = repeat(Some(operation));
    let unknown = if operation.claim.is_some() { Executed::Unknown } else { Executed::No };
    let (code, message, executed) = match why {
        Closed::Store if operation.claim.is_none() => (
            Code::StoreUnavailable,
            format!("the store cannot be written right now; nothing was sent: {again}."),
            unknown,
        ),
        Closed::Store => (
            Code::StoreUnavailable,
            format!(
                "the store cannot be read right now. This attempt sent nothing; the outcome of earlier attempts is \
                 unknown: {again}."
            ),
            unknown,
        ),
        Closed::Policies => (
            Code::PoliciesUnavailable,
            format!(
                "this gate does not run the policies and the contract that are in force now, or cannot read which these are. This \
                 attempt sent nothing; the outcome of earlier attempts is unknown: {again}."
            ),
            unknown,
        ),
        Closed::Audit(Earlier::None) => (
            Code::AuditUnavailable,
            format!("the audit log cannot be written right now; nothing was sent: {again}."),
            Executed::No,
        ),
        Closed::Audit(Earlier::Forgotten | Earlier::Unproven) => (
            Code::AuditUnavailable,
            format!("the audit log cannot be written right now. {UNPROVEN} Later, {again}."),
            Executed::Unknown,
        ),
        Closed::Forgotten => (
            Code::Frozen,
            format!(
                "money is closed until an operator opens it, because the store may have lost claims. This attempt sent \
                 nothing; the outcome of earlier attempts is unknown: {again} when money is open again."
            ),
            unknown,
        ),
        Closed::Holds(full, Earlier::None) => (
            Code::TooManyHolds,
            format!("{}; nothing was sent: {again} {}.", no_place(full), when_place(full)),
            Executed::No,
        ),
        Closed::Holds(full, Earlier::Forgotten | Earlier::Unproven) => (
            Code::TooManyHolds,
            format!("{}. {UNPROVEN} Then {again} {}.", no_place(full), when_place(full)),
            Executed::Unknown,
        ),
        Closed::Refusals(Earlier::None) => {
            (Code::TooManyRefusals, format!("{REFUSALS}; nothing was sent: {again} later."), Executed::No)
        }
        Closed::Refusals(Earlier::Forgotten | Earlier::Unproven) => {
            (Code::TooManyRefusals, format!("{REFUSALS}. {UNPROVEN} Later, {again}."), Executed::Unknown)
        }
        Closed::Clock(Earlier::None) => {
            (Code::Frozen, format!("{CLOCK}; nothing was sent: {again} at another gate, or later."), Executed::No)
        }
        Closed::Clock(Earlier::Forgotten | Earlier::Unproven) => {
            (Code::Frozen, format!("{CLOCK}. {UNPROVEN} At another gate, or later, {again}."), Executed::Unknown)
        }
        Closed::Frozen(Earlier::None) => {
            (Code::Frozen, format!("{FROZEN}; nothing was sent: {again} once people have opened them."), Executed::No)
        }
        Closed::Frozen(Earlier::Forgotten | Earlier::Unproven) => {
            (Code::Frozen, format!("{FROZEN}. {UNPROVEN} Once people have opened them, {again}."), Executed::Unknown)
        }
    };
    own(code, code.status(), code.shape(), &message, None, Some(executed))
}

fn no_place(full: NoPlace) -> &'static str {
    match full {
        NoPlace::Environment => {
            "the calls of all callers that wait for approval fill their room (`limits.holds`, `limits.holds_bytes`)"
        }
        NoPlace::Caller => {
            "this caller has its share of the calls that may wait for approval (`limits.holds`, `limits.holds_bytes`)"
        }
        NoPlace::Hour => {
            "this caller has its share of the bytes that calls may leave in the audit log within an hour by being held \
             (`limits.holds_bytes`)"
        }
    }
}

/// When there may be a place.
fn when_place(full: NoPlace) -> &'static str {
    match full {
        NoPlace::Environment | NoPlace::Caller => "when some of them are decided, or cancel some",
        NoPlace::Hour => "once that hour is over, 60 minutes from now at the latest",
    }
}
