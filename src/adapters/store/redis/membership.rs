//! The nodes that share a store: which are running, and whether the store still has everything that each of them knows.
//!
//! A node sends a heartbeat every second. Its first heartbeat to a new run of the Redis is a meeting: until every
//! running node has met that run, or was waited for long enough, the environment does nothing, because the Redis may
//! have lost confirmed commits. If it has, all nodes stop at once until money is closed.

use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use tokio::sync::watch;

use super::pace::ClockReading;
use super::reader::{ReplyReader, unreadable};
use super::script_args::Words;
use super::{RedisStore, StoreFault, fault, root};
use crate::adapters::clock::SystemClock;
use crate::base::ids::Environment;
use crate::ledger::{InstallationId, JournalId, NodeId, Number, Sender, StoreTime};
use crate::ports::Clock as _;

/// A node without a heartbeat for this long counts as ended.
pub const LAPSE: Duration = Duration::from_secs(5);

/// A node that found the store well within this time before a loss counts as one that ran then. So a node that begins to
/// pay, or returns, waits until each node that was heard within this time has heard of it.
pub const RAN_WITHIN: Duration = Duration::from_secs(10);

/// The word of a heartbeat that does not ask whether the store has the same history.
const UNASKED: &str = "-";

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
    /// The facts that it states of itself, as JSON.
    pub told: String,
    pub journal: JournalId,
    /// The number up to which the journal has every entry.
    pub kept: Number,
    /// The newest entry of the journal, where it was looked up; `None` in it if the journal has none at that number.
    pub newest: Option<Option<EntryMark>>,
}

/// What tells an entry from another one under the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryMark {
    pub at: StoreTime,
    pub node: NodeId,
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
    /// The store has another history than this node's journal behind the number that it knows of this journal.
    Differs,
    /// The entry has left the outbox that would show whether the store has the history of this node's journal.
    Uncompared,
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
    /// Whether it ended in order after other journals had all that its own has.
    pub is_retired: bool,
    /// The facts that it stated of itself; empty where somebody wrote them who has no seal key.
    pub told: String,
}

/// A journal in whose place its node has another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerJournal {
    pub sender: Sender,
    /// The number up to which it had every entry, as far as the store was told.
    pub up_to: Number,
    /// Whether other journals had all of it when its gate ended.
    pub is_retired: bool,
}

impl HeartbeatReply {
    pub fn is_live(&self, member: &Member) -> bool {
        self.at.since(member.beat) < LAPSE
    }

    /// Whether every node that was heard within this time has sent a heartbeat since.
    pub fn is_heard_by_all(&self, node: &NodeId, since: StoreTime, within: Duration) -> bool {
        let has_heard = |member: &Member| self.at.since(member.beat) >= within || member.beat > since;
        self.members.iter().all(|member| member.node == *node || has_heard(member))
    }

    /// Whether the store noted this heartbeat.
    fn is_noted(&self) -> bool {
        use HeartbeatVerdict::{Cut, Differs, Foreign, Gathering, Lost, Meeting, Taken, Uncompared, Uncreated, Well};
        match self.verdict {
            Well | Meeting | Differs | Uncompared | Gathering | Lost => true,
            Taken | Foreign | Cut | Uncreated => false,
        }
    }

    /// The word for a node in the heartbeats of others.
    fn state(&self, member: &Member) -> &'static str {
        match (self.is_live(member), member.is_retired) {
            (true, _) => "live",
            (false, true) => "retired",
            (false, false) => "open",
        }
    }
}

impl RedisStore {
    /// Sends a heartbeat. If the reply is that all is well, this node remembers it as its knowledge of the store. A node that
    /// was silent for so long that others took it for ended does nothing until they have heard of it.
    pub async fn beat(&self, environment: Environment, life: &Life) -> Result<HeartbeatReply, StoreFault> {
        let Some(beliefs) = &self.beliefs else { return Err(no_node()) };
        let before = beliefs.at(environment).clone();
        let told = self.seals.seal_facts((environment, &beliefs.node, &life.instance), &life.told)?;
        let words = Words::default().word(&life.instance).word(life.former.as_deref().unwrap_or_default());
        let words = words.word(&life.fresh).number(micros(LAPSE)).word(&told);
        let seen = Number::new(before.seen).believed_behind(life.kept).max(life.kept);
        let words = words.number(seen.as_u64());
        let words = words.word(life.journal.as_str()).number(life.kept.as_u64());
        let words = words.word(before.generation.as_deref().unwrap_or_default());
        let words = words.word(life.installation.as_ref().map_or("", InstallationId::as_str));
        let words = words.word(life.acknowledges.map_or_else(String::new, |since| since.as_micros().to_string()));
        let words = words.word(match &life.newest {
            Some(Some(mark)) => format!("{} {}", mark.at.as_micros(), mark.node),
            Some(None) => String::new(),
            None => UNASKED.to_owned(),
        });
        let others = before.heard.iter().flat_map(|heard| {
            let others = heard.members.iter().filter(|member| member.node != beliefs.node);
            others.map(|member| (member, heard.state(member)))
        });
        let words = others.fold(words, |words, (member, state)| {
            words.word(member.node.as_str()).word(state).number(member.highest.as_u64())
        });
        let mut heard = self.heard(environment, "beat", &words).await?;
        let mut belief = beliefs.at(environment);
        if heard.is_noted() {
            belief.notes(heard.at);
        }
        if matches!(heard.verdict, HeartbeatVerdict::Gathering | HeartbeatVerdict::Lost) {
            belief.compared = None;
        }
        if heard.verdict == HeartbeatVerdict::Well {
            if life.newest.is_some() {
                belief.compared = Some(heard.run.clone());
            }
            let is_unheard = |since: &StoreTime| !heard.is_heard_by_all(&beliefs.node, *since, RAN_WITHIN);
            belief.returned = belief.returned.filter(is_unheard);
            belief.generation = Some(heard.generation.clone());
            belief.is_waiting = belief.returned.is_some() || belief.compared.is_none();
            belief.seen = heard.last.as_u64();
            belief.heard = Some(heard.clone());
            if belief.is_waiting {
                heard.verdict = HeartbeatVerdict::Meeting;
            }
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

    /// Whether the next heartbeat must tell the newest entry of the journal.
    pub fn must_compare(&self, environment: Environment) -> bool {
        self.beliefs.as_ref().is_some_and(|beliefs| beliefs.at(environment).compared.is_none())
    }

    /// Returns the same store as a process sees it that is not a node: it is answered in any state.
    pub fn without_node(&self) -> RedisStore {
        RedisStore::new(self.shards.clone()).with_seals(self.seals.clone())
    }

    /// Adds what this node knows from its own files: the highest number of its own commits, and the store that it met.
    pub fn knows(&self, environment: Environment, highest: u64, generation: Option<String>) {
        if let Some(beliefs) = &self.beliefs {
            let mut belief = beliefs.at(environment);
            belief.has(highest);
            belief.generation = generation;
        }
    }

    /// Returns the highest number of this node's own commits.
    pub fn highest(&self, environment: Environment) -> Number {
        Number::new(self.beliefs.as_ref().map_or(0, |beliefs| beliefs.at(environment).highest))
    }

    /// Returns the identity of the store that this node last met.
    pub fn generation(&self, environment: Environment) -> Option<String> {
        self.beliefs.as_ref().and_then(|beliefs| beliefs.at(environment).generation.clone())
    }

    /// Removes this node from those that others wait for. It retires if other journals have all that its own has.
    pub async fn leave(&self, environment: Environment, life: &Life, is_retired: bool) -> Result<(), StoreFault> {
        let words = Words::default().word(&life.instance).word(if is_retired { "1" } else { "" });
        self.look(environment, "leave", &words).await.map(drop)
    }

    /// Forgets a node and its journal, which will never return; nothing if the node has another journal now.
    pub async fn dismiss(&self, environment: Environment, sender: &Sender) -> Result<(), StoreFault> {
        let words = Words::default().word(sender.node.as_str()).word(sender.journal.as_str());
        self.look(environment, "dismiss", &words).await.map(drop)
    }

    /// Returns the journals in whose place their nodes have others.
    pub async fn former_journals(&self, environment: Environment) -> Result<Vec<FormerJournal>, StoreFault> {
        let key = format!("{}:g", root(environment));
        let asked = async |mut connection: MultiplexedConnection, _: &str| {
            ::redis::cmd("HGETALL").arg(&key).query_async::<Vec<(String, String)>>(&mut connection).await
        };
        let found =
            self.shards.of(environment).ask(asked).await.map_err(|unanswered| fault(unanswered, StoreFault::Away))?;
        found.iter().map(|(name, ended)| former_journal(name, ended).ok_or_else(unreadable)).collect()
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

    /// Returns a value that changes with every new connection.
    pub fn connections(&self) -> watch::Receiver<u64> {
        self.shards.connections()
    }

    /// Returns a registered node that sealed its facts with another secret under the id of a key that this gate has, and that id;
    /// `None` where the facts of any node open.
    pub async fn sealed_otherwise(&self, environment: Environment) -> Result<Option<(NodeId, String)>, StoreFault> {
        let (mut heard, mut other) = (self.heard_sealed(environment, "roll", &Words::default()).await?, None);
        for member in heard.members.drain(..).filter(|member| !member.is_retired) {
            let id = self.seals.id_of_facts(&member.told);
            if self.seals.open_facts((environment, &member.node, &member.instance), member.told).is_some() {
                return Ok(None);
            }
            other = other.or(id.map(|id| (member.node, id)));
        }
        Ok(other)
    }

    async fn heard(
        &self,
        environment: Environment,
        operation: &str,
        words: &Words,
    ) -> Result<HeartbeatReply, StoreFault> {
        let mut heard = self.heard_sealed(environment, operation, words).await?;
        for member in &mut heard.members {
            let told = std::mem::take(&mut member.told);
            let of = (environment, &member.node, member.instance.as_str());
            member.told = self.seals.open_facts(of, told).unwrap_or_default();
        }
        Ok(heard)
    }

    /// Returns a reply in which the facts of the nodes are still sealed.
    async fn heard_sealed(
        &self,
        environment: Environment,
        operation: &str,
        words: &Words,
    ) -> Result<HeartbeatReply, StoreFault> {
        let (asked, shift) = (SystemClock.elapsed(), self.pace(environment).shift());
        let told = self.ask(environment, operation, words).await;
        let mut told = ReplyReader::of(told.map_err(|unanswered| fault(unanswered, StoreFault::Away))?);
        let within = (asked, SystemClock.elapsed());
        let verdict = match told.next()?.as_slice() {
            b"well" => HeartbeatVerdict::Well,
            b"meeting" => HeartbeatVerdict::Meeting,
            b"differs" => HeartbeatVerdict::Differs,
            b"uncompared" => HeartbeatVerdict::Uncompared,
            b"gathering" => HeartbeatVerdict::Gathering,
            b"lost" => HeartbeatVerdict::Lost,
            b"taken" => HeartbeatVerdict::Taken,
            b"foreign" => HeartbeatVerdict::Foreign,
            b"cut" => HeartbeatVerdict::Cut,
            b"uncreated" => HeartbeatVerdict::Uncreated,
            _ => return Err(unreadable()),
        };
        let (at, clock) = (self.hear(environment, told.time()?), told.time()?);
        let (correction, epoch) = (told.time()?.as_micros(), told.number()?.as_u64());
        let clock = StoreTime::of_micros(clock.as_micros().saturating_sub(shift));
        let stored = told.time()?;
        self.pace(environment).compare(ClockReading { clock, at, stored, correction, epoch, within });
        let promoted = told.text()?.parse().ok().map(StoreTime::of_micros);
        if verdict == HeartbeatVerdict::Well {
            self.shards.fence().meets(environment, within.1, promoted.map(|promoted| at.since(promoted)));
        }
        let (generation, run) = (told.text()?, told.text()?);
        let (last, above) = (told.number()?, told.number()?);
        let lost = told.text()?;
        let lost = lost.parse().ok().map(StoreTime::of_micros);
        let mut members = Vec::new();
        while !told.is_at_end() {
            let (node, instance, beat) = (told.node()?, told.text()?, told.time()?);
            let (highest, kept, own) = (told.number()?, told.number()?, told.number()?);
            let (run, acknowledges) = (told.text()?, told.text()?);
            let (is_retired, told) = (!told.text()?.is_empty(), told.text()?);
            let acknowledges = acknowledges.parse().ok().map(StoreTime::of_micros);
            members.push(Member { node, instance, beat, highest, kept, own, run, acknowledges, is_retired, told });
        }
        members.sort_by(|one, other| one.node.cmp(&other.node));
        Ok(HeartbeatReply { verdict, at, clock, generation, run, last, above, lost, members })
    }
}

fn former_journal(name: &str, ended: &str) -> Option<FormerJournal> {
    let (node, journal) = name.split_once(' ')?;
    let (up_to, state) = ended.split_once(' ')?;
    let sender = Sender { node: NodeId::parse(node)?, journal: JournalId::parse(journal)? };
    Some(FormerJournal { sender, up_to: Number::new(up_to.parse().ok()?), is_retired: state == "retired" })
}

fn no_node() -> StoreFault {
    StoreFault::Broken("a call of a node came from a process that is not registered as one".to_owned())
}

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
