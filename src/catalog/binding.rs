//! The part of a contract that binds calls: everything but descriptions and the answers to reads.
//!
//! A change elsewhere alters nothing that a decision, a payment or its outcome rests on. The answers to reads that find
//! out what became of a call belong to the binding part.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::contract::BASE;
use super::operation::Operation;
use crate::base::digest::Fingerprint;

const DOCUMENT: &str = "openapi.json";
/// Members that only people read.
const DESCRIPTIVE: [&str; 7] = ["description", "summary", "title", "examples", "example", "tags", "externalDocs"];
/// Members whose own members are names that the contract chose.
const NAMED: [&str; 9] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "paths",
    "responses",
    "content",
    "headers",
];
/// Members whose values are data.
const DATA: [&str; 5] = ["const", "enum", "default", "required", "x-sluice"];

/// Returns the digest of the binding part. A reference that leads nowhere makes every file part of it.
pub(super) fn digest(files: &[(&str, Value)], document: &Value, operations: &[Operation]) -> Fingerprint {
    let mut reached = BoundSchemas { files, texts: BTreeMap::new(), is_whole: true };
    let root = without_answers_to_reads(document, operations);
    reached.take(DOCUMENT, "", &root);
    let mut texts: Vec<String> = match reached.is_whole {
        true => reached.texts.into_iter().flat_map(|((file, place), text)| [file, place, text]).collect(),
        false => files.iter().flat_map(|(name, value)| [(*name).to_owned(), value.to_string()]).collect(),
    };
    texts.extend(operations.iter().filter(|operation| operation.enabled).map(|operation| operation.id.to_string()));
    let parts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
    Fingerprint::of(&parts)
}

/// Returns the document without what nothing refers to, and without the answers to reads that settle no call.
fn without_answers_to_reads(document: &Value, operations: &[Operation]) -> Value {
    let reconciling = operations.iter().filter_map(|operation| Some(operation.reconcile.as_ref()?.operation.as_str()));
    let following = operations.iter().filter_map(|operation| Some(operation.follow.as_ref()?.operation.as_str()));
    let settling: BTreeSet<&str> = reconciling.chain(following).collect();
    let mut root = document.clone();
    if let Some(members) = root.as_object_mut() {
        for name in ["components", "info", "servers"] {
            members.remove(name);
        }
    }
    let paths = root.get_mut("paths").and_then(Value::as_object_mut);
    for item in paths.into_iter().flat_map(|paths| paths.values_mut()) {
        let Some(read) = item.get_mut("get").and_then(Value::as_object_mut) else { continue };
        let id = read.get("operationId").and_then(Value::as_str).unwrap_or_default();
        if !settling.contains(id) {
            read.remove("responses");
        }
    }
    root
}

/// The schemas that the binding part refers to.
struct BoundSchemas<'f> {
    files: &'f [(&'f str, Value)],
    /// The text of each, by its file and its place there.
    texts: BTreeMap<(String, String), String>,
    /// Whether every reference led somewhere.
    is_whole: bool,
}

impl BoundSchemas<'_> {
    fn take(&mut self, file: &str, place: &str, value: &Value) {
        let key = (file.to_owned(), place.to_owned());
        if self.texts.contains_key(&key) {
            return;
        }
        let bare = undescribed(value, false);
        self.texts.insert(key, bare.to_string());
        let mut references = Vec::new();
        gather_references(&bare, &mut references);
        for reference in references {
            let (name, place) = reference.split_once('#').unwrap_or((&reference, ""));
            let name = if name.is_empty() { file } else { name.strip_prefix(BASE).unwrap_or(name) };
            let found = self.files.iter().find(|(one, _)| *one == name).and_then(|(_, value)| value.pointer(place));
            match found {
                Some(found) => self.take(name, place, found),
                None => self.is_whole = false,
            }
        }
    }
}

fn undescribed(value: &Value, are_names: bool) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(name, _)| are_names || !DESCRIPTIVE.contains(&name.as_str()));
            let bare = |(name, member): (&String, &Value)| {
                let is_data = !are_names && DATA.contains(&name.as_str());
                let has_names = !are_names && NAMED.contains(&name.as_str());
                (name.clone(), if is_data { member.clone() } else { undescribed(member, has_names) })
            };
            Value::Object(kept.map(bare).collect::<Map<String, Value>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| undescribed(item, false)).collect()),
        other => other.clone(),
    }
}

fn gather_references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
            members.values().for_each(|member| gather_references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| gather_references(item, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::catalog::{Catalog, SchemaFiles};

    /// The shipped contract with one text in a file replaced by another.
    fn changed(file: &str, from: &str, to: &str) -> Catalog {
        let mut files = SchemaFiles::built_in();
        let text = String::from_utf8(files.read(file).unwrap().to_vec()).unwrap();
        assert!(text.contains(from), "`{file}` has no `{from}`");
        files.insert(file, text.replacen(from, to, 1).into_bytes());
        Catalog::build(&files, &[]).unwrap()
    }

    #[test]
    fn only_descriptions_and_answers_to_reads_bind_nothing() {
        let shipped = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap();
        let described = changed("swap.json", "Sent, before fees.", "Sent before fees.");
        assert_ne!(shipped.digest(), described.digest());
        assert_eq!(shipped.binding(), described.binding());
        let read =
            changed("kyc-status.json", "\"properties\": {", "\"properties\": { \"later\": { \"type\": \"string\" },");
        assert_ne!(shipped.digest(), read.digest());
        assert_eq!(shipped.binding(), read.binding());
        let money = changed("openapi.json", "\"/source/amount\"", "\"/source/sum\"");
        assert_ne!(shipped.binding(), money.binding());
        let class = changed("openapi.json", "\"class\": \"money\"", "\"class\": \"change\"");
        assert_ne!(shipped.binding(), class.binding());
        let enabled = Catalog::build(&SchemaFiles::built_in(), &["createTosLink".to_owned()]);
        if let Ok(enabled) = enabled {
            assert_ne!(shipped.binding(), enabled.binding());
        }
    }

    #[test]
    fn a_contract_is_built_again_from_its_source() {
        let further = ["createOfframp:/memo".to_owned()];
        let catalog = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap().with_further(&further, "x").unwrap();
        let again = catalog.source().build().unwrap();
        assert_eq!((catalog.digest(), catalog.binding()), (again.digest(), again.binding()));
    }
}
