//! Every set that took force, by its version: what an auditor reads beside a decision that carries it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::LoadedPolicies;
use crate::commit::NodeId;

/// The end of the name of a folder that is being written.
const UNFINISHED: &str = ".unfinished";
/// Before the name of the node, in the name of the file that says which version is in force.
const IN_FORCE: &str = "in-force.";
/// What the set means, beside what was written: with the digest of the catalogue, and classes and lists written out.
const MEANING: &str = "meaning.json";

/// A folder with a folder for each version.
#[derive(Clone, Debug)]
pub struct Archive {
    folder: PathBuf,
    /// Names the version that this node was last decided by: nodes may share the folder.
    pointer: PathBuf,
}

impl Archive {
    /// Beside the audit chain.
    pub fn beside(audit: &Path, node: &NodeId) -> Archive {
        let folder = audit.join("policies");
        Archive { pointer: folder.join(format!("{IN_FORCE}{node}")), folder }
    }

    /// The version that was last in force at this node; nothing before the first.
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

    /// The folder of a version.
    pub fn folder_of(&self, version: &str) -> PathBuf {
        self.folder.join(version)
    }

    /// Keeps a set, and that it is the one in force; on disk when it returns.
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

    /// On disk when it returns. Two ways of writing one meaning have one version: the first that took force is kept.
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
        let meaning = (MEANING.to_owned(), format!("{:#}\n", set.policies.meaning.told()));
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
