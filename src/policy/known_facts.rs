//! The facts about destinations that a set of rules may use.

use std::collections::BTreeMap;

use super::acquaintance::{Acquaintance, fact_name, fact_parts};
use super::rules::Rules;

impl Rules {
    /// Returns the names of all facts about destinations that these rules may use.
    pub fn facts_about(&self, destinations: &[String]) -> Vec<String> {
        let facts = destinations
            .iter()
            .flat_map(|destination| self.cooldowns.iter().map(move |cooldown| fact_name(destination, *cooldown)));
        facts.collect()
    }

    /// Returns the facts for destinations that are all known this long.
    pub fn facts_of(&self, destinations: &[String], known: Acquaintance) -> BTreeMap<String, bool> {
        let is_known = |name: &str| known.is_some_and(|known| known >= fact_parts(name).1);
        self.facts_about(destinations).into_iter().map(|name| (name.clone(), is_known(&name))).collect()
    }
}
