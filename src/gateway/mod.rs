//! The shell: pingora's hooks, a file each, thin.
//!
//! | file | hook |
//! |---|---|
//! | `request` | `request_filter`: admit, and for writes the whole way |
//! | `holds` | the same, for what callers ask of their own calls that wait for people |
//! | `read` | `upstream_peer`, `upstream_request_filter`: a read on its way out |
//! | `response` | `upstream_response_filter`, `upstream_response_body_filter`: a read's answer on its way back |
//! | `failure` | `fail_to_connect`, `fail_to_proxy`: what a read's caller hears when upstream fails |
//! | `done` | `logging`: metrics and the log line |
//!
//! Reads stream through the proxy phases. Writes, and reads whose answer must be checked first, are sent by a call
//! of our own (`journey`): the phases cannot hold a body back, and give up when the caller leaves.

mod answer;
mod body;
mod bookkeeping;
mod done;
mod ending;
mod failure;
pub mod guard;
mod holds;
mod limits;
pub mod listen;
mod live;
mod observe;
pub mod process;
pub mod probes;
mod read;
mod reload;
mod request;
mod response;
mod start_error;
mod tls;
mod watching;
mod workers;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::proxy::{FailToProxy, ProxyHttp, Session};
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, Result};
use tokio::sync::{Semaphore, watch};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

pub use ending::Phase;
pub use observe::Observer;
pub use reload::{Read, ReadAgain};
pub use tls::Speaking;

use crate::adapters::clock::Stopwatch;
use crate::adapters::identity::Identity;
use crate::adapters::otlp::{Spans, Tracer};
use crate::adapters::upstream::PinnedUpstream;
use crate::base::ids::{Environment, TraceId};
use crate::catalog::{Catalog, Operation};
use crate::config::{AnswerMode, LimitsConfig, Loosening, TimeoutsConfig};
use crate::journey::rates::Limited;
use crate::journey::{Books, InForce, Road};
use crate::stations::reply::{Code, Executed, Origin, Reply};
use crate::telemetry::{Metrics, RequestMeters};

/// The gate of one environment.
#[derive(Debug)]
pub struct Gate {
    pub environment: Environment,
    pub identity: Arc<Identity>,
    /// What callers are shown, and what they must show, where it is not in plain text.
    pub tls: Option<Speaking>,
    /// How far the process is from its end.
    pub phase: watch::Receiver<Phase>,
    pub road: Road,
    pub books: Arc<Books>,
    pub upstream: Arc<PinnedUpstream>,
    /// The same for all environments.
    pub in_force: Arc<InForce>,
    pub answers: AnswerMode,
    pub limits: LimitsConfig,
    pub timeouts: TimeoutsConfig,
    pub metrics: Metrics,
    pub meters: RequestMeters,
    pub tracer: Option<Tracer>,
    pub observer: Observer,
    /// The room for the bodies of writes, in bytes.
    pub bodies: Arc<Semaphore>,
    /// Every request that is being answered; a shutdown waits for it.
    pub requests: TaskTracker,
}

/// What the console shares with the gates.
#[derive(Clone, Debug)]
pub struct Inside {
    pub books: Arc<Books>,
    pub identity: Arc<Identity>,
    pub in_force: Arc<InForce>,
    /// Those that are served.
    pub environments: Vec<Environment>,
    /// The names of all issuers.
    pub issuers: Vec<String>,
    pub loosening: Loosening,
    /// Where this node's audit chain is.
    pub audit_folder: PathBuf,
    pub limits: LimitsConfig,
    pub timeouts: TimeoutsConfig,
    pub metrics: Metrics,
    /// Every request that is being answered; a shutdown waits for it.
    pub requests: TaskTracker,
    /// Becomes true when the process is to end.
    pub stopping: watch::Receiver<bool>,
}

impl Inside {
    /// The contract of now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.in_force.now().catalog.clone()
    }
}

/// What is known of one request while it is being answered.
#[derive(Debug)]
pub struct Ctx {
    watch: Stopwatch,
    _open: TaskTrackerToken,
    trace: Option<TraceId>,
    spans: Spans,
    operation: Option<Arc<Operation>>,
    limited: Limited,
    /// The time that the caller took for its body.
    body_time: Duration,
    upstream_watch: Option<Stopwatch>,
    upstream_time: Option<Duration>,
    attempts: usize,
    /// A connection to upstream stood: something may have been sent.
    connected: bool,
    read: Option<read::Read>,
    /// What went wrong below HTTP, where the engine saw nothing of it.
    fault: &'static str,
    answered: Answered,
}

/// What was answered, for the log and the metrics.
#[derive(Clone, Copy, Debug, Default)]
struct Answered {
    status: u16,
    origin: Option<Origin>,
    executed: Option<Executed>,
    code: Option<Code>,
}

#[async_trait]
impl ProxyHttp for Gate {
    type CTX = Ctx;

    fn new_ctx(&self) -> Ctx {
        self.metrics.started();
        Ctx {
            watch: Stopwatch::start(),
            _open: self.requests.token(),
            trace: None,
            spans: Spans::default(),
            operation: None,
            limited: Limited::default(),
            body_time: Duration::ZERO,
            upstream_watch: None,
            upstream_time: None,
            attempts: 0,
            connected: false,
            read: None,
            fault: "",
            answered: Answered::default(),
        }
    }

    async fn request_filter(&self, session: &mut Session, ctx: &mut Ctx) -> Result<bool> {
        request::filter(self, session, ctx).await
    }

    async fn upstream_peer(&self, _session: &mut Session, ctx: &mut Ctx) -> Result<Box<HttpPeer>> {
        read::peer(self, ctx)
    }

    async fn upstream_request_filter(
        &self,
        _session: &mut Session,
        head: &mut RequestHeader,
        ctx: &mut Ctx,
    ) -> Result<()> {
        ctx.connected = true;
        read::head(head, ctx)
    }

    async fn upstream_response_filter(
        &self,
        session: &mut Session,
        head: &mut ResponseHeader,
        ctx: &mut Ctx,
    ) -> Result<()> {
        response::head(self, session, head, ctx)
    }

    fn upstream_response_body_filter(
        &self,
        _session: &mut Session,
        body: &mut Option<Bytes>,
        end: bool,
        ctx: &mut Ctx,
    ) -> Result<Option<Duration>> {
        response::body(self, body, end, ctx);
        Ok(None)
    }

    fn fail_to_connect(
        &self,
        _session: &mut Session,
        _peer: &HttpPeer,
        ctx: &mut Ctx,
        error: Box<Error>,
    ) -> Box<Error> {
        failure::to_connect(ctx, error)
    }

    async fn fail_to_proxy(&self, session: &mut Session, error: &Error, ctx: &mut Ctx) -> FailToProxy {
        failure::to_proxy(session, error, ctx).await
    }

    async fn logging(&self, session: &mut Session, error: Option<&Error>, ctx: &mut Ctx) {
        done::done(self, session, error, ctx);
    }

    /// The engine's own lines quote what it read; `done` says what matters.
    fn suppress_error_log(&self, _session: &Session, _ctx: &Ctx, _error: &Error) -> bool {
        true
    }
}

impl Ctx {
    fn note(&mut self, reply: &Reply) {
        self.answered =
            Answered { status: reply.status, origin: Some(reply.origin), executed: reply.executed, code: reply.code };
    }
}
