//! JSON as one list of its values, in the order of the text: names, texts and numbers are pieces of the text.
//!
//! A text of any size is read with a handful of allocations. The rules are those of [`super::parse`].

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Number, Value};

use super::limits::Limits;
use super::reader::{JsonError, JsonFaultKind, JsonReader};

/// Up to this many members, an object's names are compared one by one.
const FEW_MEMBERS: usize = 16;
/// The guess of how many bytes of a text make one value, and the most values that memory is reserved for.
const BYTES_A_VALUE: usize = 16;
const MAX_RESERVED: usize = 4096;

/// A text of JSON, read.
#[derive(Debug, Default)]
pub struct FlatJson<'t> {
    entries: Vec<FlatEntry<'t>>,
}

/// One value.
#[derive(Clone, Copy, Debug)]
pub enum FlatKind<'v> {
    Null,
    Bool(bool),
    /// As it is written.
    Number(&'v str),
    Text(&'v str),
    /// With the number of its items.
    Array(usize),
    /// With the number of its members.
    Object(usize),
}

/// A value in its list.
#[derive(Clone, Copy, Debug)]
pub struct FlatValue<'v> {
    entries: &'v [FlatEntry<'v>],
    at: usize,
}

/// The values in an array, or the members of an object with their names.
#[derive(Clone, Debug)]
pub struct FlatChildren<'v> {
    entries: &'v [FlatEntry<'v>],
    at: usize,
    end: usize,
}

#[derive(Clone, Debug)]
struct FlatEntry<'t> {
    /// The name of a member; empty elsewhere.
    name: Cow<'t, str>,
    stored: FlatStored<'t>,
    /// The place behind the value and all that is in it.
    end: usize,
}

#[derive(Clone, Debug)]
enum FlatStored<'t> {
    Null,
    Bool(bool),
    Number(&'t str),
    Text(Cow<'t, str>),
    Array(usize),
    Object(usize),
}

impl<'t> FlatJson<'t> {
    /// Reads one JSON value.
    pub fn parse(text: &'t [u8], limits: Limits) -> Result<FlatJson<'t>, JsonError> {
        let mut reader = JsonReader::new(text, limits)?;
        let mut flat = FlatJson { entries: Vec::with_capacity((text.len() / BYTES_A_VALUE).clamp(1, MAX_RESERVED)) };
        let read = reader.document(|reader| flat.value(reader, Cow::Borrowed("")));
        read.map_err(|reason| reader.fault(reason))?;
        Ok(flat)
    }

    /// Reads the beginning of a text that breaks off: the values that came, each object and array with as much of it as
    /// came. A number at the very end may be a part of one.
    pub fn parse_beginning(text: &'t [u8], limits: Limits) -> Result<FlatJson<'t>, JsonError> {
        let text = match str::from_utf8(text) {
            // The text breaks off inside a character.
            Err(error) if error.error_len().is_none() => text.get(..error.valid_up_to()).unwrap_or_default(),
            Ok(_) | Err(_) => text,
        };
        let mut reader = JsonReader::new(text, limits)?;
        let mut flat = FlatJson::default();
        match reader.document(|reader| flat.value(reader, Cow::Borrowed(""))) {
            Ok(()) | Err(JsonFaultKind::UnexpectedEnd) => Ok(flat),
            Err(reason) => Err(reader.fault(reason)),
        }
    }

    /// Makes this the JSON of one text.
    pub fn become_text(&mut self, text: &str) {
        self.entries.clear();
        self.entries.push(FlatEntry {
            name: Cow::Borrowed(""),
            stored: FlatStored::Text(Cow::Owned(text.to_owned())),
            end: 1,
        });
    }

    /// How many values it has.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    pub fn root(&self) -> FlatValue<'_> {
        FlatValue { entries: &self.entries, at: 0 }
    }

    fn value(&mut self, reader: &mut JsonReader<'t>, name: Cow<'t, str>) -> Result<(), JsonFaultKind> {
        let (at, first) = (self.entries.len(), reader.peek());
        self.entries.push(FlatEntry { name, stored: FlatStored::Null, end: at });
        let (stored, read) = match (self.stored(reader, first), first) {
            (Ok(stored), _) => (stored, Ok(())),
            // What came of it stays: the text may only break off.
            (Err(fault), Some(b'{')) => (FlatStored::Object(self.count_from(at)), Err(fault)),
            (Err(fault), Some(b'[')) => (FlatStored::Array(self.count_from(at)), Err(fault)),
            (Err(fault), _) => {
                self.entries.truncate(at);
                return Err(fault);
            }
        };
        let end = self.entries.len();
        if let Some(entry) = self.entries.get_mut(at) {
            (entry.stored, entry.end) = (stored, end);
        }
        read
    }

    fn stored(&mut self, reader: &mut JsonReader<'t>, first: Option<u8>) -> Result<FlatStored<'t>, JsonFaultKind> {
        Ok(match first.ok_or(JsonFaultKind::UnexpectedEnd)? {
            b'{' => FlatStored::Object(self.object(reader)?),
            b'[' => FlatStored::Array(self.array(reader)?),
            b'"' => FlatStored::Text(reader.string()?),
            b't' => reader.word(b"true").map(|()| FlatStored::Bool(true))?,
            b'f' => reader.word(b"false").map(|()| FlatStored::Bool(false))?,
            b'n' => reader.word(b"null").map(|()| FlatStored::Null)?,
            b'-' | b'0'..=b'9' => FlatStored::Number(reader.number()?),
            _ => return Err(JsonFaultKind::UnexpectedByte),
        })
    }

    /// How many items or members came behind the place of their array or object.
    fn count_from(&self, at: usize) -> usize {
        FlatChildren { entries: &self.entries, at: at.saturating_add(1), end: self.entries.len() }.count()
    }

    fn object(&mut self, reader: &mut JsonReader<'t>) -> Result<usize, JsonFaultKind> {
        let first = self.entries.len();
        let (mut count, mut many) = (0_usize, BTreeSet::new());
        reader.enter()?;
        while reader.next_item(count == 0, b'}')? {
            let so_far = FlatChildren { entries: &self.entries, at: first, end: self.entries.len() };
            let is_new = |name: &str| match count {
                0..=FEW_MEMBERS => so_far.clone().all(|(before, _)| before != name),
                _ => !many.contains(name),
            };
            let name = reader.name(is_new)?;
            if count == FEW_MEMBERS {
                many = self.names_from(first);
            }
            if count >= FEW_MEMBERS {
                many.insert(name.clone());
            }
            self.value(reader, name)?;
            count = count.saturating_add(1);
        }
        Ok(count)
    }

    fn names_from(&self, first: usize) -> BTreeSet<Cow<'t, str>> {
        let (mut names, mut at) = (BTreeSet::new(), first);
        while let Some(entry) = self.entries.get(at) {
            names.insert(entry.name.clone());
            at = entry.end;
        }
        names
    }

    fn array(&mut self, reader: &mut JsonReader<'t>) -> Result<usize, JsonFaultKind> {
        let mut count = 0_usize;
        reader.enter()?;
        while reader.next_item(count == 0, b']')? {
            self.value(reader, Cow::Borrowed(""))?;
            count = count.saturating_add(1);
        }
        Ok(count)
    }
}

impl<'v> FlatValue<'v> {
    pub fn kind(self) -> FlatKind<'v> {
        match self.entries.get(self.at).map(|entry| &entry.stored) {
            None | Some(FlatStored::Null) => FlatKind::Null,
            Some(FlatStored::Bool(is)) => FlatKind::Bool(*is),
            Some(FlatStored::Number(text)) => FlatKind::Number(text),
            Some(FlatStored::Text(text)) => FlatKind::Text(text),
            Some(FlatStored::Array(count)) => FlatKind::Array(*count),
            Some(FlatStored::Object(count)) => FlatKind::Object(*count),
        }
    }

    pub fn children(self) -> FlatChildren<'v> {
        let end = self.entries.get(self.at).map_or(0, |entry| entry.end);
        FlatChildren { entries: self.entries, at: self.at.saturating_add(1), end }
    }

    /// Returns the member of an object.
    pub fn member(self, name: &str) -> Option<FlatValue<'v>> {
        matches!(self.kind(), FlatKind::Object(_))
            .then(|| self.children())?
            .find(|(one, _)| *one == name)
            .map(|(_, v)| v)
    }

    /// Returns the item of an array.
    pub fn item(self, at: usize) -> Option<FlatValue<'v>> {
        matches!(self.kind(), FlatKind::Array(_)).then(|| self.children())?.nth(at).map(|(_, value)| value)
    }

    /// Builds the tree that [`super::parse`] builds.
    pub fn to_tree(self) -> Value {
        match self.kind() {
            FlatKind::Null => Value::Null,
            FlatKind::Bool(is) => Value::Bool(is),
            FlatKind::Number(text) => Value::Number(flat_number(text)),
            FlatKind::Text(text) => Value::String(text.to_owned()),
            FlatKind::Array(_) => self.children().map(|(_, item)| item.to_tree()).collect(),
            FlatKind::Object(_) => self.children().map(|(name, one)| (name.to_owned(), one.to_tree())).collect(),
        }
    }

    /// The address of the value, which no other living value has.
    pub fn address(self) -> usize {
        self.entries.get(self.at..).unwrap_or_default().as_ptr().addr()
    }
}

/// Returns the number of a text that was read as one.
pub fn flat_number(text: &str) -> Number {
    text.parse().unwrap_or_else(|_| Number::from(0))
}

impl<'v> Iterator for FlatChildren<'v> {
    type Item = (&'v str, FlatValue<'v>);

    fn next(&mut self) -> Option<Self::Item> {
        let value = FlatValue { entries: self.entries, at: self.at };
        let entry = if self.at < self.end { self.entries.get(self.at)? } else { return None };
        // A value that is being read has no end yet.
        self.at = entry.end.max(self.at.saturating_add(1));
        Some((&*entry.name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#" {"a":"1","b":{"c":[1,{"d":"\u00e4ä"},true],"e":null},"f":-12.5,"g":[],"h":"end"} "#;

    fn is_beginning(begun: FlatValue<'_>, whole: FlatValue<'_>) -> bool {
        match (begun.kind(), whole.kind()) {
            (FlatKind::Object(few), FlatKind::Object(all)) | (FlatKind::Array(few), FlatKind::Array(all)) => {
                let mut pairs = begun.children().zip(whole.children());
                few <= all
                    && begun.children().count() == few
                    && pairs.all(|((name, part), (other, all))| name == other && is_beginning(part, all))
            }
            (FlatKind::Number(part), FlatKind::Number(all)) => all.starts_with(part),
            _ => begun.to_tree() == whole.to_tree(),
        }
    }

    #[test]
    fn the_beginning_of_a_text_has_the_values_that_came() {
        let whole = FlatJson::parse(TEXT.as_bytes(), Limits::UPSTREAM).unwrap();
        let mut most = 0;
        for end in 0..=TEXT.len() {
            let beginning = TEXT.as_bytes().get(..end).unwrap();
            // One that breaks off in an escape or a number is not read.
            let Ok(begun) = FlatJson::parse_beginning(beginning, Limits::UPSTREAM) else { continue };
            assert!(begun.count() == 0 || is_beginning(begun.root(), whole.root()), "{end}: {begun:?}");
            most = most.max(begun.count());
        }
        assert_eq!(most, whole.count());
        let count = |text: &str| FlatJson::parse_beginning(text.as_bytes(), Limits::UPSTREAM).map(|flat| flat.count());
        assert_eq!(count(r#"{"a":{"b":"x""#), Ok(3));
        assert_eq!(count(r#"{"a":{"b":"x"#), Ok(2));
        assert_eq!(count(r#"{"a":"#), Ok(1));
        assert!(count("{\"a\":1}x").is_err() && count("{\"a\":1,\"a\"").is_err() && count("<html>").is_err());
    }
}
