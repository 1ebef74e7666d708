//! The values that are in force, each with the place that it came from. Secrets are never among them.

use super::document::{FoundValue, RawValue};
use super::fault::SettingPlace;
use super::settings::SettingKind;
use super::value;

/// A setting that has a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingInForce {
    /// `timeouts.body_ms`, `issuer.main.audience`.
    pub setting: String,
    /// The value as TOML; of a secret only its source.
    pub value: String,
    /// `default`, a line of the file, or an environment variable.
    pub from: String,
}

impl SettingInForce {
    pub(super) fn of(path: &str, kind: &SettingKind, found: &FoundValue, file: &str) -> SettingInForce {
        let from = match &found.place {
            SettingPlace::Default => "default".to_owned(),
            SettingPlace::File { line, .. } => format!("{file}:{line}"),
            SettingPlace::Variable(name) => format!("variable {name}"),
        };
        let value = written(&found.raw, value::is_secret(kind));
        SettingInForce { setting: path.to_owned(), value, from }
    }
}

/// Writes a value as TOML. Of a secret, a table names where it is; a text is the secret itself.
fn written(raw: &RawValue, is_secret: bool) -> String {
    match raw {
        RawValue::Text(_) if is_secret => "(hidden)".to_owned(),
        RawValue::Text(text) => toml::Value::String(text.clone()).to_string(),
        RawValue::Number(Some(number)) => number.to_string(),
        RawValue::Number(None) => "(no number)".to_owned(),
        RawValue::Truth(truth) => truth.to_string(),
        RawValue::List(items) => {
            let items: Vec<String> = items.iter().map(|item| written(&item.raw, is_secret)).collect();
            format!("[{}]", items.join(", "))
        }
        RawValue::Table(table) => {
            let members = table.iter().map(|(name, item)| format!("{name} = {}", written(&item.raw, false)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
        }
        RawValue::Other(word) => (*word).to_owned(),
    }
}
