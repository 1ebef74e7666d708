//! TOML with the place of each value: serde stops at the first fault, and people are to hear of all.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::DeValue;

/// A written value before its type is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpannedValue<P> {
    pub place: P,
    pub raw: SpannedRaw<P>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpannedRaw<P> {
    Text(String),
    /// `None` where the number is too large or negative.
    Number(Option<u64>),
    Truth(bool),
    List(Vec<SpannedValue<P>>),
    Table(BTreeMap<String, SpannedValue<P>>),
    /// A type that no setting has.
    Other(&'static str),
}

impl<P> SpannedValue<P> {
    /// Converts a value and everything in it; `place_of` turns spans into places.
    pub fn of(value: &DeValue<'_>, place_of: &dyn Fn(Range<usize>) -> P, place: P) -> SpannedValue<P> {
        let inner = |v: &Spanned<DeValue<'_>>| SpannedValue::of(v.get_ref(), place_of, place_of(v.span()));
        let raw = match value {
            DeValue::String(text) => SpannedRaw::Text(text.to_string()),
            DeValue::Integer(number) => SpannedRaw::Number(u64::from_str_radix(number.as_str(), number.radix()).ok()),
            DeValue::Boolean(truth) => SpannedRaw::Truth(*truth),
            DeValue::Array(items) => SpannedRaw::List(items.iter().map(inner).collect()),
            DeValue::Table(table) => {
                SpannedRaw::Table(table.iter().map(|(k, v)| (k.get_ref().to_string(), inner(v))).collect())
            }
            DeValue::Float(_) => SpannedRaw::Other("a number with a fraction"),
            DeValue::Datetime(_) => SpannedRaw::Other("a date or time"),
        };
        SpannedValue { place, raw }
    }
}

impl<P> SpannedRaw<P> {
    /// A text that is equal for equal values, wherever they stand.
    pub fn plainly(&self) -> String {
        match self {
            SpannedRaw::Text(text) => format!("{text:?}"),
            SpannedRaw::Number(number) => format!("{number:?}"),
            SpannedRaw::Truth(truth) => truth.to_string(),
            SpannedRaw::List(items) => items.iter().map(|item| format!("{},", item.raw.plainly())).collect(),
            SpannedRaw::Table(table) => {
                table.iter().map(|(key, item)| format!("{key:?}={},", item.raw.plainly())).collect()
            }
            SpannedRaw::Other(word) => (*word).to_owned(),
        }
    }

    /// The fault where another type was expected.
    pub fn instead_of(&self, expected: &str) -> String {
        let written = match self {
            SpannedRaw::Text(_) => "a text",
            SpannedRaw::Number(_) => "a number",
            SpannedRaw::Truth(_) => "`true` or `false`",
            SpannedRaw::List(_) => "a list",
            SpannedRaw::Table(_) => "a table",
            SpannedRaw::Other(word) => word,
        };
        format!("{written} is written; {expected} is expected")
    }
}

/// How many bytes are counted at most to find a place.
const MARK_EVERY: usize = 256;

/// The line starts of a text, and marks in it, so that places are found fast in many lines and in long ones.
#[derive(Debug)]
pub struct LineIndex<'t> {
    text: &'t str,
    starts: Vec<usize>,
    /// The number of characters before each [`MARK_EVERY`] bytes.
    marks: Vec<usize>,
}

impl<'t> LineIndex<'t> {
    pub fn of(text: &'t str) -> LineIndex<'t> {
        let after = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at.saturating_add(1));
        let mut marks = vec![0_usize];
        for piece in text.as_bytes().chunks(MARK_EVERY) {
            let before = marks.last().copied().unwrap_or(0);
            marks.push(before.saturating_add(characters(piece)));
        }
        LineIndex { text, starts: [0].into_iter().chain(after).collect(), marks }
    }

    /// The line and the column where a span starts, counted from 1.
    pub fn place(&self, span: Range<usize>) -> (usize, usize) {
        let at = span.start.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= at);
        let start = line.checked_sub(1).and_then(|line| self.starts.get(line)).copied().unwrap_or(0);
        (line, self.characters_before(at).saturating_sub(self.characters_before(start)).saturating_add(1))
    }

    fn characters_before(&self, at: usize) -> usize {
        let mark = at.checked_div(MARK_EVERY).unwrap_or(0);
        let rest = self.text.as_bytes().get(mark.saturating_mul(MARK_EVERY)..at).unwrap_or_default();
        self.marks.get(mark).copied().unwrap_or(0).saturating_add(characters(rest))
    }
}

/// Counts the characters that begin in a piece of UTF-8.
fn characters(piece: &[u8]) -> usize {
    piece.iter().filter(|byte| (**byte & 0b1100_0000) != 0b1000_0000).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_and_by_characters() {
        let text = "ab\nüx\n\nz";
        for (at, place) in [(0, (1, 1)), (2, (1, 3)), (3, (2, 1)), (5, (2, 2)), (7, (3, 1)), (8, (4, 1)), (99, (4, 2))]
        {
            assert_eq!(LineIndex::of(text).place(at..at), place, "{at}");
        }
    }

    /// A list of a hundred thousand names may be one line.
    #[test]
    fn columns_of_long_lines_are_those_of_counting() {
        let text = format!("x\n{}\ny", "aü€𝄞".repeat(3_000));
        let lines = LineIndex::of(&text);
        for (at, _) in text.char_indices().chain([(text.len(), 'x')]).step_by(7) {
            let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
            let line = text[..at].matches('\n').count() + 1;
            assert_eq!(lines.place(at..at), (line, text[start..at].chars().count() + 1), "{at}");
        }
        assert!(lines.marks.len() > 5);
    }
}
