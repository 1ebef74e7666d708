//! The fence between two primaries: after a split the former one and the promoted one would both carry money.
//!
//! Behind Sentinels, or in a cluster, a gate pays only while a majority of them (of the primaries of the cluster) named
//! its primary within the last half of the fence, and had named it for a whole fence without a pause. So whatever the
//! majority named before, the last payment by that primary is over before the first one by this one. That holds at a
//! start as well, and where Sentinels go back to a former primary. Of gates with different fences, the longest counts.

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
    /// The primary that this gate uses for an environment, as a majority named it.
    named: BTreeMap<Environment, MajorityWord>,
    /// When the primary of this gate may carry money, in each environment.
    carries: BTreeMap<Environment, Duration>,
    /// The longest fence that another gate told of.
    others: Duration,
}

/// A primary, and the time for which a majority has named it without a pause.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MajorityWord {
    primary: String,
    since: Duration,
    /// When this gate began to ask the majority that named it last.
    latest: Duration,
}

/// Why a gate does not pay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceStop {
    /// No majority named its primary lately.
    Unnamed,
    /// Its primary has been named for a short time only.
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
                "the majority has named this primary for a short time only, and another one may still be in use"
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
    pub fn named(&self, environments: &[Environment], primary: &str, asked: Duration) {
        let pause = self.length.unwrap_or_default() / 2;
        let mut state = self.state();
        for environment in environments {
            let goes_on = state
                .named
                .get_mut(environment)
                .filter(|word| word.primary == primary && asked < word.latest.saturating_add(pause));
            match goes_on {
                Some(word) => word.latest = asked.max(word.latest),
                None => {
                    let word = MajorityWord { primary: primary.to_owned(), since: asked, latest: asked };
                    state.named.insert(*environment, word);
                }
            }
        }
    }

    /// Notes that this gate uses another connection for these environments: what is known of another primary is not known
    /// of this one.
    pub fn begins_anew(&self, environments: &[Environment], primary: Option<&str>) {
        let mut state = self.state();
        for environment in environments {
            state.carries.remove(environment);
            if state.named.get(environment).is_some_and(|word| Some(word.primary.as_str()) != primary) {
                state.named.remove(environment);
            }
        }
    }

    /// Returns the length of the fence of this gate.
    pub fn length(&self) -> Option<Duration> {
        self.length
    }

    /// Notes the longest fence of other gates: one of them may pay for half of it after its primary was replaced.
    pub fn others_have(&self, longest: Duration) {
        let mut state = self.state();
        state.others = state.others.max(longest);
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
        let word = state.named.get(&environment).ok_or(FenceStop::Unnamed)?;
        let left = word.latest.saturating_add(length / 2).checked_sub(now).filter(|left| !left.is_zero());
        let left = left.ok_or(FenceStop::Unnamed)?;
        let is_over = word.since.saturating_add(length.max(state.others)) <= now;
        let carries = state.carries.get(&environment).is_some_and(|from| *from <= now);
        if is_over && carries { Ok(left) } else { Err(FenceStop::Promoted) }
    }

    /// Whether another primary may be in use, so that what people do at this one may be lost.
    pub fn is_unnamed(&self, environment: Environment, now: Duration) -> bool {
        self.open_at(environment, now) == Err(FenceStop::Unnamed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRODUCTION: Environment = Environment::Production;
    const ALL: &[Environment] = &Environment::ALL;

    const OLD: &str = "old:6379";
    const NEW: &str = "new:6379";

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn fence(millis: u64) -> Fence {
        Fence::new(Some(at(millis)))
    }

    /// Has a majority name a primary every second.
    fn is_named(fence: &Fence, primary: &str, (from, to): (u64, u64)) {
        (from..=to).step_by(1_000).for_each(|asked| fence.named(ALL, primary, at(asked)));
    }

    #[test]
    fn a_former_primary_ends_before_a_promoted_one_begins() {
        let (old, new) = (fence(6_000), fence(6_000));
        assert_eq!(old.open_at(PRODUCTION, at(0)), Err(FenceStop::Unnamed));
        is_named(&old, OLD, (1_000, 7_000));
        assert_eq!(old.open_at(PRODUCTION, at(7_000)), Err(FenceStop::Promoted));
        old.meets(PRODUCTION, at(7_000), None);
        assert_eq!(old.open_at(PRODUCTION, at(6_999)), Err(FenceStop::Promoted));
        assert_eq!(old.open_at(PRODUCTION, at(7_000)), Ok(at(3_000)));
        assert_eq!(old.open_at(PRODUCTION, at(9_999)), Ok(at(1)));
        assert_eq!(old.open_at(PRODUCTION, at(10_000)), Err(FenceStop::Unnamed));
        // An answer to an earlier question is no later word.
        old.named(ALL, OLD, at(8_000));
        old.named(ALL, OLD, at(7_500));
        assert_eq!(old.open_at(PRODUCTION, at(10_999)), Ok(at(1)));
        assert_eq!(old.open_at(PRODUCTION, at(11_000)), Err(FenceStop::Unnamed));
        // The majority names the new one after 8,000; one gate had met it before that.
        is_named(&new, NEW, (8_500, 14_500));
        new.meets(PRODUCTION, at(8_500), Some(at(2_000)));
        assert_eq!(new.open_at(PRODUCTION, at(14_499)), Err(FenceStop::Promoted));
        assert_eq!(new.open_at(PRODUCTION, at(14_500)), Ok(at(3_000)));
        assert_eq!(new.open_at(Environment::Sandbox, at(14_500)), Err(FenceStop::Promoted));
        // Of a cluster, each environment has a primary of its own.
        new.meets(Environment::Sandbox, at(14_500), None);
        new.begins_anew(&[PRODUCTION], Some(OLD));
        assert_eq!(new.open_at(PRODUCTION, at(14_500)), Err(FenceStop::Unnamed));
        assert_eq!(new.open_at(Environment::Sandbox, at(14_500)), Ok(at(3_000)));
    }

    #[test]
    fn a_majority_that_goes_back_or_pauses_is_waited_for_again() {
        let gate = fence(6_000);
        gate.meets(PRODUCTION, at(0), None);
        is_named(&gate, OLD, (0, 8_000));
        assert_eq!(gate.open_at(PRODUCTION, at(8_000)), Ok(at(3_000)));
        // Sentinels were restarted, and name the former primary again.
        gate.named(ALL, NEW, at(8_500));
        is_named(&gate, OLD, (9_000, 14_000));
        assert_eq!(gate.open_at(PRODUCTION, at(14_999)), Err(FenceStop::Promoted));
        gate.named(ALL, OLD, at(15_000));
        assert_eq!(gate.open_at(PRODUCTION, at(15_000)), Ok(at(3_000)));
        // In a pause, another one may have been named.
        gate.named(ALL, OLD, at(18_000));
        assert_eq!(gate.open_at(PRODUCTION, at(18_000)), Err(FenceStop::Promoted));
        is_named(&gate, OLD, (19_000, 24_000));
        assert_eq!(gate.open_at(PRODUCTION, at(24_000)), Ok(at(3_000)));
        // Another connection to the same primary changes nothing of that.
        gate.begins_anew(ALL, Some(OLD));
        gate.meets(PRODUCTION, at(24_000), None);
        assert_eq!(gate.open_at(PRODUCTION, at(24_000)), Ok(at(3_000)));
        assert!(!gate.is_unnamed(PRODUCTION, at(26_999)) && gate.is_unnamed(PRODUCTION, at(27_000)));
    }

    #[test]
    fn a_gate_waits_for_the_longest_fence_of_all() {
        let gate = fence(2_000);
        gate.meets(PRODUCTION, at(0), None);
        gate.others_have(at(9_000));
        gate.others_have(at(2_000));
        (0..=9_000).step_by(500).for_each(|asked| gate.named(ALL, NEW, at(asked)));
        assert_eq!(gate.open_at(PRODUCTION, at(8_999)), Err(FenceStop::Promoted));
        assert_eq!(gate.open_at(PRODUCTION, at(9_000)), Ok(at(1_000)));
    }

    #[test]
    fn a_redis_whose_address_is_fixed_is_not_fenced() {
        assert_eq!(Fence::default().open_at(PRODUCTION, Duration::ZERO), Ok(Duration::MAX));
    }
}
