//! An attempt to send a claimed call, as a chain of values that the compiler checks.
//!
//! ```text
//! Allowed ─propose─▶ Proposal ─committed─▶ Committed ─recorded─▶ Recorded ─clear─▶ Cleared ─send
//!                    the commit            in the store          entry on disk    one send
//! ```
//!
//! Every field is private and every step consumes the value before it. So one decision makes one attempt, an attempt is
//! sent once, and never before the store knows of it and its audit entry is on disk.

use super::bookings::{Booking, Nonce};
use super::commits::{AttemptSource, Proposer, begin};
use super::lease::Lease;
use super::state::Claim;
use crate::audit::{Entry, OnDisk};
use crate::base::ids::Environment;
use crate::ledger::{Commit, Number, Receipt, Record, RecordKey, StoreTime};
use crate::stations::check::Intent;
use crate::stations::decide::{Allowed, Grounds};

/// An attempt that waits for the store's answer.
#[derive(Debug)]
pub struct Proposal {
    allowed: Allowed,
    lease: Lease,
    nonce: Nonce,
    commit: Commit,
    /// The claim as the commit writes it, where the call can be claimed.
    claim: Option<(RecordKey, Claim)>,
    booked: Booking,
    entry: Entry,
    earlier_are_proven: bool,
}

/// An attempt that the store knows of.
#[derive(Debug)]
pub struct Committed {
    allowed: Allowed,
    lease: Lease,
    attempt: Number,
    earlier_are_proven: bool,
}

/// An attempt that the store knows of, and whose audit entry is on disk.
#[derive(Debug)]
pub struct Recorded(Committed);

/// The place where the outcome of one attempt is written.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// The number of the commit that made the attempt.
    pub attempt: Number,
    pub place: SettlementPlace,
}

#[derive(Clone, Debug)]
pub enum SettlementPlace {
    Claim {
        key: RecordKey,
        claim: Box<Claim>,
        at: StoreTime,
    },
    /// The call cannot be claimed: its entries and its reservations are all that there is.
    Unclaimed {
        environment: Environment,
        entry: Entry,
        booked: Booking,
    },
}

/// Proposes an attempt. A call that cannot be claimed leaves its entry, and no record, unless it was held.
pub fn propose(allowed: Allowed, by: &Proposer<'_>, lease: Lease, from: AttemptSource<'_>) -> Proposal {
    let (commit, claim, booked, entry) = begin(allowed.intent(), allowed.grounds(), by, from);
    let earlier_are_proven = claim.as_ref().is_none_or(|(_, claim)| claim.is_proved_unexecuted());
    Proposal { allowed, lease, nonce: by.nonce.clone(), commit, claim, booked, entry, earlier_are_proven }
}

impl Proposal {
    pub fn commit(&self) -> &Commit {
        &self.commit
    }

    pub fn intent(&self) -> &Intent {
        self.allowed.intent()
    }

    /// The store made the commit.
    pub fn committed(self, receipt: &Receipt) -> (Committed, Settlement) {
        let Proposal { allowed, lease, commit, claim, booked, entry, earlier_are_proven, .. } = self;
        let (attempt, environment) = (receipt.number(), commit.environment);
        let place = match claim {
            Some((key, claim)) => SettlementPlace::Claim { key, claim: Box::new(claim), at: receipt.at() },
            None => SettlementPlace::Unclaimed { environment, entry, booked },
        };
        (Committed { allowed, lease, attempt, earlier_are_proven }, Settlement { attempt, place })
    }

    /// The store refused the commit: the call can be decided on again.
    pub fn refused(self) -> Intent {
        self.allowed.into_intent()
    }

    /// The store did not say whether it made the commit, and nothing is sent: what must be undone if it did.
    pub fn in_doubt(self) -> Option<DoubtfulCommit> {
        let Proposal { claim, nonce, .. } = self;
        claim.map(|(key, claim)| DoubtfulCommit { key, claim, nonce })
    }
}

/// A commit that the store did not answer for.
#[derive(Debug)]
pub struct DoubtfulCommit {
    pub key: RecordKey,
    claim: Claim,
    nonce: Nonce,
}

impl DoubtfulCommit {
    /// Where to undo the attempt, if the claim that the store has now is the one of this commit.
    pub fn settlement(self, record: &Record, found: &Claim) -> Option<Settlement> {
        let DoubtfulCommit { key, claim, nonce } = self;
        found.is_being_sent_as(&nonce).then(|| Settlement {
            attempt: record.version,
            place: SettlementPlace::Claim { key, claim: Box::new(claim), at: record.at },
        })
    }
}

impl Committed {
    /// The audit log has the entry of this attempt on disk; `None` where the proof is another entry's.
    pub fn recorded(self, on_disk: &OnDisk) -> Option<Recorded> {
        on_disk.covers(self.allowed.intent().environment(), self.attempt).then_some(Recorded(self))
    }
}

impl Recorded {
    pub fn intent(&self) -> &Intent {
        self.0.allowed.intent()
    }

    pub fn grounds(&self) -> &Grounds {
        self.0.allowed.grounds()
    }

    /// Whether upstream itself proved for each earlier attempt that it was not executed. Otherwise a refusal of this one may
    /// be due to an earlier one.
    pub fn earlier_are_proven(&self) -> bool {
        self.0.earlier_are_proven
    }

    /// For `forward`, which clears it.
    pub(in crate::stations) fn into_parts(self) -> (Intent, Lease) {
        (self.0.allowed.into_intent(), self.0.lease)
    }
}

impl Settlement {
    /// For an attempt that this process did not begin.
    pub fn of_claim(key: RecordKey, attempt: Number, record: &Record, claim: Claim) -> Settlement {
        Settlement { attempt, place: SettlementPlace::Claim { key, claim: Box::new(claim), at: record.at } }
    }

    pub fn environment(&self) -> Environment {
        match &self.place {
            SettlementPlace::Claim { key, .. } => key.environment,
            SettlementPlace::Unclaimed { environment, .. } => *environment,
        }
    }
}
