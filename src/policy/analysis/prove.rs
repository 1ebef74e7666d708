//! Invariants: proved, refuted by a payment, or neither.

use super::cells::Clause;
use super::ground::Windows;
use super::model::{Model, Question};
use super::outcome::FIRST;
use super::outcome::{Effects, comes_out, is_unnamed};
use super::payment::Payment;
use super::search::{Judged, SearchBudget, SearchResult, SearchState};
use super::shape::PaymentShape;
use super::universe::{Cell, Variable};
use crate::base::finding::Finding;
use crate::catalog::Operation;
use crate::policy::KnownNames;
use crate::policy::invariant::{Invariant, InvariantClaim};
use crate::policy::rule::Effect;
use crate::policy::rules::{Rules, Verdict};

/// The result for one invariant.
#[derive(Clone, Debug, PartialEq)]
pub enum Proof {
    Proved,
    /// A request that the invariant forbids, and the rules' verdict.
    Refuted(Box<(Payment, Verdict)>),
    /// Neither proved nor refuted within the budget.
    Unproved,
}

/// Tries to prove each invariant.
pub(crate) fn prove<'i>(
    rules: &Rules,
    invariants: &'i [Invariant],
    known: &KnownNames<'_>,
    steps: u64,
) -> Vec<(&'i Invariant, Proof)> {
    if invariants.is_empty() {
        return Vec::new();
    }
    let more: Vec<_> = invariants.iter().flat_map(Invariant::conditions).collect();
    let model = Model::of_one(rules, &more, known);
    let mut budget = SearchBudget::of(steps);
    invariants.iter().map(|invariant| (invariant, proof(&model, invariant, &mut budget))).collect()
}

/// Returns a finding for each invariant that is not proved.
pub(crate) fn unproved(rules: &Rules, invariants: &[Invariant], known: &KnownNames<'_>, steps: u64) -> Vec<Finding> {
    let tell = |(invariant, proof): (&Invariant, Proof)| finding(invariant, proof);
    prove(rules, invariants, known, steps).into_iter().filter_map(tell).collect()
}

fn finding(invariant: &Invariant, proof: Proof) -> Option<Finding> {
    let (line, column) = invariant.place;
    let (id, claim, effect) = (&invariant.id, invariant.claim.as_str(), invariant.effect.as_str());
    let finding = match proof {
        Proof::Proved => return None,
        Proof::Refuted(refuted) => {
            let (payment, verdict) = *refuted;
            let causes: Vec<String> = verdict.reasons.iter().map(|reason| reason.cause.to_string()).collect();
            let (done, by) = (done(verdict.effect), causes.join(", "));
            let text = format!("`{id}` says {claim} `{effect}`, but this request is {done} (by {by})");
            Finding::error(&invariant.file, text)
                .remedy("correct the rules, or narrow the invariant")
                .example(payment.to_string())
        }
        Proof::Unproved => {
            let text =
                format!("`{id}` is not proved: no request was found that breaks it, but the search was not complete");
            Finding::error(&invariant.file, text)
                .remedy("name fewer operations in one invariant, or simplify the rules for them")
        }
    };
    Some(finding.at(format!("{line}:{column}")))
}

/// Returns the word for what was done to a request.
pub(super) fn done(effect: Effect) -> &'static str {
    match effect {
        Effect::Allow => "allowed",
        Effect::Hold => "held",
        Effect::Deny => "denied",
    }
}

fn proof(model: &Model<'_>, invariant: &Invariant, budget: &mut SearchBudget) -> Proof {
    let forbidden = match invariant.claim {
        InvariantClaim::Never => Effects::of(&[invariant.effect]),
        InvariantClaim::Always => Effects::of(&[invariant.effect]).others(),
    };
    let asked = model.universe.ways(invariant.conditions(), invariant.sense()).into_iter().next().unwrap_or_default();
    let catalog = model.known.catalog;
    let operations = invariant.when.operations.iter().filter_map(|id| catalog.operation(id));
    let mut is_sure = true;
    for operation in operations {
        match breaking(model, operation, &asked, forbidden, budget) {
            SearchResult::One(found) => return Proof::Refuted(Box::new(found)),
            SearchResult::Nothing => {}
            SearchResult::Unknown => is_sure = false,
        }
    }
    if is_sure { Proof::Proved } else { Proof::Unproved }
}

/// Finds a request of an operation within the invariant that has a forbidden effect.
///
/// Each way to an effect is a separate question: by each rule that allows or holds, by each that denies, and by none.
fn breaking<'a, 'm>(
    model: &'a Model<'m>,
    operation: &'m Operation,
    asked: &'a [Clause],
    forbidden: Effects,
    budget: &mut SearchBudget,
) -> SearchResult<(Payment, Verdict)> {
    let windows =
        if forbidden.has(Effect::Deny) || !forbidden.has(Effect::Allow) { Windows::AnyFull } else { Windows::NotFull };
    let Some(ground) = model.ground(operation, windows) else { return SearchResult::Nothing };
    let told = known_facts(model);
    let asked: Vec<&Clause> = asked.iter().chain(told.iter().filter(|_| forbidden.has(Effect::Deny))).collect();
    let shows = |verdicts: &[Verdict]| verdicts.iter().all(|verdict| forbidden.has(verdict.effect));
    let mut is_sure = true;
    let mut ask = |must: Vec<&Clause>, judge: &dyn Fn(SearchState<'_>) -> Judged| match model
        .ask(ground, Question { must, judge, shows: &shows, budget })
    {
        SearchResult::One((payment, verdicts)) => verdicts.into_iter().next().map(|verdict| (payment, verdict)),
        SearchResult::Nothing => None,
        SearchResult::Unknown => {
            is_sure = false;
            None
        }
    };
    let shapes = || model.about(&operation.id).iter().filter_map(|at| model.shapes.get(*at));
    let with = |shape: &'a PaymentShape| asked.iter().copied().chain(&shape.clauses).collect();
    for shape in shapes().filter(|shape| shape.is_own && shape.effect != Effect::Deny) {
        let passing = Effects::of(&[Effect::Allow, Effect::Hold]);
        let wanted = passing.each().filter(|effect| forbidden.has(*effect) && *effect >= shape.effect);
        let wanted = wanted.fold(Effects::default(), Effects::and);
        if wanted == Effects::default() {
            continue;
        }
        if let Some(found) = ask(with(shape), &|seen| comes_out(seen, FIRST, wanted)) {
            return SearchResult::One(found);
        }
    }
    if forbidden.has(Effect::Deny) {
        for shape in shapes().filter(|shape| shape.effect == Effect::Deny) {
            if let Some(found) = ask(with(shape), &|seen| comes_out(seen, FIRST, Effects::of(&[Effect::Deny]))) {
                return SearchResult::One(found);
            }
        }
        if let Some(found) = ask(asked.clone(), &|seen| is_unnamed(seen, FIRST)) {
            return SearchResult::One(found);
        }
    }
    if is_sure { SearchResult::Nothing } else { SearchResult::Unknown }
}

/// Returns the clauses for: every fact that may be missing is known.
fn known_facts(model: &Model<'_>) -> Vec<Clause> {
    let variables =
        model.universe.variables.iter().filter(|(variable, _)| matches!(variable, Variable::Paid(_) | Variable::Price));
    variables.filter_map(|(variable, _)| model.universe.only(variable, |cell| *cell != Cell::Untold)).collect()
}
