//! From the text of a file to its tables: which kinds there are, and the fields of each with their places.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use crate::base::finding::{Finding, nearest};
use crate::base::spanned::{self, Found, Lines};

/// A line and a column.
pub(super) type Place = (usize, usize);
pub(super) type Raw = spanned::Raw<Place>;

/// The kinds of tables that there are, in the order in which they are read: each names only what stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Rate,
    Asset,
    Value,
    Group,
    List,
    Approval,
    Rule,
    Limit,
    Invariant,
    Test,
}

/// How the tables of a kind are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `[[kind]]`, any number of them.
    Listed,
    /// `[kind.name]`.
    Named,
    /// `[kind]`.
    Single,
}

/// Each kind with its name.
pub(super) const KINDS: [(&str, Kind, Form); 10] = [
    ("rate", Kind::Rate, Form::Listed),
    ("rule", Kind::Rule, Form::Listed),
    ("limit", Kind::Limit, Form::Listed),
    ("approval", Kind::Approval, Form::Named),
    ("group", Kind::Group, Form::Named),
    ("list", Kind::List, Form::Named),
    ("asset", Kind::Asset, Form::Named),
    ("value", Kind::Value, Form::Single),
    ("invariant", Kind::Invariant, Form::Listed),
    ("test", Kind::Test, Form::Listed),
];

impl Kind {
    pub(super) fn as_str(self) -> &'static str {
        KINDS.iter().find(|(_, kind, _)| *kind == self).map_or("", |(name, _, _)| name)
    }
}

impl Form {
    /// The heading of a table.
    fn written(self, name: &str) -> String {
        match self {
            Form::Listed => format!("[[{name}]]"),
            Form::Named => format!("[{name}.NAME]"),
            Form::Single => format!("[{name}]"),
        }
    }
}

/// One table of a kind, as it stands in a file.
pub(super) struct Entry<'f> {
    pub file: &'f str,
    pub kind: Kind,
    /// What stands behind the kind in `[kind.name]`.
    pub name: String,
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
    let lines = Lines::of(text);
    let place = |span: Range<usize>| lines.place(span);
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
        let Some((name, kind, form)) = KINDS.into_iter().find(|(known, _, _)| *known == name) else {
            findings.push(located(unknown(file, name), place(key.span())));
            continue;
        };
        let mut add = |name: &str, at: Place, value: &DeValue<'_>| match value {
            DeValue::Table(fields) => {
                let table = table(file, fields, &place, at);
                entries.push(Entry { file, kind, name: name.to_owned(), table });
                None
            }
            _ => Some(at),
        };
        let wrong: Vec<Place> = match (form, value.get_ref()) {
            (Form::Listed, DeValue::Array(items)) => {
                items.iter().filter_map(|item| add("", place(item.span()), item.get_ref())).collect()
            }
            (Form::Named, DeValue::Table(named)) => {
                named.iter().filter_map(|(key, value)| add(key.get_ref(), place(key.span()), value.get_ref())).collect()
            }
            (Form::Single, value) => add("", place(key.span()), value).into_iter().collect(),
            _ => vec![place(key.span())],
        };
        findings.extend(wrong.into_iter().map(|at| located(otherwise(file, name, form), at)));
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
    let listed = KINDS.map(|(name, _, form)| format!("`{}`", form.written(name))).join(", ");
    let near = nearest(name, KINDS.map(|(name, _, _)| name));
    let remedy = match KINDS.into_iter().find(|(known, _, _)| Some(*known) == near) {
        Some((near, _, form)) => format!("did you mean `{}`?", form.written(near)),
        None => format!("there is: {listed}"),
    };
    Finding::error(file, format!("nothing in policies is called `{}`", name.escape_debug())).remedy(remedy)
}

fn otherwise(file: &str, name: &str, form: Form) -> Finding {
    Finding::error(file, format!("`{name}` is written otherwise"))
        .remedy(format!("write `{}` above each, and its fields below", form.written(name)))
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

    /// A table inside of this one; its own end is told to [`Table::include`].
    pub(super) fn nested(&mut self, name: &'static str) -> Option<Table<'f>> {
        let found = self.take(name)?;
        self.nested_of(name, found)
    }

    pub(super) fn nested_of(&mut self, name: &str, found: Found<Place>) -> Option<Table<'f>> {
        match found.raw {
            Raw::Table(fields) => {
                let fields = fields.into_iter().map(|(name, found)| (name, (found.place, found))).collect();
                Some(Table { file: self.file, place: found.place, fields, asked: Vec::new(), findings: Vec::new() })
            }
            other => self.wrong(name, found.place, &other, "a table"),
        }
    }

    /// Ends a table inside of this one.
    pub(super) fn include(&mut self, nested: Table<'_>) {
        nested.end(&mut self.findings);
    }

    /// Takes out all that was not asked for yet.
    pub(super) fn rest(&mut self) -> Vec<(String, Found<Place>)> {
        std::mem::take(&mut self.fields).into_iter().map(|(name, (_, found))| (name, found)).collect()
    }

    /// A whole number from one to another.
    pub(super) fn number(&mut self, name: &'static str, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
        let found = self.take(name)?;
        match found.raw {
            Raw::Number(Some(number)) if range.contains(&number) => Some(number),
            Raw::Number(_) => {
                let remedy = format!("write {} to {}", range.start(), range.end());
                self.fault(found.place, format!("`{name}` is out of range"), remedy);
                None
            }
            other => self.wrong(name, found.place, &other, "a whole number"),
        }
    }

    /// A field that must be there; `read` says what is wrong if it is there and wrong.
    pub(super) fn required<T>(
        &mut self,
        name: &'static str,
        remedy: &str,
        read: impl FnOnce(&mut Table<'f>, &'static str) -> Option<T>,
    ) -> Option<T> {
        if !self.has(name) {
            let place = self.place;
            self.take(name);
            self.fault(place, format!("`{name}` is missing"), remedy);
            return None;
        }
        read(self, name)
    }

    /// A text, or a list of them: each with its place.
    pub(super) fn one_or_more(&mut self, name: &'static str) -> Option<Vec<(Place, String)>> {
        let found = self.take(name)?;
        self.one_or_more_of(name, found)
    }

    pub(super) fn one_or_more_of(&mut self, name: &str, found: Found<Place>) -> Option<Vec<(Place, String)>> {
        match found.raw {
            Raw::Text(_) => self.text_of(name, found).map(|text| vec![text]),
            Raw::List(items) if items.is_empty() => {
                let fault = format!("`{name}` is empty: it would fit nothing");
                self.fault(found.place, fault, "name at least one, or leave it out");
                None
            }
            Raw::List(items) => items.into_iter().map(|item| self.text_of(name, item)).collect(),
            other => self.wrong(name, found.place, &other, "a text, or a list of texts"),
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

    fn text_of(&mut self, name: &str, found: Found<Place>) -> Option<(Place, String)> {
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

    pub(super) fn wrong<T>(&mut self, name: &str, place: Place, raw: &Raw, expected: &str) -> Option<T> {
        self.fault(place, format!("`{name}`: {}", raw.instead_of(expected)), format!("write {expected}"));
        None
    }
}
