//! Keeps every policy set that took force, by version, so that an auditor can read the rules of a decision.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::LoadedPolicies;
use crate::ledger::NodeId;

/// The suffix of a folder that is being written.
const UNFINISHED: &str = ".unfinished";
/// The prefix of the file that says which version is in force; the node's name follows.
const IN_FORCE: &str = "in-force.";
/// The meaning of the set, beside its text: the digest of the catalogue, and classes and lists in full.
const MEANING: &str = "meaning.json";

/// A folder with a subfolder for each version.
#[derive(Clone, Debug)]
pub struct Archive {
    folder: PathBuf,
    /// Names the version that last decided at this node: nodes may share the folder.
    pointer: PathBuf,
}

impl Archive {
    /// Returns the archive beside the audit log.
    pub fn beside(audit: &Path, node: &NodeId) -> Archive {
        let folder = audit.join("policies");
        Archive { pointer: folder.join(format!("{IN_FORCE}{node}")), folder }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the version that was last in force at this node; `None` before the first.
    pub fn in_force(&self) -> io::Result<Option<String>> {
        let text = match fs::read_to_string(&self.pointer) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let version = text.trim();
        let is_version = !version.is_empty() && version.bytes().all(|b| b.is_ascii_hexdigit());
        let fault =
            || io::Error::new(io::ErrorKind::InvalidData, format!("`{}` names no version", self.pointer.display()));
        if is_version { Ok(Some(version.to_owned())) } else { Err(fault()) }
    }

    /// Returns the folder of a version.
    pub fn folder_of(&self, version: &str) -> PathBuf {
        self.folder.join(version)
    }

    /// Keeps a set, and records that it is in force; on disk when this returns.
    pub fn takes_force(&self, set: &LoadedPolicies) -> io::Result<()> {
        self.keep(set)?;
        let unfinished = self
            .pointer
            .with_file_name(format!("{}{UNFINISHED}", self.pointer.file_name().unwrap_or_default().display()));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        file.write_all(format!("{}\n", set.policies.version()).as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, &self.pointer)?;
        File::open(&self.folder)?.sync_all()
    }

    /// Keeps a set; on disk when this returns. Two texts of the same meaning have one version: the first one is kept.
    fn keep(&self, set: &LoadedPolicies) -> io::Result<()> {
        let version = set.policies.version();
        let whole = self.folder.join(version);
        if whole.exists() {
            return Ok(());
        }
        make(&self.folder)?;
        let unfinished = self.folder.join(format!("{version}{UNFINISHED}"));
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        make(&unfinished)?;
        let meaning = (MEANING.to_owned(), format!("{:#}\n", set.policies.meaning.to_json()));
        for (name, text) in set.texts.iter().chain([&meaning]) {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(unfinished.join(name))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
        }
        File::open(&unfinished)?.sync_all()?;
        fs::rename(&unfinished, &whole)?;
        File::open(&self.folder)?.sync_all()
    }
}

fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
