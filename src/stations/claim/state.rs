//! The states of a claim, and the one table of what may follow what.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;

use super::booked::Booked;
use crate::base::digest::Fingerprint;
use crate::base::ids::{HoldId, OperationId, RequestId, TraceId};
use crate::commit::{NodeId, Number, RecordKey, StoreTime};
use crate::stations::admit::Caller;
use crate::stations::check::Intent;

/// Whose claim it is: nobody else learns anything of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub issuer: String,
    pub subject: String,
}

impl Owner {
    pub fn of(caller: &Caller) -> Owner {
        Owner { issuer: caller.issuer().to_owned(), subject: caller.subject().to_owned() }
    }

    /// Another of the same issuer.
    pub fn beside(&self, subject: &str) -> Owner {
        Owner { issuer: self.issuer.clone(), subject: subject.to_owned() }
    }
}

/// As the audit chain and operators read it. The name of an issuer holds no slash.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.issuer, self.subject)
    }
}

/// By which a node knows its own commit again when the store did not say whether it was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nonce(pub String);

/// The record of one requestId, from first sight to stored answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub owner: Owner,
    /// The person behind the owner's token, where it named one.
    pub requester: Option<String>,
    pub operation: OperationId,
    pub fingerprint: Fingerprint,
    /// As the caller wrote it.
    pub request_id: Option<RequestId>,
    /// Of the exchange that made it.
    pub trace: TraceId,
    /// Under which it waited for people, if it did.
    pub hold: Option<HoldId>,
    /// What its attempt has booked.
    pub booked: Booked,
    pub state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It waits for people: its hold tells for what.
    Held,
    /// It waited for people, and goes no further.
    Declined(Declined),
    /// Its attempt is the number of the record.
    Sending {
        node: NodeId,
        nonce: Nonce,
        /// From the commit on. When it is over, nobody waits for the node any more.
        lease: Duration,
        sent: SentForm,
    },
    Unknown {
        attempt: Number,
        /// When the attempt was made.
        since: StoreTime,
        doubt: Doubt,
        /// Since when it is in doubt; `None`: since this very record was written.
        doubted: Option<StoreTime>,
        sent: SentForm,
        /// How often upstream was asked what became of it.
        looks: u32,
        /// Who says that it was not executed, as `issuer/subject`.
        said_absent: Option<String>,
    },
    Done {
        executed: bool,
        answer: Answer,
    },
}

impl Claim {
    /// Whoever asked for it, as owner or as the person behind it; people are compared by subject, across issuers.
    pub fn is_asked_by(&self, person: &Owner) -> bool {
        self.owner.subject == person.subject || self.requester.as_deref() == Some(person.subject.as_str())
    }
}

impl State {
    pub fn as_str(&self) -> &'static str {
        match self {
            State::Held => "held",
            State::Declined(declined) => declined.how.as_str(),
            State::Sending { .. } => "sending",
            State::Unknown { .. } => "unknown",
            State::Done { executed: true, .. } => "executed",
            State::Done { executed: false, .. } => "not-executed",
        }
    }
}

/// Why a call that waited goes no further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declined {
    pub how: Decline,
    /// What its owner is told of the reason.
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decline {
    Rejected,
    Expired,
    Cancelled,
    Blocked,
    /// The store may have forgotten what was said of it, or that it was sent.
    Forgotten,
}

impl Decline {
    pub const ALL: [Decline; 5] =
        [Decline::Rejected, Decline::Expired, Decline::Cancelled, Decline::Blocked, Decline::Forgotten];

    pub fn as_str(self) -> &'static str {
        match self {
            Decline::Rejected => "rejected",
            Decline::Expired => "expired",
            Decline::Cancelled => "cancelled",
            Decline::Blocked => "blocked",
            Decline::Forgotten => "forgotten",
        }
    }
}

/// By what a claim is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// A requestId, which its owner may choose anew.
    RequestId,
    /// Its path: there is no other name for what it asks for.
    Path,
    /// The call itself and its owner: it has a claim only because it waited for people.
    Call,
}

impl Naming {
    pub fn of(key: &RecordKey) -> Naming {
        match key.name.split_once('/') {
            Some(("path", _)) => Naming::Path,
            Some(("call", _)) => Naming::Call,
            _ => Naming::RequestId,
        }
    }
}

/// What was sent: path and query, and the body.
#[derive(Clone, PartialEq, Eq)]
pub struct SentForm {
    pub target: String,
    pub body: Bytes,
}

impl SentForm {
    pub fn of(intent: &Intent) -> SentForm {
        SentForm { target: intent.target(), body: intent.body().cloned().unwrap_or_default() }
    }

    /// Of a call of which only the audit chain knows.
    pub fn forgotten() -> SentForm {
        SentForm { target: String::new(), body: Bytes::new() }
    }

    pub fn is_forgotten(&self) -> bool {
        self.target.is_empty()
    }
}

impl fmt::Debug for SentForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentForm").finish_non_exhaustive()
    }
}

/// What the owner hears, now and whenever it asks again.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("status", &self.status).finish_non_exhaustive()
    }
}

/// Why nobody knows what became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Upstream was silent until the deadline.
    Silent,
    /// The connection broke.
    Broken,
    /// An answer came that proves nothing.
    Unproven,
    /// The node that sent it said nothing more.
    Lapsed,
    /// The store forgot it; the audit chain knows that it was sent.
    Forgotten,
}

impl Doubt {
    pub const ALL: [Doubt; 5] = [Doubt::Silent, Doubt::Broken, Doubt::Unproven, Doubt::Lapsed, Doubt::Forgotten];

    pub fn as_str(self) -> &'static str {
        match self {
            Doubt::Silent => "silent",
            Doubt::Broken => "broken",
            Doubt::Unproven => "unproven",
            Doubt::Lapsed => "lapsed",
            Doubt::Forgotten => "forgotten",
        }
    }
}

/// What can happen to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Upstream's 2xx head came.
    Executed(Answer),
    /// Upstream proved that it did nothing, and would do so again.
    Refused(Answer),
    /// Certainly nothing was executed, and it may be tried again: not one byte was written, or upstream said 401 or 429.
    Undone,
    Doubted(Doubt),
    /// A record of upstream shows that it was executed.
    Found(Answer),
    /// It is shown that nothing was executed.
    ShownAbsent,
}

impl Event {
    pub fn as_str(&self) -> &'static str {
        match self {
            Event::Executed(_) => "executed",
            Event::Refused(_) => "not-executed",
            Event::Undone => "undone",
            Event::Doubted(_) => "unknown",
            Event::Found(_) => "found",
            Event::ShownAbsent => "shown-absent",
        }
    }
}

/// What a claim becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    Absent,
    /// It waits again, to be sent later.
    Held,
    Done {
        executed: bool,
        answer: Answer,
    },
    Unknown(Doubt),
}

/// No such thing can happen to a claim in this state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImpossibleEvent;

/// The table. `from_hold`: it waited for people before it was sent, and its owner asks for what became of it.
pub fn after(state: &State, event: Event, naming: Naming, from_hold: bool) -> Result<Next, ImpossibleEvent> {
    let is_forgotten = naming == Naming::Path && !from_hold;
    match (state, event) {
        (State::Sending { .. } | State::Unknown { .. }, Event::Executed(answer)) => {
            Ok(Next::Done { executed: true, answer })
        }
        (State::Sending { .. } | State::Unknown { .. }, Event::Refused(_)) if is_forgotten => Ok(Next::Absent),
        (State::Sending { .. } | State::Unknown { .. }, Event::Refused(answer)) => {
            Ok(Next::Done { executed: false, answer })
        }
        (State::Sending { .. } | State::Unknown { .. }, Event::Undone) if from_hold => Ok(Next::Held),
        (State::Sending { .. } | State::Unknown { .. }, Event::Undone) => Ok(Next::Absent),
        (State::Sending { .. }, Event::Doubted(doubt)) => Ok(Next::Unknown(doubt)),
        (State::Unknown { .. }, Event::Found(answer)) => Ok(Next::Done { executed: true, answer }),
        (State::Unknown { .. }, Event::ShownAbsent) => Ok(Next::Absent),
        (State::Sending { .. }, Event::Found(_) | Event::ShownAbsent)
        | (State::Unknown { .. }, Event::Doubted(_))
        | (State::Held | State::Declined(_) | State::Done { .. }, _) => Err(ImpossibleEvent),
    }
}
