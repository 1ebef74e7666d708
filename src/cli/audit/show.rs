//! `sluice audit show`: prints entries in words.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;

use super::super::output::OutputFormat;
use super::super::{ExitReason, print};
use super::entries::{EntryFilter, ShownEntry, for_each_entry, warn_unreadable};
use super::files::{chosen, reading};
use super::forms::{csv_head, csv_row, entry_line, json_line};
use crate::base::visible::visible;

/// Show entries; with `--request-id`, the history of one request
///
/// Entries are ordered by environment and number, across the files of all nodes. This command does not verify them; use
/// `sluice audit verify` for that.
#[derive(Debug, Args)]
pub(super) struct AuditShowArgs {
    /// Audit files, or folders of audit files
    #[arg(required = true, value_name = "FILE|FOLDER")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    filter: EntryFilter,
    /// Text for people, one JSON object per line, or CSV
    #[arg(long, value_enum, default_value = "table")]
    output: OutputFormat,
}

pub(super) fn run(arguments: &AuditShowArgs) -> anyhow::Result<ExitReason> {
    let files = chosen(&arguments.paths)?;
    let mut found = Vec::new();
    let unreadable = for_each_entry(&files, reading(&files), |shown| {
        if arguments.filter.matches(&shown) {
            found.push(shown);
        }
        Ok(())
    })?;
    warn_unreadable(unreadable);
    found.sort_by_key(|shown| (shown.outstanding.environment, shown.outstanding.number));
    // An entry that a node took over from another node is in two files.
    found.dedup_by(|one, other| one.outstanding == other.outstanding);
    if found.is_empty() {
        bail!("no matching entries{}", arguments.filter.hint());
    }
    let text = match (arguments.output, &arguments.filter.request_id) {
        (OutputFormat::Json, _) => found.iter().map(json_line).collect(),
        (OutputFormat::Csv, _) => {
            let rows: String = std::iter::once(csv_head()).chain(found.iter().map(csv_row)).collect();
            rows.replace('\r', "")
        }
        (OutputFormat::Table, Some(_)) => request_history(&found),
        (OutputFormat::Table, None) => found.iter().map(|shown| format!("{}\n", entry_line(shown))).collect(),
    };
    print(&text)?;
    Ok(ExitReason::Done)
}

/// Formats the history of one request, for each environment that has it.
fn request_history(found: &[ShownEntry]) -> String {
    let mut text = String::new();
    let mut last_heading = None;
    for shown in found {
        let heading = (shown.outstanding.environment, shown.subject(), shown.text("fingerprint"));
        if last_heading.as_ref() != Some(&heading) {
            let (environment, subject, fingerprint) = &heading;
            text.push_str(&format!("{environment}: {subject}\n"));
            if !fingerprint.is_empty() {
                text.push_str(&format!("  fingerprint {}\n", visible(fingerprint)));
            }
            last_heading = Some(heading);
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
