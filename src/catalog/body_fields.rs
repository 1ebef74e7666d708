//! The fields that an operation's bodies may have, and the values that each may have, as its schema says.
//!
//! Promise: a field or a value that is called impossible is in no body that the contract accepts. Where a schema leaves
//! an object open, every further field is possible. Conditions between fields (`if`, `dependentSchemas`) are ignored:
//! they only exclude more.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use jsonschema::{Registry, Resource};
use serde_json::Value;

use super::contract::{BASE, Contract};
use crate::base::pointer::{Pointer, escape};
use crate::base::word_enum::word_enum;

/// How deep fields are followed: a schema may contain itself.
const MAX_DEPTH: usize = 12;

/// The files of a contract, and the registry in which their schemas find one another.
pub(super) struct ContractFiles {
    files: BTreeMap<String, Value>,
    registry: OnceLock<Option<Registry<'static>>>,
}

/// The fields of one operation's bodies. They are read from the schema when somebody first asks.
pub struct BodyFields {
    files: Arc<ContractFiles>,
    reference: String,
    found: OnceLock<BTreeMap<String, BodyField>>,
}

/// A field that a schema declares.
pub struct BodyField {
    /// The places of the schemas that declare it.
    declared: BTreeSet<String>,
    /// Whether it may have fields that no schema declares.
    is_open: bool,
    contracts: OnceLock<Vec<Contract>>,
}

/// A field that a form asks for: a value without fields of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormField {
    /// An item of a list is the first one.
    pub pointer: String,
    pub kind: FieldKind,
    /// The values that it can have, where the schema lists them.
    pub choices: Vec<String>,
}

word_enum! {
    /// How a form writes a field's value.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FieldKind {
        Text = "text",
        Number = "number",
        Truth = "boolean",
    }
}

/// The schema's statements about a pointer.
#[derive(Clone, Copy, Debug)]
pub enum FieldLookup<'f> {
    Declared(&'f BodyField),
    /// Bodies may have it, and no schema says more.
    Open,
    /// No body can have it.
    Impossible,
}

impl ContractFiles {
    pub(super) fn of(files: &[(&str, Value)]) -> ContractFiles {
        let files = files.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        ContractFiles { files, registry: OnceLock::new() }
    }

    fn schema(&self, reference: &str) -> Option<&Value> {
        let (file, place) = reference.split_once('#')?;
        self.files.get(file)?.pointer(place)
    }

    fn registry(&self) -> Option<&Registry<'static>> {
        let prepare = || {
            let each = self.files.iter();
            let resources = each.map(|(name, value)| (format!("{BASE}{name}"), Resource::from_contents(value.clone())));
            Registry::new().extend(resources).ok()?.prepare().ok()
        };
        self.registry.get_or_init(prepare).as_ref()
    }

    /// Returns the schema at a place and all that it includes: what `$ref` names, and what `allOf`, `anyOf` and `oneOf`
    /// list.
    fn parts<'s>(&'s self, reference: &str) -> Vec<(String, &'s Value)> {
        let mut parts: Vec<(String, &Value)> = Vec::new();
        let mut left = vec![reference.to_owned()];
        while let Some(next) = left.pop() {
            let Some(schema) = self.schema(&next).filter(|_| parts.iter().all(|(known, _)| *known != next)) else {
                continue;
            };
            left.extend(self.followed(&next, schema));
            for word in ["allOf", "anyOf", "oneOf"] {
                let count = schema.get(word).and_then(Value::as_array).map_or(0, Vec::len);
                left.extend((0..count).map(|at| format!("{next}/{word}/{at}")));
            }
            parts.push((next, schema));
        }
        parts
    }

    /// Returns the place that a schema's `$ref` names.
    fn followed(&self, reference: &str, schema: &Value) -> Option<String> {
        let named = schema.get("$ref")?.as_str()?;
        let (file, _) = reference.split_once('#')?;
        Some(if named.starts_with('#') { format!("{file}{named}") } else { named.to_owned() })
    }

    /// Whether values may have fields, or items, that the schema at a place does not declare.
    fn is_open(&self, reference: &str, depth: usize) -> bool {
        let Some(schema) = self.schema(reference).filter(|_| depth < MAX_DEPTH) else { return true };
        let deeper = depth.saturating_add(1);
        let is_not = |word: &str| schema.get(word).is_some_and(|value| *value == Value::Bool(false));
        let types = match schema.get("type") {
            Some(Value::String(one)) => Some(vec![one.as_str()]),
            Some(Value::Array(all)) => Some(all.iter().filter_map(Value::as_str).collect()),
            _ => None,
        };
        let may_be = |kind: &str| types.as_ref().is_none_or(|types| types.contains(&kind));
        let objects = may_be("object") && !is_not("additionalProperties") && !is_not("unevaluatedProperties");
        let lists = may_be("array") && schema.get("items").is_none();
        if *schema == Value::Bool(false) || !(objects || lists) {
            return false;
        }
        let member = |word: &str| {
            let count = schema.get(word).and_then(Value::as_array).map_or(0, Vec::len);
            let places: Vec<String> = (0..count).map(|at| format!("{reference}/{word}/{at}")).collect();
            places
        };
        let follows = self.followed(reference, schema).is_none_or(|place| self.is_open(&place, deeper));
        let any_of = |word: &str| {
            let places = member(word);
            places.is_empty() || places.iter().any(|place| self.is_open(place, deeper))
        };
        follows && member("allOf").iter().all(|place| self.is_open(place, deeper)) && any_of("anyOf") && any_of("oneOf")
    }

    fn gather(&self, reference: &str, path: &str, depth: usize, found: &mut BTreeMap<String, BodyField>) {
        let is_open = self.is_open(reference, 0);
        let field = found.entry(path.to_owned()).or_insert_with(|| BodyField {
            declared: BTreeSet::new(),
            is_open: false,
            contracts: OnceLock::new(),
        });
        field.is_open |= is_open;
        if !field.declared.insert(reference.to_owned()) || depth >= MAX_DEPTH {
            return;
        }
        let deeper = depth.saturating_add(1);
        for (place, schema) in self.parts(reference) {
            for name in schema.get("properties").and_then(Value::as_object).into_iter().flat_map(|all| all.keys()) {
                let step = escape(name);
                self.gather(&format!("{place}/properties/{step}"), &format!("{path}/{step}"), deeper, found);
            }
            if schema.get("items").is_some() {
                self.gather(&format!("{place}/items"), &format!("{path}/*"), deeper, found);
            }
        }
    }
}

impl BodyFields {
    pub(super) fn of(files: Arc<ContractFiles>, reference: &str) -> BodyFields {
        BodyFields { files, reference: reference.to_owned(), found: OnceLock::new() }
    }

    fn found(&self) -> &BTreeMap<String, BodyField> {
        self.found.get_or_init(|| {
            let mut found = BTreeMap::new();
            self.files.gather(&self.reference, "", 0, &mut found);
            found
        })
    }

    /// Returns the pointers of all declared fields, sorted.
    pub fn pointers(&self) -> impl Iterator<Item = &str> {
        self.found().keys().map(String::as_str).filter(|pointer| !pointer.is_empty())
    }

    /// Returns the fields of a form for such a body, sorted by pointer. Objects that no schema describes are left out.
    pub fn form(&self) -> Vec<FormField> {
        let found = self.found();
        let inner = |pointer: &str| found.keys().any(|other| other.starts_with(&format!("{pointer}/")));
        let leaves = found.iter().filter(|(pointer, _)| !pointer.is_empty() && !inner(pointer));
        leaves.filter_map(|(pointer, field)| self.form_field(pointer, field)).collect()
    }

    fn form_field(&self, pointer: &str, field: &BodyField) -> Option<FormField> {
        let parts: Vec<&Value> =
            field.declared.iter().flat_map(|place| self.files.parts(place)).map(|(_, schema)| schema).collect();
        let of = |word: &'static str| {
            let values = parts.iter().filter_map(move |schema| schema.get(word));
            values.flat_map(|value| value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]))
        };
        let choices: Vec<String> =
            of("enum").chain(of("const")).filter_map(|value| value.as_str().map(str::to_owned)).collect();
        let types: Vec<String> = of("type").filter_map(|value| value.as_str().map(str::to_owned)).collect();
        let is = |word: &str| types.iter().any(|kind| kind == word);
        let kind = match () {
            () if is("string") || !choices.is_empty() => FieldKind::Text,
            () if is("number") || is("integer") => FieldKind::Number,
            () if is("boolean") => FieldKind::Truth,
            () if is("object") || is("array") => return None,
            () => FieldKind::Text,
        };
        Some(FormField { pointer: pointer.replace("/*", "/0"), kind, choices })
    }

    pub fn lookup(&self, pointer: &Pointer) -> FieldLookup<'_> {
        let found = self.found();
        let mut path = String::new();
        for step in pointer.as_str().trim_start_matches('/').split('/') {
            let is_item = step == "*" || step.bytes().all(|b| b.is_ascii_digit());
            let (exact, item) = (format!("{path}/{step}"), format!("{path}/*"));
            let next = if found.contains_key(&exact) { exact } else { item };
            let is_there = found.contains_key(&next) && (is_item || !next.ends_with("/*"));
            if !is_there {
                let is_open = found.get(&path).is_none_or(|field| field.is_open);
                return if is_open { FieldLookup::Open } else { FieldLookup::Impossible };
            }
            path = next;
        }
        found.get(&path).map_or(FieldLookup::Open, FieldLookup::Declared)
    }

    /// Returns what the contract expects instead of a value that the field cannot have; `None` if it can have it.
    pub fn refused(&self, field: &BodyField, value: &Value) -> Option<String> {
        let contracts = field.contracts.get_or_init(|| {
            let compile = |place: &String| Contract::compile(self.files.registry()?, place).ok();
            field.declared.iter().filter_map(compile).collect()
        });
        let mut expected = None;
        for contract in contracts {
            let violations = contract.violations(value);
            let first = violations.into_iter().next()?;
            expected = expected.or(Some(first.expected));
        }
        expected
    }
}

impl fmt::Debug for BodyFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BodyFields({})", self.reference)
    }
}

impl fmt::Debug for BodyField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BodyField({:?})", self.declared)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::base::ids::OperationId;
    use crate::catalog::{Catalog, SchemaFiles};

    const JURISDICTION: &str = "/supportingInformation/beneficiaryDetails/jurisdictionOfIncorporation";

    fn with<T>(operation: &str, look: impl FnOnce(&BodyFields) -> T) -> T {
        let catalog = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap();
        look(catalog.operation(&OperationId::new(operation)).unwrap().body_fields.as_ref().unwrap())
    }

    fn word(fields: &BodyFields, pointer: &str) -> &'static str {
        match fields.lookup(&Pointer::parse(pointer).unwrap()) {
            FieldLookup::Declared(_) => "declared",
            FieldLookup::Open => "open",
            FieldLookup::Impossible => "impossible",
        }
    }

    #[test]
    fn closed_bodies_have_no_other_fields() {
        with("createOfframp", |fields| {
            for (pointer, expected) in [
                (JURISDICTION, "declared"),
                ("/developerFee/fees/*/walletAddress", "declared"),
                ("/developerFee/fees/0/walletAddress", "declared"),
                ("/developerFee/fees", "declared"),
                ("/developerFee/fees/walletAddress", "impossible"),
                ("/developerFees", "impossible"),
                ("/*", "impossible"),
                ("/source/amount/x", "impossible"),
                ("/requestId/0", "impossible"),
            ] {
                assert_eq!(word(fields, pointer), expected, "{pointer}");
            }
            assert!(fields.pointers().any(|pointer| pointer == JURISDICTION));
        });
        with("updateUser", |fields| {
            let words = ["/email", "/emial", "/address/city", "/email/x"].map(|pointer| word(fields, pointer));
            assert_eq!(words, ["declared", "open", "open", "impossible"]);
        });
    }

    /// A form has every value that a body can have, and what the schema lists for each.
    #[test]
    fn a_form_asks_for_the_values_of_a_body() {
        with("createSwap", |fields| {
            let form = fields.form();
            let pointers: Vec<&str> = form.iter().map(|field| field.pointer.as_str()).collect();
            for pointer in
                ["/requestId", "/source/amount", "/source/chain", "/destination/walletAddress", "/limitPrice"]
            {
                assert!(pointers.contains(&pointer), "{pointer}: {pointers:?}");
            }
            assert!(!pointers.contains(&"/source"), "{pointers:?}");
            let kind = |pointer: &str| form.iter().find(|field| field.pointer == pointer).unwrap().kind;
            assert_eq!((kind("/cancelAfterSeconds"), kind("/source/amount")), (FieldKind::Number, FieldKind::Text));
        });
        with("createOfframp", |fields| {
            let form = fields.form();
            let fee = form.iter().find(|field| field.pointer == "/developerFee/fees/0/type").unwrap();
            assert!(fee.choices.iter().any(|choice| choice == "FLAT"), "{fee:?}");
            let ach = form.iter().find(|field| field.pointer == "/destination/sameDayAch").unwrap();
            assert_eq!(ach.kind, FieldKind::Truth);
        });
    }

    #[test]
    fn a_value_is_refused_only_if_no_body_can_have_it() {
        with("createOfframp", |fields| {
            for (pointer, value, is_possible) in [
                (JURISDICTION, json!("RUS"), true),
                (JURISDICTION, json!("RU"), false),
                (JURISDICTION, json!(7), false),
                ("/developerFee/fees/*/type", json!("FLAT"), true),
                ("/developerFee/fees/*/type", json!("flat"), false),
                ("/developerFee", json!("x"), false),
                ("/source/amount", json!(5), true),
                ("/source/amount", json!("5"), true),
                ("/source/amount", json!("0"), false),
                ("/destination/sameDayAch", json!(true), true),
                ("/destination/accountId", json!("x"), false),
                ("/supportingInformation/documents/*/fileId", json!("x"), false),
            ] {
                let FieldLookup::Declared(field) = fields.lookup(&Pointer::parse(pointer).unwrap()) else {
                    panic!("{pointer}")
                };
                assert_eq!(fields.refused(field, &value).is_none(), is_possible, "{pointer} {value}");
            }
        });
    }
}
