//! `sluice payments verify`: whether an export is what a gate wrote, and whether the audit log says the same.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

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
/// Exits with 3 if the file was changed, and also if it is unchanged and not whole: the gate had no payments from before `since`,
/// or the day of a statement was not over. In JSON, `unchanged` is true for such a file, `whole` is false, and `gaps` says why.
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
        let export = match SealedExport::read(&text) {
            Ok(export) => export,
            Err(why) => return self.tell(None, &[format!("`{shown}` is not what a gate wrote: {why}")]),
        };
        let flaws = if self.audit.is_empty() { Vec::new() } else { self.flaws(&text, export.entries())? };
        self.tell(Some(&export), &flaws)
    }

    /// Tells what an unchanged export has, or what is wrong.
    fn tell(&self, export: Option<&SealedExport>, flaws: &[String]) -> anyhow::Result<ExitReason> {
        for flaw in flaws {
            complain(format_args!("sluice: {flaw}"));
        }
        let gaps = export.map(SealedExport::gaps).unwrap_or_default();
        let (is_unchanged, is_right) = (export.is_some(), flaws.is_empty() && gaps.is_empty());
        let of_head = |name: &str| export.map_or(Value::Null, |export| export.of_head(name).clone());
        let verdict = json!({
            "whole": is_unchanged && gaps.is_empty(),
            "unchanged": is_unchanged,
            "rows": export.map(|export| export.rows.len()),
            "since": of_head("since"),
            "day": of_head("day"),
            "zone": of_head("zone"),
            "gaps": gaps,
            "compared": is_unchanged && !self.audit.is_empty(),
            "flaws": flaws,
        });
        let words = export.filter(|_| flaws.is_empty()).map_or_else(String::new, |export| self.in_words(export, &gaps));
        print(&self.output.text(|| words, || verdict, None))?;
        Ok(if is_right { ExitReason::Done } else { ExitReason::Faulty })
    }

    /// Describes an unchanged export.
    fn in_words(&self, export: &SealedExport, gaps: &[String]) -> String {
        let shown = self.file.display();
        let compared = if self.audit.is_empty() { "" } else { ", and the audit log says the same" };
        let advice = if self.audit.is_empty() { ". Compare it with the audit log: `--audit FOLDER`." } else { "" };
        let state = if gaps.is_empty() { "whole" } else { "unchanged" };
        let of = match (export.of_head("day").as_str(), export.of_head("zone").as_str()) {
            (Some(day), Some(zone)) => format!(" of {day} in {zone}"),
            _ => String::new(),
        };
        let (rows, unit) = (export.rows.len(), export.kind.unit());
        let gaps: String = gaps.iter().map(|gap| format!("It is NOT whole: {gap}.\n")).collect();
        visible_lines(&format!("`{shown}` is {state}{compared}: {rows} {unit}{of}{advice}\n{gaps}")).into_owned()
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

/// An export whose last line fits the lines before.
#[derive(Debug)]
struct SealedExport {
    head: Value,
    kind: SealedRows,
    rows: Vec<Value>,
}

impl SealedRows {
    fn unit(self) -> &'static str {
        match self {
            SealedRows::Payments => "payments",
            SealedRows::Statement => "lines",
            SealedRows::History => "entries",
        }
    }
}

impl SealedExport {
    fn read(text: &str) -> Result<SealedExport, String> {
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
        let head = parse(lines.next().unwrap_or_default())?;
        let kind = match (head.get("format").and_then(Value::as_u64), head.get("what").and_then(Value::as_str)) {
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
        Ok(SealedExport { head, kind, rows })
    }

    /// The rows that are entries of the audit log. A line of a statement is none: the export as a whole is one.
    fn entries(&self) -> &[Value] {
        if self.kind == SealedRows::Statement { &[] } else { &self.rows }
    }

    /// A member of the first line.
    fn of_head(&self, name: &str) -> &Value {
        self.head.get(name).unwrap_or(&Value::Null)
    }

    /// Returns why it does not have all that its head names.
    fn gaps(&self) -> Vec<String> {
        let since = self.of_head("since").as_str().filter(|since| !self.begins_at(since));
        let earlier = since.map(|since| format!("payments before {since} are not in it"));
        let is_early = self.kind == SealedRows::Statement && *self.of_head("over") != true;
        earlier.into_iter().chain(is_early.then(|| "the day was not over".to_owned())).collect()
    }

    /// Whether only payments from this time on were asked for. Each line of a statement begins with those that were open before.
    fn begins_at(&self, since: &str) -> bool {
        let from =
            self.head.pointer("/filters/from").and_then(Value::as_str).filter(|_| self.kind == SealedRows::Payments);
        let from =
            from.and_then(|from| from.parse().or_else(|_| format!("{from}T00:00:00Z").parse::<Timestamp>()).ok());
        from.zip(since.parse().ok()).is_some_and(|(from, since)| from >= since)
    }
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
        assert_eq!(SealedExport::read(&whole).unwrap().rows.len(), 2);
        for changed in [
            whole.replace("{\"a\":2}", "{\"a\":3}"),
            whole.replace("{\"a\":1}\n", ""),
            export("{\"a\":1}\n", 2),
            export("{\"a\":1}\n", 1).replace("payments", "holds"),
            whole.trim_end().to_owned(),
            String::new(),
        ] {
            assert!(SealedExport::read(&changed).is_err(), "{changed}");
        }
    }

    #[test]
    fn what_an_export_lacks_is_told() {
        let gaps = |head: Value| {
            let kind = if head["day"].is_null() { SealedRows::Payments } else { SealedRows::Statement };
            SealedExport { head, kind, rows: Vec::new() }.gaps()
        };
        let since = "2026-11-30T12:00:00Z";
        assert!(gaps(json!({"since": null, "filters": {}})).is_empty());
        assert!(gaps(json!({"since": since, "filters": {}}))[0].contains(since));
        for (from, is_whole) in
            [("2026-12-01", true), ("2026-11-30", false), ("2026-11-30T12:00:00Z", true), ("x", false)]
        {
            assert_eq!(gaps(json!({"since": since, "filters": {"from": from}})).is_empty(), is_whole, "{from}");
        }
        assert_eq!(gaps(json!({"day": "2026-11-30", "since": null, "over": false})), ["the day was not over"]);
        assert_eq!(
            gaps(json!({"day": "2026-12-01", "since": since, "over": true, "filters": {"from": since}})).len(),
            1
        );
        assert!(gaps(json!({"day": "2026-11-30", "since": null, "over": true})).is_empty());
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
            let found = SealedExport::read(&changed).unwrap_err();
            assert!(found.starts_with(why), "{found}");
        }
    }
}
