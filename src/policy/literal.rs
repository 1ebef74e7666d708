//! The values that rules compare, and the fault of a missing fact.

use std::fmt;

use serde_json::Value;

use crate::base::normal;

/// A value of a body field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Literal {
    /// In its normal form, if it is an identifier that has one.
    Text(String),
    Number(u64),
    Truth(bool),
}

/// A fact that a rule needs and that is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingFact(pub &'static str);

/// The amount is stated, and cannot be valued. The gate itself tells why, and denies.
pub(super) const NO_VALUE: MissingFact = MissingFact("the amount has no value");

impl Literal {
    pub fn text(text: &str) -> Literal {
        Literal::Text(normal::wallet(None, normal::uuid(text)))
    }

    pub(super) fn of(value: &Value) -> Option<Literal> {
        match value {
            Value::String(text) => Some(Literal::text(text)),
            Value::Bool(truth) => Some(Literal::Truth(*truth)),
            Value::Number(number) => {
                let whole = number.to_string();
                let whole = whole.split_once('.').map_or(whole.as_str(), |(whole, fraction)| {
                    if fraction.bytes().all(|b| b == b'0') { whole } else { "" }
                });
                whole.parse().ok().map(Literal::Number)
            }
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Text(text) => f.write_str(text),
            Literal::Number(number) => number.fmt(f),
            Literal::Truth(truth) => truth.fmt(f),
        }
    }
}
