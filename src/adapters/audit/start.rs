//! What a start finds: where the chain goes on, or why it cannot.
//!
//! What a killed process left half written at the end of the newest file was promised to nobody, as no sync had followed;
//! it is put aside and cut off. Anything else that is wrong ends the start: it is for people to look at.

use std::fs::{self, File};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::OpenFault;
use super::folder::{AuditFile, audit_files, checkpoints_file};
use super::log::Tip;
use super::remembered::{REMEMBERED, Remembered};
use crate::chain::{Body, Checkpoint, Hash, Highest, Scanned, Statement, Stop, scan};
use crate::commit::NodeId;

/// How far back checkpoints are looked for.
const RECENT: u64 = 64 * 1024;

/// Where the chain goes on.
#[derive(Debug)]
pub(super) struct Start {
    /// `None`: nothing was written yet.
    pub(super) tip: Option<Tip>,
    pub(super) remembered: Remembered,
}

/// A file that was read, and what was found in it.
struct Found {
    file: AuditFile,
    scanned: Scanned,
    contents: Vec<((crate::base::ids::Environment, u64), Hash)>,
    /// The hash of the line up to which a checkpoint vouches.
    vouched: Option<Hash>,
}

/// Reads the newest files of a node.
pub(super) fn look(folder: &Path, node: &NodeId) -> Result<Start, OpenFault> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |error| OpenFault::Disk { path: path.clone(), why: io::Error::to_string(&error) }
    };
    let all = audit_files(folder).map_err(unreadable(folder))?;
    let mut files: Vec<AuditFile> = all.into_iter().filter(|file| file.node == *node).collect();
    let recent = recent_checkpoint(folder, node).map_err(unreadable(&checkpoints_file(folder, node)))?;
    let newest = loop {
        let Some(file) = files.pop() else { return nothing(folder, node, recent.as_ref()) };
        let path = file.path.clone();
        let found = read(file, recent.as_ref()).map_err(unreadable(&path))?;
        if found.scanned.header.is_some() {
            break found;
        }
        let torn = found.scanned.stop.as_ref().is_none_or(|stop| stop.is_torn);
        if !torn || recent.as_ref().is_some_and(|said| said.sequence == found.file.sequence) {
            return Err(damaged(&found, "the file does not begin with a header that can be read"));
        }
        // It was being begun: no line was ever promised to be in it.
        put_aside(&path, 0).map_err(unreadable(&path))?;
        fs::remove_file(&path).map_err(unreadable(&path))?;
    };
    check(&newest, recent.as_ref())?;
    if newest.scanned.stop.is_some() {
        put_aside(&newest.file.path, newest.scanned.length).map_err(unreadable(&newest.file.path))?;
    }
    go_on(newest, files).map_err(|(path, why)| OpenFault::Disk { path, why: why.to_string() })?
}

/// Behind the newest file; the ones before it are read as long as they say what is to be remembered.
fn go_on(newest: Found, mut before: Vec<AuditFile>) -> Result<Result<Start, OpenFault>, (PathBuf, io::Error)> {
    let Some(header) = newest.scanned.header.clone() else { return Ok(Err(damaged(&newest, "it has no header"))) };
    let mut highest = header.highest.clone();
    for ((environment, number), _) in &newest.contents {
        let known = highest.entry(*environment).or_default();
        *known = (*number).max(*known);
    }
    let tip = Tip {
        sequence: header.sequence,
        lines: newest.scanned.lines,
        length: newest.scanned.length,
        hash: newest.scanned.hash,
        day: header.at.as_micros().div_euclid(24 * 60 * 60 * 1_000_000),
        highest,
    };
    let mut earliest = header;
    let mut previous = newest.scanned.previous;
    let mut known = newest.contents.len();
    let mut contents = vec![newest.contents];
    while earliest.sequence > 1 && known < REMEMBERED {
        let Some(file) = before.pop() else { break };
        let path = file.path.clone();
        let found = read(file, None).map_err(|error| (path, error))?;
        let is_whole = found.scanned.stop.is_none() && found.scanned.hash == previous;
        match found.scanned.header.clone() {
            Some(header) if is_whole && header.sequence.saturating_add(1) == earliest.sequence => earliest = header,
            _ => return Ok(Err(damaged(&found, "it does not end where the file after it goes on"))),
        }
        previous = found.scanned.previous;
        known = known.saturating_add(found.contents.len());
        contents.push(found.contents);
    }
    let forgotten = if earliest.sequence > 1 { earliest.highest } else { Highest::new() };
    let mut remembered = Remembered::forgetting(forgotten);
    for (key, content) in contents.into_iter().rev().flatten() {
        remembered.add(key, content);
    }
    Ok(Ok(Start { tip: Some(tip), remembered }))
}

fn read(file: AuditFile, recent: Option<&Statement>) -> io::Result<Found> {
    let vouching = recent.filter(|said| said.sequence == file.sequence);
    let mut contents = Vec::new();
    let mut vouched = None;
    let mut lines: u64 = 1;
    let reader = BufReader::with_capacity(1 << 20, File::open(&file.path)?);
    let scanned = scan(reader, |line| {
        lines = lines.saturating_add(1);
        if vouching.is_some_and(|said| said.lines == lines) {
            vouched = Some(line.hash);
        }
        if let Body::Entry(entry) = line.body {
            contents.push(((entry.environment, entry.number.as_u64()), line.content));
        }
    })?;
    if vouching.is_some_and(|said| said.lines == 1) && scanned.lines == 1 {
        vouched = Some(scanned.hash);
    }
    Ok(Found { file, scanned, contents, vouched })
}

/// Whether the newest file is what was written, but for an end that nobody was promised.
fn check(found: &Found, recent: Option<&Statement>) -> Result<(), OpenFault> {
    let header = found.scanned.header.as_ref();
    let named = (&found.file.node, found.file.sequence);
    if header.is_none_or(|header| (&header.node, header.sequence) != named) {
        return Err(damaged(found, "its header is that of another file"));
    }
    if let Some(said) = recent {
        if said.sequence > found.file.sequence {
            return Err(damaged(found, &format!("a checkpoint names file {}, which is not here", said.sequence)));
        }
        let is_of_this = said.sequence == found.file.sequence;
        if is_of_this && said.length > found.scanned.length {
            let text = format!("it is good for {} bytes; a checkpoint says {}", found.scanned.length, said.length);
            return Err(damaged(found, &text));
        }
        if is_of_this && said.lines > 1 && found.vouched != Some(said.hash) {
            return Err(damaged(found, &format!("line {} is not the one that a checkpoint names", said.lines)));
        }
    }
    match &found.scanned.stop {
        Some(stop) if !stop.is_torn => Err(damaged(found, "it is not what was written")),
        _ => Ok(()),
    }
}

fn nothing(folder: &Path, node: &NodeId, recent: Option<&Statement>) -> Result<Start, OpenFault> {
    match recent {
        None => Ok(Start { tip: None, remembered: Remembered::default() }),
        Some(said) => Err(OpenFault::Damaged {
            path: checkpoints_file(folder, node),
            place: None,
            why: format!("a checkpoint names file {} of `{node}`, which is not here", said.sequence),
        }),
    }
}

fn damaged(found: &Found, why: &str) -> OpenFault {
    let stop = found.scanned.stop.as_ref();
    let why = stop.map_or_else(|| why.to_owned(), |Stop { why: line, .. }| format!("{why}: {line}"));
    OpenFault::Damaged { path: found.file.path.clone(), place: stop.map(|stop| (stop.line, stop.offset)), why }
}

/// Keeps what is about to be cut off, and says so.
fn put_aside(path: &Path, from: u64) -> io::Result<()> {
    let mut torn = Vec::new();
    let mut file = File::open(path)?;
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
        "the last process ended in the middle of a write to the audit chain; what it had not finished is cut off"
    );
    Ok(())
}

/// What the newest checkpoint of this node says. Torn and unreadable lines are for `sluice audit verify` to tell.
fn recent_checkpoint(folder: &Path, node: &NodeId) -> io::Result<Option<Statement>> {
    let mut file = match File::open(checkpoints_file(folder, node)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(RECENT)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let statements = bytes.rsplit(|b| *b == b'\n').filter_map(|line| Checkpoint::read(line).ok());
    Ok(statements.map(|checkpoint| checkpoint.statement).find(|said| said.node == *node))
}
