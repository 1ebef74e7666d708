//! Makes small changes to a policy set, to check whether its own tests notice them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::difference::{Direction, difference};
use super::find::usd;
use super::payment::Payment;
use super::prove::{Proof, prove};
use super::variants::{conditions, needs};
use super::{FINDING_STEPS, PROVING_STEPS};
use crate::policy::limit::{Limit, Max};
use crate::policy::rate::Mode;
use crate::policy::rule::{Effect, Rule};
use crate::policy::rules::Rules;
use crate::policy::words::Approval;
use crate::policy::{KnownNames, Policies};

/// A set with one change.
#[derive(Clone, Debug)]
pub struct Mutant {
    pub file: String,
    /// The line and the column of the change.
    pub place: (usize, usize),
    /// The change, in words.
    pub what: String,
    change: Changed,
}

/// The replacement; `None` if the rule or limit was removed.
#[derive(Clone, Debug)]
enum Changed {
    Rule(usize, Option<Box<Rule>>),
    Limit(usize, Option<Box<Limit>>),
    Approval(Arc<str>, Box<Approval>),
}

/// The fate of a mutant.
#[derive(Clone, Debug, PartialEq)]
pub enum MutantFate {
    /// A test fails, or an invariant does not hold.
    Noticed,
    /// Every request is proved to have the same outcome, and as many people approve a destination.
    Equivalent,
    /// The change only affects how windows of limits fill, or who approves a destination: tests try neither.
    BeyondTests,
    /// A test with this request would notice the change.
    Missed(Option<Box<Payment>>),
}

/// Returns every mutant of the rules and limits in force.
pub(crate) fn mutants(policies: &Policies) -> Vec<Mutant> {
    let mut all = Vec::new();
    for (at, rule) in policies.rules.rules.iter().enumerate().filter(|(_, rule)| rule.mode == Mode::Enforce) {
        let file = policies.file_of(&rule.id);
        let mutant = |(what, rule_then): (String, Option<Rule>)| Mutant {
            file: file.to_owned(),
            place: rule.place,
            what: format!("rule `{}`: {what}", rule.id),
            change: Changed::Rule(at, rule_then.map(Box::new)),
        };
        all.extend(of_rule(rule).into_iter().map(mutant));
    }
    for (at, limit) in policies.rules.limits.iter().enumerate().filter(|(_, limit)| limit.mode == Mode::Enforce) {
        let file = policies.file_of(&limit.id);
        let mutant = |(what, limit_then): (String, Option<Limit>)| Mutant {
            file: file.to_owned(),
            place: limit.place,
            what: format!("limit `{}`: {what}", limit.id),
            change: Changed::Limit(at, limit_then.map(Box::new)),
        };
        all.extend(of_limit(limit).into_iter().map(mutant));
    }
    for (name, approval) in &policies.rules.approvals {
        let (file, place) = policies.place_of("approval", name).unwrap_or_default();
        all.extend(needs(&approval.need).into_iter().map(|(what, need)| Mutant {
            file: file.to_owned(),
            place,
            what: format!("approval `{name}`: {what}"),
            change: Changed::Approval(name.clone(), Box::new(Approval { need, ..approval.clone() })),
        }));
    }
    all
}

fn of_rule(rule: &Rule) -> Vec<(String, Option<Rule>)> {
    let mut all = vec![("taken out".to_owned(), None)];
    let effects: &[Effect] = match rule.effect {
        Effect::Allow => &[Effect::Deny],
        Effect::Hold => &[Effect::Allow, Effect::Deny],
        Effect::Deny => &[Effect::Allow],
    };
    for effect in effects {
        let what = format!("`{}` instead of `{}`", effect.as_str(), rule.effect.as_str());
        all.push((what, Some(Rule { effect: *effect, approval: None, ..rule.clone() })));
    }
    for (what, conditions) in conditions(&rule.when.conditions) {
        let mut changed = rule.clone();
        changed.when.conditions = conditions;
        all.push((what, Some(changed)));
    }
    all
}

fn of_limit(limit: &Limit) -> Vec<(String, Option<Limit>)> {
    let mut all = vec![("taken out".to_owned(), None)];
    let maxes: Vec<Max> = match limit.max {
        Max::MicroUsd(max) => {
            [max.checked_sub(1), max.checked_add(1)].into_iter().flatten().map(Max::MicroUsd).collect()
        }
        Max::Calls(max) => [max.checked_sub(1), max.checked_add(1)].into_iter().flatten().map(Max::Calls).collect(),
    };
    for max in maxes {
        let text = match max {
            Max::MicroUsd(max) => usd(max.into()),
            Max::Calls(max) => format!("{max} calls"),
        };
        all.push((format!("at most {text}"), Some(Limit { max, ..limit.clone() })));
    }
    if limit.over.is_some() {
        all.push(("denied over it instead of held".to_owned(), Some(Limit { over: None, ..limit.clone() })));
    }
    for (what, conditions) in conditions(&limit.conditions) {
        all.push((what, Some(Limit { conditions, ..limit.clone() })));
    }
    all
}

impl Mutant {
    /// Determines the fate of the mutant.
    pub fn fate(&self, policies: &Policies, known: &KnownNames<'_>) -> MutantFate {
        let mutated = self.applied(policies);
        let notices = |trial: &crate::policy::Trial| {
            trial.run(&mutated.rules, known.catalog).is_none_or(|tried| !tried.is_passed)
        };
        if policies.trials.iter().any(notices) {
            return MutantFate::Noticed;
        }
        let broken = prove(&mutated.rules, &mutated.invariants, known, PROVING_STEPS);
        if broken.iter().any(|(_, proof)| matches!(proof, Proof::Refuted(_))) {
            return MutantFate::Noticed;
        }
        let found = difference(policies, &mutated, known, FINDING_STEPS);
        match (found.direction, found.changes.into_iter().next()) {
            (Direction::Same, _) => MutantFate::Equivalent,
            (Direction::NotProved, change) => MutantFate::Missed(change.map(|change| Box::new(change.example))),
            (_, Some(change)) => MutantFate::Missed(Some(Box::new(change.example))),
            (_, None) if !found.limits.is_empty() || !found.newcomers.is_empty() => MutantFate::BeyondTests,
            (_, None) => MutantFate::Missed(None),
        }
    }

    pub(super) fn applied(&self, policies: &Policies) -> Policies {
        let Rules { rules, limits, approvals, groups, valuation, .. } = &policies.rules;
        let (mut rules, mut limits) = (rules.clone(), limits.clone());
        let mut approvals: BTreeMap<Arc<str>, Approval> = approvals.clone();
        match &self.change {
            Changed::Rule(at, changed) => replace(&mut rules, *at, changed),
            Changed::Limit(at, changed) => replace(&mut limits, *at, changed),
            Changed::Approval(name, changed) => {
                approvals.insert(name.clone(), changed.as_ref().clone());
            }
        }
        Policies { rules: Rules::new(rules, limits, approvals, groups.clone(), valuation.clone()), ..policies.clone() }
    }
}

fn replace<T: Clone>(all: &mut Vec<T>, at: usize, changed: &Option<Box<T>>) {
    match (all.get_mut(at), changed) {
        (Some(there), Some(changed)) => *there = changed.as_ref().clone(),
        (Some(_), None) => {
            all.remove(at);
        }
        (None, _) => {}
    }
}
