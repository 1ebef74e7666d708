//! Decides when the files of the configuration are read again.

use std::io;
use std::path::PathBuf;

use crate::adapters::disk_trouble::lacks_descriptors;
use crate::adapters::file_stamp;
use crate::adapters::policies::PolicyFolder;
use crate::base::digest::Fingerprint;

/// A stamp of all files; nothing if they could not be checked.
pub(super) type FilesStamp = Option<Fingerprint>;

/// Decides when changed files are read.
#[derive(Debug)]
pub(super) struct FileWatch {
    /// The stamp of the last read.
    pub read: FilesStamp,
    /// The stamp of the last check.
    pub last: FilesStamp,
}

impl FileWatch {
    /// Returns whether the files have changed since the last read, and not since the last check.
    pub fn is_due(&mut self, now: FilesStamp, is_asked: bool) -> bool {
        let is_stable = now == self.last;
        self.last = now;
        let is_due = is_asked || (is_stable && now != self.read);
        if is_due {
            self.read = now;
        }
        is_due
    }

    /// Forgets the last read, which was none: the files are read at the next check.
    pub fn forget(&mut self) {
        self.read = None;
    }
}

/// Returns a stamp of all files that can be reloaded; fails where no file descriptor is left, which says nothing of them.
pub(super) fn stamp_files(folder: &PolicyFolder, files: &[PathBuf]) -> io::Result<FilesStamp> {
    match folder.glance().and_then(|policies| Ok((policies, file_stamp::stamp_files(files)?))) {
        Ok((policies, others)) => {
            Ok(Some(Fingerprint::of(&[policies.to_hex().as_bytes(), others.to_hex().as_bytes()])))
        }
        Err(error) if lacks_descriptors(&error) => Err(error),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_being_written_is_not_read_before_it_is_stable() {
        let seen = |text: &str| Some(Fingerprint::of(&[text.as_bytes()]));
        let mut watch = FileWatch { read: seen("a"), last: seen("a") };
        let looks = [
            ("a", false, false),
            ("a b", false, false),
            ("a b c", false, false),
            ("a b c", false, true),
            ("a b c", false, false),
            ("d", false, false),
            ("a b c", false, false),
            ("a b c", false, false),
            // After SIGHUP, files are read at once.
            ("e", true, true),
            ("e", false, false),
            ("f", false, false),
            ("f", false, true),
        ];
        for (at, (now, is_asked, is_due)) in looks.into_iter().enumerate() {
            assert_eq!(watch.is_due(seen(now), is_asked), is_due, "{at}");
        }
        // A folder that disappeared, and came back unchanged.
        let looks = [None, None, None, seen("f"), seen("f"), seen("f")];
        assert_eq!(looks.map(|now| watch.is_due(now, false)), [false, true, false, false, true, false]);
    }
}
