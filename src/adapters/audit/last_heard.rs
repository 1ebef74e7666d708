//! When this node last found its store well, and when the other gates stated their last facts then, kept beside the journal.
//!
//! It is written every second and not brought to disk each time: a machine that loses power may lose the newest one.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::adapters::regular_file::read_regular;
use crate::base::ids::Environment;
use crate::base::json;
use crate::ledger::{NodeId, StoreTime};

const FORMAT: u64 = 2;

/// The end of what a process of this node heard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LastHeard {
    /// The store's time.
    #[serde(rename = "atMicros")]
    pub at: StoreTime,
    /// Nothing happened in the store since then that this node may have missed.
    #[serde(rename = "sinceMicros")]
    pub since: StoreTime,
    /// The newest facts that each other gate stated.
    pub stated: BTreeMap<NodeId, LastStated>,
}

/// When a gate stated facts of itself, and whether it ended in order with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LastStated {
    #[serde(rename = "atMicros")]
    pub at: StoreTime,
    pub leaves: bool,
}

impl LastHeard {
    /// Returns what this node heard last; `None` where that is not known.
    pub fn read(folder: &Path, node: &NodeId, environment: Environment) -> Option<LastHeard> {
        json::from_record(&read_regular(&path(folder, node, environment)).ok()?, FORMAT).ok()
    }

    /// Keeps it, whole or not at all.
    pub fn keep(&self, folder: &Path, node: &NodeId, environment: Environment) -> io::Result<()> {
        let path = path(folder, node, environment);
        let new = path.with_extension("heard-new");
        fs::write(&new, json::to_record(self, FORMAT))?;
        fs::rename(&new, &path)
    }
}

fn path(folder: &Path, node: &NodeId, environment: Environment) -> PathBuf {
    folder.join(format!("audit-{node}-{environment}.heard"))
}
