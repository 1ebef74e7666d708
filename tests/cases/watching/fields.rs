//! The list of log fields is complete, and says nothing that no line says.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sluice::telemetry::FIELDS;

const ALWAYS: [&str; 4] = ["timestamp", "level", "target", "message"];

#[test]
fn the_list_has_every_field_that_is_logged() {
    let listed: BTreeSet<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
    assert!(FIELDS.is_sorted(), "they stand in the order of the alphabet");
    let mut logged = BTreeSet::new();
    for file in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let text = fs::read_to_string(&file).unwrap();
        for (at, level) in text.match_indices("tracing::") {
            let rest = &text[at + level.len()..];
            let is_event =
                ["error!(", "warn!(", "info!(", "debug!(", "trace!("].iter().find(|one| rest.starts_with(**one));
            if let Some(event) = is_event {
                logged.extend(arguments(&rest[event.len()..]).iter().filter_map(|argument| field(argument)));
            }
        }
    }
    let listed: BTreeSet<String> = listed.into_iter().map(str::to_owned).collect();
    assert_eq!(listed.difference(&logged).collect::<Vec<_>>(), Vec::<&String>::new(), "no line says these");
    assert_eq!(logged.difference(&listed).collect::<Vec<_>>(), Vec::<&String>::new(), "the list lacks these");
    assert!(ALWAYS.iter().all(|name| !listed.contains(*name)));
}

/// What happens to calls and at upstream happens in one environment. Without its name, trouble of the sandbox looks like
/// trouble of production.
#[test]
fn lines_about_calls_and_upstream_name_the_environment() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = ["journey", "adapters/upstream"].map(|part| sources(&folder.join(part))).concat();
    let mut lack = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        for level in ["tracing::error!(", "tracing::warn!(", "tracing::info!("] {
            for (at, _) in text.match_indices(level) {
                let arguments = arguments(&text[at + level.len()..]);
                let fields: Vec<String> = arguments.iter().filter_map(|argument| field(argument)).collect();
                if !fields.iter().any(|field| field == "environment") {
                    lack.push(format!("{}: {}", file.display(), arguments.last().unwrap().trim()));
                }
            }
        }
    }
    assert!(!files.is_empty() && lack.is_empty(), "{lack:#?}");
}

/// What stands between commas, up to the bracket that closes.
fn arguments(text: &str) -> Vec<String> {
    let (mut all, mut depth, mut is_text, mut characters) = (vec![String::new()], 1, false, text.chars());
    while depth > 0 {
        let c = characters.next().expect("an end");
        match c {
            '\\' if is_text => {
                characters.next();
                continue;
            }
            '"' => is_text = !is_text,
            _ if is_text => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 1 => {
                all.push(String::new());
                continue;
            }
            _ => {}
        }
        if depth > 0 {
            all.last_mut().unwrap().push(c);
        }
    }
    all
}

/// The name that an argument of an event gives to its field.
fn field(argument: &str) -> Option<String> {
    let argument = argument.trim().trim_start_matches(['%', '?']);
    let is_part = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.');
    let name: String = argument.chars().take_while(is_part).collect();
    let rest = argument[name.len()..].trim_start();
    // A name with dots has a value; without one, it is a place in a structure.
    let is_alone = rest.is_empty() && !name.contains('.');
    (!name.is_empty() && (is_alone || (rest.starts_with('=') && !rest.starts_with("==")))).then_some(name)
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(sources(&path)),
            false if path.extension().is_some_and(|end| end == "rs") => all.push(path),
            false => {}
        }
    }
    all
}
