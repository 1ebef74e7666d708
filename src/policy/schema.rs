//! The policy language as a JSON Schema, for editors: the valid fields, and their meaning.
//!
//! The schema is made from the field table. It does not see a whole set, so it refuses less than the parser: undefined names and
//! contradictory numbers are found by `sluice policy check` only.

use serde_json::{Map, Value, json};

use super::field_form::{FieldValue, MEMBER, PolicyTable, Sort};
use super::language::table_of;
use super::rate;
use super::value_kind::{Form, ValueKind};
use crate::base::ids::Environment;
use crate::catalog::Catalog;

const DATE: &str = "[0-9]{4}-[0-9]{2}-[0-9]{2}";
const UUID: &str = "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}";

/// Returns the schema of a policy file, for this contract.
pub fn schema(catalog: &Catalog) -> Value {
    let operations: Vec<&str> = catalog.operations().iter().map(|operation| operation.id.as_str()).collect();
    let classes = rate::CLASSES.map(|(word, _)| word);
    let ops: Vec<&str> = ["*"].into_iter().chain(classes).chain(operations.iter().copied()).collect();
    let mut definitions = Map::new();
    definitions.insert("op".to_owned(), json!({"enum": ops}));
    definitions.insert("operation".to_owned(), json!({"enum": operations}));
    let mut properties = Map::new();
    for kind in ValueKind::ALL {
        let one = json!({"$ref": format!("#/definitions/{kind}")});
        let property = match kind.form() {
            Form::Listed => json!({"type": "array", "items": one}),
            Form::Named => json!({"type": "object", "additionalProperties": one}),
            Form::Single => one,
        };
        properties.insert(kind.to_string(), property);
        definitions.insert(kind.to_string(), of_table(table_of(kind)));
    }
    for sort in Sort::ALL {
        definitions.insert(format!("{sort}s"), names(name_or_list(sort)));
    }
    if let Some(need) = table_of(ValueKind::Approval).base {
        definitions.insert(need.name.to_owned(), of_table(need));
    }
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Policies of Sluice",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "definitions": definitions,
    })
}

fn of_table(table: &PolicyTable) -> Value {
    let mut properties = Map::new();
    for field in table.all_fields() {
        let mut property = of_value(&field.value);
        add(&mut property, "description", field.doc.into());
        properties.insert(field.name.to_owned(), property);
    }
    let mut schema = json!({
        "type": "object",
        "description": table.doc,
        "additionalProperties": false,
        "properties": properties,
    });
    let required: Vec<&str> = table.all_fields().filter(|field| field.is_required()).map(|field| field.name).collect();
    if !required.is_empty() {
        add(&mut schema, "required", required.into());
    }
    let alternatives: Vec<Value> = table.alternatives().iter().map(|group| json!({"required": group})).collect();
    if !alternatives.is_empty() {
        add(&mut schema, "oneOf", alternatives.into());
    }
    schema
}

fn of_value(value: &FieldValue) -> Value {
    match value {
        FieldValue::Text => json!({"type": "string"}),
        FieldValue::Pattern(pattern) => json!({"type": "string", "pattern": pattern()}),
        FieldValue::Truth => json!({"type": "boolean"}),
        FieldValue::Number { least, most } => json!({"type": "integer", "minimum": least, "maximum": most}),
        FieldValue::Word(words) => json!({"enum": words()}),
        FieldValue::Words(words) => json!({"type": "array", "uniqueItems": true, "items": {"enum": words()}}),
        FieldValue::Name(sort) => of_sort(*sort),
        FieldValue::Members(sort) => {
            let member = json!({"anyOf": [of_sort(*sort), of_table(&MEMBER)]});
            json!({"type": "array", "minItems": 1, "uniqueItems": true, "items": member})
        }
        FieldValue::Names(sort, _) => json!({"$ref": format!("#/definitions/{sort}s")}),
        FieldValue::Operations => json!({"$ref": "#/definitions/op"}),
        FieldValue::Operation => json!({"$ref": "#/definitions/operation"}),
        FieldValue::OneOrMore(one) => one_or_more(of_value(one)),
        FieldValue::List(one) => {
            json!({"type": "array", "minItems": 1, "uniqueItems": true, "items": of_value(one)})
        }
        FieldValue::Table(table) => of_table(table),
        FieldValue::Tables(table) => {
            json!({"type": "array", "minItems": 1, "items": {"$ref": format!("#/definitions/{}", table.name)}})
        }
        FieldValue::BodyConditions(table) => json!({
            "type": "object",
            "propertyNames": {"pattern": "^/"},
            "additionalProperties": {"anyOf": [{"enum": ["present", "absent"]}, of_table(table)]},
        }),
        FieldValue::BodyValues => json!({"type": "object", "propertyNames": {"pattern": "^/"}}),
        FieldValue::Texts => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        FieldValue::Literal => literal(),
        FieldValue::Literals => json!({"type": "array", "items": literal()}),
    }
}

fn literal() -> Value {
    json!({"type": ["string", "integer", "boolean"]})
}

fn one_or_more(one: Value) -> Value {
    json!({"anyOf": [one.clone(), {"type": "array", "minItems": 1, "items": one}]})
}

/// Returns the schema of names, or of those that are excluded.
fn names(one: Value) -> Value {
    let mut schema = one_or_more(one.clone());
    if let Some(Value::Array(forms)) = schema.get_mut("anyOf") {
        let excluded = json!({"not_in": one_or_more(one)});
        forms.push(json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["not_in"],
            "properties": excluded,
        }));
    }
    schema
}

/// Returns the schema of one name of a sort, or of a list of them. There are no lists of environments.
fn name_or_list(sort: Sort) -> Value {
    match sort {
        Sort::Environment => of_sort(sort),
        _ => json!({"anyOf": [{"type": "string", "pattern": "^@"}, of_sort(sort)]}),
    }
}

fn of_sort(sort: Sort) -> Value {
    match sort {
        Sort::User | Sort::ExternalWallet | Sort::Account => {
            json!({"type": "string", "pattern": format!("^{UUID}$")})
        }
        Sort::Environment => json!({"enum": Environment::ALL.map(Environment::as_str)}),
        Sort::Caller => json!({"type": "string", "pattern": "^[^:]+:.+$"}),
        Sort::Date => json!({"type": "string", "pattern": format!("^({DATE}|[(\\[]{DATE}, *({DATE}|inf)[)\\]])$")}),
        Sort::Wallet | Sort::Chain | Sort::Currency | Sort::Issuer | Sort::Text => {
            json!({"type": "string", "minLength": 1})
        }
    }
}

fn add(schema: &mut Value, name: &str, value: Value) {
    if let Some(members) = schema.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
}
