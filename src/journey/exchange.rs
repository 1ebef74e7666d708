//! One exchange with a caller.

use crate::adapters::otlp::Spans;
use crate::base::ids::TraceId;

/// What it is called, and what is traced of it.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub id: TraceId,
    pub spans: Spans,
}
