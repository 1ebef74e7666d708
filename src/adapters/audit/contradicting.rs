//! The entries on disk that contradict those before them.
//!
//! Whoever waits for such an entry must not act on it, also where something else brought it to disk before.

use std::collections::BTreeMap;

use crate::audit::Highest;
use crate::base::ids::Environment;

/// How many of them are remembered, one by one.
const REMEMBERED: usize = 4096;

/// The contradicting entries of this process's time.
#[derive(Debug, Default)]
pub(super) struct ContradictingEntries {
    found: BTreeMap<(Environment, u64), String>,
    /// Up to these numbers, any entry may have been one: the reasons are forgotten.
    forgotten: Highest,
}

impl ContradictingEntries {
    pub(super) fn add(&mut self, environment: Environment, number: u64, why: String) {
        self.found.insert((environment, number), why);
        while self.found.len() > REMEMBERED {
            let Some(((environment, number), _)) = self.found.pop_first() else { return };
            let highest = self.forgotten.entry(environment).or_default();
            *highest = number.max(*highest);
        }
    }

    /// Returns why an entry contradicts those before it, if it does or may.
    pub(super) fn why(&self, environment: Environment, number: u64) -> Option<&str> {
        if self.forgotten.get(&environment).is_some_and(|highest| number <= *highest) {
            return Some("too many entries contradicted those before them to remember each");
        }
        self.found.get(&(environment, number)).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_whose_reason_is_forgotten_still_counts_as_one() {
        let mut entries = ContradictingEntries::default();
        let last = u64::try_from(REMEMBERED).unwrap() + 10;
        for number in 10..=last {
            entries.add(Environment::Production, number, format!("because of {number}"));
        }
        let is_one = |environment, number| entries.why(environment, number).is_some();
        assert_eq!(entries.why(Environment::Production, last), Some(format!("because of {last}").as_str()));
        assert!(is_one(Environment::Production, 10) && is_one(Environment::Production, 5));
        assert!(!is_one(Environment::Production, last + 1) && !is_one(Environment::Sandbox, 10));
    }
}
