//! Which files are meant.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::adapters::audit::{AuditFile, audit_files, checkpoint_files, named};
use crate::chain::Source;
use crate::commit::NodeId;

/// A file of the chain.
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

impl Source for Chosen {
    fn name(&self) -> &str {
        &self.shown
    }

    fn named(&self) -> Option<(&NodeId, u64)> {
        self.named.as_ref().map(|file| (&file.node, file.sequence))
    }

    fn open(&self) -> io::Result<Box<dyn BufRead + '_>> {
        let opened = File::open(&self.path)
            .map_err(|error| io::Error::new(error.kind(), format!("`{}` cannot be read: {error}", self.shown)));
        Ok(Box::new(BufReader::with_capacity(1 << 20, opened?)))
    }
}

/// The files that are named, and those in folders that are; ordered by node and sequence.
pub(in crate::cli) fn chosen(paths: &[PathBuf]) -> anyhow::Result<Vec<Chosen>> {
    let mut files = Vec::new();
    for path in paths {
        let told = || format!("`{}` cannot be read", path.display());
        if fs::metadata(path).with_context(told)?.is_dir() {
            files.extend(audit_files(path).with_context(told)?.iter().map(|file| Chosen::of(&file.path)));
        } else if !is_checkpoints(path) {
            files.push(Chosen::of(path));
        }
    }
    if files.is_empty() {
        bail!("there are no audit files; they are called audit-<node>-<number>.jsonl");
    }
    files.sort_by(|one, other| one.named.cmp(&other.named));
    Ok(files)
}

/// The files of checkpoints that are named, and those in folders that are.
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

fn is_checkpoints(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(".checkpoints.jsonl"))
}

/// The folders that files stand in.
pub(in crate::cli) fn folder_of(file: &Chosen) -> Option<(&Path, &NodeId)> {
    let folder = file.path.parent()?;
    Some((folder, &file.named.as_ref()?.node))
}
