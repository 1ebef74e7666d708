//! Finds rules without effect, and gaps and overlaps between the amounts of rules.
//!
//! In a set with many ranges of amounts, gaps are only sought between rules whose other conditions are the same.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::cells::Clause;
use super::ground::{Ground, Windows};
use super::model::{Model, Question};
use super::newcomers;
use super::outcome::FIRST;
use super::outcome::{Effects, comes_out, is_unnamed};
use super::payment::Payment;
use super::prove::done;
use super::search::{Judged, SearchBudget, SearchResult, SearchState};
use super::shape::{PaymentShape, ShapeCause, sense_of};
use super::universe::{Cell, Variable};
use crate::base::finding::Finding;
use crate::base::ids::OperationId;
use crate::base::money::{MAX_MICRO_USD, MicroUsd};
use crate::policy::condition::Condition;
use crate::policy::interval::Interval;
use crate::policy::rule::{Effect, Rule};
use crate::policy::rules::{self, Verdict};
use crate::policy::{KnownNames, Policies};

/// The most steps of the budget for one question.
const QUESTION_STEPS: u64 = 400_000;
/// With more ranges of amounts than these, not every two of them are compared.
const MAX_RANGES: usize = 256;

/// A finding about a rule, and the rule's index.
type About = (usize, Finding);

/// Returns warnings about the rules; each is certain.
pub(crate) fn oddities(policies: &Policies, known: &KnownNames<'_>, steps: u64) -> Vec<Finding> {
    let model = Model::of_one(&policies.rules, &[], known);
    let budget = SearchBudget::of(steps);
    let mut finder = Finder { model: &model, policies, budget, passing: HashMap::new() };
    let own: Vec<&PaymentShape> = model.shapes.iter().filter(|shape| shape.is_own).collect();
    let mut found: Vec<About> = own.iter().filter_map(|shape| finder.useless(shape)).collect();
    found.extend(finder.amounts(&own));
    found.extend(own.iter().filter_map(|shape| finder.boundless(shape)));
    found.into_iter().map(|(rule, finding)| finder.placed(rule, finding)).collect()
}

struct Finder<'f> {
    model: &'f Model<'f>,
    policies: &'f Policies,
    budget: SearchBudget,
    /// The largest amount that rules with amounts let an approval pass, by operation and approval.
    passing: HashMap<(&'f OperationId, &'f str), Option<u128>>,
}

impl<'f> Finder<'f> {
    fn rule(&self, at: usize) -> Option<&'f Rule> {
        self.model.rules.get(at).map(|(rule, _)| *rule)
    }

    fn placed(&self, at: usize, finding: Finding) -> Finding {
        let Some(rule) = self.rule(at) else { return finding };
        let (line, column) = rule.place;
        let file = self.policies.file_of(&rule.id).to_owned();
        let text = match self.model.alike.get(at) {
            None | Some(0) => finding.text.clone(),
            Some(1) => format!("{}; the same is true of 1 more rule like it", finding.text),
            Some(count) => format!("{}; the same is true of {count} more rules like it", finding.text),
        };
        Finding { file, text, ..finding.at(format!("{line}:{column}")) }
    }

    fn ground(&self, operation: &OperationId) -> Option<&'f Ground<'f>> {
        self.model.ground(self.model.known.catalog.operation(operation)?, Windows::NotFull)
    }

    fn ask(
        &mut self,
        ground: &Ground<'_>,
        must: Vec<&Clause>,
        judge: &dyn Fn(SearchState<'_>) -> Judged,
        shows: &dyn Fn(&Verdict) -> bool,
    ) -> SearchResult<(Payment, Verdict)> {
        let mut budget = self.budget.part(QUESTION_STEPS);
        let shows = |verdicts: &[Verdict]| verdicts.iter().all(shows);
        let found = self.model.ask(ground, Question { must, judge, shows: &shows, budget: &mut budget });
        self.budget.settle(budget);
        match found {
            SearchResult::One((payment, verdicts)) => verdicts
                .into_iter()
                .next()
                .map_or(SearchResult::Unknown, |verdict| SearchResult::One((payment, verdict))),
            SearchResult::Nothing => SearchResult::Nothing,
            SearchResult::Unknown => SearchResult::Unknown,
        }
    }

    /// Finds out whether a rule matches no request, has its effect on none, or changes none.
    fn useless(&mut self, shape: &'f PaymentShape) -> Option<About> {
        let ShapeCause::Rule(at) = shape.cause else { return None };
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
                SearchResult::One(_) => has_effect = true,
                SearchResult::Unknown => return None,
                SearchResult::Nothing if example.is_some() => {}
                SearchResult::Nothing => match self.ask(ground, must(), &|_| Judged::Yes, &|verdict| {
                    verdict.reasons.iter().chain(&verdict.outweighed).any(is_it)
                }) {
                    SearchResult::One(found) => example = Some(found),
                    SearchResult::Unknown => return None,
                    SearchResult::Nothing => {}
                },
            }
            if has_effect {
                for way in self.model.of_cause(shape.cause) {
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
            (false, Some((payment, verdict))) => Some((at, self.outweighed(shape, rule, &payment, &verdict))),
            (false, None) => {
                let text = format!("`{}` matches no request: its conditions contradict each other", rule.id);
                let remedy = newcomers::remedy(self.policies, rule, "correct its conditions", ", or remove the rule");
                Some((at, Finding::warning("", text).remedy(remedy)))
            }
        }
    }

    /// Finds out whether a rule changes no outcome. Denying what nothing allows is good practice, so a denying rule is
    /// reported only if another rule denies the same.
    fn redundant(&mut self, shape: &'f PaymentShape, rule: &Rule) -> Option<Finding> {
        if shape.effect == Effect::Deny && !self.is_denied_anyway(shape) {
            return None;
        }
        let policies = self.policies;
        let is_instead = |other: &Rule| {
            let is_alike = other.effect == rule.effect && other.approval == rule.approval;
            is_alike && !newcomers::is_needed(policies, rule, &|name| name == &*other.id)
        };
        let by = self.covering(shape, &is_instead);
        // Beside single requests, it may count for who approves a destination.
        if by.is_none() && newcomers::is_needed(policies, rule, &|_| false) {
            return None;
        }
        let by = by.map(|other| format!(" by `{}`", other.id)).unwrap_or_default();
        let text = format!(
            "`{}` changes nothing: every request that it matches is {} without it{by}",
            rule.id,
            done(shape.effect)
        );
        Some(Finding::warning("", text).remedy("remove it, or narrow the other rule"))
    }

    fn is_denied_anyway(&mut self, shape: &'f PaymentShape) -> bool {
        let others = |seen: SearchState<'_>| {
            let denies =
                |at: &&usize| seen.shapes.get(**at).is_some_and(|o| denies_surely(o) && o.cause != shape.cause);
            match (seen.had.iter().any(|at| denies(&at)), seen.open.iter().find(denies)) {
                (true, _) => Judged::No,
                (false, Some(at)) => Judged::Ask(*at),
                (false, None) => Judged::Yes,
            }
        };
        shape.operations.iter().all(|operation| {
            let Some(ground) = self.ground(operation) else { return true };
            self.ask(ground, shape.clauses.iter().collect(), &others, &|_| true) == SearchResult::Nothing
        })
    }

    /// Returns the first of these rules that matches every request that a rule matches.
    fn covering(&mut self, shape: &'f PaymentShape, is_sought: &dyn Fn(&Rule) -> bool) -> Option<&'f Rule> {
        let matching = self.matching(shape);
        let is_possible = |(rule, _): &&(&'f Rule, u8)| {
            let is_matching = matching.as_ref().is_none_or(|matching| matching.contains(&rule.id));
            is_matching && is_sought(rule) && shape.operations.is_subset(&rule.when.operations)
        };
        let rules = self.model.rules.iter().enumerate();
        let others: Vec<(usize, &'f Rule)> =
            rules.filter(|(_, rule)| is_possible(rule)).map(|(at, (rule, _))| (at, *rule)).collect();
        for (at, other) in others {
            let cause = ShapeCause::Rule(at);
            if cause == shape.cause {
                continue;
            }
            let is_it = |seen: SearchState<'_>, at: &usize| {
                seen.shapes.get(*at).is_some_and(|shape| shape.cause == cause && shape.is_own)
            };
            let without = |seen: SearchState<'_>| match seen.open.iter().find(|at| is_it(seen, at)) {
                _ if seen.had.iter().any(|at| is_it(seen, at)) => Judged::No,
                Some(at) => Judged::Ask(*at),
                None => Judged::Yes,
            };
            let covers = shape.operations.iter().all(|operation| {
                let Some(ground) = self.ground(operation) else { return true };
                self.ask(ground, shape.clauses.iter().collect(), &without, &|_| true) == SearchResult::Nothing
            });
            if covers {
                return Some(other);
            }
        }
        None
    }

    /// Returns the rules that match some request that a rule matches: no other rule matches all of them. `None` if no
    /// such request was found.
    fn matching(&mut self, shape: &'f PaymentShape) -> Option<BTreeSet<Arc<str>>> {
        let verdict = shape.operations.iter().find_map(|operation| {
            let ground = self.ground(operation)?;
            match self.ask(ground, shape.clauses.iter().collect(), &|_| Judged::Yes, &|_| true) {
                SearchResult::One((_, verdict)) => Some(verdict),
                SearchResult::Nothing | SearchResult::Unknown => None,
            }
        })?;
        let causes = verdict.reasons.iter().chain(&verdict.outweighed).map(|reason| &reason.cause);
        let rule = |cause: &rules::Cause| match cause {
            rules::Cause::Rule(id) => Some(id.clone()),
            rules::Cause::Limit(_) | rules::Cause::Gate => None,
        };
        Some(causes.filter_map(rule).collect())
    }

    fn outweighed(&mut self, shape: &'f PaymentShape, rule: &Rule, payment: &Payment, verdict: &Verdict) -> Finding {
        let by: Vec<String> = verdict.reasons.iter().map(|reason| reason.cause.to_string()).collect();
        let (id, would, is, by) = (&rule.id, done(rule.effect), done(verdict.effect), by.join(", "));
        let others = self.model.rules.iter().map(|(other, _)| *other);
        let same = others.clone().find(|other| other.effect != rule.effect && other.when == rule.when);
        let text = match same.map(|other| other.id.clone()) {
            Some(other) => format!("`{id}` and `{other}` contradict each other: both match the same requests"),
            None => {
                let because = match self.covering(shape, &|other: &Rule| other.effect > rule.effect) {
                    Some(other) => format!("`{}`, which is stricter, always matches too", other.id),
                    None => "stricter rules always match too".to_owned(),
                };
                format!("`{id}` has no effect: no request is {would} by it, because {because}")
            }
        };
        let finding = Finding::warning("", format!("{text}; this one is {is} (by {by})"));
        let remedy = newcomers::remedy(self.policies, rule, "narrow the other rules", ", or remove it");
        finding.example(payment.to_string()).remedy(remedy)
    }

    /// Finds amounts between two rules that no rule matches, and amounts that two rules with the same other conditions
    /// match.
    fn amounts(&mut self, own: &[&'f PaymentShape]) -> Vec<About> {
        let ranged = own.iter().filter_map(|shape| {
            let ShapeCause::Rule(at) = shape.cause else { return None };
            let rule = self.rule(at)?;
            let within = amounts_of(rule)?;
            let others: Vec<Condition> =
                rule.when.conditions.iter().filter(|c| !matches!(c, Condition::Amount { .. })).cloned().collect();
            let besides = self.model.universe.ways(&others, sense_of(rule.effect)).into_iter().next()?;
            Some(Ranged { at, rule, shape, within, others, besides })
        });
        let mut ranged: Vec<Ranged<'f>> = ranged.collect();
        ranged.sort_by_key(|ranged| (ranged.within.least, ranged.within.most));
        let mut groups: HashMap<String, Vec<usize>> = HashMap::new();
        for (place, one) in ranged.iter().enumerate() {
            groups.entry(format!("{:?}", one.others)).or_default().push(place);
        }
        let mut found = if ranged.len() > MAX_RANGES { self.gaps_of_groups(&ranged, &groups) } else { Vec::new() };
        for (place, lower) in ranged.iter().enumerate() {
            if self.budget.is_spent() {
                break;
            }
            let between = |upper: &&Ranged<'_>| {
                upper.within.least > lower.within.most && upper.within.least.abs_diff(lower.within.most) > 1
            };
            if ranged.len() <= MAX_RANGES {
                let uppers = ranged.iter().skip(place.saturating_add(1));
                let gap = uppers.filter(between).find_map(|upper| self.gap(lower, upper));
                found.extend(gap.map(|finding| (lower.at, finding)));
            }
            let group = groups.get(&format!("{:?}", lower.others)).map_or(&[][..], Vec::as_slice);
            let least = |at: &usize| ranged.get(*at).map_or(0, |one| one.within.least);
            let first = group.partition_point(|at| least(at) <= lower.within.least);
            let uppers = group.iter().skip(first).filter_map(|at| ranged.get(*at));
            for upper in uppers.take_while(|upper| upper.within.least <= lower.within.most) {
                found.extend(self.overlap(lower, upper).map(|finding| (lower.at, finding)));
            }
        }
        found
    }

    /// Finds the gaps between rules of the same other conditions, from the least amount to the largest.
    fn gaps_of_groups(&mut self, ranged: &[Ranged<'f>], groups: &HashMap<String, Vec<usize>>) -> Vec<About> {
        let mut found = Vec::new();
        let mut in_order: Vec<&Vec<usize>> = groups.values().collect();
        in_order.sort_unstable();
        for group in in_order {
            let mut highest: Option<&Ranged<'f>> = None;
            for upper in group.iter().filter_map(|at| ranged.get(*at)) {
                if let Some(lower) = highest
                    && upper.within.least > lower.within.most.saturating_add(1)
                {
                    found.extend(self.gap(lower, upper).map(|finding| (lower.at, finding)));
                }
                highest = highest.filter(|lower| lower.within.most >= upper.within.most).or(Some(upper));
            }
        }
        found
    }

    /// Finds out whether the approval of a hold without amounts would alone send larger payments than any other rule
    /// lets it, or lets pass without people.
    fn boundless(&mut self, shape: &'f PaymentShape) -> Option<About> {
        let ShapeCause::Rule(at) = shape.cause else { return None };
        let rule = self.rule(at)?;
        let approval = rule.approval.as_ref().filter(|_| amounts_of(rule).is_none())?;
        for operation in shape.operations.iter() {
            let most = self.most_passing(operation, approval).filter(|most| *most < u128::from(MAX_MICRO_USD));
            let (Some(most), Some(ground)) = (most, self.ground(operation)) else { continue };
            let is_larger = |cell: &Cell| matches!(cell, Cell::Numbers(from, _) if *from > most);
            let larger = self.model.universe.only(&Variable::Value, is_larger)?;
            let must: Vec<&Clause> = shape.clauses.iter().chain([&larger]).collect();
            let held = Effects::of(&[Effect::Hold]);
            let is_alone = |verdict: &Verdict| {
                verdict.effect == Effect::Hold && verdict.approvals.len() == 1 && verdict.approvals.contains(approval)
            };
            let found = self.ask(ground, must, &|seen| comes_out(seen, FIRST, held), &is_alone);
            if let SearchResult::One((payment, _)) = found {
                let (id, most) = (&rule.id, usd(most));
                let text = format!(
                    "`{id}` holds `{operation}` of any amount: `{approval}` alone approves more than the {most} of other rules"
                );
                let finding = Finding::warning("", text).example(payment.to_string());
                return Some((
                    at,
                    finding.remedy("add `amount`, as the other rules have, or a rule that denies larger ones"),
                ));
            }
        }
        None
    }

    /// Returns the largest amount that rules with amounts let pass, or let an approval pass; if there are only rules for
    /// other approvals, what is below all of them.
    fn most_passing(&mut self, operation: &'f OperationId, approval: &'f Arc<str>) -> Option<u128> {
        let rules = &self.model.rules;
        let find = || {
            let others = rules.iter().map(|(other, _)| *other).filter(|other| other.effect != Effect::Deny);
            let others = others.filter(|other| other.when.operations.contains(operation));
            let ranges: Vec<(&Rule, Interval)> = others.filter_map(|other| Some((other, amounts_of(other)?))).collect();
            let lenient =
                ranges.iter().filter(|(other, _)| other.approval.as_ref().is_none_or(|name| name == approval));
            let least = || ranges.iter().map(|(_, within)| within.least.saturating_sub(1)).min();
            lenient.map(|(_, within)| within.most).max().or_else(least)
        };
        *self.passing.entry((operation, approval)).or_insert_with(find)
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
            if let SearchResult::One((payment, _)) =
                self.ask(ground, must, &|seen| is_unnamed(seen, FIRST), &is_no_rule)
            {
                let (low, high) = (&lower.rule.id, &upper.rule.id);
                let (from, to) = (usd(least), usd(most));
                let text = format!("between `{low}` and `{high}`, no rule matches `{operation}` of {from} to {to}");
                let finding = Finding::warning("", format!("{text}: it is denied"));
                return Some(
                    finding
                        .example(payment.to_string())
                        .remedy("make the intervals adjacent, or add a rule that denies the gap"),
                );
            }
        }
        None
    }

    fn overlap(&mut self, lower: &Ranged<'f>, upper: &Ranged<'f>) -> Option<Finding> {
        let (a, b) = (lower.within, upper.within);
        let are_crossed = a.least < b.least && b.least <= a.most && a.most < b.most;
        let is_same = lower.rule.effect == upper.rule.effect && lower.rule.approval == upper.rule.approval;
        // A rule with further conditions is an exception, and meant to overlap.
        if !are_crossed || is_same || lower.others != upper.others {
            return None;
        }
        for operation in lower.rule.when.operations.intersection(&upper.rule.when.operations) {
            let Some(ground) = self.ground(operation) else { continue };
            let must: Vec<&Clause> = lower.shape.clauses.iter().chain(&upper.shape.clauses).collect();
            if let SearchResult::One((payment, verdict)) = self.ask(ground, must, &|_| Judged::Yes, &|_| true) {
                let (low, high) = (&lower.rule.id, &upper.rule.id);
                let (from, to) = (usd(b.least), usd(a.most));
                let text = format!("`{low}` and `{high}` both match `{operation}` of {from} to {to}");
                let finding = Finding::warning("", format!("{text}: it is {}", done(verdict.effect)));
                return Some(finding.example(payment.to_string()).remedy("end one interval where the other begins"));
            }
        }
        None
    }
}

fn amounts_of(rule: &Rule) -> Option<Interval> {
    rule.when.conditions.iter().find_map(|condition| match condition {
        Condition::Amount { within, .. } => Some(*within),
        _ => None,
    })
}

fn denies_surely(shape: &PaymentShape) -> bool {
    shape.effect == Effect::Deny && shape.unless_named.is_none()
}

/// A rule with a condition on amounts.
struct Ranged<'f> {
    at: usize,
    rule: &'f Rule,
    shape: &'f PaymentShape,
    within: Interval,
    /// The conditions other than amounts, also as clauses.
    others: Vec<Condition>,
    besides: Vec<Clause>,
}

pub(super) fn usd(micros: u128) -> String {
    let most = MAX_MICRO_USD;
    let micros = u64::try_from(micros).unwrap_or(most).min(most);
    MicroUsd::new(micros).map_or_else(|_| "any amount".to_owned(), |usd| usd.to_string())
}
