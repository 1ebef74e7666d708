//! From the text of a file to its tables: which kinds there are, and the fields of each with their places.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use crate::base::finding::{Finding, nearest};
use crate::base::spanned::{self, Found, line_and_column};

/// A line and a column.
pub(super) type Place = (usize, usize);
pub(super) type Raw = spanned::Raw<Place>;

/// The kinds of tables that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Rate,
}

/// Each kind with its name.
pub(super) const KINDS: [(&str, Kind); 1] = [("rate", Kind::Rate)];

/// One table of a kind, as it stands in a file.
pub(super) struct Entry<'f> {
    pub kind: Kind,
    pub table: Table<'f>,
}

/// Fields that are taken out one by one; what is left at the end is known to nobody.
pub(super) struct Table<'f> {
    file: &'f str,
    pub place: Place,
    fields: BTreeMap<String, (Place, Found<Place>)>,
    /// Every name that was asked for.
    asked: Vec<&'static str>,
    findings: Vec<Finding>,
}

/// The tables of a file, in their order; what is no table of a known kind becomes a finding.
pub(super) fn entries<'f>(file: &'f str, text: &str, findings: &mut Vec<Finding>) -> Vec<Entry<'f>> {
    let place = |span: Range<usize>| line_and_column(text, span);
    let (tree, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        // What a broken text goes on to say is guesswork.
        findings.extend(errors.iter().map(|error| {
            let text = format!("this is not TOML: {}", error.message());
            located(Finding::error(file, text), place(error.span().unwrap_or_default()))
        }));
        return Vec::new();
    }
    let mut entries = Vec::new();
    for (key, value) in tree.get_ref() {
        let name = key.get_ref().as_ref();
        let Some((name, kind)) = KINDS.into_iter().find(|(known, _)| *known == name) else {
            findings.push(located(unknown(file, name), place(key.span())));
            continue;
        };
        let DeValue::Array(items) = value.get_ref() else {
            findings.push(located(not_listed(file, name), place(key.span())));
            continue;
        };
        for item in items {
            match item.get_ref() {
                DeValue::Table(fields) => {
                    let table = table(file, fields, &place, place(item.span()));
                    entries.push(Entry { kind, table });
                }
                _ => findings.push(located(not_listed(file, name), place(item.span()))),
            }
        }
    }
    entries.sort_by_key(|entry| entry.table.place);
    entries
}

fn table<'f>(file: &'f str, fields: &DeTable<'_>, place: &dyn Fn(Range<usize>) -> Place, at: Place) -> Table<'f> {
    let field = |(key, value): (&toml::Spanned<toml::de::DeString<'_>>, &toml::Spanned<DeValue<'_>>)| {
        let found = Found::of(value.get_ref(), place, place(value.span()));
        (key.get_ref().to_string(), (place(key.span()), found))
    };
    Table { file, place: at, fields: fields.iter().map(field).collect(), asked: Vec::new(), findings: Vec::new() }
}

fn unknown(file: &str, name: &str) -> Finding {
    let known = KINDS.map(|(name, _)| name);
    let listed = known.map(|name| format!("`[[{name}]]`")).join(", ");
    let remedy = match nearest(name, known) {
        Some(near) => format!("did you mean `[[{near}]]`?"),
        None => format!("there is: {listed}"),
    };
    Finding::error(file, format!("nothing in policies is called `{}`", name.escape_debug())).remedy(remedy)
}

fn not_listed(file: &str, name: &str) -> Finding {
    Finding::error(file, format!("`{name}` is written otherwise"))
        .remedy(format!("write `[[{name}]]` above each, and its fields below"))
}

fn located(finding: Finding, (line, column): Place) -> Finding {
    finding.at(format!("{line}:{column}"))
}

impl<'f> Table<'f> {
    /// Something wrong, and where.
    pub(super) fn fault(&mut self, place: Place, text: impl Into<String>, remedy: impl Into<String>) {
        self.findings.push(located(Finding::error(self.file, text).remedy(remedy), place));
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    /// Takes a field out.
    pub(super) fn take(&mut self, name: &'static str) -> Option<Found<Place>> {
        self.asked.push(name);
        self.fields.remove(name).map(|(_, found)| found)
    }

    pub(super) fn text(&mut self, name: &'static str) -> Option<(Place, String)> {
        let found = self.take(name)?;
        self.text_of(name, found)
    }

    pub(super) fn truth(&mut self, name: &'static str) -> Option<bool> {
        let found = self.take(name)?;
        match found.raw {
            Raw::Truth(truth) => Some(truth),
            other => self.wrong(name, found.place, &other, "`true` or `false`"),
        }
    }

    /// A list of texts, none of them twice; an empty one is a fault unless it may be `empty`.
    pub(super) fn texts(&mut self, name: &'static str, empty: bool) -> Option<Vec<(Place, String)>> {
        let found = self.take(name)?;
        let items = match found.raw {
            Raw::List(items) => items,
            other => return self.wrong(name, found.place, &other, "a list of texts"),
        };
        if items.is_empty() && !empty {
            self.fault(
                found.place,
                format!("`{name}` is empty: it would fit nothing"),
                "name at least one, or leave it out",
            );
            return None;
        }
        let mut texts: Vec<(Place, String)> = Vec::new();
        for item in items {
            let (place, text) = self.text_of(name, item)?;
            if texts.iter().any(|(_, other)| *other == text) {
                self.fault(place, format!("`{name}` names `{}` twice", text.escape_debug()), "take one of them out");
            }
            texts.push((place, text));
        }
        Some(texts)
    }

    /// One of these words.
    pub(super) fn choice<T: Copy>(&mut self, name: &'static str, words: &[(&str, T)]) -> Option<T> {
        let (place, text) = self.text(name)?;
        self.choice_of(name, place, &text, words)
    }

    pub(super) fn choice_of<T: Copy>(
        &mut self,
        name: &'static str,
        place: Place,
        text: &str,
        words: &[(&str, T)],
    ) -> Option<T> {
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            self.unknown_name(place, &format!("`{name}`"), text, words.iter().map(|(word, _)| *word));
        }
        found
    }

    /// A name that is none of these.
    pub(super) fn unknown_name<'n>(
        &mut self,
        place: Place,
        what: &str,
        text: &str,
        known: impl Iterator<Item = &'n str> + Clone,
    ) {
        let in_other_case = known.clone().find(|word| word.eq_ignore_ascii_case(text));
        let remedy = match in_other_case.or_else(|| nearest(text, known.clone())) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there is: {}", known.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")),
        };
        self.fault(place, format!("{what} cannot be `{}`", text.escape_debug()), remedy);
    }

    /// Ends the reading: what is left becomes findings. Whether nothing was wrong with the table.
    pub(super) fn end(mut self, findings: &mut Vec<Finding>) -> bool {
        for (name, (place, _)) in std::mem::take(&mut self.fields) {
            let remedy = match nearest(&name, self.asked.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the fields here are: {}", self.asked.join(", ")),
            };
            self.fault(place, format!("there is no field `{}`", name.escape_debug()), remedy);
        }
        let is_good = self.findings.is_empty();
        findings.append(&mut self.findings);
        is_good
    }

    fn text_of(&mut self, name: &'static str, found: Found<Place>) -> Option<(Place, String)> {
        match found.raw {
            Raw::Text(text) if text.is_empty() || text.trim() != text || text.contains(char::is_control) => {
                let fault = format!("`{name}` is empty, or has blanks at its ends or control characters");
                self.fault(found.place, fault, "take them out");
                None
            }
            Raw::Text(text) => Some((found.place, text)),
            other => self.wrong(name, found.place, &other, "a text"),
        }
    }

    fn wrong<T>(&mut self, name: &'static str, place: Place, raw: &Raw, expected: &str) -> Option<T> {
        self.fault(place, format!("`{name}`: {}", raw.instead_of(expected)), format!("write {expected}"));
        None
    }
}
