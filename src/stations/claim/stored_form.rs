//! The stored form of a claim.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::state::{Claim, ClaimEvent, ClaimState, StoredAnswer};
use crate::base::json::{self, FormError};

/// The format of a claim's record. No other is read.
const FORMAT: u64 = 3;

/// The record is not a claim in this version's format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the record of a claim cannot be read: {0}")]
pub struct UnreadableClaim(pub String);

impl From<FormError> for UnreadableClaim {
    fn from(fault: FormError) -> UnreadableClaim {
        UnreadableClaim(fault.to_string())
    }
}

pub fn encode_claim(claim: &Claim) -> Bytes {
    json::to_record(claim, FORMAT).into()
}

pub fn decode_claim(bytes: &[u8]) -> Result<Claim, UnreadableClaim> {
    let claim: Claim = json::from_record(bytes, FORMAT)?;
    if matches!(claim.state, ClaimState::Unknown { .. }) && claim.in_doubt().is_none() {
        return Err(UnreadableClaim("its outcome is unknown, and it has no attempt in doubt".to_owned()));
    }
    Ok(claim)
}

/// An event as a file keeps it while the store cannot be told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum StoredEvent {
    Executed(StoredAnswer),
    Refused(StoredAnswer),
    Undone(Option<u16>),
}

impl StoredEvent {
    /// Returns `None` for events that carry no knowledge.
    pub fn of(event: &ClaimEvent) -> Option<StoredEvent> {
        match event {
            ClaimEvent::Executed(answer) => Some(StoredEvent::Executed(answer.clone())),
            ClaimEvent::Refused(answer) => Some(StoredEvent::Refused(answer.clone())),
            ClaimEvent::Undone { status } => Some(StoredEvent::Undone(*status)),
            ClaimEvent::Doubted(_)
            | ClaimEvent::Found(_)
            | ClaimEvent::ShownAbsent { .. }
            | ClaimEvent::Abandoned { .. } => None,
        }
    }
}

impl From<StoredEvent> for ClaimEvent {
    fn from(event: StoredEvent) -> ClaimEvent {
        match event {
            StoredEvent::Executed(answer) => ClaimEvent::Executed(answer),
            StoredEvent::Refused(answer) => ClaimEvent::Refused(answer),
            StoredEvent::Undone(status) => ClaimEvent::Undone { status },
        }
    }
}
