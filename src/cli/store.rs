//! `sluice store`: a store as a whole, while no gate serves from it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use tokio::runtime::Runtime;

use super::{Ending, Sources, is_error, print};
use crate::adapters::clock::SystemClock;
use crate::adapters::redis::Redis;
use crate::adapters::store::embedded::{self, TransferError};
use crate::adapters::store::{self, redis::RedisStore};
use crate::base::finding::Finding;
use crate::commit::{NodeId, StoreTime};
use crate::ports::Clock as _;
use crate::telemetry::Metrics;

/// How often it is said how far it is.
const PROGRESS: u64 = 10_000;
/// The node of a configuration that names none.
const USUAL_NODE: &str = "gate";
/// How long a Redis is waited for.
const REDIS_COMES: Duration = Duration::from_secs(10);

/// Export, import or back up the embedded store, or move it into a Redis
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
        #[arg(long, value_name = "DIR", required_unless_present = "redis")]
        folder: Option<PathBuf>,
        /// Instead of a folder: the Redis that is the store in a configuration. It must not hold one yet; until all of it is
        /// in, no gate can use it
        #[arg(long, conflicts_with = "folder")]
        redis: bool,
        #[command(flatten)]
        sources: Sources,
        /// The export [default: standard input]
        #[arg(long, value_name = "FILE")]
        input: Option<PathBuf>,
        /// The node whose audit chain tells of it: the one that will serve from this store [default: of the configuration,
        /// or `gate`]
        #[arg(long, value_name = "NAME", value_parser = node)]
        node: Option<NodeId>,
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
        #[arg(long, value_name = "NAME", value_parser = node, default_value = USUAL_NODE)]
        node: NodeId,
    },
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Ending> {
    let usual = node(USUAL_NODE)?;
    match &arguments.what {
        What::Export { folder, output } => export(folder, output.as_deref())?,
        What::Import { folder, redis: _, sources, input, node } => match folder {
            Some(folder) => import(input.as_deref(), &mut |lines, told| {
                embedded::import(folder, lines, node.as_ref().unwrap_or(&usual), now(), told)
            })?,
            None => {
                let redis = ToRedis::connect(sources)?;
                import(input.as_deref(), &mut |lines, told| redis.import(lines, node.as_ref(), told))?;
            }
        },
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

/// Into an empty store: from these lines, telling how far it is.
type Into<'i> = &'i mut dyn FnMut(&mut dyn BufRead, &mut dyn FnMut(u64)) -> Result<u64, TransferError>;

fn import(input: Option<&Path>, into: Into<'_>) -> anyhow::Result<()> {
    let mut progress = Progress::new("read");
    let mut tell = |count| progress.tell(count);
    let imported = match input {
        Some(input) => {
            let file = File::open(input).with_context(|| format!("`{}` cannot be read", input.display()))?;
            into(&mut BufReader::new(file), &mut tell)
        }
        None => into(&mut io::stdin().lock(), &mut tell),
    };
    progress.end();
    let count = imported?;
    print(&format!(
        "Took in {count} lines.\nThe store is closed for money in every environment (freeze `restored`): open it with \
         `sluice unfreeze --restored` when you know what was done since the export.\n"
    ))
}

/// The Redis of a configuration.
struct ToRedis {
    runtime: Runtime,
    store: RedisStore,
    node: NodeId,
}

impl ToRedis {
    fn connect(sources: &Sources) -> anyhow::Result<ToRedis> {
        let config = sources.load().map_err(|findings| told(&findings))?.config;
        let of = config.redis.filter(|of| of.demands.is_some());
        let of =
            of.ok_or_else(|| anyhow!("the configuration names no Redis as its store (`store.kind = \"redis\"`)"))?;
        let runtime = Runtime::new()?;
        let redis = Arc::new(Redis::new(&of, Metrics::new()?)?);
        runtime.spawn(redis.clone().keep_connected());
        runtime.block_on(redis.ready_within(REDIS_COMES))?;
        Ok(ToRedis { runtime, store: RedisStore::new(redis), node: config.store.node })
    }

    fn import(
        &self,
        lines: &mut dyn BufRead,
        node: Option<&NodeId>,
        told: &mut dyn FnMut(u64),
    ) -> Result<u64, TransferError> {
        let node = node.unwrap_or(&self.node);
        store::redis::import(&self.store, self.runtime.handle(), lines, node, told)
    }
}

fn told(findings: &[Finding]) -> anyhow::Error {
    let lines: Vec<String> = findings.iter().filter(|finding| is_error(finding)).map(Finding::to_string).collect();
    anyhow!("the configuration cannot be used:\n{}", lines.join("\n"))
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
