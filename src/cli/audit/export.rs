//! `sluice audit export`: entries for other programs.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::super::{Ending, print};
use super::entries::{Filter, Shown, each, tell_unreadable};
use super::files::chosen;
use super::show::as_json;

/// Write entries as CSV or JSON lines
///
/// In the order of the files; what was taken over from a dead node may stand in two of them. In CSV, a value that a
/// spreadsheet would take for a formula has an apostrophe before it; the last column holds the whole Entry as JSON.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Files, or folders of files
    #[arg(required = true, value_name = "FILE|FOLDER")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    filter: Filter,
    #[arg(long, value_enum, default_value = "csv")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Csv,
    Jsonl,
}

/// Columns of what an Entry says.
const SAID: [(&str, &str); 9] = [
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

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Ending> {
    let files = chosen(&arguments.paths)?;
    if arguments.format == Format::Csv {
        let names: Vec<&str> =
            ["environment", "number", "at", "node"].into_iter().chain(SAID.map(|(name, _)| name)).collect();
        print(&format!("{},entry\r\n", names.join(",")))?;
    }
    let unreadable = each(&files, |shown| {
        if !arguments.filter.takes(&shown) {
            return Ok(());
        }
        print(&match arguments.format {
            Format::Csv => row(&shown),
            Format::Jsonl => format!("{}\n", as_json(&shown)),
        })
    })?;
    tell_unreadable(unreadable);
    Ok(Ending::Done)
}

fn row(shown: &Shown) -> String {
    let place = &shown.outstanding;
    let placed = [place.environment.to_string(), place.number.to_string(), shown.at(), place.node.to_string()];
    let said = SAID.map(|(_, path)| shown.text(path));
    let cells = placed.into_iter().chain(said).chain([shown.entry.to_string()]);
    format!("{}\r\n", cells.map(|text| cell(&text)).collect::<Vec<_>>().join(","))
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
