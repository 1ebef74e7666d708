//! Invariants: proved, refuted by a payment, or neither.

use super::cells::Clause;
use super::ground::Windows;
use super::model::{FIRST, Model, Question};
use super::outcome::{Effects, comes_out, is_unnamed};
use super::payment::Payment;
use super::search::{Budget, Found, Judged, Seen};
use super::shape::Shape;
use super::universe::{Cell, Variable};
use crate::base::finding::Finding;
use crate::catalog::Operation;
use crate::policy::Known;
use crate::policy::invariant::{Claim, Invariant};
use crate::policy::rule::Effect;
use crate::policy::rules::{Rules, Verdict};

/// What became of an invariant.
#[derive(Clone, Debug, PartialEq)]
pub enum Proof {
    Proved,
    /// A request that it forbids, and what the rules make of it.
    Refuted(Box<(Payment, Verdict)>),
    /// Neither within the budget.
    Unproved,
}

/// What becomes of each.
pub(crate) fn prove<'i>(
    rules: &Rules,
    invariants: &'i [Invariant],
    known: &Known<'_>,
    steps: u64,
) -> Vec<(&'i Invariant, Proof)> {
    if invariants.is_empty() {
        return Vec::new();
    }
    let more: Vec<_> = invariants.iter().flat_map(Invariant::conditions).collect();
    let model = Model::of_one(rules, &more, known);
    let mut budget = Budget::of(steps);
    invariants.iter().map(|invariant| (invariant, proof(&model, invariant, &mut budget))).collect()
}

/// What is wrong with the invariants: one that is not proved is none.
pub(crate) fn unproved(rules: &Rules, invariants: &[Invariant], known: &Known<'_>, steps: u64) -> Vec<Finding> {
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
            let text = format!("`{id}` says {claim} `{effect}`, and this request is {done} (by {by})");
            Finding::error(&invariant.file, text)
                .remedy("mend the rules that let it come to that, or say less in the invariant")
                .example(payment.to_string())
        }
        Proof::Unproved => {
            let text = format!("`{id}` is not proved: no request was found that breaks it, and not all were looked at");
            Finding::error(&invariant.file, text)
                .remedy("name fewer operations in one invariant, or write the rules that it is about in fewer ways")
        }
    };
    Some(finding.at(format!("{line}:{column}")))
}

/// What was done to a request.
pub(super) fn done(effect: Effect) -> &'static str {
    match effect {
        Effect::Allow => "allowed",
        Effect::Hold => "held",
        Effect::Deny => "denied",
    }
}

fn proof(model: &Model<'_>, invariant: &Invariant, budget: &mut Budget) -> Proof {
    let forbidden = match invariant.claim {
        Claim::Never => Effects::of(&[invariant.effect]),
        Claim::Always => Effects::of(&[invariant.effect]).others(),
    };
    let asked = model.universe.ways(invariant.conditions(), invariant.sense()).into_iter().next().unwrap_or_default();
    let catalog = model.known.catalog;
    let operations = invariant.when.operations.iter().filter_map(|id| catalog.operation(id));
    let mut is_sure = true;
    for operation in operations {
        match breaking(model, operation, &asked, forbidden, budget) {
            Found::One(found) => return Proof::Refuted(Box::new(found)),
            Found::Nothing => {}
            Found::Unknown => is_sure = false,
        }
    }
    if is_sure { Proof::Proved } else { Proof::Unproved }
}

/// A request of an operation, as asked, with an effect that is forbidden.
///
/// Each way to come to an effect is a question of its own: by each rule that lets pass or holds, by each that denies,
/// and by none.
fn breaking<'a, 'm>(
    model: &'a Model<'m>,
    operation: &'m Operation,
    asked: &'a [Clause],
    forbidden: Effects,
    budget: &mut Budget,
) -> Found<(Payment, Verdict)> {
    let windows =
        if forbidden.has(Effect::Deny) || !forbidden.has(Effect::Allow) { Windows::AnyFull } else { Windows::NotFull };
    let Some(ground) = model.ground(operation, windows) else { return Found::Nothing };
    let told = told(model);
    let asked: Vec<&Clause> = asked.iter().chain(told.iter().filter(|_| forbidden.has(Effect::Deny))).collect();
    let shows = |verdicts: &[Verdict]| verdicts.iter().all(|verdict| forbidden.has(verdict.effect));
    let mut is_sure = true;
    let mut ask = |must: Vec<&Clause>, judge: &dyn Fn(Seen<'_>) -> Judged| match model
        .ask(ground, Question { must, judge, shows: &shows, budget })
    {
        Found::One((payment, verdicts)) => verdicts.into_iter().next().map(|verdict| (payment, verdict)),
        Found::Nothing => None,
        Found::Unknown => {
            is_sure = false;
            None
        }
    };
    let shapes = || model.about(&operation.id).iter().filter_map(|at| model.shapes.get(*at));
    let with = |shape: &'a Shape| asked.iter().copied().chain(&shape.clauses).collect();
    for shape in shapes().filter(|shape| shape.is_own && shape.effect != Effect::Deny) {
        let passing = Effects::of(&[Effect::Allow, Effect::Hold]);
        let wanted = passing.each().filter(|effect| forbidden.has(*effect) && *effect >= shape.effect);
        let wanted = wanted.fold(Effects::default(), Effects::and);
        if wanted == Effects::default() {
            continue;
        }
        if let Some(found) = ask(with(shape), &|seen| comes_out(seen, FIRST, wanted)) {
            return Found::One(found);
        }
    }
    if forbidden.has(Effect::Deny) {
        for shape in shapes().filter(|shape| shape.effect == Effect::Deny) {
            if let Some(found) = ask(with(shape), &|seen| comes_out(seen, FIRST, Effects::of(&[Effect::Deny]))) {
                return Found::One(found);
            }
        }
        if let Some(found) = ask(asked.clone(), &|seen| is_unnamed(seen, FIRST)) {
            return Found::One(found);
        }
    }
    if is_sure { Found::Nothing } else { Found::Unknown }
}

/// That whatever may not be told is told.
fn told(model: &Model<'_>) -> Vec<Clause> {
    let variables =
        model.universe.variables.iter().filter(|(variable, _)| matches!(variable, Variable::Paid(_) | Variable::Price));
    variables.filter_map(|(variable, _)| model.universe.only(variable, |cell| *cell != Cell::Untold)).collect()
}
