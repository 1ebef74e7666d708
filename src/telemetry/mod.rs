//! What can be watched: every metric and every field of the log, each named in one place.
//!
//! Labels are bounded: operations, environments and codes, never a path, a person, a wallet or an amount.

mod human;
mod log;
mod metrics;
pub mod tally;

pub use log::{ConsoleLine, RequestLine, Times, init};
pub use metrics::{Metrics, RateCounters};
