//! Parses the file into settings, each with its line and column.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::fault::{SettingFault, SettingPlace};
use super::heading::Heading;
use super::settings::{Presence, SECTIONS, Section};
use crate::base::finding::{Finding, TOML_REMEDY, nearest};
use crate::base::spanned::{self, LineIndex};

pub(super) type FoundValue = spanned::SpannedValue<SettingPlace>;
pub(super) type RawValue = spanned::SpannedRaw<SettingPlace>;

/// The file, sorted into the known settings.
#[derive(Default)]
pub(super) struct ConfigDocument {
    /// The values by heading and setting.
    pub found: BTreeMap<(Heading, &'static str), FoundValue>,
    /// The headings in the file, with their places.
    pub headings: BTreeMap<Heading, SettingPlace>,
    pub findings: Vec<Finding>,
    /// Whether the file is not TOML; the findings say where.
    pub is_broken: bool,
}

/// Parses the text; everything that is not a known setting becomes a finding.
pub(super) fn document(text: &str, file: &str) -> ConfigDocument {
    let mut reader = DocumentReader { lines: LineIndex::of(text), file, document: ConfigDocument::default() };
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        reader.top(table.get_ref());
    }
    reader.document.is_broken = !errors.is_empty();
    for error in errors {
        // The rest of a broken text cannot be read reliably: its other faults are reported once it parses.
        let fault = SettingFault::new(format!("the file is not valid TOML: {}", error.message())).remedy(TOML_REMEDY);
        reader.fault(error.span().unwrap_or_default(), fault);
    }
    reader.document
}

/// Parses a single value, such as a default of the table.
pub(super) fn value(text: &str, place: &SettingPlace) -> Option<FoundValue> {
    let value = DeValue::parse(text).ok()?;
    Some(FoundValue::of(value.get_ref(), &|_| place.clone(), place.clone()))
}

struct DocumentReader<'t> {
    lines: LineIndex<'t>,
    file: &'t str,
    document: ConfigDocument,
}

type DocumentKey<'k, 'i> = &'k Spanned<DeString<'i>>;

impl DocumentReader<'_> {
    fn top(&mut self, table: &DeTable<'_>) {
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            match (Section::named(name).filter(|s| !s.name.is_empty()), value.get_ref()) {
                (Some(section), DeValue::Table(inner)) => match section.presence {
                    Presence::Always | Presence::IfWritten | Presence::Optional => {
                        self.section(section, section.heading(), key, inner);
                    }
                    Presence::Named { .. } => self.named(section, inner),
                },
                (Some(section), _) => self.no_table(section, name, key),
                (None, DeValue::Table(_)) => {
                    let fault = SettingFault::new(format!("there is no section `{name}`"));
                    let remedy = match nearest(name, Section::names()) {
                        Some(near) => {
                            format!("did you mean `{}`?", Section::named(near).map_or(near.into(), Section::bracketed))
                        }
                        None => format!("the sections are: {}", Section::names().collect::<Vec<_>>().join(", ")),
                    };
                    self.fault(key.span(), fault.remedy(remedy));
                }
                (None, _) => {
                    if let Some(section) = Section::named("") {
                        self.setting(section, &section.heading(), key, value);
                    }
                }
            }
        }
    }

    /// Reads the sections of one kind, each with its own name.
    fn named(&mut self, section: &'static Section, table: &DeTable<'_>) {
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let DeValue::Table(inner) = value.get_ref() else {
                self.no_table(section, &section.heading_of(name).path(""), key);
                continue;
            };
            if !is_name(name) {
                let fault = SettingFault::new(format!("`{}` is not a valid name for a section", name.escape_debug()));
                self.fault(key.span(), fault.remedy("use up to 32 of `a-z`, `0-9` and `-`"));
            }
            self.section(section, section.heading_of(name), key, inner);
        }
    }

    fn no_table(&mut self, section: &Section, path: &str, key: DocumentKey<'_, '_>) {
        let first = section.settings.first().map_or("its settings", |s| s.name);
        let fault = match section.presence {
            Presence::Named { .. } if path != section.name => {
                let fault = SettingFault::new(format!("`{path}` is not a section: a setting cannot be here"));
                fault.remedy(format!(
                    "write `{}` with a name of your choice, and the settings below it",
                    section.bracketed()
                ))
            }
            _ => SettingFault::new(format!("`{path}` is a section"))
                .remedy(format!("write `{}` once, and {first} below it", section.bracketed())),
        };
        self.fault(key.span(), fault);
    }

    fn section(&mut self, section: &'static Section, heading: Heading, key: DocumentKey<'_, '_>, table: &DeTable<'_>) {
        let place = self.place(key.span());
        for (key, value) in table {
            self.setting(section, &heading, key, value);
        }
        self.document.headings.insert(heading, place);
    }

    fn setting(
        &mut self,
        section: &'static Section,
        heading: &Heading,
        key: DocumentKey<'_, '_>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let name = key.get_ref().as_ref();
        let Some(setting) = section.setting(name) else {
            let fault = SettingFault::new(format!("there is no setting `{}`", heading.path(name)));
            return self.fault(key.span(), SettingFault { remedy: Some(remedy_for_unknown(section, name)), ..fault });
        };
        let found = FoundValue::of(value.get_ref(), &|span| self.place(span), self.place(value.span()));
        self.document.found.insert((heading.clone(), setting.name), found);
    }

    fn fault(&mut self, span: Range<usize>, fault: SettingFault) {
        let place = self.place(span);
        self.document.findings.push(fault.error(self.file, &place));
    }

    fn place(&self, span: Range<usize>) -> SettingPlace {
        let (line, column) = self.lines.place(span);
        SettingPlace::File { line, column }
    }
}

/// Whether a name is short and plain enough for metrics and logs.
fn is_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=32).contains(&name.len()) && name.bytes().all(allowed)
}

fn remedy_for_unknown(section: &Section, name: &str) -> String {
    if let Some(near) = nearest(name, section.settings.iter().map(|s| s.name)) {
        return format!("did you mean `{near}`?");
    }
    let elsewhere = SECTIONS.iter().filter(|other| other.setting(name).is_some());
    match elsewhere.map(|other| (other.name, other)).next() {
        Some(("", _)) => format!("`{name}` belongs at the top, above all sections"),
        Some((_, other)) => format!("`{name}` belongs in `{}`", other.bracketed()),
        None => {
            let known: Vec<_> = section.settings.iter().map(|s| s.name).collect();
            format!("the settings here are: {}", known.join(", "))
        }
    }
}
