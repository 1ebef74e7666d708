//! The times that examples try first: one for each combination of weekdays and hours in the zones of a universe.

use std::collections::HashSet;

use super::cells::{CellSlot, Domain};
use crate::policy::policy_test::USUAL_TIME;

/// How many times are tried: each quarter of an hour of two weeks.
pub(super) const TIMES: i64 = 2 * 7 * 96;
pub(super) const QUARTER_MICROS: i64 = 15 * 60 * 1_000_000;

/// A time, and the cells of its weekdays and hours.
#[derive(Debug)]
pub(super) struct CellMoment {
    pub now: i64,
    cells: Vec<(CellSlot, usize)>,
}

impl CellMoment {
    /// Whether its weekdays and hours are possible.
    pub(super) fn is_in(&self, region: &Domain) -> bool {
        self.cells.iter().all(|(slot, cell)| region.has(*slot, *cell))
    }

    /// Returns every combination that occurs in two weeks, each at its first time.
    pub(super) fn all(cells_at: impl Fn(i64) -> Option<Vec<(CellSlot, usize)>>) -> Vec<CellMoment> {
        let (mut moments, mut seen) = (Vec::new(), HashSet::new());
        for step in 0..TIMES {
            let now = USUAL_TIME.saturating_add(step.saturating_mul(QUARTER_MICROS));
            let Some(cells) = cells_at(now) else { continue };
            let key: Vec<usize> = cells.iter().map(|(_, cell)| *cell).collect();
            if seen.insert(key) {
                moments.push(CellMoment { now, cells });
            }
        }
        moments
    }
}
