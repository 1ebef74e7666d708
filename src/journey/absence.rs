//! The claim of a call that was not executed, as upstream or two people said: the call may be sent again.

use crate::ledger::{Number, Record, RecordKey, StoreFault, StoreTime, Versioned};
use crate::node::Node;
use crate::stations::check::Intent;
use crate::stations::claim::{self, Claim, ClaimState, Owner};

#[derive(Debug)]
pub(super) struct Absence {
    key: RecordKey,
    version: Number,
    at: StoreTime,
    claim: Claim,
}

impl Absence {
    /// Only the same call by the same owner may be sent again, and not while somebody has shown that it was executed.
    pub(super) async fn of(node: &Node, intent: &Intent, record: &Record) -> Result<Option<Absence>, StoreFault> {
        let Some(claim) = claim::whole(record) else { return Ok(None) };
        let is_its_own = claim.owner == Owner::of(intent.caller()) && claim.fingerprint == intent.fingerprint();
        if claim.state != ClaimState::Absent || !is_its_own {
            return Ok(None);
        }
        let key = intent.name().key;
        let is_doubted = !node.said_executed(&key).await.inspect_err(|fault| node.told_of(fault))?.is_empty();
        Ok((!is_doubted).then_some(Absence { key, version: record.version, at: record.at, claim }))
    }

    pub(super) fn versioned(&self) -> Versioned<'_, Claim> {
        Versioned { key: &self.key, version: self.version, at: self.at, value: &self.claim }
    }
}
