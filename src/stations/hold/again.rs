//! Reading a call again that waited: from its exact bytes, on the way that every call goes.

use http::Method;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};

use super::state::Hold;
use crate::base::ids::Environment;
use crate::catalog::Catalog;
use crate::stations::admit::{Admitted, Head, Known, find};
use crate::stations::check::{Intent, check};

/// The call that people saw, by the contract of now; nothing if its bytes are not that call, or no call any more.
pub fn read_again(catalog: &Catalog, environment: Environment, hold: &Hold) -> Option<Intent> {
    let sent = (&hold.method, hold.sent.target.as_str(), &*hold.sent.body);
    let intent = read_bytes(catalog, environment, sent, hold.by.clone())?;
    let is_same = intent.fingerprint() == hold.fingerprint
        && intent.operation().id == hold.operation
        && intent.name().key.name == hold.claim;
    is_same.then_some(intent)
}

/// The call that a method, a target and a body are, asked for by somebody who was admitted before.
pub fn read_bytes(
    catalog: &Catalog,
    environment: Environment,
    (method, target, body): (&Method, &str, &[u8]),
    by: Known,
) -> Option<Intent> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let found = find(catalog, Head { method, target, headers: &HeaderMap::new() }).ok()?;
    check(Admitted::again(environment, found, target, by), &headers, body).ok()
}
