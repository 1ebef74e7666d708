//! What the audit chain is told: one Entry a commit, in words that an auditor can read a year later.
//!
//! An Entry of a decision keeps what rules read, so that it can be made again: amounts, currencies and chains as written,
//! who asked and in which roles; users, wallets, accounts and what stood in the body where rules look, under a key alone.
//! No body, no name of a person's account and no bank data stands in it; the fingerprint binds it to the exact bytes.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::check::Intent;
use crate::base::digest::Fingerprint;
use crate::base::ids::{OperationId, RequestId, TraceId};
use crate::commit::{Number, RecordKey};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A call is about to be sent; nothing was sent before this was on disk.
    Sending,
    /// The rules did not let a call pass; nothing was sent.
    Refused,
    Executed,
    NotExecuted,
    /// Certainly nothing was executed, and it may be tried again.
    Undone,
    Unknown,
    /// An answer came for an attempt whose claim has moved on.
    Late,
    /// One of two people said that a call in doubt was not executed.
    SaidAbsent,
    Frozen,
    Unfrozen,
    /// A person agreed that a looser set of policies takes force.
    Agreed,
    /// Another set of policies took force at this node.
    TookForce,
    /// What the store forgot, and this chain did not, is in the store again.
    Remembered,
    /// A call waits for people.
    Held,
    /// A person agreed to a call that waits.
    Voted,
    /// A person no longer agrees.
    Withdrawn,
    /// A person remarked something.
    Noted,
    /// People enough agreed; or it is to be sent again, as it certainly was not.
    Approved,
    /// It takes more people than agreed.
    Reopened,
    Rejected,
    Expired,
    /// By whoever asked for it.
    Cancelled,
    /// People agreed, and the rules do not let it pass any more.
    Blocked,
    /// Whom webhooks lead to is told that a call expires soon.
    Reminded,
    /// Webhooks are about to be told what happened.
    Telling,
    /// Webhooks were told, or what they were to be told is not kept any longer.
    Told,
    /// A member named a person who votes in their place for a time.
    StandIn,
    StandInRevoked,
    /// A person has a session at the console.
    SignedIn,
    /// A session was used, and goes on.
    StayedIn,
    SignedOut,
    /// All sessions of a person were ended.
    SessionsEnded,
}

impl What {
    pub const ALL: [What; 32] = [
        What::Sending,
        What::Refused,
        What::Executed,
        What::NotExecuted,
        What::Undone,
        What::Unknown,
        What::Late,
        What::SaidAbsent,
        What::Frozen,
        What::Unfrozen,
        What::Agreed,
        What::TookForce,
        What::Remembered,
        What::Held,
        What::Voted,
        What::Withdrawn,
        What::Noted,
        What::Approved,
        What::Reopened,
        What::Rejected,
        What::Expired,
        What::Cancelled,
        What::Blocked,
        What::Reminded,
        What::Telling,
        What::Told,
        What::StandIn,
        What::StandInRevoked,
        What::SignedIn,
        What::StayedIn,
        What::SignedOut,
        What::SessionsEnded,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            What::Sending => "sending",
            What::Refused => "refused",
            What::Executed => "executed",
            What::NotExecuted => "not-executed",
            What::Undone => "undone",
            What::Unknown => "unknown",
            What::Late => "late",
            What::SaidAbsent => "said-absent",
            What::Frozen => "frozen",
            What::Unfrozen => "unfrozen",
            What::Agreed => "agreed",
            What::TookForce => "took-force",
            What::Remembered => "remembered",
            What::Held => "held",
            What::Voted => "voted",
            What::Withdrawn => "withdrawn",
            What::Noted => "noted",
            What::Approved => "approved",
            What::Reopened => "reopened",
            What::Rejected => "rejected",
            What::Expired => "expired",
            What::Cancelled => "cancelled",
            What::Blocked => "blocked",
            What::Reminded => "reminded",
            What::Telling => "telling",
            What::Told => "told",
            What::StandIn => "stand-in",
            What::StandInRevoked => "stand-in-revoked",
            What::SignedIn => "signed-in",
            What::StayedIn => "stayed-in",
            What::SignedOut => "signed-out",
            What::SessionsEnded => "sessions-ended",
        }
    }
}

/// One line of the audit chain, before it has a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    members: Map<String, Value>,
}

impl Entry {
    pub fn of(what: What) -> Entry {
        Entry { members: Map::new() }.with("what", what.as_str())
    }

    /// Of a call that was asked for.
    pub fn asked(what: What, intent: &Intent, trace: &TraceId) -> Entry {
        let caller = intent.caller();
        let mut entry = Entry::of(what)
            .operation(&intent.operation().id)
            .owner(caller.issuer(), caller.subject())
            .fingerprint(intent.fingerprint())
            .trace(trace);
        if let Some(requester) = caller.requester() {
            entry = entry.with("requester", requester);
        }
        if let Some(named) = intent.named() {
            entry = entry.claim(&named.key, named.request_id.as_ref());
        }
        entry
    }

    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Entry {
        self.members.insert(name.to_owned(), value.into());
        self
    }

    pub fn claim(self, key: &RecordKey, request_id: Option<&RequestId>) -> Entry {
        let entry = self.with("claim", key.name.as_str());
        match request_id {
            Some(id) => entry.with("requestId", id.as_str()),
            None => entry,
        }
    }

    pub fn operation(self, operation: &OperationId) -> Entry {
        self.with("operation", operation.as_str())
    }

    pub fn owner(self, issuer: &str, subject: &str) -> Entry {
        self.with("owner", serde_json::json!({ "issuer": issuer, "subject": subject }))
    }

    /// The person who did it.
    pub fn by(self, issuer: &str, subject: &str) -> Entry {
        self.with("by", serde_json::json!({ "issuer": issuer, "subject": subject }))
    }

    pub fn fingerprint(self, fingerprint: Fingerprint) -> Entry {
        self.with("fingerprint", fingerprint.to_hex())
    }

    pub fn trace(self, trace: &TraceId) -> Entry {
        self.with("trace", trace.as_str())
    }

    /// The number of the commit that made the attempt.
    pub fn attempt(self, attempt: Number) -> Entry {
        self.with("attempt", attempt.as_u64())
    }

    pub fn to_bytes(&self) -> Bytes {
        Bytes::from(Value::Object(self.members.clone()).to_string())
    }
}
