//! The console's server: its state, and the parts of every answer.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::StatusCode;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, STRICT_TRANSPORT_SECURITY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use jiff::Timestamp;
use tokio::sync::{OnceCell, Semaphore};

use super::believed_sessions::BelievedSessions;
use super::browser::Browsers;
use super::payment_index::PaymentIndex;
use super::provider::ProviderSignIn;
use super::rates::ConsoleRates;
use super::readers::JournalReaders;
use super::request::BodySender;
use super::state::ConsoleState;
use crate::adapters::random::trace_id;
use crate::adapters::rate::SharedRoom;
use crate::base::ids::{Environment, TraceId};
use crate::base::secret::Secret;
use crate::catalog::Contract;
use crate::config::ConsoleConfig;
use crate::edge::hosts::FOREIGN_HOST;
use crate::people::session::SessionTerms;
use crate::stations::admit::{AdmitRefusal, Caller};
use crate::stations::claim::Owner;
use crate::stations::reply::{self, Code, Reply, error_json};
use crate::telemetry::tally::DecisionCounts;

/// How many streams of changes are open at one time.
const MAX_STREAMS: usize = 64;
/// The most bytes of request bodies that are here at one time.
const BODIES_BYTES: usize = 16 << 20;
/// How many sessions are looked up at one time beyond the rate of their address.
const SESSION_TURNS: usize = 2;
const CORP: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The decisions before this process began, as the audit log has them.
#[derive(Debug)]
pub(super) struct DecisionCache {
    pub(super) counts: BTreeMap<(Environment, i64), DecisionCounts>,
    /// The earliest time that the counts cover.
    pub(super) since: Timestamp,
}

/// The state of the console's server.
pub(super) struct ConsoleServer {
    pub inside: ConsoleState,
    pub issuer: String,
    pub browsers: Browsers,
    pub terms: SessionTerms,
    /// Whether a browser may sign in with a token.
    pub token_sign_in: bool,
    /// Sign-in at the OpenID provider, if one is configured.
    pub oidc: Option<ProviderSignIn>,
    pub readers: JournalReaders,
    pub exporters: JournalReaders,
    /// When this process began to count decisions.
    pub begun: Timestamp,
    pub before: OnceCell<DecisionCache>,
    pub is_tls: bool,
    /// The contracts of bodies, by the names of their schemas.
    pub contracts: BTreeMap<&'static str, Contract>,
    /// Room for streams of changes.
    pub streams: Arc<SharedRoom<Owner>>,
    /// Room for request bodies, until their acts are done.
    pub bodies: Arc<SharedRoom<BodySender>>,
    pub rates: ConsoleRates,
    pub believed: BelievedSessions,
    /// Turns of sessions that are looked up beyond the rate of their address.
    pub session_turns: Semaphore,
    /// The newest payments, once somebody looked at them.
    pub payments: Arc<PaymentIndex>,
}

impl ConsoleServer {
    pub fn new(
        config: &ConsoleConfig,
        inside: ConsoleState,
        contracts: BTreeMap<&'static str, Contract>,
    ) -> Result<ConsoleServer, String> {
        let begun = inside.node.clock.now();
        let streams = SharedRoom::new(MAX_STREAMS);
        let (folder, node) = (inside.audit_folder.clone(), inside.node.id.clone());
        let payments = Arc::new(PaymentIndex::new(folder, node, config.payments_indexed));
        Ok(ConsoleServer {
            inside,
            issuer: config.issuer.clone(),
            browsers: Browsers::new(config),
            terms: config.sessions,
            token_sign_in: config.token_sign_in,
            oidc: config.oidc.clone().map(ProviderSignIn::new).transpose()?,
            readers: JournalReaders::new(),
            exporters: JournalReaders::for_exports(),
            begun,
            before: OnceCell::new(),
            is_tls: config.tls.is_some(),
            contracts,
            streams,
            bodies: SharedRoom::new(BODIES_BYTES),
            rates: ConsoleRates::new(config)?,
            believed: BelievedSessions::default(),
            session_turns: Semaphore::new(SESSION_TURNS),
            payments,
        })
    }

    /// Builds a response with the headers that every answer has.
    pub(super) fn finish(&self, reply: Reply, trace: &TraceId) -> Response {
        let mut response = Response::new(Body::from(reply.body));
        *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        *headers = reply.headers;
        let policy = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
        for (name, value) in [
            (CACHE_CONTROL, "no-store"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (X_FRAME_OPTIONS, "DENY"),
            (REFERRER_POLICY, "no-referrer"),
            (CONTENT_SECURITY_POLICY, policy),
            (CORP, "same-origin"),
            (reply::ORIGIN, reply.origin.as_str()),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        if self.is_tls {
            headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
        }
        headers.extend(HeaderValue::from_str(trace.as_str()).ok().map(|value| (reply::REQUEST_ID, value)));
        response
    }

    /// Answers a request that is addressed to another host.
    pub fn foreign_host(&self) -> Response {
        let message =
            format!("{FOREIGN_HOST}: add the name to `console.hosts`, if it is the console's; nothing was done.");
        let reply = error_json(Code::Forbidden, &message, None);
        self.inside.metrics.console_answered("none", reply.status);
        self.finish(reply, &trace_id(None))
    }

    /// Verifies a token; returns its person and its expiry, in seconds since 1970.
    pub async fn verify_token(&self, token: &Secret) -> Result<(Arc<Caller>, i64), AdmitRefusal> {
        let believed = self.inside.identity.believe(token).await;
        let until_secs = believed.as_ref().map_or(0, |believed| believed.until_secs);
        let caller = believed.and_then(|believed| believed.person()).map_err(|fault| {
            self.inside.metrics.token_refused("console", fault.as_str());
            AdmitRefusal::NotBelieved(fault)
        })?;
        if caller.issuer() != self.issuer {
            self.inside.metrics.token_refused("console", "foreign");
            return Err(AdmitRefusal::Unauthorized("the token comes from another issuer than the console's"));
        }
        Ok((caller, until_secs))
    }
}

impl fmt::Debug for ConsoleServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleServer").finish_non_exhaustive()
    }
}
