//! The books of this process: opened and brought up to date before anything is served, and kept while it runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::workers::Workers;
use crate::adapters::audit::{AuditFiles, AuditSettings, Checkpoints, OpenFault, SigningKey};
use crate::adapters::clock::SystemClock;
use crate::adapters::redis::{NotReady, Redis};
use crate::adapters::store::embedded::{Embedded, OpenError, Options};
use crate::adapters::store::redis::RedisStore;
use crate::adapters::store::sealed::{Sealed, SealingKey, SealingKeyError};
use crate::adapters::unsettled::Unsettled;
use crate::base::ids::Environment;
use crate::commit::Keep;
use crate::config::{Config, LongestWrite, StoreKind, TimeoutsConfig};
use crate::journey::holds::Changes;
use crate::journey::setback::close_if_set_back;
use crate::journey::upkeep::{RecoverError, drain, flush, recover, search_and_sweep, watch_leases};
use crate::journey::{Books, Heard};
use crate::ports::Store;
use crate::stations::claim::Terms;
use crate::telemetry::Metrics;

/// Entries that are on their way to the disk and that nobody waits for.
const ON_THEIR_WAY: usize = 16_384;
/// For the last entries, at an end.
const FLUSH: Duration = Duration::from_secs(5);
/// How long a Redis that is the store is waited for at the start.
const REDIS_COMES: Duration = Duration::from_secs(10);
/// The state of the audit chain is signed after so many entries, or this time.
const CHECKPOINT_ENTRIES: u64 = 1_000;
const CHECKPOINT_EVERY: Duration = Duration::from_secs(60);

/// Why the books cannot be opened.
#[derive(Debug)]
pub enum BooksError {
    Store(OpenError),
    Redis(NotReady),
    SealKey(SealingKeyError),
    CheckpointKey,
    Audit(OpenFault),
    Recover(RecoverError),
}

impl std::fmt::Display for BooksError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BooksError::Store(error) => write!(f, "{error}"),
            BooksError::Redis(error) => write!(f, "{error}"),
            BooksError::SealKey(error) => write!(f, "`store.seal_key`: {error}"),
            BooksError::CheckpointKey => {
                write!(f, "`audit.checkpoint_key` is no Ed25519 key as PEM; `sluice audit key` makes one")
            }
            BooksError::Audit(error) => write!(f, "{error}"),
            BooksError::Recover(error) => write!(f, "what was left of an earlier run cannot be taken up: {error}"),
        }
    }
}

impl std::error::Error for BooksError {}

pub(super) fn open(
    config: &Config,
    runtime: &Runtime,
    workers: &Workers,
    settling: &TaskTracker,
    metrics: &Metrics,
    redis: Option<Arc<Redis>>,
) -> Result<Arc<Books>, BooksError> {
    let clock = Arc::new(SystemClock);
    let store: Arc<dyn Store> = match (config.store.kind, redis) {
        (StoreKind::Embedded, _) => {
            let store = Embedded::open(&config.store.folder, clock.clone(), Options::default());
            let store = store.map_err(BooksError::Store)?;
            workers.keep("the store's writer", store.ended());
            Arc::new(store)
        }
        (StoreKind::Redis, Some(redis)) => {
            runtime.block_on(redis.ready_within(REDIS_COMES)).map_err(BooksError::Redis)?;
            Arc::new(RedisStore::new(redis))
        }
        (StoreKind::Redis, None) => return Err(BooksError::Redis(NotReady::Away)),
    };
    let seal_keys = config.store.seal_keys.iter().map(|(id, key)| SealingKey::new(id, key));
    let seal_keys = seal_keys.collect::<Result<_, _>>().map_err(BooksError::SealKey)?;
    let store = Sealed::new(store, seal_keys);
    let audit = AuditFiles::open(audit_settings(config)?, clock.clone()).map_err(BooksError::Audit)?;
    workers.keep("the audit chain's writer", audit.ended());
    runtime
        .block_on(close_if_set_back(&store, audit.stood(), &config.store.node))
        .map_err(|fault| BooksError::Recover(RecoverError::Store(fault)))?;
    let (entries, on_their_way) = mpsc::channel(ON_THEIR_WAY);
    let books = Arc::new(Books {
        store: Arc::new(store),
        audit: Arc::new(audit),
        clock,
        node: config.store.node.clone(),
        terms: terms(config),
        unsettled: Some(Unsettled::new(config.audit.folder.join("unsettled"))),
        metrics: metrics.clone(),
        heard: Heard::default(),
        settling: settling.clone(),
        changes: Changes::default(),
        drain: entries,
    });
    let environments: Vec<Environment> = config.environments.iter().map(|one| one.environment).collect();
    workers.keep("drain", drain(books.clone(), on_their_way));
    runtime.block_on(recover(&books, &environments)).map_err(BooksError::Recover)?;
    workers.keep("leases", watch_leases(books.clone(), environments.clone()));
    workers.keep("search and sweep", search_and_sweep(books.clone(), environments));
    Ok(books)
}

/// When nothing commits any more: the last entries are brought to disk, and what is left waits for the next start.
pub(super) fn close(books: Arc<Books>, environments: &[Environment], runtime: &Runtime) {
    let all = async {
        for environment in environments {
            flush(&books, *environment).await?;
        }
        Ok::<(), RecoverError>(())
    };
    let flushed = runtime.block_on(async { tokio::time::timeout(FLUSH, all).await });
    match flushed {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "entries wait in the store for the next start"),
        Err(_) => tracing::warn!("entries wait in the store for the next start: they took too long"),
    }
}

fn audit_settings(config: &Config) -> Result<AuditSettings, BooksError> {
    let checkpoints = config.audit.checkpoint_key.as_ref().map(|pem| {
        let key = SigningKey::of_pem(pem.reveal().as_bytes()).ok_or(BooksError::CheckpointKey)?;
        Ok(Checkpoints { key, every_entries: CHECKPOINT_ENTRIES, every: CHECKPOINT_EVERY, to_log: true })
    });
    Ok(AuditSettings {
        rotate_bytes: u64::try_from(config.audit.file_bytes).unwrap_or(u64::MAX),
        checkpoints: checkpoints.transpose()?,
        ..AuditSettings::of(&config.audit.folder, config.store.node.clone())
    })
}

fn terms(config: &Config) -> Terms {
    let TimeoutsConfig { connect, tls_handshake, write, answer, .. } = config.timeouts;
    let longest = LongestWrite::of(connect, tls_handshake, write, answer);
    Terms {
        begin_within: longest.begin,
        lease: longest.whole,
        first_look: config.reconcile.first_look,
        quiet: answer.saturating_add(config.reconcile.first_look),
        keep: Keep::For { whole: config.store.answers, spent: config.store.spent },
    }
}
