//! Whether an audit folder is a copy: a file in it names its own inode and when that was made. A copied file has another
//! inode, or one that was given to it again later.
//!
//! A backup that is put back over the folder keeps the inodes of the files that it overwrites. So the file is made anew
//! while the journal grows: the one in the backup names an inode that is gone. A backup of hard links has the file itself, which
//! is emptied when another one takes its place.
//!
//! A copy may be older than the folder that it was made from. The store shows whether it is, as long as it is whole; without
//! the store, nobody can tell.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::own_folder::AuditFolder;
use crate::adapters::clock::Stopwatch;
use crate::adapters::regular_file::open_regular;
use crate::ledger::NodeId;

/// How long a journal grows at most before the file is made anew. A backup from so short a time before a kill counts as the
/// original where it is put back over the folder.
const RENEWED_AFTER: Duration = Duration::from_secs(1);
/// No name is longer.
const LONGEST_NAME: u64 = 64;

/// Whether an audit folder is the one that a gate marked last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderOrigin {
    Original,
    Copy,
    /// No gate has marked it.
    Unmarked,
}

pub fn origin(folder: &Path, node: &NodeId) -> FolderOrigin {
    match names_itself(&path(folder, node)) {
        Ok(true) => FolderOrigin::Original,
        Err(error) if error.kind() == ErrorKind::NotFound => FolderOrigin::Unmarked,
        Ok(false) | Err(_) => FolderOrigin::Copy,
    }
}

/// Whether this folder was copied since [`keep_original`] was called, or that was never called.
pub fn is_copy(folder: &Path, node: &NodeId) -> bool {
    origin(folder, node) != FolderOrigin::Original
}

/// Both are read of one file: another may take its place meanwhile.
fn names_itself(path: &Path) -> io::Result<bool> {
    let file = open_regular(path)?;
    let own = name_of(&file.metadata()?);
    let mut named = String::new();
    file.take(LONGEST_NAME).read_to_string(&mut named)?;
    Ok(named.trim() == own)
}

/// Where the file system does not tell when a file was made, its inode alone names it.
fn name_of(metadata: &Metadata) -> String {
    let made = metadata.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    format!("{} {}", metadata.ino(), made.unwrap_or_default().as_nanos())
}

/// Makes this folder the original, on disk: the store showed that its journal is not an old one.
pub fn keep_original(folder: &Path, node: &NodeId) -> io::Result<()> {
    let path = path(folder, node);
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    let name = name_of(&file.metadata()?);
    file.write_all(name.as_bytes())?;
    file.sync_all()?;
    let before = own_file(&path)?;
    fs::rename(&new, &path)?;
    File::open(folder)?.sync_all()?;
    match before {
        Some(before) if before.metadata()?.nlink() > 0 => {
            before.set_len(0)?;
            before.sync_all()
        }
        _ => Ok(()),
    }
}

/// Opens the file of this name to empty it later; `None` where there is none, or it is somewhere else.
fn own_file(path: &Path) -> io::Result<Option<File>> {
    let named = match fs::symlink_metadata(path) {
        Ok(named) if named.is_file() => named,
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(_) | Err(_) => return Ok(None),
    };
    let file = OpenOptions::new().write(true).open(path)?;
    Ok((file.metadata()?.ino() == named.ino()).then_some(file))
}

/// Keeps an original apart from every backup of it.
#[derive(Debug)]
pub(super) struct OriginalMark {
    folder: AuditFolder,
    node: NodeId,
    renewed: Stopwatch,
    /// The file of the journal and its lines at that time.
    stood: Option<(u64, u64)>,
    is_failing: bool,
}

impl OriginalMark {
    pub(super) fn new(folder: AuditFolder, node: NodeId) -> OriginalMark {
        OriginalMark { folder, node, renewed: Stopwatch::start(), stood: None, is_failing: false }
    }

    /// Makes the file anew at the start, and where the journal grew since and the time is over, or the log ends. A copy stays
    /// one.
    pub(super) fn renew(&mut self, stands: (u64, u64), ends: bool) {
        let stands = Some(stands);
        let is_first = self.stood.is_none() && !self.is_failing;
        let is_due = ends || is_first || self.renewed.elapsed() >= RENEWED_AFTER;
        if !is_due || self.stood == stands || self.folder.check().is_err() || is_copy(&self.folder, &self.node) {
            return;
        }
        self.renewed = Stopwatch::start();
        match keep_original(&self.folder, &self.node) {
            Ok(()) => (self.stood, self.is_failing) = (stands, false),
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    let folder = self.folder.display();
                    tracing::warn!(%folder, %error, "a backup that is put back over the audit folder may not be noticed");
                }
            }
        }
    }
}

fn path(folder: &Path, node: &NodeId) -> PathBuf {
    folder.join(format!("audit-{node}.original"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_folder_is_the_original_and_a_copied_one_is_not() {
        let (home, node) = (tempfile::tempdir().unwrap(), NodeId::parse("gate-1").unwrap());
        let [first, second, third] = ["first", "second", "third"].map(|name| home.path().join(name));
        fs::create_dir(&first).unwrap();
        assert!(is_copy(&first, &node));
        keep_original(&first, &node).unwrap();
        assert!(!is_copy(&first, &node));
        fs::rename(&first, &second).unwrap();
        assert!(!is_copy(&second, &node));
        fs::create_dir(&third).unwrap();
        fs::copy(path(&second, &node), path(&third, &node)).unwrap();
        assert!(is_copy(&third, &node));
        keep_original(&third, &node).unwrap();
        assert!(!is_copy(&third, &node) && !is_copy(&second, &node));
        // A backup that is put back over its folder keeps the inode.
        let mut mark = OriginalMark::new(AuditFolder::at(&second), node.clone());
        let backup = fs::read(path(&second, &node)).unwrap();
        mark.renew((1, 1), true);
        assert!(!is_copy(&second, &node));
        fs::write(path(&second, &node), &backup).unwrap();
        assert!(is_copy(&second, &node));
        // A copy is not made an original by entries.
        mark.renew((1, 2), true);
        assert!(is_copy(&second, &node));
        // The inode of a removed file is given to the next one.
        let named = fs::read_to_string(path(&third, &node)).unwrap();
        let (inode, made) = named.split_once(' ').unwrap();
        fs::write(path(&third, &node), format!("{inode} {made}1")).unwrap();
        assert!(is_copy(&third, &node));
    }

    /// A copy of hard links has the file itself, also once the original has another one in its place.
    #[test]
    fn of_a_folder_and_its_hard_links_one_is_the_original() {
        let (home, node) = (tempfile::tempdir().unwrap(), NodeId::parse("gate-1").unwrap());
        let [first, second] = ["first", "second"].map(|name| home.path().join(name));
        [&first, &second].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
        assert_eq!(origin(&first, &node), FolderOrigin::Unmarked);
        keep_original(&first, &node).unwrap();
        fs::hard_link(path(&first, &node), path(&second, &node)).unwrap();
        assert_eq!([&first, &second].map(|folder| origin(folder, &node)), [FolderOrigin::Original; 2], "nothing since");
        // The gate of the original starts, or its journal grows.
        OriginalMark::new(AuditFolder::at(&first), node.clone()).renew((1, 1), false);
        let found = [&first, &second].map(|folder| origin(folder, &node));
        assert_eq!(found, [FolderOrigin::Original, FolderOrigin::Copy]);
        // The file of another place is left alone.
        let elsewhere = home.path().join("elsewhere");
        fs::write(&elsewhere, "kept").unwrap();
        fs::remove_file(path(&second, &node)).unwrap();
        std::os::unix::fs::symlink(&elsewhere, path(&second, &node)).unwrap();
        keep_original(&second, &node).unwrap();
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "kept");
    }
}
