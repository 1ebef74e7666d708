//! What the style asks and a machine can see.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The modules in reading order; each may use itself and those before it.
const ORDER: [&str; 15] = [
    "base",
    "catalog",
    "commit",
    "policy",
    "chain",
    "stations",
    "ports",
    "config",
    "telemetry",
    "adapters",
    "journey",
    "gateway",
    "console",
    "simulator",
    "cli",
];
/// Modules without clock, randomness, environment, files, sockets or tasks.
const PURE: [&str; 6] = ["base", "catalog", "commit", "policy", "chain", "stations"];
const IMPURE: [&str; 11] = [
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "SystemTime",
    "Instant",
    "tokio",
    "async fn",
    "rand::",
    "tracing",
];
/// The stations in the order in which a request meets them.
const STATIONS: [&str; 10] =
    ["admit", "check", "decide", "record", "claim", "hold", "tell", "forward", "settle", "reply"];
const LONGEST_FILE: usize = 450;

#[test]
fn modules_know_only_those_before_them() {
    let wrong = wrong_imports(&ORDER, "crate::", |file| module(file, "src"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn stations_know_only_those_before_them() {
    let wrong = wrong_imports(&STATIONS, "crate::stations::", |file| module(file, "src/stations"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_map_names_the_modules_in_reading_order() {
    let map = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let named: Vec<&str> = map.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    assert_eq!(named, ORDER);
}

#[test]
fn pure_modules_touch_nothing_of_the_world() {
    let mut wrong = Vec::new();
    for (file, text) in sources("src") {
        let is_pure = module(&file, "src").is_some_and(|m| PURE.contains(&m.as_str()));
        if is_pure && !is_test(&file) {
            let code = without_tests(&text);
            wrong.extend(
                IMPURE.iter().filter(|word| code.contains(**word)).map(|word| format!("{}: {word}", file.display())),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_file_is_one_room_and_says_what_it_is() {
    let mut wrong = Vec::new();
    for (file, text) in sources("src").into_iter().chain(sources("tests")) {
        let lines = text.lines().count();
        if lines > LONGEST_FILE {
            wrong.push(format!("{} has {lines} lines", file.display()));
        }
        if !text.starts_with("//!") && !is_test(&file) {
            wrong.push(format!("{} does not begin with what it is", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nothing_is_left_for_later() {
    let words = [
        "TO".to_owned() + "DO",
        "FIX".to_owned() + "ME",
        "unimplemented".to_owned() + "!",
        "#[ignore".to_owned(),
        "#[allow".to_owned(),
    ];
    let mut wrong = Vec::new();
    for (file, text) in sources("src").into_iter().chain(sources("tests")) {
        if !file.ends_with("tidy.rs") {
            wrong.extend(
                words
                    .iter()
                    .filter(|word| text.contains(word.as_str()))
                    .map(|word| format!("{}: {word}", file.display())),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Uses of a later module in an earlier one.
fn wrong_imports(order: &[&str], prefix: &str, module_of: impl Fn(&Path) -> Option<String>) -> Vec<String> {
    let places: BTreeMap<&str, usize> = order.iter().enumerate().map(|(at, name)| (*name, at)).collect();
    let mut wrong = Vec::new();
    for (file, text) in sources("src") {
        let Some(place) = module_of(&file).and_then(|name| places.get(name.as_str()).copied()) else { continue };
        for (at, _) in text.match_indices(prefix) {
            let name: String =
                text[at + prefix.len()..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if places.get(name.as_str()).is_some_and(|used| *used > place) {
                wrong.push(format!("{} uses {prefix}{name}", file.display()));
            }
        }
    }
    wrong
}

/// The module below `folder` that a file belongs to.
fn module(file: &Path, folder: &str) -> Option<String> {
    let below = file.strip_prefix(root().join(folder)).ok()?;
    let first = below.components().next()?.as_os_str().to_str()?;
    Some(first.strip_suffix(".rs").unwrap_or(first).to_owned())
}

fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text)
}

fn is_test(file: &Path) -> bool {
    file.ends_with("tests.rs") || file.components().any(|c| c.as_os_str() == "tests")
}

#[test]
fn nothing_that_is_data_becomes_markup_on_the_page_and_nothing_comes_from_elsewhere() {
    let never = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "DOMParser",
        "createContextualFragment",
        "setHTML",
        "srcdoc",
        "eval(",
        "Function(",
        "localStorage",
        "sessionStorage",
        "style=",
        "<script>",
        "<style",
        " onclick=\"",
        " onload=\"",
        "http://",
        "https://",
        "@import",
    ];
    let mut wrong = Vec::new();
    for (file, text) in files("src/console/web", &["html", "css", "js", "svg"]) {
        let text = text.replace("http://www.w3.org/2000/svg", "");
        wrong.extend(
            never.iter().filter(|word| text.contains(**word)).map(|word| format!("{}: {word}", file.display())),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    files(folder, &["rs"])
}

fn files(folder: &str, kinds: &[&str]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().and_then(|kind| kind.to_str()).is_some_and(|kind| kinds.contains(&kind)) {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    found
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
