//! The policies that a gate runs on, from their folder.

use std::fs;
use std::io;
use std::path::Path;

use super::in_folder;
use crate::base::finding::Finding;
use crate::catalog::Catalog;
use crate::config::Config;
use crate::policy::{Known, Policies, Reading, read};

/// The files of the set that ships, and what they say.
pub(super) const SHIPPED: [(&str, &str); 4] = [
    ("default.toml", include_str!("../../policies/default.toml")),
    ("people.toml", include_str!("../../policies/people.toml")),
    ("rates.toml", include_str!("../../policies/rates.toml")),
    ("schema.json", include_str!("../../policies/schema.json")),
];

/// The configured set. A gate without rules lets nothing pass, and nobody means that.
pub(super) fn configured(config: &Config, catalog: &Catalog, file: &str) -> Result<Reading, Vec<Finding>> {
    let Some(folder) = config.policies.as_deref() else {
        let finding = Finding::error(file, "`policies` is missing: without rules, nothing is allowed");
        return Err(vec![finding.remedy("name the folder of the rules; `sluice init` writes first ones")]);
    };
    in_files(folder, |files| {
        let mut reading = understood(files, config, catalog)?;
        let warnings = in_folder(Some(folder), std::mem::take(&mut reading.warnings));
        if reading.policies.rules.rules.is_empty() {
            let finding = Finding::error("", "there is no `[[rule]]`: nothing would be allowed");
            return Err(vec![finding.remedy("write rules, or begin with those that `sluice init` writes")]);
        }
        Ok(Reading { warnings, ..reading })
    })
}

/// Reads a folder; names of files in findings have it before them.
pub(super) fn in_files<T>(
    folder: &Path,
    understand: impl FnOnce(&[(String, String)]) -> Result<T, Vec<Finding>>,
) -> Result<T, Vec<Finding>> {
    let files = files(folder).map_err(|error| {
        let name = folder.display().to_string();
        vec![Finding::error(&name, format!("the policies cannot be read: {error}")).remedy("make its files readable")]
    })?;
    understand(&files).map_err(|findings| in_folder(Some(folder), findings))
}

/// The set that ships, with this issuer of people.
pub(super) fn shipped_policies(config: &Config, catalog: &Catalog, people: &str) -> Result<Policies, Vec<Finding>> {
    let file = |(name, text): &(&str, &str)| {
        (name.ends_with(".toml")).then(|| ((*name).to_owned(), text.replace("\"main:", &format!("\"{people}:"))))
    };
    let files: Vec<(String, String)> = SHIPPED.iter().filter_map(file).collect();
    understood(&files, config, catalog).map(|reading| reading.policies)
}

fn understood(files: &[(String, String)], config: &Config, catalog: &Catalog) -> Result<Reading, Vec<Finding>> {
    let issuers: Vec<&str> = config.issuers.iter().map(|issuer| issuer.name.as_str()).collect();
    read(files, &Known { catalog, issuers: &issuers, can_share: config.redis.is_some() })
}

/// Name and text of every TOML file, sorted by name.
fn files(folder: &Path) -> io::Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if name.ends_with(".toml") && !path.is_dir() {
            let named = |error: io::Error| io::Error::new(error.kind(), format!("`{name}`: {error}"));
            files.push((name.to_owned(), fs::read_to_string(&path).map_err(named)?));
        }
    }
    files.sort();
    Ok(files)
}
