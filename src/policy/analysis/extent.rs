//! The extent of a change: the amounts, people, destinations and times at which some request has another outcome.
//!
//! Each dimension is exact on its own: at a listed value, some request changes; at all others, none does. A search that
//! was not complete says so, and may have left out values.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::cells::{CellLiteral, Cells, Clause, Domain};
use super::find::usd;
use super::ground::Ground;
use super::model::{Model, Question};
use super::moments::is_at;
use super::payment::Payment;
use super::search::{Judged, SearchBudget, SearchResult, SearchState};
use super::universe::{Cell, Universe, Variable};
use crate::base::money::MAX_MICRO_USD;
use crate::policy::acquaintance::{Acquaintance, span};
use crate::policy::condition::{PRICE_DECIMALS, between, decimal_text};
use crate::policy::dates::dates_in_words;
use crate::policy::interval::Interval;
use crate::policy::literal::Literal as Written;
use crate::policy::request::Field;
use crate::policy::rules::Verdict;

/// The most steps of the budget for one question.
const QUESTION_STEPS: u64 = 200_000;
/// How many values of one dimension are listed.
const MAX_LISTED: usize = 12;

/// Where requests change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The values in micro-USD, as closed ranges in ascending order; `None` if the operation has no amount.
    pub amounts: Option<Vec<(u128, u128)>>,
    /// Every other dimension in which only some values change, sorted.
    pub only: Vec<ExtentDimension>,
    /// A request with the largest value that changes, if there is a largest.
    pub widest: Option<Box<Payment>>,
    /// Whether every value was examined.
    pub is_complete: bool,
}

/// A property of requests, and the values at which some request changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExtentDimension {
    pub kind: DimensionKind,
    /// The property, in words.
    pub name: String,
    /// Its values, in words.
    pub values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DimensionKind {
    People,
    Source,
    Destination,
    Time,
    Other,
}

/// A kind of change: the clauses of which at least one group must hold, and whether a state and verdicts show it.
pub(super) struct ExtentQuestion<'q> {
    pub musts: Vec<Vec<&'q Clause>>,
    pub judge: &'q dyn Fn(SearchState<'_>) -> Judged,
    pub shows: &'q dyn Fn(&[Verdict]) -> bool,
}

pub(super) fn extent<'e>(
    model: &'e Model<'_>,
    ground: &'e Ground<'e>,
    question: ExtentQuestion<'e>,
    budget: &'e mut SearchBudget,
) -> Extent {
    let present = vec![BTreeSet::new(); model.universe.variables.len()];
    let mut extending = Extending { model, ground, question, budget, present, widest: None, is_complete: true };
    for (var, (variable, _)) in model.universe.variables.iter().enumerate() {
        if !matches!(variable, Variable::Full(_)) {
            extending.variable(var);
        }
    }
    extending.result()
}

struct Extending<'e, 'm> {
    model: &'e Model<'m>,
    ground: &'e Ground<'e>,
    question: ExtentQuestion<'e>,
    budget: &'e mut SearchBudget,
    /// For each variable, the cells in which a request changes.
    present: Vec<BTreeSet<usize>>,
    /// The request with the greatest cell of its value.
    widest: Option<(usize, Payment)>,
    is_complete: bool,
}

impl Extending<'_, '_> {
    /// Finds every cell of a variable in which some request changes.
    fn variable(&mut self, var: usize) {
        let classes = self.classes(var);
        let first = |class: &Vec<usize>| class.first().copied();
        let mut groups: Vec<Vec<usize>> = vec![classes.iter().filter_map(first).collect()];
        while let Some(group) = groups.pop() {
            let left: Vec<usize> = group.iter().copied().filter(|cell| !self.is_present(var, *cell)).collect();
            if left.is_empty() {
                continue;
            }
            let count = self.model.universe.cells(var).len();
            let cells = left.iter().fold(Cells::none(count), |cells, cell| cells.and(*cell));
            let clause = Clause(vec![CellLiteral { var, cells }]);
            match self.find(&clause) {
                SearchResult::Nothing => {}
                // A request was found in none of the cells: its time was chosen otherwise.
                SearchResult::One(()) if left.iter().any(|cell| self.is_present(var, *cell)) => groups.push(left),
                SearchResult::One(()) | SearchResult::Unknown if left.len() > 1 && !self.budget.is_spent() => {
                    let (first, second) = left.split_at(left.len() / 2);
                    groups.extend([first.to_vec(), second.to_vec()]);
                }
                SearchResult::One(()) | SearchResult::Unknown => self.is_complete = false,
            }
        }
        let Some(present) = self.present.get_mut(var) else { return };
        for class in classes {
            if class.iter().any(|cell| present.contains(cell)) {
                present.extend(class);
            }
        }
    }

    /// Returns the possible cells in classes that change alike: no condition distinguishes the hours, or the days, of one
    /// class. Of every other variable, each cell is a class.
    fn classes(&self, var: usize) -> Vec<Vec<usize>> {
        let possible = self.possible(var);
        let variable = self.model.universe.variables.get(var).map(|(variable, _)| variable);
        if !matches!(variable, Some(Variable::Weekday(_) | Variable::Hour(_))) {
            return possible.into_iter().map(|cell| vec![cell]).collect();
        }
        let about = self.model.about(&self.ground.operation.id).iter().filter_map(|at| self.model.shapes.get(*at));
        let clauses = about.flat_map(|shape| &shape.clauses);
        let literals: Vec<&CellLiteral> = clauses.flat_map(|clause| &clause.0).filter(|one| one.var == var).collect();
        let mut classes: BTreeMap<Vec<bool>, Vec<usize>> = BTreeMap::new();
        for cell in possible {
            let marks = literals.iter().map(|literal| literal.cells.has(cell)).collect();
            classes.entry(marks).or_default().push(cell);
        }
        classes.into_values().collect()
    }

    fn possible(&self, var: usize) -> Vec<usize> {
        let Some(slot) = self.model.universe.slot(var) else { return Vec::new() };
        (0..self.model.universe.cells(var).len()).filter(|cell| self.ground.start.has(slot, *cell)).collect()
    }

    fn is_present(&self, var: usize, cell: usize) -> bool {
        self.present.get(var).is_some_and(|cells| cells.contains(&cell))
    }

    /// Finds a request that changes, in these cells.
    fn find(&mut self, clause: &Clause) -> SearchResult<()> {
        let mut is_sure = true;
        for must in &self.question.musts {
            let must: Vec<&Clause> = must.iter().copied().chain([clause]).collect();
            let mut budget = self.budget.part(QUESTION_STEPS);
            let question =
                Question { must, judge: self.question.judge, shows: self.question.shows, budget: &mut budget };
            let found = self.model.witness(self.ground, question);
            self.budget.settle(budget);
            match found {
                SearchResult::One((payment, _, cells)) => {
                    self.note(payment, &cells);
                    return SearchResult::One(());
                }
                SearchResult::Nothing => {}
                SearchResult::Unknown => is_sure = false,
            }
        }
        if is_sure { SearchResult::Nothing } else { SearchResult::Unknown }
    }

    /// Notes the cells of a request that changes.
    fn note(&mut self, payment: Payment, cells: &Domain) {
        let universe = &self.model.universe;
        let mut value = None;
        for (var, ((variable, all), slot)) in universe.variables.iter().zip(&universe.slots).enumerate() {
            let cell = match variable {
                Variable::Weekday(zone) | Variable::Hour(zone) | Variable::Date(zone) => {
                    let now = Timestamp::from_microsecond(payment.now.as_micros()).ok();
                    let local = now.zip(universe.zones.get(zone)).map(|(now, zone)| now.to_zoned(zone.clone()));
                    local.and_then(|local| all.iter().position(|cell| is_at(variable, cell, &local)))
                }
                _ => cells.first(*slot),
            };
            if *variable == Variable::Value {
                value = cell;
            }
            if let (Some(present), Some(cell)) = (self.present.get_mut(var), cell) {
                present.insert(cell);
            }
        }
        let (Some(var), Some(cell)) = (universe.place(&Variable::Value), value) else { return };
        let is_amount = matches!(universe.cells(var).get(cell), Some(Cell::Numbers(..)));
        if is_amount && self.widest.as_ref().is_none_or(|(widest, _)| cell > *widest) {
            self.widest = Some((cell, payment));
        }
    }

    fn result(mut self) -> Extent {
        let universe = &self.model.universe;
        let mut only: Vec<ExtentDimension> = Vec::new();
        let mut amounts: Option<Vec<(u128, u128)>> = None;
        for (var, (variable, _)) in universe.variables.iter().enumerate() {
            let Some(present) = self.present.get(var) else { continue };
            if *variable == Variable::Value {
                amounts = self.ground.operation.has_amount().then(|| ranges(universe.cells(var), present));
            } else if self.possible(var).iter().any(|cell| !present.contains(cell)) {
                only.extend(dimension(universe, var, variable, present));
            }
        }
        only.sort();
        only.dedup();
        let widest = self.widest.take().and_then(|(cell, payment)| self.widened(cell, payment)).map(Box::new);
        Extent { amounts, only, widest, is_complete: self.is_complete }
    }

    /// Returns a payment with the largest value of its cell; `None` if its value has no bound.
    fn widened(&self, cell: usize, payment: Payment) -> Option<Payment> {
        let var = self.model.universe.place(&Variable::Value)?;
        let Cell::Numbers(_, most) = self.model.universe.cells(var).get(cell)? else { return None };
        if *most == u128::from(MAX_MICRO_USD) {
            return None;
        }
        let valuation = &self.model.sets.first()?.valuation;
        let widest = payment.worth(*most, valuation, self.ground.operation);
        let decide = |payment: &Payment| -> Option<Vec<Verdict>> {
            self.model.sets.iter().map(|set| payment.decide(set, self.model.known.catalog)).collect()
        };
        let is_shown = |payment: &Payment| decide(payment).is_some_and(|verdicts| (self.question.shows)(&verdicts));
        widest.filter(is_shown).or(Some(payment))
    }
}

/// Joins the neighbouring intervals among these cells.
fn ranges(cells: &[Cell], present: &BTreeSet<usize>) -> Vec<(u128, u128)> {
    let mut numbers: Vec<(u128, u128)> = present
        .iter()
        .filter_map(|cell| match cells.get(*cell) {
            Some(Cell::Numbers(least, most)) => Some((*least, *most)),
            _ => None,
        })
        .collect();
    // The hours are not in their order: examples are at noon first.
    numbers.sort_unstable();
    let mut ranges: Vec<(u128, u128)> = Vec::new();
    for (least, most) in numbers {
        match ranges.last_mut() {
            Some((_, end)) if end.checked_add(1) == Some(least) => *end = most,
            _ => ranges.push((least, most)),
        }
    }
    ranges
}

fn dimension(
    universe: &Universe,
    var: usize,
    variable: &Variable,
    present: &BTreeSet<usize>,
) -> Option<ExtentDimension> {
    let cells = universe.cells(var);
    let there = || present.iter().filter_map(|cell| cells.get(*cell));
    let has = |wanted: &Cell| there().any(|cell| cell == wanted);
    let (kind, name, values) = match variable {
        Variable::Name(field) => (kind_of(*field), field.as_str().to_owned(), names(universe, *field, var, present)),
        Variable::Among(field, name) => {
            let word = match (has(&Cell::Yes), has(&Cell::No)) {
                (true, false) => "",
                (false, true) => "not ",
                _ => return None,
            };
            (kind_of(*field), field.as_str().to_owned(), vec![format!("{word}`{name}`")])
        }
        Variable::Paid(field) => {
            let levels: BTreeSet<Acquaintance> = there()
                .filter_map(|cell| match cell {
                    Cell::Known(newest, oldest) => Some([*newest, *oldest]),
                    _ => None,
                })
                .flatten()
                .collect();
            let all: BTreeSet<Acquaintance> = cells
                .iter()
                .filter_map(|cell| match cell {
                    Cell::Known(known, _) => Some(*known),
                    _ => None,
                })
                .collect();
            if levels == all || levels.is_empty() {
                return None;
            }
            let values = levels.iter().map(|level| acquaintance_in_words(*level, &all)).collect();
            (DimensionKind::Destination, field.as_str().to_owned(), values)
        }
        Variable::Price => {
            let numbers = ranges(cells, present);
            let text = |(least, most): &(u128, u128)| {
                between(Interval { least: *least, most: *most }, |units| decimal_text(units, PRICE_DECIMALS))
            };
            let mut values: Vec<String> = numbers.iter().map(text).collect();
            values.extend(has(&Cell::Absent).then(|| "none".to_owned()));
            (DimensionKind::Other, "the limit price".to_owned(), values)
        }
        Variable::Body(pointer) => {
            (DimensionKind::Other, format!("`{pointer}`"), there().map(written).collect::<Vec<_>>())
        }
        Variable::BodyAmong(pointer, kind) => {
            let word = match (has(&Cell::Yes), has(&Cell::No)) {
                (true, false) => "",
                (false, true) => "not ",
                _ => return None,
            };
            (DimensionKind::Other, format!("`{pointer}`"), vec![format!("{word}{}", written(kind))])
        }
        Variable::Weekday(zone) => {
            let days = there().filter_map(|cell| match cell {
                Cell::Day(day) => Some(format!("{day:?}")),
                _ => None,
            });
            (DimensionKind::Time, format!("the weekday in {zone}"), days.collect())
        }
        Variable::Hour(zone) => {
            let text = |(least, most): &(u128, u128)| format!("{least} to {}", most.saturating_add(1));
            (DimensionKind::Time, format!("the hour in {zone}"), ranges(cells, present).iter().map(text).collect())
        }
        Variable::Date(zone) => {
            let numbers = ranges(cells, present).into_iter().map(|(least, most)| [Interval { least, most }]);
            (DimensionKind::Time, format!("the date in {zone}"), numbers.map(|range| dates_in_words(&range)).collect())
        }
        Variable::Value | Variable::Full(_) => return None,
    };
    Some(ExtentDimension { kind, name, values: shortened(values) })
}

/// Formats how long a destination is known, among all lengths that rules distinguish.
pub(super) fn acquaintance_in_words(known: Acquaintance, all: &BTreeSet<Acquaintance>) -> String {
    let next = all.iter().find(|other| **other > known).copied().flatten();
    match (known, next) {
        (None, _) => "never paid before".to_owned(),
        (Some(least), None) if least.is_zero() => "paid before".to_owned(),
        (Some(least), None) => format!("known for {}", span(least)),
        (Some(_), Some(next)) => format!("first paid less than {} ago", span(next)),
    }
}

fn kind_of(field: Field) -> DimensionKind {
    match field {
        Field::Environment => DimensionKind::Other,
        Field::Issuer | Field::Caller | Field::Requester | Field::Role => DimensionKind::People,
        Field::SourceUser
        | Field::SourceChain
        | Field::SourceCurrency
        | Field::SourceWallet
        | Field::SourceAccount
        | Field::User
        | Field::PathUser
        | Field::Chain
        | Field::Currency
        | Field::Wallet
        | Field::Account => DimensionKind::Source,
        Field::DestinationUser
        | Field::DestinationChain
        | Field::DestinationCurrency
        | Field::DestinationWallet
        | Field::DestinationExternal
        | Field::DestinationAccount
        | Field::FeeWallet => DimensionKind::Destination,
    }
}

/// Returns the names in these cells; a cell that no rule names stands for all others.
pub(super) fn names(universe: &Universe, field: Field, var: usize, present: &BTreeSet<usize>) -> Vec<String> {
    let named = universe.named(field);
    let mut by_cell: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
    for (name, cell) in named.into_iter().flatten() {
        by_cell.entry(*cell).or_default().insert(name);
    }
    let word = |cell: &usize| match (by_cell.get(cell), universe.cells(var).get(*cell)) {
        (Some(names), _) => {
            let first: Vec<String> = names.iter().take(MAX_LISTED).map(|name| format!("`{name}`")).collect();
            let more = names.len().saturating_sub(first.len());
            if more == 0 { first.join(", ") } else { format!("{} and {more} more", first.join(", ")) }
        }
        (None, Some(Cell::Absent)) => "none".to_owned(),
        (None, Some(Cell::Name(name))) => match (field, name.split_once(':')) {
            (Field::Caller, Some((issuer, _))) => format!("any other of `{issuer}`"),
            _ => "any other".to_owned(),
        },
        (None, _) => "another".to_owned(),
    };
    present.iter().map(word).collect()
}

fn written(cell: &Cell) -> String {
    match cell {
        Cell::Absent => "not stated".to_owned(),
        Cell::Written(Written::Text(text)) => format!("`{text}`"),
        Cell::Written(Written::Number(number)) => number.to_string(),
        Cell::Written(Written::Truth(truth)) => truth.to_string(),
        _ => "any other value".to_owned(),
    }
}

fn shortened(mut values: Vec<String>) -> Vec<String> {
    let more = values.len().saturating_sub(MAX_LISTED);
    values.truncate(MAX_LISTED);
    values.extend((more > 0).then(|| format!("{more} more")));
    values
}

/// Formats ranges of amounts in words.
pub(super) fn amounts_in_words(ranges: &[(u128, u128)]) -> String {
    let all = u128::from(MAX_MICRO_USD);
    let text = |(least, most): &(u128, u128)| match (*least, *most) {
        (least, most) if least <= 1 && most >= all => "any amount".to_owned(),
        (least, most) if least <= 1 => format!("up to {}", usd(most)),
        (least, most) if most >= all => format!("{} or more", usd(least)),
        (least, most) if least == most => usd(least),
        (least, most) => format!("{} to {}", usd(least), usd(most)),
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(", ")
}
