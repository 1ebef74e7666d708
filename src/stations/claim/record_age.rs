//! Whether a record of upstream can be one of a call, by the time of its making.
//!
//! Whoever has upstream's key can have made a record before the call, and everybody who reads the list knows its
//! requestId. So a record that is older than an attempt proves nothing of it.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::past_attempts::PastAttempt;
use super::state::Claim;
use crate::catalog::{Catalog, Operation};
use crate::ledger::StoreTime;

/// The largest difference between upstream's clock and ours.
pub const CLOCKS_APART: Duration = Duration::from_secs(900);

/// The reasons why a record does not belong to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordMismatch {
    /// The record has another requestId, or none.
    RequestId,
    /// The record moves other money.
    Money,
    /// The record was made before the call was sent.
    Older,
    /// The record does not say when it was made.
    Time,
}

/// Returns whether upstream made a record, at this time in microseconds by its own clock, before an attempt.
pub fn is_older_than(attempt: StoreTime, made: i64) -> bool {
    made < attempt.minus(CLOCKS_APART).as_micros()
}

impl PastAttempt {
    /// Whether a record that was made at this time can be one of this attempt.
    pub fn can_have_made(&self, made: i64) -> bool {
        !is_older_than(self.since, made)
    }
}

impl Claim {
    /// Whether a record that was made at this time is older than all attempts of the call.
    pub fn is_behind(&self, made: i64) -> bool {
        !self.attempts.is_empty() && !self.attempts.iter().any(|attempt| attempt.can_have_made(made))
    }

    /// Returns when upstream made the record that a person shows, where it says so; not before the call was sent. What is
    /// claimed by its path is a record that was there before.
    pub fn made_of(&self, catalog: &Catalog, shown: &Value) -> Result<Option<i64>, RecordMismatch> {
        let operation = self.request_id.as_ref().and_then(|_| catalog.operation(&self.operation));
        match operation.map(|operation| made_at(operation, shown)).transpose()?.flatten() {
            Some(made) if self.is_behind(made) => Err(RecordMismatch::Older),
            made => Ok(made),
        }
    }
}

/// Returns when upstream made a record, in microseconds by its own clock. Where the contract names a list of such records,
/// each states it.
pub fn made_at(operation: &Operation, record: &Value) -> Result<Option<i64>, RecordMismatch> {
    let listed = operation.reconcile.as_ref().map(|reconcile| &reconcile.request_id);
    let request_id = listed.or(operation.answered_request_id.as_ref());
    // It stands beside the requestId.
    let details = request_id.and_then(|place| place.parent()?.get(record)).unwrap_or(record);
    match details.get("createdAt").filter(|stated| !stated.is_null()) {
        None if listed.is_none() => Ok(None),
        stated => stated.and_then(micros).map(Some).ok_or(RecordMismatch::Time),
    }
}

/// Reads a time that upstream states.
pub fn micros(stated: &Value) -> Option<i64> {
    Some(stated.as_str()?.parse::<Timestamp>().ok()?.as_microsecond())
}
