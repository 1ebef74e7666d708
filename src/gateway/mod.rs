//! Pingora's hooks for callers, a file each.
//!
//! | file | hook |
//! |---|---|
//! | `engine` | lends the engine a connection, for one request at a time |
//! | `request` | `request_filter`: admits; carries every request to its answer |
//! | `holds` | the same for callers' requests about their holds |
//! | `receipts` | the same for callers' requests for receipts |
//! | `document` | the same for the contract as one document |
//! | `read` | sends a read, and streams its answer |
//! | `response` | head and body of a read's answer on their way back |
//! | `failure` | `fail_to_proxy`: the answer when upstream fails |
//! | `done` | `logging`: metrics and the log line |
//!
//! `readiness` says what the gate can do now.
//!
//! Nothing goes through the engine's proxy phases. They cannot hold a body back, they give up when the caller leaves, and
//! they bound each piece of an answer, not the whole. `journey` sends writes, and reads whose answer must be checked
//! first.

mod answer;
mod body;
mod caller;
mod done;
mod engine;
mod failure;
mod document;
mod holds;
mod observe;
mod read;
mod readiness;
mod receipts;
mod request;
mod response;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::proxy::{FailToProxy, ProxyHttp, Session};
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorType, Result};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

pub use engine::Engine;
pub use observe::Observer;
pub use readiness::{Readiness, ReasonKey};
pub use receipts::{keeps_plain, receipt_reply};

use crate::adapters::audit::JournalReceipts;
use crate::adapters::clock::Stopwatch;
use crate::adapters::identity::Identity;
use crate::adapters::otlp::{Spans, Tracer};
use crate::adapters::rate::{RoomShare, SharedRoom};
use crate::adapters::upstream::PinnedUpstream;
use crate::base::ids::{Environment, TraceId};
use crate::catalog::Operation;
use crate::config::{AnswerMode, LimitsConfig, TimeoutsConfig};
use crate::edge::guard::OpenRequest;
use crate::edge::{Phase, Speaking};
use crate::journey::Egress;
use crate::node::rates::RateOutcome;
use crate::node::{InForce, Node};
use crate::stations::admit::Caller;
use crate::stations::claim::Owner;
use crate::stations::reply::{Code, Executed, Refusal, Reply, ReplyOrigin};
use crate::telemetry::{Metrics, RequestMeters};

/// The gate of one environment.
#[derive(Debug)]
pub struct Gate {
    pub environment: Environment,
    pub identity: Arc<Identity>,
    /// The listener's TLS, unless it is plain text.
    pub tls: Option<Speaking>,
    /// How far the process is from its end.
    pub phase: watch::Receiver<Phase>,
    pub egress: Egress,
    pub node: Arc<Node>,
    pub upstream: Arc<PinnedUpstream>,
    /// The policies in force, the same for all environments.
    pub in_force: Arc<InForce>,
    pub answers: AnswerMode,
    pub limits: LimitsConfig,
    pub timeouts: TimeoutsConfig,
    pub metrics: Metrics,
    pub meters: RequestMeters,
    pub tracer: Option<Tracer>,
    pub observer: Observer,
    /// This environment's room for the bodies of writes, in bytes; every caller has a share.
    pub bodies: Arc<SharedRoom<Owner>>,
    /// This environment's calls in progress; every caller has a share.
    pub calls: Arc<SharedRoom<Owner>>,
    pub receipts: Arc<JournalReceipts>,
    /// The requests that are being answered; a shutdown waits for them.
    pub requests: TaskTracker,
}

/// The state of one request while it is being answered.
#[derive(Debug)]
pub struct Ctx {
    watch: Stopwatch,
    /// An orderly end waits for the request; not for one that is only refused.
    _waited_for: Option<TaskTrackerToken>,
    trace: Option<TraceId>,
    spans: Spans,
    operation: Option<Arc<Operation>>,
    limited: RateOutcome,
    /// The time that the caller took for its body.
    body_time: Duration,
    upstream_watch: Option<Stopwatch>,
    upstream_time: Option<Duration>,
    /// A connection to upstream existed: something may have been sent.
    connected: bool,
    read: Option<read::StreamedRead>,
    /// The fault below HTTP that the engine did not see.
    fault: &'static str,
    answered: Answered,
    /// The request's memory, until it has a place.
    open: Option<OpenRequest>,
    /// The caller's share of the calls in progress.
    call: Option<RoomShare<Owner>>,
}

/// The answer, for the log and the metrics.
#[derive(Clone, Copy, Debug, Default)]
struct Answered {
    status: u16,
    origin: Option<ReplyOrigin>,
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
            _waited_for: (*self.phase.borrow() < Phase::Refusing).then(|| self.requests.token()),
            trace: None,
            spans: Spans::default(),
            operation: None,
            limited: RateOutcome::default(),
            body_time: Duration::ZERO,
            upstream_watch: None,
            upstream_time: None,
            connected: false,
            read: None,
            fault: "",
            answered: Answered::default(),
            open: None,
            call: None,
        }
    }

    async fn request_filter(&self, session: &mut Session, ctx: &mut Ctx) -> Result<bool> {
        request::filter(self, session, ctx).await
    }

    /// The engine sends nothing itself: `request_filter` answers every request.
    async fn upstream_peer(&self, _session: &mut Session, _ctx: &mut Ctx) -> Result<Box<HttpPeer>> {
        Err(Error::explain(ErrorType::InternalError, "this request was not answered"))
    }

    async fn fail_to_proxy(&self, session: &mut Session, error: &Error, ctx: &mut Ctx) -> FailToProxy {
        failure::to_proxy(session, error, ctx).await
    }

    async fn logging(&self, session: &mut Session, error: Option<&Error>, ctx: &mut Ctx) {
        done::done(self, session, error, ctx);
    }

    /// The engine's own log lines quote callers' bytes; `done` logs what matters.
    fn suppress_error_log(&self, _session: &Session, _ctx: &Ctx, _error: &Error) -> bool {
        true
    }
}

impl Ctx {
    /// Takes the caller's place among the calls in progress, which counts the request's memory from then on.
    fn take_place(&mut self, gate: &Gate, caller: &Caller) -> std::result::Result<(), Refusal> {
        let mut call = gate.calls.share_of(Owner::of(caller));
        if !call.grow(1) {
            return Err(Refusal::TooManyCalls);
        }
        self.call = Some(call);
        if let Some(open) = &mut self.open {
            open.has_place();
        }
        Ok(())
    }

    fn note(&mut self, reply: &Reply) {
        self.answered =
            Answered { status: reply.status, origin: Some(reply.origin), executed: reply.executed, code: reply.code };
    }
}
