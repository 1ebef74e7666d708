//! `sluice payments verify`: whether an export is what a gate wrote, and whether the audit log says the same.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::joined::{ExportPart, gaps};
use crate::audit::{FileSource as _, Hash, LineBody, LineReader, read_line, split_steps};
use crate::base::json::{self as strict, Limits};
use crate::base::visible::visible_lines;
use crate::cli::audit::files::{chosen, reading};
use crate::cli::output::{OutputFormat, counted};
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

/// The format of exports. No other is read.
const FORMAT: u64 = 2;
/// Where a change of form comes from.
const CHANGED: &str = "an editor, a mail program or a transfer as text does: verify the file as the console gave it";

/// The rows of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SealedRows {
    Payments,
    Statement,
    History,
}

/// An export whose last line fits the lines before.
#[derive(Debug)]
pub(super) struct SealedExport {
    pub head: Value,
    pub kind: SealedRows,
    pub rows: Vec<Value>,
}

impl SealedRows {
    fn counted(self, count: usize) -> String {
        let (one, many) = match self {
            SealedRows::Payments => ("payment", "payments"),
            SealedRows::Statement => ("line", "lines"),
            SealedRows::History => ("entry", "entries"),
        };
        counted(count as u64, one, many)
    }
}

impl SealedExport {
    /// Reads an export; otherwise returns what is wrong with it, as the end of a sentence.
    fn read(text: &str) -> Result<SealedExport, String> {
        if is_csv(text) {
            return Err(
                "is CSV, which proves nothing by itself: verify the export as JSON lines (`--format jsonl`)".to_owned()
            );
        }
        SealedExport::parse(text).map_err(|why| format!("is not what a gate wrote: {why}"))
    }

    fn parse(text: &str) -> Result<SealedExport, String> {
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
            (Some(FORMAT), Some("payments")) => SealedRows::Payments,
            (Some(FORMAT), Some("statement")) => SealedRows::Statement,
            (Some(FORMAT), Some("history")) => SealedRows::History,
            _ => return Err(format!("its first line is not that of an export of a console in format {FORMAT}")),
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
    pub fn of_head(&self, name: &str) -> &Value {
        self.head.get(name).unwrap_or(&Value::Null)
    }

    /// Returns why it does not have all that its head names, apart from what other parts have.
    pub fn gaps(&self) -> Vec<String> {
        let since = self.of_head("since").as_str().filter(|since| !self.begins_at(since));
        let rows = if self.kind == SealedRows::History { "entries" } else { "payments" };
        let earlier = since.map(|since| format!("{rows} before {since} are not in it"));
        let is_early = self.kind == SealedRows::Statement && *self.of_head("over") != true;
        earlier.into_iter().chain(is_early.then(|| "the day was not over".to_owned())).collect()
    }

    /// Whether only rows from this time on were asked for. Each line of a statement begins with those that were open before.
    fn begins_at(&self, since: &str) -> bool {
        let from =
            self.head.pointer("/filters/from").and_then(Value::as_str).filter(|_| self.kind != SealedRows::Statement);
        let from =
            from.and_then(|from| from.parse().or_else(|_| format!("{from}T00:00:00Z").parse::<Timestamp>()).ok());
        from.zip(since.parse().ok()).is_some_and(|(from, since)| from >= since)
    }
}

/// Whether a text is a table that a gate exported for spreadsheets.
fn is_csv(text: &str) -> bool {
    let first = text.trim_start_matches('\u{feff}').lines().next().unwrap_or_default();
    first.contains(',')
        && first.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, ',' | ' ' | '-'))
}

fn row_count(exports: &[ExportPart]) -> usize {
    exports.iter().map(|part| part.export.rows.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(rows: &str, count: usize) -> String {
        let body = format!("{{\"format\":2,\"what\":\"payments\"}}\n{rows}");
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
            assert!(SealedExport::read(&changed).unwrap_err().starts_with("is not what a gate wrote: "), "{changed}");
        }
    }

    #[test]
    fn what_an_export_lacks_is_told() {
        let of_kind = |head: Value, kind| SealedExport { head, kind, rows: Vec::new() }.gaps();
        let gaps = |head: Value| {
            let kind = if head["day"].is_null() { SealedRows::Payments } else { SealedRows::Statement };
            of_kind(head, kind)
        };
        let since = "2026-11-30T12:00:00Z";
        assert!(gaps(json!({"since": null, "filters": {}})).is_empty());
        assert!(gaps(json!({"since": since, "filters": {}}))[0].contains(since));
        let history = of_kind(json!({"since": since, "filters": {}}), SealedRows::History);
        assert_eq!(history, [format!("entries before {since} are not in it")]);
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
            let found = SealedExport::parse(&changed).unwrap_err();
            assert!(found.starts_with(why), "{found}");
        }
        for table in ["at,environment,request\r\n", "\u{feff}day,zone,day is over\r\n2026-11-30,UTC,true\r\n"] {
            assert!(SealedExport::read(table).unwrap_err().starts_with("is CSV, "), "{table}");
        }
    }
}
