//! What the style asks and a machine can see.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules in reading order; each may use itself and those before it.
const ORDER: [&str; 21] = [
    "base",
    "catalog",
    "ledger",
    "policy",
    "audit",
    "stations",
    "people",
    "notify",
    "ports",
    "config",
    "telemetry",
    "adapters",
    "node",
    "journey",
    "edge",
    "gateway",
    "console",
    "serve",
    "witness",
    "simulator",
    "cli",
];
/// Modules without clock, randomness, environment, files, sockets or tasks.
const PURE: [&str; 8] = ["base", "catalog", "ledger", "policy", "audit", "stations", "people", "notify"];
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
const STATIONS: [&str; 8] = ["admit", "check", "decide", "claim", "hold", "forward", "settle", "reply"];
const LONGEST_FILE: usize = 450;
/// Names of functions at the top of a module that do not say what the function does.
const EMPTY_NAMES: [&str; 15] = [
    "read", "told", "tell", "write", "plain", "said", "say", "look", "seen", "heard", "stood", "came", "asked",
    "given", "of",
];

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

#[test]
fn no_two_modules_import_each_other() {
    let circles = circles(&sibling_imports());
    assert!(circles.is_empty(), "import circles:\n{}", circles.join("\n"));
}

/// Imports between modules of one parent: the module that imports, the module that is imported, and where.
type Imports = BTreeMap<String, BTreeMap<String, String>>;

/// The imports between siblings, at every level. A `mod.rs` speaks for its folder and is no sibling of its children.
fn sibling_imports() -> Imports {
    let files: Vec<(Vec<String>, String)> = sources("src")
        .into_iter()
        .filter(|(file, _)| !is_test(file))
        .map(|(file, text)| (module_path(&file), without_tests(&text).to_owned()))
        .filter(|(path, _)| !path.is_empty())
        .collect();
    let modules: BTreeSet<Vec<String>> = files.iter().map(|(path, _)| path.clone()).collect();
    let mut imports = Imports::new();
    for (path, text) in &files {
        for import in imported_paths(path, text) {
            let common = path.iter().zip(&import).take_while(|(mine, theirs)| mine == theirs).count();
            let (Some(mine), Some(theirs)) = (path.get(..=common), import.get(..=common)) else { continue };
            if modules.contains(mine) && modules.contains(theirs) {
                let place = format!("{} uses {}", path.join("::"), import.join("::"));
                imports.entry(mine.join("::")).or_default().insert(theirs.join("::"), place);
            }
        }
    }
    imports
}

/// Every import of a module that leads back to it, as the imports on the way.
fn circles(imports: &Imports) -> Vec<String> {
    let mut found = Vec::new();
    for start in imports.keys() {
        let mut ways: Vec<Vec<&str>> = vec![vec![start]];
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        while let Some(way) = ways.pop() {
            for (next, _) in imports.get(way[way.len() - 1]).into_iter().flatten() {
                if next == start {
                    let places = way.iter().zip(way[1..].iter().copied().chain([start.as_str()]));
                    let places: Vec<&str> = places.map(|(from, to)| imports[*from][to].as_str()).collect();
                    found.push(places.join("\n  and "));
                } else if seen.insert(next) {
                    ways.push(way.iter().copied().chain([next.as_str()]).collect());
                }
            }
        }
    }
    found
}

/// The module of a file, from the crate's root.
fn module_path(file: &Path) -> Vec<String> {
    let below = file.strip_prefix(root().join("src")).unwrap();
    let mut path: Vec<String> = below.components().map(|part| part.as_os_str().to_str().unwrap().to_owned()).collect();
    let last = path.pop().unwrap();
    match last.strip_suffix(".rs").unwrap() {
        "mod" | "lib" | "main" => {}
        name => path.push(name.to_owned()),
    }
    path
}

/// The paths that a module's `use` lines and its code name, from the crate's root.
fn imported_paths(module: &[String], text: &str) -> Vec<Vec<String>> {
    let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join(" ");
    let mut paths = Vec::new();
    for prefix in ["crate::", "super::"] {
        for (at, _) in code.match_indices(prefix) {
            if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            for leaf in leaves(&code[at..]) {
                let mut parts: Vec<String> = leaf.split("::").map(str::to_owned).collect();
                let mut base = if parts[0] == "crate" { Vec::new() } else { module.to_vec() };
                while parts.first().is_some_and(|part| part == "crate" || part == "super") {
                    if parts.remove(0) == "super" {
                        base.pop();
                    }
                }
                paths.push(base.into_iter().chain(parts).collect());
            }
        }
    }
    paths
}

/// The leaves of the path, or of the tree of paths, that a text begins with.
fn leaves(text: &str) -> Vec<String> {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(text.len());
    let (path, rest) = text.split_at(end);
    let Some(tree) = path.strip_suffix("::").filter(|_| rest.starts_with('{')) else {
        return vec![path.trim_end_matches("::").to_owned()];
    };
    let (mut depth, mut from, mut found) = (0_usize, 1, Vec::new());
    for (at, c) in rest.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => {
                found.push(&rest[from..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 1 => {
                found.push(&rest[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    let inner = found.into_iter().map(str::trim).filter(|item| !item.is_empty()).flat_map(leaves);
    inner.map(|leaf| if leaf == "self" { tree.to_owned() } else { format!("{tree}::{leaf}") }).collect()
}

#[test]
fn every_type_name_stands_for_one_type() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, text) in sources("src") {
        for (at, line) in text.lines().enumerate() {
            if let Some(name) = type_name(line) {
                places.entry(name).or_default().push(format!("{}:{}", file.display(), at + 1));
            }
        }
    }
    let wrong: Vec<String> = places
        .iter()
        .filter(|(_, places)| places.len() > 1)
        .map(|(name, at)| format!("{name}: {}", at.join(", ")))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The name that a line defines as a struct, an enum, a trait or an alias at the top of a module.
fn type_name(line: &str) -> Option<String> {
    let rest = line.trim_start();
    let rest = match rest.strip_prefix("pub") {
        Some(after) => after.trim_start_matches(|c| c != ' ').trim_start(),
        None => rest,
    };
    // An associated type of a trait stands inside of it, and belongs to it.
    let is_inside = line.starts_with(' ') && rest.starts_with("type ");
    let name = ["struct ", "enum ", "trait ", "union ", "type "].iter().find_map(|word| rest.strip_prefix(word))?;
    let name: String = name.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!is_inside && name.starts_with(char::is_uppercase)).then_some(name)
}

#[test]
fn no_function_has_a_name_that_says_nothing() {
    let mut wrong = Vec::new();
    for (file, text) in sources("src") {
        for (at, line) in text.lines().enumerate() {
            if function_name(line).is_some_and(|name| EMPTY_NAMES.contains(&name)) {
                wrong.push(format!("{}:{}: {line}", file.display(), at + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "name these functions after what they do:\n{}", wrong.join("\n"));
}

/// The name of the function that a line defines at the top of a module.
fn function_name(line: &str) -> Option<&str> {
    let mut rest = line;
    if let Some(after) = rest.strip_prefix("pub") {
        rest = if after.starts_with('(') { after.split_once(") ")?.1 } else { after.trim_start() };
    }
    for word in ["const ", "async "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let name = rest.strip_prefix("fn ")?;
    name.find(|c: char| !(c.is_alphanumeric() || c == '_')).map(|end| &name[..end])
}

#[test]
fn only_stores_and_audit_logs_make_receipts() {
    let mut wrong = Vec::new();
    for (file, text) in sources("src") {
        let may = module(&file, "src").is_some_and(|module| ["adapters", "ledger", "audit"].contains(&module.as_str()));
        let code = without_tests(&text);
        if !may && !is_test(&file) && (code.contains("Receipt::new(") || code.contains("OnDisk::new(")) {
            wrong.push(format!("{} makes a receipt", file.display()));
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
    let of_pages = ["src/console/web", "src/cli/sign"].map(|folder| files(folder, &["html", "css", "js", "svg"]));
    for (file, text) in of_pages.into_iter().flatten() {
        let text = text.replace("http://www.w3.org/2000/svg", "");
        // This file keeps the address of the open view while the browser is at the provider, and nothing else.
        let text = if file.ends_with("renewal.js") { text.replace("sessionStorage", "") } else { text };
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

/// What a stored value hides is shown on standard error as well: one function writes there.
#[test]
fn commands_write_to_standard_error_in_one_place() {
    let writes =
        |text: &str| text.lines().filter(|line| line.contains("eprintln!(") && !line.contains("eprintln!()")).count();
    let found = sources("src/cli").into_iter().map(|(file, text)| (file, writes(&text)));
    let found: Vec<_> = found.filter(|(_, count)| *count > 0).collect();
    assert!(found.len() == 1 && found[0].1 == 1, "{found:?}");
}
