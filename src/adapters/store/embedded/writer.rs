//! The one thread that writes: it takes all that waits, makes one transaction of it, one fsync, and answers everybody.
//!
//! When the disk fails, the database is closed and opened anew, and what then stands in it says which commits were
//! made: they are answered truly. Only where it cannot be opened, nobody knows.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use redb::{Database, ReadableDatabase as _};
use tokio::sync::oneshot;

use super::super::SWEEP;
use super::super::look;
use super::super::plan::{self, Plan};
use super::super::ticker::Ticker;
use super::database::{Map, Opened, TABLE, Table, make};
use super::medium::{Medium, Trouble};
use crate::adapters::clock::Stopwatch;
use crate::base::ids::Environment;
use crate::commit::{Commit, CommitError, Committed, Number, StoreFault};

/// How many jobs are one transaction at most.
const GROUP: usize = 256;
/// After a failure the disk is left alone for so long.
const PAUSE: Duration = Duration::from_millis(100);

/// What waits to be written.
#[derive(Debug)]
pub(super) enum Job {
    Commit(Commit, Arc<Ticket>, oneshot::Sender<Result<Committed, CommitError>>),
    Drained(Environment, Vec<Number>, oneshot::Sender<Result<(), StoreFault>>),
    Sweep(oneshot::Sender<Result<usize, StoreFault>>),
}

/// Whether the writer has begun with a commit, or its caller has given it up before that: never both.
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

/// What readers and the writer share.
#[derive(Debug)]
pub(super) struct Shared {
    pub ticker: Ticker,
    /// None while the database cannot be opened.
    pub database: RwLock<Option<Arc<Database>>>,
}

impl Shared {
    pub fn database(&self) -> Option<Arc<Database>> {
        self.database.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn put(&self, database: Option<Arc<Database>>) {
        *self.database.write().unwrap_or_else(PoisonError::into_inner) = database;
    }
}

#[derive(Debug)]
pub(super) struct Writer {
    medium: Arc<dyn Medium>,
    trouble: Arc<Trouble>,
    shared: Arc<Shared>,
    opened: Option<Opened>,
    /// Since something failed; the disk is tried before the next transaction.
    failed: Option<(Stopwatch, String)>,
}

/// What a job will be told when its transaction is on disk.
enum Told {
    Commit(oneshot::Sender<Result<Committed, CommitError>>, Environment, Result<Committed, CommitError>),
    Drained(oneshot::Sender<Result<(), StoreFault>>),
    Sweep(oneshot::Sender<Result<usize, StoreFault>>, Result<usize, StoreFault>),
}

impl Told {
    /// Whether these latest numbers reach its own. A transaction is made whole or not at all: so one tells for all.
    fn is_in(&self, stands: &[(Environment, u64)]) -> bool {
        let Told::Commit(_, environment, Ok(committed)) = self else { return false };
        stands.iter().any(|(one, last)| one == environment && *last >= committed.number.as_u64())
    }
}

impl Writer {
    pub fn new(medium: Arc<dyn Medium>, trouble: Arc<Trouble>, shared: Arc<Shared>, opened: Opened) -> Writer {
        Writer { medium, trouble, shared, opened: Some(opened), failed: None }
    }

    /// Until nobody can ask any more.
    pub fn run(mut self, jobs: &Receiver<Job>) {
        while let Ok(first) = jobs.recv() {
            let group = std::iter::once(first).chain(jobs.try_iter().take(GROUP - 1)).collect();
            self.group(group);
        }
    }

    fn group(&mut self, group: Vec<Job>) {
        let mut told = Vec::new();
        let written = match self.ready() {
            Ok(database) => write(&database, &self.shared.ticker, group, &mut told),
            Err(why) => return group.into_iter().for_each(|job| refuse(job, &why)),
        };
        match written {
            Ok(()) => told.into_iter().for_each(|told| tell(told, Ok(()))),
            Err(rest) => self.recover(told, rest),
        }
    }

    /// The database, if the disk takes what is written.
    fn ready(&mut self) -> Result<Arc<Database>, String> {
        if let Some((since, why)) = &self.failed {
            if since.elapsed() < PAUSE {
                return Err(why.clone());
            }
            if let Err(error) = self.medium.has_room() {
                let why = error.to_string();
                self.failed = Some((Stopwatch::start(), why.clone()));
                return Err(why);
            }
        }
        let database = self.database();
        self.failed = database.as_ref().err().map(|why| (Stopwatch::start(), why.clone()));
        database
    }

    fn database(&mut self) -> Result<Arc<Database>, String> {
        if self.opened.is_none() {
            let opened = Opened::new(&self.medium, &self.trouble).map_err(|error| error.to_string())?;
            self.shared.put(Some(Arc::clone(&opened.database)));
            self.opened = Some(opened);
        }
        self.opened.as_ref().map(|opened| Arc::clone(&opened.database)).ok_or_else(|| "it is closed".to_owned())
    }

    /// Opens the database anew, and sees what became of a transaction that failed.
    fn recover(&mut self, told: Vec<Told>, failure: Failure) {
        let Failure { why, rest } = failure;
        tracing::error!(reason = why, "the store could not write");
        self.shared.put(None);
        if let Some(opened) = self.opened.take() {
            opened.end();
        }
        self.failed = Some((Stopwatch::start(), why.clone()));
        let stands = self.database().and_then(|database| lasts(&database));
        let made = stands.map(|stands| told.iter().any(|told| told.is_in(&stands)));
        for told in told {
            let outcome = match (&made, &told) {
                (Ok(true), _) => Ok(()),
                (Err(_), Told::Commit(_, _, Ok(_))) => Err(StoreFault::InDoubt(why.clone())),
                // What stood in its way may have been of this very transaction.
                _ => Err(StoreFault::Away(why.clone())),
            };
            tell(told, outcome);
        }
        rest.into_iter().for_each(|job| refuse(job, &why));
    }
}

/// A transaction that was not made, as far as is known.
struct Failure {
    why: String,
    /// What was not even begun.
    rest: Vec<Job>,
}

/// Makes one transaction of a group; what each job will be told stands in `told` before it is on disk.
fn write(database: &Database, ticker: &Ticker, group: Vec<Job>, told: &mut Vec<Told>) -> Result<(), Failure> {
    let mut group = group.into_iter();
    let written = transact(database, |table| {
        for job in group.by_ref() {
            plan_and_make(table, ticker, job, told)?;
        }
        Ok(())
    });
    written.map_err(|why| Failure { why, rest: group.collect() })
}

fn transact(database: &Database, work: impl FnOnce(&mut Table<'_>) -> Result<(), StoreFault>) -> Result<(), String> {
    let write = database.begin_write().map_err(|error| error.to_string())?;
    {
        let mut table = write.open_table(TABLE).map_err(|error| error.to_string())?;
        work(&mut table).map_err(|fault| fault.to_string())?;
    }
    write.commit().map_err(|error| error.to_string())
}

/// An error is one of the database: the transaction must not be made.
fn plan_and_make(table: &mut Table<'_>, ticker: &Ticker, job: Job, told: &mut Vec<Told>) -> Result<(), StoreFault> {
    match job {
        Job::Commit(commit, ticket, answer) => {
            if !ticket.begin() {
                return Ok(());
            }
            let planned = plan::plan(&Map(table), ticker.now(), &commit);
            if let Err(CommitError::Fault(fault @ (StoreFault::Away(_) | StoreFault::InDoubt(_)))) = planned {
                told.push(Told::Commit(answer, commit.environment, Err(CommitError::Fault(fault.clone()))));
                return Err(fault);
            }
            let (outcome, changes) = match planned {
                Ok(Plan { committed, changes }) => (Ok(committed), changes),
                Err(error) => (Err(error), Vec::new()),
            };
            told.push(Told::Commit(answer, commit.environment, outcome));
            make(table, changes)
        }
        Job::Drained(environment, numbers, answer) => {
            told.push(Told::Drained(answer));
            make(table, plan::drain(environment, &numbers))
        }
        Job::Sweep(answer) => {
            let (count, changes) = match plan::sweep(&Map(table), ticker.now(), SWEEP) {
                Ok((count, changes)) => (Ok(count), changes),
                Err(fault @ StoreFault::Broken(_)) => (Err(fault), Vec::new()),
                Err(fault) => return Err(fault),
            };
            told.push(Told::Sweep(answer, count));
            make(table, changes)
        }
    }
}

/// The latest number of each environment.
fn lasts(database: &Database) -> Result<Vec<(Environment, u64)>, String> {
    let read = database.begin_read().map_err(|error| error.to_string())?;
    let table = read.open_table(TABLE).map_err(|error| error.to_string())?;
    let last = |environment| look::last(&Map(&table), environment).map(|last| (environment, last));
    Environment::ALL.into_iter().map(last).collect::<Result<_, _>>().map_err(|fault| fault.to_string())
}

/// A caller that has gone away needs no answer.
fn tell(told: Told, outcome: Result<(), StoreFault>) {
    match told {
        Told::Commit(answer, _, planned) => {
            let outcome = outcome.map_err(CommitError::Fault).and(planned);
            drop(answer.send(outcome));
        }
        Told::Drained(answer) => drop(answer.send(outcome)),
        Told::Sweep(answer, count) => drop(answer.send(outcome.and(count))),
    }
}

fn refuse(job: Job, why: &str) {
    let away = || StoreFault::Away(why.to_owned());
    match job {
        Job::Commit(_, ticket, answer) => {
            if ticket.begin() {
                drop(answer.send(Err(CommitError::Fault(away()))));
            }
        }
        Job::Drained(_, _, answer) => drop(answer.send(Err(away()))),
        Job::Sweep(answer) => drop(answer.send(Err(away()))),
    }
}
