//! Detects that files have changed, without reading them.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use crate::base::digest::Fingerprint;

/// Returns a digest that changes when one of these files does, or when a folder among them gains or loses a file.
pub fn stamp_files(paths: &[PathBuf]) -> io::Result<Fingerprint> {
    let mut parts = Vec::new();
    for path in paths {
        let seen = fs::metadata(path)?;
        let numbers = [seen.mtime(), seen.mtime_nsec(), seen.ctime(), seen.ctime_nsec()].map(i64::to_be_bytes);
        let others = [seen.len(), seen.ino(), seen.dev()].map(u64::to_be_bytes);
        parts.push(path.as_os_str().as_encoded_bytes().to_vec());
        parts.push([numbers.as_flattened(), others.as_flattened()].concat());
    }
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    Ok(Fingerprint::of(&parts))
}
