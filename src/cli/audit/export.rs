//! `sluice audit export`: writes entries for other programs.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::super::{ExitReason, print_exactly};
use super::entries::{EntryFilter, ShownEntry, for_each_entry, warn_unreadable};
use super::files::chosen;
use super::show::as_json;
use crate::base::visible::{visible, visible_json};

/// Write entries as CSV or JSON lines
///
/// Entries come in the order of the files; an entry that a node took over from a dead node may appear twice. In CSV,
/// a value that a spreadsheet would read as a formula starts with an apostrophe; the last column holds the whole
/// entry as JSON.
#[derive(Debug, Args)]
pub(super) struct AuditExportArgs {
    /// Audit files, or folders of audit files
    #[arg(required = true, value_name = "FILE|FOLDER")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    filter: EntryFilter,
    #[arg(long, value_enum, default_value = "csv")]
    format: ExportFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    Csv,
    Jsonl,
}

/// The CSV columns that come from the entry's JSON, each with its path.
const ENTRY_COLUMNS: [(&str, &str); 9] = [
    ("what", "what"),
    ("operation", "operation"),
    ("claim", "claim"),
    ("issuer", "owner.issuer"),
    ("subject", "owner.subject"),
    ("fingerprint", "fingerprint"),
    ("trace", "trace"),
    ("attempt", "attempt"),
    ("status", "status"),
];

pub(super) fn run(arguments: &AuditExportArgs) -> anyhow::Result<ExitReason> {
    let files = chosen(&arguments.paths)?;
    if arguments.format == ExportFormat::Csv {
        let names: Vec<&str> =
            ["environment", "number", "at", "node"].into_iter().chain(ENTRY_COLUMNS.map(|(name, _)| name)).collect();
        print_exactly(&format!("{},entry\r\n", names.join(",")))?;
    }
    let unreadable = for_each_entry(&files, |shown| {
        if !arguments.filter.matches(&shown) {
            return Ok(());
        }
        print_exactly(&match arguments.format {
            ExportFormat::Csv => row(&shown),
            ExportFormat::Jsonl => visible_json(&format!("{}\n", as_json(&shown))).into_owned(),
        })
    })?;
    warn_unreadable(unreadable);
    Ok(ExitReason::Done)
}

fn row(shown: &ShownEntry) -> String {
    let place = &shown.outstanding;
    let placed = [place.environment.to_string(), place.number.to_string(), shown.at(), place.node.to_string()];
    let values = ENTRY_COLUMNS.map(|(_, path)| shown.text(path));
    let cells = placed.into_iter().chain(values).chain([shown.entry.to_string()]);
    format!("{}\r\n", cells.map(|text| cell(&visible(&text))).collect::<Vec<_>>().join(","))
}

fn cell(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{guard}{}\"", text.replace('"', "\"\""))
    } else {
        format!("{guard}{text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_cell_and_no_formula() {
        assert_eq!(cell("a"), "a");
        assert_eq!(cell("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(cell("=1+1"), "'=1+1");
        assert_eq!(cell("@a\n"), "\"'@a\n\"");
    }
}
