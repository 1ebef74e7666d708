//! Writes typed values in the one form of JSON (see [`super::to_bytes`]), without building a tree.
//!
//! A type writes its members in the order of its fields; they are sorted in the text.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use serde::Serialize;

use super::reader::FORMAT;

/// The text of a value that JSON cannot write; no reader takes it for one.
const NOTHING: &str = "null";
/// How long the texts of most values are.
const TYPICAL_BYTES: usize = 1024;
/// How many members most values have in an object and those around it.
const TYPICAL_MEMBERS: usize = 32;

/// Writes a typed value as [`super::to_bytes`] writes a tree. The type must have text as the names of its maps; a value
/// of any other type is written as `null`, which no reader takes for it.
pub fn to_form<T: Serialize>(value: &T) -> String {
    sort_members(&written(value))
}

/// Writes a record: the members of a struct, and the number of its format.
pub fn to_record<T: Serialize>(value: &T, format: u64) -> String {
    let mut text = written(value);
    if text.starts_with('{') && text.pop().is_some() {
        let tie = if text.len() > 1 { "," } else { "" };
        // Writing to a text does not fail.
        write!(text, "{tie}\"{FORMAT}\":{format}}}").unwrap_or_default();
    }
    sort_members(&text)
}

/// Adds a member to the text of an object without its braces: the name, the value, and a comma.
pub fn put_member<T: Serialize>(name: &str, value: &T, members: &mut Vec<u8>) {
    let before = members.len();
    let put = serde_json::to_writer(&mut *members, name).and_then(|()| {
        members.push(b':');
        serde_json::to_writer(&mut *members, value)
    });
    match put {
        Ok(()) => members.push(b','),
        // Part of it may be written.
        Err(_) => members.truncate(before),
    }
}

/// Returns the object that has the members which [`put_member`] wrote.
pub fn object_of(members: &[u8]) -> String {
    let mut text = String::with_capacity(members.len().saturating_add(2));
    text.push('{');
    text.push_str(std::str::from_utf8(members.strip_suffix(b",").unwrap_or(members)).unwrap_or_default());
    text.push('}');
    sort_members(&text)
}

fn written<T: Serialize>(value: &T) -> String {
    let mut text = Vec::with_capacity(TYPICAL_BYTES);
    match serde_json::to_writer(&mut text, value) {
        Ok(()) => String::from_utf8(text).unwrap_or_else(|_| NOTHING.to_owned()),
        Err(_) => NOTHING.to_owned(),
    }
}

/// Sorts the members of each object by name, in a text without spaces. Of two with one name the last stays.
fn sort_members(text: &str) -> String {
    let (out, members) = (String::with_capacity(text.len()), Vec::with_capacity(TYPICAL_MEMBERS));
    let mut sorter = MemberSorter { text, at: 0, out, members, unsorted: String::new() };
    match sorter.value() {
        Some(()) if sorter.at == text.len() => sorter.out,
        _ => NOTHING.to_owned(),
    }
}

struct MemberSorter<'t> {
    text: &'t str,
    /// The offset in bytes. Slices of the text begin and end beside an ASCII character.
    at: usize,
    out: String,
    /// The members of the objects around, those of the innermost one last: where each stands in `out`.
    members: Vec<(Cow<'t, str>, Range<usize>)>,
    /// The members of the object that is being written again, as they stood.
    unsorted: String,
}

impl<'t> MemberSorter<'t> {
    fn value(&mut self) -> Option<()> {
        match self.peek()? {
            b'{' => self.object(),
            b'[' => self.array(),
            b'"' => {
                let text = self.string()?;
                self.out.push_str(text);
                Some(())
            }
            _ => {
                let rest = self.text.get(self.at..)?;
                let length = rest.find([',', ']', '}']).unwrap_or(rest.len());
                let word = self.take_bytes(length)?;
                self.out.push_str(word);
                Some(())
            }
        }
    }

    fn object(&mut self) -> Option<()> {
        self.take(b'{')?;
        self.out.push('{');
        let (start, first) = (self.out.len(), self.members.len());
        while self.take(b'}').is_none() {
            if self.members.len() > first {
                self.take(b',')?;
                self.out.push(',');
            }
            let from = self.out.len();
            let name = self.string()?;
            self.take(b':')?;
            self.out.push_str(name);
            self.out.push(':');
            self.value()?;
            self.members.push((unescaped(name)?, from..self.out.len()));
        }
        if !self.members.get(first..)?.is_sorted_by(|(one, _), (next, _)| one < next) {
            self.rewrite(start, first)?;
        }
        self.members.truncate(first);
        self.out.push('}');
        Some(())
    }

    /// Writes the members of an object again, in order: those behind the first ones, which stand in `out` from `start` on.
    fn rewrite(&mut self, start: usize, first: usize) -> Option<()> {
        let MemberSorter { out, members, unsorted, .. } = self;
        let members = members.get_mut(first..)?;
        members.reverse();
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        unsorted.clear();
        unsorted.push_str(out.get(start..)?);
        out.truncate(start);
        let mut before = None;
        for (name, range) in members.iter() {
            if before == Some(name) {
                continue;
            }
            if before.is_some() {
                out.push(',');
            }
            let range = range.start.checked_sub(start)?..range.end.checked_sub(start)?;
            out.push_str(unsorted.get(range)?);
            before = Some(name);
        }
        Some(())
    }

    fn array(&mut self) -> Option<()> {
        self.take(b'[')?;
        self.out.push('[');
        let mut is_first = true;
        while self.take(b']').is_none() {
            if !is_first {
                self.take(b',')?;
                self.out.push(',');
            }
            self.value()?;
            is_first = false;
        }
        self.out.push(']');
        Some(())
    }

    /// Steps over a string, and returns it with its quotes.
    fn string(&mut self) -> Option<&'t str> {
        let bytes = self.text.as_bytes().get(self.at..)?;
        if bytes.first() != Some(&b'"') {
            return None;
        }
        let mut length = 1_usize;
        loop {
            match bytes.get(length)? {
                b'"' => return self.take_bytes(length.checked_add(1)?),
                b'\\' => length = length.checked_add(2)?,
                _ => length = length.checked_add(1)?,
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek() == Some(byte)).then(|| self.at = self.at.saturating_add(1))
    }

    fn take_bytes(&mut self, length: usize) -> Option<&'t str> {
        let end = self.at.checked_add(length)?;
        let taken = self.text.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }
}

/// Returns what a string stands for.
fn unescaped(string: &str) -> Option<Cow<'_, str>> {
    if string.contains('\\') {
        return serde_json::from_str(string).ok().map(Cow::Owned);
    }
    string.strip_prefix('"')?.strip_suffix('"').map(Cow::Borrowed)
}
