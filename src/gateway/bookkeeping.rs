//! The books of this process: opened and brought up to date before any money moves, and kept while it runs.
//!
//! A Redis that is not there yet is waited for while reads are served already; until it is, and what an earlier life left
//! is taken up, the store is away and the gate is not ready.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::TaskTracker;

use super::workers::Workers;
use crate::adapters::audit::{AuditFiles, AuditSettings, Checkpoints, OpenFault, SigningKey, operand_key};
use crate::adapters::clock::{Stopwatch, SystemClock};
use crate::adapters::redis::{NotReady, Redis};
use crate::adapters::store::awaited::Awaited;
use crate::adapters::store::embedded::{Embedded, OpenError, Options};
use crate::adapters::store::measured::Measured;
use crate::adapters::store::redis::RedisStore;
use crate::adapters::store::sealed::{Sealed, SealingKey, SealingKeyError};
use crate::adapters::supervisor::Supervisor;
use crate::adapters::unsettled::Unsettled;
use crate::base::ids::Environment;
use crate::chain::Highest;
use crate::commit::{Keep, StoreFault};
use crate::config::{Config, LongestWrite, StoreKind, TimeoutsConfig, WebhookConfig};
use crate::journey::holds::Changes;
use crate::journey::roll::{NotJoined, Roll};
use crate::journey::setback::close_if_set_back;
use crate::journey::upkeep::{RecoverError, drain, flush, recover, search_and_sweep, watch_leases};
use crate::journey::{Books, InForce, Outlets};
use crate::ports::Store;
use crate::stations::claim::Terms;
use crate::stations::tell::Outlet;
use crate::telemetry::Metrics;

/// Entries that are on their way to the disk and that nobody waits for.
const ON_THEIR_WAY: usize = 16_384;
/// For the last entries, at an end.
const FLUSH: Duration = Duration::from_secs(5);
/// How long a Redis that is the store is waited for before anything is served; then reads are.
const REDIS_COMES: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_secs(1);
/// How often it is looked whether the store of one node is free.
const SOON: Duration = Duration::from_millis(20);
const TELL_EVERY: Duration = Duration::from_secs(5);
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
    OperandKey(io::Error),
    Audit(OpenFault),
    Join(NotJoined),
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
            BooksError::OperandKey(error) => write!(f, "the key of personal operands: {error}"),
            BooksError::Audit(error) => write!(f, "{error}"),
            BooksError::Join(error) => write!(f, "{error}"),
            BooksError::Recover(error) => write!(f, "what was left of an earlier run cannot be taken up: {error}"),
        }
    }
}

impl std::error::Error for BooksError {}

/// The books, and this node's place among others that share the store.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    pub books: Arc<Books>,
    /// Whether the store may be used.
    pub is_open: watch::Receiver<bool>,
    roll: Option<Arc<Roll>>,
}

/// What the books live in.
#[derive(Clone, Copy)]
pub(super) struct Around<'p> {
    pub runtime: &'p Runtime,
    pub workers: &'p Workers,
    pub settling: &'p TaskTracker,
    pub stopping: &'p watch::Receiver<bool>,
    pub supervisor: &'p Supervisor,
    pub in_force: &'p Arc<InForce>,
}

pub(super) fn open(
    config: &Config,
    around: Around<'_>,
    metrics: &Metrics,
    redis: Option<Arc<Redis>>,
) -> Result<Opened, BooksError> {
    let Around { runtime, workers, settling, stopping, .. } = around;
    let clock = Arc::new(SystemClock);
    let node = &config.store.node;
    let (store, shared): (Arc<dyn Store>, _) = match (config.store.kind, redis.clone()) {
        (StoreKind::Embedded, _) => {
            let open = || Embedded::open(&config.store.folder, clock.clone(), Options::default());
            let store = when_free(config, around, open, |error| matches!(error, OpenError::Locked(_)));
            let store = store.map_err(BooksError::Store)?;
            workers.keep("the store's writer", store.ended());
            (Arc::new(store), None)
        }
        (StoreKind::Redis, Some(redis)) => {
            let as_it_stands: Arc<dyn Store> = Arc::new(RedisStore::new(redis.clone()));
            let store = Arc::new(RedisStore::of_node(redis, node.clone()));
            (store.clone(), Some((store, as_it_stands)))
        }
        (StoreKind::Redis, None) => return Err(BooksError::Redis(NotReady::Away)),
    };
    let seal_keys = config.store.seal_keys.iter().map(|(id, key)| SealingKey::new(id, key));
    let seal_keys: Vec<SealingKey> = seal_keys.collect::<Result<_, _>>().map_err(BooksError::SealKey)?;
    let sealed = |store| Arc::new(Sealed::new(store, seal_keys.clone()));
    let settings = audit_settings(config)?;
    let open = || AuditFiles::open(settings.clone(), clock.clone());
    let audit = when_free(config, around, open, |fault| matches!(fault, OpenFault::Locked { .. }));
    let audit = audit.map_err(BooksError::Audit)?;
    workers.keep("the audit chain's writer", audit.ended());
    let operand_key = operand_key(config.audit.operand_key.as_ref(), &config.audit.folder);
    let operand_key = operand_key.map_err(BooksError::OperandKey)?;
    let stood = audit.stood().clone();
    let roll = shared.map(|(store, as_it_stands)| {
        Arc::new(Roll {
            store,
            as_it_stands: sealed(as_it_stands),
            instance: audit.instance().to_owned(),
            former: audit.former().map(str::to_owned),
            audit_folder: config.audit.folder.clone(),
            in_force: around.in_force.clone(),
        })
    });
    let store = sealed(store);
    let (open, is_open) = watch::channel(false);
    let (entries, on_their_way) = mpsc::channel(ON_THEIR_WAY);
    let books = Arc::new(Books {
        store: Arc::new(Measured::new(Arc::new(Awaited::new(store.clone(), is_open.clone())), metrics)),
        audit: Arc::new(audit),
        clock,
        node: node.clone(),
        terms: terms(config),
        unsettled: Some(Unsettled::new(config.audit.folder.join("unsettled"))),
        metrics: metrics.clone(),
        heard: Arc::default(),
        operand_key,
        settling: settling.clone(),
        stopping: stopping.clone(),
        changes: Changes::default(),
        owners: Arc::new(config.console.as_ref().map(|console| console.owners.clone()).unwrap_or_default()),
        outlets: Arc::new(outlets(config)),
        drain: entries,
    });
    let environments: Vec<Environment> = config.environments.iter().map(|one| one.environment).collect();
    workers.keep("drain", drain(books.clone(), on_their_way));
    let awaited = redis.filter(|_| config.store.kind == StoreKind::Redis);
    let of_start = Arc::new(Books { store, ..Books::clone(&books) });
    let (joined, has_joined) = watch::channel(false);
    if let Some(roll) = &roll {
        workers.keep("the roll", once(has_joined.clone(), roll.clone().stay(of_start.clone())));
        workers.keep("memory", once(has_joined, roll.clone().keep_remembering(of_start.clone())));
    }
    let beginning = begin(Beginning {
        redis: awaited.clone(),
        roll: roll.clone(),
        books: of_start,
        stood,
        environments: environments.clone(),
        joined,
    });
    let (tell, told) = oneshot::channel();
    workers.keep("the books", {
        let (books, environments) = (books.clone(), environments.clone());
        async move {
            if let Err(error) = beginning.await {
                match tell.send(error) {
                    // Who starts the process ends it.
                    Ok(()) => std::future::pending().await,
                    Err(error) => tracing::error!(%error, "the books cannot be opened"),
                }
                return;
            }
            open.send_replace(true);
            drop(tell);
            watch_leases(books, environments).await;
        }
    });
    workers.keep("search and sweep", search_and_sweep(books.clone(), environments));
    let within = awaited.map_or(Duration::MAX, |_| REDIS_COMES);
    match runtime.block_on(async { tokio::time::timeout(within, told).await }) {
        Ok(Ok(error)) => return Err(error),
        // It was dropped: they are open.
        Ok(Err(_)) => {}
        Err(_) => tracing::warn!("the store is not there yet; reads are served, and all else is refused until it is"),
    }
    Ok(Opened { books, is_open, roll })
}

/// What the process before this one had, when it has let go of it.
fn when_free<T, E>(
    config: &Config,
    around: Around<'_>,
    open: impl Fn() -> Result<T, E>,
    is_taken: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let (since, mut told) = (Stopwatch::start(), None::<Duration>);
    // With a Redis, the next process is another node, with a folder of its own.
    let wait = if config.store.kind == StoreKind::Embedded { config.store.wait } else { Duration::ZERO };
    loop {
        match open() {
            Err(error) if is_taken(&error) && since.elapsed() < wait => {}
            opened => return opened,
        }
        if told.is_none_or(|told| since.elapsed().saturating_sub(told) > TELL_EVERY) {
            told = Some(since.elapsed());
            tracing::info!(
                folder = %config.store.folder.display(),
                waited_secs = since.elapsed().as_secs(),
                at_most_secs = wait.as_secs(),
                "another process has the store, and is waited for until it has ended; connections wait meanwhile"
            );
            around.supervisor.waiting("the process that has the store");
        }
        around.runtime.block_on(async { tokio::time::sleep(SOON).await });
    }
}

/// What a node needs to begin.
struct Beginning {
    redis: Option<Arc<Redis>>,
    roll: Option<Arc<Roll>>,
    books: Arc<Books>,
    stood: Highest,
    environments: Vec<Environment>,
    /// Told when this node is one of the nodes.
    joined: watch::Sender<bool>,
}

/// Runs when it is true; not at all where that never comes.
async fn once(mut is_so: watch::Receiver<bool>, work: impl Future<Output = ()>) {
    match is_so.wait_for(|is_so| *is_so).await.map(|_| ()) {
        Ok(()) => work.await,
        // The process ends, and says why.
        Err(_) => std::future::pending().await,
    }
}

/// What comes before any money: this node is one of the nodes, and nothing of the store, and of an earlier life of this
/// node, is left in doubt.
async fn begin(beginning: Beginning) -> Result<(), BooksError> {
    let Beginning { redis, roll, books, stood, environments, joined } = beginning;
    let since = Stopwatch::start();
    loop {
        if let Some(redis) = &redis {
            match redis.ready_within(AGAIN).await {
                Ok(()) => {}
                // One that is never fit is told to whoever starts the gate.
                Err(unfit @ NotReady::Unfit(_)) if since.elapsed() < REDIS_COMES => {
                    return Err(BooksError::Redis(unfit));
                }
                Err(NotReady::Unfit(_)) => {
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
                Err(NotReady::Away) => continue,
            }
        }
        let joins = match &roll {
            Some(roll) => roll.join(&books, &stood).await,
            None => close_if_set_back(&*books.store, &stood, &books.node).await.map_err(NotJoined::Store),
        };
        match joins {
            Ok(()) => {}
            Err(NotJoined::Alone | NotJoined::Store(StoreFault::Away(_) | StoreFault::InDoubt(_)))
                if redis.is_some() =>
            {
                tokio::time::sleep(AGAIN).await;
                continue;
            }
            Err(why) => return Err(BooksError::Join(why)),
        }
        joined.send_replace(true);
        match recover(&books, &environments).await {
            Err(RecoverError::Store(StoreFault::Away(_) | StoreFault::InDoubt(_))) if redis.is_some() => {
                tokio::time::sleep(AGAIN).await;
            }
            recovered => return recovered.map_err(BooksError::Recover),
        }
    }
}

/// When nothing commits any more: the last entries are brought to disk, and what is left waits for the next start.
pub(super) fn close(opened: Opened, environments: &[Environment], runtime: &Runtime) {
    let Opened { books, roll, .. } = opened;
    let all = async {
        for environment in environments {
            flush(&books, *environment).await?;
        }
        if let Some(roll) = roll {
            roll.leave(&books).await;
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

fn outlets(config: &Config) -> Outlets {
    let outlet = |webhook: &WebhookConfig| Outlet {
        name: webhook.name.clone(),
        events: webhook.events.clone(),
        environments: webhook.environments.clone(),
        keep: webhook.keep,
    };
    Outlets::new(config.webhooks.iter().map(outlet).collect())
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
