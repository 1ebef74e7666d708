//! The policies that ship: whole sets whose own tests pass, and a guide that is true to the letter.

use std::path::{Path, PathBuf};

use crate::support::gate::sluice;

fn policies() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("policies")
}

/// The folders that are whole sets.
fn sets() -> Vec<PathBuf> {
    let examples = std::fs::read_dir(policies().join("examples")).unwrap().map(|entry| entry.unwrap().path());
    std::iter::once(policies()).chain(examples).collect()
}

/// What it wrote, and its exit code.
fn run(words: &[&str], folder: &Path) -> (Option<i32>, String) {
    let output = sluice(words).current_dir(folder).output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// Nothing in them is odd, and every small change of one is noticed by its own tests, or proved to make no difference.
#[test]
fn every_set_that_ships_passes_its_own_tests_and_no_small_change_of_it_does() {
    let sets = sets();
    assert_eq!(sets.len(), 5);
    for set in sets {
        for command in ["check", "test", "mutate"] {
            let (code, text) = run(&["policy", command, "."], &set);
            assert_eq!(code, Some(0), "{}: {text}", set.display());
            // The dates of an example pass.
            let odd: Vec<&str> =
                text.lines().filter(|line| line.starts_with("warning:") && !line.contains(" expire")).collect();
            assert!(odd.is_empty(), "{}: {text}", set.display());
        }
    }
}

#[test]
fn the_schema_that_ships_is_that_of_the_language() {
    let (code, text) = run(&["policy", "schema"], &policies());
    assert_eq!(code, Some(0));
    let shipped = std::fs::read_to_string(policies().join("schema.json")).unwrap();
    assert!(text == shipped, "write it anew: `cargo run -q -- policy schema > policies/schema.json`");
}

#[test]
fn the_page_of_fields_that_ships_is_that_of_the_language() {
    let (code, text) = run(&["policy", "fields"], &policies());
    assert_eq!(code, Some(0));
    let shipped = std::fs::read_to_string(policies().join("FIELDS.md")).unwrap();
    assert!(text == shipped, "write it anew: `cargo run -q -- policy fields > policies/FIELDS.md`");
}

/// A block of the guide: its language, and what stands in it.
fn blocks(text: &str) -> Vec<(&str, &str)> {
    let fenced = text.split("```").skip(1).step_by(2);
    fenced.map(|block| block.split_once('\n').unwrap()).collect()
}

#[test]
fn the_guide_is_true() {
    let guide = std::fs::read_to_string(policies().join("GUIDE.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let set = folder.path().join("policies");
    std::fs::create_dir(&set).unwrap();
    let (mut commands, mut pieces) = (Vec::new(), 0);
    for (language, text) in blocks(&guide) {
        match language {
            "toml" => {
                std::fs::write(set.join(format!("{pieces}.toml")), text).unwrap();
                pieces += 1;
            }
            "console" => commands.push(text),
            other => panic!("what is {other}?"),
        }
    }
    for command in commands {
        let (line, expected) = command.split_once('\n').unwrap();
        let words = words(line.strip_prefix("$ sluice ").unwrap());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (_, text) = run(&words, folder.path());
        let (told, expected): (Vec<&str>, Vec<&str>) = (text.lines().collect(), expected.lines().collect());
        // A line that is an ellipsis alone stands for any lines.
        let is_told = match expected.iter().position(|line| *line == "…") {
            None => is_like(&told, &expected),
            Some(at) => {
                let behind = expected.len() - at - 1;
                told.len() > at + behind
                    && is_like(&told[..at], &expected[..at])
                    && is_like(&told[told.len() - behind..], &expected[at + 1..])
            }
        };
        assert!(is_told, "{line}\n{text}");
    }
}

/// Line by line, each as far as its ellipsis.
fn is_like(told: &[&str], expected: &[&str]) -> bool {
    let start = |line: &&str| line.split('…').next().unwrap_or_default().to_owned();
    told.len() == expected.len() && told.iter().zip(expected).all(|(told, line)| told.starts_with(&start(line)))
}

/// As a shell splits them, single quotes included.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, part) in line.split('\'').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}
