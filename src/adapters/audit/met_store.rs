//! The identity of the store that a journal belongs to, kept beside it.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::adapters::regular_file::read_regular_text;
use crate::base::ids::Environment;
use crate::ledger::NodeId;

/// Returns the identity of the store that this node's journal last met.
pub fn met_store(folder: &Path, node: &NodeId, environment: Environment) -> Option<String> {
    let text = read_regular_text(path(folder, node, environment)).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Keeps it, on disk.
pub fn keep_met_store(folder: &Path, node: &NodeId, environment: Environment, store: &str) -> io::Result<()> {
    let path = path(folder, node, environment);
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(store.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, &path)?;
    File::open(folder)?.sync_all()
}

fn path(folder: &Path, node: &NodeId, environment: Environment) -> PathBuf {
    folder.join(format!("audit-{node}-{environment}.store"))
}
