//! Reads from a node's files the entries that a store has lost.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use super::folder::{AuditFile, audit_files};
use super::whole_journal::header;
use crate::audit::{LineBody, LineReader, read_line};
use crate::base::ids::Environment;
use crate::ledger::{NodeId, Outstanding};

/// Returns every entry of an environment above a number, in the order of the files. They may be written meanwhile.
pub fn entries_above(
    folder: &Path,
    node: &NodeId,
    environment: Environment,
    above: u64,
    told: &mut dyn FnMut(Outstanding),
) -> io::Result<()> {
    for file in files_above(folder, node, environment, above)? {
        let mut lines = LineReader::of(BufReader::with_capacity(1 << 20, File::open(file.path)?));
        while let Some(raw) = lines.following()? {
            if !raw.is_whole {
                continue;
            }
            let line = read_line(raw.bytes).map_err(|fault| io::Error::other(fault.to_string()))?;
            match line.body {
                LineBody::Entry(entry) if entry.environment == environment && entry.number.as_u64() > above => {
                    told(entry)
                }
                LineBody::Entry(_) | LineBody::Header(_) => {}
            }
        }
    }
    Ok(())
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
