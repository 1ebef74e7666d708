//! Conditions on time: weekdays, hours and dates, each in a zone.

use jiff::civil::Weekday;
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
