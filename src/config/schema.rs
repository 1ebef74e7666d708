//! The table of settings as a JSON Schema, for editors.
//!
//! A setting that a section requires may also stand in an environment variable, so only sections without variables
//! require their settings here. Whether files exist and settings fit together is found by `sluice check` only.

use serde_json::{Map, Value, json};

use super::UnlistedMode;
use super::document::{self, RawValue};
use super::fault::SettingPlace;
use super::meant::{AnswerMode, HoldsMode, LogFormat, LogLevel, Loosening, StoreKind, SubjectForm, UnwitnessedMode};
use super::settings::{Absent, MAX_MILLIS, Presence, SECTIONS, Section, Setting, SettingKind};
use super::written::{DurabilityWord, TrustedWord};
use crate::base::ids::Environment;
use crate::notify::{NoticeEvent, PayloadFormat};
use crate::stations::admit::Algorithm;

/// Returns the schema of a configuration file.
pub fn schema() -> Value {
    let mut properties = Map::new();
    for section in SECTIONS {
        if section.name.is_empty() {
            properties.extend(properties_of(section));
        } else {
            properties.insert(section.name.to_owned(), of_section(section));
        }
    }
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Configuration of Sluice",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "definitions": {
            "secret": {
                "anyOf": [
                    source("file", "The name of a file with the secret."),
                    source("env", "The name of an environment variable with the secret."),
                    {"type": "string", "description": "The secret in plain text, which causes a warning."},
                ],
            },
        },
    })
}

fn source(name: &str, doc: &str) -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": [name],
        "properties": {name: {"type": "string", "description": doc}},
    })
}

fn of_section(section: &Section) -> Value {
    let mut table = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties_of(section),
    });
    match section.presence {
        Presence::Always | Presence::IfWritten | Presence::Optional => {
            add(&mut table, "description", section.doc.into());
            table
        }
        Presence::Named { .. } => {
            let needed = section.settings.iter().filter(|setting| matches!(setting.absent, Absent::Fault { .. }));
            add(&mut table, "required", needed.map(|setting| setting.name).collect());
            let others = section.settings.iter().filter(|setting| matches!(setting.absent, Absent::Another { .. }));
            let others: Vec<Value> = others.map(|setting| json!({"required": [setting.name]})).collect();
            if !others.is_empty() {
                add(&mut table, "oneOf", others.into());
            }
            json!({
                "type": "object",
                "description": section.doc,
                "additionalProperties": false,
                "patternProperties": {"^[a-z0-9-]{1,32}$": table},
            })
        }
    }
}

fn properties_of(section: &Section) -> Map<String, Value> {
    section.settings.iter().map(|setting| (setting.name.to_owned(), of_setting(setting))).collect()
}

fn of_setting(setting: &Setting) -> Value {
    let mut schema = of_kind(&setting.kind);
    add(&mut schema, "description", setting.doc.into());
    let (name, text) = match setting.absent {
        Absent::Means(default) => ("default", default),
        Absent::Fault { example, .. }
        | Absent::Nothing { example }
        | Absent::First { example }
        | Absent::Another { example, .. } => ("examples", example),
    };
    if let Some(found) = document::value(text, &SettingPlace::Default) {
        let value = as_json(&found.raw);
        add(&mut schema, name, if name == "examples" { json!([value]) } else { value });
    }
    schema
}

fn of_kind(kind: &SettingKind) -> Value {
    match kind {
        SettingKind::Address(_)
        | SettingKind::Folder(_)
        | SettingKind::Certificates(_)
        | SettingKind::RevokedFile(_)
        | SettingKind::KeysFile(_)
        | SettingKind::KeptFile(_)
        | SettingKind::KeptFolder(_)
        | SettingKind::PublicKey(_)
        | SettingKind::FieldPath(_)
        | SettingKind::Text(_) => json!({"type": "string", "minLength": 1}),
        SettingKind::Node(_) => json!({"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"}),
        SettingKind::SetVersion(_) => json!({"type": "string", "pattern": "^[0-9a-f]{64}$"}),
        SettingKind::Upstream(_)
        | SettingKind::KeysUrl(_)
        | SettingKind::CollectorUrl(_)
        | SettingKind::Origin(_)
        | SettingKind::WitnessUrl(_) => {
            json!({"type": "string", "pattern": "^https?://"})
        }
        SettingKind::Secret(_) | SettingKind::Credential(_) | SettingKind::WebhookUrl(_) | SettingKind::RedisUrl(_) => {
            json!({"allOf": [secret()]})
        }
        SettingKind::SigningSecrets(_) => some_of(secret()),
        SettingKind::Names(_) => json!({"type": "array", "items": {"type": "string"}}),
        SettingKind::FieldPaths(_) => json!({"type": "array", "items": {"type": "string", "minLength": 1}}),
        SettingKind::Texts(_) | SettingKind::Hosts(_) | SettingKind::ClusterHosts(_) => {
            some_of(json!({"type": "string", "minLength": 1}))
        }
        SettingKind::Environments(_) => json!({"type": "array", "items": words(&Environment::WORDS)}),
        SettingKind::Algorithms(_) => some_of(words(&Algorithm::WORDS)),
        SettingKind::Events(_) => some_of(words(&NoticeEvent::WORDS)),
        SettingKind::MessageFormat(_) => words(&PayloadFormat::WORDS),
        SettingKind::WitnessKey(_) => {
            json!({"type": "string", "pattern": "^[^+ ]+\\+[0-9a-f]{8}\\+[A-Za-z0-9+/]{44}$"})
        }
        SettingKind::Unwitnessed(_) => words(&UnwitnessedMode::WORDS),
        SettingKind::Truth(_) => json!({"type": "boolean"}),
        SettingKind::Number { least, most, .. } | SettingKind::Seconds { least, most, .. } => {
            json!({"type": "integer", "minimum": least, "maximum": most})
        }
        SettingKind::Millis(_) => json!({"type": "integer", "minimum": 1, "maximum": MAX_MILLIS}),
        SettingKind::Answers(_) => words(&AnswerMode::WORDS),
        SettingKind::Subjects(_) => words(&SubjectForm::WORDS),
        SettingKind::Unlisted(_) => words(&UnlistedMode::WORDS),
        SettingKind::Holds(_) => words(&HoldsMode::WORDS),
        SettingKind::Loosening(_) => words(&Loosening::WORDS),
        SettingKind::Store(_) => words(&StoreKind::WORDS),
        SettingKind::TrustedTraits(_) => json!({"type": "array", "items": words(&TrustedWord::WORDS)}),
        SettingKind::Durability(_) => words(&DurabilityWord::WORDS),
        SettingKind::LogFormat(_) => words(&LogFormat::WORDS),
        SettingKind::LogLevel(_) => words(&LogLevel::WORDS),
    }
}

fn secret() -> Value {
    json!({"$ref": "#/definitions/secret"})
}

fn some_of(item: Value) -> Value {
    json!({"type": "array", "items": item, "minItems": 1})
}

fn words<T>(words: &[(&'static str, T)]) -> Value {
    json!({"enum": words.iter().map(|(word, _)| *word).collect::<Vec<_>>()})
}

fn add(schema: &mut Value, name: &str, value: Value) {
    if let Value::Object(members) = schema {
        members.insert(name.to_owned(), value);
    }
}

fn as_json(raw: &RawValue) -> Value {
    match raw {
        RawValue::Text(text) => json!(text),
        RawValue::Number(number) => json!(number),
        RawValue::Truth(truth) => json!(truth),
        RawValue::List(items) => items.iter().map(|item| as_json(&item.raw)).collect(),
        RawValue::Table(table) => table.iter().map(|(name, item)| (name.clone(), as_json(&item.raw))).collect(),
        RawValue::Other(word) => json!(word),
    }
}
