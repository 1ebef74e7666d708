//! `sluice audit verify`: whether everything is there, as it was written.

use std::fs::{self, File};
use std::io::{BufReader, IsTerminal as _, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use super::super::{Ending, print};
use super::files::{Chosen, checkpoints, chosen, folder_of};
use crate::adapters::audit::is_live;
use crate::adapters::clock::SystemClock;
use crate::chain::{Checkpoint, CheckpointLine, Flaw, Known, Lines, Place, PublicKey, Report, Source, verify};
use crate::commit::StoreTime;
use crate::ports::Clock as _;

/// Say whether the chain is whole and unchanged
///
/// Give the files of all nodes at once: numbers are counted over all of them. Checkpoints beside the files are used;
/// copies that were kept elsewhere, or the gate's log, are named with `--checkpoints`. Without a public key anybody who
/// can write the files can write checkpoints too.
///
/// Ends with 0 if nothing was found, with 3 if something was.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Files, or folders of files
    #[arg(required = true, value_name = "FILE|FOLDER")]
    paths: Vec<PathBuf>,
    /// Checkpoints that were kept elsewhere, or a log that holds them; may stand several times
    #[arg(long, value_name = "FILE")]
    checkpoints: Vec<PathBuf>,
    /// The public key that checkpoints are signed with; may stand several times
    #[arg(long = "public-key", value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// Lines for people, or JSON for programs
    #[arg(long, value_enum, default_value = "lines")]
    output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    Lines,
    Json,
}

/// Progress is shown where there is more to read.
const LONG_WORK: u64 = 64 * 1024 * 1024;
/// What is being written may be so far behind.
const SETTLING_MICROS: i64 = 60_000_000;

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Ending> {
    // Who writes, then what was promised, then what is there: each may only have grown since the one before.
    let mut known = Known::default();
    for file in &chosen(&arguments.paths)? {
        if let Some((_, node)) = folder_of(file).filter(|(folder, node)| is_live(folder, node)) {
            known.live.insert(node.clone());
        }
    }
    if !known.live.is_empty() {
        let now = SystemClock.now().as_microsecond();
        known.unsettled = Some(StoreTime::of_micros(now.saturating_sub(SETTLING_MICROS)));
    }
    for path in &arguments.keys {
        let pem = fs::read(path).with_context(|| format!("`{}` cannot be read", path.display()))?;
        let key = PublicKey::of_pem(&pem);
        known.keys.push(key.ok_or_else(|| anyhow!("`{}` is no public key of `sluice audit key`", path.display()))?);
    }
    for path in checkpoints(&arguments.paths)? {
        read_checkpoints(&path, true, &mut known)?;
    }
    for path in &arguments.checkpoints {
        read_checkpoints(path, false, &mut known)?;
    }
    let files = chosen(&arguments.paths)?;
    let sources: Vec<&dyn Source> = files.iter().map(|file| file as &dyn Source).collect();
    let mut progress = Progress::of(&files);
    let report = verify(&sources, &known, &mut |bytes| progress.tell(bytes))?;
    progress.end();
    print(&match arguments.output {
        Output::Lines => lines(&report),
        Output::Json => format!("{}\n", as_json(&report)),
    })?;
    Ok(if report.flaw_count == 0 { Ending::Done } else { Ending::Faulty })
}

/// `strict`: every line is a checkpoint; in a log the others are passed by.
fn read_checkpoints(path: &PathBuf, strict: bool, known: &mut Known) -> anyhow::Result<()> {
    let told = || format!("`{}` cannot be read", path.display());
    let mut lines = Lines::of(BufReader::new(File::open(path).with_context(told)?));
    while let Some(raw) = lines.following().with_context(told)? {
        let read = Checkpoint::read(raw.bytes);
        // The last one may be in the middle of being written, or was when its process was killed.
        let is_meant = read.is_ok() || (strict && raw.is_whole);
        if is_meant {
            let place =
                Place { file: Some(path.display().to_string()), line: Some(raw.line), offset: Some(raw.offset) };
            known.checkpoints.push(CheckpointLine { place, read });
        }
    }
    Ok(())
}

fn lines(report: &Report) -> String {
    let mut text: String = report.flaws.iter().map(|flaw| format!("{flaw}\n")).collect();
    let more = report.flaw_count.saturating_sub(report.flaws.len() as u64);
    if more > 0 {
        text.push_str(&format!("and {more} more\n"));
    }
    for note in &report.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    let Report { files, entries, checkpoints, .. } = report;
    let highest: String =
        report.highest.iter().map(|(environment, number)| format!(", {environment} up to {number}")).collect();
    text.push_str(&format!("{entries} entries in {files} files{highest}; {checkpoints} checkpoints hold\n"));
    text.push_str(&match report.flaw_count {
        0 => "whole and unchanged\n".to_owned(),
        1 => "1 finding\n".to_owned(),
        count => format!("{count} findings\n"),
    });
    text
}

fn as_json(report: &Report) -> Value {
    let highest: Map<String, Value> =
        report.highest.iter().map(|(environment, number)| (environment.as_str().to_owned(), json!(number))).collect();
    json!({
        "clean": report.flaw_count == 0,
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

fn flaw(flaw: &Flaw) -> Value {
    let Place { file, line, offset } = &flaw.place;
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

/// One line on a terminal that tells how far it is.
struct Progress {
    total: u64,
    is_shown: bool,
}

impl Progress {
    fn of(files: &[Chosen]) -> Progress {
        let total = files.iter().filter_map(|file| fs::metadata(&file.path).ok()).map(|of| of.len()).sum();
        Progress { total, is_shown: total > LONG_WORK && std::io::stderr().is_terminal() }
    }

    fn tell(&mut self, bytes: u64) {
        const MEGA: u64 = 1_000_000;
        if self.is_shown {
            eprint!("\r{} of {} MB", bytes / MEGA, self.total / MEGA);
            // What cannot be shown is not missed.
            drop(std::io::stderr().flush());
        }
    }

    fn end(&self) {
        if self.is_shown {
            eprint!("\r\x1b[K");
        }
    }
}
