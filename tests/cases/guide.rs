//! The table for integrators: complete, true, and in agreement with the reference of responses.

use std::collections::{BTreeMap, BTreeSet};

use sluice::stations::claim::DoubtCause;
use sluice::stations::reply::{Code, Executed};

/// Codes that only people at the console meet.
const OF_THE_CONSOLE: [Code; 17] = [
    Code::RequestNotFound,
    Code::NotInDoubt,
    Code::TwoPeopleNeeded,
    Code::TooManyFreezes,
    Code::TooEarly,
    Code::SenderAway,
    Code::SaidExecuted,
    Code::GateHeard,
    Code::HoldNotFound,
    Code::OtherBytes,
    Code::OtherCauses,
    Code::HoldOver,
    Code::HoldFull,
    Code::SignatureRequired,
    Code::SignatureRefused,
    Code::ReceiptNotReady,
    Code::ReceiptUnavailable,
];
/// Codes whose status is upstream's, or that only reads meet.
const OF_ANY_STATUS: [Code; 3] = [Code::UpstreamError, Code::OutcomeUnknown, Code::UpstreamTimeout];

/// The rows of the tables under a heading: cells, without the heads.
fn rows(page: &str, heading: &str) -> Vec<Vec<String>> {
    let path = format!("{}/deploy/docs/{page}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let (_, after) = text.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no {heading} in {page}"));
    let section = after.split("\n## ").next().unwrap();
    let lines = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    lines.map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// The words in backticks.
fn words(cell: &str) -> BTreeSet<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn outcomes(cell: &str) -> BTreeSet<&str> {
    words(cell).into_iter().filter(|word| Executed::WORDS.iter().any(|(known, _)| known == word)).collect()
}

/// The outcomes that each code is listed with.
fn outcomes_of_codes(rows: &[Vec<String>]) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in rows {
        for code in Code::ALL.iter().filter(|code| words(&row[0]).contains(code.as_str())) {
            let told = outcomes(&row[1]).into_iter().map(str::to_owned);
            all.entry(code.as_str().to_owned()).or_default().extend(told);
        }
    }
    all
}

#[test]
fn the_table_for_integrators_has_every_code_with_its_status() {
    let rows = rows("integrate.md", "What each answer means");
    assert!(rows.iter().all(|row| row.len() == 4 && row.iter().all(|cell| !cell.is_empty())), "{rows:#?}");
    for code in Code::ALL.into_iter().filter(|code| !OF_THE_CONSOLE.contains(code) && *code != Code::UpstreamTimeout) {
        let row = rows.iter().find(|row| words(&row[0]).contains(code.as_str()));
        let row = row.unwrap_or_else(|| panic!("{} is missing: say what it means and what may be done", code.as_str()));
        // A row may list several statuses, each before its codes.
        let before = row[0].split(code.as_str()).next().unwrap();
        let is_there = before.contains(&code.status().to_string()) || OF_ANY_STATUS.contains(&code);
        assert!(is_there, "{}: {} is not the status of {}", row[0], code.status(), code.as_str());
    }
    for (row, word) in rows.iter().flat_map(|row| words(&row[0]).into_iter().map(move |word| (row, word))) {
        let is_code = word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
        assert!(!is_code || Code::parse(word).is_some(), "{word} is no code: {row:?}");
    }
    for (word, _) in Executed::WORDS {
        assert!(rows.iter().any(|row| outcomes(&row[1]).contains(word)), "{word} is missing");
    }
    // Nothing that could make somebody pay twice.
    for row in rows.iter().filter(|row| outcomes(&row[1]).contains("unknown") && row[0].contains("OUTCOME_UNKNOWN")) {
        assert!(row[3].contains("Never use a new requestId"), "{row:?}");
    }
}

#[test]
fn the_reference_of_responses_agrees_with_it() {
    let guide = outcomes_of_codes(&rows("integrate.md", "What each answer means"));
    let reference = outcomes_of_codes(&rows("responses.md", "Changes and money"));
    for (code, told) in &guide {
        // Calls that no operation matches are listed in another table there.
        if told.is_empty() {
            continue;
        }
        assert_eq!(reference.get(code), Some(told), "{code}");
    }
    for code in reference.keys() {
        assert!(guide.contains_key(code), "{code} is missing in integrate.md");
    }
}

#[test]
fn every_cause_of_an_unknown_outcome_is_explained_wherever_people_read_it() {
    let read = |name: &str| std::fs::read_to_string(format!("{}/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let rows = rows("unknown-outcomes.md", "What people do");
    let explained: BTreeSet<&str> = rows.iter().flat_map(|row| words(&row[0])).collect();
    let (page, schema) = (read("src/console/web/doubts.js"), read("schemas/console.json"));
    for cause in DoubtCause::ALL.map(DoubtCause::as_str) {
        assert!(explained.contains(cause), "{cause} is missing in unknown-outcomes.md");
        assert!(page.contains(&format!("\n  {cause}: \"")), "{cause} is missing in doubts.js");
        assert!(schema.contains(&format!("\"{cause}\"")), "{cause} is missing in console.json");
    }
}
