//! Settings in environment variables: `SLUICE_`, the section and the name in capitals, joined by `_`.

use super::ConfigWorld;
use super::document::{FoundValue, RawValue};
use super::fault::{SettingFault, SettingPlace};
use super::heading::Heading;
use super::settings::{Presence, SECTIONS, Setting, SettingKind};
use crate::base::finding::{Finding, nearest};

pub(super) const PREFIX: &str = "SLUICE_";

/// Variables that begin like settings but are not; for the reference.
pub(super) const OTHERS: &[(&str, &str)] = &[
    ("SLUICE_CONFIG", "the configuration file, if `--config` is not given"),
    ("SLUICE_CONSOLE", "the console's address of commands, if neither `--console` nor `--config` is given"),
    ("SLUICE_TOKEN", "the token of commands for the console, if `--token-file` is not given"),
];

/// Returns the value of a setting in the environment, if it is set.
pub(super) fn found(heading: &Heading, setting: &Setting, world: &ConfigWorld<'_>) -> Option<FoundValue> {
    let variable = heading.variable(setting.name)?;
    let value = world.environment.get(&variable)?;
    // A value that is not UTF-8 fits no setting.
    let raw = value.to_str().map_or(RawValue::Other("something that is not text"), |text| raw(&setting.kind, text));
    Some(FoundValue { place: SettingPlace::Variable(variable), raw })
}

/// Returns a finding for each unknown variable that looks like a setting, except those in `named`, which the
/// configuration names.
pub(super) fn unknown(world: &ConfigWorld<'_>, named: &[String]) -> Vec<Finding> {
    let once = SECTIONS.iter().filter(|section| !matches!(section.presence, Presence::Named { .. }));
    let known: Vec<String> = once
        .flat_map(|section| section.settings.iter().filter_map(|setting| section.heading().variable(setting.name)))
        .collect();
    let is_known = |name: &String| known.contains(name) || OTHERS.iter().any(|(other, _)| other == name);
    let unknown = world.environment.iter().filter(|(name, value)| {
        name.starts_with(PREFIX) && !is_known(name) && !named.contains(name) && !is_of_kubernetes(name, value.to_str())
    });
    let finding = |name: &String| {
        let fault = SettingFault::new("no setting has this name");
        let fault = match nearest(name, known.iter().map(String::as_str)) {
            Some(near) => fault.remedy(format!("did you mean `{near}`?")),
            None => fault.remedy("unset it; the settings are listed by `sluice init --reference`"),
        };
        fault.error("", &SettingPlace::Variable(name.clone()))
    };
    unknown.map(|(name, _)| finding(name)).collect()
}

fn raw(kind: &SettingKind, text: &str) -> RawValue {
    match kind {
        SettingKind::Number { .. } | SettingKind::Millis(_) | SettingKind::Seconds { .. }
            if text.bytes().all(|b| b.is_ascii_digit() || b == b'_') =>
        {
            RawValue::Number(text.replace('_', "").parse().ok())
        }
        SettingKind::Truth(_) => match text {
            "true" => RawValue::Truth(true),
            "false" => RawValue::Truth(false),
            other => RawValue::Text(other.to_owned()),
        },
        SettingKind::Names(_)
        | SettingKind::Texts(_)
        | SettingKind::Hosts(_)
        | SettingKind::ClusterHosts(_)
        | SettingKind::Environments(_)
        | SettingKind::Algorithms(_)
        | SettingKind::FieldPaths(_)
        | SettingKind::SigningSecrets(_)
        | SettingKind::TrustedTraits(_)
        | SettingKind::Events(_) => {
            let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
            let found = |name: &str| FoundValue { place: SettingPlace::Default, raw: RawValue::Text(name.to_owned()) };
            RawValue::List(names.map(found).collect())
        }
        SettingKind::Number { .. }
        | SettingKind::Millis(_)
        | SettingKind::Seconds { .. }
        | SettingKind::Address(_)
        | SettingKind::Upstream(_)
        | SettingKind::Certificates(_)
        | SettingKind::RevokedFile(_)
        | SettingKind::Folder(_)
        | SettingKind::Secret(_)
        | SettingKind::Credential(_)
        | SettingKind::Text(_)
        | SettingKind::FieldPath(_)
        | SettingKind::KeysUrl(_)
        | SettingKind::WebhookUrl(_)
        | SettingKind::MessageFormat(_)
        | SettingKind::CollectorUrl(_)
        | SettingKind::WitnessUrl(_)
        | SettingKind::WitnessKey(_)
        | SettingKind::Unwitnessed(_)
        | SettingKind::Origin(_)
        | SettingKind::RedisUrl(_)
        | SettingKind::KeysFile(_)
        | SettingKind::KeptFile(_)
        | SettingKind::KeptFolder(_)
        | SettingKind::Node(_)
        | SettingKind::SetVersion(_)
        | SettingKind::PublicKey(_)
        | SettingKind::Store(_)
        | SettingKind::Durability(_)
        | SettingKind::Answers(_)
        | SettingKind::Unlisted(_)
        | SettingKind::Holds(_)
        | SettingKind::Subjects(_)
        | SettingKind::Loosening(_)
        | SettingKind::LogFormat(_)
        | SettingKind::LogLevel(_) => RawValue::Text(text.to_owned()),
    }
}

/// Whether Kubernetes set the variable: it does so in every container for each service, such as one called `sluice`.
fn is_of_kubernetes(name: &str, value: Option<&str>) -> bool {
    let after_port = name.rsplit_once("_PORT_").map(|(_, rest)| rest);
    let is_url = value.is_some_and(|v| v.starts_with("tcp://") || v.starts_with("udp://"));
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || (name.ends_with("_PORT") && is_url)
        || after_port.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}
