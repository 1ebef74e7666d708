//! The store of one node: a redb database in a folder of this machine.
//!
//! What is committed is on disk. All that waits is written together, by one thread with one fsync; readers see the
//! last complete transaction and wait for nobody. Every call ends by the deadline.

mod database;
mod medium;
mod transfer;
mod writer;

pub use database::{FILE, OpenError};
pub use medium::Medium;
pub(in crate::adapters::store) use transfer::take_in;
pub use transfer::{TransferError, backup, export, import};

use std::path::Path;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::sync::{Arc, RwLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_trait::async_trait;
use redb::{ReadOnlyTable, ReadableDatabase as _};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::timeout;

use super::look;
use super::ticker::Ticker;
use crate::base::ids::Environment;
use crate::commit::{
    Commit, CommitError, Committed, Index, NodeId, Number, Outstanding, Record, RecordKey, Span, StoreFault, StoreTime,
    WindowKey,
};
use crate::ports::{Clock, Part, Store};
use database::{Map, Opened, TABLE, locked};
use medium::Trouble;
use writer::{Job, Shared, Ticket, Writer};

/// How long is waited, and how many may wait.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Every call has ended by then.
    pub deadline: Duration,
    /// So many writes wait at most; more are refused at once.
    pub queue: usize,
    /// So many reads run at once; more wait.
    pub readers: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { deadline: Duration::from_secs(5), queue: 1024, readers: 32 }
    }
}

#[derive(Debug)]
pub struct Embedded {
    shared: Arc<Shared>,
    options: Options,
    readers: Arc<Semaphore>,
    /// None when it is being dropped.
    jobs: Option<SyncSender<Job>>,
    writer: Option<JoinHandle<()>>,
    life: watch::Receiver<()>,
}

type Looked = ReadOnlyTable<&'static [u8], &'static [u8]>;

impl Embedded {
    /// Opens the store of a folder, or makes one. It belongs to this process until it is dropped.
    ///
    /// After a crash it takes as long as reading the whole file.
    pub fn open(folder: &Path, clock: Arc<dyn Clock>, options: Options) -> Result<Embedded, OpenError> {
        Embedded::over(Arc::new(locked(folder, true)?), clock, options)
    }

    /// Opens the store of a folder, if there is one.
    pub fn open_existing(folder: &Path, clock: Arc<dyn Clock>, options: Options) -> Result<Embedded, OpenError> {
        Embedded::over(Arc::new(locked(folder, false)?), clock, options)
    }

    /// Opens the store on a medium that belongs to nobody else.
    pub fn over(medium: Arc<dyn Medium>, clock: Arc<dyn Clock>, options: Options) -> Result<Embedded, OpenError> {
        let trouble = Arc::new(Trouble::default());
        let opened = Opened::new(&medium, &trouble)?;
        let since = opened.latest()?;
        let database = RwLock::new(Some(Arc::clone(&opened.database)));
        let shared = Arc::new(Shared { ticker: Ticker::new(clock, since), database });
        let writer = Writer::new(medium, trouble, Arc::clone(&shared), opened);
        let (jobs, waiting) = mpsc::sync_channel(options.queue);
        let (alive, life) = watch::channel(());
        let writer = thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || {
                let _alive = alive;
                writer.run(&waiting);
            })
            .map_err(|error| OpenError::Database(error.to_string()))?;
        let readers = Arc::new(Semaphore::new(options.readers));
        Ok(Embedded { shared, options, readers, jobs: Some(jobs), writer: Some(writer), life })
    }

    /// Until the thread that writes has ended, which it does by itself only if it has died.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut life = self.life.clone();
        async move { while life.changed().await.is_ok() {} }
    }

    fn ask(&self, job: Job) -> Result<(), StoreFault> {
        let jobs = self.jobs.as_ref().ok_or_else(|| away("it is closed"))?;
        jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => away("too much waits to be written"),
            TrySendError::Disconnected(_) => away("the thread that writes has ended"),
        })
    }

    /// What is written may be asked again without harm, so that no answer is as good as nothing written.
    async fn answer<T>(&self, waiting: oneshot::Receiver<Result<T, StoreFault>>) -> Result<T, StoreFault> {
        match timeout(self.options.deadline, waiting).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(away("the thread that writes has ended")),
            Err(_) => Err(away("it was not written in time")),
        }
    }

    /// Looks at the last complete transaction, on a thread that may block.
    async fn look<T: Send + 'static>(
        &self,
        at: impl FnOnce(&Map<'_, Looked>, &Ticker) -> Result<T, StoreFault> + Send + 'static,
    ) -> Result<T, StoreFault> {
        let shared = Arc::clone(&self.shared);
        let readers = Arc::clone(&self.readers);
        let looked = async {
            let permit = readers.acquire_owned().await.map_err(|_| away("it is closed"))?;
            let looking = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                let database = shared.database().ok_or_else(|| away("its file cannot be opened"))?;
                let read = database.begin_read().map_err(|error| away(&error.to_string()))?;
                let table = read.open_table(TABLE).map_err(|error| away(&error.to_string()))?;
                at(&Map(&table), &shared.ticker)
            });
            looking.await.map_err(|_| away("it could not be read"))?
        };
        timeout(self.options.deadline, looked).await.map_err(|_| away("it was not read in time"))?
    }
}

fn away(why: &str) -> StoreFault {
    StoreFault::Away(why.to_owned())
}

impl Drop for Embedded {
    /// What waits is written; then the file is closed.
    fn drop(&mut self) {
        self.jobs = None;
        if self.writer.take().is_some_and(|writer| writer.join().is_err()) {
            tracing::error!("the thread that writes the store had failed");
        }
    }
}

#[async_trait]
impl Store for Embedded {
    async fn commit(&self, commit: Commit) -> Result<Committed, CommitError> {
        let (answer, mut waiting) = oneshot::channel();
        let ticket = Arc::new(Ticket::default());
        self.ask(Job::Commit(commit, Arc::clone(&ticket), answer)).map_err(CommitError::Fault)?;
        match timeout(self.options.deadline, &mut waiting).await {
            Ok(Ok(answer)) => answer,
            _ if ticket.give_up() => Err(CommitError::Fault(away("it was not begun in time"))),
            Ok(Err(_)) => Err(in_doubt("the thread that writes has ended")),
            // The answer may have come in this very moment.
            Err(_) => waiting.try_recv().unwrap_or_else(|_| Err(in_doubt("it was not written in time"))),
        }
    }

    async fn read(&self, key: &RecordKey) -> Result<(Option<Record>, StoreTime), StoreFault> {
        let key = key.clone();
        self.look(move |map, ticker| {
            let now = ticker.now();
            Ok((look::record(map, &key, now)?, now))
        })
        .await
    }

    async fn due(
        &self,
        environment: Environment,
        index: Index,
        until: Option<StoreTime>,
        count: usize,
    ) -> Result<Vec<(StoreTime, String)>, StoreFault> {
        self.look(move |map, _| look::due(map, environment, index, until, count)).await
    }

    async fn part(
        &self,
        environment: Environment,
        index: Index,
        part: Part,
    ) -> Result<Vec<(StoreTime, String)>, StoreFault> {
        self.look(move |map, _| look::part(map, environment, index, &part)).await
    }

    async fn used(&self, environment: Environment, window: &WindowKey, span: Span) -> Result<u64, StoreFault> {
        let window = window.clone();
        self.look(move |map, ticker| look::used(map, environment, &window, span, ticker.now())).await
    }

    async fn member(
        &self,
        environment: Environment,
        index: Index,
        member: &str,
    ) -> Result<Option<StoreTime>, StoreFault> {
        let member = member.to_owned();
        self.look(move |map, _| look::member(map, environment, index, &member)).await
    }

    async fn windows(
        &self,
        environment: Environment,
        limit: Option<&str>,
        count: usize,
    ) -> Result<Vec<WindowKey>, StoreFault> {
        let limit = limit.map(str::to_owned);
        self.look(move |map, _| look::windows(map, environment, limit.as_deref(), count)).await
    }

    async fn outbox(
        &self,
        environment: Environment,
        node: &NodeId,
        count: usize,
    ) -> Result<Vec<Outstanding>, StoreFault> {
        let node = node.clone();
        self.look(move |map, _| look::outbox(map, environment, &node, count)).await
    }

    /// It belongs to one process: any other name is one that this node bore before.
    async fn take_over(
        &self,
        environment: Environment,
        node: &NodeId,
        count: usize,
    ) -> Result<Vec<Outstanding>, StoreFault> {
        let node = node.clone();
        self.look(move |map, _| look::others_outbox(map, environment, &node, count)).await
    }

    async fn drained(&self, environment: Environment, numbers: &[Number]) -> Result<(), StoreFault> {
        let (answer, waiting) = oneshot::channel();
        self.ask(Job::Drained(environment, numbers.to_vec(), answer))?;
        self.answer(waiting).await
    }

    async fn last(&self, environment: Environment) -> Result<Number, StoreFault> {
        self.look(move |map, _| look::last(map, environment).map(Number::new)).await
    }

    async fn sweep(&self) -> Result<usize, StoreFault> {
        let (answer, waiting) = oneshot::channel();
        self.ask(Job::Sweep(answer))?;
        self.answer(waiting).await
    }

    async fn time(&self) -> Result<StoreTime, StoreFault> {
        Ok(self.shared.ticker.now())
    }
}

fn in_doubt(why: &str) -> CommitError {
    CommitError::Fault(StoreFault::InDoubt(why.to_owned()))
}
