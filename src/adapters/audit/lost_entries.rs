//! Reads from a node's files the entries that a store has lost.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, BufReader};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use super::backwards::{ReadBudget, Skip, read_backwards};
use super::folder::{AuditFile, audit_files};
use super::whole_journal::header;
use crate::adapters::regular_file::open_regular;
use crate::audit::{LineBody, LineReader, read_line};
use crate::base::ids::Environment;
use crate::ledger::{NodeId, Number, Outstanding};

/// How long the newest entries are read.
const NEWEST: ReadBudget = ReadBudget { bytes: u64::MAX, time: Duration::from_secs(5) };

/// Room for entries.
#[derive(Clone, Copy, Debug)]
pub struct EntryRoom {
    pub entries: usize,
    pub bytes: usize,
}

impl EntryRoom {
    /// Takes room for an entry, if there is any left. One entry always has room.
    pub fn takes(&mut self, entry: &Outstanding) -> bool {
        if self.entries == 0 || self.bytes == 0 {
            return false;
        }
        self.entries = self.entries.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(entry.entry.len());
        true
    }
}

/// Tells every entry of an environment above a number, in the order of the files, until the callback breaks. They may be
/// written meanwhile.
pub fn entries_above(
    folder: &Path,
    node: &NodeId,
    environment: Environment,
    above: u64,
    told: &mut dyn FnMut(Outstanding) -> ControlFlow<()>,
) -> io::Result<()> {
    for file in files_above(folder, node, environment, above)? {
        let mut lines = LineReader::of(BufReader::with_capacity(1 << 20, open_regular(file.path)?));
        while let Some(raw) = lines.following()? {
            if !raw.is_whole {
                continue;
            }
            let line = read_line(raw.bytes).map_err(|fault| io::Error::other(fault.to_string()))?;
            match line.body {
                LineBody::Entry(entry) if entry.environment == environment && entry.number.as_u64() > above => {
                    if told(entry).is_break() {
                        return Ok(());
                    }
                }
                LineBody::Entry(_) | LineBody::Header(_) => {}
            }
        }
    }
    Ok(())
}

/// Returns the number behind which the files of a journal begin.
pub fn files_begin(folder: &Path, node: &NodeId, environment: Environment) -> io::Result<u64> {
    let Some(first) = audit_files(folder)?.into_iter().find(|file| file.node == *node) else { return Ok(0) };
    Ok(header(&first)?.highest.get(&environment).copied().unwrap_or(0))
}

/// Whether these files have, or had, what a store lacks that went on without this node's commits between two numbers: own
/// commits, or entries of another history.
pub fn may_have_lacking(
    folder: &Path,
    node: &NodeId,
    environment: Environment,
    (from, up_to): (u64, u64),
) -> io::Result<bool> {
    if files_begin(folder, node, environment)? > from || another_history(folder, node, environment)? > from {
        return Ok(true);
    }
    has_own_within(folder, node, environment, (from, up_to))
}

/// Whether the files have a commit of this node between two numbers.
pub fn has_own_within(
    folder: &Path,
    node: &NodeId,
    environment: Environment,
    (from, up_to): (u64, u64),
) -> io::Result<bool> {
    let mut has_own = false;
    entries_above(folder, node, environment, from, &mut |entry| {
        has_own = entry.node == *node && entry.number.as_u64() <= up_to;
        if has_own { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(has_own)
}

/// Returns the number up to which a journal has entries of another history than those behind it; 0 where it has none.
pub fn another_history(folder: &Path, node: &NodeId, environment: Environment) -> io::Result<u64> {
    let files = audit_files(folder)?.into_iter().rev().filter(|file| file.node == *node);
    for (nth, file) in files.enumerate() {
        let header = match header(&file) {
            Ok(header) => header,
            // The newest file may be begun at this moment.
            Err(_) if nth == 0 => continue,
            Err(error) => return Err(error),
        };
        if header.anew.contains(&environment) {
            return Ok(header.highest.get(&environment).copied().unwrap_or(0));
        }
    }
    Ok(0)
}

/// Returns the newest entries of an environment that have room, up to the highest number, in the order of the files, and that
/// are read in time. They are of one history.
pub fn newest_entries(
    folder: &Path,
    node: &NodeId,
    newest_of: (Environment, Number),
    room: EntryRoom,
) -> io::Result<Vec<Outstanding>> {
    newest_within(folder, node, newest_of, room, NEWEST)
}

/// An entry that is not read in time is not taken for one that does not exist.
pub(super) fn newest_within(
    folder: &Path,
    node: &NodeId,
    (environment, highest): (Environment, Number),
    mut room: EntryRoom,
    budget: ReadBudget,
) -> io::Result<Vec<Outstanding>> {
    // The highest number before the file that was begun later.
    let later = Cell::new(highest.as_u64());
    let skips = |first: &[u8]| {
        let Ok(LineBody::Header(header)) = read_line(first).map(|line| line.body) else { return Skip::No };
        // Entries of another history are not those that this journal goes on with.
        let is_anew = header.anew.contains(&environment);
        let before = header.highest.get(&environment).filter(|_| !is_anew).copied().unwrap_or(0);
        match later.replace(before) {
            0 => Skip::AndAllBefore,
            later if later == before => Skip::This,
            _ => Skip::No,
        }
    };
    let named = format!("\"environment\":\"{}\"", environment.as_str()).into_bytes();
    let (mut newest, mut fault) = (VecDeque::new(), None);
    let any = room.entries > 0;
    let goes_on = read_backwards(folder, node, None, budget, &skips, &mut |line, _| {
        // Most lines may be of the other environment, and need not be read.
        if !line.windows(named.len()).any(|part| part == named) {
            return ControlFlow::Continue(());
        }
        match read_line(line).map(|line| line.body) {
            Ok(LineBody::Entry(entry)) if entry.environment == environment => {
                if !room.takes(&entry) {
                    return ControlFlow::Break(());
                }
                newest.push_front(entry);
                ControlFlow::Continue(())
            }
            Ok(LineBody::Entry(_) | LineBody::Header(_)) => ControlFlow::Continue(()),
            Err(why) => {
                fault = Some(io::Error::other(why.to_string()));
                ControlFlow::Break(())
            }
        }
    })?;
    match fault {
        Some(fault) => Err(fault),
        None if newest.is_empty() && any && goes_on.is_some() => {
            Err(io::Error::new(io::ErrorKind::TimedOut, "the newest entry was not read in time"))
        }
        None => Ok(newest.into()),
    }
}

/// Returns the files that may have such entries: a header names the highest numbers before its file.
fn files_above(folder: &Path, node: &NodeId, environment: Environment, above: u64) -> io::Result<Vec<AuditFile>> {
    let mut files: Vec<AuditFile> = audit_files(folder)?.into_iter().filter(|file| file.node == *node).collect();
    let mut first = files.len().saturating_sub(1);
    while let Some(file) = files.get(first).filter(|_| first > 0) {
        // The newest file may be begun at this moment.
        let before = header(file).map(|header| header.highest.get(&environment).copied().unwrap_or(0));
        if before.is_ok_and(|before| before <= above) {
            break;
        }
        first = first.saturating_sub(1);
    }
    Ok(files.split_off(first.min(files.len())))
}
