//! Shows a snapshot of the store to gates whose journals lack what was before: in parts, through the Redis. While a store is
//! being rebuilt, nobody does anything else with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::time::Duration;

use super::membership::LAPSE;
use super::reader::ReplyReader;
use super::rebuild::another_rebuilds;
use super::script_args::Words;
use super::{RedisStore, StoreFault};
use crate::base::ids::Environment;
use crate::ledger::{NodeId, Number, StoreTime};

/// The bytes of a part.
const PART: u64 = 1 << 20;
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long a gate may take to check the whole snapshot, before it says that it has the last part.
const CHECKS: Duration = Duration::from_secs(30);

/// A snapshot that is shown.
#[derive(Debug)]
pub struct ShownSnapshot<'s> {
    /// The process that rebuilds, or whose journal has what others lack.
    pub instance: &'s str,
    /// The node whose replica it is of, and how far that reaches.
    pub node: &'s NodeId,
    pub up_to: Number,
    pub file: File,
}

/// A part of a snapshot that this gate may take. The last one is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenPart {
    /// The process that shows it.
    pub by: String,
    pub nth: u64,
    pub node: NodeId,
    pub up_to: Number,
    pub bytes: Vec<u8>,
}

impl RedisStore {
    /// Shows a snapshot to gates. Each part waits until they have taken it; a gate that does not go on is not awaited.
    /// Returns those that have all of it.
    pub async fn show_snapshot(
        &self,
        environment: Environment,
        shown: ShownSnapshot<'_>,
        to: BTreeSet<NodeId>,
    ) -> Result<BTreeSet<NodeId>, StoreFault> {
        let ShownSnapshot { instance, node, up_to, mut file } = shown;
        let (mut takers, mut nth) = (to, 0_u64);
        while !takers.is_empty() {
            nth = nth.saturating_add(1);
            let mut part = Vec::new();
            let read = file.by_ref().take(PART).read_to_end(&mut part);
            read.map_err(|error| StoreFault::Away(format!("the snapshot cannot be read: {error}")))?;
            let names = takers.iter().map(NodeId::as_str).collect::<Vec<_>>().join(" ");
            let words = Words::default().word(instance).number(nth).word(node.as_str()).number(up_to.as_u64());
            self.goes_on(environment, "show_part", &words.word(names).word(&part)).await?;
            let patience = if part.is_empty() { CHECKS } else { LAPSE };
            takers = self.those_who_took(environment, instance, nth, takers, patience).await?;
            if part.is_empty() {
                break;
            }
        }
        Ok(takers)
    }

    /// Waits until gates have taken a part, and returns those that did.
    async fn those_who_took(
        &self,
        environment: Environment,
        instance: &str,
        nth: u64,
        mut takers: BTreeSet<NodeId>,
        patience: Duration,
    ) -> Result<BTreeSet<NodeId>, StoreFault> {
        let mut waited = Duration::ZERO;
        loop {
            let taken = self.taken_parts(environment, instance).await?;
            let has = |node: &NodeId| taken.get(node).is_some_and(|count| *count >= nth);
            if takers.iter().all(has) || waited >= patience {
                takers.retain(has);
                return Ok(takers);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
            waited = waited.saturating_add(POLL_INTERVAL);
        }
    }

    /// Returns how many parts each gate has taken.
    async fn taken_parts(&self, environment: Environment, instance: &str) -> Result<BTreeMap<NodeId, u64>, StoreFault> {
        let words = Words::default().word(instance);
        let mut told = ReplyReader::of(self.look(environment, "taken_parts", &words).await?);
        if told.next()? != b"go" {
            return Err(another_rebuilds());
        }
        let mut taken = BTreeMap::new();
        while !told.is_at_end() {
            taken.insert(told.node()?, told.number()?.as_u64());
        }
        Ok(taken)
    }

    /// Returns the next part of the snapshot of which this gate has so many parts of that process, if it is shown to it:
    /// since a loss of the store, or of a whole store.
    pub async fn take_part(
        &self,
        environment: Environment,
        since: Option<StoreTime>,
        (by, count): (&str, u64),
    ) -> Result<Option<TakenPart>, StoreFault> {
        let words = match since {
            Some(since) => Words::default().time(since),
            None => Words::default().word("-"),
        };
        let words = words.word(by).number(count);
        let mut told = ReplyReader::of(self.look(environment, "take_part", &words).await?);
        if told.is_at_end() {
            return Ok(None);
        }
        let (by, nth) = (told.text()?, told.number()?.as_u64());
        Ok(Some(TakenPart { by, nth, node: told.node()?, up_to: told.number()?, bytes: told.next()? }))
    }
}
