//! The durations of claims, and how long each is kept.

use std::time::Duration;

use super::state::{Claim, KeyNaming};
use crate::ledger::{Keep, Versioned};

/// The durations of claims.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The time from a commit to its first byte.
    pub begin_within: Duration,
    /// The time from a commit to the moment when nobody waits for its node any more: longer than `begin_within` and the longest
    /// send together.
    pub lease: Duration,
    /// The time from an unknown outcome to the first lookup of its record.
    pub first_look: Duration,
    /// The time from the commit of an attempt to the moment when people may say that it was not executed: the last byte has
    /// arrived by then, and upstream has acted on it.
    pub quiet: Duration,
    /// How long answers are stored, and how long their tombstones.
    pub keep: Keep,
}

/// How long the claim of a call that is claimed by its path is kept.
pub(super) const FOR_GOOD: Duration = Duration::from_hours(24 * 365 * 100);

/// How long the end of a call is kept that has a claim only because it was held; and, for a call claimed by its path,
/// that it was refused.
pub(super) const FOR_A_DAY: Keep = Keep::For { whole: Duration::from_hours(24), spent: Duration::ZERO };

/// An executed claim by path is kept for good: the call has no other name under which to ask again.
pub(super) fn keep(here: Versioned<'_, Claim>, executed: bool, terms: &Terms) -> Keep {
    match (KeyNaming::of(here.key), terms.keep) {
        (KeyNaming::Path, Keep::For { whole, .. }) if executed => Keep::For { whole, spent: FOR_GOOD },
        (KeyNaming::RequestId, keep) | (KeyNaming::Path, keep @ Keep::Forever) => keep,
        (KeyNaming::Path | KeyNaming::Call, _) => FOR_A_DAY,
    }
}

/// A call that people gave up is spent for good: its tombstone is kept as long as any.
pub(super) fn keep_abandoned(here: Versioned<'_, Claim>, terms: &Terms) -> Keep {
    match KeyNaming::of(here.key) {
        KeyNaming::RequestId | KeyNaming::Path => keep(here, true, terms),
        KeyNaming::Call => terms.keep,
    }
}

/// A claim that may be sent again is kept as long as an answer. Then its requestId is spent; a call without one may be
/// made again.
pub(super) fn keep_absent(here: Versioned<'_, Claim>, terms: &Terms) -> Keep {
    match (KeyNaming::of(here.key), terms.keep) {
        (KeyNaming::RequestId, keep) | (_, keep @ Keep::Forever) => keep,
        (KeyNaming::Path | KeyNaming::Call, Keep::For { whole, .. }) => Keep::For { whole, spent: Default::default() },
    }
}
