//! The store in a Redis that many nodes share.
//!
//! What a commit means stands in `script.lua`: one script, one call, one round trip, all of it or nothing. The store's
//! time is the clock of the Redis, held up by the latest time that was told in the environment, and by the latest that
//! this node has heard at all. What is asked goes out as words (`words`); what comes back is read here.
//!
//! A commit that arrives later than anybody waits for it does nothing: it says until when, by the store's time, it may
//! be done. So, once its asker was told that it is in doubt, what is in the store is the truth about it.

mod sure;
mod words;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, ErrorKind, Script, ServerErrorKind};
use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use bytes::Bytes;

use self::words::Words;
use super::{SWEEP, look, plan};
use crate::adapters::clock::Stopwatch;
use crate::adapters::redis::{Redis, Unanswered};
use crate::base::ids::Environment;
use crate::commit::{
    Commit, CommitError, Committed, Content, Found, Index, NodeId, Number, Obstacle, Outstanding, Record, RecordKey,
    Span, StoreFault, StoreTime, WindowKey,
};
use crate::config::Durability;
use crate::ports::{Clock, Store};

const SCRIPT: &str = include_str!("script.lua");
/// The Redis does not know the script, for the first time or since it was started again.
const NO_SCRIPT: ErrorKind = ErrorKind::Server(ServerErrorKind::NoScript);
/// Words that tell one obstacle.
const OBSTACLE: usize = 6;
/// Errors of a Redis, and of the script, where nothing was written.
const NOT_BEGUN: [&str; 17] = [
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
}

impl RedisStore {
    pub fn new(redis: Arc<Redis>) -> RedisStore {
        RedisStore {
            redis,
            script: Script::new(SCRIPT),
            clock: None,
            told: AtomicI64::new(0),
            pace: ArcSwapOption::empty(),
        }
    }

    /// Goes by this clock, which every node must share: for tests.
    pub fn by_clock(redis: Arc<Redis>, clock: Arc<dyn Clock>) -> RedisStore {
        RedisStore { clock: Some(clock), ..RedisStore::new(redis) }
    }

    /// What every call begins with.
    fn words(&self, operation: &str) -> Words {
        let clock = self.clock.as_ref().map(|clock| clock.now().as_microsecond().to_string());
        let words = Words::default().word(operation).word(clock.unwrap_or_default());
        words.time(StoreTime::of_micros(self.told.load(Ordering::SeqCst)))
    }

    fn command(&self, environment: Environment, words: &Words) -> Cmd {
        let mut command = ::redis::cmd("EVALSHA");
        command.arg(self.script.get_hash()).arg(1).arg(root(environment));
        for word in words.all() {
            command.arg(word);
        }
        command
    }

    async fn ask(&self, environment: Environment, words: &Words) -> Result<Told, Unanswered> {
        let command = self.command(environment, words);
        let asked = async |mut connection: MultiplexedConnection| match command.query_async(&mut connection).await {
            Err(error) if error.kind() == NO_SCRIPT => {
                self.script.load_async(&mut connection).await?;
                command.query_async(&mut connection).await
            }
            answer => answer,
        };
        self.redis.ask(asked).await
    }

    /// A commit, as sure as it is demanded.
    async fn ask_surely(&self, environment: Environment, words: &Words) -> Result<Told, Unanswered> {
        let durability = self.redis.demands().map_or(Durability::Acknowledged, |demands| demands.durability);
        let Some(sure) = sure::wait(durability, self.redis.deadline()) else {
            return self.ask(environment, words).await;
        };
        let command = self.command(environment, words);
        let (answer, counted) =
            self.redis.ask_alone(async |connection| sure.ask(connection, &self.script, &command).await).await?;
        let is_done = answer.first().is_some_and(|word| word == b"done");
        match counted {
            Err(why) if is_done => Err(Unanswered::Lost(why)),
            Ok(()) | Err(_) => Ok(answer),
        }
    }

    async fn look(&self, environment: Environment, words: &Words) -> Result<Told, StoreFault> {
        self.ask(environment, words).await.map_err(|unanswered| fault(unanswered, StoreFault::Away))
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
        self.words("commit").word(until).then(rest)
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
        let mut told = Reader::of(self.look(key.environment, &self.words("read").record(key)).await?);
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
        let told = self.redis.ask(async |mut connection| command.query_async(&mut connection).await).await;
        let mut told = Reader::of(told.map_err(|unanswered| fault(unanswered, StoreFault::Away))?);
        let mut due = Vec::new();
        while !told.is_at_end() {
            let member = told.text()?;
            due.push((told.time()?, member));
        }
        Ok(due)
    }

    async fn last(&self, environment: Environment) -> Result<Number, StoreFault> {
        let mut told = Reader::of(self.look(environment, &self.words("last")).await?);
        self.hear(told.time()?);
        told.number()
    }

    async fn used(&self, environment: Environment, window: &WindowKey, span: Span) -> Result<u64, StoreFault> {
        let words = self.words("used").window(window).span(span)?;
        let mut told = Reader::of(self.look(environment, &words).await?);
        self.hear(told.time()?);
        Ok(told.number()?.as_u64())
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
        let words = self.words("outbox").word(node.as_str()).number(u64::from(count));
        let mut told = Reader::of(self.look(environment, &words).await?);
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
        let words = numbers.iter().fold(self.words("drained"), |words, number| words.number(number.as_u64()));
        self.look(environment, &words).await.map(drop)
    }

    async fn sweep(&self) -> Result<usize, StoreFault> {
        let mut swept = 0_usize;
        for environment in Environment::ALL {
            let left = u64::try_from(SWEEP.saturating_sub(swept)).unwrap_or(0);
            let mut told = Reader::of(self.look(environment, &self.words("sweep").number(left)).await?);
            self.hear(told.time()?);
            swept = swept.saturating_add(usize::try_from(told.number()?.as_u64()).unwrap_or(SWEEP));
        }
        Ok(swept)
    }

    /// That of every environment, for what was told in one holds in the others as well.
    async fn time(&self) -> Result<StoreTime, StoreFault> {
        let words = self.words("time");
        let asked = Environment::ALL.map(|environment| self.look(environment, &words));
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

fn unreadable() -> StoreFault {
    StoreFault::Broken("the answer of the Redis is not as its script gives it".to_owned())
}

fn stood(told: &mut Reader) -> Result<(StoreTime, Vec<Obstacle>), StoreFault> {
    let at = told.time()?;
    let mut obstacles = Vec::new();
    while !told.is_at_end() {
        let step = usize::try_from(told.number()?.as_u64()).map_err(|_| unreadable())?;
        let mut words = told.part(OBSTACLE.saturating_sub(1))?;
        let found = match words.next()?.as_slice() {
            b"nothing" => Found::Nothing,
            b"record" => Found::Record(words.record()?),
            b"time" => Found::Time,
            b"membership" => Found::Membership,
            b"reserved" => Found::Reserved,
            b"used" => Found::Used(words.number()?.as_u64()),
            _ => return Err(unreadable()),
        };
        obstacles.push(Obstacle { step, found });
    }
    Ok((at, obstacles))
}

/// What the script told, word by word.
struct Reader(std::vec::IntoIter<Vec<u8>>);

impl Reader {
    fn of(told: Told) -> Reader {
        Reader(told.into_iter())
    }

    fn is_at_end(&self) -> bool {
        self.0.len() == 0
    }

    fn next(&mut self) -> Result<Vec<u8>, StoreFault> {
        self.0.next().ok_or_else(unreadable)
    }

    fn part(&mut self, words: usize) -> Result<Reader, StoreFault> {
        let part: Told = self.0.by_ref().take(words).collect();
        if part.len() == words { Ok(Reader::of(part)) } else { Err(unreadable()) }
    }

    fn text(&mut self) -> Result<String, StoreFault> {
        String::from_utf8(self.next()?).map_err(|_| unreadable())
    }

    fn number(&mut self) -> Result<Number, StoreFault> {
        self.text()?.parse().map(Number::new).map_err(|_| unreadable())
    }

    fn time(&mut self) -> Result<StoreTime, StoreFault> {
        self.text()?.parse().map(StoreTime::of_micros).map_err(|_| unreadable())
    }

    fn record(&mut self) -> Result<Record, StoreFault> {
        let (version, at) = (self.number()?, self.time()?);
        let (state, content) = (self.next()?, self.next()?);
        let content = match state.as_slice() {
            b"whole" => Content::Whole(content.into()),
            b"spent" => Content::Spent,
            _ => return Err(unreadable()),
        };
        Ok(Record { version, at, content })
    }
}
