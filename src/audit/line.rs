//! One line, written in exactly one way.
//!
//! ```json
//! {"at":"2026-11-20T14:15:45.000001Z","entry":{"what":"sending"},"environment":"production","hash":"…","node":"a","number":7,"previous":"…"}
//! {"at":"2026-11-20T00:00:00.000000Z","format":1,"hash":"…","highest":{"production":6},"node":"a","previous":"…","sequence":2,"snapshot":{"sequence":1,"sha256":"…"}}
//! ```
//!
//! `previous` is the hash of the line before; `hash` is the SHA-256 over that hash's bytes and those of the line's object
//! without `hash` and `previous`, so the line is put together from its parts and not derived. `node` of an Entry is the node that committed it, of a header the one whose file it is.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Map, Value};
use thiserror::Error;

use super::hash::Hash;
use super::snapshot_link::SnapshotLink;
use crate::base::ids::Environment;
use crate::base::json::{self, FormError, JsonError, Limits};
use crate::ledger::{NodeId, Number, Outstanding, StoreTime};

/// The version of the format.
pub const FORMAT: u64 = 1;
/// An entry is one level deeper in its line than by itself.
const ENTRY: Limits = Limits::ANSWER;
const LINE: Limits = Limits { depth: 65, ..Limits::ANSWER };

/// The highest number of each environment.
pub type Highest = BTreeMap<Environment, u64>;

/// A line as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditLine {
    pub previous: Hash,
    pub hash: Hash,
    pub body: LineBody,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineBody {
    Header(FileHeader),
    Entry(Outstanding),
}

/// The first line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHeader {
    pub node: NodeId,
    /// The sequence number of the file, from 1.
    pub sequence: u64,
    pub at: StoreTime,
    /// The highest numbers in the files before.
    pub highest: Highest,
    /// The newest snapshot.
    pub snapshot: Option<SnapshotLink>,
    /// Environments of which the entries in the files before are of another history than those from here on: the store had
    /// others under their numbers.
    pub anew: BTreeSet<Environment>,
}

/// The content of a line, ready to be linked behind another line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineText {
    /// The text up to `hash`, without hash and previous.
    before: Vec<u8>,
    after: Vec<u8>,
    /// The offset of `previous` in `after`.
    previous_at: usize,
}

/// The reasons why bytes are not a line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LineFault {
    #[error("it is not JSON (column {}: {})", .0.column, .0.reason)]
    Json(JsonError),
    /// A member is missing, unknown, or of another type.
    #[error("it is not a line of an audit file: {0}")]
    Form(&'static str),
    /// A checkpoint of another form.
    #[error("it is not a checkpoint: {0}")]
    Checkpoint(FormError),
    /// A format that is newer than this.
    #[error("it is of format {0}; this version of Sluice reads {FORMAT}: use a newer one")]
    Newer(u64),
    /// The content is readable, but Sluice writes it differently.
    #[error("its spelling differs from the one form of a line")]
    Spelling,
    /// The line's own hash does not match its content.
    #[error("its hash does not match its content: the line was changed")]
    Hash,
}

impl LineText {
    pub fn of_entry(outstanding: &Outstanding) -> Result<LineText, LineFault> {
        let entry = match json::members_in_form(&outstanding.entry, ENTRY) {
            Some(_) => Cow::Borrowed(outstanding.entry.as_ref()),
            None => {
                let entry = json::parse(&outstanding.entry, ENTRY).map_err(LineFault::Json)?;
                if !entry.is_object() {
                    return Err(LineFault::Form("`entry` is not an object"));
                }
                Cow::Owned(json::to_bytes(&entry))
            }
        };
        LineText::of_entry_in_form(outstanding, &entry)
    }

    /// `entry` is in the one form of JSON.
    fn of_entry_in_form(outstanding: &Outstanding, entry: &[u8]) -> Result<LineText, LineFault> {
        let Outstanding { environment, number, at, node, .. } = outstanding;
        let (at, environment, node) = (quoted(&time(*at)?), quoted(environment.as_str()), quoted(node.as_str()));
        Ok(LineText::of_parts(
            &[("at", at.as_bytes()), ("entry", entry), ("environment", environment.as_bytes())],
            &[("node", node.as_bytes()), ("number", number.to_string().as_bytes())],
            &[],
        ))
    }

    pub fn of_header(header: &FileHeader) -> Result<LineText, LineFault> {
        let highest: Map<String, Value> = header
            .highest
            .iter()
            .map(|(environment, number)| (environment.as_str().to_owned(), (*number).into()))
            .collect();
        let (at, node, highest) = (quoted(&time(header.at)?), quoted(header.node.as_str()), json::to_form(&highest));
        let sequence = header.sequence.to_string();
        let snapshot = header
            .snapshot
            .map(|SnapshotLink { sequence, sha256 }| format!("{{\"sequence\":{sequence},\"sha256\":\"{sha256}\"}}"));
        let mut last = vec![("sequence", sequence.as_bytes())];
        last.extend(snapshot.as_ref().map(|snapshot| ("snapshot", snapshot.as_bytes())));
        let anew: Vec<String> = header.anew.iter().map(|environment| quoted(environment.as_str())).collect();
        let (anew, format) = (format!("[{}]", anew.join(",")), FORMAT.to_string());
        let mut first = vec![("at", at.as_bytes()), ("format", format.as_bytes())];
        if !header.anew.is_empty() {
            first.insert(0, ("anew", anew.as_bytes()));
        }
        Ok(LineText::of_parts(&first, &[("highest", highest.as_bytes()), ("node", node.as_bytes())], &last))
    }

    /// The members sorted by name; `hash` belongs after the first part, `previous` after the second.
    fn of_parts(first: &[(&str, &[u8])], second: &[(&str, &[u8])], third: &[(&str, &[u8])]) -> LineText {
        let before = members(first);
        let mut after = members(second);
        let previous_at = after.len();
        after.append(&mut members(third));
        LineText { before, after, previous_at }
    }

    /// Returns the hash of the line's content, without its position.
    pub fn content(&self) -> Hash {
        Hash::of(&[b"{", self.before.get(1..).unwrap_or_default(), &self.after, b"}"])
    }

    /// The hash of the line behind that one.
    pub fn hash(&self, previous: Hash) -> Hash {
        Hash::of(&[previous.as_bytes(), b"{", self.before.get(1..).unwrap_or_default(), &self.after, b"}"])
    }

    /// Writes the line with its end, and returns its hash.
    pub fn put_behind(&self, previous: Hash, out: &mut Vec<u8>) -> Hash {
        let hash = self.hash(previous);
        let (second, third) = self.after.split_at_checked(self.previous_at).unwrap_or((&self.after, &[]));
        out.push(b'{');
        out.extend_from_slice(self.before.get(1..).unwrap_or_default());
        out.extend_from_slice(format!(",\"hash\":\"{hash}\"").as_bytes());
        out.extend_from_slice(second);
        out.extend_from_slice(format!(",\"previous\":\"{previous}\"").as_bytes());
        out.extend_from_slice(third);
        out.extend_from_slice(b"}\n");
        hash
    }

    /// The bytes of the line with its end.
    pub fn length(&self) -> usize {
        const TIES: usize = ",\"hash\":\"\",\"previous\":\"\"".len() + 2 * 64;
        self.before.len().saturating_add(self.after.len()).saturating_add(TIES).saturating_add(2)
    }
}

/// Writes each member with a comma before it.
fn members(members: &[(&str, &[u8])]) -> Vec<u8> {
    let parts = members.iter().flat_map(|(name, value)| [b",\"".as_slice(), name.as_bytes(), b"\":", value]);
    parts.collect::<Vec<_>>().concat()
}

/// Writes a text that needs no escape.
fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// Microseconds, in UTC.
pub(super) fn time(at: StoreTime) -> Result<String, LineFault> {
    let at = Timestamp::from_microsecond(at.as_micros()).map_err(|_| LineFault::Form("`at` is out of range"))?;
    Ok(format!("{at:.6}"))
}

/// Reads a line without its end, strictly: only what [`LineText::put_behind`] writes is one.
pub fn read_line(bytes: &[u8]) -> Result<AuditLine, LineFault> {
    read_entry_in_form(bytes).map_or_else(|| read_any_line(bytes), Ok)
}

/// Reads a line by building its values, and writing it once more.
fn read_any_line(bytes: &[u8]) -> Result<AuditLine, LineFault> {
    let value = json::parse(bytes, LINE).map_err(LineFault::Json)?;
    let Value::Object(mut members) = value else { return Err(LineFault::Form("it is not an object")) };
    if let Some(format) = members.get("format").and_then(Value::as_u64).filter(|format| *format > FORMAT) {
        return Err(LineFault::Newer(format));
    }
    let previous = hash(&members, "previous")?;
    let own = hash(&members, "hash")?;
    let body = if members.contains_key("entry") {
        LineBody::Entry(entry(&mut members)?)
    } else {
        LineBody::Header(header(&members)?)
    };
    let text = match &body {
        LineBody::Entry(outstanding) => LineText::of_entry(outstanding)?,
        LineBody::Header(header) => LineText::of_header(header)?,
    };
    let mut written = Vec::with_capacity(bytes.len().saturating_add(1));
    let hash = text.put_behind(previous, &mut written);
    if hash != own {
        return Err(LineFault::Hash);
    }
    if written.strip_suffix(b"\n") != Some(bytes) {
        return Err(LineFault::Spelling);
    }
    Ok(AuditLine { previous, hash, body })
}

/// Reads an entry's line without building its values; `None` for every line that is read otherwise, or has a fault.
fn read_entry_in_form(bytes: &[u8]) -> Option<AuditLine> {
    let members = json::members_in_form(bytes, LINE)?;
    let [
        ("at", at),
        ("entry", entry),
        ("environment", environment),
        ("hash", own),
        ("node", node),
        ("number", number),
        ("previous", previous),
    ] = members.as_slice()
    else {
        return None;
    };
    let bare = |text: &'_ str| Some(text.strip_prefix('"')?.strip_suffix('"')?.to_owned());
    let outstanding = Outstanding {
        environment: Environment::parse(&bare(environment)?)?,
        number: Number::new(number.parse().ok()?),
        at: parse_time(&bare(at)?).ok()?,
        node: NodeId::parse(&bare(node)?)?,
        entry: entry.starts_with('{').then(|| Bytes::copy_from_slice(entry.as_bytes()))?,
    };
    if quoted(&time(outstanding.at).ok()?) != *at || quoted(outstanding.environment.as_str()) != *environment {
        return None;
    }
    let (hash, previous) = (Hash::parse(&bare(own)?)?, Hash::parse(&bare(previous)?)?);
    // The members stand beside each other, each with two quotes, a colon and a comma.
    let length =
        |members: &[(&str, &str)]| members.iter().map(|(name, value)| name.len() + value.len() + 4).sum::<usize>();
    let [before, tie, after]: [usize; 3] = [members.get(..3)?, members.get(3..4)?, members.get(4..6)?].map(length);
    let (before, rest) = bytes.strip_prefix(b"{")?.split_at_checked(before.checked_sub(1)?)?;
    let after = rest.get(tie..)?.get(..after)?;
    let found = Hash::of(&[previous.as_bytes(), b"{", before, after, b"}"]);
    (found == hash).then_some(AuditLine { previous, hash, body: LineBody::Entry(outstanding) })
}

impl AuditLine {
    /// Returns the hash of the line's content, without its position.
    pub fn content(&self) -> Hash {
        let text = match &self.body {
            LineBody::Header(header) => LineText::of_header(header),
            LineBody::Entry(entry) => LineText::of_entry(entry),
        };
        // What was read can be written.
        text.map_or(Hash::NOTHING, |text| text.content())
    }
}

fn entry(members: &mut Map<String, Value>) -> Result<Outstanding, LineFault> {
    let environment = environment(text(members, "environment")?)?;
    let number = Number::new(number(members, "number")?);
    let (at, node) = (at(members)?, node(members)?);
    let entry = members.remove("entry").unwrap_or(Value::Null);
    Ok(Outstanding { environment, number, at, node, entry: Bytes::from(json::to_bytes(&entry)) })
}

fn header(members: &Map<String, Value>) -> Result<FileHeader, LineFault> {
    if number(members, "format")? != FORMAT {
        return Err(LineFault::Form("`format` is unknown"));
    }
    let written = members.get("highest").and_then(Value::as_object).ok_or(LineFault::Form("`highest` is missing"))?;
    let mut highest = Highest::new();
    for name in written.keys() {
        highest.insert(environment(name)?, self::number(written, name)?);
    }
    let snapshot = members.get("snapshot").map(snapshot).transpose()?;
    let sequence = number(members, "sequence")?;
    let anew = members.get("anew").map(environments).transpose()?.unwrap_or_default();
    Ok(FileHeader { node: node(members)?, sequence, at: at(members)?, highest, snapshot, anew })
}

fn environments(written: &Value) -> Result<BTreeSet<Environment>, LineFault> {
    const FAULT: LineFault = LineFault::Form("`anew` is not an array of environments");
    let names = written.as_array().ok_or(FAULT)?;
    names.iter().map(|name| environment(name.as_str().ok_or(FAULT)?)).collect()
}

fn snapshot(written: &Value) -> Result<SnapshotLink, LineFault> {
    let members = written.as_object().ok_or(LineFault::Form("`snapshot` is not an object"))?;
    Ok(SnapshotLink { sequence: number(members, "sequence")?, sha256: hash(members, "sha256")? })
}

fn text<'m>(members: &'m Map<String, Value>, name: &str) -> Result<&'m str, LineFault> {
    members.get(name).and_then(Value::as_str).ok_or(LineFault::Form("a text is missing"))
}

fn number(members: &Map<String, Value>, name: &str) -> Result<u64, LineFault> {
    members.get(name).and_then(Value::as_u64).ok_or(LineFault::Form("a number is missing"))
}

fn hash(members: &Map<String, Value>, name: &str) -> Result<Hash, LineFault> {
    Hash::parse(text(members, name)?).ok_or(LineFault::Form("a hash is not 64 hexadecimal digits"))
}

fn node(members: &Map<String, Value>) -> Result<NodeId, LineFault> {
    NodeId::parse(text(members, "node")?).ok_or(LineFault::Form("`node` is not the name of a node"))
}

fn at(members: &Map<String, Value>) -> Result<StoreTime, LineFault> {
    parse_time(text(members, "at")?)
}

/// Parses what [`time`] writes.
pub(super) fn parse_time(text: &str) -> Result<StoreTime, LineFault> {
    let at: Timestamp = text.parse().map_err(|_| LineFault::Form("`at` is not a time"))?;
    Ok(StoreTime::of_micros(at.as_microsecond()))
}

fn environment(name: &str) -> Result<Environment, LineFault> {
    Environment::parse(name).ok_or(LineFault::Form("`environment` is unknown"))
}

#[cfg(test)]
mod tests;
