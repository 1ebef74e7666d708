//! The whole set at one look: for each operation, caller and class of destinations, the largest amount that passes with
//! nobody, with one person, with two, and so on.
//!
//! A figure is exact: the rules let a request of that amount pass like that, and none of a larger one. A figure that the
//! budget did not suffice for is marked, and is then at least so large. Requests of a row name their destination in one
//! way, and have one role: with more of either, nothing passes that does not pass with one. Windows of limits are taken as empty; a limit
//! that is smaller than an amount stops it.

use std::collections::BTreeSet;

use super::cells::{CellLiteral, Cells, Clause};
use super::extent::acquaintance_in_words;
use super::ground::{Ground, Windows};
use super::model::{Model, Question};
use super::outcome::{Effects, FIRST, comes_out};
use super::search::{Judged, SearchBudget, SearchResult, SearchState};
use super::universe::{Cell, DESTINATIONS, Variable};
use crate::catalog::Operation;
use crate::policy::acquaintance::Acquaintance;
use crate::policy::condition::Condition;
use crate::policy::describe;
use crate::policy::rate::Mode;
use crate::policy::request::Field;
use crate::policy::rule::Effect;
use crate::policy::rules::Verdict;
use crate::policy::{KnownNames, Policies};

/// The most steps of the budget for one question.
const QUESTION_STEPS: u64 = 200_000;
/// The most rows of an operation; beyond, destinations are not distinguished.
const MAX_ROWS: usize = 400;

/// The payments that a set lets pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassTable {
    /// The numbers of people that holds may need, in ascending order, zero included.
    pub people: Vec<u64>,
    pub operations: Vec<PassOperation>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassOperation {
    pub operation: String,
    pub has_amount: bool,
    pub rows: Vec<PassRow>,
    /// The limits in force that bind it, in words.
    pub limits: Vec<(String, String)>,
}

/// A class of callers and of destinations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassRow {
    /// The environment, where rules distinguish it.
    pub environment: Option<String>,
    pub caller: String,
    pub destination: String,
    /// One for each number of people.
    pub most: Vec<PassMost>,
}

/// The largest request that passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassMost {
    /// The value in micro-USD, `u128::MAX` if there is no bound or no amount; `None` if no request passes.
    pub most: Option<u128>,
    /// Whether no larger request passes.
    pub is_exact: bool,
}

/// A class of one axis: its words, and the clauses for it.
struct PassClass {
    words: String,
    clauses: Vec<Clause>,
}

pub(crate) fn table(policies: &Policies, known: &KnownNames<'_>, steps: u64) -> PassTable {
    let model = Model::of_one(&policies.rules, &[], known);
    let used = policies.rules.rules.iter().filter_map(|rule| rule.approval.as_ref());
    let used = used.chain(policies.rules.limits.iter().filter_map(|limit| limit.over.as_ref()));
    let fewest = used.filter_map(|name| policies.rules.approvals.get(name)).map(|approval| approval.need.fewest());
    let people: Vec<u64> = fewest.chain([0]).collect::<BTreeSet<_>>().into_iter().collect();
    let mut tabling = Tabling { model: &model, policies, people: &people, budget: SearchBudget::of(steps) };
    let writes = known.catalog.operations().iter().filter(|operation| operation.is_write() && operation.enabled);
    let operations: Vec<PassOperation> = writes.filter_map(|operation| tabling.operation(operation)).collect();
    PassTable { people, operations }
}

struct Tabling<'t, 'm> {
    model: &'t Model<'m>,
    policies: &'t Policies,
    people: &'t [u64],
    budget: SearchBudget,
}

impl<'m> Tabling<'_, 'm> {
    fn operation(&mut self, operation: &'m Operation) -> Option<PassOperation> {
        let model = self.model;
        let ground = model.ground(operation, Windows::NotFull)?;
        let (environments, callers) = (self.environments(operation), self.callers(operation));
        let mut destinations = self.destinations(ground);
        let size = |some: usize| environments.len().saturating_mul(callers.len()).saturating_mul(some);
        if size(destinations.len()) > MAX_ROWS {
            destinations = vec![PassClass { words: "any".to_owned(), clauses: Vec::new() }];
        }
        let mut rows = Vec::new();
        for environment in environments.iter().filter(|_| size(destinations.len()) <= MAX_ROWS) {
            for caller in &callers {
                let mut of_caller = Vec::new();
                for destination in &destinations {
                    let classes = [environment, caller, destination];
                    let clauses: Vec<&Clause> = classes.into_iter().flat_map(|class| &class.clauses).collect();
                    let most = self.people.iter().map(|people| self.most(ground, &clauses, *people)).collect();
                    of_caller.push(PassRow {
                        environment: Some(environment.words.clone()).filter(|words| !words.is_empty()),
                        caller: caller.words.clone(),
                        destination: destination.words.clone(),
                        most,
                    });
                }
                rows.extend(merged(of_caller));
            }
        }
        let of_operation = |limit: &&crate::policy::limit::Limit| {
            limit.mode == Mode::Enforce && limit.operations.contains(&operation.id)
        };
        let limits = self.policies.rules.limits.iter().filter(of_operation);
        let limits = limits.map(|limit| (limit.id.to_string(), describe::limit_in_words(limit))).collect();
        let (operation, has_amount) = (operation.id.as_str().to_owned(), operation.has_amount());
        Some(PassOperation { operation, has_amount, rows, limits })
    }

    /// Whether a condition of a rule or limit of an operation is of a kind.
    fn asks(&self, operation: &Operation, is_it: impl Fn(&Condition) -> bool) -> bool {
        let rules = &self.policies.rules;
        let of_rules = rules.rules.iter().filter(|rule| rule.when.operations.contains(&operation.id));
        let of_limits = rules.limits.iter().filter(|limit| limit.operations.contains(&operation.id));
        let conditions = of_rules.flat_map(|rule| &rule.when.conditions);
        conditions.chain(of_limits.flat_map(|limit| &limit.conditions)).any(is_it)
    }

    fn asks_for(&self, operation: &Operation, wanted: Field) -> bool {
        self.asks(operation, |condition| {
            matches!(condition, Condition::Names(field, _) | Condition::NotNames(field, _) if *field == wanted)
        })
    }

    fn environments(&self, operation: &Operation) -> Vec<PassClass> {
        if !self.asks_for(operation, Field::Environment) {
            return vec![PassClass { words: String::new(), clauses: Vec::new() }];
        }
        self.cells(Field::Environment)
            .into_iter()
            .map(|(words, clause)| PassClass { words, clauses: vec![clause] })
            .collect()
    }

    /// Returns a class for each role alone, for no role, and for each caller that rules name.
    fn callers(&self, operation: &Operation) -> Vec<PassClass> {
        let universe = &self.model.universe;
        let roles = universe.several.get(&Field::Role).map_or(&[][..], Vec::as_slice);
        let roles: Vec<&(usize, String)> = roles.iter().filter(|_| self.asks_for(operation, Field::Role)).collect();
        let callers: Vec<(String, Clause)> = match self.asks_for(operation, Field::Caller) {
            true => self.cells(Field::Caller),
            false => Vec::new(),
        };
        let (others, named): (Vec<_>, Vec<_>) =
            callers.into_iter().partition(|(words, _)| words.starts_with("any other"));
        let unnamed = join(others.into_iter().map(|(_, clause)| clause));
        let alone = |only: Option<usize>| -> Vec<Clause> {
            let each = roles.iter().map(|(var, _)| Clause(vec![universe.says(*var, Some(*var) == only)]));
            each.chain(unnamed.clone()).collect()
        };
        let mut classes: Vec<PassClass> = Vec::new();
        for (var, name) in &roles {
            classes.push(PassClass { words: format!("role `{name}` alone"), clauses: alone(Some(*var)) });
        }
        for (words, clause) in named {
            classes.push(PassClass { words: format!("{words}, any role"), clauses: vec![clause] });
        }
        let words = match (roles.is_empty(), classes.is_empty()) {
            (true, true) => "any",
            (true, false) => "any other",
            (false, _) => "no such role",
        };
        classes.push(PassClass { words: words.to_owned(), clauses: alone(None) });
        classes
    }

    /// Returns a class for each destination that rules name, and for the others, by each field that names one.
    fn destinations(&self, ground: &Ground<'_>) -> Vec<PassClass> {
        let universe = &self.model.universe;
        let there = |field: Field, absent: bool| {
            universe.only(&Variable::Name(field), |cell| (*cell == Cell::Absent) == absent)
        };
        let operation = ground.operation;
        let is_new_asked = self.asks(operation, |condition| matches!(condition, Condition::NewDestination { .. }));
        let mut classes = Vec::new();
        for field in DESTINATIONS {
            let Some(var) = universe.place(&Variable::Name(field)) else { continue };
            let Some(slot) = universe.slot(var) else { continue };
            let has_names = |cell: usize| universe.cells(var).get(cell).is_some_and(|cell| *cell != Cell::Absent);
            if !(0..universe.cells(var).len()).any(|cell| has_names(cell) && ground.start.has(slot, cell)) {
                continue;
            }
            let others = DESTINATIONS.into_iter().filter(|other| *other != field);
            let alone: Vec<Clause> = others.filter_map(|other| there(other, true)).collect();
            for (words, clause) in self.cells(field) {
                let name = field.as_str().trim_start_matches("the destination's ");
                let base: Vec<Clause> = alone.iter().cloned().chain([clause]).collect();
                if !is_new_asked {
                    classes.push(PassClass { words: format!("{name} {words}"), clauses: base });
                    continue;
                }
                let paid = universe.place(&Variable::Paid(field)).map(|var| universe.cells(var)).unwrap_or_default();
                let level = |cell: &Cell| match cell {
                    Cell::Known(newest, oldest) if newest == oldest => Some(*newest),
                    _ => None,
                };
                let levels: BTreeSet<Acquaintance> = paid.iter().filter_map(level).collect();
                for known in levels.iter().rev() {
                    let word = match known {
                        None => "new".to_owned(),
                        known => acquaintance_in_words(*known, &levels),
                    };
                    let known = universe.only(&Variable::Paid(field), |cell| level(cell) == Some(*known));
                    let clauses = base.iter().cloned().chain(known).collect();
                    classes.push(PassClass { words: format!("{name} {words}, {word}"), clauses });
                }
            }
        }
        let none = DESTINATIONS.into_iter().filter_map(|field| there(field, true)).collect();
        let words = if classes.is_empty() { "any" } else { "none named" };
        classes.push(PassClass { words: words.to_owned(), clauses: none });
        classes
    }

    /// Returns each class of names in a field, absence left out.
    fn cells(&self, field: Field) -> Vec<(String, Clause)> {
        let universe = &self.model.universe;
        let Some(var) = universe.place(&Variable::Name(field)) else { return Vec::new() };
        let count = universe.cells(var).len();
        let is_name = |(_, cell): &(usize, &Cell)| **cell != Cell::Absent;
        let all: BTreeSet<usize> = universe.cells(var).iter().enumerate().filter(is_name).map(|(at, _)| at).collect();
        let words = super::extent::names(universe, field, var, &all);
        let class = |(at, words): (usize, String)| {
            (words, Clause(vec![CellLiteral { var, cells: Cells::none(count).and(at) }]))
        };
        all.into_iter().zip(words).map(class).collect()
    }

    /// Returns the largest request of a class that needs exactly this number of people.
    fn most(&mut self, ground: &Ground<'_>, clauses: &[&Clause], people: u64) -> PassMost {
        let universe = &self.model.universe;
        let Some(var) = universe.place(&Variable::Value) else { return PassMost { most: None, is_exact: false } };
        let cells: Vec<(usize, u128)> = universe
            .cells(var)
            .iter()
            .enumerate()
            .filter_map(|(at, cell)| match cell {
                Cell::Numbers(_, most) if ground.operation.has_amount() => Some((at, *most)),
                Cell::Absent if !ground.operation.has_amount() => Some((at, u128::MAX)),
                _ => None,
            })
            .collect();
        let count = universe.cells(var).len();
        // INVARIANT: some request in the cells from `low` on passes; none in those from `high` on.
        let (mut low, mut high, mut is_exact) = (None, cells.len(), true);
        let mut from = 0;
        while from < high {
            let above = cells.iter().skip(from).take(high.saturating_sub(from));
            let wanted = above.fold(Cells::none(count), |set, (cell, _)| set.and(*cell));
            let clause = Clause(vec![CellLiteral { var, cells: wanted }]);
            match self.passes(ground, clauses, &clause, people) {
                SearchResult::One(()) => low = Some(from),
                SearchResult::Nothing => high = from,
                SearchResult::Unknown => (high, is_exact) = (from, false),
            }
            let begin = low.map_or(0, |low: usize| low.saturating_add(1));
            if low.is_none() && high == 0 || begin >= high {
                break;
            }
            from = begin.saturating_add(high) / 2;
        }
        let most = low.and_then(|low| cells.get(low)).map(|(_, most)| *most);
        PassMost { most, is_exact }
    }

    fn passes(&mut self, ground: &Ground<'_>, clauses: &[&Clause], value: &Clause, people: u64) -> SearchResult<()> {
        let approvals = &self.policies.rules.approvals;
        let needed = |names: &BTreeSet<std::sync::Arc<str>>| {
            names
                .iter()
                .filter_map(|name| approvals.get(name))
                .map(|approval| approval.need.fewest())
                .max()
                .unwrap_or(0)
        };
        let wanted = Effects::of(&[if people == 0 { Effect::Allow } else { Effect::Hold }]);
        let judge = |seen: SearchState<'_>| match comes_out(seen, FIRST, wanted) {
            Judged::Yes if people > 0 => match seen.adding(FIRST) {
                Some(at) => Judged::Ask(at),
                None if needed(&seen.approvals(FIRST)) == people => Judged::Yes,
                None => Judged::No,
            },
            other => other,
        };
        let shows = |verdicts: &[Verdict]| {
            verdicts.iter().all(|verdict| wanted.has(verdict.effect) && needed(&verdict.approvals) == people)
        };
        let must = clauses.iter().copied().chain([value]).collect();
        let mut budget = self.budget.part(QUESTION_STEPS);
        let found = self.model.ask(ground, Question { must, judge: &judge, shows: &shows, budget: &mut budget });
        self.budget.settle(budget);
        match found {
            SearchResult::One(_) => SearchResult::One(()),
            SearchResult::Nothing => SearchResult::Nothing,
            SearchResult::Unknown => SearchResult::Unknown,
        }
    }
}

/// Returns one clause for any of the classes; none if there are no classes.
fn join(clauses: impl Iterator<Item = Clause>) -> Option<Clause> {
    let literals: Vec<CellLiteral> = clauses.flat_map(|clause| clause.0).collect();
    (!literals.is_empty()).then_some(Clause(literals))
}

/// Joins the classes of destinations with the same figures.
fn merged(rows: Vec<PassRow>) -> Vec<PassRow> {
    let count = rows.len();
    let mut joined: Vec<(PassRow, Vec<String>)> = Vec::new();
    for row in rows {
        let words = row.destination.clone();
        match joined.iter_mut().find(|(other, _)| other.most == row.most) {
            Some((_, all)) => all.push(words),
            None => joined.push((row, vec![words])),
        }
    }
    let word = |all: Vec<String>| if all.len() == count { "any".to_owned() } else { all.join("; ") };
    joined.into_iter().map(|(row, all)| PassRow { destination: word(all), ..row }).collect()
}
