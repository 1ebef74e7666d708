//! Looks through everything that is possible for a request that does what is asked, by dividing what is not yet told.
//!
//! Owns the promise that `Nothing` means that there is none: what the search leaves out, for its budget or because no
//! payment could be written down for it, makes the answer `Unknown`.

use super::cells::{Cells, Clause, Domain, Literal, Truth};
use super::ground::Ground;
use super::shape::{Cause, Shape};
use super::universe::{Universe, Variable};
use crate::policy::asked::Field;

/// How many payments are tried for one question before it is left open.
const MOST_ATTEMPTS: usize = 48;
/// How many of them are guesses on the way.
const MOST_GUESSES: usize = 8;

/// What may still be spent, counted in steps: one shape or clause looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    left: u64,
}

impl Budget {
    pub(super) fn of(steps: u64) -> Budget {
        Budget { left: steps }
    }

    pub(super) fn is_spent(&self) -> bool {
        self.left == 0
    }

    fn spend(&mut self, steps: usize) {
        self.left = self.left.saturating_sub(u64::try_from(steps).unwrap_or(u64::MAX));
    }

    /// A part of it for one question; [`Budget::settle`] brings back what is left of that.
    pub(super) fn part(&mut self, most: u64) -> Budget {
        let part = self.left.min(most);
        self.left = self.left.saturating_sub(part);
        Budget { left: part }
    }

    pub(super) fn settle(&mut self, part: Budget) {
        self.left = self.left.saturating_add(part.left);
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found<T> {
    One(T),
    Nothing,
    Unknown,
}

/// What is known of a part of all requests: the shapes that all of them have, and those that some may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'s> {
    pub shapes: &'s [Shape],
    /// What is left out on the second side.
    pub without: Option<Cause>,
    pub had: &'s [usize],
    pub open: &'s [usize],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// None of them is sought.
    No,
    /// All of them are.
    Yes,
    /// It depends, on this shape among others.
    Ask(usize),
}

/// One request, cell by cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point<'p> {
    pub cells: &'p Domain,
    /// Requests around it that are sought as well.
    pub region: &'p Domain,
}

pub(super) struct Search<'s> {
    pub universe: &'s Universe,
    pub without: Option<Cause>,
    pub ground: &'s Ground<'s>,
    pub shapes: &'s [Shape],
}

/// A part of all requests.
#[derive(Clone)]
struct Part<'s> {
    domain: Domain,
    had: Vec<usize>,
    open: Vec<usize>,
    /// What must be so, and is not yet sure.
    must: Vec<&'s Clause>,
}

impl<'s> Search<'s> {
    /// A request for which every clause of `must` is so, that `judge` says Yes to, and that `accept` makes something of.
    pub(super) fn find<T>(
        &self,
        must: &[&'s Clause],
        relevant: &[usize],
        judge: &dyn Fn(Seen<'_>) -> Judged,
        accept: &mut dyn FnMut(&Point<'_>) -> Option<T>,
        budget: &mut Budget,
    ) -> Found<T> {
        let must = self.ground.axioms.iter().chain(must.iter().copied()).collect();
        let whole = Part { domain: self.ground.start.clone(), had: Vec::new(), open: relevant.to_vec(), must };
        let (mut parts, mut attempts, mut is_sure) = (vec![whole], 0_usize, true);
        while let Some(mut part) = parts.pop() {
            if budget.is_spent() {
                return Found::Unknown;
            }
            if !self.narrow(&mut part, budget) {
                continue;
            }
            let Part { had, open, .. } = &part;
            let judged = judge(Seen { shapes: self.shapes, without: self.without, had, open });
            let is_leaf = judged == Judged::Yes && part.must.is_empty();
            if judged == Judged::No {
                continue;
            }
            let point = if is_leaf || attempts < MOST_GUESSES { self.point(&part, judge, budget) } else { None };
            is_sure &= !is_leaf || point.is_some();
            if let Some(point) = point {
                let region = if is_leaf { &part.domain } else { &point };
                if let Some(found) = accept(&Point { cells: &point, region }) {
                    return Found::One(found);
                }
                attempts = attempts.saturating_add(1);
                if is_leaf {
                    let (others, are_all) = self.around(&part, &point);
                    is_sure &= are_all && attempts < MOST_ATTEMPTS;
                    parts.extend(others.into_iter().filter(|_| attempts < MOST_ATTEMPTS));
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
                Some(literal) => parts.extend(self.halves(part, literal)),
                None => is_sure = false,
            }
        }
        if is_sure { Found::Nothing } else { Found::Unknown }
    }

    /// Takes out what cannot be, and sorts the shapes anew; whether anything is left.
    fn narrow(&self, part: &mut Part<'s>, budget: &mut Budget) -> bool {
        if !self.hold(&mut part.domain, &mut part.must, budget) {
            return false;
        }
        let Part { domain, had, open, .. } = part;
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

    /// Makes clauses so that leave but one way, again and again; whether there is any way.
    fn hold(&self, domain: &mut Domain, must: &mut Vec<&'s Clause>, budget: &mut Budget) -> bool {
        loop {
            let (mut is_possible, mut has_changed) = (true, false);
            budget.spend(must.len());
            must.retain(|clause| {
                let mut open: Option<&Literal> = None;
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

    fn is_so(&self, domain: &Domain, literal: &Literal) -> Truth {
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

    fn open_literal(&self, part: &Part<'s>, clauses: &'s [Clause]) -> Option<&'s Literal> {
        clauses.iter().find_map(|clause| self.open_in(part, clause))
    }

    fn open_in(&self, part: &Part<'s>, clause: &'s Clause) -> Option<&'s Literal> {
        let is_so = |literal: &&Literal| self.is_so(&part.domain, literal);
        if clause.0.iter().any(|literal| is_so(&literal) == Truth::Yes) {
            return None;
        }
        clause.0.iter().find(|literal| is_so(literal) == Truth::Open)
    }

    /// The half where a literal is so, and the one where it is not: that one is looked at first.
    fn halves(&self, part: Part<'s>, literal: &Literal) -> Vec<Part<'s>> {
        let half = |mut part: Part<'s>, is_so: bool| {
            let slot = self.universe.slot(literal.var)?;
            part.domain.keep(slot, &literal.cells, is_so).then_some(part)
        };
        [half(part.clone(), true), half(part, false)].into_iter().flatten().collect()
    }

    /// The foremost request of a part, if it is one that is sought.
    fn point(&self, part: &Part<'s>, judge: &dyn Fn(Seen<'_>) -> Judged, budget: &mut Budget) -> Option<Domain> {
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
        let Part { had, open, .. } = &point;
        (judge(Seen { shapes: self.shapes, without: self.without, had, open }) == Judged::Yes).then_some(point.domain)
    }

    /// A part without its foremost request, in pieces, and whether they are all of it. What writing down a payment may
    /// fail for is varied: assets, amounts, times, places of the body.
    fn around(&self, part: &Part<'s>, point: &Domain) -> (Vec<Part<'s>>, bool) {
        let (mut pieces, mut are_all, mut rest) = (Vec::new(), true, part.clone());
        for ((variable, cells), slot) in self.universe.variables.iter().zip(&self.universe.slots) {
            if rest.domain.is_one(*slot) {
                continue;
            }
            if !is_fragile(variable) {
                are_all = false;
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
        (pieces, are_all)
    }
}

fn is_fragile(variable: &Variable) -> bool {
    match variable {
        Variable::Value | Variable::Price | Variable::Weekday(_) | Variable::Hour(_) => true,
        Variable::Body(_) | Variable::BodyAmong(..) => true,
        Variable::Name(field) => matches!(
            field,
            Field::SourceCurrency | Field::DestinationCurrency | Field::SourceChain | Field::DestinationChain
        ),
        Variable::Among(..) | Variable::Paid(_) | Variable::Full(_) => false,
    }
}
