//! The times of requests: one for each combination of dates, weekdays and hours in the zones of a universe.
//!
//! They are complete: a combination that is not among them occurs at no time from 2026 on. The zones of a universe
//! change their offsets at different times, so two hours may meet in summer alone, or in few weeks of a year.

use std::collections::{BTreeSet, HashSet};

use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::cells::{CellSlot, Clause, Domain};
use super::universe::{Cell, CellMoment, Universe, Variable};
use crate::policy::dates::{date_of, day_number};
use crate::policy::policy_test::USUAL_TIME;

/// 2026-01-01 in UTC: no request is older.
const FIRST_TIME: i64 = 1_767_225_600_000_000;
const HOUR_SECS: i64 = 3_600;
const DAY_MICROS: i64 = 24 * HOUR_SECS * SECOND_MICROS;
const WEEK_MICROS: i64 = 7 * DAY_MICROS;
const SECOND_MICROS: i64 = 1_000_000;
const TWO_WEEKS_DAYS: i64 = 14;
const TWO_WEEKS_MICROS: i64 = TWO_WEEKS_DAYS * DAY_MICROS;
/// Behind the last date of a set, so many years have all combinations: each kind of year begins on each weekday within
/// 28 years, or within 40 around a year like 2100, and the last changes that the database lists one by one are of 2087.
const YEARS_MICROS: i64 = 100 * 366 * DAY_MICROS;

impl CellMoment {
    /// Whether its dates, weekdays and hours are possible.
    pub(super) fn is_in(&self, region: &Domain) -> bool {
        self.cells.iter().all(|(slot, cell)| region.has(*slot, *cell))
    }

    /// Returns every combination, each at its first time; first those of the first two weeks of a range of dates.
    pub(super) fn all(universe: &Universe) -> Vec<CellMoment> {
        let (moments, seen, walked) = (Vec::new(), HashSet::new(), HashSet::new());
        let mut found = MomentSearch { universe, cuts: universe.cuts(), moments, seen, walked };
        for begin in [USUAL_TIME].into_iter().chain(universe.begins()).chain(universe.valued_at.iter().copied()) {
            found.between(begin, begin.saturating_add(TWO_WEEKS_MICROS));
        }
        let cuts = found.cuts.range(FIRST_TIME.saturating_add(1)..).copied();
        let later: Vec<i64> = [FIRST_TIME].into_iter().chain(cuts).collect();
        for (at, begin) in later.iter().enumerate() {
            let next = later.get(at.saturating_add(1)).copied().unwrap_or(i64::MAX);
            found.between(*begin, next.min(begin.saturating_add(YEARS_MICROS)));
        }
        found.moments
    }
}

/// The combinations found so far.
struct MomentSearch<'s> {
    universe: &'s Universe,
    /// The times at which a date, or the value of an asset, may change.
    cuts: BTreeSet<i64>,
    moments: Vec<CellMoment>,
    seen: HashSet<(usize, Vec<usize>)>,
    walked: HashSet<StretchKey>,
}

/// A stretch of time in which offsets, dates and values stay the same; two with one key have the same combinations.
#[derive(PartialEq, Eq, Hash)]
struct StretchKey {
    /// How far each zone is ahead of UTC, in seconds.
    offsets: Vec<i64>,
    dates: Vec<usize>,
    period: usize,
    in_week: i64,
    length: i64,
}

impl MomentSearch<'_> {
    /// Notes each combination between two times. All offsets and dates stay the same from one change to the next.
    fn between(&mut self, from: i64, to: i64) {
        let within = from.saturating_add(1)..to.max(from.saturating_add(1));
        let mut changes: BTreeSet<i64> = self.cuts.range(within.clone()).copied().collect();
        for zone in self.universe.zones.values() {
            let Ok(begin) = Timestamp::from_microsecond(from) else { return };
            let following = zone.following(begin).map(|change| change.timestamp().as_microsecond());
            changes.extend(following.take_while(|change| *change < to));
        }
        let mut begin = from;
        for end in changes.range(within).copied().chain([to]) {
            self.stretch(begin, end);
            begin = end;
        }
    }

    /// Walks from hour to hour of all zones. After a week, everything comes again.
    fn stretch(&mut self, begin: i64, end: i64) -> Option<()> {
        let length = end.saturating_sub(begin).min(WEEK_MICROS);
        let local = Timestamp::from_microsecond(begin).ok()?;
        let zones = self.universe.zones.values();
        let offsets: Vec<i64> = zones.map(|zone| i64::from(zone.to_offset(local).seconds())).collect();
        let dates = self.universe.date_cells_at(begin)?;
        let period = self.universe.period(begin);
        let in_week = begin.rem_euclid(WEEK_MICROS);
        if !self.walked.insert(StretchKey { offsets: offsets.clone(), dates, period, in_week, length }) {
            return None;
        }
        let mut now = begin;
        while now < begin.saturating_add(length) {
            let cells = self.universe.cells_at(now)?;
            if self.seen.insert((period, cells.iter().map(|(_, cell)| *cell).collect())) {
                self.moments.push(CellMoment { now, period, cells });
            }
            let secs = now.div_euclid(SECOND_MICROS);
            let to_next = |offset: &i64| HOUR_SECS.saturating_sub(secs.saturating_add(*offset).rem_euclid(HOUR_SECS));
            let next = secs.saturating_add(offsets.iter().map(to_next).min()?);
            now = next.saturating_mul(SECOND_MICROS);
        }
        Some(())
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
    /// Returns a time of each combination.
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
                found.push((self.slot(var)?, self.cell_at(var, &variable, &local)?));
            }
        }
        Some(found)
    }

    /// Returns the cell of a local time. The cells of dates are in ascending order, and there may be as many as rules.
    fn cell_at(&self, var: usize, variable: &Variable, local: &Zoned) -> Option<usize> {
        let cells = self.cells(var);
        match variable {
            Variable::Date(_) => {
                let day = day_number(local.date())?;
                Some(cells.partition_point(|cell| matches!(cell, Cell::Numbers(_, most) if *most < day)))
            }
            _ => cells.iter().position(|cell| is_at(variable, cell, local)),
        }
    }

    /// Returns the cells of the dates of a time, one for each zone with dates.
    fn date_cells_at(&self, now: i64) -> Option<Vec<usize>> {
        let mut found = Vec::new();
        for (name, zone) in &self.zones {
            let variable = Variable::Date(name.clone());
            let Some(var) = self.place(&variable) else { continue };
            let local = Timestamp::from_microsecond(now).ok()?.to_zoned(zone.clone());
            found.push(self.cell_at(var, &variable, &local)?);
        }
        Some(found)
    }

    /// Whether some time is possible.
    pub(super) fn has_time(&self, region: &Domain) -> bool {
        self.moments().iter().any(|moment| moment.is_in(region))
    }

    /// Returns the times at which a date, or the value of an asset, may change.
    fn cuts(&self) -> BTreeSet<i64> {
        let mut cuts = self.valued_at.clone();
        for (name, zone) in &self.zones {
            cuts.extend(self.date_cells(name).into_iter().filter_map(|(least, _)| begin_of(least, zone)));
        }
        cuts
    }

    /// Returns the number of the period in which the values of assets stay the same.
    fn period(&self, now: i64) -> usize {
        self.valued_at.range(..=now).count()
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
