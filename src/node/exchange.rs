//! One exchange with a caller: its id and its trace.

use crate::adapters::otlp::Spans;
use crate::base::ids::TraceId;
use crate::policy::{Reason, Verdict};

/// The id of an exchange and the spans of its trace.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub id: TraceId,
    pub spans: Spans,
}

/// Logs a decision at debug level.
pub fn tell_decided(id: &TraceId, verdict: &Verdict) {
    let names =
        || verdict.reasons.iter().filter_map(|Reason { cause, .. }| cause.name()).collect::<Vec<_>>().join(", ");
    tracing::debug!(request_id = id.as_str(), effect = verdict.effect.as_str(), rules = names(), "decided");
}
