//! Writes into a lost Redis what a replica holds, while no node does anything else with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::layout;
use super::super::replica::Replica;
use super::membership::LAPSE;
use super::reader::ReplyReader;
use super::script_args::Words;
use super::{RedisStore, StoreFault, fault, root, wire_entry};
use crate::adapters::clock::SystemClock;
use crate::base::ids::Environment;
use crate::ledger::{Commit, NodeId, Number, Outstanding, StoreTime};
use crate::ports::Clock as _;
use crate::telemetry::{JobProgress, PROGRESS_INTERVAL};

/// How many items one call writes.
const BATCH: usize = 200;
/// How many keys one scan reads at a time.
const SCANNED: usize = 1_000;

/// The right to rebuild a lost store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebuildRight {
    /// The highest number that any node knows of.
    pub above: Number,
    /// Whether the store contradicted a journal.
    pub is_distrusted: bool,
    /// The commits of each node that another node was told of.
    pub heard_of: BTreeMap<NodeId, HeardCommits>,
}

/// The commits of a node that others were told of before the store was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeardCommits {
    pub highest: Number,
    /// Whether all were told that it retired.
    pub is_retired: bool,
}

/// What becomes of a rebuilt store.
#[derive(Clone, Debug)]
pub struct RebuiltStore<'r> {
    /// The process that rebuilds.
    pub instance: &'r str,
    /// The generation, if the store has none.
    pub fresh: &'r str,
    /// Entries that other journals lack.
    pub tail: Vec<Outstanding>,
    /// The highest number of each node's own commits.
    pub committed: BTreeMap<NodeId, Number>,
    /// The commit behind all others.
    pub commit: Commit,
}

impl RedisStore {
    /// Asks for the right to rebuild; `None` where another process is at it, or the store is not lost.
    pub async fn may_rebuild(
        &self,
        environment: Environment,
        instance: &str,
    ) -> Result<Option<RebuildRight>, StoreFault> {
        let lapse = u64::try_from(LAPSE.as_micros()).unwrap_or(u64::MAX);
        let words = Words::default().word(instance).number(lapse);
        let mut told = ReplyReader::of(self.look(environment, "rebuild", &words).await?);
        if told.next()? != b"go" {
            return Ok(None);
        }
        let (above, is_distrusted) = (told.number()?, !told.text()?.is_empty());
        let mut heard_of = BTreeMap::new();
        while !told.is_at_end() {
            let node = told.node()?;
            let (highest, is_retired) = (told.number()?, !told.text()?.is_empty());
            heard_of.insert(node, HeardCommits { highest, is_retired });
        }
        Ok(Some(RebuildRight { above, is_distrusted, heard_of }))
    }

    /// Writes all that the replica holds in the place of what the store still has. [`RedisStore::complete_rebuild`] ends
    /// it.
    pub async fn refill(
        &self,
        environment: Environment,
        replica: &Arc<Replica>,
        rebuilt: &RebuiltStore<'_>,
    ) -> Result<(), StoreFault> {
        let RebuiltStore { instance, tail, .. } = rebuilt;
        tracing::info!(%environment, "the Redis is being rebuilt from this journal");
        self.clear(environment, instance).await?;
        let mut progress = JobProgress::every(PROGRESS_INTERVAL);
        let mut is_written = |items: usize| {
            if let Some(items) = progress.add(items) {
                tracing::info!(%environment, items, "the Redis is being rebuilt from this journal");
            }
        };
        for part in layout::contents(environment) {
            let read = |from: Vec<u8>| {
                let (replica, part) = (Arc::clone(replica), part.clone());
                tokio::task::spawn_blocking(move || replica.contents(&from, &part, BATCH))
            };
            let mut reading = Some(read(part.clone()));
            while let Some(read_items) = reading {
                let (items, next) = read_items.await.map_err(|error| StoreFault::Away(error.to_string()))??;
                // The next ones are read while the Redis takes these.
                reading = next.map(&read);
                let count = items.len();
                let words = items.into_iter().fold(Words::default().word(instance), Words::item);
                self.goes_on(environment, "repair", &words).await?;
                is_written(count);
            }
        }
        for entries in tail.chunks(BATCH) {
            let items = entries.iter().cloned().map(layout::Item::Outstanding);
            let words = items.fold(Words::default().word(instance), Words::item);
            self.goes_on(environment, "repair", &words).await?;
            is_written(entries.len());
        }
        Ok(())
    }

    /// Keeps the right to rebuild.
    pub async fn goes_on_rebuilding(&self, environment: Environment, instance: &str) -> Result<(), StoreFault> {
        self.goes_on(environment, "repair", &Words::default().word(instance)).await
    }

    /// Makes a refilled store usable, with the commit behind all others.
    pub async fn complete_rebuild(
        &self,
        environment: Environment,
        replica: &Replica,
        rebuilt: RebuiltStore<'_>,
    ) -> Result<(), StoreFault> {
        let RebuiltStore { instance, fresh, committed, commit, .. } = rebuilt;
        let last = replica.last(environment)?;
        // A replica without any commit has no time.
        let time = replica.time()?.max(StoreTime::default());
        let words = Words::default().word(instance).word(fresh).time(time).number(last.as_u64());
        let count = u64::try_from(committed.len()).unwrap_or(0);
        let words = committed
            .iter()
            .fold(words.number(count), |words, (node, number)| words.word(node.as_str()).number(number.as_u64()));
        let entry = wire_entry::for_commit(&commit.entry, &commit.steps);
        let words = words.limit(None).commit(Some(&commit.node), &entry, &commit.steps)?;
        let told = self.ask(environment, "rebuilt", &words).await;
        let told = told.map_err(|unanswered| fault(unanswered, StoreFault::InDoubt))?;
        match ReplyReader::of(told).next()?.as_slice() {
            b"done" => Ok(()),
            b"no" => Err(another_rebuilds()),
            _ => Err(StoreFault::Broken("the commit behind the rebuild met a conflict".to_owned())),
        }
    }

    /// Lends entries of this node's journal, each of which follows the one before it, to one that ends at a number, while
    /// the store is lost. Without any, the other one hears that there are none for it.
    pub async fn lend(
        &self,
        environment: Environment,
        since: StoreTime,
        mut behind: Number,
        entries: &[Outstanding],
    ) -> Result<(), StoreFault> {
        // Even none are told.
        let parts: Vec<&[Outstanding]> =
            if entries.is_empty() { vec![entries] } else { entries.chunks(BATCH).collect() };
        for (nth, part) in parts.into_iter().enumerate() {
            let mut words = Words::default().time(since).word(if nth == 0 { "1" } else { "" });
            for entry in part {
                words = words.number(behind.as_u64()).number(entry.number.as_u64()).time(entry.at);
                words = words.word(entry.node.as_str()).word(wire_entry::whole(&entry.entry));
                behind = entry.number;
            }
            self.look(environment, "lend", &words).await?;
        }
        Ok(())
    }

    /// Returns the next lent entries behind a number; `None` where there are none for a journal that ends there.
    pub async fn borrow(
        &self,
        environment: Environment,
        since: StoreTime,
        behind: Number,
    ) -> Result<Option<Vec<Outstanding>>, StoreFault> {
        let most = u64::try_from(BATCH).unwrap_or(u64::MAX);
        let words = Words::default().time(since).number(behind.as_u64()).number(most);
        let mut told = ReplyReader::of(self.look(environment, "borrow", &words).await?);
        if told.next()? == b"none" {
            return Ok(None);
        }
        let mut entries = Vec::new();
        while !told.is_at_end() {
            let (number, at, node) = (told.number()?, told.time()?, told.node()?);
            entries.push(Outstanding { environment, number, at, node, entry: told.entry()? });
        }
        Ok(Some(entries))
    }

    /// Does a part of a rebuild, as long as this process has the right to.
    pub(super) async fn goes_on(
        &self,
        environment: Environment,
        operation: &str,
        words: &Words,
    ) -> Result<(), StoreFault> {
        let told = self.look(environment, operation, words).await?;
        if ReplyReader::of(told).next()? == b"go" { Ok(()) } else { Err(another_rebuilds()) }
    }

    /// Tells all nodes that the store contradicts a journal.
    pub async fn distrust(&self, environment: Environment) -> Result<(), StoreFault> {
        self.ask_to_rebuild(environment, "contradicts", "").await.map(drop)
    }

    /// Returns why the store cannot be read, where this node knew it: then it can be rebuilt from journals.
    pub fn damage(&self, environment: Environment) -> Option<String> {
        let belief = self.beliefs.as_ref()?.at(environment);
        belief.damage.clone().filter(|_| belief.generation.is_some()).map(|found| found.why)
    }

    /// Removes what cannot be read, and tells all nodes that the store is rebuilt. Returns whether it does: not where the
    /// store is another one, nor where another node had it mended meanwhile, nor where it was mended often a moment ago.
    pub async fn mend(&self, environment: Environment) -> Result<bool, StoreFault> {
        let Some(beliefs) = &self.beliefs else { return Ok(false) };
        let found = {
            let mut belief = beliefs.at(environment);
            let Some(found) = belief.damage.clone() else { return Ok(false) };
            if !belief.mend_room.take(SystemClock.elapsed()) {
                return Ok(false);
            }
            found
        };
        let is_mended = self.ask_to_rebuild(environment, "damaged", &found.behind).await?;
        let mut belief = beliefs.at(environment);
        (belief.damage, belief.mends) = (None, belief.mends.saturating_add(1));
        Ok(is_mended)
    }

    /// Tells all nodes that the store lacks what a journal has.
    pub async fn lose(&self, environment: Environment) -> Result<(), StoreFault> {
        self.ask_to_rebuild(environment, "lacks", "").await.map(drop)
    }

    async fn ask_to_rebuild(&self, environment: Environment, why: &str, behind: &str) -> Result<bool, StoreFault> {
        let known = self.beliefs.as_ref().and_then(|beliefs| beliefs.at(environment).generation.clone());
        let words = Words::default().word(why).word(known.unwrap_or_default()).word(behind);
        let told = self.look(environment, "distrust", &words).await?;
        Ok(ReplyReader::of(told).next()? == b"go")
    }

    /// Removes what is left of the content.
    async fn clear(&self, environment: Environment, instance: &str) -> Result<(), StoreFault> {
        let root = root(environment);
        let mut cursor = 0_u64;
        loop {
            // The right to rebuild must not lapse meanwhile.
            self.goes_on_rebuilding(environment, instance).await?;
            let mut command = ::redis::cmd("SCAN");
            command.arg(cursor).arg("MATCH").arg(format!("{}:*", root.replace('[', "\\["))).arg("COUNT").arg(SCANNED);
            let told = self
                .shards
                .of(environment)
                .ask(async |mut connection, _| command.query_async(&mut connection).await)
                .await;
            let (next, names): (u64, Vec<Vec<u8>>) = told.map_err(|unanswered| fault(unanswered, StoreFault::Away))?;
            let is_content = |name: &[u8]| {
                let rest = name.strip_prefix(root.as_bytes()).unwrap_or_default();
                [b":r:", b":i:", b":s:", b":h:", b":d:"].iter().any(|part| rest.starts_with(*part))
                    || [b":x", b":l", b":q"].iter().any(|part| rest == *part)
            };
            let names: Vec<Vec<u8>> = names.into_iter().filter(|name| is_content(name)).collect();
            if !names.is_empty() {
                let words = names.iter().fold(Words::default().word(instance), Words::word);
                self.goes_on(environment, "wipe", &words).await?;
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }
}

pub(super) fn another_rebuilds() -> StoreFault {
    StoreFault::Away("another gate rebuilds the store".to_owned())
}
