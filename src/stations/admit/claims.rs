//! The fields of a token.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::base::visible::is_invisible;

/// A path into the fields of a token: `act.sub`, or `"https://example.com/roles".x` where a name contains dots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath(Vec<String>);

impl FieldPath {
    /// Returns `None` where a step is empty, or needs quotes and has none.
    pub fn parse(text: &str) -> Option<FieldPath> {
        let (mut steps, mut rest) = (Vec::new(), text);
        loop {
            let (step, after) = match rest.strip_prefix('"') {
                Some(quoted) => unquoted(quoted)?,
                None => {
                    let (step, after) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
                    step.chars().all(is_bare).then(|| (step.to_owned(), after))?
                }
            };
            if step.is_empty() {
                return None;
            }
            steps.push(step);
            match after.strip_prefix('.') {
                Some(next) => rest = next,
                None => return after.is_empty().then_some(FieldPath(steps)),
            }
        }
    }

    pub fn steps(&self) -> &[String] {
        &self.0
    }

    pub(super) fn of<'c>(&self, claims: &'c Map<String, Value>) -> Option<&'c Value> {
        let (first, rest) = self.0.split_first()?;
        rest.iter().try_fold(claims.get(first)?, |value, step| value.get(step))
    }
}

/// A step of a path leads into a value that has no fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoFields;

impl FieldPath {
    /// Returns the value, or `None` where a field is absent. A text or a list in the place of an object is not absent.
    pub(super) fn typed<'c>(&self, claims: &'c Map<String, Value>) -> Result<Option<&'c Value>, NoFields> {
        let Some((last, before)) = self.0.split_last() else { return Ok(None) };
        let mut fields = claims;
        for step in before {
            fields = match fields.get(step) {
                None => return Ok(None),
                Some(value) => value.as_object().ok_or(NoFields)?,
            };
        }
        Ok(fields.get(last))
    }
}

impl std::fmt::Display for FieldPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { "." })?;
            if step.chars().all(is_bare) {
                f.write_str(step)?;
            } else {
                write!(f, "\"{}\"", step.replace('\\', "\\\\").replace('"', "\\\""))?;
            }
        }
        Ok(())
    }
}

/// Characters that need no quotes. A slash needs them: so a URL without quotes causes an error instead of a field
/// that no token has.
fn is_bare(c: char) -> bool {
    !matches!(c, '.' | '"' | '\\' | '/') && !c.is_whitespace() && !c.is_control()
}

/// Returns the step up to its closing quote, and the rest. A backslash escapes a quote or a backslash.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let (mut step, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((step, text.get(at.saturating_add(1)..)?)),
            '\\' => step.push(chars.next().map(|(_, c)| c).filter(|c| matches!(c, '"' | '\\'))?),
            c if c.is_control() => return None,
            c => step.push(c),
        }
    }
    None
}

/// Reads roles: a list of strings, or one string with spaces between them.
pub(super) fn roles(value: &Value) -> Option<BTreeSet<String>> {
    match value {
        Value::String(text) => Some(text.split_ascii_whitespace().map(str::to_owned).collect()),
        Value::Array(items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// Reads a string that is not blank, and has no character that nobody sees: it would look like another name.
pub(super) fn name(value: Option<&Value>) -> Option<String> {
    let text = value?.as_str()?;
    is_name(text).then(|| text.to_owned())
}

/// Whether a token may have this name: of a caller, a person or a role.
pub fn is_name(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= 512 && !text.chars().any(is_invisible)
}

/// Returns the digest of the one certificate that may use the token (RFC 8705), or `None` where the token is not bound.
/// A token that is bound in another way is refused.
pub(super) fn bound_to(claims: &Map<String, Value>) -> Option<Option<[u8; 32]>> {
    let Some(bound) = claims.get("cnf") else { return Some(None) };
    let bound = bound.as_object().filter(|bound| bound.len() == 1)?;
    let digest = URL_SAFE_NO_PAD.decode(bound.get("x5t#S256")?.as_str()?).ok()?;
    Some(Some(digest.try_into().ok()?))
}

/// Reads seconds since 1970, whole or with a fraction.
pub(super) fn seconds(value: &Value) -> Option<i64> {
    let text = value.as_number()?.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if digits(whole) && digits(fraction) && whole.len() <= 12 { whole.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_with_dots_are_written_in_quotes() {
        for (text, steps) in [
            ("act.sub", &["act", "sub"][..]),
            ("cognito:groups", &["cognito:groups"]),
            ("\"https://example.com/roles\"", &["https://example.com/roles"]),
            ("\"https://example.com/roles\".x.\"y.z\"", &["https://example.com/roles", "x", "y.z"]),
            ("a.\" \"", &["a", " "]),
            (r#""a\"b\\c""#, &[r#"a"b\c"#]),
            ("rôles", &["rôles"]),
        ] {
            let path = FieldPath::parse(text).unwrap();
            assert_eq!(path.steps(), steps, "{text}");
            assert_eq!(FieldPath::parse(&path.to_string()), Some(path), "{text}");
        }
        assert_eq!(FieldPath::parse("\"act\".\"sub\"").unwrap().to_string(), "act.sub");
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_no_path() {
        for text in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "\"\"",
            "a.\"\"",
            "\"a",
            "a\"",
            "a\"b\"",
            "\"a\"b",
            "\"a\"\"b\"",
            "\"a\".",
            "\"a\\n\"",
            "\"a\\",
            "\"a\nb\"",
            "https://example.com/roles",
            "a/b",
            "a b",
            "a\\.b",
        ] {
            assert_eq!(FieldPath::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_path_leads_to_its_field_and_no_other() {
        let claims =
            json!({"https://e.x/roles": {"x": 1}, "https://e": {"x/roles": {"x": 2}}, "a": {"b": 3}, "a.b": 4});
        let of = |text: &str| FieldPath::parse(text).unwrap().of(claims.as_object().unwrap()).cloned();
        assert_eq!(of("\"https://e.x/roles\".x"), Some(json!(1)));
        assert_eq!(
            (of("a.b"), of("\"a.b\""), of("a.\"b\""), of("\"a.b\".c")),
            (Some(json!(3)), Some(json!(4)), Some(json!(3)), None)
        );
    }
}
