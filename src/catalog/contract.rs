//! A compiled JSON Schema, and its violations.

use std::fmt;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::json::{Json, SerdeJson};
use jsonschema::{PatternOptions, Registry, Resource, ValidationError, Validator};
use serde_json::{Value, json};

use super::flat_contract::{Flat, FlatContract};
use super::pattern_words::described_pattern;
use crate::base::pointer::escape;
use crate::base::word_enum::word_enum;

/// The most violations that one answer names.
const MAX_VIOLATIONS: usize = 32;
/// The most values whose violations are all collected.
const FEW_VALUES: usize = 1_024;
/// The longest name of an unknown field that is repeated to its sender.
const LONGEST_NAME: usize = 64;

/// One schema of the contract.
pub struct Contract {
    validator: Validator,
    /// The place of the schema: `swap.json#/$defs/create`.
    reference: String,
}

word_enum! {
    /// The part of a request that a violation is in.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum BodyPlace {
        Body = "body",
        Path = "path",
        Query = "query",
    }
}

/// One violation of a schema. It never contains a value of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub place: BodyPlace,
    /// A JSON pointer into the body, empty for the whole body; or the name of a parameter.
    pub pointer: String,
    /// The violated keyword of JSON Schema.
    pub keyword: String,
    pub expected: String,
}

impl Violation {
    pub fn new(pointer: impl Into<String>, keyword: &str, expected: impl Into<String>) -> Violation {
        Violation {
            place: BodyPlace::Body,
            pointer: pointer.into(),
            keyword: keyword.to_owned(),
            expected: expected.into(),
        }
    }

    pub fn inside(self, place: BodyPlace) -> Violation {
        Violation { place, ..self }
    }

    pub fn to_json(&self) -> Value {
        json!({ "in": self.place.as_str(), "pointer": self.pointer, "keyword": self.keyword, "expected": self.expected })
    }
}

impl Contract {
    /// Compiles the schema at `reference`, a place in the files of `registry`.
    pub(super) fn compile(registry: &Registry<'_>, reference: &str) -> Result<Contract, String> {
        Ok(Contract { validator: compiled::<SerdeJson>(registry, reference)?, reference: reference.to_owned() })
    }

    /// Compiles the same schema for answers as they are written.
    pub(super) fn compile_flat(&self, registry: &Registry<'_>) -> Result<FlatContract, String> {
        compiled::<Flat>(registry, &self.reference).map(FlatContract)
    }

    /// Compiles a schema of a self-contained document by its pointer: `#/components/schemas/freeze`.
    pub fn within(document: &Value, place: &str) -> Result<Contract, String> {
        let alone = [(format!("{BASE}alone.json"), Resource::from_contents(document.clone()))];
        let registry = Registry::new().extend(alone).map_err(|e| e.to_string())?;
        Contract::compile(&registry.prepare().map_err(|e| e.to_string())?, &format!("alone.json{place}"))
    }

    pub fn reference(&self) -> &str {
        &self.reference
    }

    pub fn accepts(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    /// Returns the violations, by their places. The validator collects all of them before it hands out one, so that of
    /// a value of many only the first is looked for.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        if self.accepts(value) {
            return Vec::new();
        }
        let mut all: Vec<Violation> = if values_left(value, FEW_VALUES).is_some() {
            self.validator.iter_errors(value).flat_map(|e| described(&e)).collect()
        } else {
            self.validator.validate(value).err().iter().flat_map(described).collect()
        };
        all.sort_by(|a, b| a.pointer.cmp(&b.pointer));
        all.dedup();
        all.truncate(MAX_VIOLATIONS);
        all
    }
}

fn compiled<F: Json>(registry: &Registry<'_>, reference: &str) -> Result<Validator<F>, String> {
    jsonschema::options_for::<F>()
        .with_registry(registry)
        .should_validate_formats(true)
        .with_pattern_options(PatternOptions::regex())
        .build(&json!({ "$ref": format!("{BASE}{reference}") }))
        .map_err(|e| e.to_string())
}

impl fmt::Debug for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Contract({})", self.reference)
    }
}

/// The base URI under which the schema files know one another.
pub(super) const BASE: &str = "sluice:///";

/// Returns how many of `most` values are left behind this one; `None` if it has more.
fn values_left(value: &Value, most: usize) -> Option<usize> {
    let left = most.checked_sub(1)?;
    match value {
        Value::Array(items) => items.iter().try_fold(left, |left, item| values_left(item, left)),
        Value::Object(members) => members.values().try_fold(left, |left, member| values_left(member, left)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(left),
    }
}

fn described(error: &ValidationError<'_>) -> Vec<Violation> {
    let pointer = error.instance_path().to_string();
    let keyword = error.kind().keyword().to_owned();
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            let unknown = |name: &String| {
                let shown: String = name.chars().take(LONGEST_NAME).collect();
                Violation::new(format!("{pointer}/{}", escape(&shown)), &keyword, "no field of this name")
            };
            unexpected.iter().take(MAX_VIOLATIONS).map(unknown).collect()
        }
        kind => vec![Violation::new(pointer, &keyword, expected(kind))],
    }
}

fn expected(kind: &ValidationErrorKind) -> String {
    use ValidationErrorKind as Kind;
    match kind {
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => either(context),
        Kind::Constant { expected_value } => format!("the value {expected_value}"),
        Kind::Enum { options } => format!("one of {options}"),
        Kind::ExclusiveMaximum { limit } => format!("less than {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("more than {limit}"),
        Kind::FalseSchema => "nothing here: the field is not allowed in this case".to_owned(),
        Kind::Format { format } => form(format),
        Kind::MaxItems { limit } => format!("at most {limit} items"),
        Kind::Maximum { limit } => format!("at most {limit}"),
        Kind::MaxLength { limit } => format!("at most {limit} characters"),
        Kind::MaxProperties { limit } => format!("at most {limit} fields"),
        Kind::MinItems { limit } => format!("at least {limit} items"),
        Kind::Minimum { limit } => format!("at least {limit}"),
        Kind::MinLength { limit } => format!("at least {limit} characters"),
        Kind::MinProperties { limit } => format!("at least {limit} fields"),
        Kind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
        Kind::Pattern { pattern } => described_pattern(pattern),
        Kind::Required { property } => format!("the field {property}"),
        Kind::Type { kind: TypeKind::Single(kind) } => format!("a value of type {kind}"),
        Kind::Type { kind: TypeKind::Multiple(kinds) } => {
            let names: Vec<String> = kinds.iter().map(|k| k.to_string()).collect();
            format!("a value of type {}", names.join(" or "))
        }
        Kind::UniqueItems => "items that differ".to_owned(),
        Kind::Not { .. } => "a value other than the excluded ones".to_owned(),
        _ => "what the schema says".to_owned(),
    }
}

/// The first demand of each of several alternatives.
fn either(branches: &[Vec<ValidationError<'static>>]) -> String {
    let mut wanted: Vec<String> = Vec::new();
    for first in branches.iter().filter_map(|errors| errors.first()) {
        let place = first.instance_path().to_string();
        let one = match first.kind() {
            ValidationErrorKind::Required { .. } if !place.is_empty() => {
                format!("{} in {place}", expected(first.kind()))
            }
            kind => expected(kind),
        };
        if !wanted.contains(&one) {
            wanted.push(one);
        }
    }
    wanted.join(", or ")
}

fn form(format: &str) -> String {
    match format {
        "uuid" => "a UUID".to_owned(),
        "date" => "a date, YYYY-MM-DD".to_owned(),
        "date-time" => "an ISO 8601 date-time".to_owned(),
        other => format!("text in the format {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_value_of_many_violations_no_more_are_collected_than_are_told() {
        let items =
            json!({ "items": { "required": ["a", "b"], "additionalProperties": false, "properties": { "a": true } } });
        let contract = Contract::within(&json!({ "list": items }), "#/list").unwrap();
        let told = |item: Value, count: usize| contract.violations(&Value::Array(vec![item; count]));
        assert_eq!((told(json!({}), 3).len(), told(json!({}), 600).len()), (6, MAX_VIOLATIONS));
        let of_many = told(json!({}), 2_000);
        assert_eq!(of_many, [Violation::new("/0", "required", "the field \"a\"")]);
        let unknown: Value = (0..2_000).map(|at| (format!("n{at}"), Value::Null)).collect();
        assert!(!told(unknown, 1).is_empty());
        assert_eq!(told(json!({"a": 1}), 0), []);
    }
}
