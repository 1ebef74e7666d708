//! How a header names a snapshot.

use super::hash::Hash;

/// Names a snapshot: all that the files before one of them say of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotLink {
    /// The first file that is still needed beside it.
    pub sequence: u64,
    pub sha256: Hash,
}
