//! `sluice audit export` and `sluice audit check-export`: entries for other programs, and the proof that an export is
//! whole and unchanged.

use std::fs;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::super::output::OutputFormat;
use super::super::{ExitReason, complain, print, print_exactly, read_named_file};
use super::entries::{EntryFilter, for_each_entry, warn_unreadable};
use super::files::{chosen, reading};
use super::forms::{csv_head, csv_row, entry_line, json_line};
use crate::adapters::regular_file::open_regular;
use crate::base::json;

/// The format of a digest file. No other is read.
const DIGEST_FORMAT: u64 = 1;

/// Write entries as CSV or JSON lines
///
/// Entries come in the order of the files; an entry that a node took over from a dead node may appear twice. In CSV,
/// a value that a spreadsheet would read as a formula starts with an apostrophe; the last column holds the whole
/// entry as JSON. With `--digest`, the number of entries and the SHA-256 of the export are written to a file;
/// `sluice audit check-export` compares them.
#[derive(Debug, Args)]
pub(super) struct AuditExportArgs {
    /// Audit files, or folders of audit files
    #[arg(required = true, value_name = "FILE|FOLDER")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    filter: EntryFilter,
    /// A file to write the digest of the export to
    #[arg(long, value_name = "FILE")]
    digest: Option<PathBuf>,
    /// CSV, one JSON object per line, or the lines of `sluice audit show`
    #[arg(long, value_enum, default_value = "csv")]
    output: OutputFormat,
}

/// Check that an export is whole and unchanged, by the digest that was written with it
///
/// Exits with 0 if it is, with 3 otherwise. Keep the digest where whoever can change the export cannot change it.
#[derive(Debug, Args)]
pub(super) struct CheckExportArgs {
    /// The export
    #[arg(value_name = "EXPORT")]
    export: PathBuf,
    /// The digest that `sluice audit export --digest` wrote
    #[arg(long, value_name = "FILE")]
    digest: PathBuf,
    /// Text for people, or JSON or CSV for programs
    #[arg(long, value_enum, default_value = "table")]
    output: OutputFormat,
}

/// The contents of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportDigest {
    entries: u64,
    bytes: u64,
    sha256: String,
}

pub(super) fn run(arguments: &AuditExportArgs) -> anyhow::Result<ExitReason> {
    let files = chosen(&arguments.paths)?;
    let (mut hash, mut entries, mut bytes) = (Sha256::new(), 0_u64, 0_u64);
    let mut put = |text: &str| {
        hash.update(text.as_bytes());
        bytes = bytes.saturating_add(text.len() as u64);
        print_exactly(text)
    };
    if arguments.output == OutputFormat::Csv {
        put(&csv_head())?;
    }
    let unreadable = for_each_entry(&files, reading(&files).unless_printing(), |shown| {
        if !arguments.filter.matches(&shown) {
            return Ok(());
        }
        entries = entries.saturating_add(1);
        put(&match arguments.output {
            OutputFormat::Csv => csv_row(&shown),
            OutputFormat::Json => json_line(&shown),
            OutputFormat::Table => format!("{}\n", entry_line(&shown)),
        })
    })?;
    warn_unreadable(unreadable);
    if entries == 0 {
        complain(format_args!("the export is empty: no matching entries{}", arguments.filter.hint()));
    }
    let digest = ExportDigest { entries, bytes, sha256: hex(&hash.finalize()) };
    if let Some(path) = &arguments.digest {
        let text = json::to_record(&digest, DIGEST_FORMAT);
        fs::write(path, text).with_context(|| format!("`{}` cannot be written", path.display()))?;
    }
    Ok(ExitReason::Done)
}

pub(super) fn check(arguments: &CheckExportArgs) -> anyhow::Result<ExitReason> {
    let path = &arguments.digest;
    let text = read_named_file(path)?;
    let Ok(expected) = json::from_record::<ExportDigest>(&text, DIGEST_FORMAT) else {
        bail!("`{}` is not a digest written by `sluice audit export --digest`", path.display());
    };
    let (bytes, sha256) = digest_of(&arguments.export)?;
    let export = arguments.export.display();
    let is_whole = (bytes, &sha256) == (expected.bytes, &expected.sha256);
    let words = || match is_whole {
        true => format!("`{export}` is whole and unchanged: {} entries, SHA-256 {sha256}\n", expected.entries),
        false => format!(
            "`{export}` is NOT what was exported: it has {bytes} bytes with SHA-256 {sha256}, not {} bytes with SHA-256 {}\n",
            expected.bytes, expected.sha256
        ),
    };
    let found = || json!({ "whole": is_whole, "bytes": bytes, "sha256": sha256, "digest": expected });
    print(&arguments.output.text(words, found, None))?;
    Ok(if is_whole { ExitReason::Done } else { ExitReason::Faulty })
}

/// Returns the length and the SHA-256 of a file.
fn digest_of(path: &Path) -> anyhow::Result<(u64, String)> {
    let unreadable = || format!("`{}` cannot be read", path.display());
    let mut file = BufReader::new(open_regular(path).with_context(unreadable)?);
    let (mut hash, mut bytes, mut piece) = (Sha256::new(), 0_u64, vec![0; 64 * 1024]);
    loop {
        let count = file.read(&mut piece).with_context(unreadable)?;
        if count == 0 {
            return Ok((bytes, hex(&hash.finalize())));
        }
        hash.update(piece.get(..count).unwrap_or_default());
        bytes = bytes.saturating_add(count as u64);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
