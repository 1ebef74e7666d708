//! One or two policy sets, prepared for questions.

use std::cell::OnceCell;
use std::collections::HashMap;

use super::cells::{Clause, Domain};
use super::ground::{Ground, Windows};
use super::outcome::{FIRST, SECOND, pair};
use super::payment::Payment;
use super::search::{Judged, Point, Search, SearchBudget, SearchResult, SearchState};
use super::shape::PaymentShape;
use super::universe::Universe;
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
    pub rules: Vec<(&'m Rule, u8)>,
    pub universe: Universe,
    pub shapes: Vec<PaymentShape>,
    by_operation: HashMap<OperationId, Vec<usize>>,
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
        let universe = Universe::of(conditions, &maxes, &ids, &valuation, known);
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
        for (at, shape) in shapes.iter().enumerate() {
            for operation in shape.operations.iter() {
                by_operation.entry(operation.clone()).or_default().push(at);
            }
        }
        let operations = known.catalog.operations().iter();
        let grounds = operations.map(|operation| (operation.id.clone(), [OnceCell::new(), OnceCell::new()])).collect();
        Model { sets, known, rules, universe, shapes, by_operation, grounds }
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
        let search = Search { universe: &self.universe, without: None, ground, shapes: &self.shapes };
        let Question { must, judge, shows, budget } = question;
        let mut accept = |point: &Point<'_>| {
            let set = self.sets.first()?;
            let payment = Payment::of(&self.universe, ground, point, &set.valuation)?;
            let verdicts: Option<Vec<Verdict>> =
                self.sets.iter().map(|set| payment.decide(set, self.known.catalog)).collect();
            let verdicts = verdicts?;
            shows(&verdicts).then(|| (payment, verdicts, point.cells.clone()))
        };
        search.find(&must, self.about(&ground.operation.id), judge, &mut accept, budget)
    }

    /// Whether the outcome of a request that a rule matches may change without the rule; `None` if that is uncertain.
    pub(super) fn matters<'q>(
        &'q self,
        ground: &'q Ground<'q>,
        shape: &'q PaymentShape,
        budget: &mut SearchBudget,
    ) -> Option<bool> {
        let search = Search { universe: &self.universe, without: Some(shape.cause), ground, shapes: &self.shapes };
        let must: Vec<&Clause> = shape.clauses.iter().collect();
        let finer = |seen: SearchState<'_>, _| {
            seen.approvals(FIRST) != seen.approvals(SECOND) || seen.names(FIRST) != seen.names(SECOND)
        };
        let judge = |seen: SearchState<'_>| pair(seen, &|a, b| a != b, Some(&finer));
        match search.find(&must, self.about(&ground.operation.id), &judge, &mut |_| Some(()), budget) {
            SearchResult::One(()) => Some(true),
            SearchResult::Nothing => Some(false),
            SearchResult::Unknown => None,
        }
    }
}
