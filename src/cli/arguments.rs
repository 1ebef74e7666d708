//! Values of arguments that a command can judge itself, before it asks the console.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::base::money::Decimal;

/// Takes a day.
pub(super) fn day(text: &str) -> Result<String, String> {
    let is_day = text.len() == "2026-11-20".len() && text.parse::<Date>().is_ok();
    taken_if(text, is_day, "expected a day such as 2026-11-20")
}

/// Takes a day, or a time.
pub(super) fn day_or_time(text: &str) -> Result<String, String> {
    let is_either = day(text).is_ok() || text.parse::<Timestamp>().is_ok();
    taken_if(text, is_either, "expected a day such as 2026-11-20, or a time such as 2026-11-20T08:00:00Z")
}

/// Takes the name of a time zone, and returns it as the database writes it.
pub(super) fn zone(text: &str) -> Result<String, String> {
    let zone = TimeZone::get(text).ok().filter(|zone| !zone.is_unknown());
    let name = zone.and_then(|zone| zone.iana_name().map(str::to_owned));
    name.ok_or_else(|| "expected a name of the IANA time zone database, such as Europe/Paris".to_owned())
}

/// Takes an amount.
pub(super) fn amount(text: &str) -> Result<String, String> {
    Decimal::parse(text)
        .map(|_| text.to_owned())
        .map_err(|why| format!("expected an amount such as 1250.50, without a currency: {why}"))
}

fn taken_if(text: &str, is_right: bool, expected: &str) -> Result<String, String> {
    if is_right { Ok(text.to_owned()) } else { Err(expected.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_console_would_refuse_is_refused_here() {
        for right in ["2026-11-20", "2028-02-29"] {
            assert!(day(right).is_ok() && day_or_time(right).is_ok(), "{right}");
        }
        for wrong in ["2026-13-01", "2026-02-30", "30.11.2026", "2026-1", "", "2026-11-20T08:00:00Z"] {
            assert!(day(wrong).is_err(), "{wrong}");
        }
        assert!(day_or_time("2026-11-20T08:00:00Z").is_ok() && day_or_time("2026-11-20T08:00").is_err());
        assert!(zone("Europe/Paris").is_ok() && zone("Mars/X").is_err() && zone("Etc/Unknown").is_err());
        assert_eq!(zone("europe/PARIS").unwrap(), "Europe/Paris");
        assert!(amount("1250.50").is_ok());
        assert_eq!(
            amount("1e3").unwrap_err(),
            "expected an amount such as 1250.50, without a currency: it has an exponent"
        );
    }
}
