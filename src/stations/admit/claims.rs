//! What a token says of its bearer.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// A path into the fields of a token: `act.sub`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath(Vec<String>);

impl FieldPath {
    /// `None` if a step is empty.
    pub fn parse(text: &str) -> Option<FieldPath> {
        let steps: Vec<String> = text.split('.').map(str::to_owned).collect();
        steps.iter().all(|step| !step.is_empty()).then_some(FieldPath(steps))
    }

    pub fn steps(&self) -> &[String] {
        &self.0
    }

    pub(super) fn of<'c>(&self, claims: &'c Map<String, Value>) -> Option<&'c Value> {
        let (first, rest) = self.0.split_first()?;
        rest.iter().try_fold(claims.get(first)?, |value, step| value.get(step))
    }
}

impl std::fmt::Display for FieldPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

/// Roles are a list of texts, or one text with spaces between them.
pub(super) fn roles(value: &Value) -> Option<BTreeSet<String>> {
    match value {
        Value::String(text) => Some(text.split_ascii_whitespace().map(str::to_owned).collect()),
        Value::Array(items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// A text that says something.
pub(super) fn name(value: Option<&Value>) -> Option<String> {
    let text = value?.as_str()?;
    let fit = !text.trim().is_empty() && text.len() <= 512 && !text.chars().any(char::is_control);
    fit.then(|| text.to_owned())
}

/// Seconds since 1970, whole or with a fraction, as tokens write them.
pub(super) fn seconds(value: &Value) -> Option<i64> {
    let text = value.as_number()?.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if digits(whole) && digits(fraction) && whole.len() <= 12 { whole.parse().ok() } else { None }
}
