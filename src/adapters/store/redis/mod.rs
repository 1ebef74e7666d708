//! The store in a Redis that many nodes share.
//!
//! The meaning of a commit is in `script.lua`: one script, one call, one round trip, all of it or nothing. The store's
//! time is the clock of the Redis as far as the monotonic clock of the calling gate agrees (`pace`), but never less than
//! the latest time reported in the environment. `script_args` encodes the calls; `reader` parses the replies.
//!
//! Each commit carries its own deadline in the store's time, and a commit that arrives after it does nothing. So once
//! the caller has been told that a commit is in doubt, the content of the store is final.
//!
//! A store that was set back, emptied or replaced would deny payments that were made. So every call of a node states
//! what it knows of the store (`generation`), and the script refuses the call if that does not match. `membership`
//! holds how nodes meet a Redis; `node::membership` and `node::recovery` hold what follows a loss.

mod asking;
mod call_head;
mod export;
mod faults;
mod generation;
mod name_list;
mod order;
mod pace;
mod reader;
mod rebuild;
pub mod snapshot_parts;
mod store_clock;
mod stored_form;
mod membership;
mod durability;
mod transfer;
mod wire_entry;
pub mod script_args;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use ::redis::{ErrorKind, Script, ServerErrorKind};
use async_trait::async_trait;
use tokio::sync::Notify;

pub use self::export::export;
use self::faults::{DAMAGED, OTHER, fault};
use self::generation::Beliefs;
pub use self::membership::{
    EntryMark, FormerJournal, HeartbeatReply, HeartbeatVerdict, LAPSE, Life, Member, RAN_WITHIN,
};
use self::order::due_of;
use self::pace::StorePace;
pub use self::pace::{ALIKE_AT_START, ComparedClock};
use self::reader::{ReplyReader, read_conflicts, unreadable};
pub use self::rebuild::{HeardCommits, RebuildRight, RebuiltStore};
use self::script_args::Words;
pub use self::transfer::import;
use super::sealed::Seals;
use super::{SWEEP, plan};
use crate::adapters::redis::{Redis, ShardConnections};
use crate::base::ids::Environment;
use crate::ledger::{
    Commit, CommitError, Index, NodeId, Number, Outstanding, Query, QueryAnswer, Receipt, Record, RecordKey, Sender,
    Step, StoreFault, StoreTime, TimeBounds, WindowKey, WindowSpan,
};
use crate::ports::{Clock, Store};

const SCRIPT: &str = include_str!("script.lua");
/// The Redis does not have the script: it was never loaded, or the Redis was restarted.
const NO_SCRIPT: ErrorKind = ErrorKind::Server(ServerErrorKind::NoScript);
/// The number of words that describe one conflict.
const OBSTACLE: usize = 6;
/// How many keys one scan reads at a time.
const SCANNED: usize = 1_000;

type ScriptReply = Vec<Vec<u8>>;

pub struct RedisStore {
    shards: ShardConnections,
    script: Script,
    /// Replaces the clock of the Redis, in tests.
    clock: Option<Arc<dyn Clock>>,
    /// The latest time that this process was told, in any environment. A gate, which expects a time, goes by that of each.
    told: AtomicI64,
    /// The number of calls so far: each call ends with another mark.
    calls: AtomicU64,
    /// The time of each environment, as this process was told it.
    production: StorePace,
    sandbox: StorePace,
    /// The node's knowledge of the store; `None` for a process that is not a node: the store answers it in any state.
    beliefs: Option<Beliefs>,
    /// Notified when the store does not match what this node knows.
    doubted: Notify,
    /// How many running gates must have an entry on disk before it leaves the outbox.
    copies: u64,
    /// Seals what nodes state of themselves.
    seals: Seals,
}

impl RedisStore {
    /// Creates the store of a registered node.
    pub fn of_node(shards: impl Into<ShardConnections>, node: NodeId, copies: u64) -> RedisStore {
        RedisStore { beliefs: Some(Beliefs::of(node)), copies, ..RedisStore::new(shards) }
    }

    /// Seals what nodes state of themselves, and believes nothing of it that is not sealed.
    pub fn with_seals(self, seals: Seals) -> RedisStore {
        RedisStore { seals, ..self }
    }

    /// Creates a store for a process that is not a node; it is answered even after a loss.
    pub fn new(shards: impl Into<ShardConnections>) -> RedisStore {
        RedisStore {
            shards: shards.into(),
            script: Script::new(SCRIPT),
            clock: None,
            told: AtomicI64::new(0),
            calls: AtomicU64::default(),
            production: StorePace::default(),
            sandbox: StorePace::default(),
            beliefs: None,
            doubted: Notify::new(),
            copies: 1,
            seals: Seals::default(),
        }
    }

    /// Creates a store that uses this clock, which every node must share: for tests.
    pub fn by_clock(redis: Arc<Redis>, clock: Arc<dyn Clock>) -> RedisStore {
        RedisStore { clock: Some(clock), ..RedisStore::new(redis) }
    }

    fn pace(&self, environment: Environment) -> &StorePace {
        match environment {
            Environment::Production => &self.production,
            Environment::Sandbox => &self.sandbox,
        }
    }

    /// Returns the deadline of a commit sent now, in the store's time. Once others take this node for ended, it commits
    /// nothing before its next heartbeat.
    fn until(&self, environment: Environment) -> Option<StoreTime> {
        let now = self.pace(environment).now().filter(|_| self.clock.is_none())?;
        let until = now.plus(self.shards.of(environment).deadline());
        let noted = self.beliefs.as_ref().and_then(|beliefs| beliefs.at(environment).noted);
        Some(noted.map_or(until, |noted| until.min(noted.plus(LAPSE))))
    }

    fn told(&self, environment: Environment) -> StoreTime {
        match &self.beliefs {
            Some(_) => self.pace(environment).told(),
            None => StoreTime::of_micros(self.told.load(Ordering::SeqCst)),
        }
    }

    fn hear(&self, environment: Environment, time: StoreTime) -> StoreTime {
        self.told.fetch_max(time.as_micros(), Ordering::SeqCst);
        self.pace(environment).hear(time);
        time
    }

    async fn try_commit(&self, commit: &Commit, words: &Words) -> Result<Option<Receipt>, CommitError> {
        let told = self.ask_surely(commit.environment, &self.committing(commit, words)).await;
        let told = told.map_err(|unanswered| CommitError::Fault(fault(unanswered, StoreFault::InDoubt)))?;
        let mut told = ReplyReader::of(told);
        match told.next().map_err(CommitError::Fault)?.as_slice() {
            b"done" => {
                let done = told.number().and_then(|number| Ok((number, told.time()?)));
                // The commit was made, even if its number cannot be read.
                let (number, at) = done.map_err(|fault| CommitError::Fault(StoreFault::InDoubt(fault.to_string())))?;
                if let Some(beliefs) = &self.beliefs {
                    beliefs.committed(commit, number);
                }
                Ok(Some(Receipt::new(number, self.hear(commit.environment, at), commit.entry.clone())))
            }
            b"stood" => {
                let (at, conflicts) = read_conflicts(&mut told).map_err(CommitError::Fault)?;
                Err(CommitError::Rejected { at: self.hear(commit.environment, at), conflicts })
            }
            b"late" => {
                self.hear(commit.environment, told.time().map_err(CommitError::Fault)?);
                // The clock of the Redis may have leapt: the heartbeat finds out.
                self.doubted.notify_one();
                Ok(None)
            }
            _ => Err(CommitError::Fault(unreadable())),
        }
    }

    fn committing(&self, commit: &Commit, rest: &Words) -> Words {
        let until = self.until(commit.environment).filter(|_| !commit.steps.contains(&Step::KeepPace));
        Words::default().limit(until).then(rest)
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        plan::sensible(&commit).map_err(CommitError::Fault)?;
        let is_own = self.beliefs.as_ref().is_some_and(|beliefs| beliefs.node == commit.node);
        let node = Some(&commit.node).filter(|_| !is_own);
        let entry = wire_entry::for_commit(&commit.entry, &commit.steps);
        let words = Words::default().commit(node, &entry, &commit.steps).map_err(CommitError::Fault)?;
        // The clock of the Redis may have run ahead since the last reported time; the refusal reported a newer one.
        for _ in 0..2 {
            if let Some(committed) = self.try_commit(&commit, &words).await? {
                return Ok(committed);
            }
        }
        Err(CommitError::Fault(StoreFault::Away("the commit reached the Redis too late".to_owned())))
    }

    fn time_bounds(&self, environment: Environment) -> Option<TimeBounds> {
        self.beliefs.as_ref()?;
        self.pace(environment).bounds(self.shards.of(environment).deadline())
    }

    async fn query(&self, query: Query) -> Result<QueryAnswer, StoreFault> {
        Ok(match query {
            Query::Record(key) => {
                let (record, now) = self.record(&key).await?;
                QueryAnswer::Record(record, now)
            }
            Query::Due { environment, index, until, count } => {
                QueryAnswer::Members(self.due_members(environment, index, until, count).await?)
            }
            Query::Part { environment, index, part } => {
                QueryAnswer::Members(self.part_of(environment, index, part).await?)
            }
            Query::Member { environment, index, member } => {
                QueryAnswer::Due(self.due_of_member(environment, index, &member).await?)
            }
            Query::Used { environment, windows, span } => {
                QueryAnswer::Units(self.units(environment, &windows, span).await?)
            }
            Query::Windows { environment, limit, behind, count } => {
                let names = script_args::window_names(limit.as_deref(), behind.as_ref());
                QueryAnswer::Windows(self.windows_named(environment, names, count).await?)
            }
            Query::Outbox { environment, after, count, for_journal } => {
                QueryAnswer::Entries(self.entries(environment, after, count, for_journal).await?)
            }
            Query::Last(environment) => QueryAnswer::Number(self.last_number(environment, false).await?),
            Query::DurableLast(environment) => QueryAnswer::Number(self.last_number(environment, true).await?),
            Query::Time => QueryAnswer::Time(self.latest_time().await?),
            Query::Refusal => QueryAnswer::Refusal(self.shards.refusal()),
        })
    }

    async fn kept(&self, environment: Environment, by: &Sender, up_to: Number) -> Result<(), StoreFault> {
        let words = Words::default().word(by.node.as_str()).word(by.journal.as_str()).number(up_to.as_u64());
        let words = words.number(self.copies).number(membership::micros(LAPSE));
        self.look(environment, "kept", &words).await.map(drop)
    }

    async fn sweep(&self) -> Result<usize, StoreFault> {
        let mut swept = 0_usize;
        for environment in Environment::ALL {
            let left = u64::try_from(SWEEP.saturating_sub(swept)).unwrap_or(0);
            let mut told = ReplyReader::of(self.look(environment, "sweep", &Words::default().number(left)).await?);
            self.hear(environment, told.time()?);
            swept = swept.saturating_add(usize::try_from(told.number()?.as_u64()).unwrap_or(SWEEP));
        }
        Ok(swept)
    }
}

impl RedisStore {
    async fn record(&self, key: &RecordKey) -> Result<(Option<Record>, StoreTime), StoreFault> {
        let mut told = ReplyReader::of(self.look(key.environment, "read", &Words::default().record(key)).await?);
        let now = self.hear(key.environment, told.time()?);
        let record = if told.is_at_end() { None } else { Some(told.record()?) };
        Ok((record, now))
    }

    async fn due_members(
        &self,
        environment: Environment,
        index: Index,
        until: Option<StoreTime>,
        count: usize,
    ) -> Result<Vec<(StoreTime, String)>, StoreFault> {
        let before = until.map_or_else(|| "+inf".to_owned(), |until| format!("({}", until.as_micros()));
        let mut command = ::redis::cmd("ZRANGEBYSCORE");
        command.arg(format!("{}:i:{}", root(environment), index.as_str())).arg("-inf").arg(before);
        command.arg("WITHSCORES").arg("LIMIT").arg(0).arg(i64::try_from(count).unwrap_or(i64::MAX));
        let told =
            self.shards.of(environment).ask(async |mut connection, _| command.query_async(&mut connection).await).await;
        due_of(told.map_err(|unanswered| fault(unanswered, StoreFault::Away))?)
    }

    async fn due_of_member(
        &self,
        environment: Environment,
        index: Index,
        member: &str,
    ) -> Result<Option<StoreTime>, StoreFault> {
        let mut command = ::redis::cmd("ZSCORE");
        command.arg(format!("{}:i:{}", root(environment), index.as_str())).arg(member);
        let told =
            self.shards.of(environment).ask(async |mut connection, _| command.query_async(&mut connection).await).await;
        let score: Option<Vec<u8>> = told.map_err(|unanswered| fault(unanswered, StoreFault::Away))?;
        score.map(|score| ReplyReader::of(vec![score]).time()).transpose()
    }

    async fn units(
        &self,
        environment: Environment,
        windows: &[WindowKey],
        span: WindowSpan,
    ) -> Result<Vec<u64>, StoreFault> {
        let words = windows.iter().fold(Words::default().span(span)?, Words::window);
        let mut told = ReplyReader::of(self.look(environment, "used", &words).await?);
        self.hear(environment, told.time()?);
        windows.iter().map(|_| Ok(told.number()?.as_u64())).collect()
    }

    /// Puts a window that has slots back into the list of windows. Returns whether it was lacking there.
    pub async fn list_window(&self, environment: Environment, window: &WindowKey) -> Result<bool, StoreFault> {
        let told = self.look(environment, "list_window", &Words::default().window(window)).await?;
        Ok(ReplyReader::of(told).number()? == Number::new(1))
    }

    async fn windows_named(
        &self,
        environment: Environment,
        (from, to): (String, String),
        count: usize,
    ) -> Result<Vec<WindowKey>, StoreFault> {
        let mut command = ::redis::cmd("ZRANGE");
        command.arg(format!("{}:l", root(environment))).arg(from).arg(to).arg("BYLEX");
        command.arg("LIMIT").arg(0).arg(i64::try_from(count).unwrap_or(i64::MAX));
        let told =
            self.shards.of(environment).ask(async |mut connection, _| command.query_async(&mut connection).await).await;
        let names: Vec<String> = told.map_err(|unanswered| fault(unanswered, StoreFault::Away))?;
        names.iter().map(|name| script_args::parse_window(name).ok_or_else(unreadable)).collect()
    }

    async fn entries(
        &self,
        environment: Environment,
        after: Number,
        count: usize,
        for_journal: bool,
    ) -> Result<Vec<Outstanding>, StoreFault> {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let words = Words::default().number(after.as_u64()).number(u64::from(count));
        let told = match for_journal {
            true => {
                let (told, is_durable) = self.look_surely(environment, "outbox", words).await?;
                // Where nothing is found, nothing can be undone.
                if !told.is_empty() {
                    is_durable?;
                }
                told
            }
            false => self.look(environment, "outbox", &words).await?,
        };
        let mut told = ReplyReader::of(told);
        let mut entries = Vec::new();
        while !told.is_at_end() {
            let (number, at) = (told.number()?, told.time()?);
            let (node, entry) = (told.node()?, told.entry()?);
            entries.push(Outstanding { environment, number, at, node, entry });
        }
        Ok(entries)
    }

    async fn last_number(&self, environment: Environment, must_be_durable: bool) -> Result<Number, StoreFault> {
        let told = match must_be_durable {
            true => {
                let (told, is_durable) = self.look_surely(environment, "last", Words::default()).await?;
                is_durable?;
                told
            }
            false => self.look(environment, "last", &Words::default()).await?,
        };
        let mut told = ReplyReader::of(told);
        self.hear(environment, told.time()?);
        told.number()
    }

    /// Returns the latest time of all environments.
    async fn latest_time(&self) -> Result<StoreTime, StoreFault> {
        let words = Words::default();
        let [first, second] = Environment::ALL;
        let (one, other) = tokio::join!(self.look(first, "time", &words), self.look(second, "time", &words));
        let mut latest = self.told(first).max(self.told(second));
        for (environment, told) in [(first, one), (second, other)] {
            latest = latest.max(self.hear(environment, ReplyReader::of(told?).time()?));
        }
        Ok(latest)
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("shards", &self.shards).finish_non_exhaustive()
    }
}

/// Returns the prefix of all keys of an environment: its hash tag keeps them in one slot of a cluster.
fn root(environment: Environment) -> &'static str {
    match environment {
        Environment::Production => "sluice:{production}",
        Environment::Sandbox => "sluice:{sandbox}",
    }
}
