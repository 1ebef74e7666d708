//! `sluice audit tail`: the newest entries, and those that follow.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{BufReader, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;

use super::super::{Ending, print};
use super::entries::{Filter, Shown};
use super::files::{Chosen, chosen};
use super::show::line;
use crate::chain::{Body, Lines, Source as _, read_line};
use crate::commit::NodeId;

/// Show the newest entries, and with `--follow` those that come
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Files, or folders of files
    #[arg(required = true, value_name = "FILE|FOLDER")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    filter: Filter,
    /// How many to begin with
    #[arg(short = 'n', long, default_value_t = 10)]
    lines: usize,
    /// Go on until Ctrl-C
    #[arg(short, long)]
    follow: bool,
}

const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How far each node's files were read.
type Read = BTreeMap<Option<NodeId>, (u64, u64)>;

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Ending> {
    let mut read = Read::new();
    let mut newest: VecDeque<Shown> = VecDeque::new();
    for file in newest_files(&chosen(&arguments.paths)?) {
        let mut of_file: VecDeque<Shown> = VecDeque::new();
        follow(&file, &mut read, &mut |shown| {
            if arguments.filter.takes(&shown) {
                of_file.push_back(shown);
                if of_file.len() > arguments.lines {
                    of_file.pop_front();
                }
            }
            Ok(())
        })?;
        newest.append(&mut of_file);
    }
    newest.make_contiguous().sort_by_key(|shown| shown.outstanding.at);
    for shown in newest.iter().skip(newest.len().saturating_sub(arguments.lines)) {
        print(&format!("{}\n", line(shown)))?;
    }
    if !arguments.follow {
        return Ok(Ending::Done);
    }
    loop {
        thread::sleep(LOOK_EVERY);
        for file in chosen(&arguments.paths)? {
            follow(&file, &mut read, &mut |shown| {
                if arguments.filter.takes(&shown) { print(&format!("{}\n", line(&shown))) } else { Ok(()) }
            })?;
        }
    }
}

/// Of each node the last two, for the last may have been begun just now.
fn newest_files(files: &[Chosen]) -> Vec<Chosen> {
    let nodes: Vec<Option<&NodeId>> = files.iter().map(|file| file.named().map(|(node, _)| node)).collect();
    let is_newest = |at: usize| nodes.get(at.saturating_add(2)).is_none_or(|later| Some(later) != nodes.get(at));
    files.iter().enumerate().filter(|(at, _)| is_newest(*at)).map(|(_, file)| file.clone()).collect()
}

/// What a file holds beyond what was read of it.
fn follow(file: &Chosen, read: &mut Read, with: &mut dyn FnMut(Shown) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let (node, sequence) = file.named().map_or((None, 0), |(node, sequence)| (Some(node.clone()), sequence));
    let (newest, offset) = read.get(&node).copied().unwrap_or_default();
    let from = match sequence.cmp(&newest) {
        std::cmp::Ordering::Less => return Ok(()),
        std::cmp::Ordering::Equal => offset,
        std::cmp::Ordering::Greater => 0,
    };
    let told = || format!("`{}` cannot be read", file.name());
    let mut opened = File::open(&file.path).with_context(told)?;
    opened.seek(SeekFrom::Start(from)).with_context(told)?;
    let mut lines = Lines::of(BufReader::new(opened));
    let mut end = from;
    while let Some(raw) = lines.following().with_context(told)? {
        if !raw.is_whole {
            break;
        }
        end = from.saturating_add(raw.end());
        if let Ok(Body::Entry(outstanding)) = read_line(raw.bytes).map(|line| line.body) {
            with(Shown::of(outstanding))?;
        }
    }
    read.insert(node, (sequence, end));
    Ok(())
}
