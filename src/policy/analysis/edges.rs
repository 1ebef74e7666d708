//! Finds rules and limits that no `[[test]]` covers, or covers on one side of their edges only.

use std::sync::Arc;

use super::find::usd;
use super::shape::sense_of;
use crate::base::finding::Finding;
use crate::base::money::MAX_MICRO_USD;
use crate::policy::condition::Condition;
use crate::policy::interval::Interval;
use crate::policy::limit::{Limit, Max};
use crate::policy::rate::Mode;
use crate::policy::request::{Facts, View};
use crate::policy::rule::{Rule, all_hold};
use crate::policy::{KnownNames, Policies};

/// Returns a finding for each rule and limit without tests; a set without tests gets one finding.
pub(crate) fn untouched(policies: &Policies, known: &KnownNames<'_>) -> Vec<Finding> {
    let rules = policies.rules.rules.iter().filter(|rule| rule.mode == Mode::Enforce);
    let limits = policies.rules.limits.iter().filter(|limit| limit.mode == Mode::Enforce);
    if policies.trials.is_empty() {
        let first = rules.map(|rule| (&rule.id, rule.place)).chain(limits.map(|limit| (&limit.id, limit.place))).next();
        let told = |(id, place): (&Arc<str>, _)| {
            at(
                policies,
                id,
                place,
                "no `[[test]]` covers any of the rules".to_owned(),
                "write a test for each edge of each rule",
            )
        };
        return first.map(told).into_iter().collect();
    }
    let rules = rules.filter_map(|rule| {
        let missing = of_rule(policies, rule, known)?;
        Some(at(policies, &rule.id, rule.place, missing, "write a `[[test]]` for it"))
    });
    let limits = limits.filter_map(|limit| {
        let missing = of_limit(policies, limit, known)?;
        Some(at(policies, &limit.id, limit.place, missing, "write a `[[test]]` for it"))
    });
    rules.chain(limits).collect()
}

fn at(policies: &Policies, id: &str, (line, column): (usize, usize), text: String, remedy: &str) -> Finding {
    Finding::warning(policies.file_of(id), text).at(format!("{line}:{column}")).remedy(remedy)
}

/// How a test matches the conditions of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Met {
    /// The number of conditions that fail.
    missed: usize,
    /// Whether all conditions hold, apart from those on amounts.
    is_about: bool,
    value: Option<u64>,
}

fn met(policies: &Policies, rule: &Rule, known: &KnownNames<'_>) -> Vec<Met> {
    let trials = policies.trials.iter();
    let meet = |view: &View<'_>, facts: &Facts| {
        if !rule.when.operations.contains(&view.asked.operation.id) {
            return None;
        }
        let sense = sense_of(rule.effect);
        let is_amount = |condition: &&Condition| matches!(condition, Condition::Amount { .. });
        let fails = |condition: &&Condition| condition.holds(view, facts, sense) != Ok(true);
        let value = view.value.and_then(Result::ok).map(|value| value.as_u64());
        Some(Met {
            missed: rule.when.conditions.iter().filter(fails).count(),
            is_about: !rule.when.conditions.iter().filter(|c| !is_amount(c)).any(|c| fails(&c)),
            value,
        })
    };
    trials.filter_map(|trial| trial.evaluate(&policies.rules, known.catalog, meet).flatten()).collect()
}

fn of_rule(policies: &Policies, rule: &Rule, known: &KnownNames<'_>) -> Option<String> {
    let met = met(policies, rule, known);
    let id = &rule.id;
    if !met.iter().any(|met| met.missed == 0) {
        return Some(format!("no test matches `{id}`"));
    }
    let within = rule.when.conditions.iter().find_map(|condition| match condition {
        Condition::Amount { within, .. } => Some(*within),
        _ => None,
    });
    let touches = |value: u128| met.iter().any(|met| met.is_about && met.value.map(u128::from) == Some(value));
    let missing: Vec<String> =
        within.map(edges).unwrap_or_default().into_iter().filter(|value| !touches(*value)).map(usd).collect();
    if !missing.is_empty() {
        return Some(format!("no test covers an edge of `{id}`: {}", missing.join(", ")));
    }
    let is_asking = !rule.when.conditions.is_empty();
    (is_asking && !met.iter().any(|met| met.missed == 1))
        .then(|| format!("no test nearly matches `{id}`, with all but one of its conditions"))
}

/// Returns the amounts on both sides of each end of an interval.
fn edges(within: Interval) -> Vec<u128> {
    let mut edges = Vec::new();
    if within.least > 1 {
        edges.extend([within.least.saturating_sub(1), within.least]);
    }
    if within.most < u128::from(MAX_MICRO_USD) {
        edges.extend([within.most, within.most.saturating_add(1)]);
    }
    edges
}

/// Checks that one test counts in a limit, and one exceeds it: by its own amount, or with a full window.
fn of_limit(policies: &Policies, limit: &Limit, known: &KnownNames<'_>) -> Option<String> {
    let mut is_met = [false, false];
    for trial in &policies.trials {
        let counts = |view: &View<'_>, facts: &Facts| {
            let about = limit.operations.contains(&view.asked.operation.id);
            let holds = all_hold(&limit.conditions, view, facts, crate::policy::condition::Sense::Restricts);
            let value = view.value.and_then(Result::ok).map(|value| value.as_u64());
            let is_over = matches!((limit.max, value), (Max::MicroUsd(max), Some(value)) if value > max);
            (about && holds == Ok(true)).then(|| is_over || trial.fills(&limit.id))
        };
        if let Some(is_over) = trial.evaluate(&policies.rules, known.catalog, counts).flatten() {
            let [within, over] = &mut is_met;
            *(if is_over { over } else { within }) = true;
        }
    }
    let missing = match is_met {
        [true, true] => return None,
        [false, false] => "meets it",
        [true, false] => "exceeds it: by its amount, or with `full`",
        [false, true] => "stays within it",
    };
    Some(format!("limit `{}`: no test {missing}", limit.id))
}
