//! The folder of this gate's audit log: the very folder that the gate opened, and no other one in its place.
//!
//! A folder may be moved away, or its disk may be gone and leave the folder on which it was mounted. Whatever were made there
//! then would stand in the way of those who bring the folder back, and be missing once they did.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::ops::Deref;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The remedy where a folder or a file is missing.
const BRING_BACK: &str = "mount its disk, or put it back with all files; the gate goes on by itself";

/// The folder of an audit log. All clones know which folder the log has opened.
#[derive(Clone, Debug)]
pub struct AuditFolder {
    path: PathBuf,
    /// Device and inode; `None` until the log is open.
    opened: Arc<Mutex<Option<(u64, u64)>>>,
}

impl AuditFolder {
    pub fn at(path: &Path) -> AuditFolder {
        AuditFolder { path: path.to_owned(), opened: Arc::default() }
    }

    /// Makes the folder, for a log that is to be opened.
    pub(super) fn make(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path)
    }

    /// Notes that the log is opened here.
    pub(super) fn opens(&self) -> io::Result<()> {
        let found = fs::metadata(&self.path)?;
        let before = self.opened.lock().unwrap_or_else(PoisonError::into_inner).replace((found.dev(), found.ino()));
        // The device may have another number since it was mounted again.
        if before.is_some_and(|(_, inode)| inode != found.ino()) {
            tracing::warn!(
                folder = %self.path.display(),
                "another audit folder is in the place of the one that this gate had opened; the gate goes on in it. If it is a \
                 copy, the next start closes money: put the original back, if nothing was written since"
            );
        }
        Ok(())
    }

    /// Makes a folder in it. Before the log is opened, at the first start, that makes the folder itself, too.
    pub fn make_inside(&self, folder: &Path) -> io::Result<()> {
        self.check()?;
        let is_open = self.opened.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        match DirBuilder::new().recursive(!is_open).mode(0o700).create(folder) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
            made => made,
        }
    }

    /// Fails where the log is open, and another folder, or none, is now in the place of its own.
    pub fn check(&self) -> io::Result<()> {
        let Some(opened) = *self.opened.lock().unwrap_or_else(PoisonError::into_inner) else { return Ok(()) };
        let found = fs::metadata(&self.path).map(|found| (found.dev(), found.ino()));
        match found {
            Ok(found) if found == opened => Ok(()),
            Ok(_) => Err(io::Error::new(ErrorKind::NotConnected, missing(&self.path))),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(io::Error::new(ErrorKind::NotConnected, missing(&self.path)))
            }
            Err(error) => Err(io::Error::new(error.kind(), format!("`{}`: {error}", self.path.display()))),
        }
    }
}

impl Deref for AuditFolder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<Path> for AuditFolder {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

/// Whether an error says that the audit folder is missing. The watch of the log tells of it.
pub fn is_missing_folder(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotConnected
}

/// Names the file of an error, and says how to bring back what is missing.
pub(super) fn named(path: &Path, error: &io::Error) -> io::Error {
    let folder = path.parent().filter(|_| error.kind() == ErrorKind::NotFound);
    let text = folder.map_or_else(|| format!("`{}`: {error}", path.display()), missing);
    io::Error::new(error.kind(), text)
}

fn missing(folder: &Path) -> String {
    match folder.is_dir() {
        false => format!("the folder `{}` is missing: {BRING_BACK}", folder.display()),
        true => format!("`{}` lacks the file of this gate's journal: {BRING_BACK}", folder.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_made_in_another_folder_than_the_one_that_was_opened() {
        let home = tempfile::tempdir().unwrap();
        let (path, away) = (home.path().join("audit"), home.path().join("away"));
        let folder = AuditFolder::at(&path);
        // The very first start: what is beside the log comes first.
        folder.make_inside(&folder.join("policies")).unwrap();
        folder.make().unwrap();
        folder.opens().unwrap();
        let make =
            || folder.make_inside(&folder.join("policies")).and_then(|()| folder.make_inside(&folder.join("other")));
        make().unwrap();
        fs::rename(&path, &away).unwrap();
        let told = make().unwrap_err();
        assert!(is_missing_folder(&told) && told.to_string().contains("is missing: mount its disk"), "{told}");
        assert!(!path.exists());
        fs::create_dir(&path).unwrap();
        let told = make().unwrap_err();
        assert!(
            is_missing_folder(&told) && told.to_string().contains("lacks the file of this gate's journal"),
            "{told}"
        );
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        fs::remove_dir(&path).unwrap();
        fs::rename(&away, &path).unwrap();
        make().unwrap();
    }
}
