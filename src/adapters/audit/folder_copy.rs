//! Whether an audit folder is a copy: a file in it names its own inode and when that was made. A copied file has another
//! inode, or one that was given to it again later.
//!
//! A copy may be older than the folder that it was made from. The store shows whether it is, as long as it is whole; without
//! the store, nobody can tell.

use std::fs::{self, File, Metadata};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::adapters::regular_file::read_regular_text;
use crate::ledger::NodeId;

/// Whether this folder was copied since [`keep_original`] was called, or that was never called.
pub fn is_copy(folder: &Path, node: &NodeId) -> bool {
    let path = path(folder, node);
    let own = fs::metadata(&path).map(|metadata| name_of(&metadata));
    let named = read_regular_text(&path);
    !matches!((own, named), (Ok(own), Ok(named)) if named.trim() == own)
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
    fs::rename(&new, &path)?;
    File::open(folder)?.sync_all()
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
        // The inode of a removed file is given to the next one.
        let named = fs::read_to_string(path(&third, &node)).unwrap();
        let (inode, made) = named.split_once(' ').unwrap();
        fs::write(path(&third, &node), format!("{inode} {made}1")).unwrap();
        assert!(is_copy(&third, &node));
    }
}
