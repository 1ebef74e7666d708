//! The operations that the audit log needs of a disk, so that tests can use one that fails.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A disk whose files are only appended to.
pub trait Disk: fmt::Debug + Send {
    /// Creates a new file; its name survives a crash.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens an existing file.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Removes a file, if it exists.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

pub trait DiskFile: fmt::Debug + Send {
    /// Appends bytes; returns how many were written.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Syncs the file: what was written is on disk.
    fn sync(&mut self) -> io::Result<()>;

    fn cut(&mut self, length: u64) -> io::Result<()>;

    /// Returns the length; an error if another file, or none, is now at its path.
    fn length(&self) -> io::Result<u64>;
}

/// The local disk.
#[derive(Clone, Copy, Debug)]
pub struct MachineDisk;

#[derive(Debug)]
struct MachineFile {
    file: File,
    path: PathBuf,
}

impl Disk for MachineDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = locked(options().create_new(true).open(path)?)?;
        sync_folder(path)?;
        Ok(Box::new(MachineFile { file, path: path.to_owned() }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(MachineFile { file: locked(options().open(path)?)?, path: path.to_owned() }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Ok(()) => sync_folder(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl DiskFile for MachineFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn length(&self) -> io::Result<u64> {
        let (own, named) = (self.file.metadata()?, fs::metadata(&self.path)?);
        if (own.dev(), own.ino()) != (named.dev(), named.ino()) {
            return Err(io::Error::other("another file is now at its path"));
        }
        Ok(own.len())
    }
}

/// Locks a file of the journal for this process, which may have lost the lock file beside it.
pub(super) fn locked(file: File) -> io::Result<File> {
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(io::Error::new(io::ErrorKind::ResourceBusy, "another process writes it")),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true).mode(0o640);
    options
}

/// Writes all of the bytes, in as many writes as that takes.
pub(super) fn write_all(file: &mut dyn DiskFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            // A disk cannot have written more than it was given.
            Ok(written) => bytes = bytes.get(written..).ok_or(io::ErrorKind::InvalidData)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Syncs a folder: only then is a new name in it on disk.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
