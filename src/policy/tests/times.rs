//! `date`: days of a zone, alone and in ranges, at both edges.

use serde_json::json;

use super::deciding::{USER, decide_with, rule, rules};
use super::language::{WORDS, all};
use super::*;
use crate::ledger::StoreTime;

fn effect(when: &str, time: &str) -> Effect {
    let rules = rules(&rule("a", "allow", &format!("op = \"createSwap\", {when}")));
    let now = StoreTime::of_micros(time.parse::<jiff::Timestamp>().unwrap().as_microsecond());
    let body =
        json!({"requestId": "r-1", "source": {"amount": "5", "currency": "usdc"}, "destination": {"userId": USER}});
    decide_with(&rules, "createSwap", &body, &Facts { now, ..Facts::default() }).effect
}

#[test]
fn dates_are_those_of_the_zone_and_brackets_say_whether_an_end_is_in() {
    let closed = "date = \"[2026-12-24, 2026-12-26]\", zone = \"Europe/Berlin\"";
    let open = "date = \"(2026-12-23, 2026-12-27)\", zone = \"Europe/Berlin\"";
    let each = "date = [\"2026-12-26\", \"2026-12-24\", \"2026-12-25\"], zone = \"Europe/Berlin\"";
    for when in [closed, open, each] {
        for (time, expected) in [
            ("2026-12-23T22:59:59.999999Z", Effect::Deny),
            ("2026-12-23T23:00:00Z", Effect::Allow),
            ("2026-12-26T22:59:59.999999Z", Effect::Allow),
            ("2026-12-26T23:00:00Z", Effect::Deny),
        ] {
            assert_eq!(effect(when, time), expected, "{when} {time}");
        }
    }
    let from = "date = \"[2026-12-24, inf)\", zone = \"UTC\"";
    for (time, expected) in [("2026-12-23T23:59:59Z", Effect::Deny), ("2199-01-01T00:00:00Z", Effect::Allow)] {
        assert_eq!(effect(from, time), expected, "{time}");
    }
    // A day with 23 hours.
    let short = "date = \"2026-03-29\", zone = \"Europe/Berlin\"";
    let at = |time| effect(short, time);
    assert_eq!([at("2026-03-29T21:59:59Z"), at("2026-03-29T22:00:00Z")], [Effect::Allow, Effect::Deny]);
}

#[test]
fn the_same_dates_have_one_meaning_and_wrong_ones_are_errors() {
    let read = |date: &str| {
        let text = rule("a", "allow", &format!("op = \"createSwap\", date = {date}, zone = \"UTC\""));
        all(&[&text, WORDS]).map(|set| set.policies.meaning.version().to_owned())
    };
    let three = read("\"[2026-12-24, 2026-12-27)\"").unwrap();
    for same in ["[\"2026-12-26\", \"[2026-12-24, 2026-12-25]\"]", "[\"[2026-12-24, 2026-12-26]\", \"2026-12-25\"]"] {
        assert_eq!(read(same).unwrap(), three, "{same}");
    }
    assert_ne!(read("\"[2026-12-24, 2026-12-27]\"").unwrap(), three);
    for wrong in [
        "\"2026-02-29\"",
        "\"20261224\"",
        "\"2026-12-24T00:00\"",
        "\"1969-12-31\"",
        "\"\"",
        "[]",
        "5",
        "\"[2026-12-24, 2026-12-24)\"",
        "\"[2026-12-27, 2026-12-24]\"",
        "\"[2026-12-24, inf]\"",
        "\"2026-12-24, 2026-12-25\"",
    ] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
    assert!(all(&[&rule("a", "allow", "op = \"createSwap\", date = \"2026-12-24\""), WORDS]).is_err());
}
