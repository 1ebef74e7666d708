//! A process that serves: its listeners, its gates, and its orderly end.
//!
//! Ending: `/readyz` fails, listeners close, what runs is waited for, then the engine is stopped. What was sent to
//! upstream is waited for in any case: its outcome must be known.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::listeners::tls::TlsSettings;
use pingora::proxy::http_proxy;
use pingora::server::configuration::ServerConf;
use pingora::server::{RunArgs, Server, ShutdownSignal, ShutdownSignalWatch};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ResolvesServerCert;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use super::listen::{Bound, Listening};
use super::probes::Probes;
use super::{Gate, Observer};
use crate::adapters::upstream::{PinnedUpstream, UpstreamError};
use crate::base::ids::Environment;
use crate::catalog::Catalog;
use crate::config::{Config, EnvironmentConfig, ListenerTls};
use crate::journey::submit::Road;
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
}

/// Where a process listens.
#[derive(Clone, Debug)]
pub struct Addresses {
    pub environments: Vec<(Environment, SocketAddr)>,
    pub probes: SocketAddr,
}

/// Why a process cannot start.
#[derive(Debug)]
pub enum StartError {
    Bind { what: String, address: SocketAddr, error: io::Error },
    Upstream { environment: Environment, error: UpstreamError },
    Tls { environment: Environment, why: String },
    Metrics(prometheus::Error),
    Runtime(io::Error),
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
            StartError::Tls { environment, why } => {
                write!(f, "{environment}: certificate and key cannot be used: {why}")
            }
            StartError::Metrics(error) => write!(f, "the metrics cannot be set up: {error}"),
            StartError::Runtime(error) => write!(f, "the runtime cannot be started: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl Process {
    /// Binds every address and makes everything ready; nothing is served yet.
    pub fn start(config: &Config, catalog: Arc<Catalog>) -> Result<Process, StartError> {
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
        runtime.spawn(checking);

        let conf = Arc::new(server_conf(threads));
        let mut server = Server::new_with_opt_and_conf(None, server_conf(threads));
        let (stop, stopping) = watch::channel(false);
        let (requests, sending) = (TaskTracker::new(), TaskTracker::new());

        let mut environments = Vec::new();
        for one in &config.environments {
            let bound = bind(one.environment.as_str(), one.listen)?;
            environments.push((one.environment, bound.address()));
            let upstream = upstream(config, one)?;
            runtime.spawn(upstream.clone().keep_looking_up());
            let gate = Gate {
                environment: one.environment,
                catalog: catalog.clone(),
                road: Road {
                    upstream: upstream.clone(),
                    origin: upstream.origin().clone(),
                    runtime: runtime.handle().clone(),
                    sending: sending.clone(),
                },
                upstream,
                answers: config.answers,
                limits: config.limits.clone(),
                timeouts: config.timeouts.clone(),
                metrics: metrics.clone(),
                observer: observer.clone(),
                requests: requests.clone(),
            };
            let tls = one.tls.as_ref().map(|tls| tls_settings(one.environment, tls)).transpose()?;
            server.add_service(Listening::new(
                one.environment.as_str(),
                http_proxy(&conf, gate),
                bound,
                tls,
                stopping.clone(),
                runtime.handle().clone(),
            ));
        }
        let bound = bind("probes", config.probes.listen)?;
        let addresses = Addresses { environments, probes: bound.address() };
        let probes = Probes { metrics, draining: stopping };
        server.add_service(Listening::new("probes", probes, bound, None, never(), runtime.handle().clone()));
        let ending = Ending { stop, requests, grace: config.timeouts.grace };
        Ok(Process { server, runtime, addresses, ending, sending })
    }

    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Serves until SIGTERM or SIGINT, and returns when all that ran has ended.
    pub fn serve(self) {
        let Process { server, runtime, ending, sending, .. } = self;
        let grace = ending.grace;
        server.run(RunArgs { shutdown_signal: Box::new(ending) });
        sending.close();
        let waited = runtime.block_on(async { tokio::time::timeout(grace, sending.wait()).await });
        if waited.is_err() {
            tracing::error!(
                open = sending.len(),
                "writes were still being sent when the time for ending was over; their outcome is unknown"
            );
        }
        runtime.shutdown_timeout(Duration::from_secs(1));
    }
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// The order in which a process ends.
struct Ending {
    stop: watch::Sender<bool>,
    requests: TaskTracker,
    grace: Duration,
}

#[async_trait]
impl ShutdownSignalWatch for Ending {
    async fn recv(&self) -> ShutdownSignal {
        let asked = async {
            let (Ok(mut terminate), Ok(mut interrupt)) =
                (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
            else {
                tracing::error!("signals cannot be received; only a kill will end this process");
                return std::future::pending().await;
            };
            tokio::select! {
                _ = terminate.recv() => (),
                _ = interrupt.recv() => (),
            }
        };
        asked.await;
        tracing::info!(open = self.requests.len(), "ending: no new connections, waiting for what runs");
        self.stop.send_replace(true);
        self.requests.close();
        if tokio::time::timeout(self.grace, self.requests.wait()).await.is_err() {
            tracing::warn!(open = self.requests.len(), "requests were still open when the time for ending was over");
        }
        ShutdownSignal::FastShutdown
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

fn upstream(config: &Config, one: &EnvironmentConfig) -> Result<Arc<PinnedUpstream>, StartError> {
    let made = PinnedUpstream::new(one.upstream.clone(), config.timeouts.clone(), config.limits.answer_bytes);
    made.map(Arc::new).map_err(|error| StartError::Upstream { environment: one.environment, error })
}

fn tls_settings(environment: Environment, tls: &ListenerTls) -> Result<TlsSettings, StartError> {
    let fault = |why: String| StartError::Tls { environment, why };
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&tls.certificates_pem)
        .collect::<Result<_, _>>()
        .map_err(|e| fault(e.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(tls.key_pem.reveal().as_bytes()).map_err(|e| fault(e.to_string()))?;
    let provider = rustls::crypto::ring::default_provider();
    let certified = CertifiedKey::from_der(certificates, key, &provider).map_err(|e| fault(e.to_string()))?;
    let resolver: Arc<dyn ResolvesServerCert> = Arc::new(SingleCertAndKey::from(certified));
    // The paths are not read where a resolver is set.
    let mut settings = TlsSettings::intermediate("", "").map_err(|e| fault(e.to_string()))?;
    settings.set_cert_resolver(resolver);
    settings.enable_h2();
    Ok(settings)
}
