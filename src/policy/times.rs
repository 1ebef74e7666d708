//! Conditions on time: weekdays, hours and dates, each in a zone.

use std::collections::BTreeSet;

use jiff::Span;
use jiff::civil::{Date, Weekday};
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::condition::Condition;
use super::document::{DocumentTable, PolicyPlace};
use super::interval::Interval;

pub(super) const DAYS: [(&str, Weekday); 7] = [
    ("mon", Weekday::Monday),
    ("tue", Weekday::Tuesday),
    ("wed", Weekday::Wednesday),
    ("thu", Weekday::Thursday),
    ("fri", Weekday::Friday),
    ("sat", Weekday::Saturday),
    ("sun", Weekday::Sunday),
];
/// Dates are numbers of days since this one.
const FIRST_DATE: Date = Date::constant(1970, 1, 1);

/// Reads the conditions on time; `dates` are those of `date`, read already.
pub(super) fn times(table: &mut DocumentTable<'_>, dates: Option<Vec<Interval>>, found: &mut Vec<Condition>) {
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
            if days.is_none() && hours.is_none() && dates.is_none() {
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
        let near = crate::base::finding::nearest(name, known.iter().map(String::as_str));
        let remedy = near
            .map_or("write a name of the IANA time zone database".to_owned(), |near| format!("did you mean `{near}`?"));
        table.fault(place, format!("there is no zone `{}`", name.escape_debug()), remedy);
    }
    found
}

/// Parses a date, or an interval of dates.
pub(super) fn date_range(text: &str) -> Result<Interval, String> {
    match text.starts_with(['(', '[']) {
        true => Interval::parse(text, date_number),
        false => date_number(text).map(|day| Interval { least: day, most: day }),
    }
}

/// Parses a date to its number of days.
pub(super) fn date_number(text: &str) -> Result<u128, String> {
    let date: Date = text.parse().map_err(|_| "there is no such date".to_owned())?;
    if date.to_string() != text {
        return Err("a date is written as `2026-12-24`".to_owned());
    }
    day_number(date).ok_or_else(|| format!("dates begin at {FIRST_DATE}"))
}

/// Returns the days from 1970-01-01 to a date.
pub(super) fn day_number(date: Date) -> Option<u128> {
    u128::try_from(FIRST_DATE.until(date).ok()?.get_days()).ok()
}

/// Returns the date of a number of days; `None` beyond the calendar.
pub(super) fn date_of(number: u128) -> Option<Date> {
    FIRST_DATE.checked_add(Span::new().try_days(i64::try_from(number).ok()?).ok()?).ok()
}

/// Parses dates, sorts them, and joins those that overlap or touch: the same dates have one form.
pub(super) fn merged(dates: &BTreeSet<String>) -> Vec<Interval> {
    let mut ranges: Vec<Interval> = dates.iter().filter_map(|text| date_range(text).ok()).collect();
    ranges.sort_by_key(|range| (range.least, range.most));
    ranges.dedup_by(|next, last| {
        let touches = next.least <= last.most.saturating_add(1);
        if touches {
            last.most = last.most.max(next.most);
        }
        touches
    });
    ranges
}

/// Returns the dates between these ranges, before and after them.
pub(super) fn others(ranges: &[Interval]) -> Vec<Interval> {
    let (mut found, mut least) = (Vec::new(), 0);
    for range in ranges {
        found.extend(range.least.checked_sub(1).filter(|most| least <= *most).map(|most| Interval { least, most }));
        let Some(next) = range.most.checked_add(1) else { return found };
        least = next;
    }
    found.push(Interval { least, most: u128::MAX });
    found
}

/// Formats ranges of dates in words.
pub(super) fn dates_in_words(ranges: &[Interval]) -> String {
    let date = |number: u128| date_of(number).map_or_else(|| "the end of time".to_owned(), |date| date.to_string());
    let words = |Interval { least, most }: &Interval| match (*least, *most) {
        (0, u128::MAX) => "any date".to_owned(),
        (0, most) => format!("until {}", date(most)),
        (least, u128::MAX) => format!("from {}", date(least)),
        (least, most) if least == most => date(least),
        (least, most) => format!("{} to {}", date(least), date(most)),
    };
    ranges.iter().map(words).collect::<Vec<_>>().join(" or ")
}
