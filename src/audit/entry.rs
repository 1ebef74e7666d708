//! Audit entries: one for each commit, in words that an auditor can read a year later.
//!
//! The entry of a decision keeps the operands that rules read, so that the decision can be replayed: amounts,
//! currencies and chains as written, the caller and its roles; users, wallets, accounts and body fields only as keyed
//! digests. It contains no body, no name of a person's account and no bank data; the fingerprint binds it to the exact
//! bytes.

use bytes::Bytes;
use serde::Serialize;

use crate::base::digest::Fingerprint;
use crate::base::ids::{OperationId, RequestId, TraceId};
use crate::base::json;
use crate::base::word_enum::word_enum;
use crate::ledger::{Number, RecordKey};

/// How long most entries are.
const ENTRY_BYTES: usize = 1024;

word_enum! {
    /// The kind of an entry.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum EntryKind {
        /// A call is about to be sent; nothing was sent before this entry was on disk.
        Sending = "sending",
        /// The rules refused a call; nothing was sent.
        Refused = "refused",
        Executed = "executed",
        NotExecuted = "not-executed",
        /// Certainly nothing was executed, and the call may be tried again.
        Undone = "undone",
        Unknown = "unknown",
        /// An answer for an attempt whose claim has moved on. It is no proof of execution.
        Late = "late",
        /// One of two people said that a call with an unknown outcome was not executed.
        SaidAbsent = "said-absent",
        /// One of two people said that nobody will ever know an outcome.
        SaidAbandoned = "said-abandoned",
        /// Two people said so: the call is never sent again.
        Abandoned = "abandoned",
        /// One of two people said that a gate and its journal will never return.
        SaidGone = "said-gone",
        /// Two people said so: from now on the store takes nothing from it but proofs of execution.
        Gone = "gone",
        /// A person took the journal of a gate in that is gone for good: other journals have all of it.
        Retired = "retired",
        /// One of two people showed upstream's record of a call.
        SaidExecuted = "said-executed",
        /// A gate came with a new journal: what its former one had is on no disk of this gate any more.
        JournalLost = "journal-lost",
        /// A gate with a seal key was started that takes records in plain text (`store.allow_plain`).
        TookPlain = "took-plain",
        /// A record of the store was sealed anew, with the key that seals now.
        SealedAnew = "sealed-anew",
        Frozen = "frozen",
        /// One of two people said that a freeze is to be lifted.
        SaidUnfrozen = "said-unfrozen",
        Unfrozen = "unfrozen",
        /// A set of policies that may allow more waits for two people; webhooks are told.
        Waits = "waits",
        /// A person agreed that a looser set of policies takes force.
        Agreed = "agreed",
        /// A person handed in signatures of recovery keys: a set that adds passkeys is to take force.
        RecoverySigned = "recovery-signed",
        /// Another set of policies took force at this node.
        TookForce = "took-force",
        /// A store that lost its memory was rebuilt from a journal.
        Rebuilt = "rebuilt",
        /// Claims that the store lost, and this audit log did not, are in the store again; or the texts of the policies in force.
        Remembered = "remembered",
        /// A call is held for approval.
        Held = "held",
        /// A person approved a held call.
        Voted = "voted",
        /// A person was asked to sign an approval.
        Challenged = "challenged",
        /// A person withdrew the approval.
        Withdrawn = "withdrawn",
        /// A person commented.
        Noted = "noted",
        /// A hold is fully approved; or it is to be sent again, as it was certainly not sent.
        Approved = "approved",
        /// A hold needs more approvals.
        Reopened = "reopened",
        Rejected = "rejected",
        Expired = "expired",
        /// The caller cancelled a hold.
        Cancelled = "cancelled",
        /// Today's rules deny an approved call.
        Blocked = "blocked",
        /// Webhooks are reminded that a hold expires soon.
        Reminded = "reminded",
        /// Webhooks are about to be sent notices.
        Telling = "telling",
        /// Webhooks got their notices, or the notices expired.
        Told = "told",
        /// A member named a stand-in for a time.
        StandIn = "stand-in",
        StandInRevoked = "stand-in-revoked",
        /// A person signed in at the console.
        SignedIn = "signed-in",
        /// A session was used and extended.
        StayedIn = "stayed-in",
        SignedOut = "signed-out",
        /// A person's sessions were all ended.
        SessionsEnded = "sessions-ended",
        /// A person took payments, or entries of the audit log, out of the console as a file.
        Exported = "exported",
        /// A gate began to follow upstream's list of payments, or goes on.
        Follows = "follows",
        /// Upstream shows a payment in another state, or with another amount: limits count it accordingly.
        Followed = "followed",
        /// Upstream lists a payment that no gate sent.
        Foreign = "foreign",
    }
}

/// A person in an entry.
#[derive(Serialize)]
struct NamedPerson<'p> {
    issuer: &'p str,
    subject: &'p str,
}

/// One audit entry, before it has a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its members as JSON, each with a comma behind it, in any order. Of two with one name the later counts.
    members: Vec<u8>,
}

impl Entry {
    pub fn of(what: EntryKind) -> Entry {
        Entry { members: Vec::with_capacity(ENTRY_BYTES) }.with("what", what.as_str())
    }

    pub fn with(mut self, name: &str, value: impl Serialize) -> Entry {
        json::put_member(name, &value, &mut self.members);
        self
    }

    pub fn claim(self, key: &RecordKey, request_id: Option<&RequestId>) -> Entry {
        let entry = self.with("claim", key.name.as_str());
        match request_id {
            Some(id) => entry.with("requestId", id.as_str()),
            None => entry,
        }
    }

    /// Returns an entry that was written, to add to it.
    pub fn again(written: &[u8]) -> Entry {
        let inside = written.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}")).unwrap_or_default();
        let mut members = inside.to_vec();
        if !members.is_empty() {
            members.push(b',');
        }
        Entry { members }
    }

    pub fn operation(self, operation: &OperationId) -> Entry {
        self.with("operation", operation.as_str())
    }

    pub fn owner(self, issuer: &str, subject: &str) -> Entry {
        self.with("owner", NamedPerson { issuer, subject })
    }

    /// The person who did it.
    pub fn by(self, issuer: &str, subject: &str) -> Entry {
        self.with("by", NamedPerson { issuer, subject })
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
        Bytes::from(json::object_of(&self.members))
    }
}
