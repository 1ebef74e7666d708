//! How old an unused connection may be when money takes it.
//!
//! Nobody says how long upstream keeps a connection that never carried a request. So connections are watched: where some
//! have lived twice as long as another, that other one is far from its end.

use std::time::Duration;

/// The greatest age up to which an unused connection is kept and watched.
pub(super) const MAX_AGE: Duration = Duration::from_secs(10);
/// How long the age at which a connection was found dead bounds the proven age.
const CAUTION_TIME: Duration = Duration::from_mins(10);

/// The results of watching. Times are of the node's monotonic clock.
#[derive(Debug, Default)]
pub(super) struct ProvenAge {
    /// The greatest age at which a connection was alive.
    proven: Duration,
    /// The age at which a dead connection was last alive, and until when it counts.
    bound: Option<(Duration, Duration)>,
}

impl ProvenAge {
    /// Returns the greatest age at which a connection may be used.
    pub fn usable(&self) -> Duration {
        self.proven.checked_div(2).unwrap_or_default()
    }

    pub fn alive(&mut self, age: Duration, now: Duration) {
        self.bound = self.bound.filter(|(_, until)| now < *until);
        let most = self.bound.map_or(MAX_AGE, |(most, _)| most);
        self.proven = self.proven.max(age.min(most));
    }

    /// A connection was found dead that was alive at this age.
    pub fn dead(&mut self, last_alive: Duration, now: Duration) {
        self.proven = self.proven.min(last_alive);
        let most = self.bound.filter(|(_, until)| now < *until).map_or(last_alive, |(most, _)| most.min(last_alive));
        self.bound = Some((most, now.saturating_add(CAUTION_TIME)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn half_of_what_others_survived_is_usable() {
        let mut age = ProvenAge::default();
        assert_eq!(age.usable(), ms(0), "nothing is known yet");
        age.alive(ms(400), ms(1_000));
        age.alive(ms(100), ms(1_000));
        assert_eq!(age.usable(), ms(200));
        age.alive(MAX_AGE * 3, ms(60_000));
        assert_eq!(age.usable(), MAX_AGE / 2);
    }

    #[test]
    fn a_death_bounds_the_age_for_a_while() {
        let mut age = ProvenAge::default();
        age.alive(ms(4_000), ms(5_000));
        age.dead(ms(300), ms(6_000));
        assert_eq!(age.usable(), ms(150));
        age.dead(ms(900), ms(7_000));
        age.alive(ms(4_000), ms(8_000));
        assert_eq!(age.usable(), ms(150), "another connection does not lift the bound");
        age.alive(ms(4_000), ms(7_000) + CAUTION_TIME);
        assert_eq!(age.usable(), ms(2_000));
    }
}
