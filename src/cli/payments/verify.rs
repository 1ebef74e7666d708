//! `sluice payments verify`: whether an export is what a gate wrote, and whether the audit log says the same.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};

use crate::audit::{FileSource as _, Hash, LineBody, LineReader, read_line, split_steps};
use crate::base::json::{self as strict, Limits};
use crate::cli::audit::files::{chosen, reading};
use crate::cli::output::OutputFormat;
use crate::cli::{ExitReason, complain, print, read_named_text};

/// Verify an export of payments, of a statement or of the history, as JSON lines
///
/// Checks the number of rows and the SHA-256 in the last line. With `--audit`, the audit log must have the entry of the
/// export, and the very entry that each row names; verify the log itself with `sluice audit verify`.
#[derive(Debug, Args)]
pub(super) struct VerifyExportArgs {
    /// The exported file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Audit files, or folders of audit files
    #[arg(long, value_name = "FILE|FOLDER", num_args = 1..)]
    audit: Vec<PathBuf>,
    /// Text for people, or JSON or CSV for programs
    #[arg(long, value_enum, default_value = "table")]
    output: OutputFormat,
}

impl VerifyExportArgs {
    pub(super) fn run(&self) -> anyhow::Result<ExitReason> {
        let shown = self.file.display();
        let text = read_named_text(&self.file)?;
        let (rows, unit) = match sealed_rows(&text) {
            Ok((rows, SealedRows::Payments)) => (rows, "payments"),
            Ok((rows, SealedRows::Statement)) => (rows, "lines"),
            Ok((rows, SealedRows::History)) => (rows, "entries"),
            Err(why) => return self.tell(None, &[format!("`{shown}` is not what a gate wrote: {why}")]),
        };
        let compared = if self.audit.is_empty() { "" } else { ", and the audit log says the same" };
        let advice = if self.audit.is_empty() { ". Compare it with the audit log: `--audit FOLDER`." } else { "" };
        // A line of a statement is no entry: the export as a whole is one.
        let entries: &[Value] = if unit == "lines" { &[] } else { &rows };
        let flaws = if self.audit.is_empty() { Vec::new() } else { self.flaws(&text, entries)? };
        let words = format!("`{shown}` is whole{compared}: {} {unit}{advice}\n", rows.len());
        self.tell(Some((rows.len(), words)), &flaws)
    }

    /// Tells the number of rows of a whole export, or what is wrong.
    fn tell(&self, whole: Option<(usize, String)>, flaws: &[String]) -> anyhow::Result<ExitReason> {
        for flaw in flaws {
            complain(format_args!("sluice: {flaw}"));
        }
        let verdict = json!({
            "whole": whole.is_some(),
            "rows": whole.as_ref().map(|(rows, _)| rows),
            "compared": whole.is_some() && !self.audit.is_empty(),
            "flaws": flaws,
        });
        let words = whole.filter(|_| flaws.is_empty()).map_or_else(String::new, |(_, words)| words);
        print(&self.output.text(|| words, || verdict, None))?;
        Ok(if flaws.is_empty() { ExitReason::Done } else { ExitReason::Faulty })
    }

    /// Returns where the audit log says something else.
    fn flaws(&self, text: &str, rows: &[Value]) -> anyhow::Result<Vec<String>> {
        let sha256 = Hash::of(&[text.as_bytes()]).to_string();
        let key = |row: &Value| Some((row["environment"].as_str()?.to_owned(), row["number"].as_u64()?));
        let mut wanted: BTreeMap<(String, u64), &Value> = BTreeMap::new();
        for row in rows {
            let Some(key) = key(row) else { bail!("a row has no number: {row}") };
            wanted.insert(key, row);
        }
        let (mut flaws, mut is_recorded, all) = (Vec::new(), false, wanted.len());
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
                is_recorded |= words["what"] == "exported" && words["sha256"].as_str() == Some(sha256.as_str());
            }
        }
        if !is_recorded {
            let no_entry = "the audit log has no entry of this export";
            // The numbers of another installation say nothing of these rows.
            if all > 0 && flaws.len().saturating_add(wanted.len()) == all {
                return Ok(vec![format!(
                    "{no_entry}, nor any of its rows: is it the folder of the gate that made it?"
                )]);
            }
            flaws.push(no_entry.to_owned());
        }
        flaws.extend(
            wanted.keys().map(|(environment, number)| format!("the audit log has no entry {number} of {environment}")),
        );
        Ok(flaws)
    }
}

/// Where a change of form comes from.
const CHANGED: &str = "an editor, a mail program or a transfer as text does: verify the file as the console gave it";

/// The rows of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SealedRows {
    Payments,
    Statement,
    History,
}

/// Returns the rows of an export, if its last line fits the lines before.
fn sealed_rows(text: &str) -> Result<(Vec<Value>, SealedRows), String> {
    if text.starts_with('\u{feff}') {
        return Err(format!("it begins with a byte order mark, which {CHANGED}"));
    }
    if text.ends_with("\r\n") {
        return Err(format!("its lines end with CR and LF, which {CHANGED}"));
    }
    let body = match text.strip_suffix('\n') {
        Some(body) => body,
        None if text.is_empty() => return Err("it is empty".to_owned()),
        None if text.ends_with('}') => return Err(format!("the newline at its end is missing, which {CHANGED}")),
        None => return Err("its last line is cut".to_owned()),
    };
    let (body, last) = body.rsplit_once('\n').ok_or("it has no rows")?;
    let parse =
        |line: &str| strict::parse(line.as_bytes(), Limits::ANSWER).map_err(|_| "a line is not JSON".to_owned());
    let end = &parse(last)?;
    let sha256 = Hash::of(&[body.as_bytes(), b"\n"]).to_string();
    if end["sha256"].as_str() != Some(sha256.as_str()) {
        return Err("the SHA-256 in its last line is not that of the lines before".to_owned());
    }
    let mut lines = body.split('\n');
    let head = &parse(lines.next().unwrap_or_default())?;
    let kind = match (head["format"].as_u64(), head["what"].as_str()) {
        (Some(1), Some("payments")) => SealedRows::Payments,
        (Some(1), Some("statement")) => SealedRows::Statement,
        (Some(1), Some("history")) => SealedRows::History,
        _ => return Err("its first line is not that of an export of a console in format 1".to_owned()),
    };
    let rows = lines.map(parse).collect::<Result<Vec<_>, _>>()?;
    let count = end["rows"].as_u64();
    if count != u64::try_from(rows.len()).ok() {
        return Err("its last line tells another number of rows".to_owned());
    }
    Ok((rows, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(rows: &str, count: usize) -> String {
        let body = format!("{{\"format\":1,\"what\":\"payments\"}}\n{rows}");
        let sha256 = Hash::of(&[body.as_bytes()]);
        format!("{body}{{\"rows\":{count},\"sha256\":\"{sha256}\"}}\n")
    }

    #[test]
    fn an_export_that_was_changed_is_noticed() {
        let whole = export("{\"a\":1}\n{\"a\":2}\n", 2);
        assert_eq!(sealed_rows(&whole).unwrap().0.len(), 2);
        for changed in [
            whole.replace("{\"a\":2}", "{\"a\":3}"),
            whole.replace("{\"a\":1}\n", ""),
            export("{\"a\":1}\n", 2),
            export("{\"a\":1}\n", 1).replace("payments", "holds"),
            whole.trim_end().to_owned(),
            String::new(),
        ] {
            assert!(sealed_rows(&changed).is_err(), "{changed}");
        }
    }

    #[test]
    fn what_an_editor_made_of_an_export_is_named() {
        let whole = export("{\"a\":1}\n", 1);
        for (changed, why) in [
            (whole.trim_end().to_owned(), "the newline at its end is missing"),
            (whole.replace('\n', "\r\n"), "its lines end with CR and LF"),
            (format!("\u{feff}{whole}"), "it begins with a byte order mark"),
            (String::new(), "it is empty"),
            (whole[..whole.len() - 9].to_owned(), "its last line is cut"),
        ] {
            let found = sealed_rows(&changed).unwrap_err();
            assert!(found.starts_with(why), "{found}");
        }
    }
}
