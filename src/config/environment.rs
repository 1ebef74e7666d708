//! Settings in environment variables: `SLUICE_`, the section and the name in capitals, joined by `_`.

use super::World;
use super::document::{Found, Raw};
use super::fault::{Fault, Place};
use super::settings::{Heading, Kind, Presence, SECTIONS, Setting};
use crate::base::finding::{Finding, nearest};

pub(super) const PREFIX: &str = "SLUICE_";

/// Variables that start like settings and are none; for the reference.
pub(super) const OTHERS: &[(&str, &str)] = &[
    ("SLUICE_CONFIG", "the configuration file, where `--config` is not given"),
    ("SLUICE_TOKEN", "the token that commands for the console show, where `--token-file` is not given"),
];

/// What the environment says of a setting.
pub(super) fn found(heading: &Heading, setting: &Setting, world: &World<'_>) -> Option<Found> {
    let variable = heading.variable(setting.name)?;
    let value = world.environment.get(&variable)?;
    // A value that is not text is of no type that a setting takes.
    let raw = value.to_str().map_or(Raw::Other("something that is not text"), |text| raw(&setting.kind, text));
    Some(Found { place: Place::Variable(variable), raw })
}

/// Variables that look like settings and are unknown, except those in `named`, which the configuration itself names.
pub(super) fn unknown(world: &World<'_>, named: &[String]) -> Vec<Finding> {
    let once = SECTIONS.iter().filter(|section| !matches!(section.presence, Presence::Named { .. }));
    let known: Vec<String> = once
        .flat_map(|section| section.settings.iter().filter_map(|setting| section.heading().variable(setting.name)))
        .collect();
    let is_known = |name: &String| known.contains(name) || OTHERS.iter().any(|(other, _)| other == name);
    let unknown = world.environment.iter().filter(|(name, value)| {
        name.starts_with(PREFIX) && !is_known(name) && !named.contains(name) && !is_of_kubernetes(name, value.to_str())
    });
    let finding = |name: &String| {
        let fault = Fault::new("there is no such setting");
        let fault = match nearest(name, known.iter().map(String::as_str)) {
            Some(near) => fault.remedy(format!("did you mean `{near}`?")),
            None => fault.remedy("unset it; the settings are listed by `sluice init --reference`"),
        };
        fault.error("", &Place::Variable(name.clone()))
    };
    unknown.map(|(name, _)| finding(name)).collect()
}

fn raw(kind: &Kind, text: &str) -> Raw {
    match kind {
        Kind::Number { .. } | Kind::Millis(_) | Kind::Seconds { .. }
            if text.bytes().all(|b| b.is_ascii_digit() || b == b'_') =>
        {
            Raw::Number(text.replace('_', "").parse().ok())
        }
        Kind::Truth(_) => match text {
            "true" => Raw::Truth(true),
            "false" => Raw::Truth(false),
            other => Raw::Text(other.to_owned()),
        },
        Kind::Names(_)
        | Kind::Texts(_)
        | Kind::Hosts(_)
        | Kind::Environments(_)
        | Kind::Algorithms(_)
        | Kind::FieldPaths(_)
        | Kind::SigningSecrets(_)
        | Kind::Events(_) => {
            let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
            let found = |name: &str| Found { place: Place::Default, raw: Raw::Text(name.to_owned()) };
            Raw::List(names.map(found).collect())
        }
        Kind::Number { .. }
        | Kind::Millis(_)
        | Kind::Seconds { .. }
        | Kind::Address(_)
        | Kind::Upstream(_)
        | Kind::Certificates(_)
        | Kind::RevokedFile(_)
        | Kind::Folder(_)
        | Kind::Secret(_)
        | Kind::Credential(_)
        | Kind::Text(_)
        | Kind::FieldPath(_)
        | Kind::KeysUrl(_)
        | Kind::WebhookUrl(_)
        | Kind::MessageFormat(_)
        | Kind::CollectorUrl(_)
        | Kind::Origin(_)
        | Kind::RedisUrl(_)
        | Kind::KeysFile(_)
        | Kind::KeptFile(_)
        | Kind::KeptFolder(_)
        | Kind::Node(_)
        | Kind::PublicKey(_)
        | Kind::Store(_)
        | Kind::Durability(_)
        | Kind::Answers(_)
        | Kind::Holds(_)
        | Kind::Loosening(_)
        | Kind::LogFormat(_)
        | Kind::LogLevel(_) => Raw::Text(text.to_owned()),
    }
}

/// Kubernetes gives every container such variables for each service, so also for one that is called `sluice`.
fn is_of_kubernetes(name: &str, value: Option<&str>) -> bool {
    let after_port = name.rsplit_once("_PORT_").map(|(_, rest)| rest);
    let is_url = value.is_some_and(|v| v.starts_with("tcp://") || v.starts_with("udp://"));
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || (name.ends_with("_PORT") && is_url)
        || after_port.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}
