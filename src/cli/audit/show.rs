//! `sluice audit show`: what happened, in words.

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, ValueEnum};
use serde_json::json;

use super::super::{Ending, print};
use super::entries::{Filter, Shown, each, plain, tell_unreadable};
use super::files::chosen;

/// Show entries; with `--request-id`, the story of one request
///
/// Entries are ordered by environment and number, whichever node's file they stand in. It does not verify:
/// `sluice audit verify` does.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Files, or folders of files
    #[arg(required = true, value_name = "FILE|FOLDER")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    filter: Filter,
    /// Lines for people, or a JSON object a line for programs
    #[arg(long, value_enum, default_value = "lines")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Lines,
    Json,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Ending> {
    let files = chosen(&arguments.paths)?;
    let mut found = Vec::new();
    let unreadable = each(&files, |shown| {
        if arguments.filter.takes(&shown) {
            found.push(shown);
        }
        Ok(())
    })?;
    tell_unreadable(unreadable);
    found.sort_by_key(|shown| (shown.outstanding.environment, shown.outstanding.number));
    // What was taken over from another node stands in two files.
    found.dedup_by(|one, other| one.outstanding == other.outstanding);
    if found.is_empty() {
        bail!("no entry is so");
    }
    let text = match (arguments.output, &arguments.filter.request_id) {
        (Output::Json, _) => found.iter().map(|shown| format!("{}\n", as_json(shown))).collect(),
        (Output::Lines, Some(_)) => story(&found),
        (Output::Lines, None) => found.iter().map(|shown| format!("{}\n", line(shown))).collect(),
    };
    print(&text)?;
    Ok(Ending::Done)
}

/// An Entry by itself.
pub(super) fn line(shown: &Shown) -> String {
    let place = &shown.outstanding;
    format!("{} {} {}  {}  {}", shown.at(), place.environment, place.number, shown.subject(), shown.event())
}

pub(super) fn as_json(shown: &Shown) -> serde_json::Value {
    let place = &shown.outstanding;
    json!({
        "environment": place.environment.as_str(),
        "number": place.number.as_u64(),
        "at": shown.at(),
        "node": place.node.as_str(),
        "entry": shown.entry,
    })
}

/// What became of one request, in each environment that knows it.
fn story(found: &[Shown]) -> String {
    let mut text = String::new();
    let mut told = None;
    for shown in found {
        let heading = (shown.outstanding.environment, shown.subject(), shown.text("fingerprint"));
        if told.as_ref() != Some(&heading) {
            let (environment, subject, fingerprint) = &heading;
            text.push_str(&format!("{environment}: {subject}\n"));
            if !fingerprint.is_empty() {
                text.push_str(&format!("  fingerprint {}\n", plain(fingerprint)));
            }
            told = Some(heading);
        }
        let place = &shown.outstanding;
        text.push_str(&format!(
            "  {}  {}  (number {}, node {})\n",
            shown.at(),
            shown.event(),
            place.number,
            place.node
        ));
    }
    text
}
