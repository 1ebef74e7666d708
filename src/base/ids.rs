//! A type for each kind of name that is easily mistaken for another.

use crate::base::json::written_as_text;
use crate::base::word_enum::word_enum;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

word_enum! {
    /// The upstream deployment that a call is for; the address that the call came in on decides it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Environment {
        Production = "production",
        Sandbox = "sandbox",
    }
}

/// The name of an operation in the catalogue (`createSwap`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OperationId(Arc<str>);

impl OperationId {
    pub fn new(name: &str) -> OperationId {
        OperationId(Arc::from(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The identifier that a caller gives to one swap, offramp or rule set, which has at most one effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(String);

impl RequestId {
    /// 1 to 128 of `A-Za-z0-9._-`. The contract takes neither `.` nor `..` in a new call.
    pub fn parse(text: &str) -> Option<RequestId> {
        is_identifier(text).then(|| RequestId(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name of one exchange between a caller and the gate: `X-Request-Id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceId(String);

impl TraceId {
    pub fn of_uuid(uuid: Uuid) -> TraceId {
        TraceId(uuid.to_string())
    }

    /// Accepts the caller's own id if it is safe in logs and headers.
    pub fn parse(text: &str) -> Option<TraceId> {
        is_identifier(text).then(|| TraceId(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of a hold; nobody can guess one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HoldId(String);

impl HoldId {
    pub fn of_uuid(uuid: Uuid) -> HoldId {
        HoldId(uuid.simple().to_string())
    }

    /// 32 of `0-9a-f`.
    pub fn parse(text: &str) -> Option<HoldId> {
        let is_digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        (text.len() == 32 && text.bytes().all(is_digit)).then(|| HoldId(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

written_as_text!(RequestId, as_str, RequestId::parse, "a requestId");
written_as_text!(TraceId, as_str, TraceId::parse, "an X-Request-Id");
written_as_text!(HoldId, as_str, HoldId::parse, "a hold id");

/// Returns whether a text has the form of callers' identifiers: 1 to 128 of `A-Za-z0-9._-`. Path parsers must refuse
/// `.` and `..` themselves.
pub fn is_identifier(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=128).contains(&text.len()) && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_have_one_form() {
        for good in ["a", "A-1_2.3", ".", "..", "...", &"x".repeat(128), "7f9c24e8-3b12-4fef-91e0-8f5d3d5c6a11"] {
            assert!(is_identifier(good), "{good}");
        }
        for bad in ["", "a b", "a/b", "é", "a\n", &"x".repeat(129), "%41"] {
            assert!(!is_identifier(bad), "{bad}");
        }
    }
}
