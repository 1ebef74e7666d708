//! The texts of a contract, as gates hand them to each other through the store.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Catalog;
use super::files::SchemaFiles;
use crate::base::finding::Finding;
use crate::base::json::{self, Limits};

/// Everything that a catalogue is built from. Examples are left out: no call meets them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContractSource {
    /// The schema files and `openapi.json`, by name.
    files: BTreeMap<String, String>,
    /// The operations that are off as shipped, and on here.
    enable: Vec<String>,
    /// The fields of bodies that the contract does not know.
    further: Vec<String>,
}

impl ContractSource {
    pub(super) fn of(files: &SchemaFiles, enable: &[String]) -> ContractSource {
        let text = |(name, content): (&str, &[u8])| {
            let compact = json::parse(content, Limits::ANSWER).map(|value| value.to_string());
            (name.to_owned(), compact.unwrap_or_else(|_| String::from_utf8_lossy(content).into_owned()))
        };
        ContractSource { files: files.schemas().map(text).collect(), enable: enable.to_vec(), further: Vec::new() }
    }

    pub(super) fn with_further(&mut self, further: &[String]) {
        self.further.extend_from_slice(further);
    }

    /// Builds the catalogue again.
    pub fn build(&self) -> Result<Catalog, Vec<Finding>> {
        let mut files = SchemaFiles::default();
        for (name, text) in &self.files {
            files.insert(name, text.clone().into_bytes());
        }
        Catalog::build(&files, &self.enable)?.with_further(&self.further, "the contract in the store")
    }
}
