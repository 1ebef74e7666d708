//! Which gate follows upstream's list, and how far it read. One gate at a time does, under a lease.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::payment::{FORMAT, UnreadableFollowed, encode};
use crate::audit::{Entry, EntryKind};
use crate::base::ids::{Environment, OperationId};
use crate::base::json;
use crate::ledger::{Commit, Index, Keep, Kind, NodeId, Number, RecordKey, Sender, Step, StoreTime};
use crate::stations::claim::Freeze;

/// The most records of one moment that a baseline lists.
const MAX_AT_BASELINE: usize = 100;

/// What upstream had listed when the installation began to follow it. Times are upstream's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Baseline {
    /// The time of the latest record; 0 where there was none.
    #[serde(rename = "latestMicros")]
    pub latest: i64,
    /// The records of that very moment.
    pub ids: Vec<String>,
}

impl Baseline {
    /// Takes the records of the first page, each with its time. Nothing later than `bound` counts.
    pub fn of<'r>(records: impl Iterator<Item = (&'r str, i64)> + Clone, bound: i64) -> Baseline {
        let latest = records.clone().map(|(_, created)| created).filter(|created| *created <= bound).max();
        let latest = latest.unwrap_or_default();
        let ids = records.filter(|(_, created)| *created == latest).map(|(id, _)| id.to_owned());
        Baseline { latest, ids: ids.take(MAX_AT_BASELINE).collect() }
    }

    /// Returns whether a record is older than the installation.
    pub fn contains(&self, id: &str, created: i64) -> bool {
        created < self.latest || (created == self.latest && self.ids.iter().any(|known| known == id))
    }
}

/// The state of following one list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FollowProgress {
    /// The gate that follows.
    pub gate: Sender,
    /// The end of its lease.
    #[serde(rename = "untilMicros")]
    pub until: StoreTime,
    pub baseline: Baseline,
    /// The time of the latest record that was read, by upstream's clock.
    #[serde(rename = "headMicros")]
    pub head: i64,
    /// Where reading of older records goes on; `None`: from the latest ones.
    #[serde(rename = "cursorMicros")]
    pub cursor: Option<i64>,
}

impl FollowProgress {
    /// Whether this gate may read now.
    pub fn is_free_for(&self, gate: &Sender, now: StoreTime) -> bool {
        self.gate == *gate || self.until <= now
    }
}

pub fn progress_key(environment: Environment, operation: &OperationId) -> RecordKey {
    RecordKey { environment, kind: Kind::Followed, name: format!("progress/{operation}") }
}

pub fn decode_progress(bytes: &[u8]) -> Result<FollowProgress, UnreadableFollowed> {
    Ok(json::from_record(bytes, FORMAT)?)
}

/// The commit by which a gate takes the lease, or extends its own. `before` is the version of the record that it read.
/// `forgotten` are members of the list of foreign records that are too old.
pub fn take_over(
    environment: Environment,
    operation: &OperationId,
    before: Option<Number>,
    progress: &FollowProgress,
    forgotten: &[String],
    node: &NodeId,
) -> Commit {
    let (key, value, keep) = (progress_key(environment, operation), encode(progress), Keep::Forever);
    let mut steps = vec![match before {
        None => Step::Create { key, value, keep },
        Some(version) => Step::Replace { key, version, value, keep },
    }];
    steps.push(Step::Absent(Freeze::Restored.key(environment)));
    steps.extend(forgotten.iter().map(|member| Step::IndexRemove { index: Index::Foreign, member: member.clone() }));
    let entry = Entry::of(EntryKind::Follows).operation(operation).with("node", node.as_str());
    let entry = if before.is_none() { entry.with("baseline", progress.baseline.latest) } else { entry };
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// How long a lease lasts, for this pause between two readings.
pub fn lease_for(interval: Duration) -> Duration {
    interval.saturating_mul(3).max(Duration::from_secs(3))
}
