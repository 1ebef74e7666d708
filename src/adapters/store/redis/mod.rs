//! The store in a Redis that many nodes share.
//!
//! What a commit means stands in `script.lua`: one script, one call, one round trip, all of it or nothing. The store's
//! time is the clock of the Redis, held up by the latest time that was told in the environment, and by the latest that
//! this node has heard at all. What is asked goes out as words (`words`); what comes back is read here.
//!
//! A commit that arrives later than anybody waits for it does nothing: it says until when, by the store's time, it may
//! be done. So, once its asker was told that it is in doubt, what is in the store is the truth about it.
//!
//! A store that was set back, emptied or put in another's place would say of what was paid that it never was. So every
//! call of a node says what it knows of the store (`belief`), and the script does nothing where that is not so; how
//! nodes meet a Redis, and what comes after a loss, stands in `roll` and in the journey of that name.

mod belief;
mod order;
mod reader;
mod roll;
mod sure;
mod transfer;
mod words;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, ErrorKind, Script, ServerErrorKind};
use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Notify;

use self::belief::Beliefs;
use self::order::due_of;
use self::reader::{Reader, stood, unreadable};
pub use self::roll::{Heard, LAPSE, Life, Member, Verdict};
pub use self::transfer::import;
use self::words::Words;
use super::{SWEEP, look, plan};
use crate::adapters::clock::Stopwatch;
use crate::adapters::redis::{Redis, Unanswered};
use crate::base::ids::Environment;
use crate::commit::{
    Commit, CommitError, Committed, Index, NodeId, Number, Outstanding, Record, RecordKey, Span, StoreFault, StoreTime,
    WindowKey,
};
use crate::config::Durability;
use crate::ports::{Clock, Part, Store};

const SCRIPT: &str = include_str!("script.lua");
/// The Redis does not know the script, for the first time or since it was started again.
const NO_SCRIPT: ErrorKind = ErrorKind::Server(ServerErrorKind::NoScript);
/// Words that tell one obstacle.
const OBSTACLE: usize = 6;
/// What the node knows of the store is not so.
const OTHER: &str = "OTHER";
/// Errors of a Redis, and of the script, where nothing was written.
const NOT_BEGUN: [&str; 18] = [
    OTHER,
    "DENIED",
    "NOPERM",
    "NOSCRIPT",
    "OOM",
    "READONLY",
    "LOADING",
    "NOREPLICAS",
    "MISCONF",
    "MASTERDOWN",
    "NOAUTH",
    "BUSY",
    "CLUSTERDOWN",
    "MOVED",
    "ASK",
    "TRYAGAIN",
    "CROSSSLOT",
    "WRONGPASS",
];

/// How much is looked at in one go where all windows are looked for.
const SCANNED: usize = 1_000;

type Told = Vec<Vec<u8>>;

pub struct RedisStore {
    redis: Arc<Redis>,
    script: Script,
    /// In place of the clock of the Redis.
    clock: Option<Arc<dyn Clock>>,
    /// The latest time that this node was told, whatever the environment.
    told: AtomicI64,
    /// A time that was told, and what has passed since.
    pace: ArcSwapOption<(StoreTime, Stopwatch)>,
    /// What a node knows of it; none for who is no part of it, and whom it answers as it stands.
    beliefs: Option<Beliefs>,
    /// Told when something that is known is not so.
    doubted: Notify,
}

impl RedisStore {
    /// As a node sees it, once it is on its roll.
    pub fn of_node(redis: Arc<Redis>, node: NodeId) -> RedisStore {
        RedisStore { beliefs: Some(Beliefs::of(node)), ..RedisStore::new(redis) }
    }

    /// As it stands, whatever it has forgotten.
    pub fn new(redis: Arc<Redis>) -> RedisStore {
        RedisStore {
            redis,
            script: Script::new(SCRIPT),
            clock: None,
            told: AtomicI64::new(0),
            pace: ArcSwapOption::empty(),
            beliefs: None,
            doubted: Notify::new(),
        }
    }

    /// Goes by this clock, which every node must share: for tests.
    pub fn by_clock(redis: Arc<Redis>, clock: Arc<dyn Clock>) -> RedisStore {
        RedisStore { clock: Some(clock), ..RedisStore::new(redis) }
    }

    fn command(&self, environment: Environment, run: &str, operation: &str, words: &Words) -> Cmd {
        let mut command = ::redis::cmd("EVALSHA");
        command.arg(self.script.get_hash()).arg(1).arg(root(environment));
        let clock = self.clock.as_ref().map(|clock| clock.now().as_microsecond().to_string());
        let told = StoreTime::of_micros(self.told.load(Ordering::SeqCst));
        let head = Words::default().word(operation).word(clock.unwrap_or_default()).time(told);
        let head = match &self.beliefs {
            Some(beliefs) => beliefs.words(environment, run, head),
            None => head.word("").word("").word(run).number(0),
        };
        for word in head.all().chain(words.all()) {
            command.arg(word);
        }
        command
    }

    async fn ask(&self, environment: Environment, operation: &str, words: &Words) -> Result<Told, Unanswered> {
        let asked = async |mut connection: MultiplexedConnection, run: &str| {
            let command = self.command(environment, run, operation, words);
            match command.query_async(&mut connection).await {
                Err(error) if error.kind() == NO_SCRIPT => {
                    self.script.load_async(&mut connection).await?;
                    command.query_async(&mut connection).await
                }
                answer => answer,
            }
        };
        self.heeded(self.redis.ask(asked).await)
    }

    fn heeded<T>(&self, answer: Result<T, Unanswered>) -> Result<T, Unanswered> {
        if matches!(&answer, Err(Unanswered::Refused(code, _)) if code == OTHER) {
            self.doubted.notify_one();
        }
        answer
    }

    /// A commit, as sure as it is demanded.
    async fn ask_surely(&self, environment: Environment, words: &Words) -> Result<Told, Unanswered> {
        let durability = self.redis.demands().map_or(Durability::Acknowledged, |demands| demands.durability);
        let Some(sure) = sure::wait(durability, self.redis.deadline()) else {
            return self.ask(environment, "commit", words).await;
        };
        let asked = async |connection, run: &str| {
            let command = self.command(environment, run, "commit", words);
            sure.ask(connection, &self.script, &command).await
        };
        let (answer, counted) = self.heeded(self.redis.ask_alone(asked).await)?;
        let is_done = answer.first().is_some_and(|word| word == b"done");
        match counted {
            Err(why) if is_done => Err(Unanswered::Lost(why)),
            Ok(()) | Err(_) => Ok(answer),
        }
    }

    async fn look(&self, environment: Environment, operation: &str, words: &Words) -> Result<Told, StoreFault> {
        self.ask(environment, operation, words).await.map_err(|unanswered| fault(unanswered, StoreFault::Away))
    }

    /// Nobody waits for a commit beyond this time.
    fn until(&self) -> Option<StoreTime> {
        let pace = self.pace.load_full()?;
        Some(pace.0.plus(pace.1.elapsed()).plus(self.redis.deadline()))
    }

    fn hear(&self, time: StoreTime) -> StoreTime {
        self.told.fetch_max(time.as_micros(), Ordering::SeqCst);
        if self.clock.is_none() {
            self.pace.store(Some(Arc::new((time, Stopwatch::start()))));
        }
        time
    }

    async fn try_commit(&self, commit: &Commit, words: &Words) -> Result<Option<Committed>, CommitError> {
        let told = self.ask_surely(commit.environment, &self.committing(words)).await;
        let told = told.map_err(|unanswered| CommitError::Fault(fault(unanswered, StoreFault::InDoubt)))?;
        let mut told = Reader::of(told);
        match told.next().map_err(CommitError::Fault)?.as_slice() {
            b"done" => {
                let done = told.number().and_then(|number| Ok((number, told.time()?)));
                // It was done, even if nobody can read which number it took.
                let (number, at) = done.map_err(|fault| CommitError::Fault(StoreFault::InDoubt(fault.to_string())))?;
                if let Some(beliefs) = &self.beliefs {
                    beliefs.committed(commit, number);
                }
                Ok(Some(Committed { number, at: self.hear(at) }))
            }
            b"stood" => {
                let (at, obstacles) = stood(&mut told).map_err(CommitError::Fault)?;
                Err(CommitError::Stood { at: self.hear(at), obstacles })
            }
            b"late" => {
                self.hear(told.time().map_err(CommitError::Fault)?);
                Ok(None)
            }
            _ => Err(CommitError::Fault(unreadable())),
        }
    }

    fn committing(&self, rest: &Words) -> Words {
        let until = self.until().map_or_else(String::new, |until| until.as_micros().to_string());
        Words::default().word(until).then(rest)
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn commit(&self, commit: Commit) -> Result<Committed, CommitError> {
        plan::sensible(&commit).map_err(CommitError::Fault)?;
        let words = Words::default().word(commit.node.as_str()).word(&commit.entry);
        let words = words.steps(&commit.steps).map_err(CommitError::Fault)?;
        // The clock of the Redis may have gone ahead since a time was told; now another was.
        for _ in 0..2 {
            if let Some(committed) = self.try_commit(&commit, &words).await? {
                return Ok(committed);
            }
        }
        Err(CommitError::Fault(StoreFault::Away("it reached the Redis too late".to_owned())))
    }

    async fn read(&self, key: &RecordKey) -> Result<(Option<Record>, StoreTime), StoreFault> {
        let mut told = Reader::of(self.look(key.environment, "read", &Words::default().record(key)).await?);
        let now = self.hear(told.time()?);
        let record = if told.is_at_end() { None } else { Some(told.record()?) };
        Ok((record, now))
    }

    async fn due(
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
        let told = self.redis.ask(async |mut connection, _| command.query_async(&mut connection).await).await;
        due_of(told.map_err(|unanswered| fault(unanswered, StoreFault::Away))?)
    }

    async fn last(&self, environment: Environment) -> Result<Number, StoreFault> {
        let mut told = Reader::of(self.look(environment, "last", &Words::default()).await?);
        self.hear(told.time()?);
        told.number()
    }

    async fn part(
        &self,
        environment: Environment,
        index: Index,
        part: Part,
    ) -> Result<Vec<(StoreTime, String)>, StoreFault> {
        self.part_of(environment, index, part).await
    }

    async fn used(&self, environment: Environment, window: &WindowKey, span: Span) -> Result<u64, StoreFault> {
        let words = Words::default().window(window).span(span)?;
        let mut told = Reader::of(self.look(environment, "used", &words).await?);
        self.hear(told.time()?);
        Ok(told.number()?.as_u64())
    }

    async fn member(
        &self,
        environment: Environment,
        index: Index,
        member: &str,
    ) -> Result<Option<StoreTime>, StoreFault> {
        let mut command = ::redis::cmd("ZSCORE");
        command.arg(format!("{}:i:{}", root(environment), index.as_str())).arg(member);
        let told = self.redis.ask(async |mut connection, _| command.query_async(&mut connection).await).await;
        let score: Option<Vec<u8>> = told.map_err(|unanswered| fault(unanswered, StoreFault::Away))?;
        score.map(|score| Reader::of(vec![score]).time()).transpose()
    }

    async fn windows(
        &self,
        environment: Environment,
        limit: Option<&str>,
        count: usize,
    ) -> Result<Vec<WindowKey>, StoreFault> {
        // Each slot stands among what turns by its age, with its window behind it.
        let pattern = limit.map_or_else(|| "s*".to_owned(), |limit| format!("s* {}:{limit}:*", limit.len()));
        let (mut found, mut cursor) = (BTreeSet::new(), 0_u64);
        loop {
            let mut command = ::redis::cmd("ZSCAN");
            command.arg(format!("{}:x", root(environment))).arg(cursor).arg("MATCH").arg(&pattern);
            command.arg("COUNT").arg(SCANNED);
            let told = self.redis.ask(async |mut connection, _| command.query_async(&mut connection).await).await;
            let (next, names): (u64, Told) = told.map_err(|unanswered| fault(unanswered, StoreFault::Away))?;
            for name in names.iter().step_by(2) {
                let window = words::window(name).ok_or_else(unreadable)?;
                // A key may hold what looks like the name of another limit.
                if limit.is_none_or(|limit| limit == window.limit) {
                    found.insert(window);
                }
            }
            cursor = next;
            if cursor == 0 || found.len() >= count {
                return Ok(found.into_iter().take(count).collect());
            }
        }
    }

    async fn outbox(
        &self,
        environment: Environment,
        node: &NodeId,
        count: usize,
    ) -> Result<Vec<Outstanding>, StoreFault> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let words = Words::default().word(node.as_str()).number(u64::from(count));
        let mut told = Reader::of(self.look(environment, "outbox", &words).await?);
        let mut entries = Vec::new();
        while !told.is_at_end() {
            let (number, at) = (told.number()?, told.time()?);
            let (node, entry) = (node.clone(), Bytes::from(told.next()?));
            entries.push(Outstanding { environment, number, at, node, entry });
        }
        Ok(entries)
    }

    async fn drained(&self, environment: Environment, numbers: &[Number]) -> Result<(), StoreFault> {
        if numbers.is_empty() {
            return Ok(());
        }
        let words = numbers.iter().fold(Words::default(), |words, number| words.number(number.as_u64()));
        self.look(environment, "drained", &words).await.map(drop)
    }

    /// Of those who are not on the roll, or whose heart has not beaten for long.
    async fn take_over(
        &self,
        environment: Environment,
        node: &NodeId,
        count: usize,
    ) -> Result<Vec<Outstanding>, StoreFault> {
        self.taken_over(environment, node, count).await
    }

    async fn sweep(&self) -> Result<usize, StoreFault> {
        let mut swept = 0_usize;
        for environment in Environment::ALL {
            let left = u64::try_from(SWEEP.saturating_sub(swept)).unwrap_or(0);
            let mut told = Reader::of(self.look(environment, "sweep", &Words::default().number(left)).await?);
            self.hear(told.time()?);
            swept = swept.saturating_add(usize::try_from(told.number()?.as_u64()).unwrap_or(SWEEP));
        }
        Ok(swept)
    }

    /// That of every environment, for what was told in one holds in the others as well.
    async fn time(&self) -> Result<StoreTime, StoreFault> {
        let words = Words::default();
        let asked = Environment::ALL.map(|environment| self.look(environment, "time", &words));
        let mut latest = StoreTime::of_micros(self.told.load(Ordering::SeqCst));
        let [first, second] = asked;
        for told in <[_; 2]>::from(tokio::join!(first, second)) {
            latest = latest.max(Reader::of(told?).time()?);
        }
        Ok(self.hear(latest))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("redis", &self.redis).finish_non_exhaustive()
    }
}

/// With what every key of an environment begins: its hash tag keeps them in one place of a cluster.
fn root(environment: Environment) -> String {
    format!("sluice:{{{}}}", environment.as_str())
}

/// `asked` is what it is where the Redis may have done what it was asked.
fn fault(unanswered: Unanswered, asked: impl FnOnce(String) -> StoreFault) -> StoreFault {
    match unanswered {
        Unanswered::Away(why) => StoreFault::Away(why.to_owned()),
        Unanswered::Lost(why) => asked(why),
        Unanswered::Refused(code, why) if code == "SLUICE" => StoreFault::Broken(why),
        Unanswered::Refused(code, why) if NOT_BEGUN.contains(&code.as_str()) => {
            StoreFault::Away(format!("the Redis refused it: {code} {why}"))
        }
        Unanswered::Refused(code, why) => asked(format!("the Redis failed: {code} {why}")),
    }
}
