//! The shapes of an operation, found by the cells that they need: a question about one account examines the rules of
//! that account, and those that ask for none.

use std::collections::{BTreeMap, HashMap};

use super::cells::{CellLiteral, Clause, Domain};
use super::shape::PaymentShape;
use super::universe::Universe;

/// A clause of more cells than this one finds too many shapes.
const MAX_CELLS: usize = 4;

#[derive(Debug, Default)]
pub(super) struct ShapeIndex {
    /// The shapes that are possible in any domain.
    always: Vec<usize>,
    by_variable: BTreeMap<usize, CellIndex>,
}

/// The shapes that need one of a few cells of a variable.
#[derive(Debug, Default)]
struct CellIndex {
    by_cell: HashMap<usize, Vec<usize>>,
    all: Vec<usize>,
}

impl ShapeIndex {
    /// The index of no shapes.
    pub(super) const NONE: ShapeIndex = ShapeIndex { always: Vec::new(), by_variable: BTreeMap::new() };

    /// `about` are the shapes of the operation.
    pub(super) fn of(shapes: &[PaymentShape], about: &[usize]) -> ShapeIndex {
        let alone = |at: usize| {
            let clauses = shapes.get(at).map_or(&[][..], |shape| shape.clauses.as_slice());
            // A literal of no cells never holds.
            let alone = clauses.iter().filter_map(|Clause(literals)| {
                let mut possible = literals.iter().filter(|literal| literal.cells.count() > 0);
                possible.next().filter(|_| possible.next().is_none())
            });
            alone.filter(|literal| literal.cells.count() <= MAX_CELLS)
        };
        let mut common: HashMap<(usize, usize), usize> = HashMap::new();
        for literal in about.iter().copied().flat_map(alone) {
            for cell in literal.cells.each() {
                let count = common.entry((literal.var, cell)).or_default();
                *count = count.saturating_add(1);
            }
        }
        // A cell that most of the shapes need is a poor index.
        let found_by = |literal: &&CellLiteral| -> usize {
            literal.cells.each().filter_map(|cell| common.get(&(literal.var, cell))).sum()
        };
        let mut index = ShapeIndex::default();
        for at in about.iter().copied() {
            let rarest = alone(at).min_by_key(found_by);
            #[cfg(test)]
            let rarest = rarest.filter(|_| !super::slow_way::is_chosen());
            match rarest {
                None => index.always.push(at),
                Some(literal) => {
                    let found = index.by_variable.entry(literal.var).or_default();
                    found.all.push(at);
                    for cell in literal.cells.each() {
                        found.by_cell.entry(cell).or_default().push(at);
                    }
                }
            }
        }
        index
    }

    /// Returns the shapes that may be possible in a domain, in their order: every other one is certainly not.
    pub(super) fn possible(&self, universe: &Universe, domain: &Domain) -> Vec<usize> {
        let mut found = self.always.clone();
        for (var, CellIndex { by_cell, all }) in &self.by_variable {
            let Some(slot) = universe.slot(*var) else { continue };
            if domain.count(slot) < by_cell.len() {
                found.extend(domain.each(slot).filter_map(|cell| by_cell.get(&cell)).flatten());
            } else {
                found.extend(all);
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}
