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
use crate::audit::{FileHeader, Hash, SnapshotLink};
use crate::ledger::NodeId;

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
        // A damaged file is told of by those that read it.
        let Some(link) = header(&file).ok().and_then(|header| header.snapshot) else { continue };
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
            Err(error) => newest.unfit.push(UnfitSnapshot::Unreadable(path, error.to_string())),
        }
    }
    Ok(newest)
}

/// Whether the journal has grown by more than its newest snapshot, so that a new one is worth its cost.
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
    Ok(grown > 0 && grown >= size)
}

/// Writes the snapshot that stands for all files before the newest one. Earlier ones that no header will name again are
/// removed, all but the one that is named now.
pub fn keep_snapshot(
    folder: &Path,
    newest: &FileHeader,
    write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> io::Result<SnapshotLink> {
    let path = snapshot_file(folder, &newest.node, newest.sequence);
    // One name for all: what a crash left behind is written over.
    let new = folder.join(format!("audit-{}.snapshot.new", newest.node));
    let written = write_new(&new, write).inspect_err(|_| {
        // Where the disk is full, the journal needs the room.
        drop(fs::remove_file(&new));
    });
    let link = SnapshotLink { sequence: newest.sequence, sha256: written? };
    fs::rename(&new, &path)?;
    File::open(folder)?.sync_all()?;
    let named = newest.snapshot.map(|named| named.sequence);
    for old in snapshot_files(folder)?.into_iter().filter(|old| old.node == newest.node) {
        if old.sequence != link.sequence && Some(old.sequence) != named {
            fs::remove_file(&old.path)?;
        }
    }
    Ok(link)
}

/// Writes a new file to disk, and returns the hash of its bytes.
fn write_new(new: &Path, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<Hash> {
    let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(new)?;
    let mut writer = HashedWriter { inner: BufWriter::with_capacity(1 << 20, file), hash: Sha256::new() };
    write(&mut writer)?;
    let HashedWriter { inner, hash } = writer;
    inner.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    Ok(Hash::of_bytes(hash.finalize().into()))
}

/// Writes and hashes.
struct HashedWriter {
    inner: BufWriter<File>,
    hash: Sha256,
}

impl Write for HashedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hash.update(bytes.get(..count).unwrap_or_default());
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

pub(super) fn hash(path: &Path) -> io::Result<Hash> {
    let mut reader = BufReader::new(File::open(path)?);
    let (mut hash, mut bytes) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match reader.read(&mut bytes)? {
            0 => return Ok(Hash::of_bytes(hash.finalize().into())),
            count => hash.update(bytes.get(..count).unwrap_or_default()),
        }
    }
}
