//! Opens this process's node before any money moves, keeps it while the process runs, and closes it at the end.
//!
//! If the Redis is not reachable yet or refuses writes, or an embedded store is large and still being verified, reads are
//! already served. Until the store can be used and the records of an earlier run are recovered, it is unavailable and no
//! money moves.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};
use tokio_util::task::TaskTracker;

use super::embedded_start::{REACH_NOTE, UnverifiedStore, open_store, or_empty};
use super::lock_wait::LockWait;
use super::node_settings::{audit_settings, clock_watch, entry_room, hold_room, outlets, terms};
use super::open_node_error::OpenNodeError;
use super::snapshots::{SnapshotMaker, keep_snapshots};
use super::witnessing::have_witnessed;
use super::workers::Workers;
use crate::adapters::audit::{AuditFiles, Follower, OpenFault, is_copy, journal_id, operand_key};
use crate::adapters::clock::{Stopwatch, SystemClock};
use crate::adapters::redis::{NotReady, ShardConnections};
use crate::adapters::store::awaited::Awaited;
use crate::adapters::store::embedded::OpenError;
use crate::adapters::store::measured::Measured;
use crate::adapters::store::redis::RedisStore;
use crate::adapters::store::replica::Replica;
use crate::adapters::store::seal_check::SealCheck;
use crate::adapters::store::sealed::{JournalledRecords, Sealed, SealingKey, Seals};
use crate::adapters::store::snapshot::SnapshotSource;
use crate::adapters::supervisor::Supervisor;
use crate::adapters::unsettled_outcomes::Unsettled;
use crate::base::ids::Environment;
use crate::config::{Config, StoreKind};
use crate::ledger::{Number, StoreFault};
use crate::node::clock_watch::watch_own_clock;
use crate::node::heard_before::HeardBefore;
use crate::node::journal_gaps::close_for_missing_files;
use crate::node::journalling::{RecoverError, bring, keep_bringing};
use crate::node::membership::{JoinError, Membership};
use crate::node::upkeep::{keep_sweeping, tell_of_plain, watch_leases};
use crate::node::what_was_before::recover_whole;
use crate::node::{HoldChanges, InForce, Node, OpenAttempt, OpenAttempts, watch_store};
use crate::ports::Store;
use crate::telemetry::Metrics;

/// How long the last entries may take to reach the disk when the process ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a start waits for the Redis that is the store; afterwards, reads are served without it.
const REDIS_WAIT: Duration = Duration::from_secs(2);
/// How long a start waits for an embedded store that is verified; afterwards, reads are served without it.
const EMBEDDED_WAIT: Duration = Duration::from_millis(250);
/// How long a call waits for an embedded store that is verified.
const CALLS_WAIT: Duration = Duration::from_secs(5);
/// How long to wait before the next attempt to reach the store or to join the other nodes.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The open node, and its membership among the nodes that share the store.
#[derive(Clone, Debug)]
pub(super) struct OpenedStore {
    pub node: Arc<Node>,
    /// Opens what the store and the journal keep sealed.
    pub seals: Seals,
    pub source: Arc<dyn SnapshotSource>,
    membership: Option<Arc<Membership>>,
    /// Whether the store could be used when the start went on.
    pub is_open: bool,
}

/// The services of the process that the node uses.
#[derive(Clone, Copy)]
pub(super) struct Services<'p> {
    pub runtime: &'p Runtime,
    pub workers: &'p Workers,
    pub settling: &'p TaskTracker,
    pub stopping: &'p watch::Receiver<bool>,
    pub supervisor: &'p Supervisor,
    pub in_force: &'p Arc<InForce>,
}

pub(super) fn open(
    config: &Config,
    services: Services<'_>,
    metrics: &Metrics,
    redis: Option<ShardConnections>,
) -> Result<OpenedStore, OpenNodeError> {
    let Services { runtime, workers, settling, stopping, .. } = services;
    let clock = Arc::new(SystemClock);
    let node = &config.store.node;
    let seal_keys = config.store.seal_keys.iter().map(|(id, key)| SealingKey::new(id, key));
    let seal_keys: Vec<SealingKey> = seal_keys.collect::<Result<_, _>>().map_err(OpenNodeError::SealKey)?;
    let seals = Seals::new(seal_keys).accepting_plain(config.store.allow_plain);
    let seal_check = SealCheck::of(config, &seals);
    seal_check.compare().map_err(OpenNodeError::OtherSealKey)?;
    if seals.takes_plain() {
        tracing::warn!(
            "records in plain text are taken, although `store.seal_key` is set: remove `store.allow_plain` when the store is taken over"
        );
    }
    // With a Redis, the next process is another node with its own folder, so there is nothing to wait for.
    let wait = if config.store.kind == StoreKind::Embedded { config.store.wait } else { Duration::ZERO };
    let waiting = LockWait { runtime, supervisor: services.supervisor, wait };
    let is_locked = |error: &OpenError| matches!(error, OpenError::Locked(_));
    let open_embedded = || waiting.open("store", &config.store.folder, || open_store(config, &seals), is_locked);
    // The store's lock comes first: an earlier process holds it until it has ended.
    let embedded = match config.store.kind {
        StoreKind::Embedded => Some(open_embedded().map_err(OpenNodeError::Store)?),
        StoreKind::Redis => None,
    };
    let mut settings = audit_settings(config)?;
    settings.note = embedded.is_some().then(|| config.store.folder.join(REACH_NOTE));
    // With a Redis, this gate keeps what its journal makes of the store.
    let replica = match config.store.kind {
        StoreKind::Embedded => None,
        StoreKind::Redis => {
            let folder = config.audit.folder.join(format!("replica-{node}"));
            let open = || or_empty(&folder, || Replica::open(&folder, seals.clone()));
            let replica = waiting.open("replica of the store", &folder, open, is_locked);
            Some(Arc::new(replica.map_err(OpenNodeError::Store)?))
        }
    };
    settings.follower = replica.clone().map(|replica| -> Arc<dyn Follower> { replica });
    let open = || AuditFiles::open(settings.clone(), clock.clone());
    let is_locked = |fault: &OpenFault| matches!(fault, OpenFault::Locked { .. });
    let audit = waiting.open("audit log", &config.audit.folder, open, is_locked);
    let audit = Arc::new(audit.map_err(OpenNodeError::Audit)?);
    workers.spawn_required("the audit log's writer", audit.ended());
    have_witnessed(config, &audit, clock.clone(), metrics, workers)?;
    let mut unverified = None;
    let (store, shared, source): (Arc<dyn Store>, _, Arc<dyn SnapshotSource>) = match (embedded, redis.clone()) {
        (Some(store), _) => {
            let store = UnverifiedStore::new(store, config, runtime.handle(), &audit, &seals)?;
            let opening = store.opening();
            unverified = Some(store);
            (opening.clone(), None, opening)
        }
        (None, redis) => {
            let copies = u64::try_from(config.store.copies).unwrap_or(u64::MAX);
            let both = redis.zip(replica).ok_or(OpenNodeError::Redis(NotReady::Away))?;
            let store = Arc::new(RedisStore::of_node(both.0, node.clone(), copies).with_seals(seals.clone()));
            let replica = both.1;
            (store.clone(), Some((store, replica.clone())), replica)
        }
    };
    let (folder, for_journal) = (config.audit.folder.clone(), settings.rotate_bytes);
    let maker = SnapshotMaker { source: source.clone(), folder, for_journal, seals: seals.clone() };
    workers.spawn_required("snapshots", keep_snapshots(audit.clone(), maker));
    let known = shared.as_ref().map(|(_, replica)| -> Arc<dyn JournalledRecords> { replica.clone() });
    let sealed =
        |store| Arc::new(Sealed::new(store, seals.clone()).compared_with(known.clone()).counted_by(metrics.clone()));
    let operand_key = operand_key(config.audit.operand_key.as_ref(), &config.store.folder);
    let operand_key = operand_key.map_err(OpenNodeError::OperandKey)?;
    let membership = shared.map(|(store, replica)| {
        Arc::new(Membership {
            store,
            replica,
            seals: seals.clone(),
            installation: config.store.installation.clone(),
            served: config.environments.iter().map(|one| one.environment).collect(),
            all_nodes: config.store.nodes.clone(),
            copies: config.store.copies,
            instance: audit.instance().to_owned(),
            former: audit.former().map(str::to_owned),
            is_copy: AtomicBool::new(is_copy(&config.audit.folder, node)),
            audit_folder: config.audit.folder.clone(),
            in_force: services.in_force.clone(),
            told_before: Mutex::default(),
            heard_before: HeardBefore::default(),
        })
    });
    let store = sealed(store);
    let patience = if unverified.is_some() { CALLS_WAIT } else { Duration::ZERO };
    let (open, is_open) = watch::channel(false);
    let node = Arc::new(Node {
        store: Arc::new(Measured::new(Arc::new(Awaited::new(store.clone(), is_open.clone(), patience)), metrics)),
        audit: audit.clone(),
        clock,
        id: node.clone(),
        journal: journal_id(&config.audit.folder, node).map_err(OpenNodeError::JournalId)?,
        open: OpenAttempts::default(),
        others: Arc::default(),
        terms: terms(config),
        hold_room: hold_room(config),
        entries: Arc::new(entry_room(config)),
        prefixes: Arc::new(config.request_id_prefixes.clone()),
        unsettled: Some(Unsettled::new(config.audit.folder.join("unsettled"), seals.clone())),
        metrics: metrics.clone(),
        watched: Arc::default(),
        heard: Arc::default(),
        operand_key,
        settling: settling.clone(),
        stopping: stopping.clone(),
        changes: HoldChanges::default(),
        owners: Arc::new(config.console.as_ref().map(|console| console.owners.clone()).unwrap_or_default()),
        outlets: Arc::new(outlets(config)),
        fresh: Arc::default(),
        fence: redis.as_ref().map_or_else(Arc::default, |redis| redis.fence().clone()),
        clocks: Arc::new(clock_watch(config)),
        contradictions: Arc::default(),
        losses: Arc::default(),
        news: Arc::default(),
        activations: Arc::default(),
    });
    let environments: Vec<Environment> = config.environments.iter().map(|one| one.environment).collect();
    workers.spawn_required("journal", keep_bringing(node.clone(), environments.clone()));
    if let Some(opening) = unverified.as_ref().map(UnverifiedStore::opening) {
        let (node, environments, of_writer) = (node.clone(), environments.clone(), opening.clone());
        workers.spawn_required("the store's writer", async move { of_writer.opened().await.ended().await });
        workers.spawn_required("the watch of the clock", async move {
            watch_own_clock(node, opening.opened().await, environments).await;
        });
    }
    if seals.takes_plain() {
        workers.spawn_optional("plain records", tell_of_plain(node.clone(), environments.clone()));
    }
    workers.spawn_required("the watch of the store", watch_store(node.clone(), environments.clone()));
    let awaited = redis.filter(|_| config.store.kind == StoreKind::Redis);
    let of_start = Arc::new(Node { store, ..Node::clone(&node) });
    let (joined, has_joined) = watch::channel(false);
    if let Some(membership) = &membership {
        workers.spawn_required("membership", run_once(has_joined.clone(), membership.clone().stay(of_start.clone())));
        let watching = membership.clone().watch_content(of_start.clone());
        workers.spawn_required("the watch of the store's content", run_once(has_joined.clone(), watching));
        workers.spawn_required("recovery", run_once(has_joined, membership.clone().keep_remembering(of_start.clone())));
    }
    let starting = start_node(NodeStart {
        redis: awaited.clone(),
        membership: membership.clone(),
        seal_check: seal_check.clone(),
        node: of_start,
        unverified,
        audit_folder: config.audit.folder.clone(),
        environments: environments.clone(),
        joined,
    });
    let (report, reported) = oneshot::channel();
    workers.spawn_required("the node", {
        let (node, environments) = (node.clone(), environments.clone());
        async move {
            if let Err(error) = starting.await {
                match report.send(error) {
                    // The start of the process fails with this error.
                    Ok(()) => std::future::pending().await,
                    Err(error) => tracing::error!(%error, "the node cannot be opened"),
                }
                return;
            }
            seal_check.keep();
            open.send_replace(true);
            node.watched.starts(None);
            drop(report);
            watch_leases(node, environments).await;
        }
    });
    workers.spawn_required("sweep", keep_sweeping(node.clone()));
    let within = awaited.map_or(EMBEDDED_WAIT, |_| REDIS_WAIT);
    let is_open = match runtime.block_on(async { tokio::time::timeout(within, reported).await }) {
        Ok(Ok(error)) => return Err(error),
        // The sender was dropped: the node is open.
        Ok(Err(_)) => true,
        Err(_) => {
            tracing::warn!(
                "the store cannot be used yet; reads are served, and everything else waits or is refused until it can"
            );
            false
        }
    };
    Ok(OpenedStore { node, seals, source, membership, is_open })
}

/// The parts that a node needs to start.
struct NodeStart {
    redis: Option<ShardConnections>,
    membership: Option<Arc<Membership>>,
    seal_check: SealCheck,
    node: Arc<Node>,
    /// The embedded store, which is verified first.
    unverified: Option<UnverifiedStore>,
    audit_folder: PathBuf,
    environments: Vec<Environment>,
    /// Becomes true when this node has joined the others.
    joined: watch::Sender<bool>,
}

/// Runs the work once the value is true; never if the sender is dropped first.
async fn run_once(mut is_so: watch::Receiver<bool>, work: impl Future<Output = ()>) {
    match is_so.wait_for(|is_so| *is_so).await.map(|_| ()) {
        Ok(()) => work.await,
        // The process ends for another reason, which it reports.
        Err(_) => std::future::pending().await,
    }
}

/// Joins the other nodes, and recovers what the store and an earlier run of this node left unfinished. No money moves
/// before.
async fn start_node(start: NodeStart) -> Result<(), OpenNodeError> {
    let NodeStart { redis, membership, seal_check, node, unverified, audit_folder, environments, joined } = start;
    // Until what an earlier run left is settled, this gate may hold proofs of any attempt.
    let opened: Vec<OpenAttempt> =
        Environment::ALL.into_iter().map(|environment| node.open.open(environment, Number::new(0))).collect();
    if let Some(store) = unverified {
        store.verified(&node).await?;
    }
    let since = Stopwatch::start();
    loop {
        if let Some(redis) = &redis {
            match redis.ready_within(RETRY_INTERVAL).await {
                Ok(()) => {}
                // A Redis with settings that make it unusable from the beginning fails the start.
                Err(unfit) if unfit.is_misconfiguration() && since.elapsed() < REDIS_WAIT => {
                    return Err(OpenNodeError::Redis(unfit));
                }
                Err(why) => {
                    node.watched.starts(Some(why.to_string()));
                    if matches!(why, NotReady::Unfit(_)) {
                        tokio::time::sleep(RETRY_INTERVAL).await;
                    }
                    continue;
                }
            }
        }
        let joins = match &membership {
            Some(membership) => {
                seal_check.compare_with(&membership.store).await.map_err(OpenNodeError::OtherSealKey)?;
                membership.join(&node).await
            }
            None => Ok(()),
        };
        match joins {
            Ok(()) => {}
            Err(
                why @ (JoinError::Alone
                | JoinError::Uncreated
                | JoinError::Store(StoreFault::Away(_) | StoreFault::InDoubt(_))),
            ) if redis.is_some() => {
                node.watched.starts(Some(why.to_string()));
                tokio::time::sleep(RETRY_INTERVAL).await;
                continue;
            }
            Err(why) => return Err(OpenNodeError::Join(why)),
        }
        match close_for_missing_files(&node, &audit_folder).await {
            Ok(()) => {}
            Err(why @ (StoreFault::Away(_) | StoreFault::InDoubt(_))) if redis.is_some() => {
                node.watched.starts(Some(why.to_string()));
                tokio::time::sleep(RETRY_INTERVAL).await;
                continue;
            }
            Err(why) => return Err(OpenNodeError::Join(JoinError::Store(why))),
        }
        joined.send_replace(true);
        match recover_whole(&node, membership.as_deref(), &environments).await {
            Err(why @ RecoverError::Store(StoreFault::Away(_) | StoreFault::InDoubt(_))) if redis.is_some() => {
                node.watched.starts(Some(why.to_string()));
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            recovered => {
                drop(opened);
                return recovered.map_err(OpenNodeError::Recover);
            }
        }
    }
}

/// Writes the last entries to disk after the last commit. A gate that shares its store hands over what its journal has,
/// and leaves the others, in the time that is left; the rest waits for the next start.
pub(super) fn close(opened: OpenedStore, environments: &[Environment], left: Duration, runtime: &Runtime) {
    let OpenedStore { node, membership, .. } = opened;
    let all = async {
        match &membership {
            Some(membership) => {
                let [production, sandbox] =
                    Environment::ALL.map(|environment| membership.end_in_order(&node, environment));
                tokio::try_join!(production, sandbox)?;
            }
            None => {
                for environment in environments {
                    bring(&node, *environment).await?;
                }
            }
        }
        Ok::<(), RecoverError>(())
    };
    let within = if membership.is_some() { left.max(FLUSH_TIMEOUT) } else { FLUSH_TIMEOUT };
    let ended = runtime.block_on(async { tokio::time::timeout(within, all).await });
    match ended {
        Ok(Ok(())) => return,
        Ok(Err(error)) => tracing::warn!(%error, "entries stay in the store until the next start"),
        Err(_) => tracing::warn!(
            "entries stay in the store until the next start: to write them, or to hand them over to other gates, took too long"
        ),
    }
    if let Some(membership) = membership {
        let left =
            runtime.block_on(async { tokio::time::timeout(FLUSH_TIMEOUT, membership.leave_at_once(&node)).await });
        if left.is_err() {
            tracing::warn!("the other gates were not told that this one ends: the store did not answer");
        }
    }
}

/// Hands over what the journal has, within this time; returns whether other journals have all of it.
pub(super) fn hand_over(opened: &OpenedStore, within: Duration, runtime: &Runtime) -> Result<bool, RecoverError> {
    let Some(membership) = &opened.membership else { return Ok(false) };
    let all = async {
        let [production, sandbox] =
            Environment::ALL.map(|environment| membership.end_in_order(&opened.node, environment));
        tokio::try_join!(production, sandbox)
    };
    match runtime.block_on(async { tokio::time::timeout(within.max(FLUSH_TIMEOUT), all).await }) {
        Ok(handed_over) => handed_over.map(|(production, sandbox)| production && sandbox),
        Err(_) => Ok(false),
    }
}

/// Leaves the other gates without handing over.
pub(super) fn leave(opened: &OpenedStore, runtime: &Runtime) {
    if let Some(membership) = &opened.membership {
        let leaving = membership.leave_at_once(&opened.node);
        // Whoever is not told finds that its heartbeats ended.
        runtime.block_on(async { tokio::time::timeout(FLUSH_TIMEOUT, leaving).await }).ok();
    }
}
