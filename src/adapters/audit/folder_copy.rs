//! Whether an audit folder is a copy: a file in it names its own inode and that of the folder, and when both were made. What was
//! copied has another inode, or one that was given to it again later.
//!
//! A copy of hard links has the files themselves, in another folder; the file has more than one name meanwhile.
//!
//! A backup that is put back over the folder keeps the inodes of the files that it overwrites. So the file is made anew
//! while the journal grows: the one in the backup names an inode that is gone.
//!
//! A copy may be older than the folder that it was made from. The store shows whether it is, as long as it is whole; without
//! the store, nobody can tell.

use std::fs::{self, File, Metadata};
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
const LONGEST_NAME: u64 = 128;

/// Whether an audit folder is the one that a gate marked last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderOrigin {
    Original,
    Copy,
    /// No gate has marked it.
    Unmarked,
}

pub fn origin(folder: &Path, node: &NodeId) -> FolderOrigin {
    match FolderMark::read(folder, node) {
        Ok(FolderMark { names_itself: true, is_linked: false }) => FolderOrigin::Original,
        Err(error) if error.kind() == ErrorKind::NotFound => FolderOrigin::Unmarked,
        Ok(_) | Err(_) => FolderOrigin::Copy,
    }
}

/// Whether this folder was copied since [`keep_original`] was called, or that was never called.
pub fn is_copy(folder: &Path, node: &NodeId) -> bool {
    origin(folder, node) != FolderOrigin::Original
}

#[derive(Clone, Copy, Debug)]
struct FolderMark {
    names_itself: bool,
    /// The file has another name besides.
    is_linked: bool,
}

impl FolderMark {
    /// All is read of one file: another may take its place meanwhile.
    fn read(folder: &Path, node: &NodeId) -> io::Result<FolderMark> {
        let file = open_regular(&path(folder, node))?;
        let metadata = file.metadata()?;
        let mut named = String::new();
        file.take(LONGEST_NAME).read_to_string(&mut named)?;
        let names_itself = named.trim() == name_of(&metadata, &fs::metadata(folder)?);
        Ok(FolderMark { names_itself, is_linked: metadata.nlink() != 1 })
    }
}

fn name_of(file: &Metadata, folder: &Metadata) -> String {
    format!("{} {}", inode_name(file), inode_name(folder))
}

/// Where the file system does not tell when an inode was made, its number alone names it.
fn inode_name(metadata: &Metadata) -> String {
    let made = metadata.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    format!("{} {}", metadata.ino(), made.unwrap_or_default().as_nanos())
}

/// Makes this folder the original, on disk: the store showed that its journal is not an old one.
pub fn keep_original(folder: &Path, node: &NodeId) -> io::Result<()> {
    let path = path(folder, node);
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    let name = name_of(&file.metadata()?, &fs::metadata(folder)?);
    file.write_all(name.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, &path)?;
    File::open(folder)?.sync_all()
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

    /// Makes the file anew at the start, and where the journal grew since and the time is over, or the log ends, and where it
    /// has another name: in a copy of hard links. A copy stays one.
    pub(super) fn renew(&mut self, stands: (u64, u64), ends: bool) {
        let stands = Some(stands);
        let is_first = self.stood.is_none() && !self.is_failing;
        let is_due = ends || is_first || self.renewed.elapsed() >= RENEWED_AFTER;
        if !is_due || self.folder.check().is_err() {
            return;
        }
        match FolderMark::read(&self.folder, &self.node) {
            Ok(mark) if mark.names_itself && (mark.is_linked || self.stood != stands) => {}
            _ => return,
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
        let (inode, others) = named.split_once(' ').unwrap();
        fs::write(path(&third, &node), format!("{inode} 1{others}")).unwrap();
        assert!(is_copy(&third, &node));
    }

    /// A copy of hard links keeps the inode of each file, also once the original has another one in its place.
    #[test]
    fn a_copy_of_hard_links_is_none_of_the_originals() {
        let (home, node) = (tempfile::tempdir().unwrap(), NodeId::parse("gate-1").unwrap());
        let [first, second] = ["first", "second"].map(|name| home.path().join(name));
        fs::create_dir(&first).unwrap();
        assert_eq!(origin(&first, &node), FolderOrigin::Unmarked);
        keep_original(&first, &node).unwrap();
        let mut mark = OriginalMark::new(AuditFolder::at(&first), node.clone());
        mark.renew((1, 1), true);
        fs::create_dir(&second).unwrap();
        fs::hard_link(path(&first, &node), path(&second, &node)).unwrap();
        assert_eq!([origin(&first, &node), origin(&second, &node)], [FolderOrigin::Copy; 2], "nobody can tell yet");
        // The gate of the original makes its own anew, though its journal did not grow.
        mark.renew((1, 1), true);
        assert_eq!(
            [origin(&first, &node), origin(&second, &node)],
            [FolderOrigin::Original, FolderOrigin::Copy],
            "the file in the copy has one name again"
        );
    }
}
