//! A process that serves: its listeners, its gates, and its orderly end.
//!
//! Ending: `/readyz` fails, listeners close, what runs is waited for, then the engine is stopped, what is left is brought
//! to disk and the books are closed. What was sent to upstream is waited for within the grace, which covers the longest
//! that a write may take; what is cut off all the same is in doubt at the next start.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use pingora::apps::ServerApp;
use pingora::listeners::tls::Acceptor;
use pingora::proxy::http_proxy;
use pingora::server::configuration::ServerConf;
use pingora::server::{RunArgs, Server};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::runtime::Runtime;
use tokio::sync::{Mutex, Notify, Semaphore, watch};
use tokio_util::task::TaskTracker;

use super::bookkeeping::{self, BooksError, Opened};
use super::ending::{Ending, Signals};
use super::limits::{connection_limits, guard, with_limits};
use super::listen::{Bound, Door, Listening, Tls};
use super::probes::Probes;
use super::reload::{self, Reload, Start};
use super::workers::Workers;
use super::{Gate, Inside, Observer};
use crate::adapters::clients::Clients;
use crate::adapters::clock::SystemClock;
use crate::adapters::credential::{Credential, CredentialError};
use crate::adapters::identity::{Identity, Keyring, KeyringError};
use crate::adapters::policies::{Archive, LoadedPolicies, PolicyFolder};
use crate::adapters::rate::{Local, Shared};
use crate::adapters::redis::{Redis, RedisFault};
use crate::adapters::upstream::{PinnedUpstream, UpstreamError};
use crate::base::ids::Environment;
use crate::catalog::Catalog;
use crate::config::{Config, ConsoleConfig, EnvironmentConfig, ListenerTls};
use crate::journey::rates::Rates;
use crate::journey::reconcile::{Pauses, reconcile};
use crate::journey::release::{Releasing, release};
use crate::journey::{InForce, Road};
use crate::policy::Policies;
use crate::ports::RateLimiter;
use crate::telemetry::Metrics;

/// A read may be tried a second time, a write never.
const ATTEMPTS: usize = 2;

/// Protocols, as TLS names them.
const H2: &[u8] = b"h2";
const H1: &[u8] = b"http/1.1";

/// A process that is ready to serve: every address is bound.
pub struct Process {
    server: Server,
    runtime: Runtime,
    addresses: Addresses,
    ending: Ending,
    sending: TaskTracker,
    workers: Workers,
    opened: Opened,
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

/// Why a process cannot start.
#[derive(Debug)]
pub enum StartError {
    Bind { what: String, address: SocketAddr, error: io::Error },
    Upstream { environment: Environment, error: UpstreamError },
    Tls { listener: &'static str, why: String },
    Clients { environment: Environment, why: String },
    Keys(KeyringError),
    Credential(CredentialError),
    Metrics(prometheus::Error),
    Redis(RedisFault),
    Runtime(io::Error),
    Books(BooksError),
    Policies(String),
    Console(String),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StartError::Bind { what, address, error } => {
                write!(
                    f,
                    "cannot listen on {address} ({what}): {error}; stop what listens there or set another address"
                )
            }
            StartError::Upstream { environment, error } => write!(f, "{environment}: {error}"),
            StartError::Tls { listener, why } => {
                write!(f, "{listener}: certificate and key cannot be used: {why}")
            }
            StartError::Clients { environment, why } => {
                write!(f, "{environment}: callers' certificates cannot be verified: {why}")
            }
            StartError::Keys(error) => error.fmt(f),
            StartError::Credential(error) => error.fmt(f),
            StartError::Metrics(error) => write!(f, "the metrics cannot be set up: {error}"),
            StartError::Redis(error) => error.fmt(f),
            StartError::Books(error) => error.fmt(f),
            StartError::Policies(why) => f.write_str(why),
            StartError::Console(why) => write!(f, "the console cannot be set up: {why}"),
            StartError::Runtime(error) => write!(f, "the runtime cannot be started: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<KeyringError> for StartError {
    fn from(error: KeyringError) -> StartError {
        StartError::Keys(error)
    }
}

impl From<CredentialError> for StartError {
    fn from(error: CredentialError) -> StartError {
        StartError::Credential(error)
    }
}

impl Process {
    /// Binds every address and makes everything ready; nothing is served yet. What serves people is made where it is
    /// known what that is.
    pub fn start<C: ServerApp + Send + Sync + 'static>(
        config: &Config,
        catalog: Arc<Catalog>,
        (folder, loaded): (PolicyFolder, LoadedPolicies),
        console: impl FnOnce(&ConsoleConfig, Inside) -> Result<C, String>,
    ) -> Result<Process, StartError> {
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
        let (requests, sending) = (TaskTracker::new(), TaskTracker::new());
        let bodies = Arc::new(Semaphore::new(config.limits.bodies_bytes.min(Semaphore::MAX_PERMITS)));

        let keyring = Arc::new(Keyring::new(&config.issuers, metrics.clone())?);
        workers.help("keys", keyring.clone().keep_fresh());
        let identity = Arc::new(Identity::new(keyring.clone(), Arc::new(SystemClock)));
        let redis = redis(config, &metrics, &workers)?;
        let archive = Archive::beside(&config.audit.folder, &config.store.node);
        let Start { set, seen, waiting, before } =
            reload::start(&folder, loaded, &archive, config.loosening).map_err(StartError::Policies)?;
        let rates = rates(config, &set.policies, &metrics, redis.as_ref());
        let opened =
            bookkeeping::open(config, &runtime, &workers, &sending, &metrics, redis).map_err(StartError::Books)?;
        let (books, is_open) = (opened.books.clone(), opened.is_open.clone());
        let in_force = Arc::new(InForce::new(set.policies, rates, metrics.clone()));
        tracing::info!(version = in_force.now().policies.version(), "policies took force");
        let asked = Arc::new(Notify::new());
        let reload = Reload {
            folder,
            archive,
            loosening: config.loosening,
            in_force: in_force.clone(),
            books: books.clone(),
            environment: config.environments.first().map_or(Environment::Production, |one| one.environment),
            asked: asked.clone(),
            waiting,
            untold: Vec::new(),
        };
        workers.keep("policies", reload.keep_current(before, seen));
        let (mut environments, mut upstreams) = (Vec::new(), Vec::new());
        for one in &config.environments {
            let bound = bind(one.environment.as_str(), one.listen)?;
            environments.push((one.environment, bound.address()));
            let upstream = upstream(config, one)?;
            upstreams.push(upstream.clone());
            workers.help("upstream's address", upstream.clone().keep_looking_up());
            let credential = Arc::new(Credential::new(one.environment, &one.credential)?);
            workers.help("credential", credential.clone().keep_fresh());
            let road = Road {
                upstream: upstream.clone(),
                origin: upstream.origin().clone(),
                environment: one.environment,
                credential,
                runtime: runtime.handle().clone(),
                sending: sending.clone(),
            };
            let pauses = Pauses { first: config.reconcile.pause, longest: config.reconcile.longest_pause };
            workers.keep("reconciliation", reconcile(books.clone(), road.clone(), catalog.clone(), pauses));
            let releasing = Releasing {
                books: books.clone(),
                road: road.clone(),
                catalog: catalog.clone(),
                in_force: in_force.clone(),
            };
            workers.keep("releases", release(releasing, stopping.clone()));
            let tls = one.tls.as_ref();
            let clients = tls.map(|tls| clients(one.environment, tls, &metrics)).transpose()?.flatten();
            let tls = tls.map(|tls| speak(one.environment.as_str(), tls, clients.clone(), &[H2, H1])).transpose()?;
            if let Some(clients) = &clients {
                workers.help("revocations", clients.clone().keep_fresh());
            }
            let gate = Gate {
                environment: one.environment,
                catalog: catalog.clone(),
                identity: identity.clone(),
                clients,
                road,
                books: books.clone(),
                upstream,
                in_force: in_force.clone(),
                answers: config.answers,
                limits: config.limits.clone(),
                timeouts: config.timeouts.clone(),
                metrics: metrics.clone(),
                observer: observer.clone(),
                requests: requests.clone(),
                bodies: bodies.clone(),
            };
            let guard = guard(one.environment.as_str(), config, &metrics);
            let app = Arc::new(with_limits(http_proxy(&conf, gate), config));
            let (limits, stop) = (connection_limits(config), stopping.clone());
            let door = Door { app, tls, guard, limits, stop };
            server.add_service(Listening::new(bound, door, runtime.handle().clone()));
        }
        let mut people = None;
        if let Some(wanted) = &config.console {
            let bound = bind("console", wanted.listen)?;
            people = Some(bound.address());
            let inside = Inside {
                books,
                identity,
                catalog,
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
            let tls = wanted.tls.as_ref().map(|tls| speak("console", tls, None, &[H1])).transpose()?;
            let (guard, limits) = (guard("console", config, &metrics), connection_limits(config));
            let door = Door { app, tls, guard, limits, stop: stopping.clone() };
            server.add_service(Listening::new(bound, door, runtime.handle().clone()));
        }
        let bound = bind("probes", config.probes.listen)?;
        let addresses = Addresses { environments, console: people, probes: bound.address() };
        let probes = Probes { metrics, keyring, in_force, upstreams, is_open, draining: stopping };
        let guard = guard("probes", config, &probes.metrics);
        let door = Door { app: Arc::new(probes), tls: None, guard, limits: connection_limits(config), stop: never() };
        server.add_service(Listening::new(bound, door, runtime.handle().clone()));
        let signals = Mutex::new(Signals::catch(&runtime).map_err(StartError::Runtime)?);
        let (grace, died) = (config.timeouts.grace, workers.died());
        let ending = Ending { signals, asked, died, stop, requests, sending: sending.clone(), grace };
        Ok(Process { server, runtime, addresses, ending, sending, workers, opened })
    }

    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Serves until SIGTERM or SIGINT, or until a part of it dies, and returns when all that ran has ended.
    pub fn serve(self) -> Result<(), Died> {
        let Process { server, runtime, addresses, ending, sending, workers, opened } = self;
        let environments: Vec<Environment> = addresses.environments.iter().map(|(one, _)| *one).collect();
        server.run(RunArgs { shutdown_signal: Box::new(ending) });
        if !sending.is_empty() {
            tracing::error!(
                open = sending.len(),
                "writes were still being sent or written down when the time for ending was over; where nobody heard an \
                 outcome, it is unknown"
            );
        }
        let has_died = *workers.died().borrow();
        runtime.block_on(workers.end());
        bookkeeping::close(opened.clone(), &environments, &runtime);
        // What else holds the books is gone with it; the last to let go writes the last checkpoint, and that is here.
        runtime.shutdown_timeout(Duration::from_secs(1));
        if Arc::into_inner(opened.books).is_none() {
            tracing::warn!("something still holds the books: the last checkpoint may be missing");
        }
        if has_died { Err(Died) } else { Ok(()) }
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

/// The probes listen until the very end.
fn never() -> watch::Receiver<bool> {
    watch::channel(false).1
}

fn bind(what: &str, address: SocketAddr) -> Result<Bound, StartError> {
    Bound::bind(address).map_err(|error| StartError::Bind { what: what.to_owned(), address, error })
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

fn upstream(config: &Config, one: &EnvironmentConfig) -> Result<Arc<PinnedUpstream>, StartError> {
    let made = PinnedUpstream::new(one.upstream.clone(), config.timeouts.clone(), config.limits.answer_bytes);
    made.map(Arc::new).map_err(|error| StartError::Upstream { environment: one.environment, error })
}

fn clients(environment: Environment, tls: &ListenerTls, metrics: &Metrics) -> Result<Option<Arc<Clients>>, StartError> {
    let clients = tls.clients.as_ref();
    let clients = clients.map(|c| Clients::new(environment, c, Arc::new(SystemClock), metrics.clone()).map(Arc::new));
    clients.transpose().map_err(|why| StartError::Clients { environment, why })
}

fn speak(
    listener: &'static str,
    tls: &ListenerTls,
    clients: Option<Arc<Clients>>,
    protocols: &[&[u8]],
) -> Result<Tls, StartError> {
    let fault = |why: String| StartError::Tls { listener, why };
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&tls.certificates_pem)
        .collect::<Result<_, _>>()
        .map_err(|e| fault(e.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(tls.key_pem.reveal().as_bytes()).map_err(|e| fault(e.to_string()))?;
    let builder = rustls::ServerConfig::builder();
    let builder = match &clients {
        None => builder.with_no_client_auth(),
        Some(clients) => builder.with_client_cert_verifier(clients.clone()),
    };
    let mut server = builder.with_single_cert(certificates, key).map_err(|e| fault(e.to_string()))?;
    if clients.is_some() {
        Clients::ask_of_all(&mut server);
    }
    server.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(Tls { acceptor: Arc::new(Acceptor::from_server_config(Arc::new(server))), clients })
}
