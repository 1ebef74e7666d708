//! The names of the files in an audit folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::ledger::NodeId;

const SUFFIX: &str = ".jsonl";
const CHECKPOINTS: &str = ".checkpoints.jsonl";
const MANIFEST: &str = ".archived.jsonl";
const SNAPSHOT: &str = ".snapshot";

/// A file of the audit log, by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditFile {
    pub node: NodeId,
    pub sequence: u64,
    pub path: PathBuf,
}

/// `audit-<node>-<sequence>.jsonl`, the sequence with 8 digits.
pub fn audit_file(folder: &Path, node: &NodeId, sequence: u64) -> PathBuf {
    folder.join(format!("audit-{node}-{sequence:08}{SUFFIX}"))
}

/// `audit-<node>-<sequence>.snapshot`
pub(super) fn snapshot_file(folder: &Path, node: &NodeId, sequence: u64) -> PathBuf {
    folder.join(format!("audit-{node}-{sequence:08}{SNAPSHOT}"))
}

/// `audit-<node>.archived.jsonl`
pub(super) fn manifest_file(folder: &Path, node: &NodeId) -> PathBuf {
    folder.join(format!("audit-{node}{MANIFEST}"))
}

/// `audit-<node>.checkpoints.jsonl`
pub fn checkpoints_file(folder: &Path, node: &NodeId) -> PathBuf {
    folder.join(format!("audit-{node}{CHECKPOINTS}"))
}

/// Returns the path of the lock that the process holds which writes a node's files.
pub fn lock_file(folder: &Path, node: &NodeId) -> PathBuf {
    folder.join(format!("audit-{node}.lock"))
}

/// `audit-<node>.id`
pub fn journal_id_file(folder: &Path, node: &NodeId) -> PathBuf {
    folder.join(format!("audit-{node}.id"))
}

/// `audit-<node>.seal-keys`
pub fn seal_keys_file(folder: &Path, node: &NodeId) -> PathBuf {
    folder.join(format!("audit-{node}.seal-keys"))
}

/// `audit-<node>.salt`
pub(super) fn salt_file(folder: &Path, node: &NodeId) -> PathBuf {
    folder.join(format!("audit-{node}.salt"))
}

/// `audit-<node>.tree`
pub(super) fn tree_folder(folder: &Path, node: &NodeId) -> PathBuf {
    folder.join(format!("audit-{node}.tree"))
}

/// Parses the name of a file of the audit log.
pub fn named(path: &Path) -> Option<AuditFile> {
    numbered(path, SUFFIX)
}

fn numbered(path: &Path, suffix: &str) -> Option<AuditFile> {
    let stem = path.file_name()?.to_str()?.strip_prefix("audit-")?.strip_suffix(suffix)?;
    let (node, digits) = stem.rsplit_once('-')?;
    let sequence = digits.parse().ok().filter(|_| digits.len() >= 8 && digits.bytes().all(|b| b.is_ascii_digit()))?;
    Some(AuditFile { node: NodeId::parse(node)?, sequence, path: path.to_owned() })
}

/// Returns the files of the audit log in a folder, by node and sequence.
pub fn audit_files(folder: &Path) -> io::Result<Vec<AuditFile>> {
    all_numbered(folder, SUFFIX)
}

/// Returns the snapshots in a folder, by node and sequence.
pub(super) fn snapshot_files(folder: &Path) -> io::Result<Vec<AuditFile>> {
    all_numbered(folder, SNAPSHOT)
}

fn all_numbered(folder: &Path, suffix: &str) -> io::Result<Vec<AuditFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        files.extend(numbered(&entry?.path(), suffix));
    }
    files.sort();
    Ok(files)
}

/// Returns the files of checkpoints in a folder.
pub fn checkpoint_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    all_ending(folder, CHECKPOINTS)
}

/// Returns the manifests of archived files in a folder.
pub fn manifest_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    all_ending(folder, MANIFEST)
}

fn all_ending(folder: &Path, suffix: &str) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("audit-") && name.ends_with(suffix) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_node_and_sequence() {
        let node = NodeId::parse("gate-1.eu").unwrap();
        let path = audit_file(Path::new("/a"), &node, 12);
        assert_eq!(path, Path::new("/a/audit-gate-1.eu-00000012.jsonl"));
        assert_eq!(named(&path), Some(AuditFile { node: node.clone(), sequence: 12, path: path.clone() }));
        assert_eq!(named(&checkpoints_file(Path::new("/a"), &node)), None);
        for other in ["audit-a-1.jsonl", "audit-00000001.jsonl", "audit-a-+0000001.jsonl", "b-a-00000001.jsonl"] {
            assert_eq!(named(Path::new(other)), None, "{other}");
        }
    }
}
