//! The fence between two primaries: after a split the former one and the promoted one would both carry money.
//!
//! Behind Sentinels, or in a cluster, a gate pays only while a majority of them (of the primaries of the cluster) named
//! its primary within the last half of the fence. And a primary that was promoted carries no money until the whole fence
//! is over since then. So the last payment by the former primary is over before the first one by the new.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::ids::Environment;

/// The fence of one gate. A Redis whose address is fixed is not fenced.
#[derive(Debug, Default)]
pub struct Fence {
    length: Option<Duration>,
    state: Mutex<FenceState>,
}

#[derive(Debug, Default)]
struct FenceState {
    /// When this gate began to ask the majority that named its primary last, of each environment.
    named: BTreeMap<Environment, Duration>,
    /// When the primary of this gate may carry money, in each environment.
    carries: BTreeMap<Environment, Duration>,
}

/// Why a gate does not pay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceStop {
    /// No majority named its primary lately.
    Unnamed,
    /// Its primary was promoted a short time ago.
    Promoted,
}

impl FenceStop {
    /// Describes the stop in words for people.
    pub fn text(self) -> &'static str {
        match self {
            FenceStop::Unnamed => {
                "no majority of the Sentinels, or of the primaries of the cluster, names the primary that this gate uses"
            }
            FenceStop::Promoted => {
                "the primary was started or promoted a short time ago, and another one may still be in use"
            }
        }
    }
}

impl Fence {
    /// Fences a Redis whose primary others name, if its length is given.
    pub fn new(length: Option<Duration>) -> Fence {
        Fence { length, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, FenceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a majority, which was asked from `asked` on, named the primary in use of these environments.
    pub fn named(&self, environments: &[Environment], asked: Duration) {
        let mut state = self.state();
        for environment in environments {
            let latest = state.named.entry(*environment).or_insert(asked);
            *latest = asked.max(*latest);
        }
    }

    /// Notes that this gate uses another connection for these environments: what was known of the primary is not known of
    /// this one.
    pub fn begins_anew(&self, environments: &[Environment]) {
        let mut state = self.state();
        for environment in environments {
            state.named.remove(environment);
            state.carries.remove(environment);
        }
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
        let until = state.named.get(&environment).map(|named| named.saturating_add(length / 2));
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
    const ALL: &[Environment] = &Environment::ALL;

    #[test]
    fn a_former_primary_ends_before_a_promoted_one_begins() {
        let (old, new) = (Fence::new(Some(Duration::from_secs(6))), Fence::new(Some(Duration::from_secs(6))));
        let at = |millis: u64| Duration::from_millis(millis);
        assert_eq!(old.open_at(PRODUCTION, at(0)), Err(FenceStop::Unnamed));
        old.named(ALL, at(1_000));
        assert_eq!(old.open_at(PRODUCTION, at(1_000)), Err(FenceStop::Promoted));
        old.meets(PRODUCTION, at(1_000), None);
        assert_eq!(old.open_at(PRODUCTION, at(1_000)), Ok(at(3_000)));
        assert_eq!(old.open_at(PRODUCTION, at(3_999)), Ok(at(1)));
        assert_eq!(old.open_at(PRODUCTION, at(4_000)), Err(FenceStop::Unnamed));
        // An answer to an earlier question is no later word.
        old.named(ALL, at(2_000));
        old.named(ALL, at(1_500));
        assert_eq!(old.open_at(PRODUCTION, at(4_999)), Ok(at(1)));
        assert_eq!(old.open_at(PRODUCTION, at(5_000)), Err(FenceStop::Unnamed));
        // It was promoted at 2,000 at the earliest.
        new.named(ALL, at(2_500));
        new.meets(PRODUCTION, at(2_500), Some(at(500)));
        new.named(ALL, at(7_900));
        assert_eq!(new.open_at(PRODUCTION, at(7_999)), Err(FenceStop::Promoted));
        assert_eq!(new.open_at(PRODUCTION, at(8_000)), Ok(at(2_900)));
        assert_eq!(new.open_at(Environment::Sandbox, at(8_000)), Err(FenceStop::Promoted));
        // Of a cluster, each environment has a primary of its own.
        new.meets(Environment::Sandbox, at(8_000), None);
        new.begins_anew(&[PRODUCTION]);
        assert_eq!(new.open_at(PRODUCTION, at(8_000)), Err(FenceStop::Unnamed));
        assert_eq!(new.open_at(Environment::Sandbox, at(8_000)), Ok(at(2_900)));
        new.named(&[Environment::Sandbox], at(9_000));
        assert_eq!(new.open_at(PRODUCTION, at(9_000)), Err(FenceStop::Unnamed));
    }

    #[test]
    fn a_redis_whose_address_is_fixed_is_not_fenced() {
        assert_eq!(Fence::default().open_at(PRODUCTION, Duration::ZERO), Ok(Duration::MAX));
    }
}
