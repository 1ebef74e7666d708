//! The one thread that writes: what waits is written and synced together, in the order in which it came.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::log::{Log, Prepared, Refusal};
use super::signer::Signer;
use crate::ports::AuditFault;

/// How often a disk that failed is tried, and due checkpoints are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How much is synced at once.
const BATCH_ENTRIES: usize = 4096;

/// Entries of one caller, who waits.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) entries: Vec<Prepared>,
    pub(super) answer: oneshot::Sender<Result<(), AuditFault>>,
    /// A place in the queue, free again when the job is gone.
    pub(super) _place: OwnedSemaphorePermit,
}

/// Whether the chain can be written.
#[derive(Debug)]
pub(super) struct Health {
    well: AtomicBool,
    /// Told once, not with every attempt.
    told: Mutex<Option<String>>,
}

impl Health {
    pub(super) fn new() -> Health {
        Health { well: AtomicBool::new(true), told: Mutex::new(None) }
    }

    pub(super) fn is_well(&self) -> bool {
        self.well.load(Ordering::Acquire)
    }

    pub(super) fn fails(&self, why: &str) {
        self.well.store(false, Ordering::Release);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.as_deref() != Some(why) {
            tracing::error!(why, "the audit chain cannot be written: money is refused until it can");
            *told = Some(why.to_owned());
        }
    }

    fn works(&self) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        self.well.store(true, Ordering::Release);
        if told.take().is_some() {
            tracing::warn!("the audit chain can be written again");
        }
    }
}

/// What the thread owns.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) log: Log,
    pub(super) signer: Option<Signer>,
    pub(super) health: Arc<Health>,
    /// Held as long as anything may be written.
    pub(super) lock: File,
}

impl Writer {
    /// Until nobody can ask any more.
    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        loop {
            match jobs.recv_timeout(LOOK_EVERY) {
                Ok(job) => {
                    let mut batch = vec![job];
                    let mut entries = 0_usize;
                    while entries < BATCH_ENTRIES
                        && let Ok(job) = jobs.try_recv()
                    {
                        entries = entries.saturating_add(job.entries.len());
                        batch.push(job);
                    }
                    self.write(batch);
                }
                Err(RecvTimeoutError::Timeout) => self.probe(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.checkpoint(false);
        }
        self.checkpoint(true);
        drop(self.lock);
    }

    fn write(&mut self, mut batch: Vec<Job>) {
        // Who no longer waits was told that it failed, and asks again.
        batch.retain(|job| !job.answer.is_closed());
        if batch.is_empty() {
            return self.probe();
        }
        let lists: Vec<&[Prepared]> = batch.iter().map(|job| job.entries.as_slice()).collect();
        let results = self.log.append(&lists);
        for result in &results {
            match result {
                Ok(()) => self.health.works(),
                Err(Refusal::Disk(why)) => self.health.fails(why),
                // Who asked for it tells it: the disk is well.
                Err(Refusal::Clash(_)) => {}
            }
        }
        for (job, result) in batch.into_iter().zip(results) {
            // The caller may have gone meanwhile.
            let told = result.map_err(|refusal| match refusal {
                Refusal::Clash(why) => AuditFault::Refused(why),
                Refusal::Disk(why) => AuditFault::Disk(why),
            });
            drop(job.answer.send(told));
        }
    }

    fn probe(&mut self) {
        if self.health.is_well() {
            return;
        }
        match self.log.probe() {
            Ok(()) => self.health.works(),
            Err(error) => self.health.fails(&error.to_string()),
        }
    }

    fn checkpoint(&mut self, is_end: bool) {
        if let Some(signer) = &mut self.signer {
            signer.look(&mut self.log, is_end);
        }
    }
}
