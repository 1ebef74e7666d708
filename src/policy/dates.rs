//! Dates as numbers of days, in ranges.

use std::collections::BTreeSet;

use jiff::Span;
use jiff::civil::Date;

use super::interval::Interval;

/// Dates are numbers of days since this one.
const FIRST_DATE: Date = Date::constant(1970, 1, 1);

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
