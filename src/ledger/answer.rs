//! The answers of a store.

use bytes::Bytes;
use thiserror::Error;

use crate::base::word_enum::word_enum;

use super::record::{Number, Record, StoreTime};

/// A store's proof that it made a commit. Only stores make one (`tidy` looks), and nobody can copy it, so that one
/// commit begins one attempt.
#[derive(Debug, PartialEq, Eq)]
pub struct Receipt {
    number: Number,
    at: StoreTime,
    entry: Bytes,
}

impl Receipt {
    /// For stores, after the commit.
    pub fn new(number: Number, at: StoreTime, entry: Bytes) -> Receipt {
        Receipt { number, at, entry }
    }

    /// The audit number of the commit.
    pub fn number(&self) -> Number {
        self.number
    }

    /// The store's time of the commit.
    pub fn at(&self) -> StoreTime {
        self.at
    }

    /// The entry of the commit, with all that a journal keeps of it.
    pub fn entry(&self) -> &Bytes {
        &self.entry
    }
}

/// The commit was not made, or nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitError {
    /// Guards did not hold, so nothing was written. The conflicts are in the order of the steps.
    Rejected {
        at: StoreTime,
        conflicts: Vec<Conflict>,
    },
    Fault(StoreFault),
}

/// One guard that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The index of the step in the commit.
    pub step: usize,
    pub found: ConflictCause,
}

/// The fact that contradicts a guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConflictCause {
    /// No record.
    Nothing,
    Record(Record),
    /// The store's time is outside of the guard.
    Time,
    /// The membership in the index differs.
    Membership,
    /// The window holds this much already.
    Used(u64),
    /// The holder has a reservation in the window already.
    Reserved,
}

word_enum! {
    /// Why a store that answers queries refuses writes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum WriteRefusal {
        Memory = "memory",
        Replicas = "replicas",
        Replica = "replica",
        Disk = "disk",
    }
}

impl WriteRefusal {
    /// Returns the rest of a sentence that begins with "the store refuses writes: ".
    pub fn explanation(self) -> &'static str {
        match self {
            WriteRefusal::Memory => "its memory is full (`maxmemory`)",
            WriteRefusal::Replicas => "too few of its replicas are connected (`min-replicas-to-write`)",
            WriteRefusal::Replica => "it is a replica",
            WriteRefusal::Disk => "it cannot save its data, because its disk is full or fails",
        }
    }

    /// Returns what an operator does about it.
    pub fn remedy(self) -> &'static str {
        match self {
            WriteRefusal::Memory => "give the Redis more memory and raise `maxmemory`; it must not evict records",
            WriteRefusal::Replicas => "start its replicas, and check the network between them and the primary",
            WriteRefusal::Replica => "name its primary, or promote it if there is no primary any more",
            WriteRefusal::Disk => "make room on the disk of the store, or replace that disk",
        }
    }
}

/// The store failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreFault {
    /// Certainly nothing was written.
    #[error("the store is unavailable; nothing was written: {0}")]
    Away(String),
    /// The write may have happened.
    #[error("the store did not confirm the write, which may have happened: {0}")]
    InDoubt(String),
    /// A record, or a request to the store, cannot be read.
    #[error("a record in the store, or a request to it, is invalid: {0}")]
    Broken(String),
    /// The store waits for journals, and may be rebuilt from one of them without what is done now. Nothing was written.
    #[error(
        "the store waits for the journals of other gates, and may be rebuilt without what is done now: nothing was done; \
         `sluice doctor` says which gates are awaited"
    )]
    AwaitsJournals,
    /// No majority names the Redis that this gate uses: another one may be in use, and what is done at this one may be lost.
    /// Nothing was written.
    #[error(
        "this gate is cut off from the majority of the Sentinels, or of the cluster, and another Redis may be in use: nothing \
         was done; use another gate, or try again when `sluice doctor` says that no split is fenced off"
    )]
    FencedOff,
    /// A person's acts may leave no further entries for now. Nothing was written.
    #[error("acts of this person may leave no further entries in the audit log for {retry_secs} s: nothing was done")]
    NoRoomForEntry { retry_secs: u64 },
}

impl StoreFault {
    pub fn as_str(&self) -> &'static str {
        match self {
            StoreFault::Away(_) => "away",
            StoreFault::InDoubt(_) => "in-doubt",
            StoreFault::Broken(_) => "broken",
            StoreFault::AwaitsJournals => "awaits-journals",
            StoreFault::FencedOff => "fenced-off",
            StoreFault::NoRoomForEntry { .. } => "no-room-for-entry",
        }
    }
}
