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

const LISTS: &str = r#"
[list.holidays]
date = ["2026-12-25", "2027-01-01", "[2026-12-30, 2026-12-31]"]
[list.vendors]
wallet = [
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    { name = "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB", expires = "2026-12-31 Europe/Berlin" },
    { name = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359", expires = "2027-03-31 Europe/Berlin" },
]
"#;
const FOR_GOOD: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
const FIRST_TO_GO: &str = "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB";
const SECOND_TO_GO: &str = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359";

fn at(time: &str) -> StoreTime {
    StoreTime::of_micros(time.parse::<jiff::Timestamp>().unwrap().as_microsecond())
}

fn effect_of(text: &str, wallet: &str, time: &str) -> Effect {
    let reading = all(&[text, LISTS, WORDS]).unwrap();
    let body = json!({"requestId": "r-1", "source": {"amount": "5", "currency": "usdc"},
                      "destination": {"chain": "BASE", "walletAddress": wallet}});
    decide_with(&reading.policies.rules, "createSwap", &body, &Facts { now: at(time), ..Facts::default() }).effect
}

#[test]
fn holidays_are_a_list_of_dates_in_any_file() {
    let open = rule("a", "allow", "op = \"createSwap\", date = { not_in = \"@holidays\" }, zone = \"Europe/Berlin\"");
    let closed =
        rule("a", "allow", "op = \"createSwap\", date = [\"@holidays\", \"2026-12-24\"], zone = \"Europe/Berlin\"");
    for (time, is_holiday) in [
        ("2026-12-24T22:59:59Z", false),
        ("2026-12-24T23:00:00Z", true),
        ("2026-12-25T22:59:59Z", true),
        ("2026-12-25T23:00:00Z", false),
        ("2026-12-29T22:59:59Z", false),
        ("2026-12-29T23:00:00Z", true),
        ("2027-01-01T22:59:59Z", true),
        ("2027-01-01T23:00:00Z", false),
        ("1999-01-01T00:00:00Z", false),
    ] {
        let expected = if is_holiday { Effect::Deny } else { Effect::Allow };
        assert_eq!(effect_of(&open, FOR_GOOD, time), expected, "{time}");
        // The day before is one of its own.
        let also = is_holiday || time == "2026-12-24T22:59:59Z";
        let expected = if also { Effect::Allow } else { Effect::Deny };
        assert_eq!(effect_of(&closed, FOR_GOOD, time), expected, "{time}");
    }
    for wrong in
        ["date = \"@vendors\"", "date = \"@holiday\"", "date = { not_in = [] }", "date = { in = \"@holidays\" }"]
    {
        let text = rule("a", "allow", &format!("op = \"createSwap\", {wrong}, zone = \"UTC\""));
        assert!(all(&[&text, LISTS, WORDS]).is_err(), "{wrong}");
    }
    let wrong = LISTS.replace("2027-01-01", "2027-02-29");
    assert!(all(&[&open, &wrong, WORDS]).is_err());
}

/// A rule or a member counts to the end of its last day, in its zone, for what permits and for what stops.
#[test]
fn rules_and_members_expire_with_the_end_of_a_day() {
    let with_end =
        rule("a", "allow", "op = \"createSwap\"").replace("effect", "expires = \"2026-12-31 Europe/Berlin\"\neffect");
    for (time, expected) in [("2026-12-31T22:59:59.999999Z", Effect::Allow), ("2026-12-31T23:00:00Z", Effect::Deny)] {
        assert_eq!(effect_of(&with_end, FOR_GOOD, time), expected, "{time}");
    }
    let (before, between, after) = ("2026-12-31T22:59:59Z", "2026-12-31T23:00:00Z", "2027-03-31T22:00:00Z");
    let allowed = rule("a", "allow", "op = \"createSwap\", destination.wallet = \"@vendors\"");
    let denied =
        rule("a", "allow", "op = \"createSwap\"") + &rule("d", "deny", "op = \"createSwap\", wallet = \"@vendors\"");
    let excluded = rule("a", "allow", "op = \"createSwap\"")
        + &rule("d", "deny", "op = \"createSwap\", destination.wallet = { not_in = \"@vendors\" }");
    let others = rule("a", "allow", "op = \"createSwap\", wallet = { not_in = \"@vendors\" }");
    for (time, listed) in [(before, [true, true, true]), (between, [true, false, true]), (after, [true, false, false])]
    {
        for (wallet, is_listed) in [FOR_GOOD, FIRST_TO_GO, SECOND_TO_GO].into_iter().zip(listed) {
            let expected = |is_allowed: bool| if is_allowed { Effect::Allow } else { Effect::Deny };
            assert_eq!(effect_of(&allowed, wallet, time), expected(is_listed), "{wallet} {time}");
            assert_eq!(effect_of(&denied, wallet, time), expected(!is_listed), "{wallet} {time}");
            assert_eq!(effect_of(&excluded, wallet, time), expected(is_listed), "{wallet} {time}");
            assert_eq!(effect_of(&others, wallet, time), expected(!is_listed), "{wallet} {time}");
        }
    }
    // Whoever is named besides for good, or for longer, stays.
    let also =
        rule("a", "allow", &format!("op = \"createSwap\", destination.wallet = [\"@vendors\", \"{FIRST_TO_GO}\"]"));
    assert_eq!(effect_of(&also, FIRST_TO_GO, after), Effect::Allow);
}

#[test]
fn wrong_ends_are_errors() {
    let read =
        |lists: &str, text: &str| all(&[text, lists, WORDS]).map(|_| ()).map_err(|findings| findings[0].to_string());
    let allowed = rule("a", "allow", "op = \"createSwap\", destination.wallet = \"@vendors\"");
    assert_eq!(read(LISTS, &allowed), Ok(()));
    for (from, to) in [
        ("2026-12-31 Europe/Berlin", "2026-12-31"),
        ("2026-12-31 Europe/Berlin", "2026-12-32 Europe/Berlin"),
        ("2026-12-31 Europe/Berlin", "2026-12-31 Europe/Bärlin"),
        ("2026-12-31 Europe/Berlin", "2026-12-31  Europe/Berlin"),
        ("2026-12-31 Europe/Berlin", "2026-12-31 UTC"),
        (", expires = \"2026-12-31 Europe/Berlin\"", ""),
        ("name = \"0xdbF", "wallet = \"0xdbF"),
        (FIRST_TO_GO, FOR_GOOD),
        (FIRST_TO_GO, "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"),
        (FIRST_TO_GO, "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359"),
        (FIRST_TO_GO, "vitalik.eth"),
    ] {
        assert!(LISTS.contains(from), "{from}");
        assert!(read(&LISTS.replacen(from, to, 1), &allowed).is_err(), "{to}");
    }
    let days = (0..65).map(|day| {
        let date = jiff::civil::date(2027, 1, 1).checked_add(jiff::Span::new().days(day)).unwrap();
        format!("{{ name = \"0x{day:040}\", expires = \"{date} UTC\" }}")
    });
    let many = format!("[list.vendors]\nwallet = [{}]\n", days.collect::<Vec<_>>().join(", "));
    assert!(read(&many, &allowed).unwrap_err().contains("more than 64 different days"));
}

#[test]
fn check_says_what_has_expired_and_what_soon_will() {
    let text = rule(
        "a",
        "allow",
        "op = \"createSwap\", destination.wallet = \"@vendors\", date = { not_in = \"@holidays\" }, zone = \"Europe/Berlin\"",
    ) + &rule("b", "allow", "op = \"createOfframp\"")
        .replace("effect", "expires = \"2027-06-30 Europe/Berlin\"\neffect");
    let reading = all(&[&text, LISTS, WORDS]).unwrap();
    let told = |time: &str| {
        let endings = reading.policies.endings(time.parse().unwrap());
        endings.iter().map(|finding| finding.text.clone()).collect::<Vec<_>>()
    };
    assert_eq!(told("2026-11-29T12:00:00Z"), [""; 0]);
    let soon = |what: &str, day: &str, zone: &str| format!("{what} expires soon: its last day is {day} in {zone}");
    let over = |what: &str, day: &str, zone: &str| format!("{what} has expired: its last day was {day} in {zone}");
    let first = format!("`{}` of the list `vendors`", FIRST_TO_GO.to_lowercase());
    let second = format!("`{}` of the list `vendors`", SECOND_TO_GO.to_lowercase());
    let holidays = "the list `holidays` of dates";
    assert_eq!(told("2026-12-01T12:00:00Z"), [soon(&first, "2026-12-31", "Europe/Berlin")]);
    assert_eq!(
        told("2027-01-01T12:00:00Z"),
        [soon(holidays, "2027-01-01", "UTC"), over(&first, "2026-12-31", "Europe/Berlin")]
    );
    assert_eq!(
        told("2027-06-30T21:59:59Z"),
        [
            soon("`b`", "2027-06-30", "Europe/Berlin"),
            over(holidays, "2027-01-01", "UTC"),
            over(&first, "2026-12-31", "Europe/Berlin"),
            over(&second, "2027-03-31", "Europe/Berlin"),
        ]
    );
    assert_eq!(told("2027-06-30T22:00:00Z")[0], over("`b`", "2027-06-30", "Europe/Berlin"));
}

/// The day is that of the moment: hours after midnight are of the next one.
#[test]
fn a_night_of_some_days_is_told_to_have_both_ends_on_one_day() {
    let zone = "zone = \"Europe/Berlin\"";
    let night = format!("weekday = \"fri\", hour = \"[22, 6)\", {zone}");
    // Friday, 2026-12-04.
    for (time, expected) in [
        ("2026-12-03T23:30:00Z", Effect::Allow),
        ("2026-12-04T22:30:00Z", Effect::Allow),
        ("2026-12-04T23:30:00Z", Effect::Deny),
    ] {
        assert_eq!(effect(&night, time), expected, "{time}");
    }
    let warnings = |when: &str| {
        let known = KnownNames { catalog: catalog(), issuers: &["main", "console"], can_share: false };
        let policies = all(&[&rule("r", "allow", &format!("op = \"createSwap\", {when}")), WORDS]).unwrap().policies;
        let found = policies.oddities(&known);
        found.into_iter().map(|one| one.text).filter(|text| text.contains("0:00")).collect::<Vec<_>>()
    };
    let told =
        "`r` covers 0:00 to 6:00 and 22:00 to 24:00 of its days, and not the hours after the midnight that ends them";
    assert_eq!(warnings(&night), [told]);
    assert_eq!(warnings(&format!("date = \"2026-12-24\", hour = \"[22, 6)\", {zone}")), [told]);
    let all_days = "weekday = [\"mon\", \"tue\", \"wed\", \"thu\", \"fri\", \"sat\", \"sun\"]";
    for good in [
        format!("hour = \"[22, 6)\", {zone}"),
        format!("weekday = \"fri\", hour = \"[9, 17)\", {zone}"),
        format!("weekday = \"fri\", hour = \"[22, 24)\", {zone}"),
        format!("{all_days}, hour = \"[22, 6)\", {zone}"),
    ] {
        assert_eq!(warnings(&good), [""; 0], "{good}");
    }
}

#[test]
fn a_mistake_in_a_time_is_told_once() {
    for (when, told) in [
        ("hour = \"9-17\", zone = \"UTC\"", "`hour` cannot be `9-17`"),
        ("date = \"tomorrow\", zone = \"UTC\"", "`date` cannot be `tomorrow`"),
        ("weekday = \"frid\", zone = \"UTC\"", "`weekday` cannot be `frid`"),
        ("zone = \"UTC\"", "`zone` has no effect alone"),
    ] {
        let findings = all(&[&rule("r", "deny", &format!("op = \"createSwap\", {when}")), WORDS]).unwrap_err();
        assert!(findings.len() == 1 && findings[0].text.starts_with(told), "{when}: {findings:?}");
    }
}
