//! The folder of policies: one way of loading it, for a start, a check and a reload.

mod archive;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use archive::Archive;

use super::glance::look;
use crate::base::digest::Fingerprint;
use crate::base::finding::Finding;
use crate::base::ids::Environment;
use crate::catalog::Catalog;
use crate::config::{Config, CredentialConfig, EnvironmentConfig};
use crate::policy::{Difference, Known, Policies, difference, read};

/// Name and text of a file.
pub type Text = (String, String);

/// Where the policies of a gate stand, and what they may name.
#[derive(Clone, Debug)]
pub struct PolicyFolder {
    folder: PathBuf,
    catalog: Arc<Catalog>,
    issuers: Vec<String>,
    can_share: bool,
    /// Where upstream knows only callers' own tokens: nothing can be sent there later.
    forwarding: Vec<Environment>,
}

/// A set that may take force.
#[derive(Clone, Debug)]
pub struct LoadedPolicies {
    /// What they were read for.
    pub catalog: Arc<Catalog>,
    pub policies: Policies,
    pub warnings: Vec<Finding>,
    /// As it was written.
    pub texts: Vec<Text>,
    /// How the folder looked while it was read.
    pub seen: Fingerprint,
}

impl PolicyFolder {
    /// That of a configuration, which stands in this file. A gate without rules lets nothing pass, and nobody means that.
    pub fn of(config: &Config, catalog: Arc<Catalog>, file: &str) -> Result<PolicyFolder, Vec<Finding>> {
        let Some(folder) = config.policies.clone() else {
            let finding = Finding::error(file, "`policies` is missing: without rules, nothing is allowed");
            return Err(vec![finding.remedy("name the folder of the rules; `sluice init` writes first ones")]);
        };
        let issuers = config.issuers.iter().map(|issuer| issuer.name.clone()).collect();
        let forwards = |one: &&EnvironmentConfig| matches!(one.credential, CredentialConfig::Forward);
        let forwarding = config.environments.iter().filter(forwards).map(|one| one.environment).collect();
        Ok(PolicyFolder { folder, catalog, issuers, can_share: config.redis.is_some(), forwarding })
    }

    /// Reads the set, or tells everything that is wrong with it.
    pub fn load(&self) -> Result<LoadedPolicies, Vec<Finding>> {
        let seen = self.glance().map_err(|error| unreadable(&self.folder, &error))?;
        let texts = texts(&self.folder)?;
        if self.glance().ok() != Some(seen) {
            let finding = Finding::error("", "the policies changed while they were read").remedy("read them again");
            return Err(placed(&self.folder, vec![finding]));
        }
        let read = self.with(|known| read(&texts, known)).map_err(|findings| placed(&self.folder, findings))?;
        let failures = read.policies.failures(&self.catalog);
        if !failures.is_empty() {
            return Err(placed(&self.folder, read.warnings.into_iter().chain(failures).collect()));
        }
        if read.policies.rules.rules.is_empty() {
            let finding = Finding::error("", "there is no `[[rule]]`: nothing would be allowed");
            let finding = finding.remedy("write rules, or begin with those that `sluice init` writes");
            return Err(placed(&self.folder, vec![finding]));
        }
        let unsendable = self.forwarding.iter().filter_map(|one| Some((one, read.policies.rules.holding_in(*one)?)));
        let unsendable: Vec<Finding> = unsendable.map(|(one, name)| unsendable_in(*one, name)).collect();
        if !unsendable.is_empty() {
            return Err(placed(&self.folder, unsendable));
        }
        let warnings = placed(&self.folder, read.warnings);
        Ok(LoadedPolicies { catalog: self.catalog.clone(), policies: read.policies, warnings, texts, seen })
    }

    /// What is odd about a set that may take force: it takes a while to be sure of, and stops nothing.
    pub fn oddities(&self, policies: &Policies) -> Vec<Finding> {
        placed(&self.folder, self.with(|known| policies.oddities(known)))
    }

    /// The same, where the set stands in another folder.
    pub fn at(&self, folder: PathBuf) -> PolicyFolder {
        PolicyFolder { folder, ..self.clone() }
    }

    /// What a new set does otherwise.
    pub fn difference(&self, old: &Policies, new: &Policies) -> Difference {
        self.with(|known| difference(old, new, known))
    }

    fn with<T>(&self, look: impl FnOnce(&Known<'_>) -> T) -> T {
        let issuers: Vec<&str> = self.issuers.iter().map(String::as_str).collect();
        look(&Known { catalog: &self.catalog, issuers: &issuers, can_share: self.can_share })
    }

    /// What changes when a file does, without reading any.
    pub fn glance(&self) -> io::Result<Fingerprint> {
        look(&files(&self.folder)?)
    }
}

/// Name and text of every TOML file of a folder, sorted by name.
pub fn texts(folder: &Path) -> Result<Vec<Text>, Vec<Finding>> {
    let text = |path: PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let text = fs::read_to_string(&path);
        let text = text.map_err(|error| io::Error::new(error.kind(), format!("`{name}`: {error}")))?;
        Ok((name, text))
    };
    let read = files(folder).and_then(|files| files.into_iter().map(text).collect());
    read.map_err(|error| unreadable(folder, &error))
}

/// What people release is sent when its caller is gone, and with whose token?
fn unsendable_in(environment: Environment, name: &str) -> Finding {
    let text = format!(
        "`{name}` lets calls of {environment} wait for people, and `{environment}.credential` is not set: nobody's token \
         would send them"
    );
    let remedy = format!(
        "write `credential` into `[{environment}]`, the token that upstream knows the gate by; or have nothing wait there"
    );
    Finding::error("", text).remedy(remedy)
}

fn unreadable(folder: &Path, error: &io::Error) -> Vec<Finding> {
    let name = folder.display().to_string();
    vec![Finding::error(&name, format!("the policies cannot be read: {error}")).remedy("make its files readable")]
}

/// Findings in files of a folder, with the folder before the names.
pub fn placed(folder: &Path, findings: Vec<Finding>) -> Vec<Finding> {
    let named = |finding: Finding| Finding { file: folder.join(&finding.file).display().to_string(), ..finding };
    findings.into_iter().map(named).collect()
}

fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") && !path.is_dir() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
