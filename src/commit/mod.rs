//! The commit language: all that a store can be asked to do.
//!
//! A store is dumb and atomic. It keeps versioned records, windows and indexes that are ordered by time, and it does
//! one [`Commit`] at a time: every guard is looked at before anything is written, and all of it is written or nothing.
//! What a claim, a hold or a limit means is not known here, nor to any store; it is written once, in the stations.

mod answer;
mod record;
mod step;

pub use answer::{CommitError, Committed, Found, Obstacle, StoreFault};
pub use record::{Content, Index, Keep, Kind, NodeId, Number, Outstanding, Record, RecordKey, StoreTime};
pub use step::{Commit, MAX_UNITS, Span, Step, WindowKey};
