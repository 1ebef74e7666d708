//! A schema for answers, which are checked as they are written, without building a tree.

use std::borrow::Cow;
use std::fmt;

use jsonschema::json::{Array, Json, JsonNumber, Node, NodeIdentity, Object};
use jsonschema::{JsonType, Validator};
use serde_json::{Number, Value};

use crate::base::json::{FlatChildren, FlatJson, FlatKind, FlatValue, flat_number};

/// A schema, compiled for [`FlatJson`].
pub(super) struct FlatContract(pub(super) Validator<Flat>);

impl FlatContract {
    pub fn accepts(&self, answer: &FlatJson<'_>) -> bool {
        self.0.is_valid(answer.root())
    }
}

impl fmt::Debug for FlatContract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FlatContract")
    }
}

/// JSON as [`FlatJson`] keeps it.
pub(super) struct Flat;

impl Json for Flat {
    type Node<'a> = FlatValue<'a>;
    type PreparedKey = String;
    type StringBuffer = FlatJson<'static>;

    /// A lookup passes over the members before it.
    const KEYS_PER_LOOKUP: usize = 64;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>(buffer: &mut FlatJson<'static>, string: &str, f: impl FnOnce(FlatValue<'_>) -> T) -> T {
        buffer.become_text(string);
        f(buffer.root())
    }
}

impl<'a> Node<'a, Flat> for FlatValue<'a> {
    type Object = Self;
    type Array = Self;
    type Number = FlatNumber<'a>;

    fn as_object(&self) -> Option<Self> {
        matches!(self.kind(), FlatKind::Object(_)).then_some(*self)
    }

    fn as_array(&self) -> Option<Self> {
        matches!(self.kind(), FlatKind::Array(_)).then_some(*self)
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        if let FlatKind::Text(text) = self.kind() { Some(Cow::Borrowed(text)) } else { None }
    }

    fn as_number(&self) -> Option<FlatNumber<'a>> {
        if let FlatKind::Number(text) = self.kind() { Some(FlatNumber(text)) } else { None }
    }

    fn as_boolean(&self) -> Option<bool> {
        if let FlatKind::Bool(is) = self.kind() { Some(is) } else { None }
    }

    fn is_null(&self) -> bool {
        matches!(self.kind(), FlatKind::Null)
    }

    fn json_type(&self) -> JsonType {
        match self.kind() {
            FlatKind::Null => JsonType::Null,
            FlatKind::Bool(_) => JsonType::Boolean,
            FlatKind::Number(_) => JsonType::Number,
            FlatKind::Text(_) => JsonType::String,
            FlatKind::Array(_) => JsonType::Array,
            FlatKind::Object(_) => JsonType::Object,
        }
    }

    fn equals_value(&self, expected: &Value) -> bool {
        match (self.kind(), expected) {
            (FlatKind::Text(text), Value::String(expected)) => text == expected,
            (FlatKind::Null, Value::Null) => true,
            (FlatKind::Bool(is), Value::Bool(expected)) => is == *expected,
            (FlatKind::Text(_) | FlatKind::Null | FlatKind::Bool(_), _) => false,
            _ => jsonschema::json::cmp::equal(&self.to_value(), expected),
        }
    }

    fn to_value(&self) -> Cow<'a, Value> {
        Cow::Owned(self.to_tree())
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(NodeIdentity::new(self.address()))
    }
}

impl<'a> Object<'a, Flat> for FlatValue<'a> {
    type Node = Self;
    type MemberName = &'a str;
    type MembersIter = FlatChildren<'a>;

    fn len(&self) -> usize {
        length(*self)
    }

    fn get(&self, key: &String) -> Option<Self> {
        self.member(key)
    }

    fn members(&self) -> FlatChildren<'a> {
        self.children()
    }
}

impl<'a> Array<'a, Flat> for FlatValue<'a> {
    type Node = Self;
    type ElementsIter = FlatItems<'a>;

    fn len(&self) -> usize {
        length(*self)
    }

    fn elements(&self) -> FlatItems<'a> {
        FlatItems(self.children())
    }
}

/// The items of an array.
#[derive(Debug)]
pub(super) struct FlatItems<'a>(FlatChildren<'a>);

impl<'a> Iterator for FlatItems<'a> {
    type Item = FlatValue<'a>;

    fn next(&mut self) -> Option<FlatValue<'a>> {
        self.0.next().map(|(_, item)| item)
    }
}

/// A number as it is written; it means what `serde_json` reads in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlatNumber<'a>(&'a str);

impl JsonNumber for FlatNumber<'_> {
    fn as_u64(&self) -> Option<u64> {
        self.0.parse().ok()
    }

    fn as_i64(&self) -> Option<i64> {
        self.0.parse().ok()
    }

    fn as_f64(&self) -> Option<f64> {
        flat_number(self.0).as_f64()
    }

    fn as_str(&self) -> Cow<'_, str> {
        Cow::Owned(flat_number(self.0).to_string())
    }

    fn to_number(&self) -> Cow<'_, Number> {
        Cow::Owned(flat_number(self.0))
    }
}

fn length(value: FlatValue<'_>) -> usize {
    match value.kind() {
        FlatKind::Array(count) | FlatKind::Object(count) => count,
        FlatKind::Null | FlatKind::Bool(_) | FlatKind::Number(_) | FlatKind::Text(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use crate::base::json::{FlatJson, Limits};
    use crate::catalog::{Catalog, SchemaFiles, examples};

    /// Changes one value of an example: removes it, or puts something else in its place.
    fn changed(value: &mut serde_json::Value, place: &str, how: usize) {
        let Some((parent, name)) = place.rsplit_once('/') else { return };
        let name = name.replace("~1", "/").replace("~0", "~");
        let other = || match how {
            1 => serde_json::Value::Null,
            2 => serde_json::json!("other"),
            3 => serde_json::json!(-7.5),
            4 => serde_json::json!(["x", "x"]),
            5 => serde_json::json!({ "x": 10_000_000_000_000_000_000_u64 }),
            _ => serde_json::json!(true),
        };
        match value.pointer_mut(parent) {
            Some(serde_json::Value::Object(members)) if how == 0 => drop(members.remove(&name)),
            Some(serde_json::Value::Object(members)) => drop(members.insert(name, other())),
            Some(serde_json::Value::Array(items)) => {
                if let Some(item) = name.parse::<usize>().ok().and_then(|at| items.get_mut(at)) {
                    *item = other();
                }
            }
            _ => {}
        }
    }

    fn places(value: &serde_json::Value, place: &str, all: &mut Vec<String>) {
        all.push(place.to_owned());
        match value {
            serde_json::Value::Object(members) => {
                let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
                members.iter().for_each(|(name, one)| places(one, &format!("{place}/{}", escaped(name)), all));
            }
            serde_json::Value::Array(items) => {
                items.iter().enumerate().for_each(|(at, one)| places(one, &format!("{place}/{at}"), all));
            }
            _ => {}
        }
    }

    #[test]
    fn every_example_and_every_change_of_one_value_is_judged_as_its_tree() {
        let files = SchemaFiles::built_in();
        let catalog = Catalog::build(&files, &["createTosLink".to_owned()]).unwrap();
        let mut judged = [0_u32; 2];
        // A third of the places; `SLUICE_WORLDS` asks for all.
        let step = if std::env::var_os("SLUICE_WORLDS").is_some() { 1 } else { 3 };
        for operation in catalog.operations() {
            let examples = examples(&files, operation).unwrap();
            for answer in &operation.answers {
                for (which, example) in examples.iter().enumerate() {
                    let mut all = Vec::new();
                    places(&example.value, "", &mut all);
                    // Each place is changed in one way, and in another one in the next example.
                    for (at, place) in all.iter().enumerate().skip(which % step).step_by(step) {
                        let (how, mut value) = ((at + which) % 7, example.value.clone());
                        changed(&mut value, place, how);
                        let text = value.to_string();
                        let flat = FlatJson::parse(text.as_bytes(), Limits::ANSWER).unwrap();
                        let accepts = answer.contract.accepts(&value);
                        assert_eq!(answer.flat.accepts(&flat), accepts, "{} {place} {how}: {text}", operation.id);
                        assert_eq!(answer.first_violation(text.as_bytes()).is_none(), accepts);
                        judged[usize::from(accepts)] += 1;
                    }
                }
            }
        }
        assert!(judged[0] > 150 && judged[1] > 150, "{judged:?}");
    }
}
