//! Counts of allowed, held and denied calls, hour by hour: of this process, for the last week.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

use crate::base::ids::Environment;
use crate::policy::Effect;

/// How many hours are kept.
pub const HOURS: i64 = 168;
const SECS: i64 = 3_600;

/// The decisions of one hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecisionCounts {
    pub allowed: u64,
    pub held: u64,
    pub denied: u64,
}

/// The counts by environment and hour since 1970.
#[derive(Debug, Default)]
pub struct Tally(Mutex<BTreeMap<(Environment, i64), DecisionCounts>>);

impl Tally {
    pub fn count(&self, environment: Environment, effect: Effect, at: Timestamp) {
        let hour = hour(at);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Each new hour drops one that is too old.
        if !all.contains_key(&(environment, hour)) {
            all.retain(|(_, known), _| *known > hour.saturating_sub(HOURS));
        }
        all.entry((environment, hour)).or_default().add(effect, 1);
    }

    pub fn of(&self, environment: Environment, hour: i64) -> DecisionCounts {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&(environment, hour)).copied().unwrap_or_default()
    }
}

impl DecisionCounts {
    pub fn add(&mut self, effect: Effect, count: u64) {
        let place = match effect {
            Effect::Allow => &mut self.allowed,
            Effect::Hold => &mut self.held,
            Effect::Deny => &mut self.denied,
        };
        *place = place.saturating_add(count);
    }

    pub fn plus(self, other: DecisionCounts) -> DecisionCounts {
        DecisionCounts {
            allowed: self.allowed.saturating_add(other.allowed),
            held: self.held.saturating_add(other.held),
            denied: self.denied.saturating_add(other.denied),
        }
    }
}

/// Returns the hour of a time, since 1970.
pub fn hour(at: Timestamp) -> i64 {
    at.as_second().div_euclid(SECS)
}

/// Returns the beginning of an hour.
pub fn beginning(hour: i64) -> Option<Timestamp> {
    Timestamp::from_second(hour.saturating_mul(SECS)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hour_has_its_counts_and_a_week_later_none() {
        let (tally, production) = (Tally::default(), Environment::Production);
        let at = |hour: i64| Timestamp::from_second(hour * SECS + 1_800).unwrap();
        for effect in [Effect::Allow, Effect::Allow, Effect::Hold, Effect::Deny] {
            tally.count(production, effect, at(400));
        }
        tally.count(Environment::Sandbox, Effect::Deny, at(400));
        tally.count(production, Effect::Deny, at(401));
        assert_eq!(tally.of(production, 400), DecisionCounts { allowed: 2, held: 1, denied: 1 });
        assert_eq!(tally.of(production, 401), DecisionCounts { denied: 1, ..DecisionCounts::default() });
        assert_eq!(tally.of(production, 399), DecisionCounts::default());
        assert_eq!((hour(at(400)), hour(at(-1))), (400, -1));
        tally.count(production, Effect::Allow, at(400 + HOURS));
        assert_eq!(tally.of(production, 400), DecisionCounts::default());
        assert_eq!(tally.of(production, 401).denied, 1);
    }
}
