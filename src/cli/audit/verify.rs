//! `sluice audit verify`: checks that the audit log is complete and unchanged.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use serde_json::{Map, Value, json};

use super::super::output::{OutputFormat, counted};
use super::super::{ExitReason, print};
use super::files::{checkpoints, chosen, folder_of, manifests, reading};
use super::people::{self, PeopleArgs, ProvedPeople};
use super::proofs::{checkpoint_lines, read_checkpoint_key, read_witness_keys, shown_time, witnesses_needed};
use crate::adapters::audit::{TreeFolder, UnfitSnapshot, is_live, kept_salts, newest_snapshot, read_manifest};
use crate::adapters::clock::SystemClock;
use crate::audit::{
    Completeness, FileSource, Flaw, FlawPlace, KnownNumbers, KnownTree, Origin, VerifyReport, WitnessedLines, verify,
};
use crate::ledger::{NodeId, StoreTime};
use crate::ports::Clock as _;

/// Check that the audit log is complete and unchanged
///
/// Name the files of all nodes at once: entries are numbered across all nodes. Checkpoint files beside the audit
/// files are used; name copies kept elsewhere, or the gate's log, with `--checkpoints`. Without a public key, anyone
/// who can write the audit files can also write checkpoints. Only signed checkpoints prove that nothing is
/// missing; the last line says how far they do.
///
/// With `--witness-key`, it says how many lines enough witnesses have signed: each saw that the journal only grew, so nobody was
/// shown another one. Get the checkpoints from the witnesses (`GET /checkpoints`), and name them with `--checkpoints`.
///
/// With `--people`, each payment that needed signed approvals is proved besides: who signed, for which bytes, amounts and
/// reasons, by the keys of archived sets that follow each other from the digests that you give. In CSV, the rows are these
/// payments.
///
/// Exits with 3 if anything was found, or if what you asked for is not proved: completeness up to signed checkpoints, people,
/// or witnesses; otherwise with 0. In JSON, `clean` is false where the exit code is 3, and `reasons` says why in words.
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
    /// The key of a witness, as it prints it, or a file with it; may be given several times
    #[arg(long = "witness-key", value_name = "KEY|FILE", requires = "keys")]
    witnesses: Vec<String>,
    /// How many of these witnesses must have signed; without a number, all of them
    #[arg(long, value_name = "NUMBER", requires = "witnesses", value_parser = clap::value_parser!(u8).range(1..=64))]
    witnessed: Option<u8>,
    /// A log that ended for a reason that you know, such as a restore: the name that a finding gives; may be given several
    /// times
    #[arg(long = "former-log", value_name = "LOG", value_parser = former_log)]
    former_logs: Vec<Origin>,
    #[command(flatten)]
    people: PeopleArgs,
    /// Text for people, or JSON or CSV for programs
    #[arg(long, value_enum, default_value = "table")]
    output: OutputFormat,
}

fn former_log(text: &str) -> Result<Origin, String> {
    Origin::parse(text).ok_or_else(|| "expected the name of a log, as `sluice/NODE/0123456789abcdef`".to_owned())
}

/// How long an entry that was just committed may take to reach its file.
const SETTLING_MICROS: i64 = 60_000_000;

pub(super) fn run(arguments: &AuditVerifyArgs) -> anyhow::Result<ExitReason> {
    let witnesses = read_witness_keys(&arguments.witnesses)?;
    let former_logs = arguments.former_logs.iter().cloned().collect();
    let mut known = KnownNumbers { witnesses, former_logs, ..KnownNumbers::default() };
    known.witnesses_needed = witnesses_needed(arguments.witnessed, &known.witnesses)?;
    let report = verified(&arguments.paths, &arguments.checkpoints, &arguments.keys, known)?;
    let people = arguments.people.people.then(|| people::prove(&arguments.paths, &arguments.people)).transpose()?;
    let words = || report_in_words(&report) + &people.as_ref().map(ProvedPeople::in_words).unwrap_or_default();
    let reasons = reasons(&report, people.as_ref());
    let json = || with_people(as_json(&report, &reasons), people.as_ref());
    let rows = if people.is_some() { "payments" } else { "findings" };
    print(&arguments.output.text(words, json, Some(rows)))?;
    Ok(if reasons.is_empty() { ExitReason::Done } else { ExitReason::Faulty })
}

/// Returns why the log is not what was asked for, in words; nothing where it is.
fn reasons(report: &VerifyReport, people: Option<&ProvedPeople>) -> Vec<String> {
    let names = |nodes: &BTreeSet<NodeId>| {
        let nodes: Vec<String> = nodes.iter().map(|node| format!("`{node}`")).collect();
        nodes.join(", ")
    };
    let mut reasons = Vec::new();
    match report.flaw_count {
        0 => {}
        1 => reasons.push("1 finding: the log is not complete and unchanged".to_owned()),
        count => reasons.push(format!("{count} findings: the log is not complete and unchanged")),
    }
    if report.keys_given && !report.is_complete_up_to_checkpoints() {
        let of = if report.unsigned.is_empty() { String::new() } else { format!(" of {}", names(&report.unsigned)) };
        reasons.push(format!("completeness is not proved: the public key verifies no checkpoint{of}"));
    }
    if !report.unwitnessed.is_empty() {
        reasons.push(format!("too few witnesses signed checkpoints of {}", names(&report.unwitnessed)));
    }
    if people.is_some_and(|people| !people.is_whole()) {
        reasons.push(
            "people are not proved: a payment or act lacks signatures that count, an archived set was changed, or the sets do not \
             follow each other from the given digests"
                .to_owned(),
        );
    }
    reasons
}

/// Verifies audit files and the checkpoints beside them, with further checkpoints and public keys.
pub(in crate::cli) fn verified(
    paths: &[PathBuf],
    further: &[PathBuf],
    keys: &[PathBuf],
    mut known: KnownNumbers,
) -> anyhow::Result<VerifyReport> {
    // First which nodes write, then the checkpoints, then the entries: later reads may only show more.
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
    // Of several folders with files of a node, the one with the newest has its tree.
    for (folder, node) in chosen(paths)?.iter().filter_map(folder_of) {
        if let Some(salts) = kept_salts(folder, node)? {
            let tiles = Arc::new(TreeFolder::of(folder, node));
            known.trees.insert(node.clone(), KnownTree { salts, tiles });
        }
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
        known.keys.push(read_checkpoint_key(path)?);
    }
    for path in checkpoints(paths)? {
        known.checkpoints.extend(checkpoint_lines(&path, true)?);
    }
    for path in further {
        known.checkpoints.extend(checkpoint_lines(path, false)?);
    }
    let files = chosen(paths)?;
    let sources: Vec<&dyn FileSource> = files.iter().map(|file| file as &dyn FileSource).collect();
    let mut progress = reading(&files);
    let report = verify(&sources, &known, &mut |bytes| progress.show(bytes))?;
    progress.end();
    Ok(report)
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
    let counts = [counted(*entries, "entry", "entries"), counted(*files, "file", "files")].join(" in ");
    let matching = counted(*checkpoints, "checkpoint matches", "checkpoints match");
    text.push_str(&format!("{counts}{highest}; {matching}\n"));
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
        Completeness::UpToWitnessed => {
            let nodes = report.witnessed.iter().map(|(node, WitnessedLines { lines, behind, at })| {
                format!("`{node}` up to line {lines} on {}, with {behind} lines behind it", shown_time(*at))
            });
            let nodes: Vec<String> = nodes.collect();
            format!(
                "complete and unchanged up to the newest checkpoint that enough witnesses signed: {}. Whether entries behind it \
                 were removed is not known",
                nodes.join("; ")
            )
        }
        Completeness::Unwitnessed => {
            let nodes: Vec<String> = report.unwitnessed.iter().map(|node| format!("`{node}`")).collect();
            format!(
                "1 finding: too few witnesses signed checkpoints of {}: others may have been shown another journal; get the \
                 checkpoints from the witnesses, and name them with `--checkpoints`",
                nodes.join(", ")
            )
        }
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
            if report.keys_given {
                return format!(
                    "1 finding: there are no checkpoints of {} that the public key could verify. They were removed, or never \
                     made (`audit.checkpoint_key`): entries at the end may be missing, or all may have been rewritten. Name \
                     copies that are kept elsewhere, or the gate's log, with `--checkpoints`",
                    nodes.join(", ")
                );
            }
            format!(
                "no finding. Whether the files are complete is not known: without checkpoints (of {}), entries at the end may be \
                 missing, or all may have been rewritten; set `audit.checkpoint_key`, and keep checkpoints elsewhere",
                nodes.join(", ")
            )
        }
    }
}

fn as_json(report: &VerifyReport, reasons: &[String]) -> Value {
    let highest: Map<String, Value> =
        report.highest.iter().map(|(environment, number)| (environment.as_str().to_owned(), json!(number))).collect();
    json!({
        "clean": reasons.is_empty(),
        "reasons": reasons,
        "completeUpToCheckpoints": report.flaw_count == 0 && report.is_complete_up_to_checkpoints(),
        "completeUpToWitnessed": report.flaw_count == 0 && report.completeness() == Completeness::UpToWitnessed,
        "unwitnessed": report.unwitnessed,
        "witnessed": report.witnessed.iter().map(witnessed).collect::<Map<_, _>>(),
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

fn witnessed((node, lines): (&NodeId, &WitnessedLines)) -> (String, Value) {
    let WitnessedLines { lines, behind, at } = lines;
    (node.as_str().to_owned(), json!({"lines": lines, "linesBehind": behind, "at": shown_time(*at)}))
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
