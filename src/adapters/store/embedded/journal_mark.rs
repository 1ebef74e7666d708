//! A mark beside the file of a store whose last commits may be in the journal alone.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use super::database::OpenError;

const MARK: &str = "store.needs-journal";
const TEXT: &str =
    "A gate uses the store in this folder, or was killed: the last commits may be in its journal alone.\n";

/// Puts the mark there, on disk.
pub(super) fn put(folder: &Path) -> io::Result<()> {
    let mut file = File::create(folder.join(MARK))?;
    file.write_all(TEXT.as_bytes())?;
    file.sync_all()?;
    File::open(folder)?.sync_all()
}

/// Removes it: the file has everything.
pub(super) fn remove(folder: &Path) {
    if let Err(error) = fs::remove_file(folder.join(MARK)) {
        tracing::warn!(%error, "`{MARK}` cannot be removed from the store's folder");
    }
}

/// Fails where the file may lack the last commits.
pub(super) fn check(folder: &Path) -> Result<(), OpenError> {
    if folder.join(MARK).exists() { Err(OpenError::NeedsJournal(folder.to_owned())) } else { Ok(()) }
}
