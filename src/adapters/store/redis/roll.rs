//! The nodes that share a store: who is there, and whether all of them find in it what they know.
//!
//! A node beats once a second. Its first beat to another run of the Redis than the one that all have met is a meeting:
//! until every node that lived has met it too, or was waited for long enough, nothing is done in that environment, for
//! what one of them was promised may be gone. If it is, everything stops at once, for all, until money is closed.

use std::time::Duration;

use tokio::sync::watch;

use super::reader::{Reader, unreadable};
use super::words::Words;
use super::{RedisStore, StoreFault, fault};
use crate::base::ids::Environment;
use crate::commit::{NodeId, Number, Outstanding, StoreTime};

/// Whose heart has not beaten for so long is gone.
pub const LAPSE: Duration = Duration::from_secs(5);

/// What a node says of itself when its heart beats.
#[derive(Clone, Debug)]
pub struct Life {
    /// Of this process alone.
    pub instance: String,
    /// An earlier one of this node that has certainly ended.
    pub former: Option<String>,
    /// A word that a store may be begun with.
    pub fresh: String,
    /// JSON, for people.
    pub told: String,
}

/// What the store said of itself and of the nodes.
#[derive(Clone, Debug)]
pub struct Heard {
    pub verdict: Verdict,
    pub at: StoreTime,
    pub generation: String,
    /// The one that all nodes have met.
    pub run: String,
    pub last: Number,
    pub members: Vec<Member>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The store is as this node knows it.
    Well,
    /// Not every node has met this Redis yet.
    Meeting,
    /// The store has forgotten something, and not every node has said yet what it knows.
    Gathering,
    /// The same, and all have.
    Lost,
    /// Another process bears the name of this node.
    Taken,
}

/// A node on the roll.
#[derive(Clone, Debug)]
pub struct Member {
    pub node: NodeId,
    pub instance: String,
    /// When it was last there; long ago for one that ended in order.
    pub beat: StoreTime,
    /// The highest number that it committed or took over.
    pub highest: Number,
    pub run: String,
    pub told: String,
}

impl Heard {
    pub fn is_live(&self, member: &Member) -> bool {
        self.at.since(member.beat) < LAPSE
    }
}

impl RedisStore {
    /// This node is there. What it hears when all is well is what it knows from then on.
    pub async fn beat(&self, environment: Environment, life: &Life) -> Result<Heard, StoreFault> {
        let Some(beliefs) = &self.beliefs else { return Err(no_node()) };
        let before = beliefs.at(environment).clone();
        let words = Words::default().word(&life.instance).word(life.former.as_deref().unwrap_or_default());
        let words = words.word(&life.fresh).number(micros(LAPSE)).word(&life.told).number(before.seen);
        let live = before.heard.iter().flat_map(|heard| {
            let others = heard.members.iter().filter(|member| member.node != beliefs.node);
            others.filter(|member| heard.is_live(member))
        });
        let words = live.fold(words, |words, member| words.word(member.node.as_str()));
        let heard = self.heard(environment, "beat", &words).await?;
        if heard.verdict == Verdict::Well {
            let mut belief = beliefs.at(environment);
            belief.generation = Some(heard.generation.clone());
            belief.seen = heard.last.as_u64();
            belief.heard = Some(heard.clone());
        }
        Ok(heard)
    }

    /// What is known of the nodes, without being one of them.
    pub async fn roll(&self, environment: Environment) -> Result<Heard, StoreFault> {
        self.heard(environment, "roll", &Words::default()).await
    }

    /// All of whom this node ever heard in this environment, with what the store knew them to have.
    pub fn remembered(&self, environment: Environment) -> Vec<Member> {
        let heard = self.beliefs.as_ref().and_then(|beliefs| beliefs.at(environment).heard.clone());
        heard.map_or_else(Vec::new, |heard| heard.members)
    }

    /// Whether this node has met this very store, however much of it is gone.
    pub fn has_met(&self, environment: Environment, heard: &Heard) -> bool {
        let known = self.beliefs.as_ref().and_then(|beliefs| beliefs.at(environment).generation.clone());
        known.is_none_or(|known| known == heard.generation)
    }

    /// What this node knows from its own files.
    pub fn knows(&self, environment: Environment, highest: u64) {
        if let Some(beliefs) = &self.beliefs {
            beliefs.at(environment).has(highest);
        }
    }

    /// Nobody needs to wait for this node any more.
    pub async fn leave(&self, environment: Environment, life: &Life) -> Result<(), StoreFault> {
        self.look(environment, "leave", &Words::default().word(&life.instance)).await.map(drop)
    }

    /// Money is closed for what the store forgot, so that all else may go on; this node takes it as it is now.
    pub async fn closed(&self, environment: Environment, life: &Life) -> Result<(), StoreFault> {
        let Some(beliefs) = &self.beliefs else { return Err(no_node()) };
        let told = self.look(environment, "closed", &Words::default().word(&life.fresh)).await?;
        let generation = Reader::of(told).text()?;
        beliefs.at(environment).generation = Some(generation);
        Ok(())
    }

    /// Returns when a call found the store to be another than it is known to be.
    pub async fn doubted(&self) {
        self.doubted.notified().await;
    }

    /// Changes with every new connection.
    pub fn connections(&self) -> watch::Receiver<u64> {
        self.redis.connections()
    }

    pub(super) async fn taken_over(
        &self,
        environment: Environment,
        node: &NodeId,
        count: usize,
    ) -> Result<Vec<Outstanding>, StoreFault> {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let words = Words::default().word(node.as_str()).number(micros(LAPSE)).number(u64::from(count));
        let mut told = Reader::of(self.look(environment, "take_over", &words).await?);
        let mut entries = Vec::new();
        while !told.is_at_end() {
            let (number, at) = (told.number()?, told.time()?);
            let (node, entry) = (told.node()?, told.next()?.into());
            entries.push(Outstanding { environment, number, at, node, entry });
        }
        if let (Some(beliefs), Some(last)) = (&self.beliefs, entries.iter().map(|entry| entry.number).max()) {
            beliefs.at(environment).has(last.as_u64());
        }
        Ok(entries)
    }

    async fn heard(&self, environment: Environment, operation: &str, words: &Words) -> Result<Heard, StoreFault> {
        let told = self.ask(environment, operation, words).await;
        let mut told = Reader::of(told.map_err(|unanswered| fault(unanswered, StoreFault::Away))?);
        let verdict = match told.next()?.as_slice() {
            b"well" => Verdict::Well,
            b"meeting" => Verdict::Meeting,
            b"gathering" => Verdict::Gathering,
            b"lost" => Verdict::Lost,
            b"taken" => Verdict::Taken,
            _ => return Err(unreadable()),
        };
        let (at, generation, run, last) = (self.hear(told.time()?), told.text()?, told.text()?, told.number()?);
        let mut members = Vec::new();
        while !told.is_at_end() {
            let (node, instance, beat) = (told.node()?, told.text()?, told.time()?);
            let (highest, run, told) = (told.number()?, told.text()?, told.text()?);
            members.push(Member { node, instance, beat, highest, run, told });
        }
        members.sort_by(|one, other| one.node.cmp(&other.node));
        Ok(Heard { verdict, at, generation, run, last, members })
    }
}

fn no_node() -> StoreFault {
    StoreFault::Broken("it was asked as by a node, by who is none".to_owned())
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
