//! The contract and the issuer names that a folder of policies is checked against.

use std::path::{Path, PathBuf};

use clap::Args;

use super::GIVEN;
use crate::adapters::policies::{PolicyText, placed, texts, unread};
use crate::base::finding::Finding;
use crate::catalog::Catalog;
use crate::cli::output::OutputFormat;
use crate::cli::{read_config, read_contract};
use crate::config::Config;
use crate::policy::{KnownNames, PolicyReading, read_policies};

#[derive(Debug, Args)]
pub(in crate::cli) struct PolicySetting {
    /// The configuration that names the issuers
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Names of issuers, if no configuration is named; may be given several times
    #[arg(long, value_name = "NAME", default_values = ["main", "console"], conflicts_with = "config")]
    issuer: Vec<String>,
    /// A contract folder to use instead of the built-in contract
    #[arg(long, value_name = "DIR")]
    schemas: Option<PathBuf>,
    /// Text for people, or JSON or CSV for programs
    #[arg(long, value_enum, default_value = "table")]
    pub output: OutputFormat,
}

/// The names that policies may use.
pub(in crate::cli) struct SettingNames {
    pub catalog: Catalog,
    issuers: Vec<String>,
    can_share: bool,
}

impl PolicySetting {
    /// Returns the settings of the gate, if its configuration is named.
    pub(super) fn gate(&self) -> Result<Option<Config>, Vec<Finding>> {
        Ok(self.config.as_deref().map(read_config).transpose()?.map(|reading| reading.config))
    }

    pub(in crate::cli) fn names(&self) -> Result<SettingNames, Vec<Finding>> {
        let config = self.config.as_deref().map(read_config).transpose()?.map(|reading| reading.config);
        let schemas = self.schemas.as_deref().or(config.as_ref().and_then(|c| c.catalog.schemas.as_deref()));
        let enable = config.as_ref().map_or(&[][..], |config| config.catalog.enable.as_slice());
        let (_, catalog) = read_contract(schemas, enable)?;
        let further = config.as_ref().map_or(&[][..], |config| config.catalog.further.as_slice());
        let catalog = catalog.with_further(further, "")?;
        let issuers = match &config {
            Some(config) => config.issuers.iter().map(|issuer| issuer.name.clone()).collect(),
            None => self.issuer.clone(),
        };
        Ok(SettingNames { catalog, issuers, can_share: config.is_none_or(|config| config.redis.is_some()) })
    }
}

impl SettingNames {
    pub(in crate::cli) fn with<T>(&self, look: impl FnOnce(&KnownNames<'_>) -> T) -> T {
        let issuers: Vec<&str> = self.issuers.iter().map(String::as_str).collect();
        look(&KnownNames { catalog: &self.catalog, issuers: &issuers, can_share: self.can_share })
    }

    /// Reads the folder, and with it a request to explain.
    pub(in crate::cli) fn read(&self, folder: &Path, given: Option<&String>) -> Result<PolicyReading, Vec<Finding>> {
        let asked =
            given.map(|given| (GIVEN.to_owned(), format!("[[test]]\nexpect = \"deny\"\ngiven = {{ {given} }}\n")));
        let files: Vec<PolicyText> = texts(folder)?.into_iter().chain(asked).collect();
        let unread = unread(folder).into_iter();
        match self.with(|known| read_policies(&files, known)) {
            Ok(reading) => Ok(PolicyReading { warnings: unread.chain(reading.warnings).collect(), ..reading }),
            Err(findings) => Err(placed(folder, unread.chain(findings).collect())),
        }
    }
}
