//! The language as a JSON Schema, for editors: what may stand where, and what it means, while it is being written.
//!
//! Its words are those of the parser's own tables. It knows nothing of what is in a set, so it refuses less than the
//! parser: names that nobody defined, and numbers that contradict each other, are told by `sluice policy check` alone.

use serde_json::{Map, Value, json};

use super::document::{Form, KINDS, Kind};
use super::rule::EFFECTS;
use super::when::{DAYS, DESTINATION, SORTS, SOURCE, Sort, TOP};
use super::{limit, quota, rate, when};
use crate::base::ids::Environment;
use crate::catalog::Catalog;

const UUID: &str = "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}";
const NUMBER: &str = "[0-9]+([.][0-9]+)?";
const SPAN: &str = "^[1-9][0-9]*[mhd]$";

/// What names may stand in conditions for.
const NAMED: [(&str, Sort); 10] = [
    ("user", Sort::User),
    ("wallet", Sort::Wallet),
    ("external_wallet", Sort::ExternalWallet),
    ("account", Sort::Account),
    ("chain", Sort::Chain),
    ("currency", Sort::Currency),
    ("caller", Sort::Caller),
    ("issuer", Sort::Issuer),
    ("environment", Sort::Environment),
    ("text", Sort::Text),
];

/// The schema of a file of policies, for this contract.
pub fn schema(catalog: &Catalog) -> Value {
    let operations: Vec<&str> = catalog.operations().iter().map(|operation| operation.id.as_str()).collect();
    let written = KINDS.into_iter().map(|(name, _, form)| {
        let one = json!({"$ref": format!("#/definitions/{name}")});
        let schema = match form {
            Form::Listed => json!({"type": "array", "items": one}),
            Form::Named => json!({"type": "object", "additionalProperties": one}),
            Form::Single => one,
        };
        (name.to_owned(), schema)
    });
    let properties: Map<String, Value> = written.collect();
    let mut definitions: Map<String, Value> =
        KINDS.into_iter().map(|(name, kind, _)| (name.to_owned(), of_kind(kind))).collect();
    let mut ops = vec!["*".to_owned()];
    ops.extend(words(&rate::CLASSES).map(str::to_owned));
    ops.extend(operations.iter().map(|id| (*id).to_owned()));
    definitions.extend([
        ("op".to_owned(), json!({"enum": ops})),
        ("operation".to_owned(), json!({"enum": operations})),
        ("need".to_owned(), need()),
    ]);
    definitions.extend(NAMED.map(|(name, sort)| (format!("{name}s"), one_or_more(name_or_list(sort)))));
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Policies of Sluice",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "definitions": definitions,
    })
}

/// The table of a kind.
fn of_kind(kind: Kind) -> Value {
    match kind {
        Kind::Rate => of_rate(),
        Kind::Rule => object(
            "What becomes of requests that it is about.",
            &["id", "effect", "when"],
            vec![
                ("id", id()),
                ("effect", told(choice(&EFFECTS), "Deny beats hold beats allow; what no rule is about is denied.")),
                ("when", of_when(true)),
                (
                    "approval",
                    text("What must be reached before what is held is sent: the name of an `[approval.NAME]`."),
                ),
                ("mode", mode()),
            ],
        ),
        Kind::Limit => of_limit(),
        Kind::Approval => approval(),
        Kind::Group => object("People, as `issuer:subject`.", &["members"], vec![("members", list(caller()))]),
        Kind::List => {
            let sorts = SORTS.iter().map(|(name, sort)| (*name, list(of_sort(*sort))));
            object("Names that rules call `@NAME`.", &[], sorts.collect())
        }
        Kind::Asset => object(
            "An asset, its decimals, and what it is worth.",
            &["decimals"],
            vec![
                ("decimals", json!({"type": "integer", "minimum": 0, "maximum": 18})),
                ("par", told(json!({"type": "boolean"}), "One of it is one USD.")),
                ("value", pattern(&format!("^{NUMBER} USD$"), "What one of it is worth: `2500.25 USD`.")),
                ("as_of", text("When it was worth that: `2026-11-20T09:00:00Z`.")),
                ("good_for", pattern(SPAN, "How long that is taken for true: `24h`.")),
            ],
        ),
        Kind::Value => object(
            "What is assumed where a body leaves something open.",
            &[],
            vec![(
                "slippage",
                pattern(
                    &format!("^{NUMBER}%$"),
                    "How much more than what arrives a swap may cost that states nothing else.",
                ),
            )],
        ),
        Kind::Test => object(
            "A request, and what must become of it.",
            &["given", "expect"],
            vec![
                ("given", given()),
                ("expect", choice(&EFFECTS)),
                ("by", told(one_or_more(json!({"type": "string"})), "The rules and limits that must have made it.")),
                (
                    "people",
                    told(
                        json!({"type": "integer", "minimum": 1}),
                        "How many people it must take, at the least, to release what is held.",
                    ),
                ),
            ],
        ),
        Kind::Invariant => object(
            "What must be so of every request, whatever the rules say: proved when the set is loaded.",
            &["id"],
            vec![
                ("id", id()),
                ("never", of_claim("No request that it is about has this effect.")),
                ("always", of_claim("Each request that it is about has this effect.")),
            ],
        ),
    }
}

fn of_rate() -> Value {
    let units: Vec<&str> = words(&quota::PERIODS).collect();
    let quota = format!("^[0-9]+/({})( burst [0-9]+)?$", units.join("|"));
    let mut table = object(
        "How often calls may be made, or how many at one time.",
        &["id", "ops"],
        vec![
            ("id", id()),
            ("ops", told(list(json!({"$ref": "#/definitions/op"})), "The operations that it is about.")),
            ("environment", list(of_sort(Sort::Environment))),
            ("issuer", list(json!({"type": "string"}))),
            ("role", list(json!({"type": "string"}))),
            ("caller", list(caller())),
            ("per", told(keys(&rate::KEYS), "What has a bucket of its own; none: all calls count together.")),
            ("quota", pattern(&quota, "`100/s burst 200`: calls per time, and how many at once.")),
            (
                "concurrent",
                told(json!({"type": "integer", "minimum": 1}), "Calls that are being answered at one time."),
            ),
            ("shared", told(json!({"type": "boolean"}), "All nodes together, through their Redis.")),
            ("mode", mode()),
        ],
    );
    also(&mut table, json!({"oneOf": [{"required": ["quota"]}, {"required": ["concurrent"]}]}));
    table
}

fn of_limit() -> Value {
    let periods: Vec<&str> = words(&limit::PERIODS).collect();
    let window = format!("^(rolling [1-9][0-9]*[mhd]|calendar ({}) [^ ]+)$", periods.join("|"));
    let max = format!("^({NUMBER} USD|[0-9]+ calls?)$");
    let required = ["id", "ops", "window", "max", "over"];
    object(
        "How much, or how often, in how long.",
        &required,
        vec![
            ("id", id()),
            ("ops", told(one_or_more(json!({"$ref": "#/definitions/op"})), "The operations that count.")),
            ("when", of_when(false)),
            ("window", pattern(&window, "`rolling 24h`, or `calendar day Europe/Berlin`, `week` or `month`.")),
            ("per", told(keys(&limit::KEYS), "What has a sum of its own; none: all count together.")),
            ("max", pattern(&max, "`250000 USD`, or `10 calls`.")),
            ("over", told(choice(&limit::OVERS), "What becomes of what would exceed it.")),
            ("approval", text("The approval that may exceed it, with `over = \"hold\"`.")),
            (
                "without_amount",
                told(choice(&limit::WITHOUT), "What becomes of operations whose bodies state no amount."),
            ),
            ("mode", mode()),
        ],
    )
}

/// `when`, of a rule with its operations, of a limit without.
fn of_when(has_operations: bool) -> Value {
    let fields = when_fields(has_operations);
    object("What it asks of a request; all of it must hold.", if has_operations { &["op"] } else { &[] }, fields)
}

/// What is never or always so of the requests that it is about.
fn of_claim(description: &str) -> Value {
    let mut fields = when_fields(true);
    fields.push(("effect", choice(&EFFECTS)));
    object(description, &["op", "effect"], fields)
}

fn when_fields(has_operations: bool) -> Vec<(&'static str, Value)> {
    let mut fields = Vec::new();
    if has_operations {
        fields.push(("op", told(one_or_more(json!({"$ref": "#/definitions/op"})), "The operations that it is about.")));
    }
    fields.extend(TOP.iter().map(|(name, _, sort)| (*name, names(*sort))));
    let days: Vec<&str> = words(&DAYS).collect();
    let mut destination: Vec<(&str, Value)> = DESTINATION.iter().map(|(name, _, sort)| (*name, names(*sort))).collect();
    destination.extend([
        ("user", names(Sort::User)),
        ("wallet", names(Sort::Wallet)),
        ("external_wallet", names(Sort::ExternalWallet)),
        ("new", told(json!({"type": "boolean"}), "Nothing was ever paid to it before; or something was.")),
    ]);
    let source = SOURCE.iter().map(|(name, _, sort)| (*name, names(*sort))).collect();
    fields.extend([
        ("fee_wallet", names(Sort::Wallet)),
        ("source", object("Where it comes from.", &[], source)),
        ("destination", object("Where it goes.", &[], destination)),
        ("amount", pattern(&interval(" USD"), "`(0, 5000] USD`: more than 0, up to 5000.")),
        ("without_amount", told(choice(&when::WITHOUT), "Whether operations whose bodies state no amount fit.")),
        ("price", pattern(&interval(""), "The limit price: `[0.99, inf)`.")),
        ("body", body()),
        ("weekday", one_or_more(json!({"enum": days}))),
        ("hour", pattern(&interval(""), "`[9, 17)`: from nine o'clock to the last moment before five.")),
        ("zone", text("Whose hours and weekdays: `Europe/Berlin`, `UTC`.")),
    ]);
    fields
}

fn body() -> Value {
    let literal = json!({"type": ["string", "integer", "boolean"]});
    let asked = object(
        "What must stand there.",
        &[],
        vec![("equals", literal.clone()), ("in", json!({"type": "array", "items": literal}))],
    );
    json!({
        "type": "object",
        "description": "Places of the body by their JSON pointers: `\"/developerFee\" = \"absent\"`.",
        "propertyNames": {"pattern": "^/"},
        "additionalProperties": {"anyOf": [{"enum": ["present", "absent"]}, asked]},
    })
}

fn given() -> Value {
    let sides = ["amount", "user", "chain", "currency", "wallet", "external_wallet", "account"];
    let side = || object("", &[], sides.map(|name| (name, json!({"type": "string"}))).into());
    object(
        "A request in a few words.",
        &["op"],
        vec![
            ("op", json!({"$ref": "#/definitions/operation"})),
            ("environment", told(of_sort(Sort::Environment), "By default production.")),
            ("caller", caller()),
            ("requester", text("The person behind the service.")),
            ("role", one_or_more(json!({"type": "string"}))),
            ("time", text("`2026-11-20T09:00:00Z`; by default a Wednesday, noon in UTC.")),
            (
                "paid_before",
                told(json!({"type": "boolean"}), "Whether the destination was ever paid; by default it was."),
            ),
            ("full", told(one_or_more(json!({"type": "string"})), "Limits that are used up.")),
            ("path", json!({"type": "object", "additionalProperties": {"type": "string"}})),
            ("amount", text("What leaves: `5000.000001 usdc`.")),
            ("source", side()),
            ("destination", side()),
            ("price", text("The limit price.")),
            ("body", json!({"type": "object", "propertyNames": {"pattern": "^/"}})),
        ],
    )
}

fn approval() -> Value {
    let mut table = need();
    if let Some(fields) = table.get_mut("properties").and_then(Value::as_object_mut) {
        fields.insert("expires".to_owned(), pattern(SPAN, "How long people have for it: `8h`."));
    }
    also(&mut table, json!({"required": ["expires"]}));
    table
}

fn need() -> Value {
    let needs = json!({"type": "array", "minItems": 1, "items": {"$ref": "#/definitions/need"}});
    let mut table = object(
        "Who must agree.",
        &[],
        vec![
            ("all", told(needs.clone(), "Every one of these.")),
            ("any", told(needs, "One of these.")),
            ("of", text("The name of a group.")),
            ("n", told(json!({"type": "integer", "minimum": 1, "maximum": 100}), "How many of the group.")),
        ],
    );
    also(&mut table, json!({"oneOf": [{"required": ["all"]}, {"required": ["any"]}, {"required": ["of", "n"]}]}));
    table
}

fn object(description: &str, required: &[&str], fields: Vec<(&str, Value)>) -> Value {
    let properties: Map<String, Value> = fields.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    let mut table = json!({"type": "object", "additionalProperties": false, "properties": properties});
    if !required.is_empty() {
        also(&mut table, json!({"required": required}));
    }
    if description.is_empty() { table } else { told(table, description) }
}

/// A schema with more said of it.
fn also(schema: &mut Value, more: Value) {
    if let (Some(members), Value::Object(more)) = (schema.as_object_mut(), more) {
        members.extend(more);
    }
}

fn told(mut schema: Value, description: &str) -> Value {
    also(&mut schema, json!({"description": description}));
    schema
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn pattern(pattern: &str, description: &str) -> Value {
    json!({"type": "string", "pattern": pattern, "description": description})
}

fn interval(unit: &str) -> String {
    format!("^[(\\[] *{NUMBER} *, *({NUMBER}|inf) *[)\\]]{unit}$")
}

fn id() -> Value {
    pattern("^[a-z0-9-]{1,32}$", "Its name in decisions, metrics and logs.")
}

fn mode() -> Value {
    told(choice(&rate::MODES), "`shadow`: counted and logged, and decides nothing.")
}

fn caller() -> Value {
    json!({"type": "string", "pattern": "^[^:]+:.+$"})
}

fn keys<K>(words: &[(&'static str, K)]) -> Value {
    json!({"type": "array", "uniqueItems": true, "items": choice(words)})
}

fn choice<T>(table: &[(&'static str, T)]) -> Value {
    json!({"enum": words(table).collect::<Vec<_>>()})
}

fn words<T>(table: &[(&'static str, T)]) -> impl Iterator<Item = &'static str> {
    table.iter().map(|(word, _)| *word)
}

fn list(items: Value) -> Value {
    json!({"type": "array", "minItems": 1, "uniqueItems": true, "items": items})
}

fn one_or_more(item: Value) -> Value {
    json!({"anyOf": [item.clone(), {"type": "array", "minItems": 1, "items": item}]})
}

/// One name or more of a sort, or lists of them.
fn names(sort: Sort) -> Value {
    let name = NAMED.iter().find(|(_, other)| *other == sort).map_or("text", |(name, _)| *name);
    json!({"$ref": format!("#/definitions/{name}s")})
}

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
        Sort::Caller => caller(),
        Sort::Wallet | Sort::Chain | Sort::Currency | Sort::Issuer | Sort::Text => {
            json!({"type": "string", "minLength": 1})
        }
    }
}
