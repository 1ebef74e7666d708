//! The day of a statement, in one time zone.

use jiff::civil::Date;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use serde_json::{Map, Value, json};

use super::super::filter::{only_day, wrong};
use crate::catalog::Violation;
use crate::console::render::moment;
use crate::ledger::StoreTime;

/// A day in one zone.
#[derive(Clone, Debug)]
pub struct StatementDay {
    day: Date,
    zone: String,
    pub begin: StoreTime,
    /// The first time that is not of the day any more.
    pub end: StoreTime,
}

impl StatementDay {
    pub fn of(day: &str, zone: Option<&str>) -> Result<StatementDay, Violation> {
        let wrong_day = || wrong("day", "format", "a day such as 2026-11-20");
        let date = only_day(day).ok_or_else(wrong_day)?;
        let wrong_zone = || wrong("zone", "format", "a name of the IANA time zone database");
        let zone = match zone {
            None | Some("UTC") => TimeZone::UTC,
            Some(name) => TimeZoneDatabase::bundled().get(name).map_err(|_| wrong_zone())?,
        };
        // One zone has one name in files and entries, however it was typed.
        let name = zone.iana_name().ok_or_else(wrong_zone)?.to_owned();
        if zone.is_unknown() {
            return Err(wrong_zone());
        }
        let begin_of = |date: Date| {
            let begin = date.to_zoned(zone.clone()).map_err(|_| wrong_day())?;
            Ok(StoreTime::of_micros(begin.timestamp().as_microsecond()))
        };
        let next = date.tomorrow().map_err(|_| wrong_day())?;
        Ok(StatementDay { day: date, zone: name, begin: begin_of(date)?, end: begin_of(next)? })
    }

    /// Returns the members that say which day it is; `now` tells whether it is over.
    pub fn members(&self, now: StoreTime) -> Map<String, Value> {
        let members = [
            ("day", self.day.to_string().into()),
            ("zone", self.zone.as_str().into()),
            ("begin", moment(self.begin)),
            ("end", moment(self.end)),
            ("over", (now >= self.end).into()),
        ];
        members.map(|(name, value): (&str, Value)| (name.to_owned(), value)).into_iter().collect()
    }

    pub fn to_json(&self) -> Value {
        json!({ "day": self.day.to_string(), "zone": self.zone })
    }

    /// Returns day and zone as a part of a file name, in letters, digits and `-`.
    pub fn in_file_name(&self) -> String {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let zone: String = self.zone.replace('+', "plus").chars().map(plain).collect();
        format!("{}-{zone}", self.day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_a_day_in_a_zone_that_there_is() {
        for (day, zone) in [
            ("2026-11-30T00:00:00", "UTC"),
            ("2026-11-30T00:00:00Z", "UTC"),
            ("2026-1130", "UTC"),
            ("2026-11-31", "UTC"),
            ("2026-11-30", "Etc/Unknown"),
            ("2026-11-30", "Mars"),
            ("2026-11-30", ""),
        ] {
            assert!(StatementDay::of(day, Some(zone)).is_err(), "{day} {zone}");
        }
        let name = |zone: &str| StatementDay::of("2026-11-30", Some(zone)).unwrap().in_file_name();
        assert_eq!(name("UTC"), "2026-11-30-UTC");
        assert_eq!(name("europe/PARIS"), "2026-11-30-Europe-Paris");
        assert_eq!(name("America/New_York"), "2026-11-30-America-New-York");
        assert_ne!(name("Etc/GMT+5"), name("Etc/GMT-5"));
    }
}
