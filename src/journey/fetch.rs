//! A read whose answer is checked before the caller hears it.

use http::HeaderMap;

use super::Road;
use crate::base::ids::TraceId;
use crate::stations::forward::Cleared;
use crate::stations::reply::{Fetched, fetched};

pub async fn fetch(road: &Road, cleared: Cleared, headers: &HeaderMap, trace: &TraceId) -> Fetched {
    let operation = cleared.intent().operation().clone();
    let sent = road.send(cleared, None, headers, trace).await;
    fetched(&operation, road.credential.is_injected(), sent)
}
