//! What is stored of a payment that is followed, and of a record that is foreign.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::comparison::RecordProblem;
use crate::base::digest::Fingerprint;
use crate::base::ids::{Environment, HoldId, OperationId, RequestId, TraceId};
use crate::base::json::{self, FormError};
use crate::catalog::Movement;
use crate::ledger::{Kind, Number, RecordKey, StoreTime};
use crate::stations::claim::{BookedWindow, Owner};

/// The format of all records about payments that are followed. No other is read.
pub(super) const FORMAT: u64 = 2;

/// A payment that was executed, and what upstream's list shows of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FollowedPayment {
    pub operation: OperationId,
    /// Upstream's name of it.
    pub id: String,
    /// Whether upstream's answer to the call had that name. Otherwise it is the first record with the requestId.
    pub is_named: bool,
    /// The record name of its claim.
    pub claim: String,
    pub request_id: Option<RequestId>,
    pub owner: Owner,
    pub trace: TraceId,
    pub hold: Option<HoldId>,
    /// The attempt that upstream executed, and when it was made.
    pub attempt: Number,
    #[serde(rename = "sinceMicros")]
    pub since: StoreTime,
    /// The money that the call asked for.
    pub asked: Option<Movement>,
    /// The state with the highest rank that was seen; empty before the first.
    pub state: String,
    /// When upstream last changed the record, by its own clock, as far as it was seen.
    #[serde(rename = "updatedMicros")]
    pub updated: Option<i64>,
    /// The windows that count it, with the units that count while it is not given back.
    pub windows: Vec<BookedWindow>,
    pub is_given_back: bool,
    pub problem: Option<RecordProblem>,
}

impl FollowedPayment {
    /// Whether what the record says may lower what limits count: not where it may be somebody else's.
    pub fn may_lower(&self) -> bool {
        match self.problem {
            None => true,
            Some(RecordProblem::OtherAmount) => self.is_named,
            Some(_) => false,
        }
    }
}

/// A record of upstream that no gate sent, or that is not what was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForeignRecord {
    pub operation: OperationId,
    /// Upstream's name of it.
    pub id: String,
    pub request_id: Option<String>,
    pub problem: RecordProblem,
    /// The state when it was found.
    pub state: String,
    /// When upstream made it, by its own clock.
    #[serde(rename = "createdMicros")]
    pub created: i64,
    pub moves: Movement,
}

/// The record is not in this version's format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the record of a followed payment cannot be read: {0}")]
pub struct UnreadableFollowed(#[from] pub FormError);

/// The key of a payment by the record name of its claim.
pub fn followed_key(environment: Environment, claim: &str) -> RecordKey {
    RecordKey { environment, kind: Kind::Followed, name: format!("claim/{claim}") }
}

/// The name of a foreign record, in the store and in the index of them: upstream may choose any id.
pub fn foreign_name(operation: &OperationId, id: &str, problem: RecordProblem) -> String {
    let parts = [operation.as_str(), id, problem.as_str()].map(str::as_bytes);
    format!("foreign/{}", Fingerprint::of(&parts).to_hex())
}

pub fn foreign_key(environment: Environment, name: &str) -> RecordKey {
    RecordKey { environment, kind: Kind::Followed, name: name.to_owned() }
}

pub(super) fn encode<T: Serialize>(record: &T) -> Bytes {
    json::to_record(record, FORMAT).into()
}

pub fn decode_followed(bytes: &[u8]) -> Result<FollowedPayment, UnreadableFollowed> {
    Ok(json::from_record(bytes, FORMAT)?)
}

pub fn decode_foreign(bytes: &[u8]) -> Result<ForeignRecord, UnreadableFollowed> {
    Ok(json::from_record(bytes, FORMAT)?)
}
