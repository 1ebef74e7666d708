//! From the text of the file to what stands in it, each thing with its line and column.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::fault::{Fault, Place};
use super::settings::{Heading, Presence, SECTIONS, Section};
use crate::base::finding::{Finding, nearest};
use crate::base::spanned::{self, line_and_column};

pub(super) type Found = spanned::Found<Place>;
pub(super) type Raw = spanned::Raw<Place>;

/// The file, sorted into the known settings.
#[derive(Default)]
pub(super) struct Document {
    /// By heading and setting.
    pub found: BTreeMap<(Heading, &'static str), Found>,
    /// The headings that are written, with their places.
    pub headings: BTreeMap<Heading, Place>,
    pub findings: Vec<Finding>,
    /// It is not TOML; the findings say where.
    pub is_broken: bool,
}

/// Reads the text; what is no known setting becomes a finding.
pub(super) fn document(text: &str, file: &str) -> Document {
    let mut reader = Reader { text, file, document: Document::default() };
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        reader.top(table.get_ref());
    }
    reader.document.is_broken = !errors.is_empty();
    for error in errors {
        // What a broken text goes on to say is guesswork: its other faults are told once it can be read.
        let fault = Fault::new(format!("this is not TOML: {}", error.message()));
        reader.fault(error.span().unwrap_or_default(), fault);
    }
    reader.document
}

/// Reads one value that stands by itself, as the table's defaults do.
pub(super) fn value(text: &str, place: &Place) -> Option<Found> {
    let value = DeValue::parse(text).ok()?;
    Some(Found::of(value.get_ref(), &|_| place.clone(), place.clone()))
}

struct Reader<'t> {
    text: &'t str,
    file: &'t str,
    document: Document,
}

type Key<'k, 'i> = &'k Spanned<DeString<'i>>;

impl Reader<'_> {
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
                    let fault = Fault::new(format!("there is no section `{name}`"));
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

    /// The sections of one kind, each under a name of its own.
    fn named(&mut self, section: &'static Section, table: &DeTable<'_>) {
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let DeValue::Table(inner) = value.get_ref() else {
                self.no_table(section, &section.heading_of(name).path(""), key);
                continue;
            };
            if !is_name(name) {
                let fault = Fault::new(format!("`{}` is no name for a section of its kind", name.escape_debug()));
                self.fault(key.span(), fault.remedy("a name is up to 32 of `a-z`, `0-9` and `-`"));
            }
            self.section(section, section.heading_of(name), key, inner);
        }
    }

    fn no_table(&mut self, section: &Section, path: &str, key: Key<'_, '_>) {
        let first = section.settings.first().map_or("its settings", |s| s.name);
        let fault = match section.presence {
            Presence::Named { .. } if path != section.name => {
                let fault = Fault::new(format!("`{path}` is no section, and a setting here has no place"));
                fault.remedy(format!("write `{}` with a name of yours, and the settings below it", section.bracketed()))
            }
            _ => Fault::new(format!("`{path}` is a section"))
                .remedy(format!("write `{}` once, and {first} below it", section.bracketed())),
        };
        self.fault(key.span(), fault);
    }

    fn section(&mut self, section: &'static Section, heading: Heading, key: Key<'_, '_>, table: &DeTable<'_>) {
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
        key: Key<'_, '_>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let name = key.get_ref().as_ref();
        let Some(setting) = section.setting(name) else {
            let fault = Fault::new(format!("there is no setting `{}`", heading.path(name)));
            return self.fault(key.span(), Fault { remedy: Some(remedy_for_unknown(section, name)), ..fault });
        };
        let found = Found::of(value.get_ref(), &|span| self.place(span), self.place(value.span()));
        self.document.found.insert((heading.clone(), setting.name), found);
    }

    fn fault(&mut self, span: Range<usize>, fault: Fault) {
        let place = self.place(span);
        self.document.findings.push(fault.error(self.file, &place));
    }

    fn place(&self, span: Range<usize>) -> Place {
        let (line, column) = line_and_column(self.text, span);
        Place::File { line, column }
    }
}

/// Short and plain enough for metrics and logs.
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
        Some(("", _)) => format!("`{name}` stands at the top, above all sections"),
        Some((_, other)) => format!("`{name}` stands in `{}`", other.bracketed()),
        None => {
            let known: Vec<_> = section.settings.iter().map(|s| s.name).collect();
            format!("the settings here are: {}", known.join(", "))
        }
    }
}
