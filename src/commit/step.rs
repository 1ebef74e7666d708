//! What can be asked at one stroke.

use std::time::Duration;

use bytes::Bytes;

use super::record::{Index, Keep, NodeId, Number, RecordKey, StoreTime};
use crate::base::ids::Environment;

/// One atomic step of a store. It takes the next number of its environment, and leaves its Entry in the outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Every step is of this environment.
    pub environment: Environment,
    /// Whose file the Entry is for.
    pub node: NodeId,
    pub steps: Vec<Step>,
    /// A JSON object.
    pub entry: Bytes,
}

/// The most that a window ever holds, whatever its limit: what every store can count exactly.
pub const MAX_UNITS: u64 = (1 << 53) - 1;

/// A guard, a write, or a write with its guard. No two steps of a commit write the same record, member or window: such
/// a commit is refused as broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is no such record, not even a spent one.
    Absent(RecordKey),
    /// The record stands as that commit wrote it, and is not spent.
    Version {
        key: RecordKey,
        version: Number,
    },
    /// The store's time is before this.
    Before(StoreTime),
    /// The store's time is this or later.
    After(StoreTime),
    /// The number of this commit, and so of every later one, is above this.
    Above(Number),
    Member {
        index: Index,
        member: String,
    },
    NotMember {
        index: Index,
        member: String,
    },

    /// Guarded: absent.
    Create {
        key: RecordKey,
        value: Bytes,
        keep: Keep,
    },
    /// Guarded: of this version, not spent.
    Replace {
        key: RecordKey,
        version: Number,
        value: Bytes,
        keep: Keep,
    },
    /// Guarded: of this version, not spent.
    Delete {
        key: RecordKey,
        version: Number,
    },

    /// Puts a member into an index, or moves it there: due so long after this commit.
    IndexAdd {
        index: Index,
        member: String,
        due: Duration,
    },
    /// Takes a member out, if it is in.
    IndexRemove {
        index: Index,
        member: String,
    },

    /// Guarded: with `units` the window holds no more than `max`, and this holder has nothing reserved in it.
    Reserve {
        window: WindowKey,
        span: Span,
        holder: String,
        units: u64,
        max: u64,
    },
    /// Reserves whatever the window holds already, up to [`MAX_UNITS`]. Guarded: this holder has nothing reserved in it.
    Force {
        window: WindowKey,
        span: Span,
        holder: String,
        units: u64,
    },
    /// What this holder reserved counts for good. Nothing if there is no such reservation.
    Settle {
        window: WindowKey,
        holder: String,
    },
    /// What this holder reserved no longer counts. Nothing if there is no such reservation.
    GiveBack {
        window: WindowKey,
        holder: String,
    },
}

/// What was spent under one limit for one value of its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WindowKey {
    pub limit: String,
    pub key: String,
}

/// Over which time a window counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// The last `bucket * count`; the oldest bucket counts whole, so that nothing counts for less than that time. Buckets
    /// begin at multiples of their length since 1970.
    Rolling { bucket: Duration, count: u32 },
    /// From a fixed time to another; a reservation outside of it is guarded against.
    Fixed { from: StoreTime, to: StoreTime },
}
