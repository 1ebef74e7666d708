//! How many calls were allowed, held and denied, hour by hour: of this process, and no further back than a week.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

use super::metrics::Metrics;
use crate::base::ids::Environment;
use crate::policy::Effect;

/// So many hours are kept.
pub const HOURS: i64 = 168;
const SECS: i64 = 3_600;

/// What was decided in one hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub allowed: u64,
    pub held: u64,
    pub denied: u64,
}

/// By the hours since 1970.
#[derive(Debug, Default)]
pub struct Tally(Mutex<BTreeMap<(Environment, i64), Counts>>);

impl Metrics {
    pub fn tally(&self) -> &Tally {
        &self.tally
    }
}

impl Tally {
    pub fn count(&self, environment: Environment, effect: Effect, at: Timestamp) {
        let hour = hour(at);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // With each new hour one that is too old goes.
        if !all.contains_key(&(environment, hour)) {
            all.retain(|(_, known), _| *known > hour.saturating_sub(HOURS));
        }
        all.entry((environment, hour)).or_default().add(effect, 1);
    }

    pub fn of(&self, environment: Environment, hour: i64) -> Counts {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&(environment, hour)).copied().unwrap_or_default()
    }
}

impl Counts {
    pub fn add(&mut self, effect: Effect, count: u64) {
        let place = match effect {
            Effect::Allow => &mut self.allowed,
            Effect::Hold => &mut self.held,
            Effect::Deny => &mut self.denied,
        };
        *place = place.saturating_add(count);
    }

    pub fn plus(self, other: Counts) -> Counts {
        Counts {
            allowed: self.allowed.saturating_add(other.allowed),
            held: self.held.saturating_add(other.held),
            denied: self.denied.saturating_add(other.denied),
        }
    }
}

/// The hour of a time, since 1970.
pub fn hour(at: Timestamp) -> i64 {
    at.as_second().div_euclid(SECS)
}

/// When an hour begins.
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
        assert_eq!(tally.of(production, 400), Counts { allowed: 2, held: 1, denied: 1 });
        assert_eq!(tally.of(production, 401), Counts { denied: 1, ..Counts::default() });
        assert_eq!(tally.of(production, 399), Counts::default());
        assert_eq!((hour(at(400)), hour(at(-1))), (400, -1));
        tally.count(production, Effect::Allow, at(400 + HOURS));
        assert_eq!(tally.of(production, 400), Counts::default());
        assert_eq!(tally.of(production, 401).denied, 1);
    }
}
