//! The steps of a commit.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::record::{Index, Keep, NodeId, Number, RecordKey, StoreTime};
use crate::base::digest::Fingerprint;
use crate::base::ids::Environment;
use crate::base::json;

/// One atomic commit. It takes the next number of its environment, and leaves its entry in the outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Every step is of this environment.
    pub environment: Environment,
    /// The node whose file the entry is for.
    pub node: NodeId,
    pub steps: Vec<Step>,
    /// A JSON object.
    pub entry: Bytes,
}

/// The most that a window ever holds, whatever its limit: every store can count it exactly.
pub const MAX_UNITS: u64 = (1 << 53) - 1;

/// A guard, a write, or a guarded write. As JSON it names its value by digest, and a step that was read has the digest in
/// the place of its value until whoever has the values puts them there. No two steps of a commit write the same record, member or window: such a
/// commit is refused as broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Step {
    /// Guards that no such record exists, not even a tombstone.
    Absent(RecordKey),
    /// Guards that the record is of this version, and no tombstone.
    Version {
        key: RecordKey,
        version: Number,
    },
    /// Guards that the store's time is before this.
    Before(StoreTime),
    /// Guards that the store's time is this or later.
    After(StoreTime),
    /// Lifts the number of this commit, and so of every later one, above this.
    Above(Number),
    /// Commits although the store's clock leapt, which makes other commits late.
    KeepPace,
    /// Sets the microseconds that are added to the store's clock.
    CorrectClock {
        micros: i64,
    },
    /// Has the store's time follow its clock again, whatever it shows.
    FollowClock,
    Member {
        index: Index,
        member: String,
    },
    NotMember {
        index: Index,
        member: String,
    },
    /// Guards that the member is in the index with this time or an earlier one.
    Since {
        index: Index,
        member: String,
        at: StoreTime,
    },
    /// Guards that the member is not in the index, or with a later time.
    NotSince {
        index: Index,
        member: String,
        at: StoreTime,
    },

    /// Guarded: absent.
    Create {
        key: RecordKey,
        #[serde(with = "value_by_digest")]
        value: Bytes,
        keep: Keep,
    },
    /// Guarded: of this version, not spent.
    Replace {
        key: RecordKey,
        version: Number,
        #[serde(with = "value_by_digest")]
        value: Bytes,
        keep: Keep,
    },
    /// Guarded: of this version, not spent.
    Delete {
        key: RecordKey,
        version: Number,
    },

    /// Puts a member into an index, or moves it there; it is due this long after the commit.
    IndexAdd {
        index: Index,
        member: String,
        #[serde(rename = "dueMicros", with = "json::written_as::micros")]
        due: Duration,
    },
    /// Puts a member into an index with the time of the commit less `ago`; a member with an earlier time stays where it
    /// is.
    IndexEarliest {
        index: Index,
        member: String,
        #[serde(rename = "agoMicros", with = "json::written_as::micros")]
        ago: Duration,
    },
    /// Removes a member, if it is in the index.
    IndexRemove {
        index: Index,
        member: String,
    },

    /// Guarded: with `units` the window holds at most `max`, and this holder has no reservation in it.
    Reserve {
        window: WindowKey,
        span: WindowSpan,
        holder: String,
        units: u64,
        max: u64,
    },
    /// Reserves whatever the window holds already, up to [`MAX_UNITS`]. Guarded: this holder has no reservation in it.
    Force {
        window: WindowKey,
        span: WindowSpan,
        holder: String,
        units: u64,
    },
    /// Counts units for good in the time of `at`, whatever the window holds already, up to [`MAX_UNITS`]. Where no window
    /// reaches back to that time any more, it does nothing.
    Book {
        window: WindowKey,
        span: WindowSpan,
        units: u64,
        at: StoreTime,
    },
    /// Takes units away that count for good in the time of `at`, at most as many as its slot has. Where no window reaches
    /// back to that time any more, it does nothing.
    Unbook {
        window: WindowKey,
        span: WindowSpan,
        units: u64,
        at: StoreTime,
    },
    /// Makes this holder's reservation count for good. Without a reservation it does nothing.
    Settle {
        window: WindowKey,
        holder: String,
    },
    /// Gives this holder's reservation back. Without a reservation it does nothing.
    GiveBack {
        window: WindowKey,
        holder: String,
    },
}

/// Writes a value as its digest in base64; reads the digest.
mod value_by_digest {
    use bytes::Bytes;
    use serde::{Deserializer, Serializer};

    use super::Step;
    use crate::base::json::written_as::base64;

    pub fn serialize<S: Serializer>(value: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        base64::serialize(&Step::digest_of_value(value), serializer)
    }

    pub fn deserialize<'t, D: Deserializer<'t>>(deserializer: D) -> Result<Bytes, D::Error> {
        base64::deserialize(deserializer)
    }
}

/// The window of one limit for one value of its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowKey {
    pub limit: String,
    pub key: String,
}

impl WindowKey {
    /// Returns whether it counts for a limit of the policies. The names of the gate's own windows have parentheses.
    pub fn is_of_policy(&self) -> bool {
        !self.limit.starts_with('(')
    }
}

impl Step {
    /// Returns the value that it writes.
    pub fn value(&self) -> Option<&Bytes> {
        match self {
            Step::Create { value, .. } | Step::Replace { value, .. } => Some(value),
            _ => None,
        }
    }

    pub fn value_mut(&mut self) -> Option<&mut Bytes> {
        match self {
            Step::Create { value, .. } | Step::Replace { value, .. } => Some(value),
            _ => None,
        }
    }

    /// Returns what stands in the place of the value in a step that was read.
    pub fn digest_of_value(value: &[u8]) -> Bytes {
        Fingerprint::of(&[value]).as_bytes().to_vec().into()
    }

    /// Returns the record that it is about.
    pub fn record(&self) -> Option<&RecordKey> {
        match self {
            Step::Absent(key)
            | Step::Version { key, .. }
            | Step::Create { key, .. }
            | Step::Replace { key, .. }
            | Step::Delete { key, .. } => Some(key),
            Step::Before(_)
            | Step::After(_)
            | Step::Above(_)
            | Step::KeepPace
            | Step::CorrectClock { .. }
            | Step::FollowClock
            | Step::Member { .. }
            | Step::NotMember { .. }
            | Step::Since { .. }
            | Step::NotSince { .. }
            | Step::IndexAdd { .. }
            | Step::IndexEarliest { .. }
            | Step::IndexRemove { .. }
            | Step::Reserve { .. }
            | Step::Force { .. }
            | Step::Book { .. }
            | Step::Unbook { .. }
            | Step::Settle { .. }
            | Step::GiveBack { .. } => None,
        }
    }

    /// Whether it writes or removes a record.
    pub fn writes(&self, written: &RecordKey) -> bool {
        match self {
            Step::Create { key, .. } | Step::Replace { key, .. } | Step::Delete { key, .. } => key == written,
            _ => false,
        }
    }

    /// Whether a journal keeps it: sessions end with the store that held them.
    pub fn is_journalled(&self) -> bool {
        self.record().is_none_or(|key| key.kind.is_journalled())
    }
}

/// The time that a window covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum WindowSpan {
    /// The last `bucket * count`; the oldest bucket counts whole, so that nothing counts for less than that time. Buckets
    /// begin at multiples of their length since 1970.
    Rolling {
        #[serde(rename = "bucketMicros", with = "json::written_as::micros")]
        bucket: Duration,
        count: u32,
    },
    /// From one fixed time to another. A reservation outside of it is a conflict.
    Fixed { from: StoreTime, to: StoreTime },
}

impl WindowSpan {
    /// From the first time to the last one. Every store can write both exactly.
    pub const ALWAYS: WindowSpan =
        WindowSpan::Fixed { from: StoreTime::of_micros(0), to: StoreTime::of_micros((1 << 53) - 1) };

    /// Returns whether what was reserved at a time may still count at a later one.
    pub fn still_counts(self, reserved: StoreTime, now: StoreTime) -> bool {
        match self {
            // The bucket of the reservation ends before it is one bucket old.
            WindowSpan::Rolling { bucket, count } => {
                now.since(reserved) < bucket.saturating_mul(count.saturating_add(1))
            }
            WindowSpan::Fixed { from, to } => from <= now && now < to,
        }
    }
}
