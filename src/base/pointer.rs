//! JSON pointers (RFC 6901), with `*` for every item of an array.

use std::fmt;

use serde_json::Value;

use super::json::{FlatKind, FlatValue};

/// The pointer to a field of a body, as the catalogue writes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pointer {
    text: String,
    steps: Vec<String>,
}

impl Pointer {
    /// Reads a pointer; `None` if it does not start with `/`.
    pub fn parse(text: &str) -> Option<Pointer> {
        let steps = text.strip_prefix('/')?.split('/').map(|s| s.replace("~1", "/").replace("~0", "~")).collect();
        Some(Pointer { text: text.to_owned(), steps })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The pointer to the parent; `None` at the top of the body.
    pub fn parent(&self) -> Option<Pointer> {
        let (parent, _) = self.text.rsplit_once('/')?;
        Pointer::parse(parent)
    }

    /// Returns whether a field at the other pointer is this field, or inside of it.
    pub fn covers(&self, other: &Pointer) -> bool {
        other.steps.starts_with(&self.steps)
    }

    /// Returns whether it may match several fields.
    pub fn has_star(&self) -> bool {
        self.steps.iter().any(|step| step == "*")
    }

    /// Removes the field from a body, and returns its value.
    pub fn take(&self, body: &mut Value) -> Option<Value> {
        let (last, way) = self.steps.split_last()?;
        let inside = way.iter().try_fold(body, |value, step| value.as_object_mut()?.get_mut(step))?;
        inside.as_object_mut()?.remove(last)
    }

    /// Returns the value, if the body has it and the pointer matches a single field.
    pub fn get<'v>(&self, body: &'v Value) -> Option<&'v Value> {
        self.steps.iter().try_fold(body, |value, step| child(value, step))
    }

    /// Returns the same as [`Pointer::get`] in a text that was read without building a tree.
    pub fn find_in<'v>(&self, body: FlatValue<'v>) -> Option<FlatValue<'v>> {
        self.steps.iter().try_fold(body, |value, step| match value.kind() {
            FlatKind::Object(_) => value.member(step),
            FlatKind::Array(_) => value.item(step.parse().ok()?),
            FlatKind::Null | FlatKind::Bool(_) | FlatKind::Number(_) | FlatKind::Text(_) => None,
        })
    }

    /// Returns whether a matching value is like that. No pointers are made, unlike by [`Pointer::all`].
    pub fn any(&self, body: &Value, is_like_that: impl Fn(&Value) -> bool) -> bool {
        any_below(&self.steps, body, &is_like_that)
    }

    /// Returns every matching value with its exact pointer.
    pub fn all<'v>(&self, body: &'v Value) -> Vec<(String, &'v Value)> {
        let mut found = vec![(String::new(), body)];
        for step in &self.steps {
            found = found.into_iter().flat_map(|(place, value)| children(&place, value, step)).collect();
        }
        found
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// One step of a pointer, written so that `/` and `~` in names survive.
pub fn escape(step: &str) -> String {
    step.replace('~', "~0").replace('/', "~1")
}

fn children<'v>(place: &str, value: &'v Value, step: &str) -> Vec<(String, &'v Value)> {
    match value {
        Value::Array(items) if step == "*" => {
            items.iter().enumerate().map(|(at, v)| (format!("{place}/{at}"), v)).collect()
        }
        _ => child(value, step).map(|v| (format!("{place}/{}", escape(step)), v)).into_iter().collect(),
    }
}

fn any_below(steps: &[String], value: &Value, is_like_that: &dyn Fn(&Value) -> bool) -> bool {
    match (steps, value) {
        ([], _) => is_like_that(value),
        ([step, rest @ ..], Value::Array(items)) if step == "*" => {
            items.iter().any(|item| any_below(rest, item, is_like_that))
        }
        ([step, rest @ ..], _) => child(value, step).is_some_and(|inside| any_below(rest, inside, is_like_that)),
    }
}

fn child<'v>(value: &'v Value, step: &str) -> Option<&'v Value> {
    match value {
        Value::Object(members) => members.get(step),
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::base::json::{FlatJson, Limits};

    #[test]
    fn a_star_means_every_item() {
        let body = json!({"rules": [{"wallet": "a"}, {"other": 1}, {"wallet": "b"}]});
        let found = Pointer::parse("/rules/*/wallet").unwrap();
        let places: Vec<_> = found.all(&body).into_iter().map(|(place, v)| (place, v.clone())).collect();
        assert_eq!(places, [("/rules/0/wallet".into(), json!("a")), ("/rules/2/wallet".into(), json!("b"))]);
        assert!(["a", "b"].iter().all(|text| found.any(&body, |value| value == text)));
        assert!(!found.any(&body, |value| value == "c" || value == 1));
        let text = body.to_string();
        let flat = FlatJson::parse(text.as_bytes(), Limits::REQUEST).unwrap();
        for place in
            ["/rules", "/rules/2/wallet", "/rules/3", "/rules/x", "/rules/0/wallet/0", "/none", "/rules/1/other"]
        {
            let place = Pointer::parse(place).unwrap();
            let found = place.find_in(flat.root()).map(FlatValue::to_tree);
            assert_eq!(found.as_ref(), place.get(&body), "{place}");
        }
    }

    #[test]
    fn escapes_are_read_and_written() {
        let body = json!({"a/b": {"c~d": 1}});
        assert_eq!(Pointer::parse("/a~1b/c~0d").unwrap().all(&body).len(), 1);
        assert_eq!(escape("a/b~"), "a~1b~0");
        assert_eq!(Pointer::parse("no-slash"), None);
    }
}
