//! Imports an export into an empty Redis. Until the import is complete, nobody can use the store.

use std::collections::BTreeMap;
use std::io::BufRead;

use tokio::runtime::Handle;

use super::super::embedded::{TransferError, take_in};
use super::super::layout::{FOREVER, Item, WindowSlot};
use super::super::sealed::Seals;
use super::reader::ReplyReader;
use super::script_args::Words;
use super::{RedisStore, StoreFault, fault, wire_entry};
use crate::adapters::random::nonce;
use crate::base::ids::Environment;
use crate::ledger::{Content, InstallationId, NodeId, Number, StoreTime};
use crate::stations::claim::{self, Freeze};

/// How many items one call writes.
const BATCH: usize = 200;

/// The import into one environment.
#[derive(Debug, Default)]
struct TransferPart {
    last: Number,
    /// The commit that closed the exported store, if it was closed.
    closed: Option<Number>,
    words: Words,
    items: usize,
    has_begun: bool,
    /// The installation that the exported store was created for.
    created: Option<InstallationId>,
}

/// Imports an export, and closes the store for money; returns how many lines.
pub fn import(
    store: &RedisStore,
    runtime: &Handle,
    lines: &mut dyn BufRead,
    (node, seals): (&NodeId, &Seals),
    told: &mut dyn FnMut(u64),
) -> Result<u64, TransferError> {
    let mut parts: BTreeMap<Environment, TransferPart> =
        Environment::ALL.map(|one| (one, TransferPart::default())).into();
    for (environment, part) in &mut parts {
        runtime.block_on(part.send(store, *environment))?;
    }
    let mut time = StoreTime::default();
    let count = take_in(lines, told, &mut |item| {
        let environment = match &item {
            Item::Format(_) | Item::Begin(..) | Item::SealedFrom(..) | Item::LeftOut(..) | Item::Derived => {
                return Ok(());
            }
            Item::Time(latest) => {
                time = *latest;
                return Ok(());
            }
            Item::Record(key, _) => key.environment,
            Item::Outstanding(entry) => entry.environment,
            Item::Kept(environment, ..) => *environment,
            Item::Created(environment, _)
            | Item::Last(environment, _)
            | Item::Committed(environment, ..)
            | Item::Former(environment, _)
            | Item::Member { environment, .. }
            | Item::Slot { environment, .. }
            | Item::Holder { environment, .. } => *environment,
        };
        let Some(part) = parts.get_mut(&environment) else { return Ok(()) };
        part.add(item);
        if part.items < BATCH { Ok(()) } else { runtime.block_on(part.send(store, environment)) }
    })?;
    for (environment, part) in &mut parts {
        runtime.block_on(part.send(store, *environment))?;
        runtime.block_on(close(store, *environment, part, time, (node, seals)))?;
    }
    Ok(count)
}

impl TransferPart {
    fn add(&mut self, item: Item) {
        self.items = self.items.saturating_add(1);
        match &item {
            Item::Last(_, number) => self.last = *number,
            Item::Created(_, id) => self.created = Some(id.clone()),
            Item::Record(key, stored) if *key == Freeze::Restored.key(key.environment) => {
                self.closed = Some(stored.version);
            }
            _ => {}
        }
        self.words = std::mem::take(&mut self.words).item(item);
    }

    async fn send(&mut self, store: &RedisStore, environment: Environment) -> Result<(), TransferError> {
        let words = Words::default().word(if self.has_begun { "0" } else { "1" });
        let words = words.then(&std::mem::take(&mut self.words));
        self.items = 0;
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        store.look(environment, "import", &words).await.map(drop).map_err(|fault| match fault {
            StoreFault::Broken(_) if is_first => TransferError::RedisInUse,
            fault => TransferError::Store(fault),
        })
    }
}

impl Words {
    /// Adds an item as `take_items` of the script reads it; nothing for what is no part of an environment's content.
    pub(super) fn item(self, item: Item) -> Words {
        let words = self;
        match item {
            Item::Format(_)
            | Item::Time(_)
            | Item::Created(..)
            | Item::Last(..)
            | Item::Begin(..)
            | Item::SealedFrom(..)
            | Item::LeftOut(..)
            | Item::Derived => words,
            Item::Record(key, stored) => {
                let until = |words: Words, time| if time == FOREVER { words.word("") } else { words.time(time) };
                let words = words.word("record").record(&key).number(stored.version.as_u64()).time(stored.at);
                let words = until(until(words, stored.whole_until), stored.gone_at);
                match stored.content {
                    Content::Whole(value) => words.word("whole").word(value),
                    Content::Spent => words.word("spent").word(""),
                }
            }
            Item::Member { index, member, due, .. } => words.word("member").word(index.as_str()).time(due).word(member),
            Item::Slot { window, slot, spent, .. } => {
                words.word("slot").window(&window).word(of_slot(slot)).number(spent.units).time(spent.until)
            }
            Item::Holder { window, holder, slot, units, .. } => {
                words.word("holder").window(&window).word(holder).word(of_slot(slot)).number(units)
            }
            Item::Outstanding(entry) => {
                let words = words.word("outstanding").number(entry.number.as_u64()).time(entry.at);
                words.word(entry.node.as_str()).word(wire_entry::whole(&entry.entry))
            }
            Item::Kept(_, by, number) => {
                words.word("kept").word(by.node.as_str()).word(by.journal.as_str()).number(number.as_u64())
            }
            Item::Committed(_, node, number) => words.word("committed").word(node.as_str()).number(number.as_u64()),
            Item::Former(_, generation) => words.word("former").word(generation),
        }
    }
}

fn of_slot(slot: WindowSlot) -> String {
    format!("{} {}", slot.begin.as_micros(), slot.end.as_micros())
}

/// Completes the import: the store becomes usable, closed for money until a person opens it.
async fn close(
    store: &RedisStore,
    environment: Environment,
    part: &TransferPart,
    time: StoreTime,
    (node, seals): (&NodeId, &Seals),
) -> Result<(), TransferError> {
    let why = ("sluice store", "restored from an export or a backup");
    let commit = claim::restored(environment, part.closed, Number::new(0), why, node);
    // Journals hold the whole commit.
    let commit = seals.sealed_commit(commit).map_err(TransferError::Store)?;
    let id = part.created.as_ref().map_or_else(|| nonce().0, |id| id.as_str().to_owned());
    let words = Words::default().word(id).time(time).number(part.last.as_u64());
    let entry = wire_entry::for_commit(&commit.entry, &commit.steps);
    let words = words.limit(None).commit(Some(&commit.node), &entry, &commit.steps).map_err(TransferError::Store)?;
    let told = store.ask(environment, "imported", &words).await;
    let told = told.map_err(|unanswered| TransferError::Store(fault(unanswered, StoreFault::InDoubt)))?;
    match ReplyReader::of(told).text().map_err(TransferError::Store)?.as_str() {
        "done" => Ok(()),
        _ => Err(TransferError::Database("the environment is already frozen".to_owned())),
    }
}
