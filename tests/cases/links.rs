//! Every link of the manual leads somewhere: to a file that is there, and to a heading that it has.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files with these endings that belong to the project, relative to its root.
fn files(kinds: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> =
        [".github", "deploy", "policies", "schemas", "src", "tests"].iter().map(PathBuf::from).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                if !["target", "node_modules", "corpus"].iter().any(|name| path.ends_with(name)) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|kind| kinds.iter().any(|one| kind == *one)) {
                found.push(path);
            }
        }
    }
    let of_root = fs::read_dir(root()).unwrap().map(|entry| PathBuf::from(entry.unwrap().file_name()));
    found.extend(of_root.filter(|path| kinds.contains(&"md") && path.extension().is_some_and(|kind| kind == "md")));
    found.sort();
    found
}

/// Returns the lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Returns the anchors of a page, as GitHub makes them from its headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let title = heading.trim_start_matches('#').trim().to_lowercase();
        // Of a link, only its words count.
        let mut words = String::new();
        let mut rest = title.as_str();
        while let Some((before, after)) = rest.split_once("](") {
            words.push_str(before);
            rest = after.split_once(')').map_or("", |(_, behind)| behind);
        }
        words.push_str(rest);
        let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>()
    };
    headings
        .map(anchor)
        .map(|anchor| {
            let nth = counts.entry(anchor.clone()).or_default();
            *nth += 1;
            if *nth == 1 { anchor } else { format!("{anchor}-{}", *nth - 1) }
        })
        .collect()
}

/// Removes `.` and `..` from a path.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

/// Returns what is wrong with a link from a file.
fn fault_of(from: &Path, link: &str, pages: &BTreeMap<PathBuf, BTreeSet<String>>) -> Option<String> {
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let target = if path.is_empty() { from.to_owned() } else { normal(&from.parent().unwrap().join(path)) };
    if !root().join(&target).exists() {
        return Some(format!("{}: {link} does not exist", from.display()));
    }
    let is_missing = |anchor: &str| pages.get(&target).is_some_and(|anchors| !anchors.contains(anchor));
    anchor.filter(|anchor| is_missing(anchor)).map(|_| format!("{}: {link} has no such heading", from.display()))
}

#[test]
fn every_link_of_the_manual_leads_to_a_file_and_a_heading() {
    let read = |file: &PathBuf| fs::read_to_string(root().join(file)).unwrap();
    let guides = files(&["md"]);
    let pages: BTreeMap<PathBuf, BTreeSet<String>> =
        guides.iter().map(|file| (file.clone(), anchors(&read(file)))).collect();
    let (mut faults, mut count) = (Vec::new(), 0);
    for file in &guides {
        let text = prose(&read(file)).collect::<Vec<_>>().join("\n");
        for link in text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)) {
            let link = link.replace('\n', "");
            if !link.contains(':') {
                count += 1;
                faults.extend(fault_of(file, &link, &pages));
            }
        }
    }
    assert!(count > 300, "{count}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Messages, alerts and settings name guides, too.
#[test]
fn every_guide_that_the_program_names_is_there() {
    let guides = files(&["md"]);
    let pages: BTreeMap<PathBuf, BTreeSet<String>> =
        guides.iter().map(|file| (file.clone(), anchors(&fs::read_to_string(root().join(file)).unwrap()))).collect();
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '/' | '.' | '#');
    let (mut faults, mut count) = (Vec::new(), 0);
    for file in files(&["rs", "toml", "yml", "yaml", "json", "js", "mjs", "py", "service", "socket"]) {
        let Ok(text) = fs::read_to_string(root().join(&file)) else { continue };
        for word in text.split(|c| !is_part(c)).filter(|word| word.starts_with("deploy/docs/") && word.contains(".md"))
        {
            let word = word.trim_end_matches('.');
            // Names that a program puts together are whole only when it runs.
            if !word.ends_with('#') {
                count += 1;
                faults.extend(
                    fault_of(Path::new("README.md"), word, &pages).map(|fault| format!("{}: {fault}", file.display())),
                );
            }
        }
    }
    assert!(count > 40, "{count}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
