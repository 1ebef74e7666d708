//! A whole store as lines of JSON: a header, every item, and a last line that proves that no line is missing.
//!
//! Sealed values stay sealed. Times are microseconds since 1970, bytes are base64.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::layout::{FOREVER, FORMAT, Item, Spent, Stored, WindowSlot};
use crate::base::digest::hex;
use crate::base::ids::Environment;
use crate::base::json::{self, FormError, Limits};
use crate::ledger::{
    Content, Index, InstallationId, Kind, NodeId, Number, Outstanding, RecordKey, Sender, StoreTime, WindowKey,
};

/// The word of a header, in whatever order its members stand.
const HEADER: &[u8] = b"\"item\":\"header\"";
/// The version of this export format.
const VERSION: u64 = 3;

/// One line. A time that is `None` never comes; a value that is `None` is spent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "item", rename_all = "snake_case", deny_unknown_fields)]
enum DumpRecord {
    Header {
        export: u64,
        format: u64,
        time: StoreTime,
        last: BTreeMap<Environment, Number>,
    },
    Created {
        environment: Environment,
        installation: InstallationId,
    },
    Record {
        environment: Environment,
        kind: Kind,
        name: String,
        version: Number,
        at: StoreTime,
        whole_until: Option<StoreTime>,
        gone_at: Option<StoreTime>,
        value: Option<DumpedBytes>,
    },
    Member {
        environment: Environment,
        index: Index,
        member: String,
        due: StoreTime,
    },
    Spent {
        environment: Environment,
        limit: String,
        key: String,
        begin: StoreTime,
        end: StoreTime,
        until: StoreTime,
        units: u64,
    },
    Reserved {
        environment: Environment,
        limit: String,
        key: String,
        holder: String,
        begin: StoreTime,
        end: StoreTime,
        units: u64,
    },
    Outstanding {
        environment: Environment,
        number: Number,
        at: StoreTime,
        node: NodeId,
        entry: DumpedBytes,
    },
    /// The journal has every entry up to the number.
    Kept {
        environment: Environment,
        by: Sender,
        number: Number,
    },
    /// The highest number of a node's own commits.
    Committed {
        environment: Environment,
        node: NodeId,
        number: Number,
    },
    /// The generation of a Redis that held this store: journals that belong to it belong to the imported store.
    Former {
        environment: Environment,
        generation: String,
    },
    End {
        lines: u64,
        sha256: String,
    },
}

#[derive(Debug, Serialize, Deserialize)]
struct DumpedBytes(#[serde(with = "json::written_as::base64")] Bytes);

/// The versions that a header states, whatever else it has.
#[derive(Debug, Deserialize)]
struct DumpVersions {
    export: u64,
    format: u64,
}

impl DumpRecord {
    fn to_line(&self) -> String {
        json::to_form(self)
    }

    /// Errors name a member, never its value.
    fn of_line(line: &str) -> Result<DumpRecord, String> {
        json::from_slice(line.as_bytes(), Limits::ANSWER).map_err(|fault| match fault {
            FormError::Json(error) => format!("column {}: {}", error.column, error.reason),
            FormError::Form { column, reason, .. } => format!("column {column}: {reason}"),
            format @ FormError::Format { .. } => format.to_string(),
        })
    }
}

/// The first line of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DumpHeader {
    /// The latest time of a commit.
    pub time: StoreTime,
    /// The number of the latest commit in each environment that has one.
    pub last: Vec<(Environment, Number)>,
}

/// Counts and digests the lines, for the last line.
#[derive(Clone, Debug, Default)]
pub(super) struct DumpTally {
    items: u64,
    hash: Sha256,
}

impl DumpTally {
    pub fn add(&mut self, line: &str) {
        self.items = self.items.saturating_add(1);
        self.hash.update(line.as_bytes());
        self.hash.update(b"\n");
    }

    pub fn items(&self) -> u64 {
        self.items
    }

    pub fn end(self) -> String {
        DumpRecord::End { lines: self.items, sha256: hex(&self.hash.finalize()) }.to_line()
    }
}

impl DumpHeader {
    pub fn line(&self) -> String {
        let last = self.last.iter().copied().collect();
        DumpRecord::Header { export: VERSION, format: FORMAT, time: self.time, last }.to_line()
    }

    pub fn read(line: &str) -> Result<DumpHeader, String> {
        if let Ok(DumpVersions { export, format }) = json::from_slice(line.as_bytes(), Limits::ANSWER)
            && (export, format) != (VERSION, FORMAT)
        {
            let is_later = export > VERSION || format > FORMAT;
            let version = if is_later { "a later" } else { "an earlier" };
            return Err(format!("{version} version of Sluice wrote this export; use that version"));
        }
        match DumpRecord::of_line(line)? {
            DumpRecord::Header { time, last, .. } => Ok(DumpHeader { time, last: last.into_iter().collect() }),
            _ => Err("it is not the header of a store export".to_owned()),
        }
    }

    pub fn items(&self) -> impl Iterator<Item = Item> + '_ {
        let last = self.last.iter().map(|(environment, number)| Item::Last(*environment, *number));
        last.chain([Item::Time(self.time)])
    }
}

/// Whether bytes are the beginning of an export, of whatever version.
pub(super) fn begins_header(line: &[u8]) -> bool {
    line.starts_with(b"{\"") && line.windows(HEADER.len()).any(|part| part == HEADER)
}

/// Formats an item as a line. Returns `None` for what the header holds or what follows from another item.
pub(super) fn format_line(item: &Item) -> Option<String> {
    let record = match item {
        Item::Format(_) | Item::Time(_) | Item::Last(..) | Item::Derived => return None,
        Item::Begin(..) | Item::SealedFrom(..) | Item::LeftOut(..) => return None,
        Item::Created(environment, id) => DumpRecord::Created { environment: *environment, installation: id.clone() },
        // A session that was ended after the export would be valid again.
        Item::Record(key, _) if key.kind == Kind::Session => return None,
        Item::Record(key, stored) => {
            let until = |time| (time != FOREVER).then_some(time);
            DumpRecord::Record {
                environment: key.environment,
                kind: key.kind,
                name: key.name.clone(),
                version: stored.version,
                at: stored.at,
                whole_until: until(stored.whole_until),
                gone_at: until(stored.gone_at),
                value: match &stored.content {
                    Content::Whole(value) => Some(DumpedBytes(value.clone())),
                    Content::Spent => None,
                },
            }
        }
        Item::Member { environment, index, member, due } => {
            DumpRecord::Member { environment: *environment, index: *index, member: member.clone(), due: *due }
        }
        Item::Slot { environment, window, slot, spent } => DumpRecord::Spent {
            environment: *environment,
            limit: window.limit.clone(),
            key: window.key.clone(),
            begin: slot.begin,
            end: slot.end,
            until: spent.until,
            units: spent.units,
        },
        Item::Holder { environment, window, holder, slot, units } => DumpRecord::Reserved {
            environment: *environment,
            limit: window.limit.clone(),
            key: window.key.clone(),
            holder: holder.clone(),
            begin: slot.begin,
            end: slot.end,
            units: *units,
        },
        Item::Outstanding(Outstanding { environment, number, at, node, entry }) => DumpRecord::Outstanding {
            environment: *environment,
            number: *number,
            at: *at,
            node: node.clone(),
            entry: DumpedBytes(entry.clone()),
        },
        Item::Kept(environment, by, number) => {
            DumpRecord::Kept { environment: *environment, by: by.clone(), number: *number }
        }
        Item::Committed(environment, node, number) => {
            DumpRecord::Committed { environment: *environment, node: node.clone(), number: *number }
        }
        Item::Former(environment, generation) => {
            DumpRecord::Former { environment: *environment, generation: generation.clone() }
        }
    };
    Some(record.to_line())
}

/// A line after the header.
pub(super) enum DumpLine {
    Item(Item),
    /// The last line: the tally of all lines before it.
    End,
}

pub(super) fn parse_line(line: &str) -> Result<DumpLine, String> {
    let item = match DumpRecord::of_line(line)? {
        DumpRecord::End { .. } => return Ok(DumpLine::End),
        DumpRecord::Header { .. } => return Err("it is a header, which only the first line can be".to_owned()),
        DumpRecord::Created { environment, installation } => Item::Created(environment, installation),
        DumpRecord::Record { environment, kind, name, version, at, whole_until, gone_at, value } => {
            let content = value.map_or(Content::Spent, |DumpedBytes(value)| Content::Whole(value));
            let until = |time: Option<StoreTime>| time.unwrap_or(FOREVER);
            let (whole_until, gone_at) = (until(whole_until), until(gone_at));
            Item::Record(RecordKey { environment, kind, name }, Stored { version, at, whole_until, gone_at, content })
        }
        DumpRecord::Member { environment, index, member, due } => Item::Member { environment, index, member, due },
        DumpRecord::Spent { environment, limit, key, begin, end, until, units } => Item::Slot {
            environment,
            window: WindowKey { limit, key },
            slot: WindowSlot { begin, end },
            spent: Spent { units, until },
        },
        DumpRecord::Reserved { environment, limit, key, holder, begin, end, units } => {
            let (window, slot) = (WindowKey { limit, key }, WindowSlot { begin, end });
            Item::Holder { environment, window, holder, slot, units }
        }
        DumpRecord::Outstanding { environment, number, at, node, entry: DumpedBytes(entry) } => {
            Item::Outstanding(Outstanding { environment, number, at, node, entry })
        }
        DumpRecord::Kept { environment, by, number } => Item::Kept(environment, by, number),
        DumpRecord::Committed { environment, node, number } => Item::Committed(environment, node, number),
        DumpRecord::Former { environment, generation } => Item::Former(environment, generation),
    };
    Ok(DumpLine::Item(item))
}
