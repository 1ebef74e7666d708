//! `sluice audit verify`: checks that the audit log is complete and unchanged.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufReader, IsTerminal as _, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::Args;
use serde_json::{Map, Value, json};

use super::super::output::OutputFormat;
use super::super::{ExitReason, print};
use super::files::{Chosen, checkpoints, chosen, folder_of, manifests};
use super::people::{self, PeopleArgs, ProvedPeople};
use crate::adapters::audit::{UnfitSnapshot, is_live, newest_snapshot, read_manifest};
use crate::adapters::clock::SystemClock;
use crate::audit::{
    Checkpoint, CheckpointKey, CheckpointLine, Completeness, FileSource, Flaw, FlawPlace, KnownNumbers, LineReader,
    VerifyReport, verify,
};
use crate::ledger::StoreTime;
use crate::ports::Clock as _;

/// Check that the audit log is complete and unchanged
///
/// Name the files of all nodes at once: entries are numbered across all nodes. Checkpoint files beside the audit
/// files are used; name copies kept elsewhere, or the gate's log, with `--checkpoints`. Without a public key, anyone
/// who can write the audit files can also write checkpoints. Only signed checkpoints prove that nothing is
/// missing; the last line says how far they do.
///
/// With `--people`, each payment that needed signed approvals is proved besides: who signed, for which bytes, amounts and
/// reasons, by the keys of archived sets that follow each other from the digests that you give. In CSV, the rows are these
/// payments.
///
/// Exits with 0 if nothing was found and everything is proved, with 3 otherwise.
#[derive(Debug, Args)]
pub(super) struct AuditVerifyArgs {
    /// Audit files, or folders of audit files
    #[arg(required = true, value_name = "FILE|FOLDER")]
    paths: Vec<PathBuf>,
    /// Checkpoints kept elsewhere, or a log that contains them; may be given several times
    #[arg(long, value_name = "FILE")]
    checkpoints: Vec<PathBuf>,
    /// The public key that verifies checkpoints; may be given several times
    #[arg(long = "public-key", value_name = "FILE")]
    keys: Vec<PathBuf>,
    #[command(flatten)]
    people: PeopleArgs,
    /// Text for people, or JSON or CSV for programs
    #[arg(long, value_enum, default_value = "table")]
    output: OutputFormat,
}

/// Progress is shown if there is more to read than this many bytes.
const LONG_WORK: u64 = 64 * 1024 * 1024;
/// How long an entry that was just committed may take to reach its file.
const SETTLING_MICROS: i64 = 60_000_000;

pub(super) fn run(arguments: &AuditVerifyArgs) -> anyhow::Result<ExitReason> {
    let report = verified(&arguments.paths, &arguments.checkpoints, &arguments.keys)?;
    let people = arguments.people.people.then(|| people::prove(&arguments.paths, &arguments.people)).transpose()?;
    let words = || report_in_words(&report) + &people.as_ref().map(ProvedPeople::in_words).unwrap_or_default();
    let json = || with_people(as_json(&report), people.as_ref());
    let rows = if people.is_some() { "payments" } else { "findings" };
    print(&arguments.output.text(words, json, Some(rows)))?;
    let is_good = report.flaw_count == 0 && people.as_ref().is_none_or(ProvedPeople::is_whole);
    Ok(if is_good { ExitReason::Done } else { ExitReason::Faulty })
}

/// Verifies audit files and the checkpoints beside them, with further checkpoints and public keys.
pub(in crate::cli) fn verified(
    paths: &[PathBuf],
    further: &[PathBuf],
    keys: &[PathBuf],
) -> anyhow::Result<VerifyReport> {
    // First which nodes write, then the checkpoints, then the entries: later reads may only show more.
    let mut known = KnownNumbers::default();
    for file in &chosen(paths)? {
        if let Some((_, node)) = folder_of(file).filter(|(folder, node)| is_live(folder, node)) {
            known.live.insert(node.clone());
        }
    }
    if !known.live.is_empty() {
        let now = SystemClock.now().as_microsecond();
        known.unsettled = Some(StoreTime::of_micros(now.saturating_sub(SETTLING_MICROS)));
    }
    for path in manifests(paths)? {
        let archived = read_manifest(&path).with_context(|| format!("`{}` cannot be read", path.display()))?;
        known.archived.extend(archived);
    }
    for (folder, node) in chosen(paths)?.iter().filter_map(folder_of).collect::<BTreeSet<_>>() {
        let newest = newest_snapshot(folder, node);
        for unfit in newest.with_context(|| format!("`{}` cannot be read", folder.display()))?.unfit {
            if let UnfitSnapshot::Changed(path) = unfit {
                known.changed_snapshots.push(path.display().to_string());
            }
        }
    }
    for path in keys {
        let pem = fs::read(path).with_context(|| format!("`{}` cannot be read", path.display()))?;
        let key = CheckpointKey::of_pem(&pem);
        known.keys.push(
            key.ok_or_else(|| anyhow!("`{}` is not a public key written by `sluice audit key`", path.display()))?,
        );
    }
    for path in checkpoints(paths)? {
        read_checkpoints(&path, true, &mut known)?;
    }
    for path in further {
        read_checkpoints(path, false, &mut known)?;
    }
    let files = chosen(paths)?;
    let sources: Vec<&dyn FileSource> = files.iter().map(|file| file as &dyn FileSource).collect();
    let mut progress = VerifyProgress::of(&files);
    let report = verify(&sources, &known, &mut |bytes| progress.show(bytes))?;
    progress.end();
    Ok(report)
}

/// Reads checkpoints. With `strict`, every line must be one; otherwise other lines (of a log) are skipped.
fn read_checkpoints(path: &PathBuf, strict: bool, known: &mut KnownNumbers) -> anyhow::Result<()> {
    let unreadable = || format!("`{}` cannot be read", path.display());
    let mut lines = LineReader::of(BufReader::new(File::open(path).with_context(unreadable)?));
    while let Some(raw) = lines.following().with_context(unreadable)? {
        let read = Checkpoint::read(raw.bytes);
        // The last line may be incomplete: its process is writing it, or was killed while it did.
        let is_meant = read.is_ok() || (strict && raw.is_whole);
        if is_meant {
            let place =
                FlawPlace { file: Some(path.display().to_string()), line: Some(raw.line), offset: Some(raw.offset) };
            known.checkpoints.push(CheckpointLine { place, read });
        }
    }
    Ok(())
}

fn report_in_words(report: &VerifyReport) -> String {
    let mut text: String = report.flaws.iter().map(|flaw| format!("{flaw}\n")).collect();
    let more = report.flaw_count.saturating_sub(report.flaws.len() as u64);
    if more > 0 {
        text.push_str(&format!("and {more} more\n"));
    }
    for note in &report.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    let VerifyReport { files, entries, checkpoints, .. } = report;
    let highest: String =
        report.highest.iter().map(|(environment, number)| format!(", {environment} up to {number}")).collect();
    text.push_str(&format!("{entries} entries in {files} files{highest}; {checkpoints} checkpoints match\n"));
    text.push_str(&match report.flaw_count {
        0 => format!("{}\n", proven(report)),
        1 => "1 finding\n".to_owned(),
        count => format!("{count} findings\n"),
    });
    text
}

/// The proof of a verification without findings, and its limits.
fn proven(report: &VerifyReport) -> String {
    match report.completeness() {
        Completeness::UpToCheckpoints => {
            "complete and unchanged up to the newest signed checkpoint of each node. Whether entries behind it were removed is \
             not known"
                .to_owned()
        }
        Completeness::UnverifiedCheckpoints => {
            "no finding. Whether the files are complete is not known: who can write them can write these checkpoints, too; \
             give the gate's public key (`--public-key`)"
                .to_owned()
        }
        Completeness::Unproven => {
            let nodes: Vec<String> = report.unsigned.iter().map(|node| format!("`{node}`")).collect();
            format!(
                "no finding. Whether the files are complete is not known: without checkpoints (of {}), entries at the end may be \
                 missing, or all may have been rewritten; set `audit.checkpoint_key`, and keep checkpoints elsewhere",
                nodes.join(", ")
            )
        }
    }
}

fn as_json(report: &VerifyReport) -> Value {
    let highest: Map<String, Value> =
        report.highest.iter().map(|(environment, number)| (environment.as_str().to_owned(), json!(number))).collect();
    json!({
        "clean": report.flaw_count == 0,
        "completeUpToCheckpoints": report.flaw_count == 0 && report.completeness() == Completeness::UpToCheckpoints,
        "findings": report.flaws.iter().map(flaw).collect::<Vec<_>>(),
        "findingCount": report.flaw_count,
        "notes": report.notes,
        "files": report.files,
        "entries": report.entries,
        "bytes": report.bytes,
        "highest": highest,
        "checkpoints": report.checkpoints,
    })
}

fn with_people(mut report: Value, people: Option<&ProvedPeople>) -> Value {
    if let (Some(members), Some(people)) = (report.as_object_mut(), people) {
        members.extend(people.as_json().map(|(name, value)| (name.to_owned(), value)));
    }
    report
}

fn flaw(flaw: &Flaw) -> Value {
    let FlawPlace { file, line, offset } = &flaw.place;
    json!({
        "what": flaw.what.as_str(),
        "text": flaw.what.to_string(),
        "file": file,
        "line": line,
        "offset": offset,
        "environment": flaw.number.map(|(environment, _)| environment.as_str()),
        "number": flaw.number.map(|(_, number)| number),
    })
}

/// A progress line on a terminal.
struct VerifyProgress {
    total: u64,
    is_shown: bool,
}

impl VerifyProgress {
    fn of(files: &[Chosen]) -> VerifyProgress {
        let total = files.iter().filter_map(|file| fs::metadata(&file.path).ok()).map(|of| of.len()).sum();
        VerifyProgress { total, is_shown: total > LONG_WORK && std::io::stderr().is_terminal() }
    }

    fn show(&mut self, bytes: u64) {
        const MEGA: u64 = 1_000_000;
        if self.is_shown {
            eprint!("\r{} of {} MB", bytes / MEGA, self.total / MEGA);
            // Progress is only for show: a failure to write it does not matter.
            drop(std::io::stderr().flush());
        }
    }

    fn end(&self) {
        if self.is_shown {
            eprint!("\r\x1b[K");
        }
    }
}
