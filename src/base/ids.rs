//! Names for things that are easily mistaken for one another.

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

/// Which of upstream's two deployments a call is for; fixed by the address that it came in on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Environment {
    Production,
    Sandbox,
}

impl Environment {
    pub const ALL: [Environment; 2] = [Environment::Production, Environment::Sandbox];

    pub fn as_str(self) -> &'static str {
        match self {
            Environment::Production => "production",
            Environment::Sandbox => "sandbox",
        }
    }
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name of an operation in the catalogue (`createSwap`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

/// The identifier that a caller gives to one swap, offramp or rule set, and that has at most one effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(String);

impl RequestId {
    /// 1 to 128 of `A-Za-z0-9._-`.
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

    /// Takes the caller's own if it can stand in a log and a header without harm.
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

/// The name of what waits for people; nobody guesses one.
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

/// The form of identifiers that callers choose: 1 to 128 of `A-Za-z0-9._-`. That `.` and `..` do not climb in a path is
/// the affair of whoever reads paths.
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
