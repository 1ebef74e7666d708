//! Every set that took force, by its version: what an auditor reads beside a decision that carries it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::LoadedPolicies;

/// The end of the name of a folder that is being written.
const UNFINISHED: &str = ".unfinished";
/// What the set means, beside what was written: with the digest of the catalogue, and classes and lists written out.
const MEANING: &str = "meaning.json";

/// A folder with a folder for each version.
#[derive(Clone, Debug)]
pub struct Archive {
    folder: PathBuf,
}

impl Archive {
    /// Beside the audit chain.
    pub fn beside(audit: &Path) -> Archive {
        Archive { folder: audit.join("policies") }
    }

    /// On disk when it returns. Two ways of writing one meaning have one version: the first that took force is kept.
    pub fn keep(&self, set: &LoadedPolicies) -> io::Result<()> {
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
