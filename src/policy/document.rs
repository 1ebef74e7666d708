//! Parses the text of a file into its tables, and their fields with their places.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::field_form::{FieldValue, PolicyField, PolicyTable};
use super::value_kind::{Form, ValueKind};
use crate::base::finding::{Finding, TOML_REMEDY, nearest};
use crate::base::json::written_as::base64url;
use crate::base::spanned::{self, LineIndex, SpannedValue};
use crate::base::visible::is_invisible;

/// A line and a column.
pub(super) type PolicyPlace = (usize, usize);
pub(super) type RawItem = spanned::SpannedRaw<PolicyPlace>;

/// What to do about a name that a table has twice.
const ONCE_REMEDY: &str = "a table has each name once: remove one of both, or make one of them another table";

/// One table of a kind, as written in a file.
pub(super) struct DocumentEntry<'f> {
    pub file: &'f str,
    pub kind: ValueKind,
    /// The name after the kind in `[kind.name]`.
    pub name: String,
    pub table: DocumentTable<'f>,
}

/// A table whose fields are taken out one by one; what is left at the end is unknown.
pub(super) struct DocumentTable<'f> {
    file: &'f str,
    pub place: PolicyPlace,
    fields: BTreeMap<String, (PolicyPlace, SpannedValue<PolicyPlace>)>,
    /// Every field name that was requested.
    asked: Vec<&'static str>,
    /// The fields that it may have.
    form: &'static PolicyTable,
    findings: Vec<Finding>,
}

/// Returns the tables of a file, in order; everything that is not a table of a known kind becomes a finding.
pub(super) fn entries<'f>(
    file: &'f str,
    text: &str,
    form_of: fn(ValueKind) -> &'static PolicyTable,
    findings: &mut Vec<Finding>,
) -> Vec<DocumentEntry<'f>> {
    let lines = LineIndex::of(text);
    let place = |span: Range<usize>| lines.place(span);
    if let Some(at) = lone_return(text) {
        let finding = Finding::error(file, "a line ends with a carriage return alone, which TOML does not have");
        findings.push(located(finding.remedy("save the file with the line ends of Unix or Windows"), place(at..at)));
        return Vec::new();
    }
    let (tree, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        // The rest of a broken text cannot be read reliably.
        let mut told = HashSet::new();
        let errors = errors.iter().filter(|error| told.insert((error.message(), error.span())));
        findings.extend(errors.map(|error| {
            let text = format!("the file is not valid TOML: {}", error.message());
            let is_double = error.message().starts_with("duplicate key");
            let remedy = if is_double { ONCE_REMEDY } else { TOML_REMEDY };
            located(Finding::error(file, text).remedy(remedy), place(error.span().unwrap_or_default()))
        }));
        return Vec::new();
    }
    let mut entries = Vec::new();
    for (key, value) in tree.get_ref() {
        let name = key.get_ref().as_ref();
        let Some(kind) = ValueKind::parse(name) else {
            findings.push(located(unknown(file, name), place(key.span())));
            continue;
        };
        let mut add = |name: &str, at: PolicyPlace, value: &DeValue<'_>| match value {
            DeValue::Table(fields) => {
                let table = table(file, fields, &place, at, form_of(kind));
                entries.push(DocumentEntry { file, kind, name: name.to_owned(), table });
                None
            }
            _ => Some(at),
        };
        let wrong: Vec<PolicyPlace> = match (kind.form(), value.get_ref()) {
            (Form::Listed, DeValue::Array(items)) => {
                items.iter().filter_map(|item| add("", place(item.span()), item.get_ref())).collect()
            }
            (Form::Named, DeValue::Table(named)) => {
                named.iter().filter_map(|(key, value)| add(key.get_ref(), place(key.span()), value.get_ref())).collect()
            }
            (Form::Single, value) => add("", place(key.span()), value).into_iter().collect(),
            _ => vec![place(key.span())],
        };
        findings.extend(wrong.into_iter().map(|at| located(otherwise(file, kind), at)));
    }
    entries.sort_by_key(|entry| entry.table.place);
    entries
}

/// Returns the place of the first line end that is only a carriage return, as old editors write it.
fn lone_return(text: &str) -> Option<usize> {
    let returns = text.match_indices('\r').map(|(at, _)| at);
    let mut alone = returns.filter(|at| !text.get(*at..).is_some_and(|rest| rest.starts_with("\r\n")));
    alone.next()
}

fn table<'f>(
    file: &'f str,
    fields: &DeTable<'_>,
    place: &dyn Fn(Range<usize>) -> PolicyPlace,
    at: PolicyPlace,
    form: &'static PolicyTable,
) -> DocumentTable<'f> {
    let field = |(key, value): (&toml::Spanned<toml::de::DeString<'_>>, &toml::Spanned<DeValue<'_>>)| {
        let found = SpannedValue::of(value.get_ref(), place, place(value.span()));
        (key.get_ref().to_string(), (place(key.span()), found))
    };
    DocumentTable {
        file,
        place: at,
        fields: fields.iter().map(field).collect(),
        asked: Vec::new(),
        form,
        findings: Vec::new(),
    }
}

fn unknown(file: &str, name: &str) -> Finding {
    let listed = ValueKind::ALL.map(|kind| format!("`{}`", kind.heading())).join(", ");
    let near = nearest(name, ValueKind::ALL.map(ValueKind::as_str));
    let remedy = match near.and_then(ValueKind::parse) {
        Some(near) => format!("did you mean `{}`?", near.heading()),
        None => format!("there is: {listed}"),
    };
    Finding::error(file, format!("policies have no table `{}`", name.escape_debug())).remedy(remedy)
}

fn otherwise(file: &str, kind: ValueKind) -> Finding {
    Finding::error(file, format!("`{kind}` has the wrong form"))
        .remedy(format!("write `{}` above each, and its fields below", kind.heading()))
}

fn located(finding: Finding, (line, column): PolicyPlace) -> Finding {
    finding.at(format!("{line}:{column}"))
}

impl<'f> DocumentTable<'f> {
    /// Adds an error with its place.
    pub(super) fn fault(&mut self, place: PolicyPlace, text: impl Into<String>, remedy: impl Into<String>) {
        self.findings.push(located(Finding::error(self.file, text).remedy(remedy), place));
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    /// Whether an unknown field is probably this one, misspelt. It is reported as unknown, and nothing follows from it.
    pub(super) fn has_misspelt(&self, name: &str) -> bool {
        let known = || self.form.all_fields().map(|field| field.name);
        self.fields
            .keys()
            .any(|written| known().all(|known| known != written) && nearest(written, known()) == Some(name))
    }

    /// Whether every field was taken out, so that none is unknown.
    pub(super) fn is_used_up(&self) -> bool {
        self.fields.is_empty()
    }

    /// Returns the text of a field that stays.
    pub(super) fn peek(&self, name: &str) -> Option<&str> {
        match self.fields.get(name).map(|(_, found)| &found.raw) {
            Some(RawItem::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns the lists and classes that its texts refer to as `@NAME`, at any depth.
    pub(super) fn references(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut left: Vec<&RawItem> = self.fields.values().map(|(_, value)| &value.raw).collect();
        while let Some(item) = left.pop() {
            match item {
                RawItem::Text(text) => found.extend(text.strip_prefix('@').map(str::to_owned)),
                RawItem::List(items) => left.extend(items.iter().map(|item| &item.raw)),
                RawItem::Table(fields) => left.extend(fields.values().map(|value| &value.raw)),
                RawItem::Number(_) | RawItem::Truth(_) | RawItem::Other(_) => {}
            }
        }
        found
    }

    /// Returns the items of a list that stays.
    pub(super) fn items(&self, name: &str) -> Option<Vec<SpannedValue<PolicyPlace>>> {
        match self.fields.get(name).map(|(_, found)| &found.raw) {
            Some(RawItem::List(items)) => Some(items.clone()),
            _ => None,
        }
    }

    /// Takes a field out.
    pub(super) fn take(&mut self, name: &'static str) -> Option<SpannedValue<PolicyPlace>> {
        self.asked.push(name);
        self.fields.remove(name).map(|(_, found)| found)
    }

    pub(super) fn text(&mut self, name: &'static str) -> Option<(PolicyPlace, String)> {
        let found = self.take(name)?;
        self.text_of(name, found)
    }

    /// Takes a text of at most so many bytes in base64url.
    pub(super) fn base64url(&mut self, name: &'static str, most: usize) -> Option<(PolicyPlace, String)> {
        let (place, text) = self.text(name)?;
        let is_good = base64url::decoded(&text).is_some_and(|bytes| bytes.len() <= most);
        if !is_good {
            self.fault(place, format!("`{name}` is not base64url without padding"), "copy it again");
        }
        is_good.then_some((place, text))
    }

    pub(super) fn truth(&mut self, name: &'static str) -> Option<bool> {
        let found = self.take(name)?;
        match found.raw {
            RawItem::Truth(truth) => Some(truth),
            other => self.wrong(name, found.place, &other, "`true` or `false`"),
        }
    }

    /// Takes out an inner table; [`DocumentTable::include`] ends it.
    pub(super) fn nested(&mut self, name: &'static str) -> Option<DocumentTable<'f>> {
        let found = self.take(name)?;
        self.nested_of(name, found)
    }

    pub(super) fn nested_of(&mut self, name: &str, found: SpannedValue<PolicyPlace>) -> Option<DocumentTable<'f>> {
        match found.raw {
            RawItem::Table(fields) => {
                let fields = fields.into_iter().map(|(name, found)| (name, (found.place, found))).collect();
                Some(DocumentTable {
                    file: self.file,
                    place: found.place,
                    fields,
                    asked: Vec::new(),
                    form: self.form.inside(name),
                    findings: Vec::new(),
                })
            }
            other => self.wrong(name, found.place, &other, "a table"),
        }
    }

    /// Ends an inner table.
    pub(super) fn include(&mut self, nested: DocumentTable<'_>) {
        nested.end(&mut self.findings);
    }

    /// Takes out all fields that were not requested yet.
    pub(super) fn rest(&mut self) -> Vec<(String, SpannedValue<PolicyPlace>)> {
        std::mem::take(&mut self.fields).into_iter().map(|(name, (_, found))| (name, found)).collect()
    }

    /// Takes out the fields that it may have: what they mean depends on one that has a mistake already.
    pub(super) fn forget_known(&mut self) {
        let known = || self.form.all_fields().map(|field| field.name);
        self.asked.extend(known());
        self.fields.retain(|name, _| known().all(|known| known != name));
    }

    /// Takes out all fields: the table is not meant to be there.
    pub(super) fn forget_all(&mut self) {
        self.fields.clear();
    }

    /// Returns the fields that it may have.
    pub(super) fn form(&self) -> &'static PolicyTable {
        self.form
    }

    /// Takes a whole number in the range of its field.
    pub(super) fn number(&mut self, name: &'static str) -> Option<u64> {
        let found = self.take(name)?;
        let range = match self.form.field(name).map(|field| &field.value) {
            Some(FieldValue::Number { least, most }) => *least..=*most,
            _ => 0..=u64::MAX,
        };
        match found.raw {
            RawItem::Number(Some(number)) if range.contains(&number) => Some(number),
            RawItem::Number(_) => {
                let remedy = format!("write {} to {}", range.start(), range.end());
                self.fault(found.place, format!("`{name}` is out of range"), remedy);
                None
            }
            other => self.wrong(name, found.place, &other, "a whole number"),
        }
    }

    /// Takes out a required field; `read` reports it if it is invalid.
    pub(super) fn required<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut DocumentTable<'f>, &'static str) -> Option<T>,
    ) -> Option<T> {
        if !self.has(name) {
            let place = self.place;
            self.take(name);
            if self.has_misspelt(name) {
                return None;
            }
            let remedy = self.form.field(name).map_or("write it", PolicyField::remedy);
            self.fault(place, format!("`{name}` is missing"), remedy);
            return None;
        }
        read(self, name)
    }

    /// Takes out a text or a list of texts, each with its place.
    pub(super) fn one_or_more(&mut self, name: &'static str) -> Option<Vec<(PolicyPlace, String)>> {
        let found = self.take(name)?;
        self.one_or_more_of(name, found)
    }

    pub(super) fn one_or_more_of(
        &mut self,
        name: &str,
        found: SpannedValue<PolicyPlace>,
    ) -> Option<Vec<(PolicyPlace, String)>> {
        match found.raw {
            RawItem::Text(_) => self.text_of(name, found).map(|text| vec![text]),
            RawItem::List(items) if items.is_empty() => {
                let fault = format!("`{name}` is empty: nothing would match");
                self.fault(found.place, fault, "add at least one, or remove it");
                None
            }
            RawItem::List(items) => items.into_iter().map(|item| self.text_of(name, item)).collect(),
            other => self.wrong(name, found.place, &other, "a text, or a list of texts"),
        }
    }

    /// Takes out a list of texts without duplicates; an empty list is an error unless `empty` allows it.
    pub(super) fn texts(&mut self, name: &'static str, empty: bool) -> Option<Vec<(PolicyPlace, String)>> {
        let found = self.take(name)?;
        let items = match found.raw {
            RawItem::List(items) => items,
            other => return self.wrong(name, found.place, &other, "a list of texts"),
        };
        if items.is_empty() && !empty {
            self.fault(
                found.place,
                format!("`{name}` is empty: nothing would match"),
                "add at least one, or remove it",
            );
            return None;
        }
        let mut texts: Vec<(PolicyPlace, String)> = Vec::new();
        let mut seen = HashSet::new();
        for item in items {
            let (place, text) = self.text_of(name, item)?;
            if !seen.insert(text.clone()) {
                self.fault(place, format!("`{name}` names `{}` twice", text.escape_debug()), "remove one of them");
            }
            texts.push((place, text));
        }
        Some(texts)
    }

    /// Takes out one of these words.
    pub(super) fn choice<T: Copy>(&mut self, name: &'static str, words: &[(&str, T)]) -> Option<T> {
        let (place, text) = self.text(name)?;
        self.choice_of(name, place, &text, words)
    }

    pub(super) fn choice_of<T: Copy>(
        &mut self,
        name: &'static str,
        place: PolicyPlace,
        text: &str,
        words: &[(&str, T)],
    ) -> Option<T> {
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            self.unknown_name(place, &format!("`{name}`"), text, words.iter().map(|(word, _)| *word));
        }
        found
    }

    /// Adds an error for an unknown name.
    pub(super) fn unknown_name<'n>(
        &mut self,
        place: PolicyPlace,
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

    /// Ends the reading: fields that are left become findings. Returns whether the table had no error.
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

    pub(super) fn text_of(&mut self, name: &str, found: SpannedValue<PolicyPlace>) -> Option<(PolicyPlace, String)> {
        match found.raw {
            RawItem::Text(text) if text.is_empty() || text.trim() != text || text.contains(is_invisible) => {
                let fault = format!("`{name}` is empty, or has blanks at its ends or invisible characters");
                self.fault(found.place, fault, "remove them");
                None
            }
            RawItem::Text(text) => Some((found.place, text)),
            other => self.wrong(name, found.place, &other, "a text"),
        }
    }

    pub(super) fn wrong<T>(&mut self, name: &str, place: PolicyPlace, raw: &RawItem, expected: &str) -> Option<T> {
        self.fault(place, format!("`{name}`: {}", raw.instead_of(expected)), format!("write {expected}"));
        None
    }
}
