//! The facts about destinations that a set of rules may use.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::acquaintance::{Acquaintance, fact_name, fact_parts};
use super::causes::HoldCauses;
use super::condition::Condition;
use super::rate::Mode;
use super::request::Field;
use super::rule::Effect;
use super::rules::Rules;
use crate::base::ids::Environment;

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

    /// Whether a payment makes its destinations known at once: its voters were shown that a rule or limit with a
    /// cool-down holds it, and complete the approval of each one with a cool-down. Where one of these is no hold, only
    /// time counts.
    pub fn makes_known(
        &self,
        environment: Environment,
        shown: &HoldCauses,
        is_complete: impl Fn(&Arc<str>) -> bool,
    ) -> bool {
        let all = self.with_cooldowns(environment);
        let is_told = all.iter().any(|(id, _)| shown.rules().any(|rule| rule == *id));
        let are_enough = all.iter().all(|(_, approval)| approval.is_some_and(&is_complete));
        is_told && are_enough
    }

    /// Returns the rules and limits in force that a destination passes more easily after its cool-down, each with the
    /// approval that it asks for.
    pub(super) fn with_cooldowns(&self, environment: Environment) -> Vec<(&str, Option<&Arc<str>>)> {
        let waits = |conditions: &[Condition], for_new: bool| {
            let is_there = |condition: &Condition| match condition {
                Condition::Names(Field::Environment, names) => names.contains(environment.as_str()),
                Condition::NotNames(Field::Environment, names) => !names.contains(environment.as_str()),
                _ => true,
            };
            let has_cooldown = |condition: &Condition| match condition {
                Condition::NewDestination { new, cooldown } => *new == for_new && !cooldown.is_zero(),
                _ => false,
            };
            conditions.iter().all(is_there) && conditions.iter().any(has_cooldown)
        };
        let rules = self.rules.iter().filter(|rule| rule.mode == Mode::Enforce);
        let rules = rules.filter(|rule| waits(&rule.when.conditions, rule.effect != Effect::Allow));
        let limits = self.limits.iter().filter(|limit| limit.mode == Mode::Enforce && waits(&limit.conditions, true));
        let of_limits = limits.map(|limit| (&*limit.id, limit.over.as_ref()));
        rules.map(|rule| (&*rule.id, rule.approval.as_ref())).chain(of_limits).collect()
    }
}
