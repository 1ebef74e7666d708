//! The connection to the Redis that nodes share.
//!
//! Nobody waits for it longer than its deadline, and nobody waits for it at all while it is away: the first call that
//! waits in vain closes the connection, and until another stands, all are told at once. One task connects, again and
//! again, and looks after a connection that nobody uses. It lives on the runtime that the process owns.
//!
//! What waits for more than the Redis itself (replicas, a disk) is asked over a connection of its own, so that nothing
//! else waits behind it, and so that what it counts is its own write.
//!
//! Every connection leads to one process with one history, which is its *run*: whoever asks is told over which, so that
//! another one that stands at the same address is never taken for it. A Redis whose run changes is connected to anew.

mod allowed;
mod fitness;
mod place;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Client, RedisError, RedisResult};
use arc_swap::ArcSwapOption;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::error::Elapsed;
use tokio::time::{sleep, timeout};

use self::fitness::Unfit;
use self::place::{Address, Place, plain};
use crate::adapters::clock::Stopwatch;
use crate::adapters::random::jittered;
use crate::config::{Demands, RedisConfig};
use crate::telemetry::Metrics;

/// How long connecting may take. No call waits for it.
const CONNECT: Duration = Duration::from_secs(1);
/// Between attempts to connect, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How often a connection is tried out.
const TRY_OUT: Duration = Duration::from_secs(1);

pub struct Redis {
    place: Place,
    deadline: Duration,
    demands: Option<Demands>,
    /// The connection that stands; none while the Redis is away.
    current: ArcSwapOption<Standing>,
    /// Counts the connections that stood.
    stood: watch::Sender<u64>,
    lost: Notify,
    waiting: Semaphore,
    /// Those that may wait over connections of their own.
    alone: Semaphore,
    /// Why it does not stand although it is there.
    unfit: ArcSwapOption<Unfit>,
    metrics: Metrics,
}

/// What stands, for as long as nothing is lost.
struct Standing {
    client: Client,
    /// Where its Sentinels said that it is, if it has any.
    address: Option<Address>,
    shared: MultiplexedConnection,
    run: String,
    /// Connections that nobody uses now.
    alone: Mutex<Vec<MultiplexedConnection>>,
}

/// Why the store cannot begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotReady {
    Unfit(Unfit),
    Away,
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotReady::Unfit(unfit) => unfit.fmt(f),
            NotReady::Away => f.write_str(
                "the Redis of `redis.url` or `redis.sentinels` does not answer, or not in time (`redis.timeout_ms`); \
                 without it nobody knows what was paid",
            ),
        }
    }
}

impl std::error::Error for NotReady {}

/// Why no connection came about.
enum NotConnected {
    Error(String),
    Unfit(Unfit),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// It was not asked: it is away, or too many wait for it already.
    Away(&'static str),
    /// It was asked, and may have done it.
    Lost(String),
    /// It answered with an error: the first word of it, and the rest.
    Refused(String, String),
}

/// Errors after which another connection may lead to a Redis that can do more.
const ELSEWHERE: [&str; 7] = ["READONLY", "LOADING", "MASTERDOWN", "NOAUTH", "NOPERM", "DENIED", "WRONGPASS"];
/// So many wait for an answer at one time.
const WAITING: usize = 1_024;
/// So many at one time have connections of their own.
const ALONE: usize = 64;

/// Why a Redis cannot be used at all. It does not repeat an URL, which may hold a password.
#[derive(Debug)]
pub struct RedisFault;

impl fmt::Display for RedisFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the address or the authorities of `[redis]` cannot be used")
    }
}

impl std::error::Error for RedisFault {}

impl Redis {
    /// Nothing is connected yet.
    pub fn new(config: &RedisConfig, metrics: Metrics) -> Result<Redis, RedisFault> {
        let place = Place::of(config)?;
        metrics.redis_up(false);
        Ok(Redis {
            place,
            deadline: config.timeout,
            demands: config.demands,
            current: ArcSwapOption::empty(),
            stood: watch::Sender::new(0),
            lost: Notify::new(),
            waiting: Semaphore::new(WAITING),
            alone: Semaphore::new(ALONE),
            unfit: ArcSwapOption::empty(),
            metrics,
        })
    }

    /// How long a question waits for its answer.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    pub fn demands(&self) -> Option<Demands> {
        self.demands
    }

    /// Returns when it is there, and fit for what is demanded of it.
    pub async fn ready_within(&self, time: Duration) -> Result<(), NotReady> {
        let ready = async {
            while self.current.load().is_none() {
                if let Some(unfit) = self.unfit.load_full() {
                    return Err(NotReady::Unfit((*unfit).clone()));
                }
                sleep(FIRST_PAUSE).await;
            }
            Ok(())
        };
        timeout(time, ready).await.unwrap_or(Err(NotReady::Away))
    }

    /// What it says of itself under these names, as far as it does.
    pub async fn says<const N: usize>(&self, names: [&str; N]) -> Result<[Option<String>; N], Unanswered> {
        let info = async |mut connection: MultiplexedConnection, _: &str| {
            ::redis::cmd("INFO").query_async::<String>(&mut connection).await
        };
        let info = self.ask(info).await?;
        Ok(names.map(|name| fitness::said(&info, name).ok().map(str::to_owned)))
    }

    /// Changes with every new connection.
    pub fn connections(&self) -> watch::Receiver<u64> {
        self.stood.subscribe()
    }

    /// Asks over the connection that stands, within the deadline; the question is told its run.
    pub async fn ask<T>(
        &self,
        question: impl AsyncFnOnce(MultiplexedConnection, &str) -> RedisResult<T>,
    ) -> Result<T, Unanswered> {
        let standing = self.standing()?;
        let _waiting = self.waiting.try_acquire().map_err(|_| Unanswered::Away("too many wait for it"))?;
        self.answered(&standing, timeout(self.deadline, question(standing.shared.clone(), &standing.run)).await)
    }

    /// Asks over a connection that nobody else uses meanwhile, within the deadline.
    pub async fn ask_alone<T>(
        &self,
        question: impl AsyncFnOnce(MultiplexedConnection, &str) -> RedisResult<T>,
    ) -> Result<T, Unanswered> {
        let standing = self.standing()?;
        let _waiting = self.alone.try_acquire().map_err(|_| Unanswered::Away("too many wait for it"))?;
        let unused = standing.unused().pop();
        let asked = Stopwatch::start();
        let connection = match unused {
            Some(connection) => connection,
            None => match timeout(self.deadline, self.connect_alone(&standing)).await {
                Ok(Ok(Some(connection))) => connection,
                Ok(Ok(None) | Err(_)) | Err(_) => {
                    self.lose(&standing);
                    return Err(Unanswered::Away("no further connection came about"));
                }
            },
        };
        let left = self.deadline.saturating_sub(asked.elapsed());
        let answer = self.answered(&standing, timeout(left, question(connection.clone(), &standing.run)).await);
        // INVARIANT: one on which an answer is still to come is used by nobody.
        if !matches!(answer, Err(Unanswered::Lost(_))) {
            standing.unused().push(connection);
        }
        answer
    }

    fn standing(&self) -> Result<Arc<Standing>, Unanswered> {
        self.current.load_full().ok_or(Unanswered::Away("it is away"))
    }

    fn answered<T>(&self, standing: &Arc<Standing>, answer: Result<RedisResult<T>, Elapsed>) -> Result<T, Unanswered> {
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                tracing::debug!(kind = ?error.kind(), "the Redis did not do what it was asked");
                let Some(code) = error.code() else {
                    self.lose(standing);
                    return Err(Unanswered::Lost(format!("{:?}", error.kind())));
                };
                if ELSEWHERE.contains(&code) {
                    self.lose(standing);
                }
                Err(Unanswered::Refused(code.to_owned(), error.detail().unwrap_or_default().to_owned()))
            }
            Err(_) => {
                self.lose(standing);
                Err(Unanswered::Lost("no answer in time".to_owned()))
            }
        }
    }

    /// Connects, and connects again, for as long as it is run.
    pub async fn keep_connected(self: Arc<Redis>) {
        let (mut pause, mut was_up) = (FIRST_PAUSE, true);
        loop {
            let since = Stopwatch::start();
            match self.connect().await {
                Ok(connection) => {
                    self.current.store(Some(connection.clone()));
                    self.stood.send_modify(|count| *count = count.wrapping_add(1));
                    self.metrics.redis_up(true);
                    tracing::info!("the Redis is there");
                    was_up = true;
                    self.watch(&connection).await;
                    self.metrics.redis_up(false);
                    tracing::warn!("the Redis is away or slow");
                }
                Err(NotConnected::Unfit(unfit)) => {
                    if self.unfit.swap(Some(Arc::new(unfit.clone()))).is_none_or(|known| *known != unfit) {
                        tracing::error!(%unfit, "the Redis is not used");
                    }
                    was_up = false;
                }
                Err(NotConnected::Error(kind)) if was_up => {
                    tracing::warn!(kind, "the Redis cannot be reached");
                    was_up = false;
                }
                Err(NotConnected::Error(_)) => {}
            }
            // One that comes and goes is asked no more often than one that stays away.
            pause =
                if since.elapsed() > LONGEST_PAUSE { FIRST_PAUSE } else { pause.saturating_mul(2).min(LONGEST_PAUSE) };
            sleep(jittered(pause)).await;
        }
    }

    /// A connection over which an answer came in time: one that is always slow never stands.
    async fn connect(&self) -> Result<Arc<Standing>, NotConnected> {
        let address = self.place.address().await.map_err(|untold| NotConnected::Error(untold.to_string()))?;
        let failed = |error: RedisError| NotConnected::Error(format!("{:?}", error.kind()));
        let client = self.place.client(address.as_ref()).map_err(failed)?;
        let connecting = async {
            let mut shared = client.get_multiplexed_async_connection_with_config(&plain()).await?;
            let answered = timeout(self.deadline, self.try_out(&mut shared)).await;
            Ok::<_, RedisError>(answered.map(|answer| (shared, answer)))
        };
        let silent = || NotConnected::Error("silent".to_owned());
        let tried = timeout(CONNECT, connecting).await.map_err(|_| silent())?.map_err(failed)?;
        let (shared, fit) = tried.map_err(|_| silent())?;
        let run = fit.map_err(failed)?.map_err(|unfit| match unfit {
            // It is no longer what its Sentinels say, or not yet.
            Unfit::Replica if self.place.may_change() => NotConnected::Error("its Sentinels name a replica".to_owned()),
            unfit => NotConnected::Unfit(unfit),
        })?;
        self.unfit.store(None);
        Ok(Arc::new(Standing { client, address, shared, run, alone: Mutex::default() }))
    }

    /// None where it leads elsewhere.
    async fn connect_alone(&self, standing: &Standing) -> RedisResult<Option<MultiplexedConnection>> {
        let mut connection = standing.client.get_multiplexed_async_connection_with_config(&plain()).await?;
        let is_the_same = self.run_of(&mut connection).await?.is_ok_and(|found| found == standing.run);
        Ok(is_the_same.then_some(connection))
    }

    /// The run to which it leads, where that is fit and its user may do all that is needed.
    async fn try_out(&self, connection: &mut MultiplexedConnection) -> RedisResult<Result<String, Unfit>> {
        match (self.run_of(connection).await?, self.demands) {
            (Ok(run), Some(demands)) => Ok(allowed::check(connection, demands).await?.map(|()| run)),
            (run, _) => Ok(run),
        }
    }

    /// The run to which it leads; without demands nobody asks for it.
    async fn run_of(&self, connection: &mut MultiplexedConnection) -> RedisResult<Result<String, Unfit>> {
        if let Err(error) = ping(connection).await {
            return Ok(allowed::denied(error)?.map(|()| String::new()));
        }
        if self.demands.is_none() && !self.place.may_change() {
            return Ok(Ok(String::new()));
        }
        match ::redis::cmd("INFO").query_async::<String>(connection).await {
            Ok(info) => Ok(fitness::check(&info, self.demands).and_then(|()| fitness::run(&info))),
            Err(error) if error.code() == Some("NOPERM") => Ok(Err(Unfit::Silent)),
            Err(error) => Err(error),
        }
    }

    /// Ends when the connection is lost.
    async fn watch(&self, standing: &Arc<Standing>) {
        while self.is_current(standing) {
            tokio::select! {
                () = self.lost.notified() => {}
                () = sleep(TRY_OUT) => {
                    let mut trial = standing.shared.clone();
                    let tried = timeout(self.deadline, self.run_of(&mut trial)).await;
                    if !matches!(tried, Ok(Ok(Ok(run))) if run == standing.run) {
                        self.lose(standing);
                    } else if self.is_elsewhere(standing).await {
                        tracing::warn!("the Sentinels name another Redis");
                        self.lose(standing);
                    }
                }
            }
        }
    }

    /// Whether its Sentinels say so; an old one that was cut off does not know it itself.
    async fn is_elsewhere(&self, standing: &Standing) -> bool {
        matches!(self.place.address().await, Ok(address) if address != standing.address)
    }

    fn is_current(&self, standing: &Arc<Standing>) -> bool {
        self.current.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, standing))
    }

    fn lose(&self, standing: &Arc<Standing>) {
        self.current.rcu(|current| current.clone().filter(|current| !Arc::ptr_eq(current, standing)));
        self.lost.notify_one();
    }
}

impl Standing {
    fn unused(&self) -> MutexGuard<'_, Vec<MultiplexedConnection>> {
        self.alone.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn ping(connection: &mut MultiplexedConnection) -> RedisResult<()> {
    ::redis::cmd("PING").query_async(connection).await
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
