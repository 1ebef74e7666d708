//! `sluice payments export`: writes payments to files, each of which is an entry of the audit log.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::PaymentFilterArgs;
use crate::base::visible::visible;
use crate::cli::arguments::{day, zone};
use crate::cli::console::{ConsoleCall, ConsoleOptions, refusal};
use crate::cli::output::{OutputFormat, counted, text_at};
use crate::cli::{ExitReason, complain, print};

/// Export payments as CSV, or as JSON lines that can be verified
///
/// Each export is an entry of the audit log, with your name, the filters and the SHA-256 of the file. A file has at most
/// 5,000 payments, the latest first; more of them go to further files. The name of a file ends with the number of its entry.
///
/// `--format` is the form of the files. `--output` is the form of what is printed about them: the path, number of rows,
/// SHA-256 and audit entry of each.
#[derive(Debug, Args)]
pub(super) struct ExportPaymentsArgs {
    #[command(flatten)]
    way: ConsoleOptions,
    #[command(flatten)]
    filter: PaymentFilterArgs,
    /// Export the statement of this day instead of payments; takes the filters of `sluice payments statement`
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = day)]
    statement: Option<String>,
    /// The IANA time zone of that day [default: UTC]
    #[arg(long, requires = "statement", value_parser = zone)]
    zone: Option<String>,
    /// The form of the files
    #[arg(long, value_enum, default_value = "jsonl")]
    format: ExportFormat,
    /// The folder of the files; it must exist
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    Csv,
    Jsonl,
}

/// The unit of an export, and what it wrote so far.
struct WrittenExports {
    /// The word for one row, and for several.
    unit: (&'static str, &'static str),
    files: Vec<Value>,
    since: Value,
}

impl ExportPaymentsArgs {
    pub(super) fn run(&self) -> anyhow::Result<ExitReason> {
        let unit = if self.statement.is_some() { ("line", "lines") } else { ("payment", "payments") };
        let mut written = WrittenExports { unit, files: Vec::new(), since: Value::Null };
        let ended = self.write_files(&mut written);
        // Files that were written are told even where a later one failed.
        if self.way.output != OutputFormat::Table {
            let told = || json!({ "files": written.files, "since": written.since });
            print(&self.way.output.text(String::new, told, Some("files")))?;
        }
        if ended.is_ok() && written.files.iter().all(|file| file["rows"] == 0) && !written.files.is_empty() {
            let hint = match self.filter.scope.to {
                Some(_) => "; `--to` is the destination of payments, and `--folder` where files go",
                None => "",
            };
            complain(format_args!("sluice: nothing matches these filters{hint}"));
        }
        if let Some(since) = written.since.as_str() {
            complain(format_args!("sluice: payments before {since} are not in this export"));
        }
        ended
    }

    fn write_files(&self, written: &mut WrittenExports) -> anyhow::Result<ExitReason> {
        let filters: serde_json::Map<String, Value> =
            self.filter.pairs().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        let format = if self.format == ExportFormat::Csv { "csv" } else { "jsonl" };
        let mut after: Option<String> = None;
        loop {
            let mut body = json!({ "format": format, "filters": filters });
            if let (Some(after), Some(members)) = (&after, body.as_object_mut()) {
                members.insert("after".to_owned(), after.as_str().into());
            }
            if let (Some(day), Some(members)) = (&self.statement, body.as_object_mut()) {
                let zone = self.zone.as_deref().unwrap_or("UTC");
                members.insert("statement".to_owned(), json!({ "day": day, "zone": zone }));
            }
            let (status, answer) = self.way.send(&ConsoleCall::post("payments/export", body))?;
            if status != 200 {
                complain(format_args!("sluice: {}", refusal(status, &answer)));
                return Ok(ExitReason::Refused);
            }
            let answer = &answer;
            let name = answer["name"].as_str().context("the console names no file")?;
            let path = write_new(&self.folder, name, answer["content"].as_str().unwrap_or_default())?;
            let file = json!({
                "path": path.display().to_string(),
                "rows": answer["rows"],
                "sha256": answer["sha256"],
                "environment": answer["environment"],
                "number": answer["number"],
            });
            if self.way.output == OutputFormat::Table {
                print(&file_in_words(&file, written.unit))?;
            }
            written.files.push(file);
            written.since = answer["since"].clone();
            after = answer["next"].as_str().map(str::to_owned);
            if after.is_none() {
                return Ok(ExitReason::Done);
            }
        }
    }
}

/// Describes a file that was written.
fn file_in_words(file: &Value, (one, many): (&str, &str)) -> String {
    let [path, sha256, environment] = ["/path", "/sha256", "/environment"].map(|place| text_at(file, place));
    let rows = counted(file["rows"].as_u64().unwrap_or_default(), one, many);
    let line = format!("`{path}`: {rows}, SHA-256 {sha256}, audit entry {} of {environment}", file["number"]);
    format!("{}\n", visible(&line))
}

/// Writes a file that does not exist yet, under a plain name in this folder.
fn write_new(folder: &Path, name: &str, content: &str) -> anyhow::Result<PathBuf> {
    let is_plain =
        name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.')) && !name.starts_with('.');
    if !is_plain || !name.contains('.') {
        bail!("the console names a file that is none: `{}`", name.escape_debug());
    }
    let path = folder.join(name);
    let unwritable = || format!("`{}` cannot be written", path.display());
    let mut file = OpenOptions::new().write(true).create_new(true).open(&path).with_context(unwritable)?;
    file.write_all(content.as_bytes()).and_then(|()| file.sync_all()).with_context(unwritable)?;
    Ok(path)
}
