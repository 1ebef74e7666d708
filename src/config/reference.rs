//! The table of settings as a file for people: every setting explained, with its default or an example.

use std::collections::BTreeMap;

use super::environment::OTHERS;
use super::settings::{Absent, Presence, SECTIONS, Section, Setting, Used};

/// Returns `deploy/sluice.toml`: required settings with examples, all others as comments.
pub fn reference() -> String {
    file("Sluice: every setting, its meaning, and its default.", Used::InReference, &BTreeMap::new())
}

/// Returns the file that `sluice init` writes: the same settings, with local values instead of the examples. `chosen` has
/// other values, as TOML, by the full names of settings; of alternatives only the chosen one is set.
pub fn first(chosen: &BTreeMap<&str, String>) -> String {
    file("The configuration of Sluice. `sluice check` reports its errors.", Used::InFirst, chosen)
}

const GENERAL: &str = "\
A setting after `#` has that value by default, or an example value if it says so; remove the `#` to set it.

Names of files and folders are relative to the folder of this file.
A secret is written as `{ file = \"path\" }` or as `{ env = \"NAME\" }`; a secret in plain text causes a warning.
An environment variable can set or override each setting: `SLUICE_`, section and name in capitals, joined by `_`.
`body_ms` of `[timeouts]` is `SLUICE_TIMEOUTS_BODY_MS`; lists are separated by commas there, and a secret is its text.
Issuers and webhooks can only be written here; their secrets may be in variables. Other variables with that prefix
are refused, except those that a secret names here, those that Kubernetes sets, and:";

fn file(title: &str, for_whom: Used, chosen: &BTreeMap<&str, String>) -> String {
    let others = OTHERS.iter().map(|(name, doc)| format!("# `{name}`: {doc}.\n"));
    let mut out = format!("# {title}\n#\n{}{}", comment(GENERAL), others.collect::<String>());
    for section in SECTIONS {
        if !section.name.is_empty() {
            let mark = if section.is_optional() { "# " } else { "" };
            let heading = section.heading_of(example_name(section)).path("");
            out.push_str(&format!("\n\n{}{mark}[{heading}]\n", comment(section.doc)));
        }
        let path = |setting: &Setting| section.heading_of(example_name(section)).path(setting.name);
        let has_chosen = |setting: &Setting| chosen.contains_key(path(setting).as_str());
        let alternatives =
            || section.settings.iter().filter(|setting| matches!(setting.absent, Absent::Another { .. }));
        let is_decided = alternatives().any(has_chosen);
        for setting in section.settings {
            let of_others = is_decided && matches!(setting.absent, Absent::Another { .. });
            let for_whom = if of_others { Used::Nowhere } else { for_whom };
            out.push_str(&entry(section, setting, for_whom, chosen.get(path(setting).as_str())));
        }
    }
    out
}

fn example_name(section: &Section) -> &'static str {
    match section.presence {
        Presence::Always | Presence::IfWritten | Presence::Optional => "",
        Presence::Named { example, .. } => example,
    }
}

fn entry(section: &Section, setting: &Setting, for_whom: Used, chosen: Option<&String>) -> String {
    let is_first = section.settings.first().is_some_and(|first| first.name == setting.name);
    let gap = if is_first && !section.name.is_empty() { "" } else { "\n" };
    let (doc, name) = (comment(setting.doc), setting.name);
    if let Some(value) = chosen {
        return format!("{gap}{doc}{name} = {value}\n");
    }
    match setting.absent {
        Absent::Fault { example, .. } if section.is_optional() => {
            format!("{gap}{doc}# {name} = {example}\n")
        }
        Absent::Fault { first, .. } if for_whom == Used::InFirst => format!("{gap}{doc}{name} = {first}\n"),
        Absent::Another { example, used } if used == for_whom && used != Used::Nowhere => {
            format!("{gap}{doc}{name} = {example}\n")
        }
        Absent::First { example } if for_whom == Used::InFirst => format!("{gap}{doc}{name} = {example}\n"),
        Absent::Fault { example, .. } => format!("{gap}{doc}{name} = {example}\n"),
        Absent::Means(default) => format!("{gap}{doc}# {name} = {default}\n"),
        Absent::Nothing { example } | Absent::First { example } | Absent::Another { example, .. } => {
            format!("{gap}{doc}# Not set; for example:\n# {name} = {example}\n")
        }
    }
}

fn comment(text: &str) -> String {
    let line = |line: &str| if line.is_empty() { "#\n".to_owned() } else { format!("# {line}\n") };
    text.lines().map(line).collect()
}
