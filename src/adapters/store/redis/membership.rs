//! The nodes that share a store: which are running, and whether the store still has everything that each of them knows.
//!
//! A node sends a heartbeat every second. Its first heartbeat to a new run of the Redis is a meeting: until every
//! running node has met that run, or was waited for long enough, the environment does nothing, because the Redis may
//! have lost confirmed commits. If it has, all nodes stop at once until money is closed.

use std::time::Duration;

use tokio::sync::watch;

use super::pace::ClockReading;
use super::reader::{ReplyReader, unreadable};
use super::script_args::Words;
use super::{RedisStore, StoreFault, fault};
use crate::adapters::clock::SystemClock;
use crate::base::ids::Environment;
use crate::ledger::{ClockLeap, InstallationId, JournalId, NodeId, Number, StoreTime};
use crate::ports::Clock as _;

/// A node without a heartbeat for this long counts as ended.
pub const LAPSE: Duration = Duration::from_secs(5);

/// A node's description of itself in a heartbeat.
#[derive(Clone, Debug)]
pub struct Life {
    /// The random id of this process.
    pub instance: String,
    /// The instance of an earlier process of this node that has certainly ended.
    pub former: Option<String>,
    /// A random word: the generation, if this heartbeat creates the store. Empty if it must not.
    pub fresh: String,
    /// The installation that the store must belong to, if it is known.
    pub installation: Option<InstallationId>,
    /// The latest loss that this node knows of: it sends nothing more that it committed before.
    pub acknowledges: Option<StoreTime>,
    /// A description for people, as JSON.
    pub told: String,
    pub journal: JournalId,
    /// The number up to which the journal has every entry.
    pub kept: Number,
}

/// The store's reply: its own state and that of the nodes.
#[derive(Clone, Debug)]
pub struct HeartbeatReply {
    pub verdict: HeartbeatVerdict,
    pub at: StoreTime,
    /// The clock of the Redis, with the correction that the gates agreed on.
    pub clock: StoreTime,
    pub generation: String,
    /// The run of the Redis that all nodes have met.
    pub run: String,
    pub last: Number,
    /// The number that the next commit exceeds, because gates knew of it.
    pub above: Number,
    /// Since when the store is known to be lost.
    pub lost: Option<StoreTime>,
    pub members: Vec<Member>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeartbeatVerdict {
    /// The store matches what this node knows.
    Well,
    /// Not every node has met this run of the Redis yet.
    Meeting,
    /// The store has lost something, and not every node has reported yet what it knows.
    Gathering,
    /// The store has lost something, and every node has reported.
    Lost,
    /// Another process uses the name of this node.
    Taken,
    /// It is the store of another installation.
    Foreign,
    /// The journal of this node had entries that it no longer has.
    Cut,
    /// The store is empty, and must be created by hand.
    Uncreated,
}

/// A registered node.
#[derive(Clone, Debug)]
pub struct Member {
    pub node: NodeId,
    pub instance: String,
    /// The time of its last heartbeat; long ago for a node that has shut down.
    pub beat: StoreTime,
    /// The highest number that it committed.
    pub highest: Number,
    /// The number up to which its journal has every entry.
    pub kept: Number,
    /// The highest number of its own commits, as the node itself knows it.
    pub own: Number,
    pub run: String,
    /// The loss that it acknowledged last.
    pub acknowledges: Option<StoreTime>,
    pub told: String,
}

impl HeartbeatReply {
    pub fn is_live(&self, member: &Member) -> bool {
        self.at.since(member.beat) < LAPSE
    }
}

impl RedisStore {
    /// Sends a heartbeat. If the reply is that all is well, this node remembers it as its knowledge of the store.
    pub async fn beat(&self, environment: Environment, life: &Life) -> Result<HeartbeatReply, StoreFault> {
        let Some(beliefs) = &self.beliefs else { return Err(no_node()) };
        let before = beliefs.at(environment).clone();
        let words = Words::default().word(&life.instance).word(life.former.as_deref().unwrap_or_default());
        let words = words.word(&life.fresh).number(micros(LAPSE)).word(&life.told);
        let words = words.number(before.seen.max(life.kept.as_u64()));
        let words = words.word(life.journal.as_str()).number(life.kept.as_u64());
        let words = words.word(before.generation.as_deref().unwrap_or_default());
        let words = words.word(life.installation.as_ref().map_or("", InstallationId::as_str));
        let words = words.word(life.acknowledges.map_or_else(String::new, |since| since.as_micros().to_string()));
        let others = before.heard.iter().flat_map(|heard| {
            let others = heard.members.iter().filter(|member| member.node != beliefs.node);
            others.map(|member| (member, heard.is_live(member)))
        });
        let words = others.fold(words, |words, (member, is_live)| {
            words.word(member.node.as_str()).word(if is_live { "1" } else { "0" }).number(member.highest.as_u64())
        });
        let heard = self.heard(environment, "beat", &words).await?;
        if heard.verdict == HeartbeatVerdict::Well {
            let mut belief = beliefs.at(environment);
            belief.generation = Some(heard.generation.clone());
            belief.is_waiting = false;
            belief.seen = heard.last.as_u64();
            belief.heard = Some(heard.clone());
        }
        Ok(heard)
    }

    /// Creates an empty store for an installation, if one is given. Returns the installation that it belongs to then: the
    /// given one, or the one that it was created for before.
    pub async fn create(
        &self,
        environment: Environment,
        id: Option<&InstallationId>,
    ) -> Result<Option<String>, StoreFault> {
        let words = Words::default().word(id.map_or("", InstallationId::as_str));
        let belongs_to = ReplyReader::of(self.look(environment, "create", &words).await?).text()?;
        Ok(Some(belongs_to).filter(|id| !id.is_empty()))
    }

    /// Returns the registered nodes, without being one of them.
    pub async fn roll(&self, environment: Environment) -> Result<HeartbeatReply, StoreFault> {
        self.heard(environment, "roll", &Words::default()).await
    }

    /// Returns when this process found the store well for the last time.
    pub fn well_at(&self, environment: Environment) -> Option<StoreTime> {
        self.beliefs.as_ref().and_then(|beliefs| beliefs.at(environment).heard.as_ref().map(|heard| heard.at))
    }

    /// Adds what this node knows from its own files: the highest number of its own commits, and the store that it met.
    pub fn knows(&self, environment: Environment, highest: u64, generation: Option<String>) {
        if let Some(beliefs) = &self.beliefs {
            let mut belief = beliefs.at(environment);
            belief.has(highest);
            belief.generation = generation;
        }
    }

    /// Returns the identity of the store that this node last met.
    pub fn generation(&self, environment: Environment) -> Option<String> {
        self.beliefs.as_ref().and_then(|beliefs| beliefs.at(environment).generation.clone())
    }

    /// Removes this node from those that others wait for.
    pub async fn leave(&self, environment: Environment, life: &Life) -> Result<(), StoreFault> {
        self.look(environment, "leave", &Words::default().word(&life.instance)).await.map(drop)
    }

    /// Does nothing with this store until a heartbeat finds it whole again.
    pub fn waits(&self, environment: Environment) {
        if let Some(beliefs) = &self.beliefs {
            beliefs.at(environment).is_waiting = true;
        }
    }

    /// Returns when a call found that the store does not match what this node knows.
    pub async fn doubted(&self) {
        self.doubted.notified().await;
    }

    /// Returns how the clock of the Redis differs from what this gate expects, as the last heartbeat found it.
    pub fn leap(&self, environment: Environment) -> Option<ClockLeap> {
        self.pace(environment).leap()
    }

    /// Takes the time of the store at the last heartbeat as right, and expects it to go on from there.
    pub fn meets_clock(&self, environment: Environment) {
        self.pace(environment).meet();
    }

    /// Returns a value that changes with every new connection.
    pub fn connections(&self) -> watch::Receiver<u64> {
        self.redis.connections()
    }

    async fn heard(
        &self,
        environment: Environment,
        operation: &str,
        words: &Words,
    ) -> Result<HeartbeatReply, StoreFault> {
        let asked = SystemClock.elapsed();
        let told = self.ask(environment, operation, words).await;
        let mut told = ReplyReader::of(told.map_err(|unanswered| fault(unanswered, StoreFault::Away))?);
        let within = (asked, SystemClock.elapsed());
        let verdict = match told.next()?.as_slice() {
            b"well" => HeartbeatVerdict::Well,
            b"meeting" => HeartbeatVerdict::Meeting,
            b"gathering" => HeartbeatVerdict::Gathering,
            b"lost" => HeartbeatVerdict::Lost,
            b"taken" => HeartbeatVerdict::Taken,
            b"foreign" => HeartbeatVerdict::Foreign,
            b"cut" => HeartbeatVerdict::Cut,
            b"uncreated" => HeartbeatVerdict::Uncreated,
            _ => return Err(unreadable()),
        };
        let (at, clock, epoch) = (self.hear(environment, told.time()?), told.time()?, told.number()?.as_u64());
        self.pace(environment).compare(ClockReading { clock, at, epoch, within });
        let promoted = told.text()?.parse().ok().map(StoreTime::of_micros);
        if verdict == HeartbeatVerdict::Well {
            self.redis.fence().meets(environment, within.1, promoted.map(|promoted| at.since(promoted)));
        }
        let (generation, run) = (told.text()?, told.text()?);
        let (last, above) = (told.number()?, told.number()?);
        let lost = told.text()?;
        let lost = lost.parse().ok().map(StoreTime::of_micros);
        let mut members = Vec::new();
        while !told.is_at_end() {
            let (node, instance, beat) = (told.node()?, told.text()?, told.time()?);
            let (highest, kept, own) = (told.number()?, told.number()?, told.number()?);
            let (run, acknowledges, told) = (told.text()?, told.text()?, told.text()?);
            let acknowledges = acknowledges.parse().ok().map(StoreTime::of_micros);
            members.push(Member { node, instance, beat, highest, kept, own, run, acknowledges, told });
        }
        members.sort_by(|one, other| one.node.cmp(&other.node));
        Ok(HeartbeatReply { verdict, at, clock, generation, run, last, above, lost, members })
    }
}

fn no_node() -> StoreFault {
    StoreFault::Broken("a call of a node came from a process that is not registered as one".to_owned())
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
