//! Reads from a node's files the entries that a store has lost.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use super::folder::audit_files;
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
    for file in audit_files(folder)?.into_iter().filter(|file| file.node == *node) {
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
