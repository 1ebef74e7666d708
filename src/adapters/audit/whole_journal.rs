//! Reads a node's journal from its files, and checks that each file follows the one before.

use std::io::{self, BufReader};
use std::path::Path;

use super::folder::{AuditFile, audit_files};
use crate::adapters::regular_file::open_regular;
use crate::audit::{FileHeader, Hash, Highest, LineBody, LineReader, read_line, scan};
use crate::base::ids::Environment;
use crate::ledger::{NodeId, Outstanding};

/// A part of a journal, in the order of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalPart {
    /// A file begins. Entries up to its highest numbers come from the files before, or are not in this journal.
    File(FileHeader),
    Entry(Outstanding),
}

/// Reads the files of a node that may hold entries behind these numbers; for none, all files. Returns where they stop to
/// be what was written, if they do.
pub fn read_journal(
    folder: &Path,
    node: &NodeId,
    behind: &Highest,
    told: &mut dyn FnMut(JournalPart) -> io::Result<()>,
) -> io::Result<Option<String>> {
    let mut flaw = None;
    let mut before: Option<(u64, Hash)> = None;
    for file in files_behind(folder, node, behind)? {
        told(JournalPart::File(header(&file)?))?;
        let mut failed = None;
        let reader = BufReader::with_capacity(1 << 20, open_regular(&file.path)?);
        let scanned = scan(reader, |line| {
            if let LineBody::Entry(entry) = line.body
                && failed.is_none()
            {
                failed = told(JournalPart::Entry(entry)).err();
            }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        let follows = match before {
            None => true,
            Some((sequence, hash)) => sequence.saturating_add(1) == file.sequence && hash == scanned.previous,
        };
        let found = match &scanned.stop {
            Some(stop) => Some(format!("line {}: {}", stop.line, stop.why)),
            None if !follows => Some("it does not follow the file before it".to_owned()),
            None => None,
        };
        if let Some(found) = found {
            flaw = flaw.or_else(|| Some(format!("`{}`: {found}", file.path.display())));
        }
        before = Some((file.sequence, scanned.hash));
    }
    Ok(flaw)
}

/// Returns the files from the last one on that begins before or at these numbers.
fn files_behind(folder: &Path, node: &NodeId, behind: &Highest) -> io::Result<Vec<AuditFile>> {
    let mut files: Vec<AuditFile> = audit_files(folder)?.into_iter().filter(|file| file.node == *node).collect();
    if behind.is_empty() {
        return Ok(files);
    }
    let mut first = files.len().saturating_sub(1);
    while let Some(file) = files.get(first).filter(|_| first > 0) {
        let highest = header(file)?.highest;
        let is_enough =
            highest.iter().all(|(environment, number)| behind.get(environment).is_some_and(|has| has >= number));
        if is_enough {
            break;
        }
        first = first.saturating_sub(1);
    }
    Ok(files.split_off(first.min(files.len())))
}

/// Whether the files of a node begin at, or before, the end of what is known.
pub(super) fn begins_within(folder: &Path, node: &NodeId, known: &Highest) -> io::Result<bool> {
    let Some(first) = audit_files(folder)?.into_iter().find(|file| file.node == *node) else { return Ok(true) };
    let highest = header(&first)?.highest;
    Ok(highest.iter().all(|(environment, number)| known.get(environment).is_some_and(|known| known >= number)))
}

/// Whether a file, or one before it, has an entry of an environment.
pub fn knows_environment(file: &AuditFile, environment: Environment) -> io::Result<bool> {
    let mut lines = LineReader::of(BufReader::with_capacity(1 << 20, open_regular(&file.path)?));
    while let Some(raw) = lines.following()? {
        match read_line(raw.bytes).map(|line| line.body) {
            Ok(LineBody::Header(header)) if header.highest.get(&environment).is_some_and(|number| *number > 0) => {
                return Ok(true);
            }
            Ok(LineBody::Entry(entry)) if entry.environment == environment => return Ok(true),
            Ok(_) => {}
            Err(_) if !raw.is_whole => {}
            Err(fault) => return Err(io::Error::other(fault.to_string())),
        }
    }
    Ok(false)
}

pub(super) fn header(file: &AuditFile) -> io::Result<FileHeader> {
    let mut lines = LineReader::of(BufReader::new(open_regular(&file.path)?));
    let body = lines.following()?.and_then(|raw| read_line(raw.bytes).ok()).map(|line| line.body);
    match body {
        Some(LineBody::Header(header)) => Ok(header),
        _ => Err(io::Error::other(format!("`{}` does not begin with its header", file.path.display()))),
    }
}
