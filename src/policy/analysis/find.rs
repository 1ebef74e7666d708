//! Rules that say nothing, and amounts that they leave out or meet in.

use super::cells::Clause;
use super::ground::{Ground, Windows};
use super::model::{FIRST, Model, Question};
use super::outcome::{Effects, comes_out, is_unnamed};
use super::payment::Payment;
use super::prove::done;
use super::search::{Budget, Found, Judged, Seen};
use super::shape::{Cause, Shape, sense_of};
use super::universe::{Cell, Variable};
use crate::base::finding::Finding;
use crate::base::ids::OperationId;
use crate::base::money::{MAX_MICRO_USD, MicroUsd};
use crate::policy::condition::Condition;
use crate::policy::interval::Interval;
use crate::policy::rule::{Effect, Rule};
use crate::policy::rules::{self, Verdict};
use crate::policy::{Known, Policies};

/// What one question may take of the budget.
const QUESTION_STEPS: u64 = 400_000;

/// A finding about a rule, by its place among the rules.
type About = (usize, Finding);

/// All that is odd about the rules; nothing is said that is not sure.
pub(crate) fn oddities(policies: &Policies, known: &Known<'_>, steps: u64) -> Vec<Finding> {
    let model = Model::of_one(&policies.rules, &[], known);
    let mut finder = Finder { model: &model, policies, budget: Budget::of(steps) };
    let own: Vec<&Shape> = model.shapes.iter().filter(|shape| shape.is_own).collect();
    let mut found: Vec<About> = own.iter().filter_map(|shape| finder.useless(shape)).collect();
    found.extend(finder.amounts(&own));
    found.into_iter().map(|(rule, finding)| finder.placed(rule, finding)).collect()
}

struct Finder<'f> {
    model: &'f Model<'f>,
    policies: &'f Policies,
    budget: Budget,
}

impl<'f> Finder<'f> {
    fn rule(&self, at: usize) -> Option<&'f Rule> {
        self.model.rules.get(at).map(|(rule, _)| *rule)
    }

    fn placed(&self, at: usize, finding: Finding) -> Finding {
        let Some(rule) = self.rule(at) else { return finding };
        let (line, column) = rule.place;
        let file = self.policies.file_of(&rule.id).to_owned();
        Finding { file, ..finding.at(format!("{line}:{column}")) }
    }

    fn ground(&self, operation: &OperationId) -> Option<&'f Ground<'f>> {
        self.model.ground(self.model.known.catalog.operation(operation)?, Windows::NotFull)
    }

    fn ask(
        &mut self,
        ground: &Ground<'_>,
        must: Vec<&Clause>,
        judge: &dyn Fn(Seen<'_>) -> Judged,
        shows: &dyn Fn(&Verdict) -> bool,
    ) -> Found<(Payment, Verdict)> {
        let mut budget = self.budget.part(QUESTION_STEPS);
        let shows = |verdicts: &[Verdict]| verdicts.iter().all(shows);
        let found = self.model.ask(ground, Question { must, judge, shows: &shows, budget: &mut budget });
        self.budget.settle(budget);
        match found {
            Found::One((payment, verdicts)) => {
                verdicts.into_iter().next().map_or(Found::Unknown, |verdict| Found::One((payment, verdict)))
            }
            Found::Nothing => Found::Nothing,
            Found::Unknown => Found::Unknown,
        }
    }

    /// A rule that is about no request, has its effect on none, or changes none.
    fn useless(&mut self, shape: &'f Shape) -> Option<About> {
        let Cause::Rule(at) = shape.cause else { return None };
        let rule = self.rule(at)?;
        let must = || shape.clauses.iter().collect::<Vec<_>>();
        let is_it = |reason: &rules::Reason| reason.cause == rules::Cause::Rule(rule.id.clone());
        let (mut example, mut has_effect, mut matters) = (None, false, false);
        for operation in shape.operations.iter() {
            let Some(ground) = self.ground(operation) else { continue };
            let effect = Effects::of(&[shape.effect]);
            match self.ask(ground, must(), &|seen| comes_out(seen, FIRST, effect), &|verdict| {
                verdict.effect == shape.effect && verdict.reasons.iter().any(is_it)
            }) {
                Found::One(_) => has_effect = true,
                Found::Unknown => return None,
                Found::Nothing if example.is_some() => {}
                Found::Nothing => match self.ask(ground, must(), &|_| Judged::Yes, &|verdict| {
                    verdict.reasons.iter().chain(&verdict.outweighed).any(is_it)
                }) {
                    Found::One(found) => example = Some(found),
                    Found::Unknown => return None,
                    Found::Nothing => {}
                },
            }
            if has_effect {
                let ways = self.model.shapes.iter().filter(|other| other.cause == shape.cause);
                for way in ways {
                    let mut budget = self.budget.part(QUESTION_STEPS);
                    matters |= self.model.matters(ground, way, &mut budget).unwrap_or(true);
                    self.budget.settle(budget);
                }
            }
            if matters {
                return None;
            }
        }
        match (has_effect, example) {
            (true, _) => self.redundant(shape, rule).map(|finding| (at, finding)),
            (false, Some((payment, verdict))) => Some((at, self.outweighed(rule, &payment, &verdict))),
            (false, None) => {
                let text = format!("`{}` is about no request: what it asks for never comes together", rule.id);
                Some((at, Finding::warning("", text).remedy("mend what it asks for, or take it out")))
            }
        }
    }

    /// Of rules that deny, only those are told that others deny as well: to deny what nothing allows is a good habit.
    fn redundant(&mut self, shape: &'f Shape, rule: &Rule) -> Option<Finding> {
        if shape.effect == Effect::Deny && !self.is_denied_anyway(shape) {
            return None;
        }
        let text = format!("`{}` changes nothing: whatever it is about is {} without it", rule.id, done(shape.effect));
        Some(Finding::warning("", text).remedy("take it out, or mend the rule that was meant to say less"))
    }

    fn is_denied_anyway(&mut self, shape: &'f Shape) -> bool {
        let others = |seen: Seen<'_>| {
            let denies =
                |at: &&usize| seen.shapes.get(**at).is_some_and(|o| o.effect == Effect::Deny && o.cause != shape.cause);
            match (seen.had.iter().any(|at| denies(&at)), seen.open.iter().find(denies)) {
                (true, _) => Judged::No,
                (false, Some(at)) => Judged::Ask(*at),
                (false, None) => Judged::Yes,
            }
        };
        shape.operations.iter().all(|operation| {
            let Some(ground) = self.ground(operation) else { return true };
            self.ask(ground, shape.clauses.iter().collect(), &others, &|_| true) == Found::Nothing
        })
    }

    fn outweighed(&self, rule: &Rule, payment: &Payment, verdict: &Verdict) -> Finding {
        let by: Vec<String> = verdict.reasons.iter().map(|reason| reason.cause.to_string()).collect();
        let (id, would, is, by) = (&rule.id, done(rule.effect), done(verdict.effect), by.join(", "));
        let same =
            self.policies.rules.rules.iter().find(|other| other.effect != rule.effect && other.when == rule.when);
        let text = match same {
            Some(other) => format!("`{id}` and `{}` contradict each other: both are about the same requests", other.id),
            None => format!("`{id}` has no effect: nothing is {would} by it, other rules always ask for more"),
        };
        let finding = Finding::warning("", format!("{text}; this one is {is} (by {by})"));
        finding.example(payment.to_string()).remedy("take it out, or let the others say less")
    }

    /// Amounts that no rule is about, between two that let pass or hold; and amounts that two are about that ask for
    /// the same besides.
    fn amounts(&mut self, own: &[&'f Shape]) -> Vec<About> {
        let ranged = own.iter().filter_map(|shape| {
            let Cause::Rule(at) = shape.cause else { return None };
            let rule = self.rule(at)?;
            let within = rule.when.conditions.iter().find_map(|condition| match condition {
                Condition::Amount { within, .. } => Some(*within),
                _ => None,
            })?;
            let others: Vec<Condition> =
                rule.when.conditions.iter().filter(|c| !matches!(c, Condition::Amount { .. })).cloned().collect();
            let besides = self.model.universe.ways(&others, sense_of(rule.effect)).into_iter().next()?;
            Some(Ranged { at, rule, shape, within, others, besides })
        });
        let mut ranged: Vec<Ranged<'f>> = ranged.collect();
        ranged.sort_by_key(|ranged| (ranged.within.least, ranged.within.most));
        let mut found = Vec::new();
        for (place, lower) in ranged.iter().enumerate() {
            let uppers = || ranged.iter().skip(place.saturating_add(1));
            let between = |upper: &&Ranged<'_>| {
                upper.within.least > lower.within.most && upper.within.least.abs_diff(lower.within.most) > 1
            };
            let gap = uppers().filter(between).find_map(|upper| self.gap(lower, upper));
            found.extend(gap.map(|finding| (lower.at, finding)));
            for upper in uppers().take_while(|upper| upper.within.least <= lower.within.most) {
                found.extend(self.overlap(lower, upper).map(|finding| (lower.at, finding)));
            }
            if self.budget.is_spent() {
                break;
            }
        }
        found
    }

    fn gap(&mut self, lower: &Ranged<'f>, upper: &Ranged<'f>) -> Option<Finding> {
        if lower.rule.effect == Effect::Deny || upper.rule.effect == Effect::Deny {
            return None;
        }
        let (least, most) = (lower.within.most.checked_add(1)?, upper.within.least.checked_sub(1)?);
        let value = self
            .model
            .universe
            .only(&Variable::Value, |cell| matches!(cell, Cell::Numbers(from, to) if *from >= least && *to <= most))?;
        for operation in lower.rule.when.operations.intersection(&upper.rule.when.operations) {
            let Some(ground) = self.ground(operation) else { continue };
            let must: Vec<&Clause> = lower.besides.iter().chain(&upper.besides).chain([&value]).collect();
            let is_no_rule = |verdict: &Verdict| {
                verdict.effect == Effect::Deny && verdict.reasons.iter().all(|r| r.cause == rules::Cause::Gate)
            };
            if let Found::One((payment, _)) = self.ask(ground, must, &|seen| is_unnamed(seen, FIRST), &is_no_rule) {
                let (low, high) = (&lower.rule.id, &upper.rule.id);
                let (from, to) = (usd(least), usd(most));
                let text = format!("between `{low}` and `{high}`, no rule is about `{operation}` of {from} to {to}");
                let finding = Finding::warning("", format!("{text}: it is denied"));
                return Some(
                    finding.example(payment.to_string()).remedy("let the intervals meet, or deny it by a rule"),
                );
            }
        }
        None
    }

    fn overlap(&mut self, lower: &Ranged<'f>, upper: &Ranged<'f>) -> Option<Finding> {
        let (a, b) = (lower.within, upper.within);
        let are_crossed = a.least < b.least && b.least <= a.most && a.most < b.most;
        let is_same = lower.rule.effect == upper.rule.effect && lower.rule.approval == upper.rule.approval;
        // What asks for something else besides is an exception, and meant to meet the rule.
        if !are_crossed || is_same || lower.others != upper.others {
            return None;
        }
        for operation in lower.rule.when.operations.intersection(&upper.rule.when.operations) {
            let Some(ground) = self.ground(operation) else { continue };
            let must: Vec<&Clause> = lower.shape.clauses.iter().chain(&upper.shape.clauses).collect();
            if let Found::One((payment, verdict)) = self.ask(ground, must, &|_| Judged::Yes, &|_| true) {
                let (low, high) = (&lower.rule.id, &upper.rule.id);
                let (from, to) = (usd(b.least), usd(a.most));
                let text = format!("`{low}` and `{high}` are both about `{operation}` of {from} to {to}");
                let finding = Finding::warning("", format!("{text}: it is {}", done(verdict.effect)));
                return Some(finding.example(payment.to_string()).remedy("end one interval where the other begins"));
            }
        }
        None
    }
}

/// A rule about amounts.
struct Ranged<'f> {
    at: usize,
    rule: &'f Rule,
    shape: &'f Shape,
    within: Interval,
    /// What is asked besides amounts, and as clauses.
    others: Vec<Condition>,
    besides: Vec<Clause>,
}

pub(super) fn usd(micros: u128) -> String {
    let most = MAX_MICRO_USD;
    let micros = u64::try_from(micros).unwrap_or(most).min(most);
    MicroUsd::new(micros).map_or_else(|_| "any amount".to_owned(), |usd| usd.to_string())
}
