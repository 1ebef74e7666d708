//! Moves finished files of the audit log to an archive, once a snapshot stands for them.
//!
//! A file is copied, its copy is read again, the manifest names it, and only then it is removed. After an interruption,
//! the same call goes on. A name that leads to the file itself is no copy of it, by whatever way it leads there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::folder::{AuditFile, audit_files, manifest_file};
use super::snapshots::{UnfitSnapshot, hash, newest_snapshot};
use super::start::recent_checkpoint;
use super::whole_journal::header;
use crate::adapters::regular_file::open_regular;
use crate::audit::{ArchivedFile, Hash, scan};
use crate::ledger::NodeId;

/// Why files were not moved.
#[derive(Debug, Error)]
pub enum ArchiveError {
    #[error("another process archives files of `{0}`: try again when it has ended")]
    Busy(NodeId),
    /// The file, or what is behind it, is not what was written.
    #[error("`{path}` cannot be archived: {1}; see `sluice audit verify`", path = .0.display())]
    Damaged(PathBuf, String),
    #[error("{0}; files stay until the gate has written another")]
    Unfit(UnfitSnapshot),
    #[error("`{path}` exists already, with another content: name another folder", path = .0.display())]
    Taken(PathBuf),
    #[error("`{path}` is the audit folder itself: name another folder", path = .0.display())]
    SameFolder(PathBuf),
    #[error("`{path}` is the file itself, and no copy of it: remove it there, or name another folder", path = .0.display())]
    SameFile(PathBuf),
    #[error("`{path}`: {1}", path = .0.display())]
    File(PathBuf, io::Error),
}

/// The result for the files of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchivedFiles {
    pub moved: u64,
    /// The first file that a rebuild still needs; `None` without a snapshot.
    pub needed_from: Option<u64>,
    /// The file in which the newest checkpoint ends, where files before those that a rebuild needs wait for another.
    pub covered_up_to: Option<u64>,
}

/// Moves the files of a node that its newest snapshot stands for; `told` hears of each.
pub fn archive(
    folder: &Path,
    node: &NodeId,
    to: &Path,
    told: &mut dyn FnMut(&Path),
) -> Result<ArchivedFiles, ArchiveError> {
    let manifest = manifest_file(folder, node);
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| ArchiveError::File(path, error)
    };
    if to.exists() && is_same(folder, to).map_err(at(to))? {
        return Err(ArchiveError::SameFolder(to.to_owned()));
    }
    let newest = newest_snapshot(folder, node).map_err(at(folder))?;
    if let Some(why) = newest.unfit.first() {
        return Err(ArchiveError::Unfit(why.clone()));
    }
    let Some(snapshot) = newest.snapshot else { return Ok(ArchivedFiles::default()) };
    let listed = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&manifest);
    let mut listed = listed.map_err(at(&manifest))?;
    listed.try_lock().map_err(|_| ArchiveError::Busy(node.clone()))?;
    let mut before = read_manifest(&manifest).map_err(at(&manifest))?;
    fs::create_dir_all(to).map_err(at(to))?;
    // Lines that no checkpoint covers yet are read once more after a crash.
    let covered =
        recent_checkpoint(folder, node).map_err(at(folder))?.map_or(u64::MAX, |(_, place)| place.end.sequence);
    let covered_up_to = Some(covered).filter(|covered| *covered < snapshot.sequence);
    let mut done = ArchivedFiles { moved: 0, needed_from: Some(snapshot.sequence), covered_up_to };
    let all: Vec<AuditFile> =
        audit_files(folder).map_err(at(folder))?.into_iter().filter(|file| file.node == *node).collect();
    for (file, next) in
        all.iter().zip(all.iter().skip(1)).filter(|(file, _)| file.sequence < snapshot.sequence.min(covered))
    {
        let found = describe(file, next)?;
        let is_behind = before.last().filter(|last| last.sequence < file.sequence);
        if let Some(last) = is_behind
            && !joins(last, file).map_err(at(&file.path))?
        {
            return Err(ArchiveError::Damaged(
                file.path.clone(),
                "it does not follow the file archived last".to_owned(),
            ));
        }
        copy(file, to, &found)?;
        if before.iter().all(|one| one.sequence != file.sequence) {
            writeln!(listed, "{}", found.line()).and_then(|()| listed.sync_all()).map_err(at(&manifest))?;
            before.push(found);
        }
        fs::remove_file(&file.path).map_err(at(&file.path))?;
        done.moved = done.moved.saturating_add(1);
        told(&file.path);
    }
    sync(folder).map_err(at(folder))?;
    Ok(done)
}

/// Reads the manifest of a node; without one, nothing is archived.
pub fn read_manifest(path: &Path) -> io::Result<Vec<ArchivedFile>> {
    let file = match open_regular(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => file?,
    };
    let mut archived = Vec::new();
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        reader.read_until(b'\n', &mut line)?;
        // An end that is missing is that of an interrupted write: its file is still there.
        let Some(line) = line.strip_suffix(b"\n") else { return Ok(archived) };
        archived.push(ArchivedFile::read(line).map_err(|fault| io::Error::other(fault.to_string()))?);
    }
}

/// Whether a file follows the one that was archived last.
fn joins(last: &ArchivedFile, file: &AuditFile) -> io::Result<bool> {
    Ok(last.sequence.saturating_add(1) == file.sequence && hash_before(file)? == last.last)
}

/// Reads a whole file, and checks that the next one follows it.
fn describe(file: &AuditFile, next: &AuditFile) -> Result<ArchivedFile, ArchiveError> {
    let damaged = |why: &str| ArchiveError::Damaged(file.path.clone(), why.to_owned());
    let failed = |error| ArchiveError::File(file.path.clone(), error);
    let opened = open_regular(&file.path).map(|opened| BufReader::with_capacity(1 << 20, opened));
    let scanned = opened.and_then(|reader| scan(reader, |_| {})).map_err(failed)?;
    if let Some(stop) = &scanned.stop {
        return Err(damaged(&format!("line {}: {}", stop.line, stop.why)));
    }
    let is_next = next.sequence == file.sequence.saturating_add(1);
    if !is_next || hash_before(next).map_err(failed)? != scanned.hash {
        return Err(damaged("the next file does not follow it"));
    }
    Ok(ArchivedFile {
        node: file.node.clone(),
        sequence: file.sequence,
        lines: scanned.lines,
        length: scanned.length,
        sha256: hash(&file.path).map_err(failed)?,
        last: scanned.hash,
        highest: header(next).map_err(failed)?.highest,
    })
}

/// Returns the hash of the last line before a file.
fn hash_before(file: &AuditFile) -> io::Result<Hash> {
    let mut line = Vec::new();
    BufReader::new(open_regular(&file.path)?).read_until(b'\n', &mut line)?;
    scan(line.as_slice(), |_| {}).map(|scanned| scanned.previous)
}

/// Whether two names lead to one file or folder.
fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let (one, other) = (fs::metadata(one)?, fs::metadata(other)?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

/// Copies a file, and reads the copy again. Its bytes are in another file when this returns.
fn copy(file: &AuditFile, to: &Path, found: &ArchivedFile) -> Result<(), ArchiveError> {
    let name = file.path.file_name().unwrap_or_default();
    let path = to.join(name);
    let failed = |error| ArchiveError::File(path.clone(), error);
    let is_whole = |path: &Path| -> io::Result<bool> { Ok(hash(path)? == found.sha256) };
    if path.exists() {
        if is_same(&file.path, &path).map_err(failed)? {
            return Err(ArchiveError::SameFile(path));
        }
        return if is_whole(&path).map_err(failed)? { Ok(()) } else { Err(ArchiveError::Taken(path)) };
    }
    let mut new = path.clone().into_os_string();
    new.push(".new");
    let new = PathBuf::from(new);
    copy_anew(&file.path, &new).map_err(failed)?;
    if !is_whole(&new).map_err(failed)? {
        return Err(ArchiveError::Damaged(new, "the copy differs from its file".to_owned()));
    }
    fs::rename(&new, &path).and_then(|()| sync(to)).map_err(failed)
}

/// Copies a file into a new one; an earlier one of that name, which may be a link, is not written through.
fn copy_anew(from: &Path, to: &Path) -> io::Result<()> {
    match fs::remove_file(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let (mut source, mut copy) = (open_regular(from)?, OpenOptions::new().write(true).create_new(true).open(to)?);
    io::copy(&mut source, &mut copy)?;
    copy.set_permissions(source.metadata()?.permissions())?;
    copy.sync_all()
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
