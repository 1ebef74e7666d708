//! What can be watched: every metric, every field of the log and every span, each named in one place.
//!
//! Labels are bounded: operations, environments and codes, never a path, a person, a wallet or an amount.

mod fields;
mod human;
mod log;
mod metrics;
mod spans;
pub mod tally;

pub use fields::FIELDS;
pub use log::{ConsoleLine, RequestLine, Times, init, set_level};
pub use metrics::{Described, METRICS, Metrics, RateCounters, RequestMeters, StoreMeter, Usage};
pub use spans::{ATTRIBUTES, Station};
