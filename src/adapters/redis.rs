//! The connection to the Redis that nodes share.
//!
//! Nobody waits for it longer than its deadline, and nobody waits for it at all while it is away: the first call that
//! waits in vain closes the connection, and until another stands, all are told at once. One task connects, again and
//! again, and looks after a connection that nobody uses. It lives on the runtime that the process owns.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, Client, RedisError, RedisResult, TlsCertificates};
use arc_swap::ArcSwapOption;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{sleep, timeout};

use crate::adapters::clock::Stopwatch;
use crate::adapters::random::jittered;
use crate::config::RedisConfig;
use crate::telemetry::Metrics;

/// How long connecting may take. No call waits for it.
const CONNECT: Duration = Duration::from_secs(2);
/// Between attempts to connect, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How often a connection is tried out.
const TRY_OUT: Duration = Duration::from_secs(1);

pub struct Redis {
    client: Client,
    deadline: Duration,
    /// The connection that stands; none while the Redis is away.
    current: ArcSwapOption<MultiplexedConnection>,
    lost: Notify,
    waiting: Semaphore,
    metrics: Metrics,
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
const ELSEWHERE: [&str; 6] = ["READONLY", "LOADING", "MASTERDOWN", "NOAUTH", "NOPERM", "WRONGPASS"];
/// So many wait for an answer at one time.
const WAITING: usize = 1_024;

/// Why a Redis cannot be used at all. It does not repeat the URL, which may hold a password.
#[derive(Debug)]
pub struct RedisFault;

impl fmt::Display for RedisFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the URL or the authorities of `[redis]` cannot be used")
    }
}

impl std::error::Error for RedisFault {}

impl Redis {
    /// Nothing is connected yet.
    pub fn new(config: &RedisConfig, metrics: Metrics) -> Result<Redis, RedisFault> {
        let url = config.url.reveal();
        let client = match &config.ca_pem {
            Some(pem) => {
                let certificates = TlsCertificates { client_tls: None, root_cert: Some(pem.clone()) };
                Client::build_with_tls(url, certificates)
            }
            None => Client::open(url),
        };
        let client = client.map_err(|_| RedisFault)?;
        metrics.redis_up(false);
        let (current, lost, waiting) = (ArcSwapOption::empty(), Notify::new(), Semaphore::new(WAITING));
        Ok(Redis { client, deadline: config.timeout, current, lost, waiting, metrics })
    }

    /// How long a question waits for its answer.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Whether it is there within that time.
    pub async fn is_there_within(&self, time: Duration) -> bool {
        let come = async {
            while self.current.load().is_none() {
                sleep(FIRST_PAUSE).await;
            }
        };
        timeout(time, come).await.is_ok()
    }

    /// Asks over the connection that stands, within the deadline.
    pub async fn ask<T>(
        &self,
        question: impl AsyncFnOnce(MultiplexedConnection) -> RedisResult<T>,
    ) -> Result<T, Unanswered> {
        let connection = self.current.load_full().ok_or(Unanswered::Away("it is away"))?;
        let _waiting = self.waiting.try_acquire().map_err(|_| Unanswered::Away("too many wait for it"))?;
        match timeout(self.deadline, question((*connection).clone())).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                tracing::debug!(kind = ?error.kind(), "the Redis did not do what it was asked");
                let Some(code) = error.code() else {
                    self.lose(&connection);
                    return Err(Unanswered::Lost(format!("{:?}", error.kind())));
                };
                if ELSEWHERE.contains(&code) {
                    self.lose(&connection);
                }
                Err(Unanswered::Refused(code.to_owned(), error.detail().unwrap_or_default().to_owned()))
            }
            Err(_) => {
                self.lose(&connection);
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
                    self.metrics.redis_up(true);
                    tracing::info!("the Redis is there");
                    was_up = true;
                    self.watch(&connection).await;
                    self.metrics.redis_up(false);
                    tracing::warn!("the Redis is away or slow");
                }
                Err(kind) if was_up => {
                    tracing::warn!(kind, "the Redis cannot be reached");
                    was_up = false;
                }
                Err(_) => {}
            }
            // One that comes and goes is asked no more often than one that stays away.
            pause =
                if since.elapsed() > LONGEST_PAUSE { FIRST_PAUSE } else { pause.saturating_mul(2).min(LONGEST_PAUSE) };
            sleep(jittered(pause)).await;
        }
    }

    /// A connection over which an answer came in time: one that is always slow never stands.
    async fn connect(&self) -> Result<Arc<MultiplexedConnection>, String> {
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT)).set_response_timeout(None);
        let connecting = async {
            let mut connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
            let answered = timeout(self.deadline, ping(&mut connection)).await;
            Ok::<_, RedisError>(answered.map(|answer| answer.map(|()| Arc::new(connection))))
        };
        match timeout(CONNECT, connecting).await {
            Ok(Ok(Ok(Ok(connection)))) => Ok(connection),
            Ok(Err(error) | Ok(Ok(Err(error)))) => Err(format!("{:?}", error.kind())),
            Ok(Ok(Err(_))) | Err(_) => Err("silent".to_owned()),
        }
    }

    /// Ends when the connection is lost.
    async fn watch(&self, connection: &Arc<MultiplexedConnection>) {
        while self.is_current(connection) {
            tokio::select! {
                () = self.lost.notified() => {}
                () = sleep(TRY_OUT) => {
                    let mut trial = (**connection).clone();
                    if !matches!(timeout(self.deadline, ping(&mut trial)).await, Ok(Ok(()))) {
                        self.lose(connection);
                    }
                }
            }
        }
    }

    fn is_current(&self, connection: &Arc<MultiplexedConnection>) -> bool {
        self.current.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, connection))
    }

    fn lose(&self, connection: &Arc<MultiplexedConnection>) {
        self.current.rcu(|current| current.clone().filter(|current| !Arc::ptr_eq(current, connection)));
        self.lost.notify_one();
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
