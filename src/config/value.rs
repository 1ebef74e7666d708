//! From something written to the value of a setting: type, range, form, and the files that it names.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::World;
use super::document::{Found, Raw};
use super::settings::{ANSWERS, Kind, LOG_FORMATS, LOG_LEVELS, MOST_MILLIS};
use super::written::{Fault, Place, Placed, Slot, Written};
use super::{pem, upstream};
use crate::base::finding::nearest;
use crate::base::secret::Secret;

/// What values may lead to: the environment, and files relative to the folder of the configuration.
pub(super) struct Source<'s> {
    pub world: &'s World<'s>,
    pub folder: &'s Path,
}

/// Puts what was written where the setting's value is kept.
pub(super) fn store(kind: &Kind, found: &Found, source: &Source<'_>, written: &mut Written) -> Result<(), Fault> {
    let place = &found.place;
    match kind {
        Kind::Address(slot) => put(*slot, written, place, address(&found.raw)),
        Kind::Upstream(slot) => put(*slot, written, place, upstream_url(&found.raw)),
        Kind::Certificates(slot) => put(*slot, written, place, certificates(&found.raw, source)),
        Kind::Folder(slot) => put(*slot, written, place, folder(&found.raw, source)),
        Kind::Secret(slot) => put(*slot, written, place, secret(&found.raw, source)),
        Kind::Names(slot) => put(*slot, written, place, names(&found.raw)),
        Kind::Truth(slot) => put(*slot, written, place, truth(&found.raw)),
        Kind::Number { least, most, unit, slot } => {
            let number = number(&found.raw, *least, *most, unit)
                .and_then(|n| usize::try_from(n).map_err(|_| Fault::new("the number is too large for this machine")));
            put(*slot, written, place, number)
        }
        Kind::Millis(slot) => {
            let millis = number(&found.raw, 1, MOST_MILLIS, "milliseconds");
            put(*slot, written, place, millis.map(Duration::from_millis))
        }
        Kind::Answers(slot) => put(*slot, written, place, choice(&found.raw, ANSWERS)),
        Kind::LogFormat(slot) => put(*slot, written, place, choice(&found.raw, LOG_FORMATS)),
        Kind::LogLevel(slot) => put(*slot, written, place, choice(&found.raw, LOG_LEVELS)),
    }
}

fn put<T>(slot: Slot<T>, written: &mut Written, place: &Place, value: Result<T, Fault>) -> Result<(), Fault> {
    *slot(written) = Some(Placed { value: value?, place: place.clone() });
    Ok(())
}

fn address(raw: &Raw) -> Result<SocketAddr, Fault> {
    let text = text(raw, "an address and a port as text")?;
    text.parse().map_err(|_| {
        Fault::new(format!("`{text}` is not an address and a port"))
            .remedy("write an IP address and a port, as `127.0.0.1:8080`, `0.0.0.0:8080` or `[::1]:8080`")
    })
}

fn upstream_url(raw: &Raw) -> Result<super::UpstreamConfig, Fault> {
    upstream::parse(text(raw, "a URL as text")?)
}

fn certificates(raw: &Raw, source: &Source<'_>) -> Result<Vec<u8>, Fault> {
    let name = text(raw, "the name of a file as text")?;
    let content = source.file(name)?;
    pem::certificates(&content).map_err(|fault| Fault { text: format!("`{name}`: {}", fault.text), ..fault })?;
    Ok(content)
}

fn folder(raw: &Raw, source: &Source<'_>) -> Result<PathBuf, Fault> {
    let name = text(raw, "the name of a folder as text")?;
    let path = source.folder.join(name);
    if !name.is_empty() && (source.world.is_folder)(&path) {
        return Ok(path);
    }
    Err(Fault::new(format!("there is no folder `{}` that can be read", path.display()))
        .remedy("names are relative to the folder of the configuration file"))
}

fn names(raw: &Raw) -> Result<Vec<String>, Fault> {
    let Raw::List(items) = raw else { return Err(wrong_type(raw, "a list of texts")) };
    let name = |item: &Found| match text(&item.raw, "a text") {
        Ok(name) => Ok(name.to_owned()),
        Err(fault) => Err(fault.at(&item.place)),
    };
    items.iter().map(name).collect()
}

fn truth(raw: &Raw) -> Result<bool, Fault> {
    match raw {
        Raw::Truth(truth) => Ok(*truth),
        other => Err(wrong_type(other, "`true` or `false`")),
    }
}

fn number(raw: &Raw, least: u64, most: u64, unit: &str) -> Result<u64, Fault> {
    let Raw::Number(number) = raw else { return Err(wrong_type(raw, &format!("a whole number of {unit}"))) };
    number
        .filter(|n| (least..=most).contains(n))
        .ok_or_else(|| Fault::new(format!("the number is out of range: {least} to {most} {unit} are possible")))
}

fn choice<T: Copy>(raw: &Raw, words: &[(&str, T)]) -> Result<T, Fault> {
    let all = || words.iter().map(|(word, _)| *word);
    let listed = || all().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    let text = text(raw, &format!("one of {}", listed()))?;
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(*value);
    }
    let remedy = match nearest(text, all()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("choose one of {}", listed()),
    };
    Err(Fault::new(format!("`{text}` is not a choice here")).remedy(remedy))
}

/// What a secret says is never part of a fault.
fn secret(raw: &Raw, source: &Source<'_>) -> Result<Secret, Fault> {
    let text = match raw {
        Raw::Text(text) => text.clone(),
        Raw::Table(table) => secret_from(table, source)?,
        other => return Err(wrong_type(other, "a secret").remedy(WAYS)),
    };
    if text.trim().is_empty() { Err(Fault::new("the secret is empty").remedy(WAYS)) } else { Ok(Secret::new(text)) }
}

const WAYS: &str = "write it as `{ file = \"path\" }` or `{ env = \"NAME\" }`";

fn secret_from(table: &BTreeMap<String, Found>, source: &Source<'_>) -> Result<String, Fault> {
    if let Some((name, found)) = table.iter().find(|(name, _)| !matches!(name.as_str(), "file" | "env")) {
        return Err(Fault::new(format!("a secret has no `{name}`")).remedy(WAYS).at(&found.place));
    }
    match (table.get("file"), table.get("env")) {
        (Some(file), None) => {
            let name = text(&file.raw, "the name of a file as text").map_err(|fault| fault.at(&file.place))?;
            let content = source.file(name).map_err(|fault| fault.at(&file.place))?;
            let content = String::from_utf8(content)
                .map_err(|_| Fault::new(format!("what the file `{name}` holds is not text")).at(&file.place))?;
            Ok(content.trim_end_matches(['\r', '\n']).to_owned())
        }
        (None, Some(variable)) => {
            let name =
                text(&variable.raw, "the name of a variable as text").map_err(|fault| fault.at(&variable.place))?;
            let value = source.world.environment.get(name).ok_or_else(|| {
                Fault::new(format!("the environment variable `{name}` is not set")).at(&variable.place)
            })?;
            let value = value.to_str().ok_or_else(|| {
                Fault::new(format!("what the environment variable `{name}` holds is not text")).at(&variable.place)
            })?;
            Ok(value.to_owned())
        }
        _ => Err(Fault::new("a secret comes from one place").remedy(WAYS)),
    }
}

fn text<'r>(raw: &'r Raw, expected: &str) -> Result<&'r str, Fault> {
    match raw {
        Raw::Text(text) => Ok(text),
        other => Err(wrong_type(other, expected)),
    }
}

fn wrong_type(raw: &Raw, expected: &str) -> Fault {
    let written = match raw {
        Raw::Text(_) => "a text",
        Raw::Number(_) => "a number",
        Raw::Truth(_) => "`true` or `false`",
        Raw::List(_) => "a list",
        Raw::Table(_) => "a table",
        Raw::Other(word) => word,
    };
    Fault::new(format!("{written} is written; {expected} is expected"))
}

impl Source<'_> {
    fn file(&self, name: &str) -> Result<Vec<u8>, Fault> {
        let path = self.folder.join(name);
        (self.world.read_file)(&path).map_err(|error| {
            Fault::new(format!("the file `{}` cannot be read: {error}", path.display()))
                .remedy("names are relative to the folder of the configuration file")
        })
    }
}

/// The environment variable that a secret is to be taken from.
pub(super) fn variable_named(found: &Found) -> Option<&str> {
    let Raw::Table(table) = &found.raw else { return None };
    match &table.get("env")?.raw {
        Raw::Text(name) => Some(name),
        _ => None,
    }
}

/// Whether a secret stands in the file itself.
pub(super) fn is_plain(kind: &Kind, found: &Found) -> bool {
    let in_file = matches!(found.place, Place::File { .. });
    in_file && matches!(kind, Kind::Secret(_)) && matches!(found.raw, Raw::Text(_))
}
