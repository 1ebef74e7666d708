//! The lock of a node's audit files, which names the process that holds it.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::OpenFault;
use super::disk::locked;
use super::folder::{audit_files, lock_file};
use crate::adapters::regular_file::open_regular;
use crate::ledger::NodeId;

/// Takes the lock; it ends with the file.
pub(super) fn lock(path: &Path) -> Result<File, OpenFault> {
    let fault = |error: io::Error| OpenFault::disk(path, &error);
    let file = File::options().create(true).truncate(false).read(true).write(true).open(path).map_err(fault)?;
    // `is_live` holds the lock for a moment.
    const TRIES: u32 = 20;
    for _ in 0..TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(5)),
            Err(TryLockError::Error(error)) => return Err(fault(error)),
        }
    }
    Err(OpenFault::Locked { path: path.to_owned() })
}

/// Fails where a process writes the newest file of a node, although nobody holds the lock file: somebody removed it.
pub(super) fn is_free(folder: &Path, node: &NodeId) -> Result<(), OpenFault> {
    let all = audit_files(folder).map_err(|error| OpenFault::disk(folder, &error))?;
    let Some(newest) = all.into_iter().rfind(|file| file.node == *node) else { return Ok(()) };
    match open_regular(&newest.path).and_then(locked) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Err(OpenFault::Locked { path: newest.path }),
        Err(error) => Err(OpenFault::disk(&newest.path, &error)),
    }
}

/// Writes the new holder's name into the lock; returns the previous holder's. All names are of one length, so that one takes
/// the place of the other also on a full disk.
pub(super) fn signed(lock: &mut File, instance: &str) -> io::Result<Option<String>> {
    let mut former = String::new();
    lock.rewind()?;
    lock.take(64).read_to_string(&mut former)?;
    lock.rewind()?;
    lock.write_all(instance.as_bytes())?;
    lock.set_len(instance.len() as u64)?;
    Ok((!former.is_empty()).then_some(former))
}

/// Whether a process writes the files of a node.
pub fn is_live(folder: &Path, node: &NodeId) -> bool {
    let lock = open_regular(lock_file(folder, node));
    lock.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}
