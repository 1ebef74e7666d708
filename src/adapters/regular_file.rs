//! Reads files that people write: configuration, policies, contracts, secrets. A name may lead anywhere, and whoever may write
//! one of their folders must neither stop a gate nor fill its memory.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The largest file that is read. The contract's largest is below a mebibyte.
pub const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Opens a pipe or a device without waiting for another process: `O_NONBLOCK` and `O_NOCTTY` on Linux.
const AT_ONCE: i32 = 0o4000 | 0o400;

/// Opens a regular file; anything else fails at once.
pub fn open_regular(path: impl AsRef<Path>) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(AT_ONCE).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "this is not a regular file")),
    }
}

/// Reads a regular file of at most `MAX_FILE_BYTES`.
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open_regular(path)?.take(MAX_FILE_BYTES.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_FILE_BYTES {
        let why = format!("it is larger than {} MiB", MAX_FILE_BYTES >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(content)
}

/// Reads such a file on a thread that may block.
pub async fn read_regular_aside(path: &Path) -> io::Result<Vec<u8>> {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || read_regular(&path)).await.map_err(io::Error::other)?
}

/// Reads the text of such a file.
pub fn read_regular_text(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read_regular(path.as_ref())?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "this is not UTF-8 text"))
}
