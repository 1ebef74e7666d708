//! The windows of limits: their keys, and maxima in other currencies.

use serde_json::json;

use super::deciding::{asking, decide, decide_with, limit, rule, rules, swap};
use super::*;
use crate::ledger::StoreTime;

/// Another `per` begins with empty windows, whatever the values of its keys are called.
#[test]
fn other_keys_have_other_windows() {
    let of = |per: &str, max: &str| {
        let lines = format!("window = \"rolling 24h\"\nper = [{per}]\nmax = \"{max}\"\nover = \"deny\"");
        let around = "window = \"rolling 24h\"\nmax = \"9 calls\"\nover = \"deny\"";
        rules(&(rule("a", "allow", "op = \"createSwap\"") + &limit("day", &lines) + &limit("around", around)))
    };
    // A role and an issuer that are called as the unit is.
    let body = swap(json!({"amount": "5"}), json!({}));
    let keys = |rules: &Rules| {
        asking("createSwap", &body, |asked| {
            let calls: BTreeSet<String> = ["calls".to_owned()].into();
            let asked = PolicyRequest { issuer: "calls", roles: &calls, ..*asked };
            let verdict = rules.decide(&asked, &Facts::default());
            let of_day = verdict.reservations.iter().find(|one| one.window.limit == "day");
            of_day.map(|one| one.window.key.clone()).unwrap()
        })
    };
    let sets = [
        of("\"role\"", "5 calls"),
        of("\"role\"", "50 USD"),
        of("\"issuer\"", "50 USD"),
        of("\"role\", \"issuer\"", "50 USD"),
        of("\"role\", \"issuer\"", "5 calls"),
        of("\"role\", \"chain\"", "50 USD"),
        of("", "5 calls"),
        of("", "50 USD"),
    ];
    for (at, one) in sets.iter().enumerate() {
        for (other, another) in sets.iter().enumerate() {
            assert_eq!(keys(one) == keys(another), at == other, "{at} {other}");
            assert_eq!(one.limits[0].has_window(&keys(another)), at == other, "{at} {other}");
        }
    }
}

/// A maximum in another currency is worth what the set says, and stops everything once that value is too old.
#[test]
fn maxima_are_in_any_known_currency() {
    let asset =
        "[asset.eur]\ndecimals = 2\nvalue = \"1.08 USD\"\nas_of = \"2026-03-01T00:00:00Z\"\ngood_for = \"24h\"\n";
    let with = |max: &str| {
        let lines = format!("window = \"rolling 24h\"\nmax = \"{max}\"\nover = \"deny\"");
        rules(&(rule("a", "allow", "op = \"createSwap\"") + &limit("day", &lines) + asset))
    };
    let at = |time: &str| {
        let now = StoreTime::of_micros(time.parse::<jiff::Timestamp>().unwrap().as_microsecond());
        Facts { now, ..Facts::default() }
    };
    let effect = |rules: &Rules, amount: &str, time: &str| {
        decide_with(rules, "createSwap", &swap(json!({"amount": amount}), json!({})), &at(time)).effect
    };
    let (euros, coins) = (with("100.55 eur"), with("100.5 usdc"));
    assert_eq!(euros.limits[0].max, Max::MicroUsd(108_594_000));
    for (rules, time, amount, expected) in [
        (&euros, "2026-03-01T12:00:00Z", "108.594", Effect::Allow),
        (&euros, "2026-03-01T12:00:00Z", "108.594001", Effect::Deny),
        (&euros, "2026-02-28T23:59:59Z", "1", Effect::Deny),
        (&euros, "2026-03-01T00:00:00Z", "1", Effect::Allow),
        (&euros, "2026-03-02T00:00:00Z", "1", Effect::Deny),
        (&coins, "1999-01-01T00:00:00Z", "100.5", Effect::Allow),
        (&coins, "2199-01-01T00:00:00Z", "100.500001", Effect::Deny),
    ] {
        assert_eq!(effect(rules, amount, time), expected, "{amount} {time}");
    }
    let facts = at("2026-03-01T12:00:00Z");
    let denied = decide_with(&euros, "createSwap", &swap(json!({"amount": "109"}), json!({})), &facts);
    assert_eq!(denied.reasons[0].text, "over the limit of 108.594 USD (100.55 eur)");
}

/// Micro-USD are not counted as calls, nor calls as micro-USD.
#[test]
fn another_unit_has_other_windows() {
    for per in ["", "per = [\"environment\"]\n"] {
        let with = |max: &str| {
            let lines = format!("window = \"rolling 24h\"\n{per}max = \"{max}\"\nover = \"deny\"");
            rules(&(rule("a", "allow", "op = \"createSwap\"") + &limit("day", &lines)))
        };
        let window =
            |rules: &Rules| decide(rules, &swap(json!({"amount": "5"}), json!({}))).reservations[0].window.clone();
        let (money, calls) = (with("100 USD"), with("100 calls"));
        assert_ne!(window(&money), window(&calls));
        assert_eq!(window(&money), window(&with("99 USD")));
        assert_eq!(window(&calls), window(&with("99 calls")));
        let has = |rules: &Rules, of: &Rules| rules.limits[0].has_window(&window(of).key);
        assert_eq!([has(&money, &money), has(&calls, &calls)], [true, true], "{per}");
        assert_eq!([has(&money, &calls), has(&calls, &money)], [false, false], "{per}");
    }
}
