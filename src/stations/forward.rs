//! What leaves: the one form in which a checked call goes to upstream, and what came of sending it.
//!
//! Headers are named one by one; nothing of the caller's own goes along that is not named here.

use bytes::Bytes;
use http::Method;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    InvalidHeaderValue, USER_AGENT,
};

use super::check::Intent;
use super::claim::Begun;
use super::decide::Allowed;
use crate::base::ids::TraceId;
use crate::base::secret::Secret;
use crate::base::traceparent::TraceParent;
use crate::catalog::Class;

/// The callers' headers that go along: W3C trace context.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// The longest state that goes along.
const LONGEST_STATE: usize = 512;
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const OURSELVES: HeaderValue = HeaderValue::from_static(concat!("sluice/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

/// The right to send one Intent once.
#[derive(Debug)]
pub struct Cleared {
    intent: Intent,
}

impl Cleared {
    pub fn intent(&self) -> &Intent {
        &self.intent
    }
}

/// The right to send a read that is allowed: it has no effect that could be had twice.
pub fn clear_read(intent: Intent, _allowed: &Allowed) -> Option<Cleared> {
    (intent.operation().class == Class::Read).then_some(Cleared { intent })
}

/// The right to send a read that the gate makes for itself.
pub fn clear_own_read(intent: Intent) -> Option<Cleared> {
    (intent.operation().class == Class::Read && intent.caller().is_the_gate()).then_some(Cleared { intent })
}

/// The right to send what the store knows of.
pub fn clear(intent: Intent, _begun: &Begun) -> Cleared {
    Cleared { intent }
}

/// Where upstream is, as headers and paths name it.
#[derive(Clone, Debug)]
pub struct Origin {
    pub host: HeaderValue,
    /// Before every path: empty, or such as `/api`.
    pub base_path: String,
}

/// A request, ready to be written.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub method: Method,
    pub target: String,
    pub headers: HeaderMap,
    pub body: Option<Bytes>,
}

/// What of a caller's headers goes along, also where it is sent later. What is malformed does not, and the state of a
/// trace goes with its parent or not at all.
pub fn passed_on(caller: &HeaderMap) -> HeaderMap {
    let is_parent = |value: &&HeaderValue| value.to_str().is_ok_and(|text| TraceParent::parse(text).is_some());
    let Some(parent) = caller.get(&TRACEPARENT).filter(is_parent) else { return HeaderMap::new() };
    let is_state = |value: &&HeaderValue| value.to_str().is_ok_and(|text| text.len() <= LONGEST_STATE);
    let state = caller.get(&TRACESTATE).filter(is_state).map(|state| (TRACESTATE, state.clone()));
    [(TRACEPARENT, parent.clone())].into_iter().chain(state).collect()
}

/// Uses up the right to send.
pub fn outgoing(
    cleared: Cleared,
    origin: &Origin,
    injected: Option<&Secret>,
    caller: &HeaderMap,
    trace: &TraceId,
) -> Result<Outgoing, InvalidHeaderValue> {
    let intent = cleared.intent;
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
    let target = format!("{}{}", origin.base_path, intent.target());
    Ok(Outgoing { method: intent.operation().method.clone(), target, headers, body })
}

/// What is known after sending was tried.
#[derive(Debug)]
pub enum Sent {
    /// Certainly not one byte was written.
    NotWritten,
    /// Something was written, and no answer's head came.
    Lost(Loss),
    /// A head came.
    Answered { status: u16, headers: HeaderMap, body: AnswerBody },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Upstream stayed silent until the deadline.
    Silent,
    /// The connection broke, or what came is not HTTP.
    Broken,
}

/// The body behind an answer's head.
#[derive(Debug)]
pub enum AnswerBody {
    Complete(Bytes),
    /// It stalled; or it broke off, or is larger than Sluice reads whole.
    Incomplete(Loss),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::Environment;
    use crate::catalog::{Catalog, SchemaFiles};
    use crate::policy::{Facts, Policies};
    use crate::stations::admit::{self, Head};
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
        let head = Head { method: &method, target: "/v2/offramps?limit=5", headers: &caller };
        let (found, token) = (admit::find(&catalog, head).unwrap(), admit::bearer(&caller).unwrap());
        let anyone = admit::Believed::of_anyone();
        let admitted = admit::admit(Environment::Sandbox, found, head, token, &anyone, None).unwrap();
        let intent = check(admitted, &caller, b"").unwrap();
        let decision = decide(&intent, &Policies::of_everything(&catalog), &Facts::default());
        let Decision::Allowed(allowed) = decision else { panic!("{decision:?}") };
        let cleared = clear_read(intent, &allowed).unwrap();
        let origin = Origin { host: HeaderValue::from_static("upstream.example"), base_path: "/api".into() };
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
