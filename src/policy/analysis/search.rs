//! Searches all possible requests for one that fits a question, by dividing what is not yet decided.
//!
//! `Nothing` promises that there is none: each part was decided, or occurs at no time. If a part was left out for the
//! budget, or no payment could be written that shows it, the answer is `Unknown`: a failed try proves nothing.

use super::cells::{CellLiteral, Cells, Clause, Domain, Truth};
use super::ground::Ground;
use super::shape::{PaymentShape, ShapeCause};
use super::shape_index::ShapeIndex;
use super::universe::{Universe, Variable};
use crate::policy::request::Field;

/// How many payments are tried for one question before it is left open.
const MAX_ATTEMPTS: usize = 48;
/// How many of them are guesses during the search.
const MAX_GUESSES: usize = 8;
/// How many words of a domain are copied in a step.
const DOMAIN_WORDS: usize = 64;
/// How many shapes may be avoided one by one.
const MAX_SHAPES: usize = 512;

/// The remaining budget, in steps: each step examines one shape or clause.
#[derive(Clone, Copy, Debug)]
pub(super) struct SearchBudget {
    left: u64,
}

impl SearchBudget {
    pub(super) fn of(steps: u64) -> SearchBudget {
        SearchBudget { left: steps }
    }

    pub(super) fn is_spent(&self) -> bool {
        self.left == 0
    }

    fn spend(&mut self, steps: usize) {
        #[cfg(test)]
        super::slow_way::count(steps);
        self.left = self.left.saturating_sub(u64::try_from(steps).unwrap_or(u64::MAX));
    }

    /// Splits off a part for one question; [`SearchBudget::settle`] returns the unused steps.
    pub(super) fn part(&mut self, most: u64) -> SearchBudget {
        let part = self.left.min(most);
        self.left = self.left.saturating_sub(part);
        SearchBudget { left: part }
    }

    pub(super) fn settle(&mut self, part: SearchBudget) {
        self.left = self.left.saturating_add(part.left);
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SearchResult<T> {
    One(T),
    Nothing,
    Unknown,
}

/// The state of a part of all requests: the shapes that all of them have, and those that some may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct SearchState<'s> {
    pub shapes: &'s [PaymentShape],
    /// The cause that is left out on the second side.
    pub without: Option<ShapeCause>,
    pub had: &'s [usize],
    pub open: &'s [usize],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// None of the requests fits.
    No,
    /// All of the requests fit.
    Yes,
    /// The answer depends on this shape, among others.
    Ask(usize),
}

/// One request, cell by cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point<'p> {
    pub cells: &'p Domain,
    /// Requests around it that fit as well.
    pub region: &'p Domain,
}

pub(super) struct Search<'s> {
    pub universe: &'s Universe,
    pub without: Option<ShapeCause>,
    pub ground: &'s Ground<'s>,
    pub shapes: &'s [PaymentShape],
    pub index: &'s ShapeIndex,
}

/// A part of all requests.
#[derive(Clone)]
struct SearchPart<'s> {
    domain: Domain,
    had: Vec<usize>,
    open: Vec<usize>,
    /// The clauses that must hold, and are not certain yet.
    must: Vec<&'s Clause>,
}

impl<'s> Search<'s> {
    /// Finds a request for which every clause of `must` holds, that `judge` says Yes to, and that `accept` turns into a
    /// result.
    pub(super) fn find<T>(
        &self,
        must: &[&'s Clause],
        judge: &dyn Fn(SearchState<'_>) -> Judged,
        accept: &mut dyn FnMut(&Point<'_>) -> Option<T>,
        budget: &mut SearchBudget,
    ) -> SearchResult<T> {
        let mut must = self.ground.axioms.iter().chain(must.iter().copied()).collect();
        let mut domain = self.ground.start.clone();
        if budget.is_spent() {
            return SearchResult::Unknown;
        }
        if !self.hold(&mut domain, &mut must, budget) {
            return SearchResult::Nothing;
        }
        let open = self.index.possible(self.universe, &domain);
        let are_many = open.len() > MAX_SHAPES;
        let (mut parts, mut attempts, mut is_sure) =
            (vec![SearchPart { domain, had: Vec::new(), open, must }], 0_usize, true);
        while let Some(mut part) = parts.pop() {
            if budget.is_spent() {
                return SearchResult::Unknown;
            }
            budget.spend(part.domain.size() / DOMAIN_WORDS);
            if !self.narrow(&mut part, budget) {
                continue;
            }
            let SearchPart { had, open, .. } = &part;
            let judged = judge(SearchState { shapes: self.shapes, without: self.without, had, open });
            let is_leaf = judged == Judged::Yes && part.must.is_empty();
            if judged == Judged::No {
                continue;
            }
            if is_leaf && !self.universe.has_time(&part.domain) {
                continue;
            }
            let point = if is_leaf || attempts < MAX_GUESSES { self.point(&part, judge, budget) } else { None };
            is_sure &= !is_leaf;
            if let Some(point) = point {
                let region = if is_leaf { &part.domain } else { &point };
                if let Some(found) = accept(&Point { cells: &point, region }) {
                    return SearchResult::One(found);
                }
                attempts = attempts.saturating_add(1);
                if is_leaf && attempts < MAX_ATTEMPTS {
                    parts.extend(self.around(&part, &point));
                }
            }
            if is_leaf {
                continue;
            }
            let asked = match judged {
                Judged::Ask(shape) => self.shapes.get(shape).and_then(|shape| self.open_literal(&part, &shape.clauses)),
                _ => None,
            };
            let asked = asked.or_else(|| part.must.iter().find_map(|clause| self.open_in(&part, clause)));
            match asked {
                // Of many rules one is sought that applies, rather than a request that avoids them all.
                Some(literal) if are_many => parts.extend(self.halves(part, literal).into_iter().rev()),
                Some(literal) => parts.extend(self.halves(part, literal)),
                None => is_sure = false,
            }
        }
        if is_sure { SearchResult::Nothing } else { SearchResult::Unknown }
    }

    /// Removes the impossible, and sorts the shapes anew; returns whether any request is left.
    fn narrow(&self, part: &mut SearchPart<'s>, budget: &mut SearchBudget) -> bool {
        if !self.hold(&mut part.domain, &mut part.must, budget) {
            return false;
        }
        let SearchPart { domain, had, open, .. } = part;
        budget.spend(open.len());
        open.retain(|at| match self.shapes.get(*at).map(|shape| self.truth(domain, &shape.clauses)) {
            Some(Truth::Open) => true,
            Some(Truth::Yes) => {
                had.push(*at);
                false
            }
            Some(Truth::No) | None => false,
        });
        true
    }

    /// Propagates clauses with only one option left, repeatedly; returns whether any request is left.
    fn hold(&self, domain: &mut Domain, must: &mut Vec<&'s Clause>, budget: &mut SearchBudget) -> bool {
        loop {
            let (mut is_possible, mut has_changed) = (true, false);
            budget.spend(must.len());
            must.retain(|clause| {
                let mut open: Option<&CellLiteral> = None;
                let mut is_single = true;
                for literal in &clause.0 {
                    match self.is_so(domain, literal) {
                        Truth::Yes => return false,
                        Truth::No => {}
                        Truth::Open => is_single = open.replace(literal).is_none(),
                    }
                }
                match open {
                    None => is_possible = false,
                    Some(literal) if is_single => {
                        let slot = self.universe.slot(literal.var);
                        is_possible &= slot.is_some_and(|slot| domain.keep(slot, &literal.cells, true));
                        has_changed = true;
                        return false;
                    }
                    Some(_) => {}
                }
                true
            });
            if !is_possible || !has_changed {
                return is_possible;
            }
        }
    }

    fn is_so(&self, domain: &Domain, literal: &CellLiteral) -> Truth {
        self.universe.slot(literal.var).map_or(Truth::No, |slot| domain.truth(slot, &literal.cells))
    }

    fn truth(&self, domain: &Domain, clauses: &[Clause]) -> Truth {
        let mut truth = Truth::Yes;
        for clause in clauses {
            let mut one = Truth::No;
            for literal in &clause.0 {
                match self.is_so(domain, literal) {
                    Truth::Yes => {
                        one = Truth::Yes;
                        break;
                    }
                    Truth::Open => one = Truth::Open,
                    Truth::No => {}
                }
            }
            match one {
                Truth::No => return Truth::No,
                Truth::Open => truth = Truth::Open,
                Truth::Yes => {}
            }
        }
        truth
    }

    fn open_literal(&self, part: &SearchPart<'s>, clauses: &'s [Clause]) -> Option<&'s CellLiteral> {
        clauses.iter().find_map(|clause| self.open_in(part, clause))
    }

    fn open_in(&self, part: &SearchPart<'s>, clause: &'s Clause) -> Option<&'s CellLiteral> {
        let is_so = |literal: &&CellLiteral| self.is_so(&part.domain, literal);
        if clause.0.iter().any(|literal| is_so(&literal) == Truth::Yes) {
            return None;
        }
        clause.0.iter().find(|literal| is_so(literal) == Truth::Open)
    }

    /// Returns the half where a literal holds, and the one where it does not, which is searched first.
    fn halves(&self, part: SearchPart<'s>, literal: &CellLiteral) -> Vec<SearchPart<'s>> {
        let half = |mut part: SearchPart<'s>, is_so: bool| {
            let slot = self.universe.slot(literal.var)?;
            part.domain.keep(slot, &literal.cells, is_so).then_some(part)
        };
        [half(part.clone(), true), half(part, false)].into_iter().flatten().collect()
    }

    /// Returns the first request of a part, if it fits.
    fn point(
        &self,
        part: &SearchPart<'s>,
        judge: &dyn Fn(SearchState<'_>) -> Judged,
        budget: &mut SearchBudget,
    ) -> Option<Domain> {
        let mut point = part.clone();
        let mut bound: Vec<usize> = point.must.iter().flat_map(|clause| &clause.0).map(|literal| literal.var).collect();
        bound.extend(&self.ground.bound);
        for (var, slot) in self.universe.slots.iter().enumerate() {
            let is_bound = bound.contains(&var);
            loop {
                let first = point.domain.first(*slot)?;
                let only = Cells::none(self.universe.cells(var).len()).and(first);
                let before = is_bound.then(|| (point.domain.clone(), point.must.clone()));
                point.domain.keep(*slot, &only, true);
                let Some((domain, must)) = before else { break };
                if self.hold(&mut point.domain, &mut point.must, budget) {
                    break;
                }
                (point.domain, point.must) = (domain, must);
                point.domain.keep(*slot, &only, false);
            }
        }
        if !self.narrow(&mut point, budget) {
            return None;
        }
        let SearchPart { had, open, .. } = &point;
        (judge(SearchState { shapes: self.shapes, without: self.without, had, open }) == Judged::Yes)
            .then_some(point.domain)
    }

    /// Divides a part without its first request into pieces. It varies what writing a payment may fail for: assets,
    /// amounts, times, fields of the body.
    fn around(&self, part: &SearchPart<'s>, point: &Domain) -> Vec<SearchPart<'s>> {
        let (mut pieces, mut rest) = (Vec::new(), part.clone());
        for ((variable, cells), slot) in self.universe.variables.iter().zip(&self.universe.slots) {
            if rest.domain.is_one(*slot) || !is_fragile(variable) {
                continue;
            }
            let only = Cells::that(cells.len(), |cell| point.has(*slot, cell));
            let mut piece = rest.clone();
            if piece.domain.keep(*slot, &only, false) {
                pieces.push(piece);
            }
            rest.domain.keep(*slot, &only, true);
        }
        pieces.reverse();
        pieces
    }
}

fn is_fragile(variable: &Variable) -> bool {
    match variable {
        Variable::Value | Variable::Price | Variable::Weekday(_) | Variable::Hour(_) | Variable::Date(_) => true,
        Variable::Body(_) | Variable::BodyAmong(..) => true,
        Variable::Name(field) => matches!(
            field,
            Field::SourceCurrency | Field::DestinationCurrency | Field::SourceChain | Field::DestinationChain
        ),
        Variable::Among(..) | Variable::Paid(_) | Variable::Full(_) => false,
    }
}
