//! Rebuilds a held call from its exact bytes, through the same checks as every call.

use http::Method;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};

use super::state::Hold;
use crate::base::ids::Environment;
use crate::catalog::Catalog;
use crate::stations::admit::{Admitted, KnownCaller, RequestHead, find};
use crate::stations::check::{Intent, check};

/// Rebuilds the call that people saw, by today's contract; `None` where its bytes are no longer that call.
pub fn read_again(catalog: &Catalog, environment: Environment, hold: &Hold) -> Option<Intent> {
    let sent = (&hold.method, hold.sent.target.as_str(), &*hold.sent.body);
    let intent = read_bytes(catalog, environment, sent, hold.by.clone())?;
    let is_same = intent.fingerprint() == hold.fingerprint
        && intent.operation().id == hold.operation
        && intent.name().key.name == hold.claim;
    is_same.then_some(intent)
}

/// Rebuilds a call from a method, a target and a body, for a caller who was admitted before.
pub fn read_bytes(
    catalog: &Catalog,
    environment: Environment,
    (method, target, body): (&Method, &str, &[u8]),
    by: KnownCaller,
) -> Option<Intent> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let found = find(catalog, RequestHead { method, target, headers: &HeaderMap::new() }).ok()?;
    check(Admitted::again(environment, found, target, by), &headers, body).ok()
}
