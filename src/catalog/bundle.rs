//! The contract as one document for machines: everything that callers of a gate can send and get.
//!
//! `openapi.json` describes the payments API and refers to other files, which public generators of clients do not read.
//! The bundle has no other files, a title for every schema, only the operations that are on, and the answers that the
//! gate itself gives (`gate.json`), so a typed client does not take a held payment for an executed one.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::completeness::examples;
use super::files::SchemaFiles;
use super::operation::{Class, Operation};
use crate::base::json::{self, Limits};

const CONTRACT: &str = "openapi.json";
const SCHEMAS: &str = "#/components/schemas/";
/// The parts of `gate.json` that say what the gate adds to each operation of the payments API.
const ADDED: [&str; 3] = ["x-responses", "x-headers", "x-parameters"];
/// The members of the contract that only a gate reads.
const FOR_GATES: [&str; 2] = ["x-sluice", "x-personal"];
const EXAMPLES: usize = 3;

/// Returns the document. The files have been built into these operations before, so every reference in them leads somewhere.
pub(super) fn bundled(files: &SchemaFiles, operations: &[&Operation]) -> Value {
    let mut bundler = Bundler { files, documents: BTreeMap::new(), names: BTreeMap::new(), schemas: Map::new() };
    bundler.read_documents();
    bundler.document(operations)
}

struct Bundler<'f> {
    files: &'f SchemaFiles,
    documents: BTreeMap<&'f str, Value>,
    /// The names of the schemas that are used, by file and pointer.
    names: BTreeMap<(String, String), String>,
    schemas: Map<String, Value>,
}

impl<'f> Bundler<'f> {
    fn read_documents(&mut self) {
        let gate = (SchemaFiles::GATE, SchemaFiles::of_gate());
        for (name, content) in self.files.schemas().chain([gate]) {
            if let Ok(document) = json::parse(content, Limits::ANSWER) {
                self.documents.insert(name, document);
            }
        }
    }

    fn document(&mut self, operations: &[&Operation]) -> Value {
        let contract = self.documents.get(CONTRACT).cloned().unwrap_or_default();
        let gate = self.documents.get(SchemaFiles::GATE).cloned().unwrap_or_default();
        let mut paths = Map::new();
        for (path, item) in members(contract.get("paths")) {
            let mut kept = Map::new();
            for (word, node) in members(Some(item)) {
                let id = node.get("operationId").and_then(Value::as_str);
                let operation = operations.iter().find(|operation| Some(operation.id.as_str()) == id);
                match (id, operation) {
                    (None, _) => drop(kept.insert(word.clone(), self.standalone(node, CONTRACT))),
                    (Some(_), Some(operation)) => {
                        drop(kept.insert(word.clone(), self.operation(node, operation, &gate)));
                    }
                    (Some(_), None) => {}
                }
            }
            if kept.values().any(|node| node.get("operationId").is_some()) {
                paths.insert(path.clone(), Value::Object(kept));
            }
        }
        let mut whole = members(Some(&gate)).map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>();
        whole.retain(|key, _| !ADDED.contains(&key.as_str()));
        let whole = self.standalone(&Value::Object(whole), SchemaFiles::GATE);
        let mut components = Map::new();
        for part in
            [self.standalone(contract.get("components").unwrap_or(&Value::Null), CONTRACT), part(&whole, "components")]
        {
            for (kind, content) in members(Some(&part)) {
                let kind = components.entry(kind.clone()).or_insert_with(|| json!({}));
                extend(kind, content);
            }
        }
        extend(
            components.entry("schemas").or_insert_with(|| json!({})),
            &Value::Object(std::mem::take(&mut self.schemas)),
        );
        for (path, item) in members(whole.get("paths")) {
            paths.insert(path.clone(), item.clone());
        }
        let tags = [&contract, &whole].into_iter().filter_map(|document| document.get("tags")?.as_array());
        json!({
            "openapi": part(&whole, "openapi"),
            "info": part(&whole, "info"),
            "servers": part(&whole, "servers"),
            "security": part(&contract, "security"),
            "tags": tags.flatten().collect::<Vec<_>>(),
            "paths": paths,
            "components": components,
        })
    }

    fn operation(&mut self, node: &Value, operation: &Operation, gate: &Value) -> Value {
        let mut whole = self.standalone(node, CONTRACT);
        let class = if operation.class == Class::Read { "read" } else { "write" };
        let headers = gate.pointer(&format!("/x-headers/{class}")).cloned().unwrap_or_default();
        let mut success = self.success(node, operation);
        let examples = examples(self.files, operation).unwrap_or_default();
        let shown = |is_answer: bool| -> Map<String, Value> {
            let good = examples.iter().filter(|example| example.good && example.answer == is_answer);
            good.take(EXAMPLES)
                .map(|example| (example_name(&example.file), json!({ "value": example.value })))
                .collect()
        };
        add_examples(&mut success, shown(true));
        extend(&mut success, &json!({ "headers": headers }));
        let mut responses = json!({ "200": success.clone() });
        if operation.class != Class::Read {
            extend(&mut responses, &json!({ "201": success }));
        }
        extend(&mut responses, &part(gate, "x-responses").get(class).cloned().unwrap_or_default());
        let documented = members(node.get("responses")).filter(|(status, _)| !status.starts_with('2'));
        for (status, response) in documented.filter(|(status, _)| *status != "default") {
            if responses.get(status).is_none() {
                let response = self.standalone(response, CONTRACT);
                extend(&mut responses, &json!({ status.as_str(): response }));
            }
        }
        extend(&mut whole, &json!({ "responses": responses }));
        if let Some(body) = whole.get_mut("requestBody") {
            add_examples(body, shown(false));
        }
        if operation.claim.is_some()
            && let Some(parameters) = whole.get_mut("parameters").and_then(Value::as_array_mut)
        {
            let added = gate.pointer("/x-parameters/claimed").and_then(Value::as_array);
            parameters.extend(added.into_iter().flatten().cloned());
        }
        whole
    }

    /// Returns the successful answer: for a write the record, or only that the call was executed.
    fn success(&mut self, node: &Value, operation: &Operation) -> Value {
        let success = members(node.get("responses")).find(|(status, _)| status.starts_with('2'));
        let mut success = success.map(|(_, response)| self.standalone(response, CONTRACT)).unwrap_or_default();
        if operation.class != Class::Read
            && let Some(schema) = success.pointer_mut("/content/application~1json/schema")
        {
            *schema = json!({ "anyOf": [schema.take(), { "$ref": format!("{SCHEMAS}Executed") }] });
        }
        success
    }

    /// Returns a part of a file without references to other files, and without the members that only gates read.
    fn standalone(&mut self, node: &Value, file: &str) -> Value {
        match node {
            Value::Object(object) => {
                let mut kept = Map::new();
                for (key, value) in object.iter().filter(|(key, _)| !FOR_GATES.contains(&key.as_str())) {
                    let value = match value {
                        Value::String(reference) if key == "$ref" => Value::from(self.reference(reference, file)),
                        value => self.standalone(value, file),
                    };
                    kept.insert(key.clone(), value);
                }
                if may_be_array(&kept) && !kept.contains_key("items") {
                    // Generators of clients need a type of items; any value is one.
                    kept.insert("items".to_owned(), json!({}));
                }
                Value::Object(kept)
            }
            Value::Array(items) => items.iter().map(|item| self.standalone(item, file)).collect(),
            plain => plain.clone(),
        }
    }

    /// Takes the schema into the bundle, and returns its place there.
    fn reference(&mut self, reference: &str, file: &str) -> String {
        let (named, pointer) = reference.split_once('#').unwrap_or((reference, ""));
        if named.is_empty() && pointer.starts_with("/components/") {
            return reference.to_owned();
        }
        let named = if named.is_empty() { file } else { named };
        let key = (named.to_owned(), pointer.to_owned());
        if let Some(name) = self.names.get(&key) {
            return format!("{SCHEMAS}{name}");
        }
        let taken = |name: &String| self.names.values().any(|other| other == name);
        let wanted = schema_name(named, pointer);
        let numbered = (2..).map(|number: u32| format!("{wanted}{number}"));
        let name = std::iter::once(wanted.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(wanted);
        self.names.insert(key, name.clone());
        let schema =
            self.documents.get(named).and_then(|document| document.pointer(pointer)).cloned().unwrap_or_default();
        let mut schema = self.standalone(&schema, named);
        if let Some(object) = schema.as_object_mut() {
            object.insert("title".to_owned(), Value::from(name.as_str()));
        }
        self.schemas.insert(name.clone(), schema);
        format!("{SCHEMAS}{name}")
    }
}

/// Returns the name of a schema in the bundle: `swap.json#/$defs/record` is `SwapRecord`, a shared one has its own name.
fn schema_name(file: &str, pointer: &str) -> String {
    let stem = file.strip_suffix(".json").unwrap_or(file);
    let shared = stem == "common" && !pointer.is_empty();
    let stem = stem.split(['-', '_', '/']).filter(|_| !shared);
    let steps = pointer.split('/').filter(|step| !step.is_empty() && *step != "$defs");
    stem.chain(steps).map(capitalized).collect()
}

fn capitalized(word: &str) -> String {
    let letters: String = word.chars().filter(char::is_ascii_alphanumeric).collect();
    letters.get(..1).map(str::to_ascii_uppercase).unwrap_or_default() + letters.get(1..).unwrap_or_default()
}

fn may_be_array(schema: &Map<String, Value>) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "array",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "array"),
        _ => false,
    }
}

/// `examples/createSwap/answer-good-least.json` is called `least`.
fn example_name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    let name = name.strip_suffix(".json").unwrap_or(name);
    name.trim_start_matches("answer-").trim_start_matches("good-").to_owned()
}

fn add_examples(container: &mut Value, examples: Map<String, Value>) {
    if let (false, Some(content)) = (examples.is_empty(), container.pointer_mut("/content/application~1json")) {
        extend(content, &json!({ "examples": examples }));
    }
}

fn members(node: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    node.and_then(Value::as_object).into_iter().flatten()
}

fn part(node: &Value, key: &str) -> Value {
    node.get(key).cloned().unwrap_or_default()
}

fn extend(node: &mut Value, with: &Value) {
    if let Some(object) = node.as_object_mut() {
        object.extend(members(Some(with)).map(|(key, value)| (key.clone(), value.clone())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;

    fn shipped() -> Value {
        let catalog = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap();
        serde_json::from_slice(catalog.document()).unwrap()
    }

    fn references(node: &Value, found: &mut Vec<String>) {
        match node {
            Value::Object(object) => {
                found.extend(object.get("$ref").and_then(Value::as_str).map(str::to_owned));
                object.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_to_a_titled_part_of_the_document() {
        let document = shipped();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 300, "{}", found.len());
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference} leads out"));
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
        for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
            assert_eq!(schema["title"], Value::from(name.as_str()));
        }
    }

    #[test]
    fn a_write_can_be_held_and_a_read_cannot() {
        let document = shipped();
        let responses = |path: &str, method: &str| document["paths"][path][method]["responses"].clone();
        let swap = responses("/v2/wallets/swaps", "post");
        assert_eq!(swap["202"]["$ref"], "#/components/responses/Held");
        let success = &swap["200"]["content"]["application/json"];
        assert_eq!(success["schema"]["anyOf"][0]["$ref"], "#/components/schemas/SwapRecord");
        assert_eq!(success["schema"]["anyOf"][1]["$ref"], "#/components/schemas/Executed");
        assert!(success["examples"].as_object().is_some_and(|examples| !examples.is_empty()));
        let read = responses("/v2/offramps", "get");
        assert!(read.get("202").is_none() && read.get("500").is_some());
    }

    #[test]
    fn operations_that_are_off_and_notes_for_gates_are_left_out() {
        let document = shipped();
        assert!(document["paths"].get("/tos-link").is_none());
        let text = document.to_string();
        assert!(!FOR_GATES.iter().chain(&ADDED).any(|note| text.contains(&format!("\"{note}\""))));
        let enabled = Catalog::build(&SchemaFiles::built_in(), &["createTosLink".to_owned()]).unwrap();
        assert!(std::str::from_utf8(enabled.document()).unwrap().contains("/tos-link"));
    }
}
