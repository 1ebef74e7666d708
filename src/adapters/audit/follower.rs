//! What follows the journal: it hears each entry once it is on disk, in order.

use std::fmt;
use std::path::Path;

use super::snapshots::{SnapshotFile, newest_snapshot};
use super::whole_journal::{JournalPart, begins_within, read_journal};
use crate::audit::{Highest, InOrder};
use crate::base::ids::Environment;
use crate::ledger::{NodeId, Outstanding};
use crate::telemetry::{JobProgress, PROGRESS_INTERVAL};

/// How many entries are handed over at a time when much is to be caught up with.
const BATCH: usize = 1_024;

/// A follower of the journal. Its errors are those of its disk.
pub trait Follower: fmt::Debug + Send + Sync {
    /// Takes entries, and returns for each why it contradicts those before it, if it does.
    fn follow(&self, entries: &[Outstanding], is_durable: bool) -> Result<Vec<Option<String>>, String>;

    /// Takes in a snapshot that another gate gave, once it has what that has; returns whether it did: then it must read what
    /// comes behind from the files.
    fn take_in(&self) -> Result<bool, String> {
        Ok(false)
    }

    /// The journal goes on behind this number, without the entries before.
    fn skip(&self, environment: Environment, up_to: u64) -> Result<(), String>;

    /// Forgets what a start left that ended before it had the whole of a snapshot.
    fn begin_anew(&self) -> Result<(), String>;

    /// Takes the content of a snapshot in the place of all that it knows; a snapshot that cannot be read to its end leaves
    /// nothing. Returns why the snapshot is unfit, if it is.
    fn restore(&self, snapshot: &SnapshotFile) -> Result<Option<String>, String>;

    /// Returns how far it has followed.
    fn reached(&self) -> Result<Highest, String>;
}

/// Returns how far the follower has followed, after it took a snapshot if the files alone would not lead there.
fn restored(follower: &dyn Follower, folder: &Path, node: &NodeId) -> Result<Highest, String> {
    let reached = follower.reached()?;
    let has_all = begins_within(folder, node, &reached).map_err(|error| error.to_string())?;
    if has_all && !reached.is_empty() {
        return Ok(reached);
    }
    if reached.is_empty() {
        follower.begin_anew()?;
    }
    let newest = newest_snapshot(folder, node).map_err(|error| error.to_string())?;
    for why in newest.unfit {
        tracing::error!(%why, "a snapshot beside the journal cannot be used");
    }
    let Some(snapshot) = newest.snapshot else { return Ok(reached) };
    if let Some(why) = follower.restore(&snapshot)? {
        tracing::error!(why, "a snapshot beside the journal cannot be used");
    }
    // A part of it may have taken the place of what was there.
    follower.reached()
}

/// Hands over what the follower lacks of the files; `contradicts` gets each entry that contradicts those before it, and why.
pub fn catch_up(
    follower: &dyn Follower,
    folder: &Path,
    node: &NodeId,
    contradicts: &mut dyn FnMut(&Outstanding, String),
) -> Result<(), String> {
    let reached = restored(follower, folder, node)?;
    let mut order = InOrder::behind(reached.clone());
    let mut batch = Vec::new();
    let mut progress = JobProgress::every(PROGRESS_INTERVAL);
    let mut follow = |batch: &mut Vec<Outstanding>, is_durable: bool| {
        let entries = std::mem::take(batch);
        for (entry, why) in entries.iter().zip(follower.follow(&entries, is_durable)?) {
            if let Some(why) = why {
                contradicts(entry, why);
            }
        }
        if let Some(commits) = progress.add(entries.len()) {
            tracing::info!(commits, "the replica of the store catches up with the journal");
        }
        Ok::<(), String>(())
    };
    let read = read_journal(folder, node, &reached, &mut |part| {
        match part {
            JournalPart::Entry(entry) => batch.extend(order.add(entry)),
            JournalPart::File(header) => {
                for (environment, number) in &header.highest {
                    let (environment, number) = (*environment, *number);
                    if let Some(waited) = order.go_on(environment, &header) {
                        batch.extend(waited);
                        follow(&mut batch, false).map_err(std::io::Error::other)?;
                        follower.skip(environment, number).map_err(std::io::Error::other)?;
                    }
                }
            }
        }
        if batch.len() < BATCH { Ok(()) } else { follow(&mut batch, false).map_err(std::io::Error::other) }
    });
    if let Some(flaw) = read.map_err(|error| error.to_string())? {
        tracing::error!(flaw, "the files of the journal are not what was written: see `sluice audit verify`");
    }
    batch.extend(order.rest());
    follow(&mut batch, true)?;
    if let Some(commits) = progress.end() {
        tracing::info!(commits, "the replica of the store has caught up with the journal");
    }
    Ok(())
}
