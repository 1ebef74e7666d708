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

/// The line starts of a text, so that places are found fast.
#[derive(Debug)]
pub struct LineIndex<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> LineIndex<'t> {
    pub fn of(text: &'t str) -> LineIndex<'t> {
        let after = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at.saturating_add(1));
        LineIndex { text, starts: [0].into_iter().chain(after).collect() }
    }

    /// The line and the column where a span starts, counted from 1.
    pub fn place(&self, span: Range<usize>) -> (usize, usize) {
        let at = span.start.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= at);
        let start = line.checked_sub(1).and_then(|line| self.starts.get(line)).copied().unwrap_or(0);
        let before = self.text.get(start..at).unwrap_or_default();
        (line, before.chars().count().saturating_add(1))
    }
}

/// The line and the column where a span starts, counted from 1.
pub fn line_and_column(text: &str, span: Range<usize>) -> (usize, usize) {
    LineIndex::of(text).place(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_and_by_characters() {
        let text = "ab\nüx\n\nz";
        for (at, place) in [(0, (1, 1)), (2, (1, 3)), (3, (2, 1)), (5, (2, 2)), (7, (3, 1)), (8, (4, 1)), (99, (4, 2))]
        {
            assert_eq!(line_and_column(text, at..at), place, "{at}");
        }
    }
}
