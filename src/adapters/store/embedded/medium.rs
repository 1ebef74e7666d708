//! The file that holds the database, and the access layer between the two.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::StorageBackend;

/// How many bytes are copied at a time.
const STRIDE: usize = 1 << 20;
/// How many bytes a disk must accept before it counts as having room again.
const ROOM: usize = 1 << 20;
const ROOM_FILE: &str = "room.probe";

/// Where the bytes of the store are: a file, or in tests a file that fails on demand.
pub trait Medium: fmt::Debug + Send + Sync {
    fn size(&self) -> io::Result<u64>;
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    fn set_size(&self, size: u64) -> io::Result<()>;
    /// Syncs the file; its content is on disk when this returns.
    fn sync(&self) -> io::Result<()>;
    /// Checks whether the disk accepts new bytes; called after a write failed.
    fn has_room(&self) -> io::Result<()>;
}

/// A file in a folder. The lock belongs to the open file and ends with the process.
#[derive(Debug)]
pub(in crate::adapters::store) struct InFolder {
    pub file: File,
    pub folder: PathBuf,
}

impl Medium for InFolder {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.file.set_len(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn has_room(&self) -> io::Result<()> {
        let path = self.folder.join(ROOM_FILE);
        let mut probe = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        let taken = probe.write_all(&vec![1; ROOM]).and_then(|()| probe.sync_all());
        fs::remove_file(&path)?;
        taken
    }
}

/// The failures seen on a medium since it was last repaired.
#[derive(Debug, Default)]
pub(in crate::adapters::store) struct Trouble {
    sync_failed: AtomicBool,
}

impl Trouble {
    /// Makes the content that can be read from the file equal to the content on disk.
    ///
    /// After a failed fsync the system may hold pages that are not on disk but are marked as written: another fsync
    /// would not write them. So this rewrites every byte in place. A crash in between does no more harm than a crash
    /// before it: pages that are complete on disk do not change.
    pub fn mend(&self, medium: &dyn Medium) -> io::Result<()> {
        if !self.sync_failed.load(Ordering::SeqCst) {
            return Ok(());
        }
        let size = medium.size()?;
        let mut buffer = vec![0; STRIDE];
        let mut offset = 0;
        while offset < size {
            let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(STRIDE).min(STRIDE);
            let chunk = buffer.get_mut(..left).unwrap_or_default();
            medium.read_at(offset, chunk)?;
            medium.write_at(offset, chunk)?;
            offset = offset.saturating_add(left as u64);
        }
        medium.sync()?;
        self.sync_failed.store(false, Ordering::SeqCst);
        Ok(())
    }
}

/// The medium as one opening of the database uses it.
#[derive(Debug)]
pub(super) struct Access {
    pub medium: Arc<dyn Medium>,
    pub trouble: Arc<Trouble>,
    /// Set before the database is reopened: remains of the old one must not touch the file any more.
    pub is_over: Arc<AtomicBool>,
}

impl Access {
    fn medium(&self) -> io::Result<&dyn Medium> {
        if self.is_over.load(Ordering::SeqCst) {
            return Err(io::Error::other("the store was reopened"));
        }
        Ok(&*self.medium)
    }
}

impl StorageBackend for Access {
    fn len(&self) -> io::Result<u64> {
        self.medium()?.size()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.medium()?.read_at(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.medium()?.set_size(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        let synced = self.medium()?.sync();
        if synced.is_err() {
            self.trouble.sync_failed.store(true, Ordering::SeqCst);
        }
        synced
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.medium()?.write_at(offset, data)
    }
}
