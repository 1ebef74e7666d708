//! An export taken into a Redis, which had no store. Until all of it is in, nobody can use it.

use std::collections::BTreeMap;
use std::io::BufRead;

use tokio::runtime::Handle;

use super::super::embedded::{TransferError, take_in};
use super::super::layout::{FOREVER, Item, Slot};
use super::reader::Reader;
use super::words::Words;
use super::{RedisStore, StoreFault, fault};
use crate::adapters::random::nonce;
use crate::base::ids::Environment;
use crate::commit::{Content, NodeId, Number, StoreTime};
use crate::stations::claim::{self, Freeze};

/// So many items at one stroke.
const BATCH: usize = 200;

/// What is on its way into one environment.
#[derive(Debug, Default)]
struct Part {
    last: Number,
    /// The commit that closed the store that was exported, if it was closed.
    closed: Option<Number>,
    words: Words,
    items: usize,
    has_begun: bool,
}

/// Takes an export in, and closes the store for money; says how many lines.
pub fn import(
    store: &RedisStore,
    runtime: &Handle,
    lines: &mut dyn BufRead,
    node: &NodeId,
    told: &mut dyn FnMut(u64),
) -> Result<u64, TransferError> {
    let mut parts: BTreeMap<Environment, Part> = Environment::ALL.map(|one| (one, Part::default())).into();
    for (environment, part) in &mut parts {
        runtime.block_on(part.send(store, *environment))?;
    }
    let mut time = StoreTime::default();
    let count = take_in(lines, told, &mut |item| {
        let environment = match &item {
            Item::Format(_) | Item::Derived => return Ok(()),
            Item::Time(latest) => {
                time = *latest;
                return Ok(());
            }
            Item::Record(key, _) => key.environment,
            Item::Outstanding(entry) => entry.environment,
            Item::Last(environment, _)
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
        runtime.block_on(close(store, *environment, part, time, node))?;
    }
    Ok(count)
}

impl Part {
    fn add(&mut self, item: Item) {
        self.items = self.items.saturating_add(1);
        let words = std::mem::take(&mut self.words);
        self.words = match item {
            Item::Format(_) | Item::Time(_) | Item::Derived => words,
            Item::Last(_, number) => {
                self.last = number;
                words
            }
            Item::Record(key, stored) => {
                if key == Freeze::Restored.key(key.environment) {
                    self.closed = Some(stored.version);
                }
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
                words.word(entry.node.as_str()).word(&entry.entry)
            }
        };
    }

    async fn send(&mut self, store: &RedisStore, environment: Environment) -> Result<(), TransferError> {
        let words = Words::default().word(if self.has_begun { "0" } else { "1" });
        let words = words.then(&std::mem::take(&mut self.words));
        self.items = 0;
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        store.look(environment, "import", &words).await.map(drop).map_err(|fault| match fault {
            StoreFault::Broken(_) if is_first => TransferError::NotEmpty,
            fault => TransferError::Store(fault),
        })
    }
}

fn of_slot(slot: Slot) -> String {
    format!("{} {}", slot.begin.as_micros(), slot.end.as_micros())
}

/// With this it is a store, closed for money until a person opens it.
async fn close(
    store: &RedisStore,
    environment: Environment,
    part: &Part,
    time: StoreTime,
    node: &NodeId,
) -> Result<(), TransferError> {
    let why = ("sluice store", "restored from an export or a backup");
    let commit = claim::restored(environment, part.closed, Number::new(0), why, node);
    let words = Words::default().word(nonce().0).time(time).number(part.last.as_u64());
    let words = words.word("").word(commit.node.as_str()).word(&commit.entry);
    let words = words.steps(&commit.steps).map_err(TransferError::Store)?;
    let told = store.ask(environment, "imported", &words).await;
    let told = told.map_err(|unanswered| TransferError::Store(fault(unanswered, StoreFault::InDoubt)))?;
    match Reader::of(told).text().map_err(TransferError::Store)?.as_str() {
        "done" => Ok(()),
        _ => Err(TransferError::Database("its freeze stands in the way".to_owned())),
    }
}
