//! The states of a hold, and the one table of what may follow what.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method};
use serde_json::Value;

use super::people::{Hearing, Owners, member_of};
use crate::base::digest::Fingerprint;
use crate::base::ids::{HoldId, OperationId, RequestId, TraceId};
use crate::commit::StoreTime;
use crate::policy::Voices;
use crate::stations::admit::Known;
use crate::stations::claim::{Decline, Declined, Owner, SentForm};
use crate::stations::decide::Consent;

/// The record of a call that waits for people: all that is needed to judge it and to send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub id: HoldId,
    /// The name of its claim.
    pub claim: String,
    /// Who asked for it.
    pub by: Known,
    pub operation: OperationId,
    pub method: Method,
    pub request_id: Option<RequestId>,
    pub fingerprint: Fingerprint,
    /// The exact bytes that are to be sent.
    pub sent: SentForm,
    /// The caller's headers that go along.
    pub headers: HeaderMap,
    pub trace: TraceId,
    /// Why it waits, as its caller is told.
    pub reasons: Vec<Value>,
    /// The approvals that were asked for.
    pub asked: BTreeSet<Arc<str>>,
    pub votes: Vec<Vote>,
    pub notes: Vec<Note>,
    /// `None`: when this very record was written.
    pub created: Option<StoreTime>,
    /// How long people may take.
    pub lasts: Duration,
    /// How often it was sent in vain.
    pub tries: u32,
    /// Whether people were reminded that it expires soon.
    pub reminded: bool,
    pub state: State,
}

/// One person's word for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vote {
    pub person: Owner,
    pub comment: Option<String>,
    pub at: StoreTime,
}

/// What a person remarked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub person: Owner,
    pub text: String,
    pub at: StoreTime,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Pending,
    Approved,
    /// From here the claim tells the rest.
    Released,
    Declined(Declined),
}

impl State {
    pub fn as_str(&self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Approved => "approved",
            State::Released => "released",
            State::Declined(declined) => declined.how.as_str(),
        }
    }

    /// Whether anything is still to be decided about it.
    pub fn is_open(&self) -> bool {
        matches!(self, State::Pending | State::Approved)
    }
}

/// What can happen to a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The vote that completes every approval.
    Completed,
    /// Rejected, cancelled, expired; or blocked by today's rules.
    Declined(Decline),
    Released,
    /// Today's rules or groups ask for more people.
    Reopened,
    /// It certainly was not sent.
    NotSent,
}

/// No such thing can happen to a hold in this state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImpossibleEvent;

/// The table.
pub fn after(state: &State, event: Event, reason: Option<String>) -> Result<State, ImpossibleEvent> {
    match (state, event) {
        (State::Pending, Event::Completed) | (State::Released, Event::NotSent) => Ok(State::Approved),
        (State::Approved, Event::Released) => Ok(State::Released),
        (State::Approved, Event::Reopened) => Ok(State::Pending),
        (State::Pending, Event::Declined(Decline::Blocked) | Event::Released | Event::Reopened | Event::NotSent)
        | (State::Approved, Event::Completed | Event::NotSent)
        | (State::Released, Event::Completed | Event::Declined(_) | Event::Released | Event::Reopened)
        | (State::Declined(_), _) => Err(ImpossibleEvent),
        (State::Pending | State::Approved, Event::Declined(how)) => Ok(State::Declined(Declined { how, reason })),
    }
}

impl Hold {
    /// When it expires, by the store's clock; `at`: when its record was written.
    pub fn deadline(&self, at: StoreTime) -> StoreTime {
        self.created(at).plus(self.lasts)
    }

    pub fn created(&self, at: StoreTime) -> StoreTime {
        self.created.unwrap_or(at)
    }

    pub fn owner(&self) -> Owner {
        Owner { issuer: self.by.issuer.clone(), subject: self.by.subject.clone() }
    }

    /// Whoever asked for it, as caller, as the person behind it or as their owner; people are compared by subject, across
    /// issuers.
    pub fn is_asked_by(&self, person: &str, owners: &Owners) -> bool {
        let asked = [Some(self.by.subject.as_str()), self.by.requester.as_deref()];
        asked.into_iter().flatten().any(|one| one == person || owners.owns(&self.by.issuer, one, person))
    }

    /// What people said of it, as it counts.
    pub fn consent(&self, hearing: &Hearing<'_>) -> Consent {
        let (mut subjects, mut people) = (BTreeSet::new(), Voices::new());
        for Vote { person, .. } in &self.votes {
            let voice = hearing.voice(self, person);
            if !voice.is_empty() && subjects.insert(person.subject.as_str()) {
                people.insert(member_of(person), voice);
            }
        }
        Consent { fingerprint: self.fingerprint, asked: self.asked.clone(), people }
    }
}
