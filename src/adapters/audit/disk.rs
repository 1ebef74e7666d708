//! The few things that the chain asks of a disk, so that a test can be a disk that fails.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Files that are written at their end alone.
pub trait Disk: fmt::Debug + Send {
    /// Makes a file that is not there; that it is there outlives a crash.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file that is there.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Removes a file, if it is there.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

pub trait DiskFile: fmt::Debug + Send {
    /// Writes at the end; says how much of it.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// What was written is on the disk.
    fn sync(&mut self) -> io::Result<()>;

    fn cut(&mut self, length: u64) -> io::Result<()>;

    /// How long it is, or an error where another file, or none, stands under its name.
    fn length(&self) -> io::Result<u64>;
}

/// The machine's own.
#[derive(Clone, Copy, Debug)]
pub struct MachineDisk;

#[derive(Debug)]
struct MachineFile {
    file: File,
    path: PathBuf,
}

impl Disk for MachineDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = options().create_new(true).open(path)?;
        sync_folder(path)?;
        Ok(Box::new(MachineFile { file, path: path.to_owned() }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(MachineFile { file: options().open(path)?, path: path.to_owned() }))
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
            return Err(io::Error::other("another file has taken its place"));
        }
        Ok(own.len())
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true).mode(0o640);
    options
}

/// All of the bytes, however many writes that takes.
pub(super) fn write_all(file: &mut dyn DiskFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            // More than there was is not believed of any disk.
            Ok(written) => bytes = bytes.get(written..).ok_or(io::ErrorKind::InvalidData)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A name in a folder is on the disk only after this.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
