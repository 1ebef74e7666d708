//! How far the audit log reaches, noted outside of its folder: a log that ends before it was cut, or is an older copy.
//!
//! Each batch is noted before anybody acts on it. The note is not synced: it outlives the process, and after a crash of the
//! machine it may be older than the log.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::OpenFault;
use super::folder::{audit_file, audit_files};
use super::log::Tip;
use crate::adapters::regular_file::{open_regular, read_regular};
use crate::audit::{FileExtent, Hash, scan};
use crate::base::json;
use crate::ledger::NodeId;

const FORMAT: u64 = 1;
/// A note is written over the last one.
const LENGTH: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NotedReach {
    sequence: u64,
    lines: u64,
    hash: Hash,
}

/// The note of a log that is being written.
#[derive(Debug)]
pub(super) struct ReachNote {
    path: PathBuf,
    file: Option<File>,
    last: Option<NotedReach>,
    /// Whether the note may be replaced. One that names more than the log has stays until money is closed.
    may_write: Arc<AtomicBool>,
    is_failing: bool,
}

impl ReachNote {
    pub(super) fn new(path: PathBuf, may_write: Arc<AtomicBool>) -> ReachNote {
        ReachNote { path, file: None, last: None, may_write, is_failing: false }
    }

    /// Notes how far the log reaches.
    pub(super) fn take(&mut self, extent: &FileExtent) {
        let reach = NotedReach { sequence: extent.sequence, lines: extent.lines, hash: extent.hash };
        if self.last == Some(reach) || !self.may_write.load(Ordering::Acquire) {
            return;
        }
        match self.write(reach) {
            Ok(()) => (self.last, self.is_failing) = (Some(reach), false),
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    let path = self.path.display();
                    tracing::warn!(file = %path, %error, "how far the audit log reaches cannot be noted beside the store");
                }
            }
        }
    }

    fn write(&mut self, reach: NotedReach) -> io::Result<()> {
        let mut text = json::to_record(&reach, FORMAT);
        text.extend(std::iter::repeat_n(' ', LENGTH.saturating_sub(text.len())));
        if let Some(file) = &self.file {
            return file.write_all_at(text.as_bytes(), 0);
        }
        // The place on the disk is taken once, so that a crash of the machine leaves this note or a later one.
        let new = self.path.with_extension("new");
        let file = File::create(&new)?;
        file.write_all_at(text.as_bytes(), 0)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        self.file = Some(file);
        Ok(())
    }
}

/// Returns why the log is not what the note says of it.
pub(super) fn shortfall(
    note: &Path,
    folder: &Path,
    node: &NodeId,
    tip: Option<&Tip>,
) -> Result<Option<String>, OpenFault> {
    let fault = |path: &Path, error: io::Error| OpenFault::disk(path, &error);
    let text = match read_regular(note) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fault(note, error)),
    };
    let Ok(noted) = json::from_record::<NotedReach>(&text, FORMAT) else {
        return Ok(Some(format!("`{}` cannot be read, which says how far it reached", note.display())));
    };
    let NotedReach { sequence, lines, hash } = noted;
    let has = match tip {
        None => false,
        Some(tip) if tip.header.sequence == sequence && tip.lines == lines => tip.hash == hash,
        Some(tip) if tip.header.sequence < sequence || (tip.header.sequence == sequence && tip.lines < lines) => false,
        Some(_) => has_line(folder, node, noted).map_err(|error| fault(folder, error))?,
    };
    let why = || {
        let ends = tip.map_or_else(
            || "it is empty".to_owned(),
            |tip| format!("it ends in file {} at line {}", tip.header.sequence, tip.lines),
        );
        format!("{ends}, and its gate had written file {sequence} up to line {lines}")
    };
    Ok((!has).then(why))
}

/// Whether a file before the end has this line. One that was archived is not looked for: a later file goes on from it.
fn has_line(folder: &Path, node: &NodeId, noted: NotedReach) -> io::Result<bool> {
    let is_here = audit_files(folder)?.iter().any(|file| file.node == *node && file.sequence == noted.sequence);
    if !is_here {
        return Ok(true);
    }
    let file = open_regular(audit_file(folder, node, noted.sequence))?;
    let (mut lines, mut found) = (1_u64, None);
    let scanned = scan(BufReader::with_capacity(1 << 20, file), |line| {
        lines = lines.saturating_add(1);
        found = found.or_else(|| (lines == noted.lines).then_some(line.hash));
    })?;
    let found = found.or_else(|| (noted.lines == 1).then_some(noted.hash).filter(|_| scanned.header.is_some()));
    Ok(found == Some(noted.hash))
}
