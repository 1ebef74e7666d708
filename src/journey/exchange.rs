//! One exchange with a caller.

use crate::adapters::otlp::Spans;
use crate::base::ids::TraceId;
use crate::policy::{Reason, Verdict};

/// What it is called, and what is traced of it.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub id: TraceId,
    pub spans: Spans,
}

/// What was decided of a call, for those who look closely.
pub fn tell_decided(id: &TraceId, verdict: &Verdict) {
    let names =
        || verdict.reasons.iter().filter_map(|Reason { cause, .. }| cause.name()).collect::<Vec<_>>().join(", ");
    tracing::debug!(request_id = id.as_str(), effect = verdict.effect.as_str(), rules = names(), "decided");
}
