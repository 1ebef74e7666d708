//! `sluice store`: a store as a whole, while no gate serves from it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};

use super::{Ending, print};
use crate::adapters::clock::SystemClock;
use crate::adapters::store::embedded;
use crate::commit::{NodeId, StoreTime};
use crate::ports::Clock as _;

/// How often it is said how far it is.
const PROGRESS: u64 = 10_000;

/// Export, import or back up the embedded store
///
/// Stop the gate first: a store belongs to one process at a time. What is sealed stays sealed: keep the keys as well, for
/// without them nobody can read the copy.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Write everything out as lines of JSON
    ///
    /// Records, windows, indexes and the outbox, with their versions, numbers and times. Values that are not sealed stand
    /// in it as they are.
    Export {
        /// The store's folder
        #[arg(long, value_name = "DIR")]
        folder: PathBuf,
        /// A new file [default: standard output]
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Take an export into an empty store
    ///
    /// All of it or nothing. The store then starts closed for money, in every environment: what was done since the export
    /// is not in it. Open it with `sluice unfreeze` when you know what became of that.
    Import {
        /// The folder of a new store
        #[arg(long, value_name = "DIR")]
        folder: PathBuf,
        /// The export [default: standard input]
        #[arg(long, value_name = "FILE")]
        input: Option<PathBuf>,
        /// The node whose audit chain tells of it: the one that will serve from this store
        #[arg(long, value_name = "NAME", value_parser = node, default_value = "gate")]
        node: NodeId,
    },
    /// Copy the store's file, and see that the copy is whole
    ///
    /// To go back to it, put it into an empty folder as `store.redb`. The copy starts closed for money, as an import does,
    /// for what was done since then is not in it.
    Backup {
        /// The store's folder
        #[arg(long, value_name = "DIR")]
        folder: PathBuf,
        /// The file to write; one that is there is not overwritten
        #[arg(long, value_name = "FILE")]
        output: PathBuf,
        /// The node whose audit chain tells of it: the one that would serve from the copy
        #[arg(long, value_name = "NAME", value_parser = node, default_value = "gate")]
        node: NodeId,
    },
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Ending> {
    match &arguments.what {
        What::Export { folder, output } => export(folder, output.as_deref())?,
        What::Import { folder, input, node } => import(folder, input.as_deref(), node)?,
        What::Backup { folder, output, node } => {
            let bytes = embedded::backup(folder, output, node, now())
                .with_context(|| format!("the backup to `{}` failed", output.display()))?;
            print(&format!("Wrote `{}`: {bytes} bytes, and read them back.\n", output.display()))?;
        }
    }
    Ok(Ending::Done)
}

fn export(folder: &Path, output: Option<&Path>) -> anyhow::Result<()> {
    let mut progress = Progress::new("written");
    let Some(output) = output else {
        let mut out = BufWriter::new(io::stdout().lock());
        embedded::export(folder, &mut out, &mut |count| progress.tell(count))?;
        progress.end();
        return Ok(());
    };
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(output)
        .with_context(|| format!("`{}` cannot be written", output.display()))?;
    let mut out = BufWriter::new(&file);
    let exported = embedded::export(folder, &mut out, &mut |count| progress.tell(count));
    progress.end();
    let exported = exported.map_err(anyhow::Error::new).and_then(|count| {
        out.flush()?;
        file.sync_all()?;
        Ok(count)
    });
    match exported {
        Ok(count) => print(&format!("Wrote `{}`: {count} lines and the one that ends them.\n", output.display())),
        Err(error) => {
            fs::remove_file(output).with_context(|| format!("`{}` is incomplete; remove it", output.display()))?;
            Err(error)
        }
    }
}

fn import(folder: &Path, input: Option<&Path>, node: &NodeId) -> anyhow::Result<()> {
    let mut progress = Progress::new("read");
    let mut tell = |count| progress.tell(count);
    let imported = match input {
        Some(input) => {
            let file = File::open(input).with_context(|| format!("`{}` cannot be read", input.display()))?;
            embedded::import(folder, &mut BufReader::new(file), node, now(), &mut tell)
        }
        None => embedded::import(folder, &mut io::stdin().lock(), node, now(), &mut tell),
    };
    progress.end();
    let count = imported?;
    print(&format!(
        "Took in {count} lines.\nThe store is closed for money in every environment (freeze `restored`): open it with \
         `sluice unfreeze --restored` when you know what was done since the export.\n"
    ))
}

fn now() -> StoreTime {
    StoreTime::of_micros(SystemClock.now().as_microsecond())
}

fn node(text: &str) -> anyhow::Result<NodeId> {
    NodeId::parse(text)
        .ok_or_else(|| anyhow!("a node is 1 to 64 of `A-Za-z0-9._-`, beginning with a letter or a digit"))
}

/// How far it is, on one line of a terminal.
struct Progress {
    word: &'static str,
    is_shown: bool,
    has_told: bool,
}

impl Progress {
    fn new(word: &'static str) -> Progress {
        Progress { word, is_shown: io::stderr().is_terminal(), has_told: false }
    }

    fn tell(&mut self, count: u64) {
        if self.is_shown && count.is_multiple_of(PROGRESS) {
            self.has_told = true;
            eprint!("\r{count} lines {}", self.word);
        }
    }

    fn end(self) {
        if self.has_told {
            eprintln!();
        }
    }
}
