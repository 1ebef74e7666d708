//! Opens this process's node before any money moves, keeps it while the process runs, and closes it at the end.
//!
//! If the Redis is not reachable yet or refuses writes, or an embedded store is large and still being verified, reads are
//! already served. Until the store can be used and the records of an earlier run are recovered, it is unavailable and no
//! money moves.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};
use tokio_util::task::TaskTracker;

use super::disk_opening::{DiskOpening, NodeKeys};
use super::disk_trouble::DiskTrouble;
use super::node_settings::{clock_watch, entry_room, hold_room, outlets, terms};
use super::node_start::{NodeBeginning, REDIS_WAIT, start_node};
use super::open_node_error::OpenNodeError;
use super::workers::Workers;
use crate::adapters::audit::{AuditFolder, OpeningAudit};
use crate::adapters::clock::SystemClock;
use crate::adapters::opening::Opening;
use crate::adapters::policies::LoadedPolicies;
use crate::adapters::redis::{NotReady, ShardConnections};
use crate::adapters::store::awaited::{Awaited, Openness};
use crate::adapters::store::measured::Measured;
use crate::adapters::store::opening::OpeningStore;
use crate::adapters::store::redis::RedisStore;
use crate::adapters::store::replica::Replica;
use crate::adapters::store::seal_check::SealCheck;
use crate::adapters::store::sealed::{JournalledRecords, Sealed, SealingKey, Seals};
use crate::adapters::store::snapshot::SnapshotSource;
use crate::adapters::supervisor::Supervisor;
use crate::adapters::unsettled_outcomes::Unsettled;
use crate::base::ids::Environment;
use crate::config::{Config, StoreKind};
use crate::node::clock_watch::watch_own_clock;
use crate::node::journalling::{RecoverError, bring, keep_bringing};
use crate::node::membership::Membership;
use crate::node::upkeep::{keep_journal_id, keep_sweeping, tell_of_plain, watch_leases};
use crate::node::{HoldChanges, InForce, Node, OpenAttempts, watch_store};
use crate::ports::Store;
use crate::telemetry::Metrics;

/// How long the last entries may take to reach the disk when the process ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a start waits for an embedded store that is verified; afterwards, reads are served without it.
const EMBEDDED_WAIT: Duration = Duration::from_millis(250);
/// How long a call waits for an embedded store that is verified.
const CALLS_WAIT: Duration = Duration::from_secs(5);

/// The open node, and its membership among the nodes that share the store.
#[derive(Clone, Debug)]
pub(super) struct OpenedStore {
    pub node: Arc<Node>,
    /// Opens what the store and the journal keep sealed.
    pub seals: Seals,
    pub source: Arc<dyn SnapshotSource>,
    /// It is there once the disks of this gate are open.
    membership: Arc<Opening<Membership>>,
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
    /// The folder of the audit log, which it opens.
    pub audit_folder: &'p AuditFolder,
    /// The policies of the folder, for a gate that serves while its disks cannot be used; `None`: these must be usable.
    pub policies: Option<&'p LoadedPolicies>,
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
    if seals.takes_plain() {
        tracing::warn!(
            "records in plain text are taken, although `store.seal_key` is set: remove `store.allow_plain` when the store is taken over"
        );
    }
    let (opening, replica) = (Arc::<OpeningStore>::default(), Arc::<Opening<Replica>>::default());
    let (audit, membership) = (Arc::<OpeningAudit>::default(), Arc::<Opening<Membership>>::default());
    let mut disks = DiskOpening {
        config: config.clone(),
        seals: seals.clone(),
        seal_check: seal_check.clone(),
        runtime: runtime.handle().clone(),
        supervisor: services.supervisor.clone(),
        policies: services.policies.cloned(),
        audit_folder: services.audit_folder.clone(),
        store: opening.clone(),
        embedded: None,
        replica: None,
        audit: None,
    };
    let first = disks.attempt();
    let keys = match &first {
        Ok(_) => disks.keys().map(Some),
        Err(error) if error.may_pass() && services.policies.is_some() => disks.kept_keys(),
        Err(_) => Ok(None),
    };
    let (NodeKeys { journal, operand_key }, first) = match (keys, first) {
        (Ok(Some(keys)), first) => (keys, first),
        // A gate that has never run here has nothing to go on from.
        (_, Err(error)) | (Err(error), Ok(_)) => return Err(error),
        (Ok(None), Ok(_)) => return Err(OpenNodeError::OtherJournal),
    };
    let (store, shared, source): (Arc<dyn Store>, _, Arc<dyn SnapshotSource>) = match config.store.kind {
        StoreKind::Embedded => (opening.clone(), None, opening.clone()),
        StoreKind::Redis => {
            let copies = u64::try_from(config.store.copies).unwrap_or(u64::MAX);
            let redis = redis.clone().ok_or(OpenNodeError::Redis(NotReady::Away))?;
            let store = Arc::new(RedisStore::of_node(redis, node.clone(), copies).with_seals(seals.clone()));
            (store.clone(), Some(store), replica.clone())
        }
    };
    let known = shared.as_ref().map(|_| -> Arc<dyn JournalledRecords> { replica.clone() });
    let sealed =
        |store| Arc::new(Sealed::new(store, seals.clone()).compared_with(known.clone()).counted_by(metrics.clone()));
    let store = sealed(store);
    let patience = if shared.is_none() { CALLS_WAIT } else { Duration::ZERO };
    let (open, is_open) = watch::channel(Openness::Soon);
    let node = Arc::new(Node {
        store: Arc::new(Measured::new(Arc::new(Awaited::new(store.clone(), is_open.clone(), patience)), metrics)),
        audit: audit.clone(),
        clock,
        id: node.clone(),
        journal,
        open: OpenAttempts::default(),
        others: Arc::default(),
        terms: terms(config),
        hold_room: hold_room(config),
        entries: Arc::new(entry_room(config)),
        prefixes: Arc::new(config.request_id_prefixes.clone()),
        unsettled: Some(Unsettled::beside(services.audit_folder.clone(), seals.clone())),
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
        freezing: Arc::default(),
    });
    let environments: Vec<Environment> = config.environments.iter().map(|one| one.environment).collect();
    workers.spawn_required("journal", keep_bringing(node.clone(), environments.clone()));
    if config.store.kind == StoreKind::Embedded {
        let (node, environments, of_writer) = (node.clone(), environments.clone(), opening.clone());
        workers.spawn_required("the store's writer", async move { of_writer.opened().await.ended().await });
        workers.spawn_required("the watch of the clock", async move {
            watch_own_clock(node, opening.opened().await, environments).await;
        });
    }
    if seals.takes_plain() {
        workers.spawn_optional("plain records", tell_of_plain(node.clone(), environments.clone()));
    }
    workers.spawn_optional("the identity of the journal", keep_journal_id(node.clone(), config.audit.folder.clone()));
    workers.spawn_required("the watch of the store", watch_store(node.clone(), environments.clone()));
    let awaited = redis.filter(|_| config.store.kind == StoreKind::Redis);
    let of_start = Arc::new(Node { store, ..Node::clone(&node) });
    let beginning = NodeBeginning {
        config: config.clone(),
        workers: workers.clone(),
        metrics: metrics.clone(),
        in_force: services.in_force.clone(),
        seals: seals.clone(),
        redis: awaited.clone(),
        store: shared,
        source: source.clone(),
        audit: audit.clone(),
        replica,
        membership: membership.clone(),
        seal_check: seal_check.clone(),
        node: of_start,
    };
    let mut trouble = DiskTrouble::of(config, node.watched.clone(), open.clone());
    // A fault that the disks have nothing to do with fails the start.
    let first = match first {
        Ok(opened) => Ok(beginning.begin(opened)?),
        Err(error) => Err((error, disks, beginning)),
    };
    let (report, reported) = oneshot::channel();
    workers.spawn_required("the node", {
        let (node, environments, kind) = (node.clone(), environments.clone(), config.store.kind);
        async move {
            let starting = async {
                let start = match first {
                    Ok(start) => start,
                    Err((error, disks, beginning)) => {
                        let notes = |error: &OpenNodeError| audit.fails(error.is_of_audit(kind));
                        let opened = disks.keep_trying(error, &node.journal, &mut trouble, notes).await?;
                        beginning.begin(opened)?
                    }
                };
                start_node(start, &mut trouble).await
            };
            if let Err(error) = starting.await {
                match report.send(error) {
                    // The start of the process fails with this error.
                    Ok(()) => std::future::pending().await,
                    Err(error) => tracing::error!(%error, "the node cannot be opened"),
                }
                return;
            }
            seal_check.keep();
            open.send_replace(Openness::Open);
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

/// Writes the last entries to disk after the last commit. A gate that shares its store hands over what its journal has,
/// and leaves the others, in the time that is left; the rest waits for the next start.
pub(super) fn close(opened: OpenedStore, environments: &[Environment], left: Duration, runtime: &Runtime) {
    let OpenedStore { node, membership, .. } = opened;
    let membership = membership.now();
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
    let Some(membership) = opened.membership.now() else { return Ok(false) };
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
    if let Some(membership) = opened.membership.now() {
        let leaving = membership.leave_at_once(&opened.node);
        // Whoever is not told finds that its heartbeats ended.
        runtime.block_on(async { tokio::time::timeout(FLUSH_TIMEOUT, leaving).await }).ok();
    }
}
