//! Finds the audit files that a command names.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::adapters::audit::{AuditFile, audit_files, checkpoint_files, manifest_files, named};
use crate::adapters::regular_file::open_regular;
use crate::audit::FileSource;
use crate::cli::progress::ProgressLine;
use crate::ledger::NodeId;

/// One audit file.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Chosen {
    pub(in crate::cli) path: PathBuf,
    shown: String,
    named: Option<AuditFile>,
}

impl Chosen {
    fn of(path: &Path) -> Chosen {
        Chosen { path: path.to_owned(), shown: path.display().to_string(), named: named(path) }
    }
}

impl FileSource for Chosen {
    fn name(&self) -> &str {
        &self.shown
    }

    fn named(&self) -> Option<(&NodeId, u64)> {
        self.named.as_ref().map(|file| (&file.node, file.sequence))
    }

    fn open(&self) -> io::Result<Box<dyn BufRead + '_>> {
        let opened = open_regular(&self.path)
            .map_err(|error| io::Error::new(error.kind(), format!("`{}` cannot be read: {error}", self.shown)));
        Ok(Box::new(BufReader::with_capacity(1 << 20, opened?)))
    }
}

/// Returns the named files and the audit files in the named folders, ordered by node and sequence.
pub(in crate::cli) fn chosen(paths: &[PathBuf]) -> anyhow::Result<Vec<Chosen>> {
    let mut files = Vec::new();
    for path in paths {
        let unreadable = || format!("`{}` cannot be read", path.display());
        if fs::metadata(path).with_context(unreadable)?.is_dir() {
            files.extend(audit_files(path).with_context(unreadable)?.iter().map(|file| Chosen::of(&file.path)));
        } else if !is_checkpoints(path) {
            files.push(Chosen::of(path));
        }
    }
    if files.is_empty() {
        bail!("no audit files were found; their names are audit-<node>-<number>.jsonl");
    }
    files.sort_by(|one, other| one.named.cmp(&other.named));
    Ok(files)
}

/// Returns the progress line of reading these files.
pub(in crate::cli) fn reading(files: &[Chosen]) -> ProgressLine {
    ProgressLine::reading(files.iter().filter_map(|file| fs::metadata(&file.path).ok()).map(|of| of.len()).sum())
}

/// Returns the named checkpoint files and those in the named folders.
pub(in crate::cli) fn checkpoints(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(checkpoint_files(path).with_context(|| format!("`{}` cannot be read", path.display()))?);
        } else if is_checkpoints(path) {
            files.push(path.clone());
        }
    }
    Ok(files)
}

/// Returns the manifests of archived files in the named folders.
pub(in crate::cli) fn manifests(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths.iter().filter(|path| path.is_dir()) {
        files.extend(manifest_files(path).with_context(|| format!("`{}` cannot be read", path.display()))?);
    }
    Ok(files)
}

fn is_checkpoints(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(".checkpoints.jsonl"))
}

/// Returns a file's folder and node.
pub(in crate::cli) fn folder_of(file: &Chosen) -> Option<(&Path, &NodeId)> {
    let folder = file.path.parent()?;
    Some((folder, &file.named.as_ref()?.node))
}
