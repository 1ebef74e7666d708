//! The file that holds the database, and the access layer between the two.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use redb::StorageBackend;

use crate::adapters::disk_trouble::{is_trouble, takes_writes};
use crate::ledger::StoreFault;

/// How many bytes are copied at a time.
const STRIDE: usize = 1 << 20;

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
        takes_writes(&self.folder)
    }
}

/// An error of the content of a file, or of the disk under it.
pub(in crate::adapters::store) trait OfFile {
    /// Returns the trouble of the disk in the place of damage.
    fn told_from_damage(self, disk: String) -> Self;
}

impl OfFile for StoreFault {
    fn told_from_damage(self, disk: String) -> StoreFault {
        match self {
            StoreFault::Broken(_) => StoreFault::Away(disk),
            fault => fault,
        }
    }
}

/// The failures seen on a medium since it was last repaired.
#[derive(Debug, Default)]
pub(in crate::adapters::store) struct Trouble {
    sync_failed: AtomicBool,
    /// How often the disk was in trouble, and how the last time.
    of_disk: Mutex<(u64, String)>,
}

impl Trouble {
    /// Does work on the medium, and takes no trouble of its disk for damage of the content: redb may panic on either.
    pub fn told_from_damage<T, E: OfFile>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let (before, _) = self.of_disk();
        work().map_err(|error| match self.of_disk() {
            (now, disk) if now != before => error.told_from_damage(disk),
            _ => error,
        })
    }

    fn of_disk(&self) -> (u64, String) {
        self.of_disk.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn noted<T>(&self, done: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &done
            && is_trouble(error)
        {
            let mut of_disk = self.of_disk.lock().unwrap_or_else(PoisonError::into_inner);
            *of_disk = (of_disk.0.saturating_add(1), error.to_string());
        }
        done
    }

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
        self.trouble.noted(self.medium()?.size())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.trouble.noted(self.medium()?.read_at(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.trouble.noted(self.medium()?.set_size(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        let synced = self.trouble.noted(self.medium()?.sync());
        if synced.is_err() {
            self.trouble.sync_failed.store(true, Ordering::SeqCst);
        }
        synced
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.trouble.noted(self.medium()?.write_at(offset, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_damaged_while_the_disk_is_in_trouble_is_not_damaged() {
        let trouble = Trouble::default();
        let broken = || Err::<(), StoreFault>(StoreFault::Broken("a page".to_owned()));
        let in_trouble = |kind: io::ErrorKind| {
            trouble.told_from_damage(|| {
                assert!(trouble.noted(Err::<(), _>(io::Error::from(kind))).is_err());
                broken()
            })
        };
        assert!(matches!(trouble.told_from_damage(broken), Err(StoreFault::Broken(_))));
        assert!(matches!(in_trouble(io::ErrorKind::StorageFull), Err(StoreFault::Away(_))));
        assert!(matches!(in_trouble(io::ErrorKind::UnexpectedEof), Err(StoreFault::Broken(_))));
        // Trouble that is over says nothing of later work.
        assert!(matches!(trouble.told_from_damage(broken), Err(StoreFault::Broken(_))));
    }
}
