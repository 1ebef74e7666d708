//! One line, written in exactly one way.
//!
//! ```json
//! {"at":"2026-11-20T14:15:45.000001Z","entry":{"what":"sending"},"environment":"production","hash":"…","node":"a","number":7,"previous":"…"}
//! {"at":"2026-11-20T00:00:00.000000Z","format":1,"hash":"…","highest":{"production":6},"node":"a","previous":"…","sequence":2}
//! ```
//!
//! `previous` is the hash of the line before; `hash` is the SHA-256 over that hash's bytes and those of the line's object
//! without `hash` and `previous`. `node` of an Entry is the node that committed it, of a header the one whose file it is.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::hash::Hash;
use crate::base::ids::Environment;
use crate::base::json::{self, JsonError, Limits};
use crate::commit::{NodeId, Number, Outstanding, StoreTime};

/// The version of the format.
pub const FORMAT: u64 = 1;
/// An Entry stands one level deeper in its line than by itself.
const ENTRY: Limits = Limits { depth: 64, number_length: 64, plain_numbers: false };
const LINE: Limits = Limits { depth: 65, number_length: 64, plain_numbers: false };

/// The highest number of each environment.
pub type Highest = BTreeMap<Environment, u64>;

/// A line as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub previous: Hash,
    pub hash: Hash,
    /// Of what the line says, wherever it stands.
    pub content: Hash,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Header(Header),
    Entry(Outstanding),
}

/// The first line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub node: NodeId,
    /// Which of the node's files, from 1.
    pub sequence: u64,
    pub at: StoreTime,
    /// Of all that stands in the files before.
    pub highest: Highest,
}

/// What a line says, ready to be put behind another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Up to where `hash` stands; no text for hash and previous.
    before: Vec<u8>,
    after: Vec<u8>,
    /// Where `previous` stands in `after`.
    previous_at: usize,
    content: Hash,
}

/// Why bytes are not a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineFault {
    Json(JsonError),
    /// A member is missing, too many, or not of its kind.
    Form(&'static str),
    /// A format that is newer than this.
    Newer(u64),
    /// It says something, but Sluice writes that otherwise.
    Spelling,
    /// Its own hash is not that of what it says.
    Hash,
}

impl fmt::Display for LineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LineFault::Json(error) => write!(f, "it is not JSON (column {}: {})", error.column, error.reason),
            LineFault::Form(what) => write!(f, "it is not a line of an audit file: {what}"),
            LineFault::Newer(format) => {
                write!(f, "it is of format {format}; this version of Sluice reads {FORMAT}: use a newer one")
            }
            LineFault::Spelling => f.write_str("it is spelled otherwise than it was written"),
            LineFault::Hash => f.write_str("its hash is not that of what it says: it was changed"),
        }
    }
}

impl std::error::Error for LineFault {}

impl Text {
    pub fn of_entry(outstanding: &Outstanding) -> Result<Text, LineFault> {
        let entry = json::parse(&outstanding.entry, ENTRY).map_err(LineFault::Json)?;
        if !entry.is_object() {
            return Err(LineFault::Form("`entry` is not an object"));
        }
        let Outstanding { environment, number, at, node, .. } = outstanding;
        Ok(Text::of_parts(
            &[("at", time(*at)?), ("entry", entry), ("environment", environment.as_str().into())],
            &[("node", node.as_str().into()), ("number", number.as_u64().into())],
            &[],
        ))
    }

    pub fn of_header(header: &Header) -> Result<Text, LineFault> {
        let highest: Map<String, Value> = header
            .highest
            .iter()
            .map(|(environment, number)| (environment.as_str().to_owned(), json!(number)))
            .collect();
        Ok(Text::of_parts(
            &[("at", time(header.at)?), ("format", FORMAT.into())],
            &[("highest", highest.into()), ("node", header.node.as_str().into())],
            &[("sequence", header.sequence.into())],
        ))
    }

    /// Members in the order of their names; `hash` would stand after the first part, `previous` after the second.
    fn of_parts(first: &[(&str, Value)], second: &[(&str, Value)], third: &[(&str, Value)]) -> Text {
        let mut before = Vec::new();
        members(first, &mut before);
        let mut after = Vec::new();
        members(second, &mut after);
        let previous_at = after.len();
        members(third, &mut after);
        let content = Hash::of(&[b"{", before.get(1..).unwrap_or_default(), &after, b"}"]);
        Text { before, after, previous_at, content }
    }

    /// Of what the line says, wherever it stands.
    pub fn content(&self) -> Hash {
        self.content
    }

    /// The hash that the line has behind that one.
    pub fn hash(&self, previous: Hash) -> Hash {
        Hash::of(&[previous.as_bytes(), b"{", self.before.get(1..).unwrap_or_default(), &self.after, b"}"])
    }

    /// Writes the line, with its end, and gives its hash.
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

    /// How many bytes the line takes, with its end.
    pub fn length(&self) -> usize {
        const TIES: usize = ",\"hash\":\"\",\"previous\":\"\"".len() + 2 * 64;
        self.before.len().saturating_add(self.after.len()).saturating_add(TIES).saturating_add(2)
    }
}

/// Each with a comma before it.
fn members(members: &[(&str, Value)], out: &mut Vec<u8>) {
    for (name, value) in members {
        out.extend_from_slice(format!(",\"{name}\":").as_bytes());
        out.extend_from_slice(&json::to_bytes(value));
    }
}

/// Microseconds, in UTC.
pub(super) fn time(at: StoreTime) -> Result<Value, LineFault> {
    let at = Timestamp::from_microsecond(at.as_micros()).map_err(|_| LineFault::Form("`at` is out of range"))?;
    Ok(format!("{at:.6}").into())
}

/// Reads a line without its end, strictly: only what [`Text::put_behind`] writes is one.
pub fn read_line(bytes: &[u8]) -> Result<Line, LineFault> {
    let value = json::parse(bytes, LINE).map_err(LineFault::Json)?;
    let Value::Object(mut members) = value else { return Err(LineFault::Form("it is not an object")) };
    if let Some(format) = members.get("format").and_then(Value::as_u64).filter(|format| *format > FORMAT) {
        return Err(LineFault::Newer(format));
    }
    let previous = hash(&members, "previous")?;
    let own = hash(&members, "hash")?;
    let body =
        if members.contains_key("entry") { Body::Entry(entry(&mut members)?) } else { Body::Header(header(&members)?) };
    let text = match &body {
        Body::Entry(outstanding) => Text::of_entry(outstanding)?,
        Body::Header(header) => Text::of_header(header)?,
    };
    let mut written = Vec::with_capacity(bytes.len().saturating_add(1));
    let hash = text.put_behind(previous, &mut written);
    if hash != own {
        return Err(LineFault::Hash);
    }
    if written.strip_suffix(b"\n") != Some(bytes) {
        return Err(LineFault::Spelling);
    }
    Ok(Line { previous, hash, content: text.content, body })
}

fn entry(members: &mut Map<String, Value>) -> Result<Outstanding, LineFault> {
    let environment = environment(text(members, "environment")?)?;
    let number = Number::new(number(members, "number")?);
    let (at, node) = (at(members)?, node(members)?);
    let entry = members.remove("entry").unwrap_or(Value::Null);
    Ok(Outstanding { environment, number, at, node, entry: Bytes::from(json::to_bytes(&entry)) })
}

fn header(members: &Map<String, Value>) -> Result<Header, LineFault> {
    if number(members, "format")? != FORMAT {
        return Err(LineFault::Form("`format` is unknown"));
    }
    let written = members.get("highest").and_then(Value::as_object).ok_or(LineFault::Form("`highest` is missing"))?;
    let mut highest = Highest::new();
    for name in written.keys() {
        highest.insert(environment(name)?, self::number(written, name)?);
    }
    Ok(Header { node: node(members)?, sequence: number(members, "sequence")?, at: at(members)?, highest })
}

pub(super) fn text<'m>(members: &'m Map<String, Value>, name: &str) -> Result<&'m str, LineFault> {
    members.get(name).and_then(Value::as_str).ok_or(LineFault::Form("a text is missing"))
}

pub(super) fn number(members: &Map<String, Value>, name: &str) -> Result<u64, LineFault> {
    members.get(name).and_then(Value::as_u64).ok_or(LineFault::Form("a number is missing"))
}

pub(super) fn hash(members: &Map<String, Value>, name: &str) -> Result<Hash, LineFault> {
    Hash::parse(text(members, name)?).ok_or(LineFault::Form("a hash is not 64 hexadecimal digits"))
}

pub(super) fn node(members: &Map<String, Value>) -> Result<NodeId, LineFault> {
    NodeId::parse(text(members, "node")?).ok_or(LineFault::Form("`node` is not the name of a node"))
}

pub(super) fn at(members: &Map<String, Value>) -> Result<StoreTime, LineFault> {
    let at: Timestamp = text(members, "at")?.parse().map_err(|_| LineFault::Form("`at` is not a time"))?;
    Ok(StoreTime::of_micros(at.as_microsecond()))
}

pub(super) fn environment(name: &str) -> Result<Environment, LineFault> {
    let found = Environment::ALL.into_iter().find(|environment| environment.as_str() == name);
    found.ok_or(LineFault::Form("`environment` is unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outstanding(entry: &'static str) -> Outstanding {
        Outstanding {
            environment: Environment::Sandbox,
            number: Number::new(7),
            at: StoreTime::of_micros(1_000_001),
            node: NodeId::parse("a").unwrap(),
            entry: Bytes::from_static(entry.as_bytes()),
        }
    }

    fn written(entry: &'static str) -> String {
        let mut out = Vec::new();
        Text::of_entry(&outstanding(entry)).unwrap().put_behind(Hash::NOTHING, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_is_canonical_json_and_reads_back() {
        let line = written(r#"{"what": "sending", "amount": 1.50, "a": "ä\u0041"}"#);
        let text = line.strip_suffix('\n').unwrap();
        let value = json::parse(text.as_bytes(), LINE).unwrap();
        assert_eq!(String::from_utf8(json::to_bytes(&value)).unwrap(), text);
        assert!(text.contains(r#""entry":{"a":"äA","amount":1.50,"what":"sending"}"#), "{text}");
        assert!(text.starts_with(r#"{"at":"1970-01-01T00:00:01.000001Z","#), "{text}");
        let read = read_line(text.as_bytes()).unwrap();
        assert_eq!(read.previous, Hash::NOTHING);
        let Body::Entry(entry) = read.body else { panic!("an entry") };
        assert_eq!((entry.number, &entry.entry[..12]), (Number::new(7), "{\"a\":\"äA\",\"".as_bytes()));
    }

    #[test]
    fn a_header_reads_back() {
        let header = Header {
            node: NodeId::parse("a").unwrap(),
            sequence: 2,
            at: StoreTime::of_micros(0),
            highest: Highest::from([(Environment::Production, 6)]),
        };
        let text = Text::of_header(&header).unwrap();
        let mut out = Vec::new();
        let hash = text.put_behind(Hash::of(&[b"x"]), &mut out);
        assert_eq!(out.len(), text.length());
        let read = read_line(out.strip_suffix(b"\n").unwrap()).unwrap();
        assert_eq!((read.hash, read.body), (hash, Body::Header(header)));
        let value = json::parse(&out, LINE).unwrap();
        assert_eq!([json::to_bytes(&value), b"\n".to_vec()].concat(), out);
    }

    #[test]
    fn another_spelling_another_hash_and_another_form_are_told_apart() {
        let line = written("{}");
        let text = line.strip_suffix('\n').unwrap();
        let fault = |changed: String| read_line(changed.as_bytes()).unwrap_err();
        assert_eq!(fault(text.replacen(',', ", ", 1)), LineFault::Spelling);
        assert_eq!(fault(text.replace("\"number\":7", "\"number\":8")), LineFault::Hash);
        assert_eq!(fault(text.replace("sandbox", "sandpit")), LineFault::Form("`environment` is unknown"));
        assert!(matches!(fault(text.replace('}', "")), LineFault::Json(_)));
        assert!(matches!(fault(format!("{{\"format\":2,{}", &text[1..])), LineFault::Newer(2)));
        assert_eq!(fault(text.replace("\"node\"", "\"more\":1,\"node\"")), LineFault::Spelling);
    }

    #[test]
    fn what_is_no_object_is_no_entry() {
        assert!(Text::of_entry(&outstanding("[]")).is_err());
        assert!(Text::of_entry(&outstanding("{")).is_err());
    }

    #[test]
    fn the_deepest_entry_can_be_read_again() {
        let deep = format!("{}1{}", "{\"a\":".repeat(64), "}".repeat(64));
        let line = written(Box::leak(deep.into_boxed_str()));
        assert!(read_line(line.strip_suffix('\n').unwrap().as_bytes()).is_ok());
    }
}
