//! Rules in several zones: each zone changes its offset at its own times, and what is proved holds at all of them.

use std::collections::{BTreeSet, HashMap};

use jiff::civil::Date;
use jiff::tz::TimeZoneDatabase;
use jiff::{SignedDuration, Timestamp};

use super::prove::prove;
use super::world::{Dice, seeds};
use super::*;
use crate::ledger::StoreTime;
use crate::policy::difference;

/// Zones without changes, with the same ones, with others, and with changes of half an hour.
const ZONES: [&str; 8] = [
    "UTC",
    "Europe/Berlin",
    "Europe/Lisbon",
    "America/New_York",
    "Asia/Kolkata",
    "Asia/Jerusalem",
    "Australia/Sydney",
    "Australia/Lord_Howe",
];
/// Each request is one of these: all its names are written, so that only its time is open.
const NAMED: &str = "op = \"cancelSwap\", environment = \"production\", requester = \"anna\"";

fn allow(more: &str) -> String {
    rule("a", "allow", &format!("{NAMED}, {more}"))
}

fn deny(more: &str) -> String {
    rule("d", "deny", &format!("op = \"cancelSwap\", {more}"))
}

fn direction(old: &str, new: &str) -> Direction {
    difference(&unread(old), &unread(new), &known()).direction
}

#[test]
fn hours_that_meet_for_a_part_of_the_year_are_found() {
    for (first, first_hour, second, second_hour, meets) in [
        ("Europe/Berlin", "[2,3)", "UTC", "[0,1)", true),
        ("Europe/Berlin", "[2,3)", "UTC", "[1,2)", true),
        ("Europe/Berlin", "[2,3)", "UTC", "[2,3)", false),
        ("Europe/Berlin", "[14,15)", "America/New_York", "[8,9)", true),
        ("Europe/Berlin", "[14,15)", "America/New_York", "[9,10)", true),
        ("Europe/Berlin", "[14,15)", "America/New_York", "[7,8)", false),
        ("Europe/Berlin", "[14,15)", "Europe/Lisbon", "[14,15)", false),
        ("Australia/Lord_Howe", "[10,11)", "Australia/Sydney", "[10,11)", true),
        ("Australia/Lord_Howe", "[10,11)", "Australia/Sydney", "[9,10)", true),
        ("Australia/Lord_Howe", "[10,11)", "Australia/Sydney", "[8,9)", false),
        ("Asia/Jerusalem", "[15,16)", "Europe/Berlin", "[13,14)", true),
        ("Asia/Jerusalem", "[15,16)", "Europe/Berlin", "[15,16)", false),
    ] {
        for day in ["", "weekday = \"fri\", "] {
            let allow = allow(&format!("{day}hour = \"{first_hour}\", zone = \"{first}\""));
            let deny = deny(&format!("{day}hour = \"{second_hour}\", zone = \"{second}\""));
            let found = direction(&(allow.clone() + &deny), &allow);
            let wanted = if meets { Direction::Loosens } else { Direction::Same };
            assert_eq!(found, wanted, "{first} {first_hour} and {second} {second_hour} {day}");
        }
    }
}

/// A time, and a number for the weekday, the hour and the range of dates in each zone.
type HalfHour = (StoreTime, [usize; ZONES.len()]);

/// Each half hour of a year and a half.
fn half_hours() -> &'static [HalfHour] {
    static ALL: LazyLock<Vec<HalfHour>> = LazyLock::new(|| {
        let zones = ZONES.map(|name| TimeZoneDatabase::bundled().get(name).unwrap());
        let cuts = DATES.map(|date| date.parse::<Date>().unwrap());
        let begin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let at = |step: i64| {
            let now = begin + SignedDuration::from_mins(30 * step);
            let local = zones.each_ref().map(|zone| {
                let local = now.to_zoned(zone.clone());
                let (day, hour) = (local.weekday().to_monday_zero_offset(), local.hour());
                let range = cuts.iter().filter(|cut| local.date() >= **cut).count();
                usize::try_from(day).unwrap() * 24 + usize::try_from(hour).unwrap() + range * 168
            });
            (StoreTime::of_micros(now.as_microsecond()), local)
        };
        (0..48 * 548).map(at).collect()
    });
    &ALL
}

/// The times at which anything differs in these zones, by their places in the list.
fn times(zones: &BTreeSet<usize>) -> Vec<StoreTime> {
    let mut found: HashMap<Vec<usize>, StoreTime> = HashMap::new();
    for (now, local) in half_hours() {
        found.entry(zones.iter().map(|zone| local[*zone]).collect()).or_insert(*now);
    }
    found.into_values().collect()
}

const DATES: [&str; 4] = ["2026-03-27", "2026-03-30", "2026-10-25", "2026-11-02"];

fn random_time(dice: &mut Dice, zones: &mut BTreeSet<usize>) -> String {
    let zone = dice.below(ZONES.len());
    zones.insert(zone);
    let mut asked = Vec::new();
    if dice.is_lucky(70) {
        let hour = dice.below(24);
        let end = hour + 1 + dice.below(3);
        asked.push(format!("hour = \"[{hour}, {})\"", if end > 24 { end - 24 } else { end }));
    }
    if dice.is_lucky(60) || asked.is_empty() {
        asked.push(format!("weekday = \"{}\"", dice.one(&["mon", "wed", "sat", "sun"])));
    }
    if dice.is_lucky(20) {
        asked.push(format!("date = \"[{}, {})\"", DATES[dice.below(2)], DATES[2 + dice.below(2)]));
    }
    format!("{}, zone = \"{}\"", asked.join(", "), ZONES[zone])
}

#[test]
fn what_is_said_of_several_zones_is_so_at_every_time() {
    let mut counts = [0; 4];
    for seed in seeds(0..240) {
        let mut dice = Dice::of(seed);
        let mut zones = BTreeSet::new();
        let names = if dice.is_lucky(50) { NAMED } else { "op = \"cancelSwap\"" };
        let allowed = random_time(&mut dice, &mut zones);
        let base = rule("a", "allow", &format!("{names}, {allowed}"));
        let denials: Vec<String> = (0..1 + dice.below(2))
            .map(|at| {
                let when = format!("op = \"cancelSwap\", {}", random_time(&mut dice, &mut zones));
                rule(&format!("d{at}"), "deny", &when)
            })
            .collect();
        let (old, new) = (base.clone() + &denials.concat(), base + &denials[1..].concat());
        let claim = format!("{NAMED}, {}", random_time(&mut dice, &mut zones));
        let invariant = format!("[[invariant]]\nid = \"i\"\nnever = {{ effect = \"allow\", {claim} }}\n");
        let shown = format!("seed {seed}\n{old}\n{invariant}");
        let (old, new, claimed) = (unread(&old), unread(&new), unread(&invariant));
        let about = unread(&rule("same", "allow", &claim));
        let payment = super::world::named("cancelSwap", "anna");
        let effects = |now: StoreTime| {
            let payment = Payment { now, ..payment.clone() };
            [&old, &new, &about].map(|set| payment.decide(&set.rules, catalog()).unwrap().effect)
        };
        let seen: Vec<[Effect; 3]> = times(&zones).into_iter().map(effects).collect();
        let is_looser = seen.iter().any(|[old, new, _]| new < old);
        match difference(&old, &new, &known()).direction {
            Direction::Loosens => counts[0] += 1,
            Direction::Same | Direction::OnlyTightens => {
                counts[1] += 1;
                assert!(!is_looser, "{shown}");
            }
            Direction::NotProved => panic!("not proved: {shown}"),
        }
        let is_broken = seen.iter().any(|[_, new, about]| (*new, *about) == (Effect::Allow, Effect::Allow));
        match prove(&new.rules, &claimed.invariants, &known(), PROVING_STEPS).remove(0).1 {
            Proof::Proved => {
                counts[2] += 1;
                assert!(!is_broken, "{shown}");
            }
            Proof::Refuted(_) => counts[3] += 1,
            Proof::Unproved => panic!("not proved: {shown}"),
        }
    }
    assert!(counts.iter().all(|count| *count >= 10), "{counts:?}");
}
