//! The fence between two primaries: after a split the former one and the promoted one would both carry money.
//!
//! Behind Sentinels a gate pays only while a majority of them named its primary within the last half of the fence. And a
//! primary that was promoted carries no money until the whole fence is over since then. So the last payment by the former
//! primary is over before the first one by the new.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::ids::Environment;

/// The fence of one gate. Without Sentinels nothing is fenced.
#[derive(Debug, Default)]
pub struct Fence {
    length: Option<Duration>,
    state: Mutex<FenceState>,
}

#[derive(Debug, Default)]
struct FenceState {
    /// When this gate began to ask the Sentinels that named its primary last.
    named: Option<Duration>,
    /// When the primary of this gate may carry money, in each environment.
    carries: BTreeMap<Environment, Duration>,
}

/// Why a gate does not pay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceStop {
    /// No majority of the Sentinels named its primary lately.
    Unnamed,
    /// Its primary was promoted a short time ago.
    Promoted,
}

impl FenceStop {
    /// Describes the stop in words for people.
    pub fn text(self) -> &'static str {
        match self {
            FenceStop::Unnamed => "no majority of the Sentinels names the primary that this gate uses",
            FenceStop::Promoted => {
                "the primary was started or promoted a short time ago, and another one may still be in use"
            }
        }
    }
}

impl Fence {
    /// Fences a Redis that Sentinels name, if its length is given.
    pub fn new(length: Option<Duration>) -> Fence {
        Fence { length, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, FenceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a majority of the Sentinels, which were asked from `asked` on, named the primary in use.
    pub fn named(&self, asked: Duration) {
        let mut state = self.state();
        state.named = state.named.max(Some(asked));
    }

    /// Notes that this gate uses another connection: what was known of the primary is not known of this one.
    pub fn begins_anew(&self) {
        *self.state() = FenceState::default();
    }

    /// Notes how long ago the gates met the primary in use first, as a heartbeat that was answered at `now` found it; `None`
    /// for the one with which the store was created.
    pub fn meets(&self, environment: Environment, now: Duration, since: Option<Duration>) {
        let Some(length) = self.length else { return };
        let left = since.map_or(Duration::ZERO, |since| length.saturating_sub(since));
        self.state().carries.insert(environment, now.saturating_add(left));
    }

    /// Returns how long this gate may still pay, at this time of its monotonic clock.
    pub fn open_at(&self, environment: Environment, now: Duration) -> Result<Duration, FenceStop> {
        let Some(length) = self.length else { return Ok(Duration::MAX) };
        let state = self.state();
        let until = state.named.map(|named| named.saturating_add(length / 2));
        let left = until.and_then(|until| until.checked_sub(now)).filter(|left| !left.is_zero());
        let left = left.ok_or(FenceStop::Unnamed)?;
        let carries = state.carries.get(&environment).is_some_and(|from| *from <= now);
        if carries { Ok(left) } else { Err(FenceStop::Promoted) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRODUCTION: Environment = Environment::Production;

    #[test]
    fn a_former_primary_ends_before_a_promoted_one_begins() {
        let (old, new) = (Fence::new(Some(Duration::from_secs(6))), Fence::new(Some(Duration::from_secs(6))));
        let at = |millis: u64| Duration::from_millis(millis);
        assert_eq!(old.open_at(PRODUCTION, at(0)), Err(FenceStop::Unnamed));
        old.named(at(1_000));
        assert_eq!(old.open_at(PRODUCTION, at(1_000)), Err(FenceStop::Promoted));
        old.meets(PRODUCTION, at(1_000), None);
        assert_eq!(old.open_at(PRODUCTION, at(1_000)), Ok(at(3_000)));
        assert_eq!(old.open_at(PRODUCTION, at(3_999)), Ok(at(1)));
        assert_eq!(old.open_at(PRODUCTION, at(4_000)), Err(FenceStop::Unnamed));
        // An answer to an earlier question is no later word.
        old.named(at(2_000));
        old.named(at(1_500));
        assert_eq!(old.open_at(PRODUCTION, at(4_999)), Ok(at(1)));
        assert_eq!(old.open_at(PRODUCTION, at(5_000)), Err(FenceStop::Unnamed));
        // It was promoted at 2,000 at the earliest.
        new.named(at(2_500));
        new.meets(PRODUCTION, at(2_500), Some(at(500)));
        new.named(at(7_900));
        assert_eq!(new.open_at(PRODUCTION, at(7_999)), Err(FenceStop::Promoted));
        assert_eq!(new.open_at(PRODUCTION, at(8_000)), Ok(at(2_900)));
        assert_eq!(new.open_at(Environment::Sandbox, at(8_000)), Err(FenceStop::Promoted));
        new.begins_anew();
        assert_eq!(new.open_at(PRODUCTION, at(8_000)), Err(FenceStop::Unnamed));
    }

    #[test]
    fn a_redis_without_sentinels_is_not_fenced() {
        assert_eq!(Fence::default().open_at(PRODUCTION, Duration::ZERO), Ok(Duration::MAX));
    }
}
