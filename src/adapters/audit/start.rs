//! Finds where the audit log continues at a start, or why it cannot.
//!
//! A half-written end of the newest file was confirmed to nobody, because no sync had followed; it is set aside and
//! truncated. Any other flaw ends the start: a person must look at it.

use std::fs::{self, File};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::OpenFault;
use super::folder::{AuditFile, audit_files, checkpoints_file};
use super::log::Tip;
use super::written_entries::{REMEMBERED, RecentEntries};
use crate::adapters::regular_file::open_regular;
use crate::audit::{
    Checkpoint, CheckpointPlace, FileExtent, Hash, Highest, KeptCheckpoint, LineBody, ScanStop, Scanned, scan,
};
use crate::ledger::NodeId;

/// How many bytes back checkpoints are searched for.
const RECENT: u64 = 64 * 1024;

/// The point where the log continues.
#[derive(Debug)]
pub(super) struct LogStart {
    /// `None`: nothing was written yet.
    pub(super) tip: Option<Tip>,
    pub(super) remembered: RecentEntries,
}

/// A file that was read, and what was found in it.
struct FoundFiles {
    file: AuditFile,
    scanned: Scanned,
    contents: Vec<((crate::base::ids::Environment, u64), Hash)>,
    /// The hash of the last line that a checkpoint covers.
    vouched: Option<Hash>,
}

/// Reads the newest files of a node.
pub(super) fn find_start(folder: &Path, node: &NodeId, recent: Option<&FileExtent>) -> Result<LogStart, OpenFault> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |error| OpenFault::disk(&path, &error)
    };
    let all = audit_files(folder).map_err(unreadable(folder))?;
    let mut files: Vec<AuditFile> = all.into_iter().filter(|file| file.node == *node).collect();
    let newest = loop {
        let Some(file) = files.pop() else { return nothing(folder, node, recent) };
        let path = file.path.clone();
        let found = read_file(file, recent).map_err(unreadable(&path))?;
        if found.scanned.header.is_some() {
            break found;
        }
        let torn = found.scanned.stop.as_ref().is_none_or(|stop| stop.is_torn);
        if !torn || recent.is_some_and(|said| said.sequence == found.file.sequence) {
            return Err(damaged(&found, "it does not begin with a readable header"));
        }
        // The file was being begun: it never had a confirmed line.
        put_aside(&path, 0).map_err(unreadable(&path))?;
        fs::remove_file(&path).map_err(unreadable(&path))?;
    };
    check(&newest, recent)?;
    if newest.scanned.stop.is_some() {
        put_aside(&newest.file.path, newest.scanned.length).map_err(unreadable(&newest.file.path))?;
    }
    go_on(newest, files).map_err(|(path, error)| OpenFault::disk(&path, &error))?
}

/// Behind the newest file; the ones before it are read as long as they say what is to be remembered.
fn go_on(newest: FoundFiles, mut before: Vec<AuditFile>) -> Result<Result<LogStart, OpenFault>, (PathBuf, io::Error)> {
    let Some(header) = newest.scanned.header.clone() else { return Ok(Err(damaged(&newest, "it has no header"))) };
    let mut highest = header.highest.clone();
    for ((environment, number), _) in &newest.contents {
        let known = highest.entry(*environment).or_default();
        *known = (*number).max(*known);
    }
    let tip = Tip {
        lines: newest.scanned.lines,
        length: newest.scanned.length,
        hash: newest.scanned.hash,
        header: Arc::new(header.clone()),
        highest,
    };
    let mut earliest = header;
    let mut previous = newest.scanned.previous;
    let mut known = newest.contents.len();
    let mut contents = vec![newest.contents];
    while earliest.sequence > 1 && known < REMEMBERED {
        let Some(file) = before.pop() else { break };
        let path = file.path.clone();
        let found = read_file(file, None).map_err(|error| (path, error))?;
        let is_whole = found.scanned.stop.is_none() && found.scanned.hash == previous;
        match found.scanned.header.clone() {
            Some(header) if is_whole && header.sequence.saturating_add(1) == earliest.sequence => earliest = header,
            // Files between the two are missing: whoever opens the journal closes money.
            Some(header) if header.sequence.saturating_add(1) < earliest.sequence => break,
            _ => return Ok(Err(damaged(&found, "its end does not match the beginning of the next file"))),
        }
        previous = found.scanned.previous;
        known = known.saturating_add(found.contents.len());
        contents.push(found.contents);
    }
    let forgotten = if earliest.sequence > 1 { earliest.highest } else { Highest::new() };
    let mut remembered = RecentEntries::forgetting(forgotten);
    for (key, content) in contents.into_iter().rev().flatten() {
        remembered.add(key, content);
    }
    Ok(Ok(LogStart { tip: Some(tip), remembered }))
}

fn read_file(file: AuditFile, recent: Option<&FileExtent>) -> io::Result<FoundFiles> {
    let vouching = recent.filter(|said| said.sequence == file.sequence);
    let mut contents = Vec::new();
    let mut vouched = None;
    let mut lines: u64 = 1;
    let reader = BufReader::with_capacity(1 << 20, open_regular(&file.path)?);
    let scanned = scan(reader, |line| {
        lines = lines.saturating_add(1);
        if vouching.is_some_and(|said| said.lines == lines) {
            vouched = Some(line.hash);
        }
        if let LineBody::Entry(entry) = &line.body {
            contents.push(((entry.environment, entry.number.as_u64()), line.content()));
        }
    })?;
    if vouching.is_some_and(|said| said.lines == 1) && scanned.lines == 1 {
        vouched = Some(scanned.hash);
    }
    Ok(FoundFiles { file, scanned, contents, vouched })
}

/// Checks that the newest file is what was written, except for an unconfirmed end.
fn check(found: &FoundFiles, recent: Option<&FileExtent>) -> Result<(), OpenFault> {
    let header = found.scanned.header.as_ref();
    let named = (&found.file.node, found.file.sequence);
    if header.is_none_or(|header| (&header.node, header.sequence) != named) {
        return Err(damaged(found, "its header belongs to another file"));
    }
    if let Some(said) = recent {
        if said.sequence > found.file.sequence {
            return Err(damaged(found, &format!("a checkpoint names file {}, which is missing", said.sequence)));
        }
        let is_of_this = said.sequence == found.file.sequence;
        if is_of_this && said.length > found.scanned.length {
            let text =
                format!("it is intact for {} bytes, but a checkpoint covers {}", found.scanned.length, said.length);
            return Err(damaged(found, &text));
        }
        if is_of_this && said.lines > 1 && found.vouched != Some(said.hash) {
            return Err(damaged(found, &format!("line {} differs from the one that a checkpoint covers", said.lines)));
        }
    }
    match &found.scanned.stop {
        Some(stop) if !stop.is_torn => Err(damaged(found, "it was changed after it was written")),
        _ => Ok(()),
    }
}

fn nothing(folder: &Path, node: &NodeId, recent: Option<&FileExtent>) -> Result<LogStart, OpenFault> {
    match recent {
        None => Ok(LogStart { tip: None, remembered: RecentEntries::default() }),
        Some(said) => Err(OpenFault::Damaged {
            path: checkpoints_file(folder, node),
            place: None,
            why: format!("a checkpoint names file {} of `{node}`, which is missing", said.sequence),
        }),
    }
}

fn damaged(found: &FoundFiles, why: &str) -> OpenFault {
    let stop = found.scanned.stop.as_ref();
    let why = stop.map_or_else(|| why.to_owned(), |ScanStop { why: line, .. }| format!("{why}: {line}"));
    OpenFault::Damaged { path: found.file.path.clone(), place: stop.map(|stop| (stop.line, stop.offset)), why }
}

/// Saves what is about to be truncated, and logs that.
fn put_aside(path: &Path, from: u64) -> io::Result<()> {
    let mut torn = Vec::new();
    let mut file = open_regular(path)?;
    file.seek(SeekFrom::Start(from))?;
    file.read_to_end(&mut torn)?;
    if torn.is_empty() {
        return Ok(());
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".torn-{from}"));
    let aside = PathBuf::from(name);
    fs::write(&aside, &torn)?;
    File::open(&aside)?.sync_all()?;
    tracing::warn!(
        file = %path.display(),
        offset = from,
        bytes = torn.len(),
        kept = %aside.display(),
        "the last process ended in the middle of a write to the audit chain; the unfinished end is set aside and cut off"
    );
    Ok(())
}

/// Returns the newest checkpoint of this node's newest log, and its place. Torn and unreadable lines are left to `sluice audit
/// verify`.
pub(super) fn recent_checkpoint(folder: &Path, node: &NodeId) -> io::Result<Option<(Checkpoint, CheckpointPlace)>> {
    let mut file = match open_regular(checkpoints_file(folder, node)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(RECENT)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let kept = bytes.rsplit(|b| *b == b'\n').filter_map(|line| KeptCheckpoint::read(line).ok());
    let mut placed = kept.filter_map(|kept| Some((kept.checkpoint, kept.place?))).peekable();
    // Witnesses may have signed an older one after a newer one was written.
    let origin = placed.peek().map(|(checkpoint, _)| checkpoint.origin.clone()).filter(|origin| origin.node == *node);
    Ok(placed.filter(|(checkpoint, _)| Some(&checkpoint.origin) == origin.as_ref()).max_by_key(|(one, _)| one.size))
}
