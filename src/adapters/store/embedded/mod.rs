//! The store of a single node: a redb database in a local folder.
//!
//! Each commit is on disk when it is confirmed, except for those that their callers bring to the journal: these come to the
//! disk some seconds later, and a start after a crash takes what is missing from the journal. One thread writes all waiting
//! commits in one transaction; readers see the latest complete transaction and never wait for the writer. Every call ends by
//! the deadline.

mod boot_clock;
mod content_sum;
mod database;
mod journal_mark;
mod medium;
mod transfer;
mod unsynced;
mod writer;

pub use content_sum::ContentVerdict;
pub(super) use content_sum::KeptSum;
pub(super) use database::{
    CACHE_BYTES, KeySpace, OpenedDatabase, ReadTable, StoreTable, SyncTime, TABLE, fault, lasts, latest_table, locked,
    make, transact,
};
pub use database::{FILE, OpenError};
pub use medium::Medium;
pub(super) use medium::Trouble;
pub use transfer::{TransferError, backup, create, export, import, verify};
pub(super) use transfer::{take_in, write_out};

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::sync::{Arc, RwLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_trait::async_trait;
use redb::Database;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::timeout;

use super::queries;
use super::sealed::Seals;
use super::ticker::{Ticker, TickerStart};
use crate::base::ids::Environment;
use crate::ledger::{
    ClockLeap, Commit, CommitError, InstallationId, Number, Query, QueryAnswer, Receipt, Sender, Step, StoreFault,
    StoreTime, WriteRefusal,
};
use crate::ports::{Clock, Store};
use database::unless_it_panics;
use writer::{StoreJob, StoreWriter, Ticket, WriterState};

/// How far the kept time of a store may be ahead of the time of day at its next start.
const MAX_AHEAD: Duration = Duration::from_secs(60);

/// Deadlines and queue sizes of the store.
#[derive(Clone, Debug)]
pub struct Options {
    /// Every call ends within this time.
    pub deadline: Duration,
    /// The most writes that may wait; further writes are refused at once.
    pub queue: usize,
    /// The most reads at once; further reads wait.
    pub readers: usize,
    /// The memory that may keep pages of the file.
    pub cache_bytes: usize,
    /// Whether the time of day counts at once. A gate waits until it is compared with a date of others.
    pub trusts_clock: bool,
    /// The keys that seal the sum of the content.
    pub seals: Seals,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            deadline: Duration::from_secs(5),
            queue: 1024,
            readers: 32,
            cache_bytes: CACHE_BYTES,
            trusts_clock: true,
            seals: Seals::default(),
        }
    }
}

#[derive(Debug)]
pub struct Embedded {
    shared: Arc<WriterState>,
    options: Options,
    clock: Arc<dyn Clock>,
    trouble: Arc<Trouble>,
    /// The folder of the file, if it has one.
    folder: Option<PathBuf>,
    readers: Arc<Semaphore>,
    /// `None` while the store is being dropped.
    jobs: Option<SyncSender<StoreJob>>,
    writer: Option<JoinHandle<bool>>,
    /// Whether this process put the mark that the file may lack commits.
    is_marked: AtomicBool,
    /// Whether an end in order takes the mark away.
    takes_mark_away: AtomicBool,
    life: watch::Receiver<()>,
}

impl Embedded {
    /// Opens the store of a folder, or creates one. It belongs to this process until it is dropped.
    pub fn open(folder: &Path, clock: Arc<dyn Clock>, options: Options) -> Result<Embedded, OpenError> {
        Embedded::within(folder, true, clock, options)
    }

    /// Opens the existing store of a folder.
    pub fn open_existing(folder: &Path, clock: Arc<dyn Clock>, options: Options) -> Result<Embedded, OpenError> {
        Embedded::within(folder, false, clock, options)
    }

    fn within(folder: &Path, may_create: bool, clock: Arc<dyn Clock>, options: Options) -> Result<Embedded, OpenError> {
        let medium = Arc::new(locked(folder, may_create)?);
        // The file could be anybody's. A time behind ends nothing early, and the time of day counts as leapt then.
        let of_day = StoreTime::of_micros(clock.now().as_microsecond());
        let is_behind = |time: &StoreTime| time.since(of_day) <= MAX_AHEAD;
        let expected = boot_clock::expected(folder, clock.elapsed()).filter(is_behind);
        let unknown = if options.trusts_clock { TickerStart::OfDay } else { TickerStart::Unknown };
        let start = expected.map_or(unknown, TickerStart::Expected);
        let mut store = Embedded::on(medium, clock, options, start)?;
        store.folder = Some(folder.to_owned());
        store.keep_time();
        Ok(store)
    }

    /// Opens the store on a medium that nothing else uses.
    pub fn over(medium: Arc<dyn Medium>, clock: Arc<dyn Clock>, options: Options) -> Result<Embedded, OpenError> {
        Embedded::on(medium, clock, options, TickerStart::OfDay)
    }

    fn on(
        medium: Arc<dyn Medium>,
        clock: Arc<dyn Clock>,
        options: Options,
        start: TickerStart,
    ) -> Result<Embedded, OpenError> {
        let trouble = Arc::new(Trouble::default());
        let opened = OpenedDatabase::new(&medium, &trouble, options.cache_bytes)?;
        let since = trouble.told_from_damage(|| opened.latest())?;
        let database = RwLock::new(Some(Arc::clone(&opened.database)));
        let (ticker, has_failed) = (Ticker::new(clock.clone(), since, start), AtomicBool::new(false));
        let shared = Arc::new(WriterState { ticker, database, has_failed, seals: options.seals.clone() });
        let writer = StoreWriter::new(medium, Arc::clone(&trouble), Arc::clone(&shared), opened, options.cache_bytes);
        let (jobs, waiting) = mpsc::sync_channel(options.queue);
        let (alive, life) = watch::channel(());
        let writer = thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || {
                let _alive = alive;
                writer.run(&waiting)
            })
            .map_err(|error| OpenError::Database(error.to_string()))?;
        let readers = Arc::new(Semaphore::new(options.readers));
        let (jobs, writer) = (Some(jobs), Some(writer));
        let (is_marked, takes_mark_away) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Embedded {
            shared,
            options,
            clock,
            trouble,
            folder: None,
            readers,
            jobs,
            writer,
            is_marked,
            takes_mark_away,
            life,
        })
    }

    /// Whether the last commits may be in the journal alone: a gate uses this store, or was killed.
    pub fn needs_journal(&self) -> bool {
        self.folder.as_deref().is_some_and(|folder| journal_mark::check(folder).is_err())
    }

    /// A gate serves from this store from now on, and its orderly end takes the mark away that a killed one left.
    pub fn takes_over(&self) {
        self.takes_mark_away.store(self.needs_journal(), Ordering::SeqCst);
    }

    /// Returns how the time of day differs from what the monotonic clock expects, if it leapt.
    pub fn leap(&self) -> Option<ClockLeap> {
        self.shared.ticker.leap()
    }

    /// Whether the time of day was compared with that of others, or with the time before.
    pub fn is_clock_settled(&self) -> bool {
        self.shared.ticker.is_settled()
    }

    /// Takes the time of day as right, for others agree with it.
    pub fn settles_clock(&self) {
        if self.shared.ticker.settle() {
            self.keep_time();
        }
    }

    /// Keeps the time for the next start.
    fn keep_time(&self) {
        if let Some(folder) = self.folder.as_ref().filter(|_| self.is_clock_settled()) {
            boot_clock::keep(folder, self.shared.ticker.now(), self.clock.elapsed());
        }
    }

    /// Completes when the writer thread has ended; while the store is open, only a panic ends it.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut life = self.life.clone();
        async move { while life.changed().await.is_ok() {} }
    }

    fn ask(&self, job: StoreJob) -> Result<(), StoreFault> {
        let jobs = self.jobs.as_ref().ok_or_else(|| away("it is closed"))?;
        jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => away("its write queue is full"),
            TrySendError::Disconnected(_) => away("its writer thread has ended"),
        })
    }

    /// Waits for the writer's answer. The write can be repeated without harm, so no answer counts as not written.
    async fn answer<T>(&self, waiting: oneshot::Receiver<Result<T, StoreFault>>) -> Result<T, StoreFault> {
        match timeout(self.options.deadline, waiting).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(away("its writer thread has ended")),
            Err(_) => Err(away("the write took too long")),
        }
    }

    /// Reads the latest complete transaction, on a thread that may block.
    async fn look<T: Send + 'static>(
        &self,
        at: impl FnOnce(&KeySpace<'_, ReadTable>, &Ticker) -> Result<T, StoreFault> + Send + 'static,
    ) -> Result<T, StoreFault> {
        let (shared, trouble) = (Arc::clone(&self.shared), Arc::clone(&self.trouble));
        let readers = Arc::clone(&self.readers);
        let looked = async {
            let permit = readers.acquire_owned().await.map_err(|_| away("it is closed"))?;
            let looking = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                trouble.told_from_damage(|| {
                    unless_it_panics(|| at(&KeySpace(&latest(&shared)?), &shared.ticker))
                        .unwrap_or_else(|why| Err(unread(&why)))
                })
            });
            looking.await.map_err(|_| away("the read failed"))?
        };
        timeout(self.options.deadline, looked).await.map_err(|_| away("the read took too long"))?
    }
}

impl Embedded {
    /// Returns the installation that an environment's store was created for.
    pub async fn created(&self, environment: Environment) -> Result<Option<InstallationId>, StoreFault> {
        self.look(move |map, _| queries::created(map, environment)).await
    }

    /// Does work on the store, and takes no trouble of its disk for damage of its content.
    pub(super) fn told_from_damage<T>(&self, work: impl FnOnce() -> Result<T, StoreFault>) -> Result<T, StoreFault> {
        self.trouble.told_from_damage(work)
    }

    /// Returns the database, and the keys that seal its sum.
    pub(super) fn opened(&self) -> Result<(Arc<Database>, Seals), StoreFault> {
        let database = self.shared.database().ok_or_else(|| away("its file cannot be opened"))?;
        Ok((database, self.shared.seals.clone()))
    }

    /// Returns the latest complete transaction.
    pub(super) fn latest(&self) -> Result<ReadTable, StoreFault> {
        latest(&self.shared)
    }

    async fn commit_synced(&self, commit: Commit, synced: SyncTime) -> Result<Receipt, CommitError> {
        let (answer, mut waiting) = oneshot::channel();
        let ticket = Arc::new(Ticket::default());
        let is_followed = commit.steps.contains(&Step::FollowClock);
        self.ask(StoreJob::Commit(commit, synced, Arc::clone(&ticket), answer)).map_err(CommitError::Fault)?;
        match timeout(self.options.deadline, &mut waiting).await {
            Ok(Ok(answer)) => {
                if is_followed && answer.is_ok() {
                    self.shared.ticker.follow();
                    self.keep_time();
                }
                answer
            }
            _ if ticket.give_up() => Err(CommitError::Fault(away("the commit could not begin in time"))),
            Ok(Err(_)) => Err(in_doubt("its writer thread has ended")),
            // The answer may have arrived at this very moment.
            Err(_) => waiting.try_recv().unwrap_or_else(|_| Err(in_doubt("the write took too long"))),
        }
    }

    /// After a failure, a sweep shows whether the disk takes writes again.
    async fn refusal_now(&self) -> Option<WriteRefusal> {
        if !self.shared.has_failed.load(Ordering::SeqCst) {
            return None;
        }
        self.sweep().await.err().map(|_| WriteRefusal::Disk)
    }
}

fn latest(shared: &WriterState) -> Result<ReadTable, StoreFault> {
    latest_table(&*shared.database().ok_or_else(|| away("its file cannot be opened"))?)
}

/// redb panics on some damaged pages.
fn unread(why: &str) -> StoreFault {
    StoreFault::Broken(format!("a read panicked, so the file of the store is damaged: {why}"))
}

fn away(why: &str) -> StoreFault {
    StoreFault::Away(why.to_owned())
}

impl Drop for Embedded {
    /// Writes everything that waits, then closes the file.
    fn drop(&mut self) {
        self.jobs = None;
        let ended = self.writer.take().map(JoinHandle::join);
        // It may panic as it closes a file that is damaged, and this may be the end of a panic already.
        unless_it_panics(|| self.shared.closes()).ok();
        match (ended, &self.folder) {
            (Some(Err(_)), _) => tracing::error!("the store's writer thread panicked"),
            (Some(Ok(true)), Some(folder)) if self.takes_mark_away.load(Ordering::SeqCst) => {
                journal_mark::remove(folder)
            }
            _ => {}
        }
    }
}

#[async_trait]
impl Store for Embedded {
    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        self.commit_synced(commit, SyncTime::Now).await
    }

    async fn commit_for_journal(&self, commit: Commit) -> Result<Receipt, CommitError> {
        if self.is_marked.load(Ordering::SeqCst) {
            return self.commit_synced(commit, SyncTime::Later).await;
        }
        if let Some(folder) = &self.folder {
            journal_mark::put(folder).map_err(|error| CommitError::Fault(away(&error.to_string())))?;
            self.takes_mark_away.store(true, Ordering::SeqCst);
        }
        // Where the mark is, there is a commit on disk as well: a store without any has forgotten nothing.
        let committed = self.commit_synced(commit, SyncTime::Now).await?;
        self.is_marked.store(true, Ordering::SeqCst);
        Ok(committed)
    }

    fn leans_on_journal(&self) -> bool {
        true
    }

    async fn flush(&self) -> Result<(), StoreFault> {
        let (answer, waiting) = oneshot::channel();
        self.ask(StoreJob::Flush(answer))?;
        self.answer(waiting).await
    }

    async fn query(&self, query: Query) -> Result<QueryAnswer, StoreFault> {
        match query {
            Query::Time => Ok(QueryAnswer::Time(self.shared.ticker.now())),
            Query::Refusal => Ok(QueryAnswer::Refusal(self.refusal_now().await)),
            query => self.look(move |map, ticker| queries::answer(map, query, ticker)).await,
        }
    }

    async fn kept(&self, environment: Environment, by: &Sender, up_to: Number) -> Result<(), StoreFault> {
        let (answer, waiting) = oneshot::channel();
        self.ask(StoreJob::Kept(environment, by.clone(), up_to, answer))?;
        self.answer(waiting).await
    }

    async fn sweep(&self) -> Result<usize, StoreFault> {
        let (answer, waiting) = oneshot::channel();
        self.ask(StoreJob::Sweep(answer))?;
        self.answer(waiting).await
    }
}

fn in_doubt(why: &str) -> CommitError {
    CommitError::Fault(StoreFault::InDoubt(why.to_owned()))
}
