//! `sluice store`: exports, imports and backs up a whole store while no gate serves from it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use tokio::runtime::Runtime;

use super::create_store::create;
use super::progress::ProgressLine;
use super::{ExitReason, Sources, configuration_error, print};
use crate::adapters::clock::SystemClock;
use crate::adapters::redis::ShardConnections;
use crate::adapters::regular_file::open_regular;
use crate::adapters::store::embedded::{self, TransferError};
use crate::adapters::store::sealed::{SealingKey, Seals};
use crate::adapters::store::{self, redis::RedisStore};
use crate::config::RedisConfig;
use crate::ledger::{NodeId, StoreTime};
use crate::ports::Clock as _;
use crate::telemetry::Metrics;

/// The number of lines between two updates of the progress.
const PROGRESS_INTERVAL: u64 = 10_000;
/// The node name of a configuration that sets none.
const DEFAULT_NODE: &str = "gate";
/// How long to wait for a Redis.
const REDIS_WAIT: Duration = Duration::from_secs(10);

/// Create the store of production; export, import or back up a store, embedded or in a Redis
///
/// Stop all gates first: only one process at a time can open an embedded store, and a Redis is read only while no gate
/// uses it. Sealed values stay sealed: keep the keys too, because a copy cannot be read without them.
#[derive(Debug, Args)]
pub(super) struct StoreArgs {
    #[command(subcommand)]
    what: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Create the store of production, once for an installation
    ///
    /// A gate never creates it: an empty store in the place of a lost one would let every earlier payment be made again.
    /// Repeating the command changes nothing. The store of the sandbox needs no creation.
    Create {
        #[command(flatten)]
        sources: Sources,
    },
    /// Write the whole store as lines of JSON
    ///
    /// The export holds records, windows, indexes, the outbox, and how far each journal reaches, with their versions,
    /// numbers and times. It lacks the sessions of people. Values that are not sealed are readable in it.
    Export {
        #[command(flatten)]
        store: StorePlace,
        /// The file to create [default: standard output]
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// Import an export, or the backup of a Redis, into an empty store
    ///
    /// Imports everything or nothing: a file is verified first, and no gate can use a Redis until its import is
    /// complete. Afterwards money is closed in every environment, because the store does not contain what was done since
    /// the export. Open it with `sluice unfreeze --restored --environment ENVIRONMENT --reason TEXT` when you know
    /// what was done.
    Import {
        #[command(flatten)]
        store: StorePlace,
        /// The export [default: standard input]
        #[arg(long, value_name = "FILE")]
        input: Option<PathBuf>,
        /// The node whose audit log records the import: the one that will serve from this store [default: the node of
        /// the configuration, or `gate`]
        #[arg(long, value_name = "NAME", value_parser = node)]
        node: Option<NodeId>,
    },
    /// Copy the store to a file, and verify the copy
    ///
    /// Of an embedded store it is a copy of its file. To restore it, put it into an empty folder as `store.redb`.
    ///
    /// Of a Redis it has the lines of `sluice store export`: claims with their stored answers, held calls with their
    /// votes, freezes, windows, indexes, entries that not every journal has, and how far each journal reaches. The
    /// sessions of people are not in it. The file is read back and compared. To restore it, use `sluice store import`.
    ///
    /// Sealed values stay sealed in both. Money is closed after a restore, because the copy does not contain what was
    /// done since.
    Backup {
        #[command(flatten)]
        store: StorePlace,
        /// The file to create; an existing file is not overwritten
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
        /// The node whose audit log records the restore of an embedded store: the one that would serve from the copy
        #[arg(long, value_name = "NAME", value_parser = node, default_value = DEFAULT_NODE)]
        node: NodeId,
    },
}

/// A folder, or the Redis of a configuration.
#[derive(Debug, Args)]
struct StorePlace {
    /// The folder of an embedded store
    #[arg(long, value_name = "DIR", required_unless_present = "redis")]
    folder: Option<PathBuf>,
    /// Use the Redis that the configuration names as its store, instead of a folder
    #[arg(long, conflicts_with = "folder")]
    redis: bool,
    #[command(flatten)]
    sources: Sources,
}

pub(super) fn run(arguments: &StoreArgs) -> anyhow::Result<ExitReason> {
    match &arguments.what {
        StoreCommand::Create { sources } => create(sources)?,
        StoreCommand::Export { store, to } => export(store, to.as_deref())?,
        StoreCommand::Import { store, input, node } => import(store, input.as_deref(), node.as_ref())?,
        StoreCommand::Backup { store, to, node } => {
            let failed = || format!("the backup to `{}` failed", to.display());
            match &store.folder {
                Some(folder) => {
                    let bytes = embedded::backup(folder, to, node, now()).with_context(failed)?;
                    print(&format!("Wrote `{}`: {bytes} bytes, verified.\n", to.display()))?;
                }
                None => {
                    let count = RedisTransfer::connect(&store.sources)?.backup(to).with_context(failed)?;
                    print(&format!("Wrote `{}`: {count} lines and an end line, verified.\n", to.display()))?;
                }
            }
        }
    }
    Ok(ExitReason::Done)
}

/// Writes the lines of a store, and reports progress; returns how many.
type ExportLines<'e> = &'e mut dyn FnMut(&mut dyn Write, &mut dyn FnMut(u64)) -> Result<u64, TransferError>;
/// Imports lines into an empty store, and reports progress; returns how many.
type ImportLines<'i> = &'i mut dyn FnMut(&mut dyn BufRead, &mut dyn FnMut(u64)) -> Result<u64, TransferError>;

fn export(store: &StorePlace, output: Option<&Path>) -> anyhow::Result<()> {
    match &store.folder {
        Some(folder) => export_by(output, &mut |out, progress| embedded::export(folder, out, progress)),
        None => {
            let redis = RedisTransfer::connect(&store.sources)?;
            export_by(output, &mut |out, progress| redis.export(out, progress))
        }
    }
}

fn export_by(output: Option<&Path>, lines: ExportLines<'_>) -> anyhow::Result<()> {
    let Some(output) = output else {
        let mut progress = ProgressLine::counting("lines written", PROGRESS_INTERVAL).unless_printing();
        lines(&mut BufWriter::new(io::stdout().lock()), &mut |count| progress.show(count))?;
        progress.end();
        return Ok(());
    };
    let count = write_new(output, lines)?;
    print(&format!("Wrote `{}`: {count} lines and an end line.\n", output.display()))
}

/// Writes a new file, which is on disk when this returns; a file that is not whole is removed.
fn write_new(output: &Path, lines: ExportLines<'_>) -> anyhow::Result<u64> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(output)
        .with_context(|| format!("`{}` cannot be written", output.display()))?;
    let mut progress = ProgressLine::counting("lines written", PROGRESS_INTERVAL);
    let mut out = BufWriter::new(&file);
    let written = lines(&mut out, &mut |count| progress.show(count));
    progress.end();
    let written = written.map_err(anyhow::Error::new).and_then(|count| {
        out.flush()?;
        file.sync_all()?;
        let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()?;
        Ok(count)
    });
    if written.is_err() {
        fs::remove_file(output).with_context(|| format!("`{}` is incomplete; remove it", output.display()))?;
    }
    written
}

fn import(store: &StorePlace, input: Option<&Path>, node: Option<&NodeId>) -> anyhow::Result<()> {
    let count = match &store.folder {
        Some(folder) => {
            let default = self::node(DEFAULT_NODE)?;
            let node = node.unwrap_or(&default);
            import_by(input, &mut |lines, progress| embedded::import(folder, lines, node, now(), progress))?
        }
        None => {
            let redis = RedisTransfer::connect(&store.sources)?;
            // A part of an export would have to be removed by hand.
            if let Some(input) = input {
                read_by(input, "lines verified", &mut embedded::verify)?;
            }
            import_by(input, &mut |lines, progress| redis.import(lines, node, progress))?
        }
    };
    print(&format!(
        "Imported {count} lines.\nMoney is closed in every environment (freeze `restored`): open it with \
         `sluice unfreeze --restored --environment ENVIRONMENT --reason TEXT` when you know what was done since the export.\n"
    ))
}

fn import_by(input: Option<&Path>, into: ImportLines<'_>) -> anyhow::Result<u64> {
    let Some(input) = input else {
        let mut progress = ProgressLine::counting("lines imported", PROGRESS_INTERVAL);
        let imported = into(&mut io::stdin().lock(), &mut |count| progress.show(count));
        progress.end();
        return imported.context("the standard input is not imported");
    };
    read_by(input, "lines imported", into)
}

fn read_by(input: &Path, words: &'static str, into: ImportLines<'_>) -> anyhow::Result<u64> {
    let file = open_regular(input).with_context(|| format!("`{}` cannot be read", input.display()))?;
    let mut progress = ProgressLine::counting(words, PROGRESS_INTERVAL);
    let read = into(&mut BufReader::new(file), &mut |count| progress.show(count));
    progress.end();
    read.with_context(|| format!("`{}` is not imported", input.display()))
}

/// The Redis of a configuration, while no gate uses it.
struct RedisTransfer {
    runtime: Runtime,
    store: RedisStore,
    node: NodeId,
    seals: Seals,
}

impl RedisTransfer {
    fn connect(sources: &Sources) -> anyhow::Result<RedisTransfer> {
        let config = sources.load().map_err(|findings| configuration_error(&findings))?.config;
        let of = config.redis.filter(|of| of.demands.is_some());
        let of =
            of.ok_or_else(|| anyhow!("the store of the configuration is not a Redis; set `store.kind = \"redis\"`"))?;
        // No caller waits for an answer.
        let of = RedisConfig { timeout: of.timeout.max(REDIS_WAIT), ..of };
        let runtime = Runtime::new()?;
        let redis = ShardConnections::new(&of, &Metrics::new()?)?;
        runtime.spawn(redis.clone().keep_connected());
        runtime.block_on(redis.ready_within(REDIS_WAIT))?;
        let keys = config.store.seal_keys.iter().map(|(id, key)| SealingKey::new(id, key));
        let keys = keys.collect::<Result<Vec<_>, _>>().context("`store.seal_key`")?;
        Ok(RedisTransfer {
            runtime,
            store: RedisStore::new(redis),
            node: config.store.node,
            seals: Seals::new(keys).accepting_plain(true),
        })
    }

    fn import(
        &self,
        lines: &mut dyn BufRead,
        node: Option<&NodeId>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64, TransferError> {
        let node = node.unwrap_or(&self.node);
        store::redis::import(&self.store, self.runtime.handle(), lines, (node, &self.seals), progress)
    }

    fn export(&self, out: &mut dyn Write, progress: &mut dyn FnMut(u64)) -> Result<u64, TransferError> {
        store::redis::export(&self.store, self.runtime.handle(), out, progress)
    }

    /// Writes an export into a new file, and reads it back.
    fn backup(&self, output: &Path) -> anyhow::Result<u64> {
        let written = write_new(output, &mut |out, progress| self.export(out, progress))?;
        let mut progress = ProgressLine::counting("lines verified", PROGRESS_INTERVAL);
        let read = open_regular(output)
            .map_err(TransferError::File)
            .and_then(|file| embedded::verify(&mut BufReader::new(file), &mut |count| progress.show(count)));
        progress.end();
        let why = match read {
            Ok(read) if read == written => return Ok(written),
            Ok(read) => anyhow!("it has {read} lines, but {written} were written"),
            Err(error) => anyhow!(error),
        };
        fs::remove_file(output)?;
        Err(why.context("what was written cannot be read back: check the disk, or write to another one"))
    }
}

fn now() -> StoreTime {
    StoreTime::of_micros(SystemClock.now().as_microsecond())
}

fn node(text: &str) -> anyhow::Result<NodeId> {
    NodeId::parse(text).ok_or_else(|| {
        anyhow!("a node name has 1 to 64 characters of `A-Za-z0-9._-` and begins with a letter or a digit")
    })
}
