//! One or two policy sets, prepared for questions.

use std::cell::OnceCell;
use std::collections::HashMap;

use super::cells::{Clause, Domain};
use super::ground::{Ground, Windows};
use super::outcome::{FIRST, SECOND, pair};
use super::payment::Payment;
use super::search::{Judged, Point, Search, SearchBudget, SearchResult, SearchState};
use super::shape::{PaymentShape, ShapeCause};
use super::shape_index::ShapeIndex;
use super::twins::Twins;
use super::universe::{Universe, UniverseNames};
use crate::base::ids::OperationId;
use crate::catalog::Operation;
use crate::policy::KnownNames;
use crate::policy::condition::Condition;
use crate::policy::limit::{Limit, Max};
use crate::policy::rule::Rule;
use crate::policy::rules::{Rules, Verdict};

pub(super) struct Model<'m> {
    pub sets: Vec<&'m Rules>,
    pub known: &'m KnownNames<'m>,
    /// The rules of the sets; few stand for many that are alike.
    pub rules: Vec<(&'m Rule, u8)>,
    /// For how many others each rule stands.
    pub alike: Vec<usize>,
    pub universe: Universe,
    pub shapes: Vec<PaymentShape>,
    by_operation: HashMap<OperationId, Vec<usize>>,
    by_cause: HashMap<ShapeCause, Vec<usize>>,
    indexes: HashMap<OperationId, OnceCell<ShapeIndex>>,
    grounds: HashMap<OperationId, [OnceCell<Option<Ground<'m>>>; 2]>,
}

/// A question about one operation.
pub(super) struct Question<'q> {
    pub must: Vec<&'q Clause>,
    pub judge: &'q dyn Fn(SearchState<'_>) -> Judged,
    /// Whether a payment shows the claim, by each set's verdict.
    pub shows: &'q dyn Fn(&[Verdict]) -> bool,
    pub budget: &'q mut SearchBudget,
}

impl<'m> Model<'m> {
    /// `more` are conditions that questions will ask of besides.
    pub(super) fn of_one(rules: &'m Rules, more: &[&'m Condition], known: &'m KnownNames<'m>) -> Model<'m> {
        let both = FIRST | SECOND;
        let own = rules.rules.iter().map(|rule| (rule, both)).collect();
        Model::of(vec![rules], own, rules.limits.iter().map(|limit| (limit, both)).collect(), more, known)
    }

    pub(super) fn of(
        sets: Vec<&'m Rules>,
        rules: Vec<(&'m Rule, u8)>,
        limits: Vec<(&'m Limit, u8)>,
        more: &[&'m Condition],
        known: &'m KnownNames<'m>,
    ) -> Model<'m> {
        let others = limits.iter().flat_map(|(limit, _)| &limit.conditions).chain(more.iter().copied());
        let twins = Twins::of(&rules, others);
        let (rules, alike) = twins.kept(rules);
        let of_rules = rules.iter().flat_map(|(rule, _)| &rule.when.conditions);
        let of_limits = limits.iter().flat_map(|(limit, _)| &limit.conditions);
        let maxes: Vec<u64> = limits
            .iter()
            .filter_map(|(limit, _)| match limit.max {
                Max::MicroUsd(max) => Some(max),
                Max::Calls(_) => None,
            })
            .collect();
        let ids: Vec<&str> =
            if sets.len() == 1 { limits.iter().map(|(limit, _)| &*limit.id).collect() } else { Vec::new() };
        let valuation = sets.first().map(|set| set.valuation.clone()).unwrap_or_default();
        let conditions = of_rules.chain(of_limits).chain(more.iter().copied());
        let spans =
            limits.iter().filter_map(|(limit, _)| limit.max_in.as_ref()).map(|one| (one.from_secs, one.to_secs));
        let valued = spans.fold((i64::MIN, i64::MAX), |(from, to), (begin, end)| (from.max(begin), to.min(end)));
        let names = UniverseNames { limits: &ids, left_out: &twins.names, own_wallets: &twins.own_wallets, valued };
        let universe = Universe::of(conditions, &maxes, names, &valuation, known);
        let mut shapes = Vec::new();
        for (at, (rule, sides)) in rules.iter().enumerate() {
            shapes.extend(universe.rule(at, rule).into_iter().map(|shape| PaymentShape { sides: *sides, ..shape }));
        }
        for (at, (limit, sides)) in limits.iter().enumerate() {
            shapes.extend(universe.limit(at, limit).into_iter().map(|shape| PaymentShape { sides: *sides, ..shape }));
        }
        let operations = known.catalog.operations().iter();
        let fields = operations.flat_map(|operation| operation.fields_to_name().map(|field| (&operation.id, field)));
        for (at, (operation, field)) in fields.enumerate() {
            let shape = universe.field_to_name(at, operation, field);
            shapes.push(PaymentShape { sides: FIRST | SECOND, ..shape });
        }
        let mut by_operation: HashMap<OperationId, Vec<usize>> = HashMap::new();
        let mut by_cause: HashMap<ShapeCause, Vec<usize>> = HashMap::new();
        for (at, shape) in shapes.iter().enumerate() {
            by_cause.entry(shape.cause).or_default().push(at);
            for operation in shape.operations.iter() {
                by_operation.entry(operation.clone()).or_default().push(at);
            }
        }
        let operations = known.catalog.operations().iter();
        let grounds = operations.map(|operation| (operation.id.clone(), [OnceCell::new(), OnceCell::new()])).collect();
        let indexes = by_operation.keys().map(|id| (id.clone(), OnceCell::new())).collect();
        Model { sets, known, rules, alike, universe, shapes, by_operation, by_cause, indexes, grounds }
    }

    /// Returns the shapes of a rule, a limit or a field.
    pub(super) fn of_cause(&self, cause: ShapeCause) -> impl Iterator<Item = &PaymentShape> {
        self.by_cause.get(&cause).into_iter().flatten().filter_map(|at| self.shapes.get(*at))
    }

    /// Returns the index of an operation's shapes.
    fn index(&self, operation: &OperationId) -> Option<&ShapeIndex> {
        Some(self.indexes.get(operation)?.get_or_init(|| ShapeIndex::of(&self.shapes, self.about(operation))))
    }

    fn search<'q>(&'q self, ground: &'q Ground<'q>, without: Option<ShapeCause>) -> Search<'q> {
        // An operation without shapes has no index, and needs none.
        const NONE: &ShapeIndex = &ShapeIndex::NONE;
        let index = self.index(&ground.operation.id).unwrap_or(NONE);
        Search { universe: &self.universe, without, ground, shapes: &self.shapes, index }
    }

    pub(super) fn about(&self, operation: &OperationId) -> &[usize] {
        self.by_operation.get(operation).map_or(&[], Vec::as_slice)
    }

    /// Returns the possible requests of an operation; `None` if none can be described.
    pub(super) fn ground(&self, operation: &'m Operation, windows: Windows) -> Option<&Ground<'m>> {
        let [not_full, any_full] = self.grounds.get(&operation.id)?;
        let cell = if windows == Windows::NotFull { not_full } else { any_full };
        let valuations = || self.sets.iter().map(|set| &set.valuation).collect::<Vec<_>>();
        cell.get_or_init(|| self.universe.ground(operation, &valuations(), windows, self.known)).as_ref()
    }

    /// Returns a payment that answers the question, with each set's verdict.
    pub(super) fn ask<'q>(
        &'q self,
        ground: &'q Ground<'q>,
        question: Question<'q>,
    ) -> SearchResult<(Payment, Vec<Verdict>)> {
        match self.witness(ground, question) {
            SearchResult::One((payment, verdicts, _)) => SearchResult::One((payment, verdicts)),
            SearchResult::Nothing => SearchResult::Nothing,
            SearchResult::Unknown => SearchResult::Unknown,
        }
    }

    /// Returns a payment that answers the question, with each set's verdict, and the cells of its values.
    pub(super) fn witness<'q>(
        &'q self,
        ground: &'q Ground<'q>,
        question: Question<'q>,
    ) -> SearchResult<(Payment, Vec<Verdict>, Domain)> {
        let search = self.search(ground, None);
        let Question { must, judge, shows, budget } = question;
        let mut accept = |point: &Point<'_>| {
            let set = self.sets.first()?;
            let payment = Payment::of(&self.universe, ground, point, &set.valuation)?;
            let verdicts: Option<Vec<Verdict>> =
                self.sets.iter().map(|set| payment.decide(set, self.known.catalog)).collect();
            let verdicts = verdicts?;
            shows(&verdicts).then(|| (payment, verdicts, point.cells.clone()))
        };
        search.find(&must, judge, &mut accept, budget)
    }

    /// Whether the outcome of a request that a rule matches may change without the rule; `None` if that is uncertain.
    pub(super) fn matters<'q>(
        &'q self,
        ground: &'q Ground<'q>,
        shape: &'q PaymentShape,
        budget: &mut SearchBudget,
    ) -> Option<bool> {
        let search = self.search(ground, Some(shape.cause));
        let must: Vec<&Clause> = shape.clauses.iter().collect();
        let finer = |seen: SearchState<'_>, _| {
            seen.approvals(FIRST) != seen.approvals(SECOND) || seen.names(FIRST) != seen.names(SECOND)
        };
        let judge = |seen: SearchState<'_>| pair(seen, &|a, b| a != b, Some(&finer));
        match search.find(&must, &judge, &mut |_| Some(()), budget) {
            SearchResult::One(()) => Some(true),
            SearchResult::Nothing => Some(false),
            SearchResult::Unknown => None,
        }
    }
}
