//! The last reports of gates about themselves: whether one may still hold a proof that a call was executed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::Node;
use super::retry::Retry;
use crate::base::ids::Environment;
use crate::ledger::{Content, Index, NodeId, Number, Record, Sender, StoreFault, StoreTime};
use crate::stations::claim::{
    self, Forgotten, Freeze, GoneWord, HeardGate, Owner, SenderNews, gone_key, said_gone_key,
};

/// A gate that was heard within this time is not gone.
const HEARD_LATELY: Duration = Duration::from_secs(15);

/// A gate that met its store within this time bears its name alone.
const MET_LATELY: Duration = Duration::from_secs(3);

/// The most gates in a list of those that are gone.
const MAX_GONE: usize = 1_000;

/// The other gates, as this gate last heard them.
#[derive(Debug, Default)]
pub struct OtherGates {
    heard: Mutex<BTreeMap<Environment, Vec<HeardGate>>>,
    journals: Mutex<BTreeMap<Environment, Vec<OtherJournal>>>,
    /// When the store last said that all is well, by this node's monotonic clock.
    well: Mutex<BTreeMap<Environment, Duration>>,
}

/// The journal of another gate that did not lose or hand it over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherJournal {
    /// The number up to which it knows nothing.
    pub begins: Number,
    /// The number up to which it has every entry from there on.
    pub kept: Number,
}

impl OtherGates {
    pub fn hear(&self, environment: Environment, gates: Vec<HeardGate>, journals: Vec<OtherJournal>) {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).insert(environment, gates);
        self.journals.lock().unwrap_or_else(PoisonError::into_inner).insert(environment, journals);
    }

    pub fn all_is_well(&self, environment: Environment, at: Duration) {
        self.well.lock().unwrap_or_else(PoisonError::into_inner).insert(environment, at);
    }

    /// Whether this gate met its store lately. Another may bear the name of one that stood still.
    pub(super) fn met_lately(&self, environment: Environment, now: Duration) -> bool {
        let well = self.well.lock().unwrap_or_else(PoisonError::into_inner);
        well.get(&environment).is_some_and(|at| now.saturating_sub(*at) < MET_LATELY)
    }

    /// Whether a journal of another gate has these numbers; `None` where no gates share the store.
    pub(super) fn have(&self, environment: Environment, first: u64, last: u64) -> Option<bool> {
        let journals = self.journals.lock().unwrap_or_else(PoisonError::into_inner);
        let has = |journal: &OtherJournal| journal.begins.as_u64() < first && last <= journal.kept.as_u64();
        journals.get(&environment).map(|journals| journals.iter().any(has))
    }

    /// Whether gates share the store.
    pub(super) fn are_known(&self, environment: Environment) -> bool {
        self.journals.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&environment)
    }

    fn heard(&self, environment: Environment) -> Vec<HeardGate> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.get(&environment).cloned().unwrap_or_default()
    }
}

/// The result of a person's word that a gate is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoneSaid {
    /// A second person must confirm it.
    Once,
    Gone,
}

/// The reasons why a gate is not declared gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotGone {
    /// The gate was heard at this time.
    Heard(StoreTime),
    /// The same person said so before.
    SaidAlready,
    /// The gate is gone already.
    Already,
    Store(StoreFault),
}

impl From<StoreFault> for NotGone {
    fn from(fault: StoreFault) -> NotGone {
        NotGone::Store(fault)
    }
}

impl Node {
    /// The gate and the journal that this node sends with.
    pub fn sender(&self) -> Sender {
        Sender { node: self.id.clone(), journal: self.journal.clone() }
    }

    /// The report of this gate about itself, now.
    pub fn heard_itself(&self, environment: Environment) -> HeardGate {
        // Only the store's own time counts here: this node's clock may be ahead.
        let at = self.heard.now(self.clock.elapsed()).unwrap_or_default();
        let open_from = self.open.earliest(environment);
        HeardGate { sender: self.sender(), at, open_from, has_left: false }
    }

    /// Returns every gate that is known, this one as it is now.
    pub async fn gates(&self, environment: Environment) -> Result<Vec<HeardGate>, StoreFault> {
        // The time that this gate tells of itself is then the store's.
        self.time().await?;
        let mine = self.heard_itself(environment);
        let mut gates = self.others.heard(environment);
        gates.retain(|gate| gate.sender.node != mine.sender.node);
        gates.push(mine);
        Ok(gates)
    }

    /// Returns the gates that two people declared gone.
    pub async fn gone(&self, environment: Environment) -> Result<Vec<Sender>, StoreFault> {
        let gone = self.store.due(environment, Index::Gone, None, MAX_GONE).await?;
        Ok(gone.iter().filter_map(|(_, name)| Sender::parse(name)).collect())
    }

    /// Returns the gates among the registered ones that were not heard lately, and that two people declared gone.
    pub(super) async fn unheard_and_gone(&self, environment: Environment) -> Result<Vec<Sender>, StoreFault> {
        let Some(now) = self.heard.now(self.clock.elapsed()) else { return Ok(Vec::new()) };
        let mut gone = Vec::new();
        for gate in self.others.heard(environment) {
            let is_unheard = gate.sender.node != self.id && now.since(gate.at) >= HEARD_LATELY;
            if is_unheard && self.store.read(&gone_key(environment, &gate.sender)).await?.0.is_some() {
                gone.push(gate.sender);
            }
        }
        Ok(gone)
    }

    /// Returns the gates for whose journals the store waits, each with the number behind which it does not know what the gate
    /// did.
    async fn awaited(&self, environment: Environment) -> Result<BTreeMap<NodeId, u64>, StoreFault> {
        let (record, _) = self.store.read(&Freeze::Restored.key(environment)).await?;
        let Some(Content::Whole(bytes)) = record.map(|record| record.content) else { return Ok(BTreeMap::new()) };
        Ok(Forgotten::read(&bytes).nodes)
    }

    /// Returns what is known of the gate that sent a call.
    pub async fn sender_news(&self, environment: Environment, sender: &Sender) -> Result<SenderNews, StoreFault> {
        let (gone, _) = self.store.read(&gone_key(environment, sender)).await?;
        Ok(SenderNews { gates: self.gates(environment).await?, is_gone: gone.is_some() })
    }

    /// Whether a gate was heard lately, with this journal.
    pub(super) async fn is_heard(&self, environment: Environment, sender: &Sender) -> Result<bool, StoreFault> {
        Ok(self.heard_lately(environment, sender).await?.is_some())
    }

    async fn heard_lately(&self, environment: Environment, sender: &Sender) -> Result<Option<StoreTime>, StoreFault> {
        let now = self.time().await?;
        let is_here = |gate: &&HeardGate| gate.sender == *sender && now.since(gate.at) < HEARD_LATELY;
        Ok(self.gates(environment).await?.iter().find(is_here).map(|gate| gate.at))
    }

    /// Records a person's word that a gate and its journal are gone. A second person's word completes it.
    pub async fn say_gone(
        &self,
        environment: Environment,
        sender: &Sender,
        person: &Owner,
        reason: &str,
    ) -> Result<GoneSaid, NotGone> {
        self.takes_acts(environment)?;
        let mut retry = Retry::default();
        loop {
            if let Some(at) = self.heard_lately(environment, sender).await? {
                return Err(NotGone::Heard(at));
            }
            let (gone, _) = self.store.read(&gone_key(environment, sender)).await?;
            if gone.is_some() {
                return Err(NotGone::Already);
            }
            let (first, _) = self.store.read(&said_gone_key(environment, sender)).await?;
            let first = first.map(|record| (record.version, word(&record)));
            if let Some((_, word)) = &first
                && word.said_by.iter().any(|who| person.is_named_by(who))
            {
                return Err(NotGone::SaidAlready);
            }
            let first = first.as_ref().map(|(version, word)| (*version, word));
            let unknown_behind = self.awaited(environment).await?.get(&sender.node).copied();
            let commit = claim::say_gone(environment, sender, (person, reason), first, unknown_behind, &self.id);
            if self.commit_act(person, commit).await?.is_some() {
                return Ok(if first.is_some() { GoneSaid::Gone } else { GoneSaid::Once });
            }
            retry.conflict().await?;
        }
    }

    /// Returns whether two people declared this very gate gone.
    pub async fn is_gone(&self, environment: Environment) -> Result<bool, StoreFault> {
        Ok(self.store.read(&gone_key(environment, &self.sender())).await?.0.is_some())
    }
}

fn word(record: &Record) -> GoneWord {
    match &record.content {
        Content::Whole(bytes) => GoneWord::read(bytes),
        Content::Spent => GoneWord::default(),
    }
}
