//! The times that examples try first: one for each combination of dates, weekdays and hours in the zones of a universe.

use std::collections::{BTreeSet, HashSet};

use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::cells::{CellSlot, Clause, Domain};
use super::universe::{Cell, CellMoment, Universe, Variable};
use crate::policy::dates::{date_of, day_number};
use crate::policy::policy_test::USUAL_TIME;

/// How many times are tried from each begin: each quarter of an hour of two weeks.
pub(super) const TIMES: i64 = TWO_WEEKS_DAYS * 96;
pub(super) const QUARTER_MICROS: i64 = 15 * 60 * 1_000_000;
const TWO_WEEKS_DAYS: i64 = 14;

impl CellMoment {
    /// Whether its dates, weekdays and hours are possible.
    pub(super) fn is_in(&self, region: &Domain) -> bool {
        self.cells.iter().all(|(slot, cell)| region.has(*slot, *cell))
    }

    /// Returns every combination that occurs in the first two weeks of a range of dates, each at its first time.
    pub(super) fn all(universe: &Universe) -> Vec<CellMoment> {
        let (mut moments, mut seen) = (Vec::new(), HashSet::new());
        for begin in [USUAL_TIME].into_iter().chain(universe.begins()) {
            for step in 0..TIMES {
                let now = begin.saturating_add(step.saturating_mul(QUARTER_MICROS));
                let Some(cells) = universe.cells_at(now) else { continue };
                let key: Vec<usize> = cells.iter().map(|(_, cell)| *cell).collect();
                if seen.insert(key) {
                    moments.push(CellMoment { now, cells });
                }
            }
        }
        moments
    }
}

/// Whether a cell of dates, weekdays or hours contains a local time.
pub(super) fn is_at(variable: &Variable, cell: &Cell, local: &Zoned) -> bool {
    match (variable, cell) {
        (Variable::Weekday(_), Cell::Day(day)) => *day == local.weekday(),
        (Variable::Hour(_), Cell::Numbers(hour, _)) => u128::try_from(local.hour()) == Ok(*hour),
        (Variable::Date(_), Cell::Numbers(least, most)) => {
            day_number(local.date()).is_some_and(|day| (*least..=*most).contains(&day))
        }
        _ => false,
    }
}

impl Universe {
    /// Returns the times that examples try first.
    pub(super) fn moments(&self) -> &[CellMoment] {
        self.moments.get_or_init(|| CellMoment::all(self))
    }

    /// Returns the cells of a time.
    pub(super) fn cells_at(&self, now: i64) -> Option<Vec<(CellSlot, usize)>> {
        let mut found = Vec::new();
        for (name, zone) in &self.zones {
            let local = Timestamp::from_microsecond(now).ok()?.to_zoned(zone.clone());
            for make in [Variable::Weekday, Variable::Hour, Variable::Date] {
                let variable = make(name.clone());
                let Some(var) = self.place(&variable) else { continue };
                let at = self.cells(var).iter().position(|cell| is_at(&variable, cell, &local))?;
                found.push((self.slot(var)?, at));
            }
        }
        Some(found)
    }

    /// Returns the begins of all ranges of dates; of the first, two weeks before its end.
    pub(super) fn begins(&self) -> Vec<i64> {
        let mut begins = BTreeSet::new();
        for (name, zone) in &self.zones {
            for (least, most) in self.date_cells(name) {
                let first = match least {
                    0 => most.saturating_sub(u128::try_from(TWO_WEEKS_DAYS.saturating_sub(1)).unwrap_or(0)),
                    least => least,
                };
                begins.extend(begin_of(first, zone));
            }
        }
        begins.into_iter().collect()
    }

    /// States the weekdays of ranges of less than a week.
    pub(super) fn weekdays_of_dates(&self) -> Vec<Clause> {
        let mut clauses = Vec::new();
        for name in self.zones.keys() {
            for (least, most) in
                self.date_cells(name).into_iter().filter(|(least, most)| most.saturating_sub(*least) < 6)
            {
                let days: Vec<Weekday> = (least..=most).filter_map(|day| Some(date_of(day)?.weekday())).collect();
                let other = self.literal(&Variable::Date(name.clone()), |cell| *cell != Cell::Numbers(least, most));
                let day = |cell: &Cell| matches!(cell, Cell::Day(day) if days.contains(day));
                let there = self.literal(&Variable::Weekday(name.clone()), day);
                clauses.extend(other.zip(there).map(|(other, there)| Clause(vec![other, there])));
            }
        }
        clauses
    }

    fn date_cells(&self, zone: &str) -> Vec<(u128, u128)> {
        let cells = self.place(&Variable::Date(zone.to_owned())).map(|var| self.cells(var)).unwrap_or_default();
        let numbers = cells.iter().filter_map(|cell| match cell {
            Cell::Numbers(least, most) => Some((*least, *most)),
            _ => None,
        });
        numbers.collect()
    }
}

fn begin_of(day: u128, zone: &TimeZone) -> Option<i64> {
    Some(date_of(day)?.to_zoned(zone.clone()).ok()?.timestamp().as_microsecond())
}
