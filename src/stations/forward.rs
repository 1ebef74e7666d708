//! Writes the request that leaves, from a right to send, and types the result of sending it.
//!
//! Headers are named one by one; no other header of the caller goes along.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    InvalidHeaderValue, USER_AGENT,
};

use super::check::Intent;
use super::claim::{Lease, Owner, Recorded};
use super::decide::Allowed;
use crate::base::ids::TraceId;
use crate::base::secret::Secret;
use crate::base::traceparent::TraceParent;
use crate::catalog::Class;

/// The caller's headers that go along: W3C trace context.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// The longest `tracestate` that goes along.
const LONGEST_STATE: usize = 512;
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const OURSELVES: HeaderValue = HeaderValue::from_static(concat!("sluice/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

/// The right to send one call once.
#[derive(Debug)]
pub struct Cleared {
    intent: Intent,
    /// How long the first byte of a write may still leave.
    lease: Option<Lease>,
}

impl Cleared {
    pub fn intent(&self) -> &Intent {
        &self.intent
    }
}

/// Clears a read that is allowed: a read has no effect that could happen twice.
pub fn clear_read(allowed: Allowed) -> Option<Cleared> {
    let intent = allowed.into_intent();
    (intent.operation().class == Class::Read).then_some(Cleared { intent, lease: None })
}

/// Clears a read that the gate makes for itself.
pub fn clear_own_read(intent: Intent) -> Option<Cleared> {
    (intent.operation().class == Class::Read && intent.caller().is_the_gate())
        .then_some(Cleared { intent, lease: None })
}

/// Clears an attempt that the store knows of and whose audit entry is on disk.
pub fn clear(recorded: Recorded) -> Cleared {
    let (intent, lease) = recorded.into_parts();
    Cleared { intent, lease: Some(lease) }
}

/// The address of upstream, for headers and paths.
#[derive(Clone, Debug)]
pub struct UpstreamOrigin {
    pub host: HeaderValue,
    /// The prefix of every path: empty, or such as `/api`.
    pub base_path: String,
}

/// A request, ready to be written. Only a [`Cleared`] becomes one, and nobody can copy it.
#[derive(Debug)]
pub struct Outgoing {
    method: Method,
    target: String,
    headers: HeaderMap,
    body: Option<Bytes>,
    lease: Option<Lease>,
    caller: Arc<Owner>,
}

impl Outgoing {
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The path with its query.
    pub fn target(&self) -> &str {
        &self.target
    }

    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    pub fn body(&self) -> Option<&Bytes> {
        self.body.as_ref()
    }

    /// Returns the caller, or the gate where it asks for itself.
    pub fn caller(&self) -> &Arc<Owner> {
        &self.caller
    }

    /// Whether it may have an effect.
    pub fn is_write(&self) -> bool {
        self.lease.is_some()
    }

    /// Whether its first byte may leave now, by the node's monotonic clock. A read may leave at any time.
    pub fn may_leave(&self, now: Duration) -> bool {
        self.lease.is_none_or(|lease| lease.is_live(now))
    }
}

/// Returns the caller's headers that go along, now or later. A malformed `traceparent` does not go along, and
/// `tracestate` goes only beside its parent.
pub fn passed_on(caller: &HeaderMap) -> HeaderMap {
    let is_parent = |value: &&HeaderValue| value.to_str().is_ok_and(|text| TraceParent::parse(text).is_some());
    let Some(parent) = caller.get(&TRACEPARENT).filter(is_parent) else { return HeaderMap::new() };
    let is_state = |value: &&HeaderValue| value.to_str().is_ok_and(|text| text.len() <= LONGEST_STATE);
    let state = caller.get(&TRACESTATE).filter(is_state).map(|state| (TRACESTATE, state.clone()));
    [(TRACEPARENT, parent.clone())].into_iter().chain(state).collect()
}

/// Consumes the right to send, and writes the request that leaves.
pub fn outgoing(
    cleared: Cleared,
    origin: &UpstreamOrigin,
    injected: Option<&Secret>,
    caller: &HeaderMap,
    trace: &TraceId,
) -> Result<Outgoing, InvalidHeaderValue> {
    let Cleared { intent, lease } = cleared;
    let mut headers = HeaderMap::with_capacity(10);
    headers.insert(HOST, origin.host.clone());
    headers.insert(ACCEPT, JSON);
    headers.insert(ACCEPT_ENCODING, IDENTITY);
    headers.insert(USER_AGENT, OURSELVES);
    headers.insert(REQUEST_ID, HeaderValue::from_str(trace.as_str())?);
    let mut authorization = HeaderValue::from_str(&format!("Bearer {}", injected.unwrap_or(intent.token()).reveal()))?;
    authorization.set_sensitive(true);
    headers.insert(AUTHORIZATION, authorization);
    headers.extend(passed_on(caller));
    let body = intent.body().cloned();
    if let Some(body) = &body {
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    } else if intent.operation().is_write() {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(0));
    }
    let caller = Arc::new(Owner::of(intent.caller()));
    let target = format!("{}{}", origin.base_path, intent.target());
    Ok(Outgoing { method: intent.operation().method.clone(), target, headers, body, lease, caller })
}

/// The result of a send.
#[derive(Debug)]
pub enum Sent {
    /// Upstream could not be reached; certainly not one byte was written.
    NotWritten,
    /// The right to send had lapsed, or the gate was ending; not one byte was written.
    TooLate,
    /// Something was written, and no head came back.
    Lost(Loss),
    /// A head came back.
    Answered { status: u16, headers: HeaderMap, body: AnswerBody },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Upstream stayed silent until the deadline.
    Silent,
    /// The connection broke, or the answer is not HTTP.
    Broken,
}

/// The body of an answer.
#[derive(Debug)]
pub enum AnswerBody {
    Complete(Bytes),
    /// The body stalled, broke off, or is larger than the limit. Of its `beginning`, a bounded part is kept.
    Incomplete {
        loss: Loss,
        beginning: Bytes,
    },
}

impl AnswerBody {
    /// Returns the body if all of it came.
    pub fn whole(self) -> Option<Bytes> {
        match self {
            AnswerBody::Complete(body) => Some(body),
            AnswerBody::Incomplete { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::Environment;
    use crate::catalog::{Catalog, SchemaFiles};
    use crate::policy::{Facts, Policies};
    use crate::stations::admit::{self, RequestHead};
    use crate::stations::check::check;
    use crate::stations::decide::{Decision, decide};

    #[test]
    fn only_named_headers_leave() {
        let catalog = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap();
        let mut caller = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer caller.own.token"),
            ("cookie", "session=1"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-http-method-override", "DELETE"),
            ("sluice-outcome", "executed"),
            ("connection", "authorization"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ] {
            caller.insert(name, value.parse().unwrap());
        }
        let method = Method::GET;
        let head = RequestHead { method: &method, target: "/v2/offramps?limit=5", headers: &caller };
        let (found, token) = (admit::find(&catalog, head).unwrap(), admit::bearer(&caller).unwrap());
        let anyone = admit::VerifiedToken::of_anyone();
        let admitted = admit::admit(Environment::Sandbox, found, head, token, &anyone, None).unwrap();
        let intent = check(admitted, &caller, b"").unwrap();
        let decision = decide(intent, &Policies::of_everything(&catalog), &Facts::default());
        let Decision::Allowed(allowed) = decision else { panic!("{decision:?}") };
        let cleared = clear_read(allowed).unwrap();
        let origin = UpstreamOrigin { host: HeaderValue::from_static("upstream.example"), base_path: "/api".into() };
        let sent = outgoing(cleared, &origin, None, &caller, &TraceId::parse("t-1").unwrap()).unwrap();
        let mut names: Vec<_> = sent.headers.keys().map(|n| n.as_str()).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            ["accept", "accept-encoding", "authorization", "host", "traceparent", "user-agent", "x-request-id"]
        );
        assert_eq!(sent.target, "/api/v2/offramps?limit=5");
        assert_eq!(sent.headers["authorization"], "Bearer caller.own.token");
        assert!(!format!("{sent:?}").contains("caller.own.token"));
    }

    #[test]
    fn trace_context_goes_along_where_it_is_well_formed() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let passed = |parent: &str, state: &str| {
            let headers = [(TRACEPARENT, parent.parse().unwrap()), (TRACESTATE, state.parse().unwrap())];
            let passed = passed_on(&headers.into_iter().collect());
            (passed.contains_key(TRACEPARENT), passed.contains_key(TRACESTATE))
        };
        assert_eq!(passed(good, "a=1,b=2"), (true, true));
        assert_eq!(passed(good, &"x".repeat(513)), (true, false));
        assert_eq!(passed("00-nonsense", "a=1"), (false, false));
        assert_eq!(passed(&good.to_uppercase(), "a=1"), (false, false));
    }
}
