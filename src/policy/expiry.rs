//! `expires`: rules and members of lists that end with a day, and the warnings before and after it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::Policies;
use super::condition::Condition;
use super::dates::{date_number, date_of, day_number};
use super::document::{DocumentTable, PolicyPlace};
use super::interval::Interval;
use super::times::zone_of;
use crate::base::finding::Finding;

/// The most different last days among the names of one condition.
const MAX_LAST_DAYS: usize = 64;
/// How many days before an end `check` warns of it.
const SOON_DAYS: u128 = 30;

/// The last day on which something counts, in a zone.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LastDay {
    pub day: u128,
    pub zone: TimeZone,
}

/// Something in a file that ends with a day.
#[derive(Clone, Debug)]
pub(super) struct PolicyEnd {
    /// The rule, list or member, in words.
    pub what: String,
    pub file: String,
    pub place: PolicyPlace,
    pub last: LastDay,
    /// What to do about it.
    pub remedy: &'static str,
}

/// Names, and the last days of those that end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NameSet {
    pub all: BTreeSet<String>,
    ends: BTreeMap<String, LastDay>,
}

impl NameSet {
    /// Adds a name. One that is there already keeps the later end; for good is the latest.
    pub(super) fn add(&mut self, name: String, last: Option<LastDay>) {
        let is_new = self.all.insert(name.clone());
        match (last, self.ends.get(&name)) {
            (Some(last), None) if is_new => {
                self.ends.insert(name, last);
            }
            (Some(last), Some(other)) if last.day > other.day => {
                self.ends.insert(name, last);
            }
            (None, Some(_)) => {
                self.ends.remove(&name);
            }
            (Some(_) | None, _) => {}
        }
    }

    pub(super) fn expires(&self, name: &str) -> bool {
        self.ends.contains_key(name)
    }

    pub(super) fn add_all(&mut self, other: &NameSet) {
        other.all.iter().for_each(|name| self.add(name.clone(), other.ends.get(name).cloned()));
    }

    /// Returns the names that still count on a day.
    fn on(&self, day: u128) -> BTreeSet<String> {
        let counts = |name: &&String| self.ends.get(*name).is_none_or(|last| last.day >= day);
        self.all.iter().filter(counts).cloned().collect()
    }
}

/// Which names fulfil a condition: then more names fulfil it more often, or less often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameSense {
    In,
    NotIn,
}

/// Returns conditions that together mean, on each day, the condition that `make` makes of the names that count then. The
/// first one names all of them where more names fulfil it more often: rules are found by it.
pub(super) fn in_time(
    table: &mut DocumentTable<'_>,
    sense: NameSense,
    sets: &[&NameSet],
    make: impl Fn(Vec<BTreeSet<String>>) -> Condition,
) -> Vec<Condition> {
    let all = || make(sets.iter().map(|set| set.all.clone()).collect());
    let ends: Vec<&LastDay> = sets.iter().flat_map(|set| set.ends.values()).collect();
    let Some(zone) = ends.first().map(|last| last.zone.clone()) else { return vec![all()] };
    let days: BTreeSet<u128> = ends.iter().map(|last| last.day).collect();
    let place = table.place;
    if ends.iter().any(|last| last.zone != zone) {
        table.fault(
            place,
            "members that a condition names expire in different zones",
            "write one zone for all of them",
        );
    }
    if days.len() > MAX_LAST_DAYS {
        let fault = format!("members that a condition names expire on more than {MAX_LAST_DAYS} different days");
        table.fault(place, fault, "let them expire on fewer days, such as the last ones of months");
        return vec![all()];
    }
    let begins = [0].into_iter().chain(days.iter().map(|day| day.saturating_add(1)));
    let ends = days.iter().copied().chain([u128::MAX]);
    let pieces = begins.zip(ends).map(|(least, most)| Interval { least, most });
    let during = |piece: Interval| {
        let names = sets.iter().map(|set| set.on(piece.least)).collect();
        Condition::During(piece, zone.clone(), Box::new(make(names)))
    };
    match sense {
        NameSense::In => [all()].into_iter().chain(pieces.skip(1).map(during)).collect(),
        NameSense::NotIn => pieces.map(during).collect(),
    }
}

/// Reads a last day: `2026-12-31 Europe/Berlin`.
pub(super) fn last_day(table: &mut DocumentTable<'_>, place: PolicyPlace, text: &str) -> Option<LastDay> {
    let remedy = "write the last day and its zone: `expires = \"2026-12-31 Europe/Berlin\"`";
    let Some((date, zone)) = text.split_once(' ') else {
        table.fault(place, format!("`expires` cannot be `{}`", text.escape_debug()), remedy);
        return None;
    };
    let day = date_number(date);
    if let Err(why) = &day {
        table.fault(place, format!("`expires` cannot be `{}`: {why}", text.escape_debug()), remedy);
    }
    let zone = zone_of(table, place, zone)?;
    Some(LastDay { day: day.ok()?, zone })
}

/// Takes `expires` out of a rule: a condition that today is not after that day.
pub(super) fn expiry(table: &mut DocumentTable<'_>) -> Option<Condition> {
    let (place, text) = table.text("expires")?;
    let LastDay { day, zone } = last_day(table, place, &text)?;
    Some(Condition::Date(vec![Interval { least: 0, most: day }], zone))
}

impl Policies {
    /// Returns a warning for each rule, list of dates and member of a list that has expired, or does so within 30 days.
    pub fn endings(&self, now: Timestamp) -> Vec<Finding> {
        let of_lists = self.ends.iter().filter_map(|end| end.warning(now));
        let of_rules = self.rules.rules.iter().flat_map(|rule| {
            let last = rule.when.conditions.iter().filter_map(last_of);
            last.filter(|last| !self.ends.iter().any(|end| end.last.day == last.day)).map(|last| PolicyEnd {
                what: format!("`{}`", rule.id),
                file: self.file_of(&rule.id).to_owned(),
                place: rule.place,
                last,
                remedy: "remove it, or write a later day",
            })
        });
        super::in_order(of_rules.filter_map(|end| end.warning(now)).chain(of_lists).collect())
    }
}

/// Returns the last day of a condition on dates, if they end.
fn last_of(condition: &Condition) -> Option<LastDay> {
    let Condition::Date(ranges, zone) = condition else { return None };
    let day = ranges.iter().map(|range| range.most).max().filter(|day| *day != u128::MAX)?;
    Some(LastDay { day, zone: zone.clone() })
}

impl PolicyEnd {
    fn warning(&self, now: Timestamp) -> Option<Finding> {
        let today = day_number(now.to_zoned(self.last.zone.clone()).date())?;
        let (what, zone) = (&self.what, self.last.zone.iana_name().unwrap_or("UTC"));
        let day = date_of(self.last.day)?;
        let text = match self.last.day.checked_sub(today) {
            None => format!("{what} has expired: its last day was {day} in {zone}"),
            Some(left) if left <= SOON_DAYS => format!("{what} expires soon: its last day is {day} in {zone}"),
            Some(_) => return None,
        };
        let (line, column) = self.place;
        Some(Finding::warning(&self.file, text).at(format!("{line}:{column}")).remedy(self.remedy))
    }
}
