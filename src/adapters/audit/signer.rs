//! Decides when a checkpoint is due, and tells the thread that makes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use super::line_tree::{TreeNews, TreeThread, TreeWork};
use super::log::Log;
use super::signing::Checkpoints;
use crate::ports::Clock;

/// How long the end of a process waits for the last checkpoint.
const LAST_WITHIN: Duration = Duration::from_secs(3);

/// Has checkpoints made when they are due.
#[derive(Debug)]
pub(super) struct CheckpointSigner {
    every_entries: u64,
    every: Duration,
    clock: Arc<dyn Clock>,
    work: Sender<TreeWork>,
    /// Ends with the thread.
    ended: Receiver<()>,
    /// How many lines were handed over.
    handed: Arc<AtomicU64>,
    /// The file of the last checkpoint, and how many of its lines it covers.
    last: (u64, u64),
    last_at: Duration,
}

impl CheckpointSigner {
    pub(super) fn new(
        checkpoints: &Checkpoints,
        clock: Arc<dyn Clock>,
        TreeThread { work, ended, handed }: TreeThread,
    ) -> CheckpointSigner {
        let Checkpoints { every_entries, every, .. } = *checkpoints;
        let last_at = clock.elapsed();
        CheckpointSigner { every_entries, every, clock, work, ended, handed, last: (0, 0), last_at }
    }

    /// Hands new lines over, and has a checkpoint made if one is due. The log itself does not wait.
    pub(super) fn look(&mut self, log: &mut Log, is_end: bool) {
        let mut lines = Vec::new();
        for one in log.take_news() {
            match one {
                TreeNews::Line(hash) => lines.push(hash),
                TreeNews::Ended(extent) => {
                    self.last = (extent.sequence, extent.lines);
                    self.last_at = self.clock.elapsed();
                    self.tell(TreeWork::Lines(std::mem::take(&mut lines)));
                    self.tell(TreeWork::Due(extent));
                }
            }
        }
        if !lines.is_empty() {
            self.tell(TreeWork::Lines(lines));
        }
        let now = log.extent();
        let (sequence, lines) = self.last;
        let since = if now.sequence == sequence { now.lines.saturating_sub(lines) } else { now.lines };
        let is_time = self.clock.elapsed().saturating_sub(self.last_at) >= self.every;
        if since > 0 && (is_end || is_time || since >= self.every_entries) {
            self.last = (now.sequence, now.lines);
            self.last_at = self.clock.elapsed();
            self.tell(TreeWork::Due(now));
        }
    }

    /// Waits a moment for the last checkpoint.
    pub(super) fn end(&mut self) {
        self.tell(TreeWork::End);
        if self.ended.recv_timeout(LAST_WITHIN) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the last checkpoint of the journal is not made yet: the next start makes it");
        }
    }

    fn tell(&self, work: TreeWork) {
        if let TreeWork::Lines(lines) = &work {
            self.handed.fetch_add(u64::try_from(lines.len()).unwrap_or(u64::MAX), Ordering::Release);
        }
        // Its thread ends only when it is told to, or by a fault, which those notice who wait for witnesses.
        drop(self.work.send(work));
    }
}
