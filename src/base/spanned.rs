//! TOML as it was written, each thing with its place: serde stops at the first fault, and people are to hear of all.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::DeValue;

/// Something written, before it is known whether it is of the right type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<P> {
    pub place: P,
    pub raw: Raw<P>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raw<P> {
    Text(String),
    /// Nothing where the number is too large, or below zero.
    Number(Option<u64>),
    Truth(bool),
    List(Vec<Found<P>>),
    Table(BTreeMap<String, Found<P>>),
    /// A type that nothing here takes.
    Other(&'static str),
}

impl<P> Found<P> {
    /// A value of the tree, and all that is in it; `place_of` makes places of spans.
    pub fn of(value: &DeValue<'_>, place_of: &dyn Fn(Range<usize>) -> P, place: P) -> Found<P> {
        let inner = |v: &Spanned<DeValue<'_>>| Found::of(v.get_ref(), place_of, place_of(v.span()));
        let raw = match value {
            DeValue::String(text) => Raw::Text(text.to_string()),
            DeValue::Integer(number) => Raw::Number(u64::from_str_radix(number.as_str(), number.radix()).ok()),
            DeValue::Boolean(truth) => Raw::Truth(*truth),
            DeValue::Array(items) => Raw::List(items.iter().map(inner).collect()),
            DeValue::Table(table) => {
                Raw::Table(table.iter().map(|(k, v)| (k.get_ref().to_string(), inner(v))).collect())
            }
            DeValue::Float(_) => Raw::Other("a number with a fraction"),
            DeValue::Datetime(_) => Raw::Other("a date or time"),
        };
        Found { place, raw }
    }
}

impl<P> Raw<P> {
    /// The same for the same, wherever it stands.
    pub fn plainly(&self) -> String {
        match self {
            Raw::Text(text) => format!("{text:?}"),
            Raw::Number(number) => format!("{number:?}"),
            Raw::Truth(truth) => truth.to_string(),
            Raw::List(items) => items.iter().map(|item| format!("{},", item.raw.plainly())).collect(),
            Raw::Table(table) => table.iter().map(|(key, item)| format!("{key:?}={},", item.raw.plainly())).collect(),
            Raw::Other(word) => (*word).to_owned(),
        }
    }

    /// What is wrong where something else was expected.
    pub fn instead_of(&self, expected: &str) -> String {
        let written = match self {
            Raw::Text(_) => "a text",
            Raw::Number(_) => "a number",
            Raw::Truth(_) => "`true` or `false`",
            Raw::List(_) => "a list",
            Raw::Table(_) => "a table",
            Raw::Other(word) => word,
        };
        format!("{written} is written; {expected} is expected")
    }
}

/// Where the lines of a text begin, so that places in a long one are found at once.
#[derive(Debug)]
pub struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub fn of(text: &'t str) -> Lines<'t> {
        let after = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at.saturating_add(1));
        Lines { text, starts: [0].into_iter().chain(after).collect() }
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
    Lines::of(text).place(span)
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
