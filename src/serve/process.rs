//! Builds the process from its configuration, serves, and ends.
//!
//! `ending` describes the phases of the end: the engine stops, the last audit entries come to disk, the node closes. Calls that are
//! being sent are waited for within the grace period; one that is cut off has an unknown outcome at the next start.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pingora::proxy::http_proxy;
use pingora::server::configuration::ServerConf;
use pingora::server::{RunArgs, Server};
use thiserror::Error;
use tokio::runtime::Runtime;
use tokio::sync::{Mutex, Notify, watch};
use tokio_util::task::TaskTracker;

use super::bookkeeping::{self, OpenedStore, Services};
use super::dates::compare_clock;
use super::descriptors::FittedLimits;
use super::ending::{OrderlyEnd, Signals};
use super::file_watch;
use super::files_trouble::FilesTrouble;
use super::limits::{connection_limits, guard, threads, with_limits};
use super::lookups::start_lookups;
use super::monitoring::{Monitored, start_monitoring};
use super::probes::Probes;
use super::reload::{ReadAgain, Reload, StartConfig};
use super::reloadable::ReloadableParts;
use super::sockets::Sockets;
use super::start_error::StartError;
use super::start_policies::{start_policies, stored_policies};
use super::thread_room::{BLOCKING_THREADS, check_thread_room};
use super::told_readings::ToldReadings;
use super::workers::Workers;
use crate::adapters::audit::{AuditFolder, JournalReceipts};
use crate::adapters::clock::SystemClock;
use crate::adapters::credential::Credential;
use crate::adapters::identity::{Identity, Keyring};
use crate::adapters::inherited_sockets::HandedOver;
use crate::adapters::otlp::Tracer;
use crate::adapters::policies::{Archive, LoadedPolicies};
use crate::adapters::rate::{Local, SharedRates, SharedRoom};
use crate::adapters::redis::ShardConnections;
use crate::adapters::supervisor::Supervisor;
use crate::adapters::upstream::{PinnedUpstream, WireEnd};
use crate::adapters::webhook::Webhook;
use crate::base::ids::Environment;
use crate::config::{Config, EnvironmentConfig};
use crate::console::{Console, ConsoleState, PolicyAnalyses};
use crate::edge::Phase;
use crate::edge::hosts::HostNames;
use crate::edge::listen::{Acceptor, Listening};
use crate::edge::tls::Speaking;
use crate::gateway::{Engine, Gate, Observer, Readiness};
use crate::journey::release::{Releasing, release};
use crate::journey::{Egress, LateAnswers};
use crate::node::deliver::{Delivering, deliver};
use crate::node::rates::Rates;
use crate::node::reminders::remind;
use crate::node::{InForce, Node};
use crate::policy::Policies;
use crate::ports::RateLimiter;
use crate::telemetry::Metrics;

/// A process that is ready to serve: every address is bound.
pub struct Process {
    server: Server,
    runtime: Runtime,
    addresses: Addresses,
    ending: OrderlyEnd,
    sending: TaskTracker,
    workers: Workers,
    opened: OpenedStore,
    supervisor: Supervisor,
    tracer: Option<Tracer>,
    /// Becomes true if the end cut a request off.
    cut: watch::Receiver<bool>,
}

/// How a process ended that had served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServeEnd {
    /// Every running request finished.
    Whole,
    /// The grace period was over, or a second signal came: running requests were cut off.
    Cut,
}

/// The error of a process that ended because a part of it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a part of the gate failed (see the log), so the gate ended; start it again")]
pub struct Died;

/// The addresses on which a process listens.
#[derive(Clone, Debug)]
pub struct Addresses {
    pub environments: Vec<(Environment, SocketAddr)>,
    pub console: Option<SocketAddr>,
    pub probes: SocketAddr,
}

/// The inputs of a start.
#[derive(Debug)]
pub struct StartInputs {
    pub read: StartConfig,
    pub read_again: ReadAgain,
    pub handed: HandedOver,
    pub supervisor: Supervisor,
}

impl Process {
    /// Binds every address and builds every part; nothing is served yet.
    pub fn start(given: StartInputs) -> Result<Process, StartError> {
        let StartInputs { read, read_again, mut handed, supervisor } = given;
        let StartConfig { config, written, folder, policies: loaded, files } = read;
        let config = &config;
        let seen = file_watch::stamps_at_start(&folder, &loaded, &files);
        // An address that is in use fails the start before anything else is touched. New connections wait from now on.
        let sockets = Sockets::bind(config, &mut handed)?;
        let fitted = FittedLimits::of_process(config)?;
        if rustls::crypto::ring::default_provider().install_default().is_err() {
            tracing::debug!("a crypto provider is already installed; only the first one counts for the whole process");
        }
        let threads = threads(config);
        check_thread_room(threads)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("serving")
            // Each keeps memory of its own. What waits for the disk for long takes half of them at most.
            .max_blocking_threads(BLOCKING_THREADS)
            .enable_all()
            .build()
            .map_err(StartError::Runtime)?;
        let metrics = Metrics::new().map_err(StartError::Metrics)?;
        let (observer, checking) = Observer::new(metrics.clone());
        let workers = Workers::new(runtime.handle().clone());
        let (alive, checks) = tokio::sync::oneshot::channel::<()>();
        let checking = move || {
            checking();
            alive.send(()).ok();
        };
        std::thread::Builder::new().name("checking".to_owned()).spawn(checking).map_err(StartError::Runtime)?;
        workers.spawn_required("the checking of answers", async {
            if checks.await.is_ok() {
                // The task ends without a fault only when the process ends.
                std::future::pending::<()>().await;
            }
        });
        let conf = Arc::new(server_conf(threads));
        let mut server = Server::new_with_opt_and_conf(None, server_conf(threads));
        let ((stop, stopping), (phase, phased)) = (watch::channel(false), watch::channel(Phase::Serving));
        let (requests, sending, connections) = (TaskTracker::new(), TaskTracker::new(), TaskTracker::new());
        let (listening, wire_end) = (TaskTracker::new(), WireEnd::default());
        workers.spawn_optional("watchdog", supervisor.clone().live());

        let keyring = Arc::new(Keyring::new(&config.issuers, metrics.clone())?);
        workers.spawn_optional("keys", keyring.clone().keep_fresh());
        let identity = Arc::new(Identity::new(keyring.clone(), Arc::new(SystemClock)));
        let redis = redis(config, &metrics, &workers)?;
        let audit_folder = AuditFolder::at(&config.audit.folder);
        let archive = Archive::beside(&audit_folder, &config.store.node);
        let running = start_policies(&folder, &loaded, &archive).map_err(StartError::Policies)?;
        let LoadedPolicies { catalog, policies, .. } = running.clone();
        let rates = rates(config, &policies, &metrics, redis.as_ref());
        let in_force = Arc::new(InForce::new(catalog, policies, rates, metrics.clone()));
        tracing::info!(version = in_force.now().policies.version(), "policies came into force");
        let services = Services {
            runtime: &runtime,
            workers: &workers,
            settling: &sending,
            stopping: &stopping,
            supervisor: &supervisor,
            in_force: &in_force,
            audit_folder: &audit_folder,
            policies: Some(&loaded),
        };
        let opened = bookkeeping::open(config, services, &metrics, redis).map_err(StartError::Node)?;
        let node = opened.node.clone();
        let environments = config.environments.iter().map(|one| one.environment).collect();
        let monitored = Monitored { node: node.clone(), in_force: in_force.clone(), environments };
        let tracer = start_monitoring(config, &runtime, &workers, monitored)?;
        let asked = Arc::new(Notify::new());
        let mut reloadable = ReloadableParts { speaking: vec![], keyring: keyring.clone(), credentials: vec![] };
        let receipts = Arc::new(JournalReceipts::of(&config.audit, config.store.node.clone()));
        let (mut environments, mut upstreams) = (Vec::new(), Vec::new());
        for (one, bound) in config.environments.iter().zip(sockets.environments) {
            environments.push((one.environment, bound.address()));
            let upstream = upstream(config, one, &metrics, &wire_end)?;
            upstreams.push(upstream.clone());
            workers.spawn_optional("upstream's address", upstream.clone().keep_looking_up());
            workers.spawn_required("connections for money", upstream.clone().keep_connections());
            let credential = Arc::new(Credential::new(one.environment, &one.credential)?);
            workers.spawn_optional("credential", credential.clone().keep_fresh());
            reloadable.credentials.push(credential.clone());
            let egress = Egress {
                upstream: upstream.clone(),
                origin: upstream.origin().clone(),
                environment: one.environment,
                credential,
                belief: one.belief,
                dates: keyring.dates().clone(),
                runtime: runtime.handle().clone(),
                sending: sending.clone(),
                late_answers: LateAnswers::new(fitted.late_answers, &listening, runtime.handle()),
            };
            start_lookups(config, &node, &egress, &in_force, &workers);
            let releasing = Releasing {
                node: node.clone(),
                egress: egress.clone(),
                in_force: in_force.clone(),
                tracer: tracer.clone(),
            };
            workers.spawn_required("releases", release(releasing, stopping.clone()));
            if let Some(console) = &config.console {
                workers.spawn_required("reminders", remind(node.clone(), one.environment, console.remind_before));
            }
            let speak = |tls| Speaking::new(one.environment.as_str(), Some(one.environment), tls, &metrics);
            let tls = one.tls.as_ref().map(speak).transpose()?;
            if let Some(speaking) = &tls {
                workers.spawn_required("revocations", speaking.clone().keep_fresh());
                reloadable.speaking.push(speaking.clone());
            }
            let gate = Gate {
                environment: one.environment,
                identity: identity.clone(),
                tls: tls.clone(),
                phase: phased.clone(),
                egress,
                node: node.clone(),
                upstream,
                in_force: in_force.clone(),
                answers: config.answers,
                limits: config.limits.clone(),
                timeouts: config.timeouts.clone(),
                metrics: metrics.clone(),
                meters: metrics.of_environment(one.environment.as_str(), &in_force.now().catalog),
                tracer: tracer.clone(),
                observer: observer.clone(),
                receipts: receipts.clone(),
                requests: requests.clone(),
                bodies: SharedRoom::new(config.limits.bodies_bytes / config.environments.len().max(1)),
                calls: SharedRoom::new(fitted.calls),
            };
            let guard = guard(one.environment.as_str(), config, &metrics);
            let app = Arc::new(Engine::new(with_limits(http_proxy(&conf, gate), config)));
            let (limits, phase, connections) =
                (connection_limits(config, fitted.connections), phased.clone(), connections.clone());
            let acceptor = Acceptor { app, tls, guard, limits, phase, connections };
            server.add_service(Listening::new(bound, acceptor, runtime.handle().clone()));
        }
        compare_clock(config, &node, keyring.dates(), &upstreams, &workers);
        let readiness = Arc::new(Readiness::new(keyring, node.clone(), upstreams, phased.clone()));
        runtime.spawn(readiness.clone().watch());
        let delivering = delivering(config, &node, &in_force)?;
        workers.spawn_required("webhooks", deliver(delivering));
        let people = sockets.console.as_ref().map(|bound| bound.address());
        if let (Some(wanted), Some(bound)) = (&config.console, sockets.console) {
            let inside = ConsoleState {
                node: node.clone(),
                identity,
                in_force: in_force.clone(),
                readiness: readiness.clone(),
                environments: config.environments.iter().map(|one| one.environment).collect(),
                issuers: config.issuers.iter().map(|issuer| issuer.name.clone()).collect(),
                loosening: config.loosening,
                audit_folder: config.audit.folder.clone(),
                limits: config.limits.clone(),
                timeouts: config.timeouts.clone(),
                metrics: metrics.clone(),
                visibility: Arc::new(wanted.visibility.clone()),
                seals: opened.seals.clone(),
                ranks: Arc::default(),
                analyses: PolicyAnalyses::of(&folder),
                receipts: receipts.clone(),
                requests: requests.clone(),
                stopping: stopping.clone(),
            };
            let app = Arc::new(Console::new(wanted, inside).map_err(StartError::Console)?);
            let tls = wanted.tls.as_ref().map(|tls| Speaking::new("console", None, tls, &metrics)).transpose()?;
            reloadable.speaking.extend(tls.clone());
            let (guard, limits) =
                (guard("console", config, &metrics), connection_limits(config, fitted.side_connections));
            let (phase, connections) = (phased.clone(), connections.clone());
            let acceptor = Acceptor { app, tls, guard, limits, phase, connections };
            server.add_service(Listening::new(bound, acceptor, runtime.handle().clone()));
        }
        let stored =
            stored_policies(config, (&node, &in_force), archive, &folder, running).map_err(StartError::Policies)?;
        workers.spawn_required("policies", stored.clone().follow_when_asked());
        workers.spawn_optional("sealing", stored.clone().keep_sealed(opened.source.clone(), opened.seals.clone()));
        let mut reload = Reload {
            read_again,
            reloadable,
            supervisor: supervisor.clone(),
            written,
            files,
            folder,
            stored,
            audit_folder: config.audit.folder.clone(),
            in_force: in_force.clone(),
            node,
            asked: asked.clone(),
            proposal: None,
            unbegun: None,
            compared: None,
            trouble: FilesTrouble::default(),
            told: ToldReadings::default(),
        };
        // Calls are served by what the store names from the first one on, if it answers.
        runtime.block_on(reload.begin(loaded, opened.is_open));
        workers.spawn_required("reload", reload.keep_current(seen));
        let bound = sockets.probes;
        let addresses = Addresses { environments, console: people, probes: bound.address() };
        let probes = Probes { metrics, in_force, readiness, hosts: HostNames::new(&config.probes.hosts) };
        let guard = guard("probes", config, &probes.metrics);
        // Probes are answered until the very end.
        let (never, limits) = (watch::channel(Phase::Serving).1, connection_limits(config, fitted.side_connections));
        let acceptor =
            Acceptor { app: Arc::new(probes), tls: None, guard, limits, phase: never, connections: TaskTracker::new() };
        server.add_service(Listening::new(bound, acceptor, runtime.handle().clone()));
        let signals = Mutex::new(Signals::catch(&runtime).map_err(StartError::Runtime)?);
        let (cut, was_cut) = watch::channel(false);
        let ending = OrderlyEnd {
            signals,
            asked,
            died: workers.died(),
            phase,
            stop,
            requests,
            sending: sending.clone(),
            listening,
            wire_end,
            connections,
            notice: config.timeouts.notice,
            grace: config.timeouts.grace,
            supervisor: supervisor.clone(),
            cut,
            left: watch::Sender::new(Duration::ZERO),
        };
        Ok(Process { server, runtime, addresses, ending, sending, workers, opened, supervisor, tracer, cut: was_cut })
    }

    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Serves until SIGTERM or SIGINT, or until a part fails; returns when running requests have finished.
    pub fn serve(self) -> Result<ServeEnd, Died> {
        let Process { server, runtime, addresses, ending, sending, workers, opened, supervisor, tracer, cut } = self;
        let left = ending.left.subscribe();
        let environments: Vec<Environment> = addresses.environments.iter().map(|(one, _)| *one).collect();
        supervisor.ready();
        server.run(RunArgs { shutdown_signal: Box::new(ending) });
        if !sending.is_empty() {
            tracing::error!(
                open = sending.len(),
                "writes were still being sent or recorded at the end of `timeouts.grace_ms`; those without a recorded \
                 outcome have an unknown outcome"
            );
        }
        let has_died = *workers.died().borrow();
        // After a second signal, the end does not wait for the collector of traces.
        if let Some(tracer) = tracer.filter(|_| !*cut.borrow()) {
            runtime.block_on(tracer.flush());
        }
        runtime.block_on(workers.end());
        bookkeeping::close(opened.clone(), &environments, *left.borrow(), &runtime);
        // This drops the other references to the node; dropping the last one, below, writes the last checkpoint.
        runtime.shutdown_timeout(Duration::from_secs(1));
        if Arc::into_inner(opened.node).is_none() {
            tracing::warn!("the node is still in use: the last checkpoint may be missing");
        }
        match (has_died, *cut.borrow()) {
            (true, _) => Err(Died),
            (false, true) => Ok(ServeEnd::Cut),
            (false, false) => Ok(ServeEnd::Whole),
        }
    }
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

fn server_conf(threads: usize) -> ServerConf {
    ServerConf { threads, max_retries: 0, ..ServerConf::default() }
}

/// Returns the Redis that nodes share, if one is configured.
fn redis(config: &Config, metrics: &Metrics, workers: &Workers) -> Result<Option<ShardConnections>, StartError> {
    let Some(of) = &config.redis else { return Ok(None) };
    let redis = ShardConnections::new(of, metrics).map_err(StartError::Redis)?;
    workers.spawn_required("redis", redis.clone().keep_connected());
    Ok(Some(redis))
}

fn rates(config: &Config, policies: &Policies, metrics: &Metrics, redis: Option<&ShardConnections>) -> Rates {
    let count = policies.rates.len();
    let limiter: Arc<dyn RateLimiter> = match (redis, &config.redis) {
        (Some(redis), Some(of)) => Arc::new(SharedRates::new(count, redis.rates().clone(), of.nodes, metrics.clone())),
        _ => Arc::new(Local::new(count)),
    };
    Rates::new(policies.rates.clone(), limiter, metrics)
}

fn delivering(config: &Config, node: &Arc<Node>, in_force: &Arc<InForce>) -> Result<Delivering, StartError> {
    let webhooks = config.webhooks.iter().map(|webhook| Webhook::new(webhook).map(Arc::new));
    let console = config.console.as_ref().and_then(|console| console.origin.as_deref());
    Ok(Delivering {
        node: node.clone(),
        environments: config.environments.iter().map(|one| one.environment).collect(),
        webhooks: webhooks.collect::<Result<_, _>>()?,
        in_force: in_force.clone(),
        console: console.map(Arc::from),
    })
}

fn upstream(
    config: &Config,
    one: &EnvironmentConfig,
    metrics: &Metrics,
    end: &WireEnd,
) -> Result<Arc<PinnedUpstream>, StartError> {
    let made = PinnedUpstream::new(
        one.upstream.clone(),
        config.timeouts.clone(),
        (config.limits.answers_bytes / config.environments.len().max(1), config.limits.answer_bytes),
        Arc::new(SystemClock),
        (one.environment, metrics.clone()),
        end.clone(),
    );
    made.map(Arc::new).map_err(|error| StartError::Upstream { environment: one.environment, error })
}
