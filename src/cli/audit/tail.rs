//! `sluice audit tail`: prints the newest entries and follows new ones.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufReader, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;

use super::super::{ExitReason, print};
use super::entries::{EntryFilter, ShownEntry};
use super::files::{Chosen, chosen};
use super::forms::entry_line;
use crate::adapters::regular_file::open_regular;
use crate::audit::{FileSource as _, LineBody, LineReader, read_line};
use crate::ledger::NodeId;

/// Show the newest entries, and new ones as they are written with `--follow`
#[derive(Debug, Args)]
pub(super) struct AuditTailArgs {
    /// Audit files, or folders of audit files
    #[arg(required = true, value_name = "FILE|FOLDER")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    filter: EntryFilter,
    /// How many entries to show first
    #[arg(short = 'n', long, default_value_t = 10)]
    lines: usize,
    /// Show new entries until Ctrl-C
    #[arg(short, long)]
    follow: bool,
}

const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The newest file of each node that was read, and the offset in it.
type TailPosition = BTreeMap<Option<NodeId>, (u64, u64)>;

pub(super) fn run(arguments: &AuditTailArgs) -> anyhow::Result<ExitReason> {
    let mut read = TailPosition::new();
    let mut newest: VecDeque<ShownEntry> = VecDeque::new();
    for file in newest_files(&chosen(&arguments.paths)?) {
        let mut of_file: VecDeque<ShownEntry> = VecDeque::new();
        follow(&file, &mut read, &mut |shown| {
            if arguments.filter.matches(&shown) {
                of_file.push_back(shown);
                if of_file.len() > arguments.lines {
                    of_file.pop_front();
                }
            }
            Ok(())
        })?;
        newest.append(&mut of_file);
    }
    let place = |shown: &ShownEntry| (shown.outstanding.at, shown.outstanding.environment, shown.outstanding.number);
    newest.make_contiguous().sort_by_key(place);
    // Several journals have the same entries.
    let mut newest: Vec<ShownEntry> = newest.into();
    newest.dedup_by_key(|shown| place(shown));
    for shown in newest.iter().skip(newest.len().saturating_sub(arguments.lines)) {
        print(&format!("{}\n", entry_line(shown)))?;
    }
    if !arguments.follow {
        return Ok(ExitReason::Done);
    }
    loop {
        thread::sleep(POLL_INTERVAL);
        for file in chosen(&arguments.paths)? {
            follow(&file, &mut read, &mut |shown| {
                if arguments.filter.matches(&shown) { print(&format!("{}\n", entry_line(&shown))) } else { Ok(()) }
            })?;
        }
    }
}

/// Returns the last two files of each node: the last one may just have been created.
fn newest_files(files: &[Chosen]) -> Vec<Chosen> {
    let nodes: Vec<Option<&NodeId>> = files.iter().map(|file| file.named().map(|(node, _)| node)).collect();
    let is_newest = |at: usize| nodes.get(at.saturating_add(2)).is_none_or(|later| Some(later) != nodes.get(at));
    files.iter().enumerate().filter(|(at, _)| is_newest(*at)).map(|(_, file)| file.clone()).collect()
}

/// Passes on the entries of a file after the position that was read before.
fn follow(
    file: &Chosen,
    read: &mut TailPosition,
    with: &mut dyn FnMut(ShownEntry) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (node, sequence) = file.named().map_or((None, 0), |(node, sequence)| (Some(node.clone()), sequence));
    let (newest, offset) = read.get(&node).copied().unwrap_or_default();
    let from = match sequence.cmp(&newest) {
        std::cmp::Ordering::Less => return Ok(()),
        std::cmp::Ordering::Equal => offset,
        std::cmp::Ordering::Greater => 0,
    };
    let unreadable = || format!("`{}` cannot be read", file.name());
    let mut opened = open_regular(&file.path).with_context(unreadable)?;
    opened.seek(SeekFrom::Start(from)).with_context(unreadable)?;
    let mut lines = LineReader::of(BufReader::new(opened));
    let mut end = from;
    while let Some(raw) = lines.following().with_context(unreadable)? {
        if !raw.is_whole {
            break;
        }
        end = from.saturating_add(raw.end());
        if let Ok(LineBody::Entry(outstanding)) = read_line(raw.bytes).map(|line| line.body) {
            with(ShownEntry::of(outstanding))?;
        }
    }
    read.insert(node, (sequence, end));
    Ok(())
}
