//! Joins the other nodes and recovers what an earlier run left, before any money moves.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use super::disk_opening::OpenedDisks;
use super::disk_trouble::DiskTrouble;
use super::embedded_start::UnverifiedStore;
use super::open_node_error::OpenNodeError;
use super::snapshots::{SnapshotMaker, keep_snapshots};
use super::witnessing::have_witnessed;
use super::workers::Workers;
use crate::adapters::audit::{AuditFolder, FolderOrigin, OpeningAudit, keep_original, origin};
use crate::adapters::clock::{Stopwatch, SystemClock};
use crate::adapters::opening::Opening;
use crate::adapters::redis::{NotReady, ShardConnections};
use crate::adapters::store::redis::RedisStore;
use crate::adapters::store::replica::Replica;
use crate::adapters::store::seal_check::SealCheck;
use crate::adapters::store::sealed::Seals;
use crate::adapters::store::snapshot::SnapshotSource;
use crate::base::ids::Environment;
use crate::config::Config;
use crate::ledger::{Number, StoreFault};
use crate::node::heard_before::HeardBefore;
use crate::node::journal_gaps::close_for_missing_files;
use crate::node::journalling::RecoverError;
use crate::node::membership::{JoinError, Membership};
use crate::node::what_was_before::recover_whole;
use crate::node::{FolderFaults, InForce, Node, OpenAttempt};
use crate::telemetry::Metrics;

/// How long a start waits for the Redis that is the store; afterwards, reads are served without it.
pub(super) const REDIS_WAIT: Duration = Duration::from_secs(2);
/// How long to wait before the next attempt to reach the store or to join the other nodes.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The parts with which a node begins once its disks are open.
#[derive(Debug)]
pub(super) struct NodeBeginning {
    pub config: Config,
    pub workers: Workers,
    pub metrics: Metrics,
    pub in_force: Arc<InForce>,
    pub seals: Seals,
    /// The Redis that is the store.
    pub redis: Option<ShardConnections>,
    pub store: Option<Arc<RedisStore>>,
    pub source: Arc<dyn SnapshotSource>,
    pub audit: Arc<OpeningAudit>,
    pub replica: Arc<Opening<Replica>>,
    pub membership: Arc<Opening<Membership>>,
    pub seal_check: SealCheck,
    /// The node, with the store that is not open for others yet.
    pub node: Arc<Node>,
}

impl NodeBeginning {
    /// Begins the work that needs the disks.
    pub fn begin(self, disks: OpenedDisks) -> Result<NodeStart, OpenNodeError> {
        let NodeBeginning { config, workers, metrics, in_force, seals, redis, store, source, seal_check, node, .. } =
            self;
        let OpenedDisks { audit, unverified, replica } = disks;
        workers.spawn_required("the audit log's writer", audit.ended());
        workers.spawn_required("the watch of the audit folder", audit.clone().keep_in_place());
        have_witnessed(&config, &audit, Arc::new(SystemClock), &metrics, &workers)?;
        let environments: Vec<Environment> = config.environments.iter().map(|one| one.environment).collect();
        let audit_folder = audit.folder().clone();
        let (joined, has_joined) = watch::channel(false);
        // An empty folder that no gate has marked is a copy of nothing.
        let was_empty = audit.stood().values().all(|highest| *highest == 0);
        let found = origin(&audit_folder, &node.id);
        let mut is_copy = found != FolderOrigin::Original;
        if found == FolderOrigin::Unmarked && was_empty {
            match keep_original(&audit_folder, &node.id) {
                Ok(()) => is_copy = false,
                Err(error) => {
                    let folder = audit_folder.display();
                    tracing::warn!(%folder, %error, "the audit folder cannot be marked as new, and counts as a copy");
                }
            }
        }
        let membership = store.zip(replica.clone()).map(|(store, replica)| {
            Arc::new(Membership {
                store,
                replica,
                seals: seals.clone(),
                installation: config.store.installation.clone(),
                served: environments.clone(),
                all_nodes: config.store.nodes.clone(),
                copies: config.store.copies,
                instance: audit.instance().to_owned(),
                former: audit.former().map(str::to_owned),
                is_copy: AtomicBool::new(is_copy),
                audit_folder: audit_folder.clone(),
                in_force,
                told_before: Mutex::default(),
                heard_before: HeardBefore::default(),
                folder_faults: FolderFaults::default(),
            })
        });
        if let Some(replica) = replica {
            self.replica.opens(replica);
        }
        self.audit.opens(audit.clone());
        let for_journal = u64::try_from(config.audit.file_bytes).unwrap_or(u64::MAX);
        let maker = SnapshotMaker { source, folder: audit_folder.clone(), for_journal, seals };
        workers.spawn_required("snapshots", keep_snapshots(audit, maker));
        if let Some(membership) = &membership {
            let (of_start, has_joined) = (&node, || has_joined.clone());
            workers.spawn_required("membership", run_once(has_joined(), membership.clone().stay(of_start.clone())));
            let watching = membership.clone().watch_content(of_start.clone());
            workers.spawn_required("the watch of the store's content", run_once(has_joined(), watching));
            let remembering = membership.clone().keep_remembering(of_start.clone());
            workers.spawn_required("recovery", run_once(has_joined(), remembering));
            self.membership.opens(membership.clone());
        }
        Ok(NodeStart { redis, membership, seal_check, node, unverified, audit_folder, environments, joined })
    }
}

/// The parts that a node needs to start.
#[derive(Debug)]
pub(super) struct NodeStart {
    redis: Option<ShardConnections>,
    membership: Option<Arc<Membership>>,
    seal_check: SealCheck,
    node: Arc<Node>,
    /// The embedded store, which is verified first.
    unverified: Option<UnverifiedStore>,
    audit_folder: AuditFolder,
    environments: Vec<Environment>,
    /// Becomes true when this node has joined the others.
    joined: watch::Sender<bool>,
}

/// Runs the work once the value is true; never if the sender is dropped first.
pub(super) async fn run_once(mut is_so: watch::Receiver<bool>, work: impl Future<Output = ()>) {
    match is_so.wait_for(|is_so| *is_so).await.map(|_| ()) {
        Ok(()) => work.await,
        // The process ends for another reason, which it reports.
        Err(_) => std::future::pending().await,
    }
}

/// Joins the other nodes, and recovers what the store and an earlier run of this node left unfinished. No money moves
/// before.
pub(super) async fn start_node(start: NodeStart, trouble: &mut DiskTrouble) -> Result<(), OpenNodeError> {
    let NodeStart { redis, membership, seal_check, node, unverified, audit_folder, environments, joined } = start;
    // Until what an earlier run left is settled, this gate may hold proofs of any attempt.
    let opened: Vec<OpenAttempt> =
        Environment::ALL.into_iter().map(|environment| node.open.open(environment, Number::new(0))).collect();
    if let Some(store) = unverified {
        store.verified(&node, trouble).await?;
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
                // Damage of the store is mended, or told, when the gate joins it.
                if membership.begins_times(&node).await.is_ok() {
                    seal_check.compare_with(&membership.store).await.map_err(OpenNodeError::OtherSealKey)?;
                }
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
            Err(why) => {
                trouble.wait_if_it_may_pass(OpenNodeError::Join(JoinError::Store(why))).await?;
                continue;
            }
        }
        joined.send_replace(true);
        match recover_whole(&node, membership.as_deref(), &environments).await {
            Err(why @ RecoverError::Store(StoreFault::Away(_) | StoreFault::InDoubt(_))) if redis.is_some() => {
                node.watched.starts(Some(why.to_string()));
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            Err(why) => trouble.wait_if_it_may_pass(OpenNodeError::Recover(why)).await?,
            Ok(()) => {
                trouble.is_over();
                drop(opened);
                return Ok(());
            }
        }
    }
}
