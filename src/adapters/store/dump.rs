//! A whole store as lines of JSON: a header, everything that is kept, and a last line that says that nothing is missing.
//!
//! Sealed values stay sealed. Times are microseconds since 1970, bytes are base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::layout::{FOREVER, FORMAT, Item, Slot, Spent, Stored};
use crate::base::digest::hex;
use crate::base::ids::Environment;
use crate::commit::{Content, Index, Kind, NodeId, Number, Outstanding, RecordKey, StoreTime, WindowKey};

/// The version of the form of these lines.
const VERSION: u64 = 1;

/// What stands in the first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The latest time of a commit.
    pub time: StoreTime,
    /// The number of the latest commit in each environment that has one.
    pub last: Vec<(Environment, Number)>,
}

/// Counts and digests lines, for the last one.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    items: u64,
    hash: Sha256,
}

impl Tally {
    pub fn add(&mut self, line: &str) {
        self.items = self.items.saturating_add(1);
        self.hash.update(line.as_bytes());
        self.hash.update(b"\n");
    }

    pub fn items(&self) -> u64 {
        self.items
    }

    pub fn end(self) -> String {
        json!({ "item": "end", "lines": self.items, "sha256": hex(&self.hash.finalize()) }).to_string()
    }
}

impl Header {
    pub fn line(&self) -> String {
        let last: Map<String, Value> =
            self.last.iter().map(|(one, number)| (one.as_str().to_owned(), json!(number.as_u64()))).collect();
        json!({
            "item": "header",
            "export": VERSION,
            "format": FORMAT,
            "time": self.time.as_micros(),
            "last": last,
        })
        .to_string()
    }

    pub fn read(line: &str) -> Result<Header, String> {
        let fields = Fields::of(line)?;
        if fields.text("item")? != "header" {
            return Err("it is not the header of an export".to_owned());
        }
        if fields.number("export")? > VERSION || fields.number("format")? > FORMAT {
            return Err("a later version of Sluice wrote it; use that one, or a later one".to_owned());
        }
        let last = fields.0.get("last").and_then(Value::as_object).ok_or_else(|| Fields::lacks("last"))?;
        let last = last.iter().map(|(name, number)| {
            let environment = named(name, &Environment::ALL, Environment::as_str)?;
            Ok((environment, Number::new(number.as_u64().ok_or_else(|| Fields::lacks("last"))?)))
        });
        Ok(Header { time: fields.time("time")?, last: last.collect::<Result<_, String>>()? })
    }

    pub fn items(&self) -> impl Iterator<Item = Item> + '_ {
        let last = self.last.iter().map(|(environment, number)| Item::Last(*environment, *number));
        last.chain([Item::Time(self.time)])
    }
}

/// None for what stands in the header or follows from another item.
pub(super) fn line(item: &Item) -> Option<String> {
    let value = match item {
        Item::Format(_) | Item::Time(_) | Item::Last(..) | Item::Derived => return None,
        // Whoever has signed out since then would be in again.
        Item::Record(key, _) if key.kind == Kind::Session => return None,
        Item::Record(key, stored) => {
            let until = |time| (time != FOREVER).then_some(StoreTime::as_micros(time));
            let value = match &stored.content {
                Content::Whole(value) => Some(STANDARD.encode(value)),
                Content::Spent => None,
            };
            json!({
                "item": "record",
                "environment": key.environment.as_str(),
                "kind": key.kind.as_str(),
                "name": key.name,
                "version": stored.version.as_u64(),
                "at": stored.at.as_micros(),
                "whole_until": until(stored.whole_until),
                "gone_at": until(stored.gone_at),
                "value": value,
            })
        }
        Item::Member { environment, index, member, due } => json!({
            "item": "member",
            "environment": environment.as_str(),
            "index": index.as_str(),
            "member": member,
            "due": due.as_micros(),
        }),
        Item::Slot { environment, window, slot, spent } => json!({
            "item": "spent",
            "environment": environment.as_str(),
            "limit": window.limit,
            "key": window.key,
            "begin": slot.begin.as_micros(),
            "end": slot.end.as_micros(),
            "until": spent.until.as_micros(),
            "units": spent.units,
        }),
        Item::Holder { environment, window, holder, slot, units } => json!({
            "item": "reserved",
            "environment": environment.as_str(),
            "limit": window.limit,
            "key": window.key,
            "holder": holder,
            "begin": slot.begin.as_micros(),
            "end": slot.end.as_micros(),
            "units": units,
        }),
        Item::Outstanding(entry) => json!({
            "item": "outstanding",
            "environment": entry.environment.as_str(),
            "number": entry.number.as_u64(),
            "at": entry.at.as_micros(),
            "node": entry.node.as_str(),
            "entry": STANDARD.encode(&entry.entry),
        }),
    };
    Some(value.to_string())
}

/// A line behind the header.
pub(super) enum Line {
    Item(Item),
    /// The last one, as a tally of the lines before it must end.
    End,
}

pub(super) fn read(line: &str) -> Result<Line, String> {
    let fields = Fields::of(line)?;
    let item = match fields.text("item")? {
        "end" => return Ok(Line::End),
        "record" => {
            let content = match fields.0.get("value") {
                None | Some(Value::Null) => Content::Spent,
                Some(_) => Content::Whole(fields.bytes("value")?),
            };
            let kind = named(fields.text("kind")?, &Kind::ALL, Kind::as_str)?;
            let name = fields.text("name")?.to_owned();
            let stored = Stored {
                version: Number::new(fields.number("version")?),
                at: fields.time("at")?,
                whole_until: fields.until("whole_until")?,
                gone_at: fields.until("gone_at")?,
                content,
            };
            Item::Record(RecordKey { environment: fields.environment()?, kind, name }, stored)
        }
        "member" => Item::Member {
            environment: fields.environment()?,
            index: named(fields.text("index")?, &Index::ALL, Index::as_str)?,
            member: fields.text("member")?.to_owned(),
            due: fields.time("due")?,
        },
        "spent" => Item::Slot {
            environment: fields.environment()?,
            window: fields.window()?,
            slot: fields.slot()?,
            spent: Spent { units: fields.number("units")?, until: fields.time("until")? },
        },
        "reserved" => Item::Holder {
            environment: fields.environment()?,
            window: fields.window()?,
            holder: fields.text("holder")?.to_owned(),
            slot: fields.slot()?,
            units: fields.number("units")?,
        },
        "outstanding" => Item::Outstanding(Outstanding {
            environment: fields.environment()?,
            number: Number::new(fields.number("number")?),
            at: fields.time("at")?,
            node: NodeId::parse(fields.text("node")?).ok_or_else(|| Fields::lacks("node"))?,
            entry: fields.bytes("entry")?,
        }),
        _ => return Err("it is of a kind that this version of Sluice does not know".to_owned()),
    };
    Ok(Line::Item(item))
}

fn named<T: Copy>(name: &str, all: &[T], name_of: impl Fn(T) -> &'static str) -> Result<T, String> {
    let found = all.iter().copied().find(|one| name_of(*one) == name);
    found.ok_or_else(|| "it has a name that this version of Sluice does not know".to_owned())
}

/// The fields of a line. Errors name fields, never what is in them.
struct Fields(Map<String, Value>);

impl Fields {
    fn of(line: &str) -> Result<Fields, String> {
        match serde_json::from_str(line) {
            Ok(Value::Object(fields)) => Ok(Fields(fields)),
            Ok(_) | Err(_) => Err("it is not a JSON object".to_owned()),
        }
    }

    fn lacks(name: &str) -> String {
        format!("it has no good `{name}`")
    }

    fn text(&self, name: &str) -> Result<&str, String> {
        self.0.get(name).and_then(Value::as_str).ok_or_else(|| Fields::lacks(name))
    }

    fn number(&self, name: &str) -> Result<u64, String> {
        self.0.get(name).and_then(Value::as_u64).ok_or_else(|| Fields::lacks(name))
    }

    fn time(&self, name: &str) -> Result<StoreTime, String> {
        self.0.get(name).and_then(Value::as_i64).map(StoreTime::of_micros).ok_or_else(|| Fields::lacks(name))
    }

    fn until(&self, name: &str) -> Result<StoreTime, String> {
        if self.0.get(name).is_none_or(Value::is_null) { Ok(FOREVER) } else { self.time(name) }
    }

    fn bytes(&self, name: &str) -> Result<Bytes, String> {
        STANDARD.decode(self.text(name)?).map(Bytes::from).map_err(|_| Fields::lacks(name))
    }

    fn environment(&self) -> Result<Environment, String> {
        named(self.text("environment")?, &Environment::ALL, Environment::as_str)
    }

    fn window(&self) -> Result<WindowKey, String> {
        Ok(WindowKey { limit: self.text("limit")?.to_owned(), key: self.text("key")?.to_owned() })
    }

    fn slot(&self) -> Result<Slot, String> {
        Ok(Slot { begin: self.time("begin")?, end: self.time("end")? })
    }
}
