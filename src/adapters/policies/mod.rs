//! The policy folder: one way to load it, for a start, a check and a reload.

mod archive;
mod files;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use archive::{Archive, FollowedSets, Proposed};
use files::files;
pub use files::{texts, unread};

use jiff::Timestamp;

use super::disk_trouble::lacks_descriptors;
use super::file_stamp::{FileStamps, missing, stamp_contents, stamp_each, stamp_of_text};
use crate::base::finding::Finding;
use crate::base::ids::Environment;
use crate::catalog::Catalog;
use crate::config::{Config, CredentialConfig, EnvironmentConfig};
use crate::policy::{Difference, KnownNames, Policies, difference, read_policies};

/// The name and the text of a file.
pub type PolicyText = (String, String);

/// The folder of a gate's policies, and the names that they may use.
#[derive(Clone, Debug)]
pub struct PolicyFolder {
    folder: PathBuf,
    catalog: Arc<Catalog>,
    issuers: Vec<String>,
    webhooks: Vec<String>,
    can_share: bool,
    /// The environments without a credential, where upstream gets callers' own tokens: nothing can be sent there later.
    forwarding: Vec<Environment>,
}

/// A policy set that may take force.
#[derive(Clone, Debug)]
pub struct LoadedPolicies {
    /// The catalogue that it was read for.
    pub catalog: Arc<Catalog>,
    pub policies: Policies,
    pub warnings: Vec<Finding>,
    /// The files as written.
    pub texts: Vec<PolicyText>,
}

impl PolicyFolder {
    /// Returns the folder that a configuration file names. A gate without rules allows nothing, so the folder is
    /// required.
    pub fn of(config: &Config, catalog: Arc<Catalog>, file: &str) -> Result<PolicyFolder, Vec<Finding>> {
        let Some(folder) = config.policies.clone() else {
            let finding = Finding::error(file, "`policies` is missing: without rules, nothing is allowed");
            return Err(vec![finding.remedy("name the folder with the rules; `sluice init` writes an example")]);
        };
        let issuers = config.issuers.iter().map(|issuer| issuer.name.clone()).collect();
        let forwards = |one: &&EnvironmentConfig| matches!(one.credential, CredentialConfig::Forward);
        let forwarding = config.environments.iter().filter(forwards).map(|one| one.environment).collect();
        let webhooks = config.webhooks.iter().map(|webhook| webhook.name.clone()).collect();
        Ok(PolicyFolder { folder, catalog, issuers, webhooks, can_share: config.redis.is_some(), forwarding })
    }

    /// Reads the set, or returns all findings.
    pub fn load(&self) -> Result<LoadedPolicies, Vec<Finding>> {
        let read = texts(&self.folder)?;
        if texts(&self.folder)? != read {
            let finding = Finding::error("", "the policy files changed while they were read").remedy("read them again");
            return Err(placed(&self.folder, vec![finding]));
        }
        let unread = placed(&self.folder, unread(&self.folder));
        match self.read(read) {
            Ok(set) => Ok(LoadedPolicies { warnings: unread.into_iter().chain(set.warnings).collect(), ..set }),
            Err(findings) => Err(unread.into_iter().chain(findings).collect()),
        }
    }

    /// Reads a set from its texts, or returns all findings.
    pub fn read(&self, texts: Vec<PolicyText>) -> Result<LoadedPolicies, Vec<Finding>> {
        let read =
            self.with(|known| read_policies(&texts, known)).map_err(|findings| placed(&self.folder, findings))?;
        let failures = read.policies.failures(&self.catalog);
        if !failures.is_empty() {
            return Err(placed(&self.folder, read.warnings.into_iter().chain(failures).collect()));
        }
        if read.policies.rules.rules.is_empty() {
            let finding = Finding::error("", "the policies have no `[[rule]]`: nothing would be allowed");
            let finding = finding.remedy("write rules, or start with the example of `sluice init`");
            return Err(placed(&self.folder, vec![finding]));
        }
        let unsendable = self.forwarding.iter().filter_map(|one| Some((one, read.policies.rules.holding_in(*one)?)));
        let unsendable: Vec<Finding> = unsendable.map(|(one, name)| unsendable_in(*one, name)).collect();
        if !unsendable.is_empty() {
            return Err(placed(&self.folder, unsendable));
        }
        let unheard: Vec<Finding> = self.unheard(&read.policies).collect();
        if !unheard.is_empty() {
            return Err(placed(&self.folder, unheard));
        }
        let warnings = placed(&self.folder, read.warnings);
        Ok(LoadedPolicies { catalog: self.catalog.clone(), policies: read.policies, warnings, texts })
    }

    /// Returns a finding for each webhook that a limit names and the configuration does not have.
    fn unheard<'p>(&'p self, policies: &'p Policies) -> impl Iterator<Item = Finding> + 'p {
        let named =
            policies.rules.limits.iter().flat_map(|limit| limit.alert.iter().map(move |name| (&limit.id, name)));
        let unknown = named.filter(|(_, name)| !self.webhooks.iter().any(|known| **known == ***name));
        unknown.map(|(limit, name)| {
            let text = format!("limit `{limit}` alerts `{name}`, and the configuration has no `[webhook.{name}]`");
            Finding::error("", text).remedy("add the webhook to the configuration, or correct `alert`")
        })
    }

    /// Returns warnings about a valid set, what expires among them; the analysis takes a while, and blocks nothing.
    pub fn oddities(&self, policies: &Policies, now: Timestamp) -> Vec<Finding> {
        let mut found = self.with(|known| policies.oddities(known));
        found.extend(policies.endings(now));
        placed(&self.folder, found)
    }

    /// Returns the same settings for another folder.
    pub fn at(&self, folder: PathBuf) -> PolicyFolder {
        PolicyFolder { folder, ..self.clone() }
    }

    /// Returns the same settings for another contract.
    pub fn with_catalog(&self, catalog: Arc<Catalog>) -> PolicyFolder {
        PolicyFolder { catalog, ..self.clone() }
    }

    /// Compares two sets.
    pub fn difference(&self, old: &Policies, new: &Policies) -> Difference {
        self.with(|known| difference(old, new, known))
    }

    fn with<T>(&self, look: impl FnOnce(&KnownNames<'_>) -> T) -> T {
        let issuers: Vec<&str> = self.issuers.iter().map(String::as_str).collect();
        look(&KnownNames { catalog: &self.catalog, issuers: &issuers, can_share: self.can_share })
    }

    /// Returns a stamp of the content of each file, which touching it does not change; of the folder, if it cannot be read.
    pub fn stamps(&self) -> io::Result<FileStamps> {
        match files(&self.folder) {
            Ok(files) => stamp_contents(&files),
            Err(error) if lacks_descriptors(&error) => Err(error),
            Err(_) => Ok(FileStamps::from([(self.folder.clone(), missing())])),
        }
    }

    /// Returns the stamps of the files with the content that was read, which may have changed since.
    pub fn stamps_of(&self, set: &LoadedPolicies) -> FileStamps {
        set.texts.iter().map(|(name, text)| (self.folder.join(name), stamp_of_text(text))).collect()
    }

    /// Returns a stamp of each file that also touching it changes: no write between two of them goes unnoticed.
    pub fn stamps_of_writes(&self) -> io::Result<FileStamps> {
        match files(&self.folder) {
            Ok(files) => stamp_each(&files),
            Err(error) if lacks_descriptors(&error) => Err(error),
            Err(_) => Ok(FileStamps::new()),
        }
    }
}

/// Returns the finding for holds without a credential: a released call is sent when its caller and the caller's token
/// are gone.
fn unsendable_in(environment: Environment, name: &str) -> Finding {
    let text = format!(
        "`{name}` lets calls of {environment} wait for people, and `{environment}.credential` is not set: nobody's token \
         would send them"
    );
    let remedy = format!(
        "set `credential` in `[{environment}]` to the gate's own token for upstream; or remove approvals there"
    );
    Finding::error("", text).remedy(remedy)
}

/// Returns findings with the folder before their file names.
pub fn placed(folder: &Path, findings: Vec<Finding>) -> Vec<Finding> {
    let named = |finding: Finding| Finding { file: folder.join(&finding.file).display().to_string(), ..finding };
    findings.into_iter().map(named).collect()
}
