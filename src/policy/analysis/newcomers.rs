//! Compares who may approve a destination. A destination is known as soon as people complete the approvals of all rules
//! and limits with a cool-down: these count together, even where no single request needs one of them.

use std::sync::Arc;

use super::approvals::Sides;
use crate::base::ids::Environment;
use crate::policy::Policies;
use crate::policy::rule::Rule;

/// Other people may approve a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewcomerChange {
    pub environment: Environment,
    /// The rules and limits of the old set whose demand is not made any more; without them, people are only added.
    pub lost: Vec<String>,
}

/// A rule or limit with a cool-down, with its approval; without one, people cannot approve a destination at all.
type Cooldown<'r> = (&'r str, Option<&'r Arc<str>>);

impl NewcomerChange {
    pub fn loosens(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Returns the change in words, without names.
    pub(super) fn heading(&self) -> String {
        let people = if self.loosens() { "fewer or other people may" } else { "more people must" };
        format!("{people} approve a destination in {}", self.environment)
    }

    pub(super) fn in_words(&self) -> String {
        let names: Vec<String> = self.lost.iter().map(|name| format!("`{name}`")).collect();
        match names.is_empty() {
            true => self.heading(),
            false => format!("{}: it was new also for {}, with its cool-down", self.heading(), names.join(", ")),
        }
    }
}

/// Returns the changes, each of an environment. Where one of the sets has no cool-down, it does not matter who approves
/// a destination: that set decides alike before and after.
pub(super) fn changes(sides: Sides<'_>) -> Vec<NewcomerChange> {
    let back = Sides { old: sides.new, new: sides.old };
    let change = |environment: &Environment| {
        let old = sides.old.rules.with_cooldowns(*environment);
        let new = sides.new.rules.with_cooldowns(*environment);
        let lost = unmet(sides, &old, &new);
        let is_other = !lost.is_empty() || !unmet(back, &new, &old).is_empty();
        let is_asked = !old.is_empty() && !new.is_empty();
        (is_asked && is_other).then_some(NewcomerChange { environment: *environment, lost })
    };
    Environment::ALL.iter().filter_map(change).collect()
}

/// Whether a rule counts for who may approve a destination, beside these of the others.
pub(super) fn is_needed(policies: &Policies, rule: &Rule, beside: &dyn Fn(&str) -> bool) -> bool {
    let sides = Sides { old: policies, new: policies };
    Environment::ALL.iter().any(|environment| {
        let all = policies.rules.with_cooldowns(*environment);
        let (own, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(name, _)| *name == &*rule.id);
        let is_asked = !others.is_empty();
        let others: Vec<Cooldown<'_>> = others.into_iter().filter(|(name, _)| beside(name)).collect();
        is_asked && !unmet(sides, &own, &others).is_empty()
    })
}

/// Returns what to do about a rule without effect on requests, and the end of it where the rule can go as well.
pub(super) fn remedy(policies: &Policies, rule: &Rule, what: &str, or_remove: &str) -> String {
    match is_needed(policies, rule, &|_| true) {
        true => format!("{what}; without it, fewer people could approve a new destination"),
        false => format!("{what}{or_remove}"),
    }
}

/// Returns the old rules and limits that no new one is as strict as.
fn unmet(sides: Sides<'_>, old: &[Cooldown<'_>], new: &[Cooldown<'_>]) -> Vec<String> {
    let meets = |new: Option<&Arc<str>>, old: Option<&Arc<str>>| match (new, old) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(new), Some(old)) => sides.is_as_strict(new, old),
    };
    let is_unmet = |(_, approval): &&Cooldown<'_>| !new.iter().any(|(_, other)| meets(*other, *approval));
    old.iter().filter(is_unmet).map(|(name, _)| (*name).to_owned()).collect()
}
