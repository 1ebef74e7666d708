//! Sets of cells, and the cells that are still possible for every variable.
//!
//! A cell is a part of a variable's values that no condition distinguishes: a name, an interval of amounts, absence.

/// A set of cells of one variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cells(Vec<u64>);

/// The position of a variable's cells in a domain.
#[derive(Clone, Copy, Debug)]
pub(super) struct CellSlot {
    first: usize,
    words: usize,
}

/// For every variable, the cells that its value may be in.
#[derive(Clone, Debug)]
pub(super) struct Domain(Vec<u64>);

/// The statement that a variable is in one of these cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CellLiteral {
    pub var: usize,
    pub cells: Cells,
}

/// The statement that at least one of these literals holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Clause(pub Vec<CellLiteral>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Truth {
    Yes,
    No,
    Open,
}

const BITS: usize = 64;

impl Cells {
    pub(super) fn none(count: usize) -> Cells {
        Cells(vec![0; count.div_ceil(BITS).max(1)])
    }

    pub(super) fn that(count: usize, mut is_in: impl FnMut(usize) -> bool) -> Cells {
        let mut cells = Cells::none(count);
        (0..count).filter(|cell| is_in(*cell)).for_each(|cell| cells.add(cell));
        cells
    }

    /// Returns the cells from `first` to before `end`, word by word: there may be as many cells as rules.
    pub(super) fn span(count: usize, first: usize, end: usize) -> Cells {
        let mut cells = Cells::none(count);
        let from = first / BITS;
        let words = end.div_ceil(BITS).saturating_sub(from);
        for (at, word) in cells.0.iter_mut().enumerate().skip(from).take(words) {
            let begin = at.saturating_mul(BITS);
            let low = first.saturating_sub(begin).min(BITS);
            let high = end.saturating_sub(begin).min(BITS);
            let below = |bit: usize| if bit >= BITS { u64::MAX } else { (1_u64 << bit).wrapping_sub(1) };
            *word = below(high) & !below(low);
        }
        cells
    }

    pub(super) fn add(&mut self, cell: usize) {
        if let Some(word) = self.0.get_mut(cell / BITS) {
            *word |= 1 << (cell % BITS);
        }
    }

    pub(super) fn has(&self, cell: usize) -> bool {
        self.0.get(cell / BITS).is_some_and(|word| word & (1 << (cell % BITS)) != 0)
    }

    pub(super) fn and(mut self, cell: usize) -> Cells {
        self.add(cell);
        self
    }

    /// Returns the other cells, of this many.
    pub(super) fn others(&self, count: usize) -> Cells {
        let all = Cells::span(count, 0, count);
        Cells(all.0.iter().zip(&self.0).map(|(all, these)| all & !these).collect())
    }

    pub(super) fn count(&self) -> usize {
        ones(&self.0)
    }

    pub(super) fn each(&self) -> impl Iterator<Item = usize> {
        each_bit(&self.0)
    }
}

fn ones(words: &[u64]) -> usize {
    words.iter().map(|word| usize::try_from(word.count_ones()).unwrap_or(0)).sum()
}

/// Returns the positions of the bits that are set, in ascending order.
fn each_bit(words: &[u64]) -> impl Iterator<Item = usize> {
    words.iter().enumerate().flat_map(|(at, word)| {
        let mut left = *word;
        std::iter::from_fn(move || {
            let bit = first_bit((left != 0).then_some(left)?);
            left &= left.wrapping_sub(1);
            Some(at.saturating_mul(BITS).saturating_add(bit))
        })
    })
}

impl Domain {
    /// Returns the domain in which everything is possible, for variables of these sizes.
    pub(super) fn whole(sizes: impl Iterator<Item = usize>) -> (Domain, Vec<CellSlot>) {
        let (mut domain, mut slots) = (Vec::new(), Vec::new());
        for count in sizes {
            let cells = Cells::span(count, 0, count);
            slots.push(CellSlot { first: domain.len(), words: cells.0.len() });
            domain.extend(cells.0);
        }
        (Domain(domain), slots)
    }

    fn of(&self, slot: CellSlot) -> &[u64] {
        self.0.get(slot.first..slot.first.saturating_add(slot.words)).unwrap_or_default()
    }

    fn of_mut(&mut self, slot: CellSlot) -> &mut [u64] {
        self.0.get_mut(slot.first..slot.first.saturating_add(slot.words)).unwrap_or_default()
    }

    pub(super) fn truth(&self, slot: CellSlot, cells: &Cells) -> Truth {
        let (mut some, mut others) = (0, 0);
        for (possible, asked) in self.of(slot).iter().zip(&cells.0) {
            some |= possible & asked;
            others |= possible & !asked;
        }
        match (some != 0, others != 0) {
            (true, false) => Truth::Yes,
            (false, _) => Truth::No,
            (true, true) => Truth::Open,
        }
    }

    /// Keeps only these cells, or only the others; returns whether any is left.
    pub(super) fn keep(&mut self, slot: CellSlot, cells: &Cells, are_kept: bool) -> bool {
        let mut left = 0;
        for (possible, asked) in self.of_mut(slot).iter_mut().zip(&cells.0) {
            *possible &= if are_kept { *asked } else { !asked };
            left |= *possible;
        }
        left != 0
    }

    /// Returns the first cell that is possible.
    pub(super) fn first(&self, slot: CellSlot) -> Option<usize> {
        let mut words = self.of(slot).iter().enumerate();
        words.find(|(_, word)| **word != 0).map(|(at, word)| at.saturating_mul(BITS).saturating_add(first_bit(*word)))
    }

    pub(super) fn has(&self, slot: CellSlot, cell: usize) -> bool {
        self.of(slot).get(cell / BITS).is_some_and(|word| word & (1 << (cell % BITS)) != 0)
    }

    pub(super) fn is_one(&self, slot: CellSlot) -> bool {
        self.count(slot) == 1
    }

    /// Returns how many cells are possible.
    pub(super) fn count(&self, slot: CellSlot) -> usize {
        ones(self.of(slot))
    }

    /// Returns the cells that are possible.
    pub(super) fn each(&self, slot: CellSlot) -> impl Iterator<Item = usize> {
        each_bit(self.of(slot))
    }

    /// Returns how many words it has: what copying it costs.
    pub(super) fn size(&self) -> usize {
        self.0.len()
    }
}

fn first_bit(word: u64) -> usize {
    usize::try_from(word.trailing_zeros()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_its_cells_and_no_others() {
        for (count, first, end) in [(1, 0, 1), (64, 0, 64), (65, 64, 65), (200, 3, 3), (200, 3, 130), (200, 128, 192)] {
            let span = Cells::span(count, first, end);
            assert_eq!(span, Cells::that(count, |cell| (first..end).contains(&cell)), "{count} {first} {end}");
            assert_eq!(span.each().collect::<Vec<_>>(), (first..end).collect::<Vec<_>>());
            assert_eq!((span.count(), span.others(count).count()), (end - first, count - (end - first)));
        }
    }
}
