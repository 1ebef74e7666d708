//! What a store says.

use std::fmt;

use super::record::{Number, Record, StoreTime};

/// It was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    pub number: Number,
    pub at: StoreTime,
}

/// It was not done, or nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitError {
    /// Guards did not hold; nothing was written. All of them are told, in the order of the steps.
    Stood {
        at: StoreTime,
        obstacles: Vec<Obstacle>,
    },
    Fault(StoreFault),
}

/// One guard that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// Which step of the commit.
    pub step: usize,
    pub found: Found,
}

/// What was there instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// No record.
    Nothing,
    Record(Record),
    /// The store's time is another.
    Time,
    /// The index is otherwise.
    Membership,
    /// So much is in the window already.
    Used(u64),
    /// The holder has something reserved in the window already.
    Reserved,
}

/// The store did not do its part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreFault {
    /// Certainly nothing was written.
    Away(String),
    /// It may have been written, or not.
    InDoubt(String),
    /// What is stored, or what was asked, cannot be read.
    Broken(String),
}

impl StoreFault {
    pub fn as_str(&self) -> &'static str {
        match self {
            StoreFault::Away(_) => "away",
            StoreFault::InDoubt(_) => "in-doubt",
            StoreFault::Broken(_) => "broken",
        }
    }
}

impl fmt::Display for StoreFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreFault::Away(why) => write!(f, "the store did not do it: {why}"),
            StoreFault::InDoubt(why) => write!(f, "the store did not say whether it did it: {why}"),
            StoreFault::Broken(why) => write!(f, "the store holds, or was asked, what cannot be read: {why}"),
        }
    }
}

impl std::error::Error for StoreFault {}
