//! `sluice payments verify`: whether an export is what a gate wrote, and whether the audit log says the same.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};

use super::joined::{ExportPart, gaps};
use super::sealed_export::SealedExport;
use crate::audit::{FileSource as _, Hash, LineBody, LineReader, read_line, split_steps};
use crate::base::json::{self as strict, Limits};
use crate::base::visible::visible_lines;
use crate::cli::audit::files::{chosen, reading};
use crate::cli::output::OutputFormat;
use crate::cli::{ExitReason, complain, print, read_named_text};

/// Verify an export of payments, of a statement or of the history, as JSON lines
///
/// Checks the number of rows and the SHA-256 in the last line. With `--audit`, the audit log must have the entry of the
/// export, and the very entry that each row names; verify the log itself with `sluice audit verify`.
///
/// An export of more than 5,000 rows has several files, each of which is a part: name them all, in any order. They are whole if
/// the first one begins at the beginning, and each other one goes on where another ends.
///
/// Exits with 3 if a file was changed, and also if it is unchanged and not whole: it is a part, the gate had nothing from before
/// `since`, or the day of a statement was not over. In JSON, `unchanged` is true then, `whole` is false, and `gaps` says why.
#[derive(Debug, Args)]
pub(super) struct VerifyExportArgs {
    /// The exported file, or all files of one export
    #[arg(value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
    /// Audit files, or folders of audit files
    #[arg(long, value_name = "FILE|FOLDER", num_args = 1..)]
    audit: Vec<PathBuf>,
    /// Text for people, or JSON or CSV for programs
    #[arg(long, value_enum, default_value = "table")]
    output: OutputFormat,
}

impl VerifyExportArgs {
    pub(super) fn run(&self) -> anyhow::Result<ExitReason> {
        let (mut exports, mut flaws) = (Vec::new(), Vec::new());
        for file in &self.files {
            let (path, text) = (file.display().to_string(), read_named_text(file)?);
            match SealedExport::read(&text) {
                Ok(export) => exports.push(ExportPart { path, sha256: Hash::of(&[text.as_bytes()]), export }),
                Err(why) => flaws.push(format!("`{path}` {why}")),
            }
        }
        let is_unchanged = flaws.is_empty();
        if is_unchanged && !self.audit.is_empty() {
            flaws = self.flaws(&exports)?;
        }
        self.tell(&exports, is_unchanged, &flaws)
    }

    /// Tells what unchanged exports have, or what is wrong.
    fn tell(&self, exports: &[ExportPart], is_unchanged: bool, flaws: &[String]) -> anyhow::Result<ExitReason> {
        for flaw in flaws {
            complain(format_args!("sluice: {flaw}"));
        }
        let gaps = if is_unchanged { gaps(exports) } else { Vec::new() };
        let is_right = flaws.is_empty() && gaps.is_empty();
        let first = exports.first().filter(|_| is_unchanged).map(|part| &part.export);
        let of_head = |name: &str| first.map_or(Value::Null, |export| export.of_head(name).clone());
        let file = |part: &ExportPart| {
            let [after, next] = ["after", "next"].map(|name| part.export.of_head(name));
            json!({ "path": part.path, "rows": part.export.rows.len(), "after": after, "next": next })
        };
        let verdict = json!({
            "whole": is_unchanged && gaps.is_empty(),
            "unchanged": is_unchanged,
            "rows": first.map(|_| row_count(exports)),
            "since": of_head("since"),
            "day": of_head("day"),
            "zone": of_head("zone"),
            "gaps": gaps,
            "compared": is_unchanged && !self.audit.is_empty(),
            "flaws": flaws,
            "files": exports.iter().map(file).collect::<Vec<_>>(),
        });
        let words = if flaws.is_empty() { self.in_words(exports, &gaps) } else { String::new() };
        print(&self.output.text(|| words, || verdict, None))?;
        Ok(if is_right { ExitReason::Done } else { ExitReason::Faulty })
    }

    /// Describes unchanged exports.
    fn in_words(&self, exports: &[ExportPart], gaps: &[String]) -> String {
        let compared = if self.audit.is_empty() { "" } else { ", and the audit log says the same" };
        let advice = if self.audit.is_empty() { ". Compare it with the audit log: `--audit FOLDER`." } else { "" };
        let state = if gaps.is_empty() && exports.len() == 1 { "whole" } else { "unchanged" };
        let line = |ExportPart { path, export, .. }: &ExportPart| {
            let of = match (export.of_head("day").as_str(), export.of_head("zone").as_str()) {
                (Some(day), Some(zone)) => format!(" of {day} in {zone}"),
                _ => String::new(),
            };
            format!("`{path}` is {state}{compared}: {}{of}{advice}\n", export.kind.counted(export.rows.len()))
        };
        let lines: String = exports.iter().map(line).collect();
        let joined = exports.split_first().filter(|(_, others)| gaps.is_empty() && !others.is_empty());
        let joined = joined.map_or_else(String::new, |(first, _)| {
            let count = first.export.kind.counted(row_count(exports));
            format!(
                "The {} files are whole together, from the beginning to the end without a gap: {count}.\n",
                exports.len()
            )
        });
        let it = if exports.len() == 1 { "It is" } else { "They are" };
        let gaps: String = gaps.iter().map(|gap| format!("{it} NOT whole: {gap}.\n")).collect();
        visible_lines(&format!("{lines}{joined}{gaps}")).into_owned()
    }

    /// Returns where the audit log says something else.
    fn flaws(&self, exports: &[ExportPart]) -> anyhow::Result<Vec<String>> {
        let key = |row: &Value| Some((row["environment"].as_str()?.to_owned(), row["number"].as_u64()?));
        let mut wanted: BTreeMap<(String, u64), &Value> = BTreeMap::new();
        for row in exports.iter().flat_map(|part| part.export.entries()) {
            let Some(key) = key(row) else { bail!("a row has no number: {row}") };
            wanted.insert(key, row);
        }
        let mut unrecorded: BTreeMap<String, &str> =
            exports.iter().map(|part| (part.sha256.to_string(), part.path.as_str())).collect();
        let (mut flaws, all, files_of_all) = (Vec::new(), wanted.len(), unrecorded.len());
        let files = chosen(&self.audit)?;
        let (mut progress, mut bytes) = (reading(&files), 0_u64);
        for file in files {
            let mut lines = LineReader::of(file.open()?);
            let before = bytes;
            while let Some(raw) = lines.following()? {
                bytes = before.saturating_add(raw.end());
                progress.show(bytes);
                let Ok(line) = read_line(raw.bytes) else { continue };
                let LineBody::Entry(entry) = &line.body else { continue };
                let found = wanted.remove(&(entry.environment.as_str().to_owned(), entry.number.as_u64()));
                if let Some(row) = found
                    && row["entrySha256"].as_str() != Some(line.content().to_string().as_str())
                {
                    flaws.push(format!(
                        "entry {} of {} is another one in the audit log",
                        entry.number, entry.environment
                    ));
                }
                let bare = split_steps(&entry.entry).map(|split| split.bare).unwrap_or_default();
                let words = &strict::parse(&bare, Limits::ANSWER).unwrap_or(Value::Null);
                if let (Some("exported"), Some(sha256)) = (words["what"].as_str(), words["sha256"].as_str()) {
                    unrecorded.remove(sha256);
                }
            }
        }
        let no_entry = "the audit log has no entry of this export";
        // The numbers of another installation say nothing of these rows.
        let is_other = unrecorded.len() == files_of_all && flaws.len().saturating_add(wanted.len()) == all;
        if is_other && all > 0 {
            return Ok(vec![format!("{no_entry}, nor any of its rows: is it the folder of the gate that made it?")]);
        }
        flaws.extend(unrecorded.values().map(|path| match exports.len() {
            1 => no_entry.to_owned(),
            _ => format!("the audit log has no entry of the export `{path}`"),
        }));
        flaws.extend(
            wanted.keys().map(|(environment, number)| format!("the audit log has no entry {number} of {environment}")),
        );
        Ok(flaws)
    }
}

fn row_count(exports: &[ExportPart]) -> usize {
    exports.iter().map(|part| part.export.rows.len()).sum()
}
