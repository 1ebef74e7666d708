//! Which errors are trouble of a disk, and not of what somebody configured: they may pass, and nothing on the disk counts as
//! damaged because of them.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// `EIO`: the device does not read or write. The kind of this error has no name.
const DEVICE: i32 = 5;
/// `ENFILE` and `EMFILE`: the machine, or this process, has no file descriptor left. Their kind has no name.
const NO_DESCRIPTORS: [i32; 2] = [23, 24];
/// How many bytes a disk must accept before it counts as having room again.
const ROOM: usize = 1 << 20;
const ROOM_FILE: &str = "room.probe";

/// Whether the disk fails, is full, or is read-only at present.
pub fn is_trouble(error: &io::Error) -> bool {
    let unnamed = io::Error::from_raw_os_error(DEVICE).kind();
    matches!(
        error.kind(),
        ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
            | ErrorKind::FileTooLarge
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::StaleNetworkFileHandle
            | ErrorKind::TimedOut
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NotConnected
            | ErrorKind::OutOfMemory
    ) || error.kind() == unnamed
}

/// Whether a file could not be opened because no file descriptor is left: this says nothing of the file.
pub fn lacks_descriptors(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| NO_DESCRIPTORS.contains(&code))
}

/// Checks whether the disk of a folder takes writes, and has room.
pub fn takes_writes(folder: &Path) -> io::Result<()> {
    let path = folder.join(ROOM_FILE);
    let mut probe = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    let taken = probe.write_all(&vec![1; ROOM]).and_then(|()| probe.sync_all());
    fs::remove_file(&path)?;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_full_read_only_or_broken_is_in_trouble_and_a_wrong_setting_is_not() {
        const FULL: i32 = 28;
        const READ_ONLY: i32 = 30;
        const TOO_LARGE: i32 = 27;
        const UNCLEAN: i32 = 117;
        const QUOTA: i32 = 122;
        const DENIED: i32 = 13;
        const MISSING: i32 = 2;
        const NO_FOLDER: i32 = 20;
        for code in [DEVICE, FULL, READ_ONLY, TOO_LARGE, UNCLEAN, QUOTA] {
            let error = io::Error::from_raw_os_error(code);
            assert!(is_trouble(&error), "{error}");
            assert!(is_trouble(&io::Error::new(error.kind(), format!("`somewhere`: {error}"))), "{error}");
        }
        for code in NO_DESCRIPTORS {
            let error = io::Error::from_raw_os_error(code);
            assert!(is_trouble(&error) && lacks_descriptors(&error), "{error}");
        }
        assert!(!lacks_descriptors(&io::Error::from_raw_os_error(DEVICE)));
        for code in [DENIED, MISSING, NO_FOLDER] {
            assert!(!is_trouble(&io::Error::from_raw_os_error(code)));
        }
        for kind in [ErrorKind::InvalidData, ErrorKind::UnexpectedEof, ErrorKind::Other, ErrorKind::ResourceBusy] {
            assert!(!is_trouble(&io::Error::from(kind)));
        }
    }
}
