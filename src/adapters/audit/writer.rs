//! The writer thread: it writes and syncs all waiting entries together, in the order of their numbers. An entry waits
//! until those before it are there.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot, watch};

use super::folder_copy::OriginalMark;
use super::following::Following;
use super::log::{EntryRefusal, Log, Prepared, Results};
use super::reach_note::ReachNote;
use super::signer::CheckpointSigner;
use crate::audit::{FileHeader, Highest, SnapshotLink};
use crate::base::ids::Environment;
use crate::ledger::Number;
use crate::ports::AuditFault;
use crate::telemetry::ToldCauses;

/// How often a failed disk is tried again, and due checkpoints are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The most entries in one sync.
const BATCH_ENTRIES: usize = 4096;

/// What a caller asks of the log.
#[derive(Debug)]
pub(super) enum LogRequest {
    Append(Vec<Prepared>),
    /// To go on behind a number.
    Skip(Environment, u64),
    /// To go on behind a number with another history.
    BeginAgain(Environment, u64),
    /// To name a snapshot from the next file on.
    Link(SnapshotLink),
}

/// The request of one waiting caller.
#[derive(Debug)]
pub(super) struct LogJob {
    pub(super) asked: LogRequest,
    pub(super) answer: oneshot::Sender<Result<(), AuditFault>>,
    /// A place in the queue, free again when the job is dropped.
    pub(super) _place: OwnedSemaphorePermit,
}

impl LogJob {
    fn entries(&self) -> &[Prepared] {
        match &self.asked {
            LogRequest::Append(entries) => entries,
            LogRequest::Skip(..) | LogRequest::BeginAgain(..) | LogRequest::Link(_) => &[],
        }
    }
}

/// Whether the audit log can be written.
#[derive(Debug)]
pub(super) struct Health {
    well: AtomicBool,
    /// Whether an entry waits for one before it.
    waits: AtomicBool,
    /// The causes that were logged since it could be written last, so that each is logged once and not with every attempt.
    told: Mutex<ToldCauses>,
    /// Why it cannot be written.
    trouble: Mutex<Option<String>>,
}

impl Health {
    pub(super) fn new() -> Health {
        Health {
            well: AtomicBool::new(true),
            waits: AtomicBool::new(false),
            told: Mutex::default(),
            trouble: Mutex::default(),
        }
    }

    pub(super) fn is_well(&self) -> bool {
        self.well.load(Ordering::Acquire)
    }

    pub(super) fn waits(&self) -> bool {
        self.waits.load(Ordering::Acquire)
    }

    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn fails(&self, why: &str) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_owned());
        self.well.store(false, Ordering::Release);
        if self.is_new(why) {
            tracing::error!(why, "the audit chain cannot be written: money is refused until it can");
        }
    }

    /// Whether a cause was not logged yet; the file that met it makes no other one of it.
    fn is_new(&self, why: &str) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let cause = why.rsplit_once("`: ").map_or(why, |(_, cause)| cause);
        told.is_new(cause)
    }

    fn works(&self) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        self.well.store(true, Ordering::Release);
        if told.end() {
            *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
            tracing::warn!("the audit chain can be written again");
        }
    }
}

/// Environments whose entries are refused.
pub(super) type Suspended = Arc<Mutex<BTreeSet<Environment>>>;

/// What the thread shares with its callers.
#[derive(Debug)]
pub(super) struct WriterSignals {
    /// Tells how far the log has every entry.
    pub(super) reach: watch::Sender<Highest>,
    /// Tells the header of the newest file.
    pub(super) begun: watch::Sender<Arc<FileHeader>>,
    /// Told when an entry waits for one before it.
    pub(super) gap: Arc<Notify>,
    pub(super) suspended: Suspended,
}

/// The state that the thread owns.
#[derive(Debug)]
pub(super) struct LogWriter {
    pub(super) log: Log,
    pub(super) signer: Option<CheckpointSigner>,
    pub(super) health: Arc<Health>,
    /// Held as long as anything may be written.
    pub(super) lock: File,
    signals: WriterSignals,
    /// Jobs with such entries.
    waiting: Vec<LogJob>,
    following: Option<Following>,
    pub(super) note: Option<ReachNote>,
    mark: OriginalMark,
}

impl LogWriter {
    pub(super) fn new(
        log: Log,
        signer: Option<CheckpointSigner>,
        health: Arc<Health>,
        lock: File,
        signals: WriterSignals,
        (following, mark): (Option<Following>, OriginalMark),
    ) -> LogWriter {
        LogWriter { log, signer, health, lock, signals, waiting: Vec::new(), following, note: None, mark }
    }

    /// Runs until no sender is left.
    pub(super) fn run(mut self, jobs: &Receiver<LogJob>) {
        self.tell_reach();
        loop {
            match jobs.recv_timeout(POLL_INTERVAL) {
                Ok(job) => {
                    let mut batch = vec![job];
                    let mut entries = 0_usize;
                    while entries < BATCH_ENTRIES
                        && let Ok(job) = jobs.try_recv()
                    {
                        if let LogRequest::Append(more) = &job.asked {
                            entries = entries.saturating_add(more.len());
                        }
                        batch.push(job);
                    }
                    self.write(batch);
                }
                Err(RecvTimeoutError::Timeout) => self.probe(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.checkpoint(false);
            self.keep_apart(false);
        }
        self.checkpoint(true);
        self.tell_reach();
        self.keep_apart(true);
        if let Some(signer) = &mut self.signer {
            signer.end();
        }
        if let Some(following) = &mut self.following {
            following.end();
        }
        drop(self.lock);
    }

    fn write(&mut self, batch: Vec<LogJob>) {
        let mut appends = std::mem::take(&mut self.waiting);
        for job in batch {
            match job.asked {
                LogRequest::Append(_) => appends.push(job),
                LogRequest::Skip(environment, up_to) | LogRequest::BeginAgain(environment, up_to) => {
                    let skipped = match job.asked {
                        LogRequest::BeginAgain(..) => self.log.begin_again(environment, up_to).map(|()| true),
                        _ => self.log.skip(environment, up_to),
                    };
                    if let (Ok(true), Some(following)) = (&skipped, &mut self.following) {
                        following.skip(environment, up_to);
                    }
                    drop(job.answer.send(skipped.map(drop).map_err(|error| AuditFault::Disk(error.to_string()))));
                }
                LogRequest::Link(snapshot) => {
                    self.log.link(snapshot);
                    drop(job.answer.send(Ok(())));
                }
            }
        }
        // A caller that stopped waiting was told that the append failed, and will send it again.
        appends.retain(|job| !job.answer.is_closed());
        let appends = self.without_suspended(appends);
        let (ready, waiting) = in_order(appends, self.log.highest());
        self.health.waits.store(!waiting.is_empty(), Ordering::Release);
        if !waiting.is_empty() {
            self.signals.gap.notify_one();
        }
        self.waiting = waiting;
        if ready.is_empty() {
            self.probe();
        } else {
            self.append(ready);
        }
        self.tell_reach();
    }

    /// Refuses entries of a store that lost its memory: the rebuild counts on the journals as they are.
    fn without_suspended(&self, jobs: Vec<LogJob>) -> Vec<LogJob> {
        let suspended = self.signals.suspended.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if suspended.is_empty() {
            return jobs;
        }
        let is_refused = |job: &LogJob| job.entries().iter().any(|entry| suspended.contains(&entry.environment));
        let (refused, jobs): (Vec<_>, Vec<_>) = jobs.into_iter().partition(is_refused);
        for job in refused {
            drop(job.answer.send(Err(AuditFault::Store("it lost its memory".to_owned()))));
        }
        jobs
    }

    fn tell_reach(&mut self) {
        if let Some(note) = &mut self.note {
            note.take(&self.log.extent());
        }
        self.signals.reach.send_if_modified(|reached| {
            let is_new = reached != self.log.highest();
            reached.clone_from(self.log.highest());
            is_new
        });
        let header = self.log.header();
        self.signals.begun.send_if_modified(|begun| {
            let is_new = begun.sequence != header.sequence;
            *begun = Arc::clone(header);
            is_new
        });
    }

    fn append(&mut self, batch: Vec<LogJob>) {
        let passed = |job: &LogJob| job.entries().iter().try_for_each(|entry| self.log.passed_over(entry));
        let passed: Vec<Result<(), EntryRefusal>> = batch.iter().map(passed).collect();
        let lists = batch.iter().zip(&passed);
        let lists: Vec<&[Prepared]> =
            lists.map(|(job, passed)| if passed.is_ok() { job.entries() } else { &[] }).collect();
        let before = self.log.highest().clone();
        let mut results = self.log.append(&lists);
        for (result, passed) in results.iter_mut().zip(passed) {
            if result.is_ok() {
                *result = passed;
            }
        }
        self.hand_over(&lists, &before, &mut results);
        for result in &results {
            match result {
                Ok(()) => self.health.works(),
                Err(EntryRefusal::Disk(why)) => self.health.fails(why),
                // The caller reports these: the disk works.
                Err(EntryRefusal::Clash(_) | EntryRefusal::Contradicted { .. } | EntryRefusal::TooLate(_)) => {}
            }
        }
        // Whoever acts on an answer has its entry counted before.
        self.tell_reach();
        for (job, result) in batch.into_iter().zip(results) {
            // The caller may have left meanwhile.
            let told = result.map_err(|refusal| match refusal {
                EntryRefusal::Clash(why) => AuditFault::Refused(why),
                EntryRefusal::Contradicted { number, why } => {
                    AuditFault::Contradicted { number: Number::new(number), why }
                }
                EntryRefusal::TooLate(why) => AuditFault::Store(why),
                EntryRefusal::Disk(why) => AuditFault::Disk(why),
            });
            drop(job.answer.send(told));
        }
    }

    /// Hands new entries over to the follower. An entry that contradicts the journal is no result for anybody, whether this
    /// batch or an earlier one brought it to disk.
    fn hand_over(&mut self, lists: &[&[Prepared]], before: &Highest, results: &mut Results) {
        let Some(following) = &mut self.following else { return };
        let was = |environment| before.get(&environment).copied().unwrap_or(0);
        let is = self.log.highest();
        let mut new: Vec<&Prepared> = lists.iter().copied().flatten().collect();
        new.retain(|entry| {
            entry.number > was(entry.environment) && is.get(&entry.environment).is_some_and(|is| entry.number <= *is)
        });
        new.sort_by_key(|entry| (entry.environment, entry.number));
        new.dedup_by_key(|entry| (entry.environment, entry.number));
        let handed_over = following.hand_over(&new);
        for (list, result) in lists.iter().zip(results.iter_mut()).filter(|(_, result)| result.is_ok()) {
            *result = match (&handed_over, following.contradicting(list)) {
                (Err(why), _) => Err(EntryRefusal::Disk(format!("the replica of the store beside the journal: {why}"))),
                (Ok(()), Some((number, why))) => Err(EntryRefusal::Contradicted { number, why }),
                (Ok(()), None) => Ok(()),
            };
        }
    }

    fn probe(&mut self) {
        if let Some(Err(why)) = self.following.as_mut().map(Following::catch_up) {
            return self.health.fails(&why);
        }
        if self.health.is_well() {
            return;
        }
        match self.log.probe() {
            Ok(()) => self.health.works(),
            Err(error) => self.health.fails(&error.to_string()),
        }
    }

    /// Keeps the folder apart from every backup of it.
    fn keep_apart(&mut self, is_end: bool) {
        let extent = self.log.extent();
        self.mark.renew((extent.sequence, extent.lines), is_end);
    }

    fn checkpoint(&mut self, is_end: bool) {
        match &mut self.signer {
            Some(signer) => signer.look(&mut self.log, is_end),
            None => drop(self.log.take_news()),
        }
    }
}

/// Returns the jobs that can be written now, in the order of their numbers, and those that wait for an entry before one
/// of theirs.
fn in_order(mut jobs: Vec<LogJob>, highest: &Highest) -> (Vec<LogJob>, Vec<LogJob>) {
    jobs.sort_by_key(|job| job.entries().first().map(|entry| (entry.environment, entry.number)));
    let mut reached = highest.clone();
    jobs.into_iter().partition(|job| {
        let mut then = reached.clone();
        let fits = job.entries().iter().all(|entry| {
            let last = then.entry(entry.environment).or_default();
            let fits = entry.number <= *last || entry.follows(*last);
            *last = entry.number.max(*last);
            fits
        });
        if fits {
            reached = then;
        }
        fits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once_until_the_log_can_be_written_again() {
        let health = Health::new();
        let full = "No space left on device (os error 28)";
        let whys =
            [format!("`audit-a.jsonl`: {full}"), full.to_owned(), "`audit-a.jsonl`: Input/output error".to_owned()];
        let told = |whys: &[String]| whys.iter().map(|why| health.is_new(why)).collect::<Vec<_>>();
        assert_eq!(told(&whys), [true, false, true]);
        assert_eq!(told(&whys), [false; 3]);
        health.works();
        assert!(told(&whys)[0]);
    }
}
