//! Conditions on time: weekdays, hours and dates, each in a zone.

use std::sync::Arc;

use jiff::civil::Weekday;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::Policies;
use super::condition::Condition;
use super::document::{DocumentTable, PolicyPlace};
use super::interval::Interval;
use crate::base::finding::{Finding, nearest};

pub(super) const DAYS: [(&str, Weekday); 7] = [
    ("mon", Weekday::Monday),
    ("tue", Weekday::Tuesday),
    ("wed", Weekday::Wednesday),
    ("thu", Weekday::Thursday),
    ("fri", Weekday::Friday),
    ("sat", Weekday::Saturday),
    ("sun", Weekday::Sunday),
];

/// The fields that a zone is for.
const IN_A_ZONE: [&str; 3] = ["weekday", "hour", "date"];

/// Whether a table has a condition on time, be it right or wrong.
pub(super) fn has_times(table: &DocumentTable<'_>) -> bool {
    IN_A_ZONE.iter().any(|name| table.has(name))
}

/// Reads the conditions on time; `dates` are those of `date`, read already, and `has_times` is of before.
pub(super) fn times(
    table: &mut DocumentTable<'_>,
    has_times: bool,
    dates: Option<Vec<Interval>>,
    found: &mut Vec<Condition>,
) {
    let place = table.place;
    let days = table.one_or_more("weekday").map(|texts| {
        let day = |(place, text): &(PolicyPlace, String)| table.choice_of("weekday", *place, text, &DAYS);
        texts.iter().filter_map(day).collect::<Vec<_>>()
    });
    let hours = table.text("hour").and_then(|(place, text)| {
        let read = Interval::parse_hours(&text);
        if let Err(why) = &read {
            let fault = format!("`hour` cannot be `{}`: {why}", text.escape_debug());
            table.fault(place, fault, "write for example `hour = \"[9, 17)\"`, or `\"[22, 6)\"` over midnight");
        }
        read.ok()
    });
    let zone = table.text("zone");
    match zone {
        Some((place, name)) => {
            let Some(zone) = zone_of(table, place, &name) else { return };
            if !has_times {
                table.fault(place, "`zone` has no effect alone", "add `weekday`, `hour` or `date`");
            }
            found.extend(days.map(|days| Condition::Weekday(days, zone.clone())));
            found.extend(hours.map(|hours| Condition::Hour(hours, zone.clone())));
            found.extend(dates.map(|dates| Condition::Date(dates, zone)));
        }
        None if (days.is_some() || hours.is_some() || dates.is_some()) && !table.has_misspelt("zone") => {
            table.fault(place, "`zone` is missing", "write for example `zone = \"Europe/Berlin\"`, or `\"UTC\"`");
        }
        None => {}
    }
}

/// Returns a zone of the built-in database: the same on every machine.
pub(super) fn zone_of(table: &mut DocumentTable<'_>, place: PolicyPlace, name: &str) -> Option<TimeZone> {
    let database = TimeZoneDatabase::bundled();
    let found = database.get(name).ok();
    if found.is_none() {
        let known: Vec<String> = database.available().map(|name| name.to_string()).collect();
        let near = nearest(name, known.iter().map(String::as_str));
        let remedy = near
            .map_or("write a name of the IANA time zone database".to_owned(), |near| format!("did you mean `{near}`?"));
        table.fault(place, format!("there is no zone `{}`", name.escape_debug()), remedy);
    }
    found
}

/// Returns a warning for each rule and limit whose hours go over midnight on some days only: the day is that of the
/// moment, so both ends of the night are of one day.
pub(super) fn cut_nights(policies: &Policies) -> Vec<Finding> {
    let rules = policies.rules.rules.iter().map(|rule| (&rule.id, rule.place, &rule.when.conditions));
    let limits = policies.rules.limits.iter().map(|limit| (&limit.id, limit.place, &limit.conditions));
    let warning = |(id, (line, column), conditions): (&Arc<str>, PolicyPlace, &Vec<Condition>)| {
        let night = conditions.iter().find_map(|condition| match condition {
            Condition::Hour(hours, _) if hours.least > hours.most => Some(*hours),
            _ => None,
        })?;
        if !conditions.iter().any(is_of_some_days) {
            return None;
        }
        let (begin, end) = (night.least, night.most.saturating_add(1));
        let text = format!(
            "`{id}` covers 0:00 to {end}:00 and {begin}:00 to 24:00 of its days, and not the hours after the midnight that ends them"
        );
        let remedy = "if the whole night is meant, write two: one to `24)`, and one from `[0` with the days after";
        Some(Finding::warning(policies.file_of(id), text).at(format!("{line}:{column}")).remedy(remedy))
    };
    rules.chain(limits).filter_map(warning).collect()
}

fn is_of_some_days(condition: &Condition) -> bool {
    match condition {
        Condition::Weekday(days, _) => DAYS.iter().any(|(_, day)| !days.contains(day)),
        // The end of a rule is a date without a beginning.
        Condition::Date(ranges, _) => ranges.iter().any(|range| range.least > 0),
        _ => false,
    }
}
