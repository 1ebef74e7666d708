//! The writer thread: it collects waiting jobs, makes them in one transaction, and answers every caller.
//!
//! Commits whose entries their callers bring to the journal wait for no disk here: a transaction that somebody waits for,
//! or the next one after some seconds, brings them there, too. Everything else is on disk when it is confirmed.
//!
//! If the disk fails, the database is closed and reopened, and its content then shows which commits were made, so each
//! caller gets a definite answer. Only if the database cannot be reopened is the outcome unknown.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use redb::Database;
use tokio::sync::oneshot;

use super::super::SWEEP;
use super::super::plan::{self, Plan, PlannedChange};
use super::super::ticker::Ticker;
use super::content_sum::KeptSum;
use super::database::{KeySpace, OpenedDatabase, StoreTable, SyncTime, lasts, transact};
use super::medium::{Medium, Trouble};
use super::unsynced::UnsyncedChanges;
use crate::adapters::clock::Stopwatch;
use crate::adapters::store::sealed::Seals;
use crate::base::ids::Environment;
use crate::ledger::{Commit, CommitError, Number, Receipt, Sender, StoreFault};

/// The most jobs in one transaction.
const GROUP: usize = 256;
/// How long the writer leaves the disk alone after a failure.
const PAUSE: Duration = Duration::from_millis(100);

/// How long the writer waits before it tries by itself to bring changes to a disk that failed.
const RETRY: Duration = Duration::from_secs(1);

/// A job for the writer.
#[derive(Debug)]
pub(super) enum StoreJob {
    Commit(Commit, SyncTime, Arc<Ticket>, oneshot::Sender<Result<Receipt, CommitError>>),
    Kept(Environment, Sender, Number, oneshot::Sender<Result<(), StoreFault>>),
    Sweep(oneshot::Sender<Result<usize, StoreFault>>),
    Flush(oneshot::Sender<Result<(), StoreFault>>),
}

impl StoreJob {
    fn synced(&self) -> SyncTime {
        match self {
            StoreJob::Commit(_, synced, ..) => *synced,
            StoreJob::Kept(..) => SyncTime::Later,
            StoreJob::Sweep(_) | StoreJob::Flush(_) => SyncTime::Now,
        }
    }
}

/// Whether the writer has begun a commit, or its caller has given it up before that: never both.
#[derive(Debug, Default)]
pub(super) struct Ticket(AtomicU8);

impl Ticket {
    const BEGUN: u8 = 1;
    const GIVEN_UP: u8 = 2;

    fn begin(&self) -> bool {
        self.becomes(Ticket::BEGUN)
    }

    pub fn give_up(&self) -> bool {
        self.becomes(Ticket::GIVEN_UP)
    }

    fn becomes(&self, state: u8) -> bool {
        self.0.compare_exchange(0, state, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// The state that readers and the writer share.
#[derive(Debug)]
pub(super) struct WriterState {
    pub ticker: Ticker,
    /// `None` while the database cannot be opened.
    pub database: RwLock<Option<Arc<Database>>>,
    /// Whether the last attempt to write failed.
    pub has_failed: AtomicBool,
    /// The keys that seal the sum of the content.
    pub seals: Seals,
}

impl WriterState {
    pub fn database(&self) -> Option<Arc<Database>> {
        self.database.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets go of the database; its last user closes it.
    pub fn closes(&self) {
        self.put(None);
    }

    fn put(&self, database: Option<Arc<Database>>) {
        *self.database.write().unwrap_or_else(PoisonError::into_inner) = database;
    }
}

#[derive(Debug)]
pub(super) struct StoreWriter {
    medium: Arc<dyn Medium>,
    trouble: Arc<Trouble>,
    shared: Arc<WriterState>,
    opened: Option<OpenedDatabase>,
    cache_bytes: usize,
    /// Set since a failure; the disk is tested before the next transaction.
    failed: Option<(Stopwatch, String)>,
    unsynced: UnsyncedChanges,
}

/// The answer that a job gets when its transaction is on disk.
enum WriterReply {
    Commit(oneshot::Sender<Result<Receipt, CommitError>>, Environment, Result<Receipt, CommitError>),
    Done(oneshot::Sender<Result<(), StoreFault>>),
    Sweep(oneshot::Sender<Result<usize, StoreFault>>, Result<usize, StoreFault>),
}

impl WriterReply {
    /// Whether these latest numbers reach its own. A transaction is atomic, so one answer decides for all.
    fn is_in(&self, stands: &[(Environment, u64)]) -> bool {
        let WriterReply::Commit(_, environment, Ok(committed)) = self else { return false };
        stands.iter().any(|(one, last)| one == environment && *last >= committed.number().as_u64())
    }
}

impl StoreWriter {
    pub fn new(
        medium: Arc<dyn Medium>,
        trouble: Arc<Trouble>,
        shared: Arc<WriterState>,
        opened: OpenedDatabase,
        cache_bytes: usize,
    ) -> StoreWriter {
        let unsynced = UnsyncedChanges::default();
        StoreWriter { medium, trouble, shared, opened: Some(opened), cache_bytes, failed: None, unsynced }
    }

    /// Runs until no sender is left; returns whether everything is on disk then.
    pub fn run(mut self, jobs: &Receiver<StoreJob>) -> bool {
        loop {
            match self.next(jobs) {
                Ok(first) => self.group(std::iter::once(first).chain(jobs.try_iter().take(GROUP - 1)).collect()),
                Err(RecvTimeoutError::Timeout) => self.group(Vec::new()),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if self.unsynced.wait().is_some() {
            self.group(Vec::new());
        }
        let is_synced = self.unsynced.wait().is_none();
        if !is_synced {
            tracing::error!("the last commits are not on the store's disk: the next start takes them from the journal");
        }
        is_synced
    }

    /// Waits for a job, until changes have waited long enough for the disk.
    fn next(&self, jobs: &Receiver<StoreJob>) -> Result<StoreJob, RecvTimeoutError> {
        match self.unsynced.wait() {
            None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(_) if self.failed.is_some() => jobs.recv_timeout(RETRY),
            Some(wait) => jobs.recv_timeout(wait),
        }
    }

    fn group(&mut self, group: Vec<StoreJob>) {
        let (mut told, mut made) = (Vec::new(), Vec::new());
        let database = match self.ready() {
            Ok(database) => database,
            Err(why) => return group.into_iter().for_each(|job| refuse(job, &why)),
        };
        let is_awaited = group.is_empty() || group.iter().any(|job| job.synced() == SyncTime::Now);
        let synced = if is_awaited || self.unsynced.are_due() { SyncTime::Now } else { SyncTime::Later };
        match write_group(&database, &self.shared, (group, synced), &mut told, &mut made) {
            Ok(()) => {
                self.note_changes(synced, &told, &made);
                told.into_iter().for_each(|told| answer_caller(told, Ok(())));
            }
            Err(rest) => self.recover(told, rest),
        }
    }

    fn note_changes(&mut self, synced: SyncTime, told: &[WriterReply], made: &[PlannedChange]) {
        if synced == SyncTime::Now {
            return self.unsynced.are_synced();
        }
        self.unsynced.add(made);
        for told in told {
            if let WriterReply::Commit(_, environment, Ok(receipt)) = told {
                self.unsynced.note(*environment, receipt);
            }
        }
    }

    /// Returns the database, if the disk accepts writes.
    fn ready(&mut self) -> Result<Arc<Database>, String> {
        if let Some((since, why)) = &self.failed {
            if since.elapsed() < PAUSE {
                return Err(why.clone());
            }
            if let Err(error) = self.medium.has_room() {
                let why = error.to_string();
                self.note(Some(&why));
                return Err(why);
            }
        }
        let database = self.database();
        self.note(database.as_ref().err());
        database
    }

    /// Notes whether the disk failed.
    fn note(&mut self, why: Option<&String>) {
        self.failed = why.map(|why| (Stopwatch::start(), why.clone()));
        self.shared.has_failed.store(why.is_some(), Ordering::SeqCst);
    }

    fn database(&mut self) -> Result<Arc<Database>, String> {
        if self.opened.is_none() {
            let opened = OpenedDatabase::new(&self.medium, &self.trouble, self.cache_bytes)
                .map_err(|error| error.to_string())?;
            self.unsynced.make_again(&opened.database, &self.shared.seals)?;
            self.shared.put(Some(Arc::clone(&opened.database)));
            self.opened = Some(opened);
        }
        self.opened.as_ref().map(|opened| Arc::clone(&opened.database)).ok_or_else(|| "it is closed".to_owned())
    }

    /// Reopens the database, and finds out whether the failed transaction was made.
    fn recover(&mut self, told: Vec<WriterReply>, failure: WriterFailure) {
        let WriterFailure { why, rest } = failure;
        tracing::error!(reason = why, "the store could not write; the database is reopened");
        self.shared.put(None);
        if let Some(opened) = self.opened.take() {
            opened.end();
        }
        self.note(Some(&why));
        let stands = self.database().and_then(|database| lasts(&database));
        let made = stands.map(|stands| told.iter().any(|told| told.is_in(&stands)));
        for told in told {
            let outcome = match (&made, &told) {
                (Ok(true), _) => Ok(()),
                (Err(_), WriterReply::Commit(_, _, Ok(_))) => Err(StoreFault::InDoubt(why.clone())),
                // The conflict may come from this very transaction.
                _ => Err(StoreFault::Away(why.clone())),
            };
            answer_caller(told, outcome);
        }
        rest.into_iter().for_each(|job| refuse(job, &why));
    }
}

/// A transaction that was not made, as far as is known.
struct WriterFailure {
    why: String,
    /// The jobs that were not begun.
    rest: Vec<StoreJob>,
}

/// Makes one transaction of a group; fills `told` with each job's answer before the transaction is made, and `made` with
/// its changes if they come to the disk later.
fn write_group(
    database: &Database,
    shared: &WriterState,
    (group, synced): (Vec<StoreJob>, SyncTime),
    told: &mut Vec<WriterReply>,
    made: &mut Vec<PlannedChange>,
) -> Result<(), WriterFailure> {
    let mut group = group.into_iter();
    let written = transact(database, synced, |table| {
        let mut sum = KeptSum::of(table, &shared.seals)?;
        for job in group.by_ref() {
            let changes = plan_job(table, &shared.ticker, job, told)?;
            if synced == SyncTime::Later {
                made.extend_from_slice(&changes);
            }
            sum.make(table, changes)?;
        }
        sum.write(table)
    });
    written.map_err(|why| WriterFailure { why, rest: group.collect() })
}

/// Plans the changes of a job. An error comes from the database: the transaction must not be made.
fn plan_job(
    table: &StoreTable<'_>,
    ticker: &Ticker,
    job: StoreJob,
    told: &mut Vec<WriterReply>,
) -> Result<Vec<PlannedChange>, StoreFault> {
    match job {
        StoreJob::Commit(commit, _, ticket, answer) => {
            if !ticket.begin() {
                return Ok(Vec::new());
            }
            let planned = plan::plan(&KeySpace(table), ticker.now(), &commit);
            if let Err(CommitError::Fault(fault @ (StoreFault::Away(_) | StoreFault::InDoubt(_)))) = planned {
                told.push(WriterReply::Commit(answer, commit.environment, Err(CommitError::Fault(fault.clone()))));
                return Err(fault);
            }
            let (outcome, changes) = match planned {
                Ok(Plan { committed, changes }) => (Ok(committed), changes),
                Err(error) => (Err(error), Vec::new()),
            };
            told.push(WriterReply::Commit(answer, commit.environment, outcome));
            Ok(changes)
        }
        StoreJob::Kept(environment, by, up_to, answer) => {
            let changes = plan::kept(&KeySpace(table), environment, &by, up_to)?;
            told.push(WriterReply::Done(answer));
            Ok(changes)
        }
        StoreJob::Sweep(answer) => {
            let (count, changes) = match plan::sweep(&KeySpace(table), ticker.now(), SWEEP) {
                Ok((count, changes)) => (Ok(count), changes),
                Err(fault @ StoreFault::Broken(_)) => (Err(fault), Vec::new()),
                Err(fault) => return Err(fault),
            };
            told.push(WriterReply::Sweep(answer, count));
            Ok(changes)
        }
        StoreJob::Flush(answer) => {
            told.push(WriterReply::Done(answer));
            Ok(Vec::new())
        }
    }
}

/// Answers a caller; one that has left needs no answer.
fn answer_caller(told: WriterReply, outcome: Result<(), StoreFault>) {
    match told {
        WriterReply::Commit(answer, _, planned) => {
            let outcome = outcome.map_err(CommitError::Fault).and(planned);
            drop(answer.send(outcome));
        }
        WriterReply::Done(answer) => drop(answer.send(outcome)),
        WriterReply::Sweep(answer, count) => drop(answer.send(outcome.and(count))),
    }
}

fn refuse(job: StoreJob, why: &str) {
    let away = || StoreFault::Away(why.to_owned());
    match job {
        StoreJob::Commit(_, _, ticket, answer) => {
            if ticket.begin() {
                drop(answer.send(Err(CommitError::Fault(away()))));
            }
        }
        StoreJob::Kept(_, _, _, answer) | StoreJob::Flush(answer) => drop(answer.send(Err(away()))),
        StoreJob::Sweep(answer) => drop(answer.send(Err(away()))),
    }
}
