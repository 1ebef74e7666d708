//! The language of commits: everything that a store can be asked to do.
//!
//! A store is simple and atomic. It keeps versioned records, windows, and indexes that are ordered by time. It makes
//! one [`Commit`] at a time: it checks every guard before it writes anything, and writes all or nothing. No store knows
//! the meaning of claims, holds or limits; the stations define it once.

mod answer;
mod clock;
mod query;
mod record;
mod step;

pub use answer::{CommitError, Conflict, ConflictCause, Receipt, StoreFault, WriteRefusal};
pub use clock::{ClockAnchor, ClockLeap, TimeBounds};
pub use query::{IndexPart, Query, QueryAnswer};
pub use record::{
    Content, Index, InstallationId, JournalId, Keep, Kind, NodeId, Number, Outstanding, Record, RecordKey, Sender,
    StoreTime, Versioned,
};
pub use step::{Commit, MAX_UNITS, Step, WindowKey, WindowSpan};
