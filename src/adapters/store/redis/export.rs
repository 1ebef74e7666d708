//! Exports a Redis that no gate uses.
//!
//! Commands read it in small parts, so that nobody else who uses the Redis waits for long. That is exact only if nothing
//! is written meanwhile: no gate may run, and at the end everything must stand where it stood at the beginning.
//! Otherwise the export fails, and lacks its end line. The same item may be written twice, as Redis lists keys.

use std::io::Write;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, FromRedisValue};
use tokio::runtime::Handle;

use super::super::dump::DumpHeader;
use super::super::dump_writer::DumpWriter;
use super::super::embedded::TransferError;
use super::super::layout::{Item, broken};
use super::membership::Member;
use super::{RedisStore, SCANNED, StoreFault, fault, root, script_args, stored_form};
use crate::base::ids::Environment;
use crate::ledger::{Index, IndexPart, InstallationId, JournalId, NodeId, Number, Sender, StoreTime};

/// How many records, entries or windows one call reads.
const BATCH: usize = 100;
/// How many members of an index one call reads.
const MEMBERS: usize = 1_000;

type HashFields = Vec<(String, String)>;

/// How an environment stands while no gate uses it.
#[derive(Debug, PartialEq, Eq)]
struct StoreAtRest {
    generation: String,
    last: Number,
    /// Each node with its process and its last heartbeat.
    nodes: Vec<(NodeId, String, StoreTime)>,
    /// The process of the Redis, and its history.
    run: String,
}

/// Writes the whole store as lines of JSON; returns how many. `told` hears how far it is.
pub fn export(
    store: &RedisStore,
    runtime: &Handle,
    out: &mut dyn Write,
    told: &mut dyn FnMut(u64),
) -> Result<u64, TransferError> {
    runtime.block_on(async {
        let [production, sandbox] = Environment::ALL.map(|environment| store.at_rest(environment));
        let before = [production.await?, sandbox.await?];
        let last = Environment::ALL.into_iter().zip(&before).map(|(environment, rest)| (environment, rest.last));
        let last = last.filter(|(_, last)| last.as_u64() > 0).collect();
        let time = store.latest_time().await.map_err(TransferError::Store)?;
        let header = DumpHeader { time, last };
        let mut writer = DumpWriter::begin(out, told, &header).map_err(TransferError::File)?;
        for (environment, rest) in Environment::ALL.into_iter().zip(&before) {
            store.export_content(environment, &mut writer).await?;
            store.export_journals(environment, &rest.generation, &mut writer).await?;
        }
        for (environment, rest) in Environment::ALL.into_iter().zip(before) {
            if store.at_rest(environment).await? != rest {
                return Err(TransferError::Changed);
            }
        }
        writer.end().map_err(TransferError::File)
    })
}

impl RedisStore {
    async fn at_rest(&self, environment: Environment) -> Result<StoreAtRest, TransferError> {
        let heard = self.roll(environment).await.map_err(TransferError::Store)?;
        if heard.lost.is_some() {
            return Err(TransferError::Lost(environment));
        }
        if heard.generation.is_empty() {
            return Err(TransferError::NoStore(environment));
        }
        let running: Vec<String> = heard
            .members
            .iter()
            .filter(|member| heard.is_live(member))
            .map(|member| format!("`{}`", member.node))
            .collect();
        if !running.is_empty() {
            return Err(TransferError::Running(running.join(", ")));
        }
        let nodes = heard.members.into_iter().map(|Member { node, instance, beat, .. }| (node, instance, beat));
        let run = self.shards.of(environment).ask(async |_, run: &str| Ok(run.to_owned())).await;
        let run = run.map_err(|unanswered| TransferError::Store(fault(unanswered, StoreFault::Away)))?;
        Ok(StoreAtRest { generation: heard.generation, last: heard.last, nodes: nodes.collect(), run })
    }

    async fn export_content(&self, environment: Environment, writer: &mut DumpWriter<'_>) -> Result<(), TransferError> {
        let mut cursor = 0_u64;
        loop {
            let mut command = ::redis::cmd("SCAN");
            command.arg(cursor).arg("MATCH").arg(format!("{}:[rsh]:*", root(environment))).arg("COUNT").arg(SCANNED);
            let (next, keys): (u64, Vec<Vec<u8>>) = self.read_by(environment, &command).await?;
            for keys in keys.chunks(BATCH) {
                self.export_keys(environment, keys, writer).await?;
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        for index in Index::ALL {
            let mut part = IndexPart { backwards: false, behind: None, count: MEMBERS };
            loop {
                let members = self.part_of(environment, index, part.clone()).await.map_err(TransferError::Store)?;
                let Some(last) = members.last().cloned() else { break };
                for (due, member) in members {
                    put(writer, &Item::Member { environment, index, member, due })?;
                }
                part.behind = Some(last);
            }
        }
        Ok(())
    }

    async fn export_keys(
        &self,
        environment: Environment,
        keys: &[Vec<u8>],
        writer: &mut DumpWriter<'_>,
    ) -> Result<(), TransferError> {
        let root = root(environment);
        let mut commands = ::redis::cmd("MGET");
        for key in keys {
            commands.arg(key.as_slice());
        }
        let found: Vec<Option<Vec<u8>>> = match keys {
            [] => Vec::new(),
            _ => self.read_by(environment, &commands).await?,
        };
        for (key, found) in keys.iter().zip(found) {
            // A key that was listed and is gone was removed meanwhile.
            let found = found.ok_or(TransferError::Changed)?;
            let name = key.strip_prefix(root.as_bytes()).and_then(|name| std::str::from_utf8(name).ok());
            let name = name.ok_or_else(|| unknown("the name of a key"))?;
            if let Some(name) = name.strip_prefix(":r:") {
                let key = script_args::parse_record(environment, name);
                let key = key.ok_or_else(|| unknown("the name of a record"))?;
                put(writer, &Item::Record(key, stored_form::record(&found).map_err(TransferError::Store)?))?;
            } else if let Some(name) = name.strip_prefix(":s:") {
                let window = script_args::parse_window(name).ok_or_else(|| unknown("the name of a window"))?;
                for (slot, spent) in stored_form::slots(&found).map_err(TransferError::Store)? {
                    put(writer, &Item::Slot { environment, window: window.clone(), slot, spent })?;
                }
            } else if let Some(holder) = name.strip_prefix(":h:") {
                for (window, slot, units) in stored_form::holder(&found).map_err(TransferError::Store)? {
                    put(writer, &Item::Holder { environment, window, holder: holder.to_owned(), slot, units })?;
                }
            }
        }
        Ok(())
    }

    /// Writes the outbox, how far each journal reaches, and the generations that journals know.
    async fn export_journals(
        &self,
        environment: Environment,
        generation: &str,
        writer: &mut DumpWriter<'_>,
    ) -> Result<(), TransferError> {
        let mut after = Number::new(0);
        loop {
            let entries = self.entries(environment, after, BATCH, false).await.map_err(TransferError::Store)?;
            let Some(last) = entries.last() else { break };
            after = last.number;
            for entry in entries {
                put(writer, &Item::Outstanding(entry))?;
            }
        }
        let root = root(environment);
        for (node, kept) in self.read_by::<HashFields>(environment, &all_of(format!("{root}:k"))).await? {
            let (journal, number) = kept.split_once(' ').ok_or_else(|| unknown("how far a journal reaches"))?;
            let journal = JournalId::parse(journal).ok_or_else(|| unknown("the id of a journal"))?;
            let by = Sender { node: node_of(&node)?, journal };
            put(writer, &Item::Kept(environment, by, number_of(number)?))?;
        }
        let mut command = ::redis::cmd("GET");
        command.arg(format!("{root}:a"));
        let head: Vec<u8> = self.read_by(environment, &command).await?;
        for (node, number) in stored_form::committed(&head).map_err(TransferError::Store)? {
            put(writer, &Item::Committed(environment, node_of(node)?, number_of(number)?))?;
        }
        // An import takes the id over, or is known as its successor.
        match InstallationId::parse(generation) {
            Some(id) => put(writer, &Item::Created(environment, id))?,
            None => put(writer, &Item::Former(environment, generation.to_owned()))?,
        }
        let formers = self.read_by::<HashFields>(environment, &all_of(format!("{root}:f"))).await?;
        for (former, _) in formers {
            put(writer, &Item::Former(environment, former))?;
        }
        Ok(())
    }

    async fn read_by<T: FromRedisValue>(&self, environment: Environment, command: &Cmd) -> Result<T, TransferError> {
        let asked = async |mut connection: MultiplexedConnection, _: &str| command.query_async(&mut connection).await;
        let answer = self.shards.of(environment).ask(asked).await;
        answer.map_err(|unanswered| TransferError::Store(fault(unanswered, StoreFault::Away)))
    }
}

fn put(writer: &mut DumpWriter<'_>, item: &Item) -> Result<(), TransferError> {
    writer.item(item).map_err(TransferError::File)
}

fn all_of(key: impl AsRef<[u8]>) -> Cmd {
    let mut command = ::redis::cmd("HGETALL");
    command.arg(key.as_ref());
    command
}

fn number_of(text: &str) -> Result<Number, TransferError> {
    text.parse().map(Number::new).map_err(|_| unknown("the number of a commit"))
}

fn node_of(text: &str) -> Result<NodeId, TransferError> {
    NodeId::parse(text).ok_or_else(|| unknown("the name of a node"))
}

fn unknown(what: &str) -> TransferError {
    TransferError::Store(broken(what))
}
