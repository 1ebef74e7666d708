//! The connection to the Redis that nodes share.
//!
//! No call waits for the Redis longer than its deadline, and none waits at all while it is away. One late answer fails
//! its own call alone: others on the same connection go on. After it the connection is checked at once, and it is given
//! up when two checks in a row are late, or at the first real error. Until there is a new one, calls fail at once. One
//! task connects repeatedly, and checks the connection every second. It lives on the runtime that the process owns.
//!
//! Calls that wait for more than the Redis itself (replicas, a disk) use a connection of their own, so that no other
//! call waits behind them, and the count is of their own write.
//!
//! Behind Sentinels and in a cluster, others name the primary, and the connection follows them. A redirect (`MOVED`) has it
//! made anew; nothing is sent again.
//!
//! Every connection leads to one process with one history, its *run*: each call gets the run of its connection, so that
//! another Redis at the same address is never mistaken for it. If the run changes, the connection is made anew.
//!
//! A Redis that answers may refuse writes: each check of the connection finds out, and so does each call.

mod cluster;
mod connecting;
mod permissions;
mod fitness;
mod endpoint;
mod faults;
mod fence;
mod host;
mod refusal;
mod shards;
mod standing;

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{RedisError, RedisResult};
use arc_swap::ArcSwapOption;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::error::Elapsed;
use tokio::time::{sleep, timeout};

use self::endpoint::Endpoint;
pub use self::faults::{NotReady, RedisFault, Unanswered};
pub use self::fence::{Fence, FenceStop};
use self::fitness::UnfitRedis;
pub use self::refusal::{of_another_call, refusal};
use self::shards::ShardState;
pub use self::shards::{ShardConnections, ShardKeys};
use self::standing::{ConnectionStanding, NotConnected};
use crate::adapters::clock::{Stopwatch, SystemClock};
use crate::adapters::random::jittered;
use crate::config::{Demands, RedisConfig};
use crate::ledger::WriteRefusal;
use crate::ports::Clock as _;
use crate::telemetry::{Metrics, ToldCauses};

/// The deadline of a connection attempt. No call waits for it.
const CONNECT: Duration = Duration::from_secs(1);
/// The pause between connection attempts: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How often a connection is checked, if no answer is late.
const TRY_OUT: Duration = Duration::from_secs(1);
/// A connection is given up when so many checks in a row are late.
const MAX_LATE: u32 = 2;

pub struct Redis {
    keys: ShardKeys,
    place: Endpoint,
    deadline: Duration,
    demands: Option<Demands>,
    shared: Arc<ShardState>,
    /// A key that never exists: whether it could be written tells whether the Redis takes writes.
    unused_key: String,
    /// The current connection; `None` while the Redis is away.
    current: ArcSwapOption<ConnectionStanding>,
    lost: Notify,
    /// An answer was late.
    late: Notify,
    waiting: Semaphore,
    /// Limits the connections that wait for replicas or a disk.
    alone: Semaphore,
    /// Why there is no connection.
    obstacle: ArcSwapOption<NotConnected>,
    /// The obstacles that were logged since there was one.
    told: Mutex<ToldCauses>,
    /// Why it refuses writes, if it does.
    refusal: watch::Sender<Option<WriteRefusal>>,
    metrics: Metrics,
}

/// Errors after which another connection may lead to a Redis that can do more.
const ELSEWHERE: [&str; 8] = ["READONLY", "LOADING", "MASTERDOWN", "NOAUTH", "NOPERM", "DENIED", "WRONGPASS", "MOVED"];
/// The beginning of the error of a script whose user lacks a right in its midst; its code is `ERR`.
const SCRIPT_DENIED: &str = "The user executing the script can't";
/// How many calls may wait for an answer at one time.
const WAITING: usize = 1_024;
/// How many dedicated connections may be in use at one time.
const ALONE: usize = 64;

impl Redis {
    /// Creates the connection; it is not connected yet.
    pub fn new(config: &RedisConfig, metrics: Metrics) -> Result<Redis, RedisFault> {
        Redis::of_keys(config, metrics, ShardKeys::All, &Arc::new(ShardState::of(config)))
    }

    fn of_keys(
        config: &RedisConfig,
        metrics: Metrics,
        keys: ShardKeys,
        shared: &Arc<ShardState>,
    ) -> Result<Redis, RedisFault> {
        let place = Endpoint::of(config, keys.tag())?;
        metrics.redis_up(shared.tell(keys, false));
        Ok(Redis {
            keys,
            place,
            deadline: config.timeout,
            demands: config.demands,
            shared: shared.clone(),
            unused_key: keys.unused_key(),
            current: ArcSwapOption::empty(),
            lost: Notify::new(),
            late: Notify::new(),
            waiting: Semaphore::new(WAITING),
            alone: Semaphore::new(ALONE),
            obstacle: ArcSwapOption::empty(),
            told: Mutex::default(),
            refusal: watch::Sender::new(None),
            metrics,
        })
    }

    /// Returns the deadline of a call.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Returns why it refuses writes, as far as is known.
    pub fn refusal(&self) -> Option<WriteRefusal> {
        *self.refusal.borrow()
    }

    /// Returns the fence against a split.
    pub fn fence(&self) -> &Arc<Fence> {
        &self.shared.fence
    }

    /// Whether it serves the keys of one slot in a cluster.
    pub fn is_in_cluster(&self) -> bool {
        self.keys != ShardKeys::All
    }

    pub fn demands(&self) -> Option<Demands> {
        self.demands
    }

    /// Returns when the Redis is connected and meets all demands.
    pub async fn ready_within(&self, time: Duration) -> Result<(), NotReady> {
        let ready = async {
            while self.current.load().is_none() {
                if let Some(NotConnected::Unfit(unfit)) = self.obstacle.load().as_deref() {
                    return Err(NotReady::Unfit(unfit.clone()));
                }
                sleep(FIRST_PAUSE).await;
            }
            Ok(())
        };
        let in_vain = || match self.obstacle.load().as_deref() {
            Some(NotConnected::Closing) => NotReady::Closing,
            _ => NotReady::Away,
        };
        timeout(time, ready).await.unwrap_or_else(|_| Err(in_vain()))
    }

    /// Returns fields of its `INFO`, by name.
    pub async fn info<const N: usize>(&self, names: [&str; N]) -> Result<[Option<String>; N], Unanswered> {
        let info = async |mut connection: MultiplexedConnection, _: &str| {
            ::redis::cmd("INFO").query_async::<String>(&mut connection).await
        };
        let info = self.ask(info).await?;
        Ok(names.map(|name| fitness::info_field(&info, name).map(str::to_owned)))
    }

    /// Returns a value that changes with every new connection.
    pub fn connections(&self) -> watch::Receiver<u64> {
        self.shared.stood.subscribe()
    }

    /// Sends a command over the shared connection, within the deadline; the command is built from the run.
    pub async fn ask<T>(
        &self,
        question: impl AsyncFnOnce(MultiplexedConnection, &str) -> RedisResult<T>,
    ) -> Result<T, Unanswered> {
        let standing = self.standing()?;
        let _waiting = self.waiting.try_acquire().map_err(|_| Unanswered::Away("too many calls wait for it".into()))?;
        self.answered(&standing, timeout(self.deadline, question(standing.shared.clone(), &standing.run)).await)
    }

    /// As `ask`, but fails at once while an answer is late: for callers that can do without the Redis.
    pub async fn ask_if_prompt<T>(
        &self,
        question: impl AsyncFnOnce(MultiplexedConnection, &str) -> RedisResult<T>,
    ) -> Result<T, Unanswered> {
        match self.standing()?.is_late.load(Ordering::SeqCst) {
            true => Err(Unanswered::Away("an answer is late".into())),
            false => self.ask(question).await,
        }
    }

    /// Sends a command over a dedicated connection, within the deadline.
    pub async fn ask_alone<T>(
        &self,
        question: impl AsyncFnOnce(MultiplexedConnection, &str) -> RedisResult<T>,
    ) -> Result<T, Unanswered> {
        let standing = self.standing()?;
        let _waiting = self.alone.try_acquire().map_err(|_| Unanswered::Away("too many calls wait for it".into()))?;
        let unused = standing.unused().pop();
        let asked = Stopwatch::start();
        let connection = match unused {
            Some(connection) => connection,
            None => match timeout(self.deadline, self.connect_alone(&standing)).await {
                Ok(Ok(Some(connection))) => connection,
                Ok(Ok(None) | Err(_)) => {
                    self.lose(&standing);
                    return Err(Unanswered::Away("no further connection could be made".into()));
                }
                Err(_) => {
                    self.be_late(&standing);
                    return Err(Unanswered::Away("no further connection could be made in time".into()));
                }
            },
        };
        let left = self.deadline.saturating_sub(asked.elapsed());
        let answer = self.answered(&standing, timeout(left, question(connection.clone(), &standing.run)).await);
        // INVARIANT: a connection with an outstanding answer is never used again.
        if !matches!(answer, Err(Unanswered::Lost(_))) {
            standing.unused().push(connection);
        }
        answer
    }

    fn standing(&self) -> Result<Arc<ConnectionStanding>, Unanswered> {
        let away = || match self.obstacle.load().as_deref() {
            Some(obstacle) => Cow::Owned(obstacle.to_string()),
            None => Cow::Borrowed("its connection was lost, and is made anew"),
        };
        self.current.load_full().ok_or_else(|| Unanswered::Away(away()))
    }

    fn answered<T>(
        &self,
        standing: &Arc<ConnectionStanding>,
        answer: Result<RedisResult<T>, Elapsed>,
    ) -> Result<T, Unanswered> {
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                tracing::debug!(kind = ?error.kind(), "the Redis refused a command");
                let Some(code) = error.code() else {
                    self.lose(standing);
                    return Err(Unanswered::Lost(faults::lost(error.kind()).into_owned()));
                };
                if let Some(refusal) = refusal(code) {
                    self.writes(Some(refusal));
                }
                // A new connection finds out which right is missing.
                if ELSEWHERE.contains(&code) || error.detail().is_some_and(|why| why.starts_with(SCRIPT_DENIED)) {
                    self.lose(standing);
                }
                Err(Unanswered::Refused(code.to_owned(), error.detail().unwrap_or_default().to_owned()))
            }
            Err(_) => {
                self.be_late(standing);
                Err(Unanswered::Lost("no answer in time".to_owned()))
            }
        }
    }

    /// Connects, and reconnects, as long as it is run.
    pub async fn keep_connected(self: Arc<Redis>) {
        let mut pause = FIRST_PAUSE;
        loop {
            let since = Stopwatch::start();
            match self.connect().await {
                Ok(connection) => {
                    self.current.store(Some(connection.clone()));
                    self.shared.stood.send_modify(|count| *count = count.wrapping_add(1));
                    self.tell_up();
                    self.told().end();
                    tracing::info!("the Redis is connected");
                    self.watch(&connection).await;
                    self.tell_up();
                    tracing::warn!("the Redis is away or slow");
                }
                Err(obstacle) => self.tell_obstacle(obstacle),
            }
            // A Redis that comes and goes is asked no more often than one that stays away.
            pause =
                if since.elapsed() > LONGEST_PAUSE { FIRST_PAUSE } else { pause.saturating_mul(2).min(LONGEST_PAUSE) };
            sleep(jittered(pause)).await;
        }
    }

    fn told(&self) -> MutexGuard<'_, ToldCauses> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes why there is no connection. Each obstacle is logged once until there is one, also where several alternate.
    fn tell_obstacle(&self, obstacle: NotConnected) {
        let is_new = self.told().is_new(&obstacle.to_string());
        self.obstacle.store(Some(Arc::new(obstacle.clone())));
        match obstacle {
            NotConnected::Unfit(unfit) => {
                if unfit == UnfitRedis::Replica {
                    self.writes(Some(WriteRefusal::Replica));
                }
                if is_new {
                    tracing::error!(%unfit, "the Redis is not used");
                }
                return;
            }
            NotConnected::Closing if is_new => tracing::warn!(why = faults::CLOSING, "the Redis cannot be reached"),
            NotConnected::Error(why) if is_new => tracing::warn!(why, "the Redis cannot be reached"),
            NotConnected::Closing | NotConnected::Error(_) => {}
        }
        // The refusal is not known any more.
        self.refusal.send_replace(None);
    }

    /// Ends when the connection is lost.
    async fn watch(&self, standing: &Arc<ConnectionStanding>) {
        let mut late = 0_u32;
        while self.is_current(standing) {
            // A check that was late is repeated at once: its answer stands before that of the next one.
            if late == 0 {
                tokio::select! {
                    () = self.lost.notified() => continue,
                    () = self.late.notified() => {}
                    () = sleep(TRY_OUT) => {}
                }
            }
            let mut trial = standing.shared.clone();
            let checked = timeout(self.deadline, async {
                let run = self.run_of(&mut trial, standing.named.as_ref()).await?;
                Ok::<_, RedisError>((run, refusal::check(&mut trial, &self.unused_key).await?))
            });
            match checked.await {
                Err(_) => {
                    late = late.saturating_add(1);
                    standing.is_late.store(true, Ordering::SeqCst);
                    if late >= MAX_LATE {
                        self.lose(standing);
                    }
                }
                Ok(Ok((Ok(run), refusal))) if run == standing.run => {
                    late = 0;
                    standing.is_late.store(false, Ordering::SeqCst);
                    self.writes(refusal);
                    if self.is_elsewhere(standing).await {
                        tracing::warn!("another Redis is named as the primary: reconnecting");
                        self.lose(standing);
                    }
                }
                Ok(_) => self.lose(standing),
            }
        }
    }

    /// Whether its Sentinels or the cluster name another Redis; an old primary that was cut off does not know it itself.
    async fn is_elsewhere(&self, standing: &ConnectionStanding) -> bool {
        let asked = SystemClock.elapsed();
        let Ok(Some(named)) = self.place.named().await else { return false };
        if !standing.named.as_ref().is_some_and(|former| former.is_same(&named)) {
            return true;
        }
        if named.by_majority {
            self.fence().named(self.keys.environments(), &named.name(), asked);
        }
        false
    }

    fn is_current(&self, standing: &Arc<ConnectionStanding>) -> bool {
        self.current.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, standing))
    }

    /// Has the connection checked at once.
    fn be_late(&self, standing: &ConnectionStanding) {
        standing.is_late.store(true, Ordering::SeqCst);
        self.late.notify_one();
    }

    /// Notes whether it takes writes.
    fn writes(&self, refusal: Option<WriteRefusal>) {
        let has_changed = self.refusal.send_if_modified(|known| std::mem::replace(known, refusal) != refusal);
        if !has_changed {
            return;
        }
        match refusal {
            Some(refusal) => tracing::warn!(why = refusal.explanation(), "the Redis refuses writes"),
            None => tracing::info!("the Redis accepts writes again"),
        }
        self.tell_up();
    }

    fn tell_up(&self) {
        let is_up = self.current.load().is_some() && self.refusal().is_none();
        self.metrics.redis_up(self.shared.tell(self.keys, is_up));
    }

    fn lose(&self, standing: &Arc<ConnectionStanding>) {
        self.current.rcu(|current| current.clone().filter(|current| !Arc::ptr_eq(current, standing)));
        self.lost.notify_one();
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
