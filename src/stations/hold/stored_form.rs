//! The stored form of a hold.

use bytes::Bytes;
use thiserror::Error;

use super::state::Hold;
use crate::base::json::{self, FormError};

/// The format of a hold's record. No other is read.
const FORMAT: u64 = 6;

/// The record is not a hold in this version's format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the record of a hold cannot be read: {0}")]
pub struct UnreadableHold(pub String);

impl From<FormError> for UnreadableHold {
    fn from(fault: FormError) -> UnreadableHold {
        UnreadableHold(fault.to_string())
    }
}

pub fn encode_hold(hold: &Hold) -> Bytes {
    json::to_record(hold, FORMAT).into()
}

pub fn decode_hold(bytes: &[u8]) -> Result<Hold, UnreadableHold> {
    Ok(json::from_record(bytes, FORMAT)?)
}
