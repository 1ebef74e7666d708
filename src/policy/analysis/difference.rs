//! Compares a new policy set with the old one, and finds out whether it only tightens.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use super::EXTENT_STEPS;
use super::approvals::Sides;
use super::cells::Clause;
use super::definitions::{self, DefinitionChange};
use super::extent::{Extent, ExtentQuestion, extent};
use super::ground::{Ground, Windows};
use super::limits::{self, LimitChange};
use super::model::{Model, Question};
use super::newcomers::{self, NewcomerChange};
use super::outcome::{Effects, pair};
use super::outcome::{FIRST, SECOND};
use super::payment::Payment;
use super::search::{Judged, SearchBudget, SearchResult, SearchState};
use super::shape::PaymentShape;
use super::twins::signature;
use super::universe::Variable;
use crate::base::ids::OperationId;
use crate::base::pointer::Pointer;
use crate::policy::rate::Mode;
use crate::policy::rule::{Effect, Rule};
use crate::policy::rules::Verdict;
use crate::policy::signing::{Signing, SigningChange};
use crate::policy::{KnownNames, Policies};

/// The most steps of the budget for one question.
const QUESTION_STEPS: u64 = 1_000_000;

/// The differences of a new set.
#[derive(Clone, Debug)]
pub struct Difference {
    /// One for each kind of change in the outcome of an operation's requests, with an example.
    pub changes: Vec<OutcomeChange>,
    /// The definitions that are not the same, side by side.
    pub definitions: Vec<DefinitionChange>,
    pub limits: Vec<LimitChange>,
    pub approvals: Vec<ApprovalChange>,
    /// Who may approve a destination.
    pub newcomers: Vec<NewcomerChange>,
    pub signing: Vec<SigningChange>,
    /// Whether amounts are valued differently.
    pub is_valued_otherwise: bool,
    pub direction: Direction,
}

/// The direction of a new set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// No request has another outcome, and as many people approve a destination; this is proved.
    Same,
    /// No request has a better outcome, no limit leaves more room, and no fewer people approve a destination; this is
    /// proved.
    OnlyTightens,
    /// A request passes that did not, or passes more easily.
    Loosens,
    /// No request was found that passes more easily, but the search was not complete.
    NotProved,
}

/// Requests of an operation with another outcome.
#[derive(Clone, Debug)]
pub struct OutcomeChange {
    pub operation: OperationId,
    pub kind: ChangeKind,
    pub example: Payment,
    pub old: Verdict,
    pub new: Verdict,
    /// The requests that change like this.
    pub extent: Extent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Another effect: the old one, and the new one.
    Effect(Effect, Effect),
    /// Held as before, but fewer or other people must approve.
    EasierHold,
    /// Held as before, but more people must approve.
    HarderHold,
    /// A rule names a field of the body that none named before: it now passes if the configuration lists the field.
    Named(Pointer),
}

/// An approval with another meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalChange {
    pub name: Arc<str>,
    /// Whether it is proved to demand at least as much.
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
    /// Whether the new set may allow more: the opposite is not proved.
    pub fn loosens(&self) -> bool {
        matches!(self.direction, Direction::Loosens | Direction::NotProved)
    }
}

/// Compares two sets within a budget of `steps`, and finds out where each change occurs.
pub(crate) fn difference_with_extents(
    old: &Policies,
    new: &Policies,
    known: &KnownNames<'_>,
    steps: u64,
) -> Difference {
    compared(old, new, known, steps, EXTENT_STEPS)
}

/// Compares two sets within a budget of `steps`; the extents of changes stay empty.
pub(crate) fn difference(old: &Policies, new: &Policies, known: &KnownNames<'_>, steps: u64) -> Difference {
    compared(old, new, known, steps, 0)
}

fn compared(old: &Policies, new: &Policies, known: &KnownNames<'_>, steps: u64, extent_steps: u64) -> Difference {
    let sides = Sides { old, new };
    let (rules, limits) = (side_by_side(sides), limits::side_by_side(sides));
    let model = Model::of(vec![&old.rules, &new.rules], rules, limits, &[], known);
    let mut comparing = Comparing { model: &model, sides, budget: SearchBudget::of(steps), is_sure: true };
    let mut changes = Vec::new();
    for operation in known.catalog.operations() {
        if let Some(ground) = model.ground(operation, Windows::NotFull) {
            comparing.operation(ground, &mut changes);
        }
    }
    let mut budget = SearchBudget::of(extent_steps);
    for change in changes.iter_mut().filter(|_| extent_steps > 0) {
        change.extent = comparing.extent(change, &mut budget);
    }
    let is_sure = comparing.is_sure;
    // If fewer rules name a field, less passes where the configuration lists the field.
    let names_less = model.shapes.iter().any(|shape| shape.sides == FIRST && !shape.names.is_empty());
    let limits = limits::changes(sides);
    let is_valued_otherwise = old.rules.valuation != new.rules.valuation;
    let named = old.rules.approvals.keys().filter(|name| new.rules.approvals.contains_key(*name));
    let approvals = named
        .filter(|name| !sides.is_same(name))
        .map(|name| ApprovalChange { name: name.clone(), is_as_strict: sides.is_as_strict(name, name) });
    let newcomers = newcomers::changes(sides);
    let signing = Signing::changes(old.rules.signing.as_ref(), new.rules.signing.as_ref());
    let loosens = changes.iter().any(|change| change.kind.loosens())
        || limits.iter().any(|limit| limit.kind.loosens())
        || newcomers.iter().any(NewcomerChange::loosens)
        || signing.iter().any(|change| change.loosens);
    let is_same = newcomers.is_empty() && !names_less;
    let direction = match (loosens, is_sure && !is_valued_otherwise) {
        (true, _) => Direction::Loosens,
        (false, false) => Direction::NotProved,
        (false, true) if is_same && changes.is_empty() && limits.is_empty() && signing.is_empty() => Direction::Same,
        (false, true) => Direction::OnlyTightens,
    };
    let definitions = definitions::side_by_side(old, new);
    let approvals = approvals.collect();
    Difference { changes, definitions, limits, approvals, newcomers, signing, is_valued_otherwise, direction }
}

/// Returns every rule in force, with the sides that have it. A rule with the same meaning on both sides is listed once.
fn side_by_side(sides: Sides<'_>) -> Vec<(&Rule, u8)> {
    let in_force = |policies: &'_ Policies| -> Vec<usize> {
        let rules = policies.rules.rules.iter().enumerate();
        rules.filter(|(_, rule)| rule.mode == Mode::Enforce).map(|(at, _)| at).collect()
    };
    let (olds, news) = (&sides.old.rules.rules, &sides.new.rules.rules);
    let mut left: Vec<usize> = in_force(sides.new);
    let by_id: HashMap<&str, usize> = left.iter().filter_map(|at| Some((&*news.get(*at)?.id, *at))).collect();
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
    // Under another id, a rule is found by what it says.
    let mut by_text: HashMap<String, VecDeque<usize>> = HashMap::new();
    for at in left.iter().filter(|_| !unmatched.is_empty()) {
        let text = news.get(*at).map(|new| signature(new, None)).unwrap_or_default();
        by_text.entry(text).or_default().push_back(*at);
    }
    for old in unmatched {
        let same = by_text.get_mut(&signature(old, None)).filter(|all| all.front().is_some_and(|at| is_same(old, at)));
        let twin = same.and_then(VecDeque::pop_front);
        taken.extend(twin);
        all.push((old, if twin.is_some() { FIRST | SECOND } else { FIRST }));
    }
    left.retain(|at| !taken.contains(at));
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
    budget: SearchBudget,
    is_sure: bool,
}

impl<'c> Comparing<'c> {
    /// Finds the changes of an operation. An outcome can change only if a rule or limit of one side alone matches.
    fn operation(&mut self, ground: &Ground<'_>, changes: &mut Vec<OutcomeChange>) {
        let model = self.model;
        let about = model.about(&ground.operation.id).iter().filter_map(|at| model.shapes.get(*at));
        let mut seen: Vec<ChangeKind> = Vec::new();
        for shape in about.filter(|shape| shape.sides != FIRST | SECOND) {
            let must: Vec<&Clause> = shape.clauses.iter().collect();
            while let Some(change) = self.change(ground, must.clone(), &seen) {
                seen.push(change.kind.clone());
                changes.push(change);
            }
            // A listed field that no rule named is denied: most such changes are found as changes of the effect.
            let is_found = |kind: &ChangeKind| matches!(kind, ChangeKind::Effect(Effect::Deny, _));
            if shape.sides == SECOND && !seen.iter().any(is_found) {
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
        judge: &dyn Fn(SearchState<'_>) -> Judged,
        shows: &dyn Fn(&[Verdict]) -> bool,
    ) -> Option<(Payment, [Verdict; 2])> {
        let mut budget = self.budget.part(QUESTION_STEPS);
        let found = self.model.ask(ground, Question { must, judge, shows, budget: &mut budget });
        self.budget.settle(budget);
        self.is_sure &= found != SearchResult::Unknown;
        match found {
            SearchResult::One((payment, verdicts)) => {
                <[Verdict; 2]>::try_from(verdicts).ok().map(|both| (payment, both))
            }
            SearchResult::Nothing | SearchResult::Unknown => None,
        }
    }

    /// Finds a change of a kind that is not known yet.
    fn change(&mut self, ground: &Ground<'_>, must: Vec<&Clause>, known: &[ChangeKind]) -> Option<OutcomeChange> {
        let sides = self.sides;
        let is_new = |kind: Option<ChangeKind>| kind.is_some_and(|kind| !known.contains(&kind));
        let finer = |seen: SearchState<'_>, effect: Effect| {
            effect == Effect::Hold && is_new(held(sides, &seen.approvals(FIRST), &seen.approvals(SECOND)))
        };
        let wanted = |old, new| old != new && is_new(Some(ChangeKind::Effect(old, new)));
        let kind_of = |old: &Verdict, new: &Verdict| match (old.effect, new.effect) {
            (Effect::Hold, Effect::Hold) => held(sides, &old.approvals, &new.approvals),
            (old, new) if old == new => None,
            (old, new) => Some(ChangeKind::Effect(old, new)),
        };
        let judge = |seen: SearchState<'_>| pair(seen, &wanted, Some(&finer));
        let shows = |verdicts: &[Verdict]| matches!(verdicts, [old, new] if is_new(kind_of(old, new)));
        let (example, [old, new]) = self.ask(ground, must, &judge, &shows)?;
        let (operation, extent) = (ground.operation.id.clone(), Extent::default());
        Some(OutcomeChange { operation, kind: kind_of(&old, &new)?, example, old, new, extent })
    }

    /// Finds out which requests change like one that was found.
    fn extent(&self, change: &OutcomeChange, budget: &mut SearchBudget) -> Extent {
        let (model, sides, kind) = (self.model, self.sides, &change.kind);
        let operation = model.known.catalog.operation(&change.operation);
        let Some(ground) = operation.and_then(|operation| model.ground(operation, Windows::NotFull)) else {
            return Extent::default();
        };
        let about = model.about(&change.operation).iter().filter_map(|at| model.shapes.get(*at));
        let stated = match kind {
            ChangeKind::Named(pointer) => self.stated(pointer),
            _ => Vec::new(),
        };
        let is_about = |shape: &&PaymentShape| match kind {
            ChangeKind::Named(pointer) => shape.sides == SECOND && shape.names.contains(pointer),
            _ => shape.sides != FIRST | SECOND,
        };
        let musts = about.filter(is_about).map(|shape| shape.clauses.iter().chain(&stated).collect()).collect();
        let is_held = |old: &BTreeSet<Arc<str>>, new: &BTreeSet<Arc<str>>| held(sides, old, new).as_ref() == Some(kind);
        let finer = |seen: SearchState<'_>, effect: Effect| {
            effect == Effect::Hold && is_held(&seen.approvals(FIRST), &seen.approvals(SECOND))
        };
        let judge = |seen: SearchState<'_>| match kind {
            ChangeKind::Effect(from, to) => pair(seen, &|old, new| (old, new) == (*from, *to), None),
            ChangeKind::EasierHold | ChangeKind::HarderHold => pair(seen, &|_, _| false, Some(&finer)),
            ChangeKind::Named(pointer) => unnamed_before(seen, pointer),
        };
        let shows = |verdicts: &[Verdict]| match (verdicts, kind) {
            ([old, new], ChangeKind::Effect(from, to)) => (old.effect, new.effect) == (*from, *to),
            ([old, new], ChangeKind::EasierHold | ChangeKind::HarderHold) => {
                (old.effect, new.effect) == (Effect::Hold, Effect::Hold) && is_held(&old.approvals, &new.approvals)
            }
            ([_, new], ChangeKind::Named(_)) => new.effect != Effect::Deny,
            _ => false,
        };
        extent(model, ground, ExtentQuestion { musts, judge: &judge, shows: &shows }, budget)
    }

    /// Finds a request with a field that no rule named before, and that passes or is held under the new set.
    fn named(&mut self, ground: &Ground<'_>, must: Vec<&Clause>, pointer: &Pointer) -> Option<OutcomeChange> {
        let stated = self.stated(pointer);
        let must = must.into_iter().chain(&stated).collect();
        let judge = |seen: SearchState<'_>| unnamed_before(seen, pointer);
        let catalog = self.model.known.catalog;
        let (example, _) = self.ask(ground, must, &judge, &|verdicts| {
            verdicts.iter().next_back().is_some_and(|new| new.effect != Effect::Deny)
        })?;
        let decide = |policies: &Policies| example.decide(&policies.rules, catalog);
        let (old, new) = (decide(self.sides.old)?, decide(self.sides.new)?);
        let is_shown = old.effect == Effect::Deny && new.effect != Effect::Deny;
        self.is_sure &= is_shown;
        let (operation, kind) = (ground.operation.id.clone(), ChangeKind::Named(pointer.clone()));
        is_shown.then(|| OutcomeChange {
            operation,
            kind,
            example: example.clone(),
            old,
            new,
            extent: Extent::default(),
        })
    }

    /// Returns the clauses for: the body has a value at a pointer.
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

fn unnamed_before(seen: SearchState<'_>, pointer: &Pointer) -> Judged {
    let passing = Effects::of(&[Effect::Allow, Effect::Hold]);
    if seen.names(FIRST).contains(pointer) || !seen.effects(SECOND).each().any(|effect| passing.has(effect)) {
        return Judged::No;
    }
    match seen.open_naming(FIRST, pointer) {
        Some(at) => Judged::Ask(at),
        None => super::outcome::comes_out(seen, SECOND, passing),
    }
}
