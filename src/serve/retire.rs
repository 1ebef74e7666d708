//! Retires a gate that is gone for good: this process takes its place once, with its journal, and ends in order.
//!
//! Nothing is served meanwhile, and nothing is sent. A store that waits for the journal is rebuilt as it is when that gate
//! comes back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use super::bookkeeping::{self, Services};
use super::open_node_error::OpenNodeError;
use super::workers::Workers;
use crate::adapters::audit::AuditFolder;
use crate::adapters::clock::Stopwatch;
use crate::adapters::policies::LoadedPolicies;
use crate::adapters::rate::Local;
use crate::adapters::redis::ShardConnections;
use crate::adapters::store::redis::RedisStore;
use crate::adapters::supervisor::Supervisor;
use crate::base::ids::Environment;
use crate::config::{Config, RedisConfig};
use crate::ledger::{Content, StoreFault};
use crate::node::journalling::RecoverError;
use crate::node::membership::JoinError;
use crate::node::node_facts::came_with;
use crate::node::rates::Rates;
use crate::node::{InForce, Node};
use crate::stations::claim::{self, Forgotten, Freeze};
use crate::telemetry::Metrics;

/// How long to wait for the Redis.
const REDIS_WAIT: Duration = Duration::from_secs(10);
/// How long the store may take to have what the journal has.
const PATIENCE: Duration = Duration::from_mins(10);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The gate that retires, and who says so.
#[derive(Debug)]
pub struct Retirement {
    /// The configuration of a gate that shares the store, with the name and the journal of the one that retires.
    pub config: Config,
    pub policies: LoadedPolicies,
    pub reason: String,
    /// The numbers that its journal never had: the first and the last of each gap.
    pub lacks: BTreeMap<Environment, Vec<(u64, u64)>>,
}

/// Why a gate did not retire.
#[derive(Debug, Error)]
pub enum RetireError {
    #[error("no Redis is configured: only gates that share a store retire")]
    NoRedis,
    #[error("the Redis cannot be used: {0}")]
    Redis(String),
    #[error("it runs: it was heard less than 5 s ago; end it in order (SIGTERM), then it retires by itself")]
    Runs,
    #[error(transparent)]
    Open(OpenNodeError),
    #[error("the store knows that the journal had more entries than it has here")]
    Cut,
    /// A required part ended.
    #[error(
        "the store does not take it: two people declared it gone, or a process uses its name; `sluice nodes list` and `sluice \
         doctor` say more"
    )]
    Refused,
    #[error("{0}; money stays closed until a person opens it")]
    NotWhole(String),
    #[error("after ten minutes the store does not have yet what the journal has ({0}): run the command again")]
    Waits(String),
    #[error("its journal cannot be handed over: {0}")]
    HandOver(RecoverError),
    #[error(
        "what its journal has is in the store now, but not in the journals of as many running gates as `store.journal_copies` \
         asks for: start them, and run the command again"
    )]
    NotTaken,
    #[error("{0}")]
    Process(String),
}

/// Retires a gate. Returns how far its journal reached in each environment that is served.
pub fn retire(of: Retirement) -> Result<BTreeMap<Environment, u64>, RetireError> {
    let Retirement { config, policies, reason, lacks } = of;
    let redis_config = config.redis.as_ref().ok_or(RetireError::NoRedis)?;
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::debug!("a crypto provider is already installed");
    }
    let failed = |error: &dyn std::fmt::Display| RetireError::Process(error.to_string());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| failed(&error))?;
    let metrics = Metrics::new().map_err(|error| failed(&error))?;
    let workers = Workers::new(runtime.handle().clone());
    let redis = connected(redis_config, &config, &metrics, &workers, &runtime)?;
    let (settling, supervisor) = (TaskTracker::new(), Supervisor::default());
    // Nobody stops it but the end of this function.
    let (_stop, stopping) = watch::channel(false);
    let rates = Rates::new(Vec::new(), Arc::new(Local::new(0)), &metrics);
    let in_force = Arc::new(InForce::new(policies.catalog, policies.policies, rates, metrics.clone()));
    let services = Services {
        runtime: &runtime,
        workers: &workers,
        settling: &settling,
        stopping: &stopping,
        supervisor: &supervisor,
        in_force: &in_force,
        audit_folder: &AuditFolder::at(&config.audit.folder),
        policies: None,
    };
    let opened = bookkeeping::open(&config, services, &metrics, Some(redis)).map_err(|error| match error {
        OpenNodeError::Join(JoinError::Cut) => RetireError::Cut,
        error => RetireError::Open(error),
    })?;
    let served: Vec<Environment> = config.environments.iter().map(|one| one.environment).collect();
    let retired = runtime.block_on(is_taken_in(&opened.node, &workers)).and_then(|()| {
        runtime.block_on(says_so(&opened.node, &reason, &lacks))?;
        runtime.block_on(workers.end());
        let handed_over = bookkeeping::hand_over(&opened, config.timeouts.grace, &runtime);
        match handed_over.map_err(RetireError::HandOver)? {
            true => Ok(served.iter().map(|one| (*one, opened.node.audit.highest(*one).as_u64())).collect()),
            false => Err(RetireError::NotTaken),
        }
    });
    runtime.block_on(workers.end());
    if retired.is_err() {
        bookkeeping::leave(&opened, &runtime);
    }
    runtime.shutdown_timeout(Duration::from_secs(1));
    retired
}

/// Connects to the Redis. The gate must not run: its name would be taken from it.
fn connected(
    of: &RedisConfig,
    config: &Config,
    metrics: &Metrics,
    workers: &Workers,
    runtime: &Runtime,
) -> Result<ShardConnections, RetireError> {
    let redis = ShardConnections::new(of, metrics).map_err(|error| RetireError::Redis(error.to_string()))?;
    workers.spawn_required("redis", redis.clone().keep_connected());
    let ready = runtime.block_on(redis.ready_within(REDIS_WAIT));
    ready.map_err(|why| RetireError::Redis(why.to_string()))?;
    let store = RedisStore::new(redis.clone());
    for environment in Environment::ALL {
        let heard = runtime.block_on(store.roll(environment));
        let heard = heard.map_err(|fault| RetireError::Redis(fault.to_string()))?;
        if heard.members.iter().any(|member| member.node == config.store.node && heard.is_live(member)) {
            return Err(RetireError::Runs);
        }
    }
    Ok(redis)
}

/// Waits until the store has what the journal has. Gates keep journals of all environments, also of those that they do not
/// serve.
async fn is_taken_in(node: &Node, workers: &Workers) -> Result<(), RetireError> {
    let (since, died) = (Stopwatch::start(), workers.died());
    while let Some(why) = what_is_awaited(node).await? {
        if *died.borrow() {
            return Err(RetireError::Refused);
        }
        if since.elapsed() >= PATIENCE {
            return Err(RetireError::Waits(why));
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// Returns what the store still waits for.
async fn what_is_awaited(node: &Node) -> Result<Option<String>, RetireError> {
    for environment in Environment::ALL {
        let record = match node.store.read(&Freeze::Restored.key(environment)).await {
            Ok((record, _)) => record,
            Err(fault) => return Ok(Some(fault.to_string())),
        };
        let Some(Content::Whole(bytes)) = record.map(|record| record.content) else { continue };
        let forgotten = Forgotten::read(&bytes);
        // Also of a journal that does not open money, the claims are told.
        if forgotten.nodes.contains_key(&node.id) {
            return Ok(Some(format!("{environment} waits for this journal")));
        }
        let own = came_with(&node.id, "");
        if let Some(reason) = forgotten.reasons.iter().find(|reason| reason.starts_with(&own)) {
            return Err(RetireError::NotWhole(reason.clone()));
        }
    }
    Ok(None)
}

/// Journals the retirement.
async fn says_so(node: &Node, reason: &str, lacks: &BTreeMap<Environment, Vec<(u64, u64)>>) -> Result<(), RetireError> {
    let failed = |fault: StoreFault| RetireError::Redis(fault.to_string());
    for environment in Environment::ALL {
        let (up_to, lacks) = (node.audit.highest(environment), lacks.get(&environment).map_or(&[][..], Vec::as_slice));
        let commit = claim::retired(environment, &node.sender(), up_to, lacks, reason);
        if node.commit(commit).await.map_err(failed)?.is_none() {
            return Err(RetireError::Refused);
        }
    }
    Ok(())
}
