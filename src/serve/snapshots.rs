//! Keeps a snapshot of the store beside the journal, so that old files may be archived and a rebuild is short.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::adapters::audit::{AuditFiles, AuditFolder, RoomForJournal, free_bytes, is_snapshot_due, keep_snapshot};
use crate::adapters::store::sealed::Seals;
use crate::adapters::store::snapshot::{SnapshotSource, StoreContent};
use crate::audit::{FileHeader, SnapshotLink};
use crate::ledger::StoreFault;

/// How long to wait before the next attempt, at first and at most.
const RETRY_INTERVALS: [Duration; 2] = [Duration::from_secs(1), Duration::from_mins(1)];

/// The parts of snapshots.
#[derive(Clone, Debug)]
pub(super) struct SnapshotMaker {
    pub source: Arc<dyn SnapshotSource>,
    pub folder: AuditFolder,
    /// How many bytes of the disk are left to the journal.
    pub for_journal: u64,
    pub seals: Seals,
}

/// Makes a snapshot whenever a file of the journal begins and the journal has grown enough, as long as the process lives.
pub(super) async fn keep_snapshots(audit: Arc<AuditFiles>, maker: SnapshotMaker) {
    let mut begun = audit.begun();
    let [first_pause, longest_pause] = RETRY_INTERVALS;
    let mut pause = first_pause;
    loop {
        let newest = Arc::clone(&begun.borrow_and_update());
        let of_file = (maker.clone(), Arc::clone(&newest));
        let made = tokio::task::spawn_blocking(move || of_file.0.make(&of_file.1)).await;
        let made = made.map_err(io::Error::other).and_then(|made| made);
        let linked = match made {
            Ok(None) => Ok(()),
            Ok(Some(snapshot)) => audit.link(snapshot).await.map_err(io::Error::other),
            Err(error) => Err(error),
        };
        let Err(error) = linked else {
            pause = first_pause;
            if begun.changed().await.is_err() {
                return std::future::pending().await;
            }
            continue;
        };
        tracing::warn!(%error, "the snapshot of the store could not be written beside the journal; it is tried again");
        tokio::time::sleep(pause).await;
        pause = pause.saturating_mul(2).min(longest_pause);
    }
}

impl SnapshotMaker {
    /// Writes a snapshot that stands for all files before the newest one, if it is worth its cost.
    fn make(&self, newest: &FileHeader) -> io::Result<Option<SnapshotLink>> {
        self.folder.check()?;
        if !is_snapshot_due(&self.folder, newest)? {
            return Ok(None);
        }
        let content = self.content(newest).map_err(io::Error::other)?;
        let free = || free_bytes(&self.folder);
        let room = RoomForJournal { bytes: self.for_journal, free: &free };
        let link = keep_snapshot(&self.folder, newest, room, &mut |out| {
            let written = content.write(&newest.node, newest.sequence, &self.seals, out);
            written.map(drop).map_err(io::Error::other)
        })?;
        tracing::info!(sequence = link.sequence, "a snapshot of the store was written beside the journal");
        Ok(Some(link))
    }

    /// Returns the content, once it has what the files before the newest one say.
    fn content(&self, newest: &FileHeader) -> Result<StoreContent, StoreFault> {
        let content = self.source.content()?;
        for (environment, number) in &newest.highest {
            let last = content.last(*environment)?;
            if last.as_u64() < *number {
                return Err(StoreFault::Away(format!("the store ends at {last} of {environment}, the journal later")));
            }
        }
        Ok(content)
    }
}
