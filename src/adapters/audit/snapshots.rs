//! Snapshots of the store beside the journal. With one, a rebuild reads only the files from its sequence number on.
//!
//! A snapshot belongs to a journal if a header names it and the hash of its bytes.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::folder::{audit_files, snapshot_file, snapshot_files};
use super::whole_journal::header;
use crate::adapters::disk_trouble::is_trouble;
use crate::adapters::regular_file::open_regular;
use crate::audit::{FileHeader, Hash, SnapshotLink};
use crate::ledger::NodeId;

/// How many bytes of a snapshot are written between two looks at the room on the disk.
const LOOK_AFTER: u64 = 4 << 20;

/// The room on the disk that a snapshot must leave to the journal.
#[derive(Clone, Copy)]
pub struct RoomForJournal<'r> {
    pub bytes: u64,
    /// Returns how many bytes are free.
    pub free: &'r dyn Fn() -> io::Result<u64>,
}

impl std::fmt::Debug for RoomForJournal<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoomForJournal").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl RoomForJournal<'_> {
    fn check(&self) -> io::Result<()> {
        let free = (self.free)()?;
        if free >= self.bytes {
            return Ok(());
        }
        let text = format!("the disk has {free} bytes left, and the journal needs {}: make room", self.bytes);
        Err(io::Error::new(io::ErrorKind::StorageFull, text))
    }
}

/// Returns how many bytes are free on the disk of a folder.
pub fn free_bytes(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// A snapshot whose bytes are those that a header names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    pub node: NodeId,
    pub sequence: u64,
    pub path: PathBuf,
}

/// The newest snapshot of a journal.
#[derive(Debug, Default)]
pub struct NewestSnapshot {
    pub snapshot: Option<SnapshotFile>,
    /// Newer ones that cannot be used.
    pub unfit: Vec<UnfitSnapshot>,
}

/// A snapshot that a header names, and that is not what was written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnfitSnapshot {
    #[error("the snapshot `{path}` was changed", path = .0.display())]
    Changed(PathBuf),
    #[error("the snapshot `{path}` cannot be read: {1}", path = .0.display())]
    Unreadable(PathBuf, String),
}

/// Returns the newest snapshot that a header names and whose bytes it names.
pub fn newest_snapshot(folder: &Path, node: &NodeId) -> io::Result<NewestSnapshot> {
    let mut newest = NewestSnapshot::default();
    let mut seen = None;
    for file in audit_files(folder)?.into_iter().rev().filter(|file| file.node == *node) {
        let link = match header(&file) {
            Ok(header) => header.snapshot,
            Err(error) if is_trouble(&error) => return Err(error),
            // A damaged file is told of by those that read it.
            Err(_) => None,
        };
        let Some(link) = link else { continue };
        if seen.replace(link) == Some(link) {
            continue;
        }
        let path = snapshot_file(folder, node, link.sequence);
        match hash(&path) {
            Ok(found) if found == link.sha256 => {
                newest.snapshot = Some(SnapshotFile { node: node.clone(), sequence: link.sequence, path });
                break;
            }
            Ok(_) => newest.unfit.push(UnfitSnapshot::Changed(path)),
            Err(error) if is_trouble(&error) => return Err(error),
            Err(error) => newest.unfit.push(UnfitSnapshot::Unreadable(path, error.to_string())),
        }
    }
    Ok(newest)
}

/// Whether the journal has grown by more than half of its newest snapshot, so that a new one is worth its cost.
pub fn is_snapshot_due(folder: &Path, newest: &FileHeader) -> io::Result<bool> {
    if newest.sequence <= 1 {
        return Ok(false);
    }
    let Some(last) = newest.snapshot else { return Ok(true) };
    let size = match fs::metadata(snapshot_file(folder, &newest.node, last.sequence)) {
        Ok(found) => found.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    let mut grown = 0_u64;
    for file in audit_files(folder)? {
        if file.node == newest.node && (last.sequence..newest.sequence).contains(&file.sequence) {
            grown = grown.saturating_add(fs::metadata(&file.path)?.len());
        }
    }
    Ok(grown > 0 && grown >= size / 2)
}

/// Writes the snapshot that stands for all files before the newest one. Earlier ones that no header will name again are
/// removed: all but the one that is named now, and the one before this, which the next header may name.
pub fn keep_snapshot(
    folder: &Path,
    newest: &FileHeader,
    room: RoomForJournal<'_>,
    write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> io::Result<SnapshotLink> {
    let path = snapshot_file(folder, &newest.node, newest.sequence);
    // One name for all: what a crash left behind is written over.
    let new = folder.join(format!("audit-{}.snapshot.new", newest.node));
    let written = write_new(&new, room, write).inspect_err(|_| {
        // Where the disk is full, the journal needs the room.
        drop(fs::remove_file(&new));
    });
    let link = SnapshotLink { sequence: newest.sequence, sha256: written? };
    fs::rename(&new, &path)?;
    File::open(folder)?.sync_all()?;
    let named = newest.snapshot.map(|named| named.sequence);
    let all: Vec<_> = snapshot_files(folder)?.into_iter().filter(|old| old.node == newest.node).collect();
    let before = all.iter().map(|old| old.sequence).filter(|sequence| *sequence < link.sequence).max();
    for old in all {
        if old.sequence != link.sequence && ![named, before].contains(&Some(old.sequence)) {
            fs::remove_file(&old.path)?;
        }
    }
    Ok(link)
}

/// Writes a new file to disk, and returns the hash of its bytes.
fn write_new(
    new: &Path,
    room: RoomForJournal<'_>,
    write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> io::Result<Hash> {
    room.check()?;
    let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(new)?;
    let mut writer =
        HashedWriter { inner: BufWriter::with_capacity(1 << 20, file), hash: Sha256::new(), room, unchecked: 0 };
    write(&mut writer)?;
    let HashedWriter { inner, hash, .. } = writer;
    inner.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    Ok(Hash::of_bytes(hash.finalize().into()))
}

/// Writes and hashes, as long as the journal has room.
struct HashedWriter<'r> {
    inner: BufWriter<File>,
    hash: Sha256,
    room: RoomForJournal<'r>,
    /// The bytes since the last look at the room.
    unchecked: u64,
}

impl Write for HashedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unchecked = self.unchecked.saturating_add(bytes.len() as u64);
        if self.unchecked > LOOK_AFTER {
            self.unchecked = 0;
            self.inner.flush()?;
            self.room.check()?;
        }
        let count = self.inner.write(bytes)?;
        self.hash.update(bytes.get(..count).unwrap_or_default());
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

pub(super) fn hash(path: &Path) -> io::Result<Hash> {
    let mut reader = BufReader::new(open_regular(path)?);
    let (mut hash, mut bytes) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match reader.read(&mut bytes)? {
            0 => return Ok(Hash::of_bytes(hash.finalize().into())),
            count => hash.update(bytes.get(..count).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::audit::Highest;
    use crate::ledger::StoreTime;

    fn header() -> FileHeader {
        let (node, at) = (NodeId::parse("gate").unwrap(), StoreTime::default());
        FileHeader { node, sequence: 2, at, highest: Highest::new(), snapshot: None, anew: [].into() }
    }

    /// The disk fills up while the snapshot is written.
    #[test]
    fn a_snapshot_leaves_room_for_the_journal() {
        let home = tempfile::tempdir().unwrap();
        let write = &mut |out: &mut dyn Write| (0..64).try_for_each(|_| out.write_all(&[b'x'; 1 << 18]));
        let left = Cell::new(3_u64);
        let fills_up = || {
            left.set(left.get() - 1);
            Ok(left.get())
        };
        for free in [&fills_up as &dyn Fn() -> io::Result<u64>, &|| Ok(0)] {
            let refused = keep_snapshot(home.path(), &header(), RoomForJournal { bytes: 1, free }, write);
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::StorageFull);
            assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
        }
        let free = || free_bytes(home.path());
        let link = keep_snapshot(home.path(), &header(), RoomForJournal { bytes: 1, free: &free }, write).unwrap();
        assert_eq!(link.sha256, hash(&snapshot_file(home.path(), &header().node, 2)).unwrap());
    }
}
