//! Detects that files have changed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::disk_trouble::lacks_descriptors;
use super::regular_file::read_regular_text;
use crate::base::digest::Fingerprint;

/// A stamp for each file.
pub type FileStamps = BTreeMap<PathBuf, Fingerprint>;

/// Returns a digest of each of these files that changes when it does, when it vanishes, or when a folder gains or loses a
/// file. Fails where no file descriptor is left, which says nothing of the files.
pub fn stamp_each(paths: &[PathBuf]) -> io::Result<FileStamps> {
    stamp_by(paths, stamp)
}

/// The same of what stands in each file: one that is only touched keeps its stamp.
pub fn stamp_contents(paths: &[PathBuf]) -> io::Result<FileStamps> {
    // A folder among them changes with the names in it.
    stamp_by(paths, |path| match fs::metadata(path)?.is_dir() {
        true => stamp(path),
        false => Ok(stamp_of_text(&read_regular_text(path)?)),
    })
}

/// Returns the stamp of a file with this content.
pub fn stamp_of_text(text: &str) -> Fingerprint {
    Fingerprint::of(&[text.as_bytes()])
}

fn stamp_by(paths: &[PathBuf], stamp: impl Fn(&Path) -> io::Result<Fingerprint>) -> io::Result<FileStamps> {
    let stamp = |path: &PathBuf| match stamp(path) {
        Ok(stamp) => Ok((path.clone(), stamp)),
        Err(error) if lacks_descriptors(&error) => Err(error),
        Err(_) => Ok((path.clone(), missing())),
    };
    paths.iter().map(stamp).collect()
}

/// Returns the stamp of a file that cannot be checked.
pub fn missing() -> Fingerprint {
    Fingerprint::of(&[])
}

fn stamp(path: &Path) -> io::Result<Fingerprint> {
    let seen = fs::metadata(path)?;
    let numbers = [seen.mtime(), seen.mtime_nsec(), seen.ctime(), seen.ctime_nsec()].map(i64::to_be_bytes);
    let others = [seen.len(), seen.ino(), seen.dev()].map(u64::to_be_bytes);
    Ok(Fingerprint::of(&[numbers.as_flattened(), others.as_flattened()]))
}
