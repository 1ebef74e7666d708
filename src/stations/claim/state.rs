//! The states of a claim, and the table of its transitions.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::bookings::{Booking, Nonce};
use super::first_word::FirstWord;
use super::owner::Owner;
use super::past_attempts::{AttemptEnd, Executions, PastAttempt};
use crate::audit::{Entry, EntryKind};
use crate::base::digest::Fingerprint;
use crate::base::ids::{HoldId, OperationId, RequestId, TraceId};
use crate::base::json;
use crate::base::word_enum::word_enum;
use crate::catalog::Movement;
use crate::ledger::{Index, Number, RecordKey, Sender, StoreTime};
use crate::stations::check::Intent;

/// The record of one requestId, from first sight to stored answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Claim {
    pub owner: Owner,
    /// The person behind the owner's token, where it named one.
    pub requester: Option<String>,
    pub operation: OperationId,
    pub fingerprint: Fingerprint,
    /// The requestId as the caller wrote it.
    pub request_id: Option<RequestId>,
    /// The trace of the exchange that made it.
    pub trace: TraceId,
    /// The money that it moves, where upstream's list of such payments is followed.
    pub moves: Option<Movement>,
    /// The hold under which it waited, if it did.
    pub hold: Option<HoldId>,
    /// The attempts that are over or in doubt, the earliest first. The one that is being sent is in the state.
    pub attempts: Vec<PastAttempt>,
    pub state: ClaimState,
}

impl Claim {
    /// Returns whether the attempt of this nonce is being sent.
    pub fn is_being_sent_as(&self, wanted: &Nonce) -> bool {
        matches!(&self.state, ClaimState::Sending { booked, .. } if booked.holder == wanted.0)
    }

    /// Returns the same claim in another state, and with other attempts behind it.
    pub fn in_state(&self, state: ClaimState, attempts: Vec<PastAttempt>) -> Claim {
        Claim {
            owner: self.owner.clone(),
            requester: self.requester.clone(),
            operation: self.operation.clone(),
            fingerprint: self.fingerprint,
            request_id: self.request_id.clone(),
            trace: self.trace.clone(),
            moves: self.moves.clone(),
            hold: self.hold.clone(),
            attempts,
            state,
        }
    }

    /// Returns the latest attempt whose outcome is unknown, where the claim's is. One of another history may have a lower
    /// number than one that has ended.
    pub fn in_doubt(&self) -> Option<&PastAttempt> {
        self.attempts.iter().rev().find(|attempt| attempt.end == AttemptEnd::Unknown)
    }

    pub fn attempt(&self, number: Number) -> Option<&PastAttempt> {
        self.attempts.iter().find(|attempt| attempt.number == number)
    }

    /// Returns the numbers of the entries that say that it was sent, and of the newest one, which wrote this version.
    pub fn entry_numbers(&self, version: Number) -> Vec<Number> {
        self.attempts.iter().map(|attempt| attempt.number).chain([version]).collect()
    }

    /// Returns whether the record names people who said something of its outcome.
    pub fn names_people(&self) -> bool {
        let is_said = |end: &AttemptEnd| matches!(end, AttemptEnd::Absent { .. } | AttemptEnd::Abandoned { .. });
        let is_half_said = match &self.state {
            ClaimState::Unknown { said_absent, said_abandoned, .. } => {
                said_absent.is_some() || said_abandoned.is_some()
            }
            _ => false,
        };
        is_half_said || self.attempts.iter().any(|attempt| is_said(&attempt.end))
    }

    /// Returns whether upstream itself proved for each earlier attempt that it was not executed.
    pub fn is_proved_unexecuted(&self) -> bool {
        self.attempts.iter().all(|attempt| attempt.end.is_proved_not_executed())
    }

    pub fn executions(&self) -> Executions {
        let executed = self.attempts.iter().filter(|past| past.end == AttemptEnd::Executed).count();
        let may_be = |end: &AttemptEnd| matches!(end, AttemptEnd::Unknown | AttemptEnd::Abandoned { .. });
        match (executed, self.attempts.iter().any(|past| may_be(&past.end))) {
            (2.., _) => Executions::Twice,
            (1, true) => Executions::PerhapsTwice,
            (0 | 1, _) => Executions::AtMostOnce,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum ClaimState {
    /// The call is held; its hold says why.
    Held,
    /// The call was held and then refused.
    Declined(Declined),
    /// The call is being sent. The record's number is the attempt.
    Sending {
        sender: Sender,
        booked: Booking,
        /// Begins with the commit; after its end nobody waits for the node.
        #[serde(rename = "leaseMicros", with = "json::written_as::micros")]
        lease: Duration,
        sent: SentRequest,
    },
    /// The outcome of the latest attempt is unknown.
    Unknown {
        doubt: DoubtCause,
        /// When the outcome became unknown; `None`: when this record was written.
        #[serde(rename = "doubtedMicros")]
        doubted: Option<StoreTime>,
        sent: SentRequest,
        /// How many lookups were made.
        looks: u32,
        /// The first of two people who say that it was not executed.
        said_absent: Option<FirstWord>,
        /// The first of two people who say that nobody will ever know.
        said_abandoned: Option<FirstWord>,
    },
    /// Upstream refused each attempt in such a way that the call may be sent again (401 or 429), or two people said that it
    /// was not executed.
    Absent,
    /// Two people said that nobody will ever know: the call is never sent again.
    Abandoned,
    Done {
        executed: bool,
        answer: StoredAnswer,
    },
}

impl Claim {
    /// Returns whether this person asked for it, as owner or behind the owner's token; subjects are compared across
    /// issuers.
    pub fn is_asked_by(&self, person: &Owner) -> bool {
        self.askers().any(|one| one.is_same_person(person))
    }

    /// The owner, and the person behind the owner's token.
    pub fn askers(&self) -> impl Iterator<Item = Owner> {
        [Some(self.owner.clone()), self.requester.as_deref().map(|requester| self.owner.beside(requester))]
            .into_iter()
            .flatten()
    }
}

impl ClaimState {
    pub fn is_executed(&self) -> bool {
        matches!(self, ClaimState::Done { executed: true, .. })
    }

    /// Returns the index that names a claim in this state.
    pub fn index(&self) -> Option<Index> {
        match self {
            ClaimState::Sending { .. } => Some(Index::Sending),
            ClaimState::Unknown { .. } => Some(Index::Unknown),
            ClaimState::Held
            | ClaimState::Declined(_)
            | ClaimState::Absent
            | ClaimState::Abandoned
            | ClaimState::Done { .. } => None,
        }
    }

    pub fn as_str(&self) -> &'static str {
        match self {
            ClaimState::Held => "held",
            ClaimState::Declined(declined) => declined.how.as_str(),
            ClaimState::Sending { .. } => "sending",
            ClaimState::Unknown { .. } => "unknown",
            ClaimState::Absent => "absent",
            ClaimState::Abandoned => "abandoned",
            ClaimState::Done { executed: true, .. } => "executed",
            ClaimState::Done { executed: false, .. } => "not-executed",
        }
    }
}

/// The refusal of a held call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declined {
    pub how: Decline,
    /// The reason that its owner gets.
    pub reason: Option<String>,
}

word_enum! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Decline {
        Rejected = "rejected",
        Expired = "expired",
        Cancelled = "cancelled",
        Blocked = "blocked",
        /// The store may have lost its votes, or that it was sent.
        Forgotten = "forgotten",
    }
}

/// The kind of a claim's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyNaming {
    /// A requestId; its owner may choose another.
    RequestId,
    /// A path: the call has no other name.
    Path,
    /// A digest of the call and its owner: it has a claim only because it was held.
    Call,
}

impl KeyNaming {
    pub fn of(key: &RecordKey) -> KeyNaming {
        match key.name.split_once('/') {
            Some(("path", _)) => KeyNaming::Path,
            Some(("call", _)) => KeyNaming::Call,
            _ => KeyNaming::RequestId,
        }
    }
}

/// The request as sent: path and query, and the body.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SentRequest {
    pub target: String,
    #[serde(with = "json::written_as::text")]
    pub body: Bytes,
}

impl SentRequest {
    pub fn of(intent: &Intent) -> SentRequest {
        SentRequest { target: intent.target(), body: intent.body().cloned().unwrap_or_default() }
    }

    /// The placeholder for a call that only an audit log knows.
    pub fn forgotten() -> SentRequest {
        SentRequest { target: String::new(), body: Bytes::new() }
    }

    pub fn is_forgotten(&self) -> bool {
        self.target.is_empty()
    }
}

impl fmt::Debug for SentRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentRequest").finish_non_exhaustive()
    }
}

/// The stored answer, for every repeat.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredAnswer {
    pub status: u16,
    #[serde(with = "json::written_as::headers")]
    pub headers: HeaderMap,
    #[serde(with = "json::written_as::text")]
    pub body: Bytes,
}

impl StoredAnswer {
    /// The answer for a call that was executed, where upstream's own answer is not known.
    pub fn of_executed(status: u16, request_id: Option<&RequestId>) -> StoredAnswer {
        let mut body = json!({ "status": "executed" });
        if let (Some(members), Some(id)) = (body.as_object_mut(), request_id) {
            members.insert("requestId".to_owned(), Value::from(id.as_str()));
        }
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        StoredAnswer { status, headers, body: Bytes::from(body.to_string()) }
    }
}

impl fmt::Debug for StoredAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredAnswer").field("status", &self.status).finish_non_exhaustive()
    }
}

word_enum! {
    /// The causes of an unknown outcome.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum DoubtCause {
        /// Upstream was silent until the deadline.
        Silent = "silent",
        /// The connection broke.
        Broken = "broken",
        /// The answer proves nothing.
        Unproven = "unproven",
        /// The answer is a success, but not the answer to this call.
        Unbelieved = "unbelieved",
        /// The sending node let its lease lapse.
        Lapsed = "lapsed",
        /// The store lost the claim; the audit log knows that it was sent.
        Forgotten = "forgotten",
    }
}

/// The events of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimEvent {
    /// Upstream's 2xx head came.
    Executed(StoredAnswer),
    /// Upstream proved that it did nothing.
    Refused(StoredAnswer),
    /// Certainly nothing was executed, and the call may be tried again. `status`: upstream refused with it (401 or 429);
    /// `None`: no byte was written.
    Undone {
        status: Option<u16>,
    },
    Doubted(DoubtCause),
    /// A record of upstream shows that it was executed.
    Found(StoredAnswer),
    /// Two people say that it was not executed.
    ShownAbsent {
        said_by: [String; 2],
    },
    /// Two people say that nobody will ever know.
    Abandoned {
        said_by: [String; 2],
    },
}

impl ClaimEvent {
    pub fn as_str(&self) -> &'static str {
        match self {
            ClaimEvent::Executed(_) => "executed",
            ClaimEvent::Refused(_) => "not-executed",
            ClaimEvent::Undone { .. } => "undone",
            ClaimEvent::Doubted(_) => "unknown",
            ClaimEvent::Found(_) => "found",
            ClaimEvent::ShownAbsent { .. } => "shown-absent",
            ClaimEvent::Abandoned { .. } => "abandoned",
        }
    }

    /// The end that the event gives to its attempt; `None` where the attempt leaves no trace.
    pub fn end(&self) -> Option<AttemptEnd> {
        match self {
            ClaimEvent::Executed(_) | ClaimEvent::Found(_) => Some(AttemptEnd::Executed),
            ClaimEvent::Refused(StoredAnswer { status, .. }) | ClaimEvent::Undone { status: Some(status) } => {
                Some(AttemptEnd::NotExecuted { status: *status })
            }
            ClaimEvent::Undone { status: None } => None,
            ClaimEvent::Doubted(_) => Some(AttemptEnd::Unknown),
            ClaimEvent::ShownAbsent { said_by } => Some(AttemptEnd::Absent { said_by: said_by.to_vec() }),
            ClaimEvent::Abandoned { said_by } => Some(AttemptEnd::Abandoned { said_by: said_by.to_vec() }),
        }
    }
}

/// The state that follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextState {
    /// The call may be sent again.
    Absent,
    /// The call is held again, to be sent later.
    Held,
    Done {
        executed: bool,
        answer: StoredAnswer,
    },
    Unknown(DoubtCause),
    Abandoned,
}

/// The event is impossible in this state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImpossibleClaimEvent;

/// The table of transitions, for events of a claim's latest attempt. `from_hold`: the call was held before, and its owner
/// polls for its outcome.
pub fn after(
    state: &ClaimState,
    event: ClaimEvent,
    naming: KeyNaming,
    from_hold: bool,
) -> Result<NextState, ImpossibleClaimEvent> {
    let is_free_at_once = naming == KeyNaming::Path && !from_hold;
    match (state, event) {
        (ClaimState::Sending { .. } | ClaimState::Unknown { .. }, ClaimEvent::Executed(answer)) => {
            Ok(NextState::Done { executed: true, answer })
        }
        (ClaimState::Sending { .. } | ClaimState::Unknown { .. }, ClaimEvent::Refused(_)) if is_free_at_once => {
            Ok(NextState::Absent)
        }
        (ClaimState::Sending { .. } | ClaimState::Unknown { .. }, ClaimEvent::Refused(answer)) => {
            Ok(NextState::Done { executed: false, answer })
        }
        (ClaimState::Sending { .. } | ClaimState::Unknown { .. }, ClaimEvent::Undone { .. }) if from_hold => {
            Ok(NextState::Held)
        }
        (ClaimState::Sending { .. } | ClaimState::Unknown { .. }, ClaimEvent::Undone { .. }) => Ok(NextState::Absent),
        (ClaimState::Sending { .. }, ClaimEvent::Doubted(doubt)) => Ok(NextState::Unknown(doubt)),
        (ClaimState::Unknown { .. }, ClaimEvent::Found(answer)) => Ok(NextState::Done { executed: true, answer }),
        (ClaimState::Unknown { .. }, ClaimEvent::ShownAbsent { .. }) => Ok(NextState::Absent),
        (ClaimState::Unknown { .. }, ClaimEvent::Abandoned { .. }) => Ok(NextState::Abandoned),
        (
            ClaimState::Sending { .. },
            ClaimEvent::Found(_) | ClaimEvent::ShownAbsent { .. } | ClaimEvent::Abandoned { .. },
        )
        | (ClaimState::Unknown { .. }, ClaimEvent::Doubted(_))
        | (
            ClaimState::Held
            | ClaimState::Declined(_)
            | ClaimState::Absent
            | ClaimState::Abandoned
            | ClaimState::Done { .. },
            _,
        ) => Err(ImpossibleClaimEvent),
    }
}

/// An entry on a claim and one attempt of it.
pub(super) fn entry(what: EntryKind, key: &RecordKey, claim: &Claim, attempt: Number) -> Entry {
    let entry = match &claim.hold {
        Some(hold) => Entry::of(what).with("hold", hold.as_str()),
        None => Entry::of(what),
    };
    entry
        .claim(key, claim.request_id.as_ref())
        .operation(&claim.operation)
        .owner(&claim.owner.issuer, &claim.owner.subject)
        .fingerprint(claim.fingerprint)
        .trace(&claim.trace)
        .attempt(attempt)
}
