//! The states of a hold, and the table of its transitions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method};
use serde::{Deserialize, Serialize};

use super::owners::Owners;
use super::signature::SignedVote;
use crate::base::digest::Fingerprint;
use crate::base::ids::{HoldId, OperationId, RequestId, TraceId};
use crate::base::json;
use crate::ledger::{Number, StoreTime};
use crate::policy::HoldCauses;
use crate::stations::admit::KnownCaller;
use crate::stations::claim::{Decline, Declined, Owner, SentRequest};

/// The record of a held call: everything that judging and sending it needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hold {
    pub id: HoldId,
    /// The name of its claim.
    pub claim: String,
    /// The caller.
    pub by: KnownCaller,
    pub operation: OperationId,
    #[serde(with = "json::written_as::method")]
    pub method: Method,
    pub request_id: Option<RequestId>,
    pub fingerprint: Fingerprint,
    /// The exact bytes to send.
    pub sent: SentRequest,
    /// The caller's headers that go along.
    #[serde(with = "json::written_as::headers")]
    pub headers: HeaderMap,
    pub trace: TraceId,
    /// The rules and limits that hold it, as its caller and its voters are shown them.
    pub causes: HoldCauses,
    /// The approvals that it needs.
    pub asked: BTreeSet<Arc<str>>,
    pub votes: Vec<Vote>,
    pub notes: Vec<HoldNote>,
    /// When it began; `None`: when this record was written.
    #[serde(rename = "createdMicros")]
    pub created: Option<StoreTime>,
    /// The commits that wrote it before: the first one, and the newest others.
    pub entries: Vec<Number>,
    /// How long people have to decide.
    #[serde(rename = "lastsSecs", with = "json::written_as::secs")]
    pub lasts: Duration,
    /// How many sends failed.
    pub tries: u32,
    /// Whether people were reminded of its expiry.
    pub reminded: bool,
    pub state: HoldState,
}

/// One person's vote, for exactly the causes that the person was shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vote {
    pub person: Owner,
    /// The digest of those causes.
    pub causes: Fingerprint,
    pub comment: Option<String>,
    #[serde(rename = "atMicros")]
    pub at: StoreTime,
    pub signed: Option<SignedVote>,
}

/// One person's remark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldNote {
    pub person: Owner,
    pub text: String,
    #[serde(rename = "atMicros")]
    pub at: StoreTime,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum HoldState {
    Pending,
    Approved,
    /// The claim tells the rest.
    Released,
    Declined(Declined),
}

impl HoldState {
    pub fn as_str(&self) -> &'static str {
        match self {
            HoldState::Pending => "pending",
            HoldState::Approved => "approved",
            HoldState::Released => "released",
            HoldState::Declined(declined) => declined.how.as_str(),
        }
    }

    /// Returns whether a decision is still to come.
    pub fn is_open(&self) -> bool {
        matches!(self, HoldState::Pending | HoldState::Approved)
    }
}

/// The events of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldEvent {
    /// The vote that completes every approval.
    Completed,
    /// Rejected, cancelled, expired; or blocked by today's rules.
    Declined(Decline),
    Released,
    /// Today's rules or groups need more approvals, or the voters were not shown today's causes.
    Reopened,
    /// The call was certainly not sent.
    NotSent,
}

/// The event is impossible in this state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImpossibleHoldEvent;

/// The table of transitions.
pub fn after(state: &HoldState, event: HoldEvent, reason: Option<String>) -> Result<HoldState, ImpossibleHoldEvent> {
    match (state, event) {
        (HoldState::Pending, HoldEvent::Completed) | (HoldState::Released, HoldEvent::NotSent) => {
            Ok(HoldState::Approved)
        }
        (HoldState::Approved, HoldEvent::Released) => Ok(HoldState::Released),
        (HoldState::Pending | HoldState::Approved, HoldEvent::Reopened) => Ok(HoldState::Pending),
        (HoldState::Pending, HoldEvent::Released | HoldEvent::NotSent)
        | (HoldState::Approved, HoldEvent::Completed | HoldEvent::NotSent)
        | (
            HoldState::Released,
            HoldEvent::Completed | HoldEvent::Declined(_) | HoldEvent::Released | HoldEvent::Reopened,
        )
        | (HoldState::Declined(_), _) => Err(ImpossibleHoldEvent),
        (HoldState::Pending | HoldState::Approved, HoldEvent::Declined(how)) => {
            Ok(HoldState::Declined(Declined { how, reason }))
        }
    }
}

impl Hold {
    /// The expiry by the store's clock; `at` is when its record was written.
    pub fn deadline(&self, at: StoreTime) -> StoreTime {
        self.created(at).plus(self.lasts)
    }

    pub fn created(&self, at: StoreTime) -> StoreTime {
        self.created.unwrap_or(at)
    }

    pub fn owner(&self) -> Owner {
        Owner { opaque: self.by.opaque, ..Owner::named(self.by.issuer.as_str(), self.by.subject.as_str()) }
    }

    /// Returns whether this person asked for it: as caller, behind the caller's token, or as an owner. Subjects are
    /// compared across issuers.
    pub fn is_asked_by(&self, person: &Owner, owners: &Owners) -> bool {
        let (owner, person) = (owners.as_today(&self.owner()), owners.as_today(person));
        let requester = self.by.requester.as_deref().map(|requester| owner.beside(requester));
        [Some(owner), requester]
            .into_iter()
            .flatten()
            .any(|one| one.is_same_person(&person) || owners.owns(&one, &person))
    }
}
