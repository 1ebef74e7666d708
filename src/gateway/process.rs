//! A process that serves: its listeners, its gates, and its orderly end.
//!
//! Ending: `ending` says in which order; then the engine is stopped, what is left is brought to disk and the books are
//! closed. What was sent to upstream is waited for within the grace, which covers the longest that a write may take; what is
//! cut off all the same is in doubt at the next start.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use pingora::apps::ServerApp;
use pingora::proxy::http_proxy;
use pingora::server::configuration::ServerConf;
use pingora::server::{RunArgs, Server};
use tokio::runtime::Runtime;
use tokio::sync::{Mutex, Notify, Semaphore, watch};
use tokio_util::task::TaskTracker;

use super::bookkeeping::{self, Around, Opened};
use super::ending::{Ending, Phase, Signals};
use super::limits::{connection_limits, guard, with_limits};
use super::listen::{Bound, Door, Listening};
use super::live::Live;
use super::probes::Probes;
use super::reload::{self, Read, ReadAgain, Reload, Start};
use super::start_error::StartError;
use super::tls::Speaking;
use super::watching::{Watching, watch_over};
use super::workers::Workers;
use super::{Gate, Inside, Observer};
use crate::adapters::clock::SystemClock;
use crate::adapters::credential::Credential;
use crate::adapters::handed_over::HandedOver;
use crate::adapters::identity::{Identity, Keyring};
use crate::adapters::otlp::Tracer;
use crate::adapters::policies::Archive;
use crate::adapters::rate::{Local, Shared};
use crate::adapters::redis::Redis;
use crate::adapters::supervisor::Supervisor;
use crate::adapters::upstream::PinnedUpstream;
use crate::adapters::webhook::Webhook;
use crate::base::ids::Environment;
use crate::config::{Config, ConsoleConfig, EnvironmentConfig};
use crate::journey::deliver::{Delivering, deliver};
use crate::journey::rates::Rates;
use crate::journey::reconcile::{Pauses, reconcile};
use crate::journey::release::{Releasing, release};
use crate::journey::remind::remind;
use crate::journey::{Books, InForce, Road};
use crate::policy::Policies;
use crate::ports::RateLimiter;
use crate::telemetry::Metrics;

/// A read may be tried a second time, a write never.
const ATTEMPTS: usize = 2;

/// A process that is ready to serve: every address is bound.
pub struct Process {
    server: Server,
    runtime: Runtime,
    addresses: Addresses,
    ending: Ending,
    sending: TaskTracker,
    workers: Workers,
    opened: Opened,
    supervisor: Supervisor,
    tracer: Option<Tracer>,
    /// Becomes true when the end cut something off.
    cut: watch::Receiver<bool>,
}

/// How a process ended that did serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// All that ran was finished.
    Whole,
    /// The time was over, or it was told to end at once: what was being answered was cut off.
    Cut,
}

/// A part of the process had died, so that it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Died;

impl std::fmt::Display for Died {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a part of the gate died, and the log says which: it ended in order; start it again")
    }
}

impl std::error::Error for Died {}

/// Where a process listens.
#[derive(Clone, Debug)]
pub struct Addresses {
    pub environments: Vec<(Environment, SocketAddr)>,
    pub console: Option<SocketAddr>,
    pub probes: SocketAddr,
}

/// What a process is given by whoever starts it.
#[derive(Debug)]
pub struct Given {
    pub read: Read,
    pub read_again: ReadAgain,
    pub handed: HandedOver,
    pub supervisor: Supervisor,
}

impl Process {
    /// Binds every address and makes everything ready; nothing is served yet. What serves people is made where it is
    /// known what that is.
    pub fn start<C: ServerApp + Send + Sync + 'static>(
        given: Given,
        console: impl FnOnce(&ConsoleConfig, Inside) -> Result<C, String>,
    ) -> Result<Process, StartError> {
        let Given { read, read_again, mut handed, supervisor } = given;
        let Read { config, written, folder, policies: loaded, files } = read;
        let config = &config;
        // A taken address is told before anything else is touched; who connects from now on waits.
        let sockets = Sockets::bind(config, &mut handed)?;
        // The first provider that is installed is the one that everybody gets.
        if rustls::crypto::ring::default_provider().install_default().is_err() {
            tracing::debug!("a crypto provider is installed already");
        }
        let threads = threads(config);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("serving")
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
        workers.keep("the checking of answers", async {
            if checks.await.is_ok() {
                // Its end without a fault is the end of the process.
                std::future::pending::<()>().await;
            }
        });

        let conf = Arc::new(server_conf(threads));
        let mut server = Server::new_with_opt_and_conf(None, server_conf(threads));
        let (stop, stopping) = watch::channel(false);
        let (phase, phased) = watch::channel(Phase::Serving);
        let (requests, sending, connections) = (TaskTracker::new(), TaskTracker::new(), TaskTracker::new());
        workers.help("signs of life", supervisor.clone().live());
        let bodies = Arc::new(Semaphore::new(config.limits.bodies_bytes.min(Semaphore::MAX_PERMITS)));

        let keyring = Arc::new(Keyring::new(&config.issuers, metrics.clone())?);
        workers.help("keys", keyring.clone().keep_fresh());
        let identity = Arc::new(Identity::new(keyring.clone(), Arc::new(SystemClock)));
        let redis = redis(config, &metrics, &workers)?;
        let archive = Archive::beside(&config.audit.folder, &config.store.node);
        let seen = reload::look(&folder, &files);
        let Start { set, waiting, before } =
            reload::start(&folder, loaded, &archive, config.loosening).map_err(StartError::Policies)?;
        let rates = rates(config, &set.policies, &metrics, redis.as_ref());
        let in_force = Arc::new(InForce::new(set.catalog, set.policies, rates, metrics.clone()));
        tracing::info!(version = in_force.now().policies.version(), "policies took force");
        let around = Around {
            runtime: &runtime,
            workers: &workers,
            settling: &sending,
            stopping: &stopping,
            supervisor: &supervisor,
            in_force: &in_force,
        };
        let opened = bookkeeping::open(config, around, &metrics, redis).map_err(StartError::Books)?;
        let (books, is_open) = (opened.books.clone(), opened.is_open.clone());
        let served = config.environments.iter().map(|one| one.environment).collect();
        let watching = Watching { books: books.clone(), in_force: in_force.clone(), environments: served };
        let tracer = watch_over(config, &runtime, &workers, watching)?;
        let asked = Arc::new(Notify::new());
        let mut live = Live { speaking: Vec::new(), keyring: keyring.clone(), credentials: Vec::new() };
        let (mut environments, mut upstreams) = (Vec::new(), Vec::new());
        for (one, bound) in config.environments.iter().zip(sockets.environments) {
            environments.push((one.environment, bound.address()));
            let upstream = upstream(config, one)?;
            upstreams.push(upstream.clone());
            workers.help("upstream's address", upstream.clone().keep_looking_up());
            let credential = Arc::new(Credential::new(one.environment, &one.credential)?);
            workers.help("credential", credential.clone().keep_fresh());
            live.credentials.push(credential.clone());
            let road = Road {
                upstream: upstream.clone(),
                origin: upstream.origin().clone(),
                environment: one.environment,
                credential,
                runtime: runtime.handle().clone(),
                sending: sending.clone(),
            };
            let pauses = Pauses { first: config.reconcile.pause, longest: config.reconcile.longest_pause };
            workers.keep("reconciliation", reconcile(books.clone(), road.clone(), in_force.clone(), pauses));
            let releasing = Releasing {
                books: books.clone(),
                road: road.clone(),
                in_force: in_force.clone(),
                tracer: tracer.clone(),
            };
            workers.keep("releases", release(releasing, stopping.clone()));
            if let Some(console) = &config.console {
                workers.keep("reminders", remind(books.clone(), one.environment, console.remind_before));
            }
            let speak = |tls| Speaking::new(one.environment.as_str(), Some(one.environment), tls, &metrics);
            let tls = one.tls.as_ref().map(speak).transpose()?;
            if let Some(speaking) = &tls {
                workers.keep("revocations", speaking.clone().keep_fresh());
                live.speaking.push(speaking.clone());
            }
            let gate = Gate {
                environment: one.environment,
                identity: identity.clone(),
                tls: tls.clone(),
                phase: phased.clone(),
                road,
                books: books.clone(),
                upstream,
                in_force: in_force.clone(),
                answers: config.answers,
                limits: config.limits.clone(),
                timeouts: config.timeouts.clone(),
                metrics: metrics.clone(),
                meters: metrics.of_environment(one.environment.as_str(), &in_force.now().catalog),
                tracer: tracer.clone(),
                observer: observer.clone(),
                requests: requests.clone(),
                bodies: bodies.clone(),
            };
            let guard = guard(one.environment.as_str(), config, &metrics);
            let app = Arc::new(with_limits(http_proxy(&conf, gate), config));
            let (limits, phase, connections) = (connection_limits(config), phased.clone(), connections.clone());
            let door = Door { app, tls, guard, limits, phase, connections };
            server.add_service(Listening::new(bound, door, runtime.handle().clone()));
        }
        let delivering = delivering(config, &books, &in_force)?;
        workers.keep("webhooks", deliver(delivering));
        let mut people = None;
        if let (Some(wanted), Some(bound)) = (&config.console, sockets.console) {
            people = Some(bound.address());
            let inside = Inside {
                books: books.clone(),
                identity,
                in_force: in_force.clone(),
                environments: config.environments.iter().map(|one| one.environment).collect(),
                issuers: config.issuers.iter().map(|issuer| issuer.name.clone()).collect(),
                loosening: config.loosening,
                audit_folder: config.audit.folder.clone(),
                limits: config.limits.clone(),
                timeouts: config.timeouts.clone(),
                metrics: metrics.clone(),
                requests: requests.clone(),
                stopping: stopping.clone(),
            };
            let app = Arc::new(console(wanted, inside).map_err(StartError::Console)?);
            let tls = wanted.tls.as_ref().map(|tls| Speaking::new("console", None, tls, &metrics)).transpose()?;
            live.speaking.extend(tls.clone());
            let (guard, limits) = (guard("console", config, &metrics), connection_limits(config));
            let (phase, connections) = (phased.clone(), connections.clone());
            let door = Door { app, tls, guard, limits, phase, connections };
            server.add_service(Listening::new(bound, door, runtime.handle().clone()));
        }
        let reload = Reload {
            read_again,
            live,
            supervisor: supervisor.clone(),
            written,
            files,
            folder,
            archive,
            loosening: config.loosening,
            in_force: in_force.clone(),
            books,
            environment: config.environments.first().map_or(Environment::Production, |one| one.environment),
            asked: asked.clone(),
            waiting,
            untold: Vec::new(),
        };
        workers.keep("reload", reload.keep_current(before, seen));
        let bound = sockets.probes;
        let addresses = Addresses { environments, console: people, probes: bound.address() };
        let books = opened.books.clone();
        let probes = Probes { metrics, keyring, books, in_force, upstreams, is_open, phase: phased };
        let guard = guard("probes", config, &probes.metrics);
        // The probes listen until the very end.
        let (never, limits) = (watch::channel(Phase::Serving).1, connection_limits(config));
        let door =
            Door { app: Arc::new(probes), tls: None, guard, limits, phase: never, connections: TaskTracker::new() };
        server.add_service(Listening::new(bound, door, runtime.handle().clone()));
        let signals = Mutex::new(Signals::catch(&runtime).map_err(StartError::Runtime)?);
        let (cut, was_cut) = watch::channel(false);
        let ending = Ending {
            signals,
            asked,
            died: workers.died(),
            phase,
            stop,
            requests,
            sending: sending.clone(),
            connections,
            notice: config.timeouts.notice,
            grace: config.timeouts.grace,
            supervisor: supervisor.clone(),
            cut,
        };
        Ok(Process { server, runtime, addresses, ending, sending, workers, opened, supervisor, tracer, cut: was_cut })
    }

    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Serves until SIGTERM or SIGINT, or until a part of it dies, and returns when all that ran has ended.
    pub fn serve(self) -> Result<Served, Died> {
        let Process { server, runtime, addresses, ending, sending, workers, opened, supervisor, tracer, cut } = self;
        let environments: Vec<Environment> = addresses.environments.iter().map(|(one, _)| *one).collect();
        supervisor.ready();
        server.run(RunArgs { shutdown_signal: Box::new(ending) });
        if !sending.is_empty() {
            tracing::error!(
                open = sending.len(),
                "writes were still being sent or written down when the time for ending was over; where nobody heard an \
                 outcome, it is unknown"
            );
        }
        let has_died = *workers.died().borrow();
        // Who ends it at once waits for no collector.
        if let Some(tracer) = tracer.filter(|_| !*cut.borrow()) {
            runtime.block_on(tracer.flush());
        }
        runtime.block_on(workers.end());
        bookkeeping::close(opened.clone(), &environments, &runtime);
        // What else holds the books is gone with it; the last to let go writes the last checkpoint, and that is here.
        runtime.shutdown_timeout(Duration::from_secs(1));
        if Arc::into_inner(opened.books).is_none() {
            tracing::warn!("something still holds the books: the last checkpoint may be missing");
        }
        match (has_died, *cut.borrow()) {
            (true, _) => Err(Died),
            (false, true) => Ok(Served::Cut),
            (false, false) => Ok(Served::Whole),
        }
    }
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

fn server_conf(threads: usize) -> ServerConf {
    ServerConf { threads, max_retries: ATTEMPTS, ..ServerConf::default() }
}

fn threads(config: &Config) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    if config.threads == 0 { cores() } else { config.threads }
}

/// Every address that is listened on.
struct Sockets {
    /// As they stand in the configuration.
    environments: Vec<Bound>,
    console: Option<Bound>,
    probes: Bound,
}

impl Sockets {
    fn bind(config: &Config, handed: &mut HandedOver) -> Result<Sockets, StartError> {
        let mut bind = |what: &str, address| {
            let fault = |error| StartError::Bind { what: what.to_owned(), address, error };
            Bound::bind(address, handed).map_err(fault)
        };
        let environments = config.environments.iter().map(|one| bind(one.environment.as_str(), one.listen));
        let sockets = Sockets {
            environments: environments.collect::<Result<_, _>>()?,
            console: config.console.as_ref().map(|console| bind("console", console.listen)).transpose()?,
            probes: bind("probes", config.probes.listen)?,
        };
        match handed.left() {
            None => Ok(sockets),
            Some(address) => Err(StartError::NotOurs(address)),
        }
    }
}

/// The Redis that nodes share, where one is configured.
fn redis(config: &Config, metrics: &Metrics, workers: &Workers) -> Result<Option<Arc<Redis>>, StartError> {
    let Some(of) = &config.redis else { return Ok(None) };
    let redis = Arc::new(Redis::new(of, metrics.clone()).map_err(StartError::Redis)?);
    workers.keep("redis", redis.clone().keep_connected());
    Ok(Some(redis))
}

fn rates(config: &Config, policies: &Policies, metrics: &Metrics, redis: Option<&Arc<Redis>>) -> Rates {
    let count = policies.rates.len();
    let limiter: Arc<dyn RateLimiter> = match (redis, &config.redis) {
        (Some(redis), Some(of)) => Arc::new(Shared::new(count, redis.clone(), of.nodes, metrics.clone())),
        _ => Arc::new(Local::new(count)),
    };
    Rates::new(policies.rates.clone(), limiter, metrics)
}

fn delivering(config: &Config, books: &Arc<Books>, in_force: &Arc<InForce>) -> Result<Delivering, StartError> {
    let webhooks = config.webhooks.iter().map(|webhook| Webhook::new(webhook).map(Arc::new));
    let console = config.console.as_ref().and_then(|console| console.origin.as_deref());
    Ok(Delivering {
        books: books.clone(),
        environments: config.environments.iter().map(|one| one.environment).collect(),
        webhooks: webhooks.collect::<Result<_, _>>()?,
        in_force: in_force.clone(),
        console: console.map(Arc::from),
    })
}

fn upstream(config: &Config, one: &EnvironmentConfig) -> Result<Arc<PinnedUpstream>, StartError> {
    let made = PinnedUpstream::new(one.upstream.clone(), config.timeouts.clone(), config.limits.answer_bytes);
    made.map(Arc::new).map_err(|error| StartError::Upstream { environment: one.environment, error })
}
