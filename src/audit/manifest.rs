//! The manifest of archived files: what was moved out of an audit folder, and how it joins what stayed.

use serde::{Deserialize, Serialize};

use super::hash::Hash;
use super::line::Highest;
use crate::base::json::{self, FormError, Limits};
use crate::ledger::NodeId;

/// One archived file: a line of the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchivedFile {
    pub node: NodeId,
    pub sequence: u64,
    pub lines: u64,
    pub length: u64,
    /// The hash of all its bytes.
    pub sha256: Hash,
    /// The hash of its last line, which the next file names.
    pub last: Hash,
    /// The highest numbers at its end.
    pub highest: Highest,
}

impl ArchivedFile {
    /// Returns its line, without an end.
    pub fn line(&self) -> String {
        json::to_form(self)
    }

    pub fn read(line: &[u8]) -> Result<ArchivedFile, FormError> {
        json::from_slice(line, Limits::ANSWER)
    }
}
