//! What a new set does otherwise than the old one, and whether it only tightens.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::approvals::Sides;
use super::cells::Clause;
use super::ground::{Ground, Windows};
use super::limits::{self, LimitChange};
use super::model::{FIRST, Model, Question, SECOND};
use super::outcome::{Effects, pair};
use super::payment::Payment;
use super::search::{Budget, Found, Judged, Seen};
use super::universe::Variable;
use crate::base::ids::OperationId;
use crate::base::pointer::Pointer;
use crate::policy::rate::Mode;
use crate::policy::rule::{Effect, Rule};
use crate::policy::rules::Verdict;
use crate::policy::{Known, Policies};

/// What one question may take of the budget.
const QUESTION_STEPS: u64 = 1_000_000;

/// What is otherwise under a new set.
#[derive(Clone, Debug)]
pub struct Difference {
    /// One for each way in which requests of an operation fare otherwise, with an example.
    pub changes: Vec<Change>,
    pub limits: Vec<LimitChange>,
    pub approvals: Vec<ApprovalChange>,
    /// Whether amounts are valued otherwise.
    pub is_valued_otherwise: bool,
    pub direction: Direction,
}

/// Where a new set goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// No request fares otherwise; that is proved.
    Same,
    /// No request fares better, and no limit leaves more room; that is proved.
    OnlyTightens,
    /// Something passes that did not, or passes more easily: it is shown.
    Loosens,
    /// Nothing was found that passes more easily, and not all was looked at.
    NotProved,
}

/// Requests of an operation that fare otherwise.
#[derive(Clone, Debug)]
pub struct Change {
    pub operation: OperationId,
    pub kind: ChangeKind,
    pub example: Payment,
    pub old: Verdict,
    pub new: Verdict,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Another effect: the old one, and the new one.
    Effect(Effect, Effect),
    /// Held as before, for fewer people or other ones than had to agree.
    EasierHold,
    /// Held as before, and more people must agree.
    HarderHold,
    /// A rule names a place of the body that none named: where the configuration lists that place, it passes now.
    Named(Pointer),
}

/// An approval that means something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalChange {
    pub name: Arc<str>,
    /// Whether it is proved to ask for at least as much.
    pub is_as_strict: bool,
}

impl ChangeKind {
    pub fn loosens(&self) -> bool {
        match self {
            ChangeKind::Effect(old, new) => new < old,
            ChangeKind::EasierHold | ChangeKind::Named(_) => true,
            ChangeKind::HarderHold => false,
        }
    }
}

impl Difference {
    /// Whether the new set may let pass more: it is not proved that it does not.
    pub fn loosens(&self) -> bool {
        matches!(self.direction, Direction::Loosens | Direction::NotProved)
    }
}

/// Compares two sets; `steps` bounds what that may take.
pub(crate) fn difference(old: &Policies, new: &Policies, known: &Known<'_>, steps: u64) -> Difference {
    let sides = Sides { old, new };
    let (rules, limits) = (side_by_side(sides), limits::side_by_side(sides));
    let model = Model::of(vec![&old.rules, &new.rules], rules, limits, &[], known);
    let mut comparing = Comparing { model: &model, sides, budget: Budget::of(steps), is_sure: true };
    let mut changes = Vec::new();
    for operation in known.catalog.operations() {
        if let Some(ground) = model.ground(operation, Windows::NotFull) {
            comparing.operation(ground, &mut changes);
        }
    }
    let is_sure = comparing.is_sure;
    // Fewer rules that name a place: where the configuration lists the place, less passes.
    let names_less = model.shapes.iter().any(|shape| shape.sides == FIRST && !shape.names.is_empty());
    let limits = limits::changes(sides);
    let is_valued_otherwise = old.rules.valuation != new.rules.valuation;
    let named = old.rules.approvals.keys().filter(|name| new.rules.approvals.contains_key(*name));
    let approvals = named
        .filter(|name| !sides.is_same(name))
        .map(|name| ApprovalChange { name: name.clone(), is_as_strict: sides.is_as_strict(name, name) });
    let loosens = changes.iter().any(|change| change.kind.loosens()) || limits.iter().any(|limit| limit.kind.loosens());
    let direction = match (loosens, is_sure && !is_valued_otherwise) {
        (true, _) => Direction::Loosens,
        (false, false) => Direction::NotProved,
        (false, true) if changes.is_empty() && limits.is_empty() && !names_less => Direction::Same,
        (false, true) => Direction::OnlyTightens,
    };
    Difference { changes, limits, approvals: approvals.collect(), is_valued_otherwise, direction }
}

/// Every rule in force, with the sides that have it. One that both have, and that means the same, stands once.
fn side_by_side(sides: Sides<'_>) -> Vec<(&Rule, u8)> {
    let in_force = |policies: &'_ Policies| -> Vec<usize> {
        let rules = policies.rules.rules.iter().enumerate();
        rules.filter(|(_, rule)| rule.mode == Mode::Enforce).map(|(at, _)| at).collect()
    };
    let (olds, news) = (&sides.old.rules.rules, &sides.new.rules.rules);
    let mut left: Vec<usize> = in_force(sides.new);
    let by_id: std::collections::HashMap<&str, usize> =
        left.iter().filter_map(|at| Some((&*news.get(*at)?.id, *at))).collect();
    let is_same = |old: &Rule, at: &usize| news.get(*at).is_some_and(|new| means_same(sides, old, new));
    let (mut all, mut taken, mut unmatched) = (Vec::new(), BTreeSet::new(), Vec::new());
    for old in in_force(sides.old).into_iter().filter_map(|at| olds.get(at)) {
        match by_id.get(&*old.id).filter(|at| is_same(old, at)) {
            Some(at) => {
                taken.insert(*at);
                all.push((old, FIRST | SECOND));
            }
            None => unmatched.push(old),
        }
    }
    left.retain(|at| !taken.contains(at));
    for old in unmatched {
        let twin = left.iter().position(|at| is_same(old, at));
        all.push((old, if twin.map(|at| left.remove(at)).is_some() { FIRST | SECOND } else { FIRST }));
    }
    all.extend(left.into_iter().filter_map(|at| Some((news.get(at)?, SECOND))));
    all
}

fn means_same(sides: Sides<'_>, old: &Rule, new: &Rule) -> bool {
    let same_people = old.approval.as_ref().is_none_or(|name| sides.is_same(name));
    old.effect == new.effect && old.approval == new.approval && old.when == new.when && same_people
}

struct Comparing<'c> {
    model: &'c Model<'c>,
    sides: Sides<'c>,
    budget: Budget,
    is_sure: bool,
}

impl<'c> Comparing<'c> {
    /// A request fares otherwise only if something is about it that one side has alone.
    fn operation(&mut self, ground: &Ground<'_>, changes: &mut Vec<Change>) {
        let model = self.model;
        let about = model.about(&ground.operation.id).iter().filter_map(|at| model.shapes.get(*at));
        let mut seen: Vec<ChangeKind> = Vec::new();
        for shape in about.filter(|shape| shape.sides != FIRST | SECOND) {
            let must: Vec<&Clause> = shape.clauses.iter().collect();
            while let Some(change) = self.change(ground, must.clone(), &seen) {
                seen.push(change.kind.clone());
                changes.push(change);
            }
            if shape.sides == SECOND {
                for pointer in shape.names.iter().filter(|place| ground.operation.further.contains(place)) {
                    let kind = ChangeKind::Named(pointer.clone());
                    if !seen.contains(&kind)
                        && let Some(change) = self.named(ground, must.clone(), pointer)
                    {
                        seen.push(kind);
                        changes.push(change);
                    }
                }
            }
        }
    }

    fn ask(
        &mut self,
        ground: &Ground<'_>,
        must: Vec<&Clause>,
        judge: &dyn Fn(Seen<'_>) -> Judged,
        shows: &dyn Fn(&[Verdict]) -> bool,
    ) -> Option<(Payment, [Verdict; 2])> {
        let mut budget = self.budget.part(QUESTION_STEPS);
        let found = self.model.ask(ground, Question { must, judge, shows, budget: &mut budget });
        self.budget.settle(budget);
        self.is_sure &= found != Found::Unknown;
        match found {
            Found::One((payment, verdicts)) => <[Verdict; 2]>::try_from(verdicts).ok().map(|both| (payment, both)),
            Found::Nothing | Found::Unknown => None,
        }
    }

    /// One that was not seen yet.
    fn change(&mut self, ground: &Ground<'_>, must: Vec<&Clause>, known: &[ChangeKind]) -> Option<Change> {
        let sides = self.sides;
        let is_new = |kind: Option<ChangeKind>| kind.is_some_and(|kind| !known.contains(&kind));
        let finer = |seen: Seen<'_>, effect: Effect| {
            effect == Effect::Hold && is_new(held(sides, &seen.approvals(FIRST), &seen.approvals(SECOND)))
        };
        let wanted = |old, new| old != new && is_new(Some(ChangeKind::Effect(old, new)));
        let kind_of = |old: &Verdict, new: &Verdict| match (old.effect, new.effect) {
            (Effect::Hold, Effect::Hold) => held(sides, &old.approvals, &new.approvals),
            (old, new) if old == new => None,
            (old, new) => Some(ChangeKind::Effect(old, new)),
        };
        let judge = |seen: Seen<'_>| pair(seen, &wanted, Some(&finer));
        let shows = |verdicts: &[Verdict]| matches!(verdicts, [old, new] if is_new(kind_of(old, new)));
        let (example, [old, new]) = self.ask(ground, must, &judge, &shows)?;
        Some(Change { operation: ground.operation.id.clone(), kind: kind_of(&old, &new)?, example, old, new })
    }

    /// A request with a place that no rule named, and that passes or is held under the new set.
    fn named(&mut self, ground: &Ground<'_>, must: Vec<&Clause>, pointer: &Pointer) -> Option<Change> {
        let stated = self.stated(pointer);
        let must = must.into_iter().chain(&stated).collect();
        let judge = |seen: Seen<'_>| unnamed_before(seen, pointer);
        let catalog = self.model.known.catalog;
        let (example, _) = self.ask(ground, must, &judge, &|verdicts| {
            verdicts.iter().next_back().is_some_and(|new| new.effect != Effect::Deny)
        })?;
        let decide = |policies: &Policies| example.decide(&policies.rules, catalog);
        let (old, new) = (decide(self.sides.old)?, decide(self.sides.new)?);
        let is_shown = old.effect == Effect::Deny && new.effect != Effect::Deny;
        self.is_sure &= is_shown;
        let (operation, kind) = (ground.operation.id.clone(), ChangeKind::Named(pointer.clone()));
        is_shown.then(|| Change { operation, kind, example: example.clone(), old, new })
    }

    /// That something stands in a place.
    fn stated(&self, pointer: &Pointer) -> Vec<Clause> {
        let universe = &self.model.universe;
        let several = universe.several_in_body.get(pointer).into_iter().flatten();
        let any: Vec<_> = several.map(|(var, _)| universe.says(*var, true)).collect();
        let variable = Variable::Body(pointer.clone());
        let one = universe.only(&variable, |cell| *cell != super::universe::Cell::Absent);
        one.or_else(|| (!any.is_empty()).then_some(Clause(any))).into_iter().collect()
    }
}

fn held(sides: Sides<'_>, old: &BTreeSet<Arc<str>>, new: &BTreeSet<Arc<str>>) -> Option<ChangeKind> {
    if old == new && old.iter().all(|name| sides.is_same(name)) {
        return None;
    }
    Some(if sides.are_as_strict(new, old) { ChangeKind::HarderHold } else { ChangeKind::EasierHold })
}

fn unnamed_before(seen: Seen<'_>, pointer: &Pointer) -> Judged {
    let passing = Effects::of(&[Effect::Allow, Effect::Hold]);
    if seen.names(FIRST).contains(pointer) || !seen.effects(SECOND).each().any(|effect| passing.has(effect)) {
        return Judged::No;
    }
    match seen.open_naming(FIRST, pointer) {
        Some(at) => Judged::Ask(at),
        None => super::outcome::comes_out(seen, SECOND, passing),
    }
}
