//! Telemetry: every metric, every log field and every span, each defined in one place.
//!
//! Labels are bounded: operations, environments and codes, never a path, a person, a wallet or an amount.

mod fields;
mod gathering_queue;
mod human;
mod json_line;
mod log;
mod log_writer;
mod metrics;
mod progress;
mod spans;
pub mod tally;
mod told_causes;

pub use fields::FIELDS;
pub use gathering_queue::GatheringQueue;
pub use log::{ConsoleLine, RequestLine, Times, init, init_in, set_level};
pub use metrics::{Described, METRICS, Metrics, RateCounters, RequestMeters, StoreMeter, UnlistedRefusal, Usage};
pub use progress::{JobProgress, PROGRESS_INTERVAL};
pub use spans::{ATTRIBUTES, Station};
pub use told_causes::ToldCauses;
