//! Variants of conditions and approvals with one change.

use std::collections::BTreeSet;
use std::time::Duration;

use super::find::usd;
use crate::policy::condition::{Condition, SoughtValue, Ways};
use crate::policy::dates::dates_in_words;
use crate::policy::interval::Interval;
use crate::policy::words::Need;

/// How many members of a long list are left out in turn.
const MAX_MEMBERS: usize = 8;

/// Returns all conditions with one of them changed or left out; each with the change in words.
pub(super) fn conditions(all: &[Condition]) -> Vec<(String, Vec<Condition>)> {
    let mut variants = Vec::new();
    // Nobody wrote the condition on fees: it comes with that on the destination.
    let written = all.iter().enumerate().filter(|(_, condition)| !matches!(condition, Condition::FeesOnlyTo(_)));
    for (at, condition) in written {
        let mut with = |what: String, changed: Option<Condition>| {
            let mut conditions = all.to_vec();
            match (conditions.get_mut(at), changed) {
                (Some(there), Some(changed)) => *there = changed,
                _ => drop(conditions.remove(at)),
            }
            variants.push((what, conditions));
        };
        with(format!("without the condition that {condition}"), None);
        for (what, changed) in changed(condition) {
            with(what, Some(changed));
        }
    }
    variants
}

fn changed(condition: &Condition) -> Vec<(String, Condition)> {
    match condition {
        Condition::Names(field, set) => {
            let less = less(set).into_iter();
            less.map(|(name, set)| (format!("without `{name}`"), Condition::Names(*field, set))).collect()
        }
        Condition::NotNames(field, set) => {
            let less = less(set).into_iter();
            less.map(|(name, set)| (format!("with `{name}`"), Condition::NotNames(*field, set))).collect()
        }
        Condition::Destination(ways) | Condition::NotDestination(ways) => {
            let mut all = Vec::new();
            for (name, user) in less(&ways.user) {
                all.push((name, Ways { user, ..ways.clone() }));
            }
            for (name, wallet) in less(&ways.wallet) {
                all.push((name, Ways { wallet, ..ways.clone() }));
            }
            for (name, external_wallet) in less(&ways.external_wallet) {
                all.push((name, Ways { external_wallet, ..ways.clone() }));
            }
            let (word, changed): (_, fn(Ways) -> Condition) = match condition {
                Condition::NotDestination(_) => ("with", Condition::NotDestination),
                _ => ("without", Condition::Destination),
            };
            all.into_iter().map(|(name, ways)| (format!("{word} `{name}`"), changed(ways))).collect()
        }
        Condition::FeesOnlyTo(_) => Vec::new(),
        Condition::NewDestination { new, cooldown } => {
            let what = if *new { "known" } else { "new" };
            let opposite = Condition::NewDestination { new: !new, cooldown: *cooldown };
            let without = Condition::NewDestination { new: *new, cooldown: Duration::ZERO };
            let mut all = vec![(format!("destinations that are {what}"), opposite)];
            all.extend((!cooldown.is_zero()).then(|| ("without the cool-down".to_owned(), without)));
            all
        }
        Condition::Amount { within, without } => {
            let text = |within: Interval| format!("amounts of {} to {}", usd(within.least), usd(within.most));
            // No payment is worth nothing: an interval that begins there has no other begin.
            let moved = moved(*within, 1).into_iter();
            moved.map(|within| (text(within), Condition::Amount { within, without: *without })).collect()
        }
        Condition::Price(within) => {
            let moved = moved(*within, 0).into_iter();
            moved.map(|within| (format!("prices of {within} hundred-millionths"), Condition::Price(within))).collect()
        }
        Condition::Hour(within, zone) => {
            let over_midnight = within.least > within.most;
            let moved = match over_midnight {
                true => moved_around(*within),
                false => moved(*within, 0).into_iter().filter(|within| within.least < 24).collect(),
            };
            let changed = |within: Interval| (format!("hours {within}"), Condition::Hour(within, zone.clone()));
            moved.into_iter().map(changed).collect()
        }
        Condition::Date(ranges, zone) => {
            let with = |at: usize, changed: Interval| {
                let ranges = ranges.iter().enumerate();
                let ranges: Vec<_> = ranges.map(|(other, range)| if other == at { changed } else { *range }).collect();
                (format!("dates of {}", dates_in_words(&ranges)), Condition::Date(ranges, zone.clone()))
            };
            let each = ranges.iter().take(MAX_MEMBERS).enumerate();
            each.flat_map(|(at, range)| moved(*range, 0).into_iter().map(move |range| (at, range)))
                .map(|(at, range)| with(at, range))
                .collect()
        }
        Condition::During(range, zone, inner) => {
            let with = |range: Interval| Condition::During(range, zone.clone(), inner.clone());
            let text = |range: Interval| format!("{}: {inner}", dates_in_words(&[range]));
            moved(*range, 0).into_iter().map(|range| (text(range), with(range))).collect()
        }
        Condition::Weekday(days, zone) => {
            let less = |left: &jiff::civil::Weekday| {
                let days: Vec<_> = days.iter().copied().filter(|day| day != left).collect();
                (format!("without {left:?}"), Condition::Weekday(days, zone.clone()))
            };
            if days.len() > 1 { days.iter().map(less).collect() } else { Vec::new() }
        }
        Condition::Body(pointer, sought) => {
            let changed: Vec<(String, SoughtValue)> = match sought {
                SoughtValue::Present => vec![(format!("`{pointer}` is not stated"), SoughtValue::Absent)],
                SoughtValue::Absent => vec![(format!("`{pointer}` is stated"), SoughtValue::Present)],
                SoughtValue::NotAmong(set) => {
                    let less = less(set).into_iter();
                    less.map(|(left, set)| (format!("`{pointer}` with {left:?}"), SoughtValue::NotAmong(set))).collect()
                }
                SoughtValue::Among(set) => {
                    let less = less(set).into_iter();
                    less.map(|(left, set)| (format!("`{pointer}` without {left:?}"), SoughtValue::Among(set))).collect()
                }
            };
            changed.into_iter().map(|(what, sought)| (what, Condition::Body(pointer.clone(), sought))).collect()
        }
    }
}

/// Returns the sets without one of their members; none is empty.
fn less<T: Ord + Clone>(set: &BTreeSet<T>) -> Vec<(T, BTreeSet<T>)> {
    if set.len() < 2 {
        return Vec::new();
    }
    let without = |left: &T| (left.clone(), set.iter().filter(|member| *member != left).cloned().collect());
    set.iter().take(MAX_MEMBERS).map(without).collect()
}

/// Returns the interval with each end moved by the smallest unit; an end at the minimum does not move.
fn moved(within: Interval, least_of_all: u128) -> Vec<Interval> {
    let Interval { least, most } = within;
    let mut all = Vec::new();
    if least > least_of_all {
        all.extend(least.checked_sub(1).map(|least| Interval { least, most }));
        all.extend(least.checked_add(1).map(|least| Interval { least, most }));
    }
    if most != u128::MAX {
        all.extend(most.checked_sub(1).map(|most| Interval { least, most }));
        all.extend(most.checked_add(1).map(|most| Interval { least, most }));
    }
    all.retain(|within| within.least <= within.most);
    all
}

/// Returns hours over midnight with each end moved by an hour.
fn moved_around(within: Interval) -> Vec<Interval> {
    let Interval { least, most } = within;
    let moved = [
        Interval { least: least.saturating_sub(1), most },
        Interval { least: least.saturating_add(1) % 24, most },
        Interval { least, most: most.saturating_add(23) % 24 },
        Interval { least, most: most.saturating_add(1) },
    ];
    moved.into_iter().collect()
}

/// Returns a need with one person less somewhere.
pub(super) fn needs(need: &Need) -> Vec<(String, Need)> {
    let each = |all: &[Need], whole: fn(Vec<Need>) -> Need| {
        let mut variants = Vec::new();
        for (at, one) in all.iter().enumerate() {
            for (what, changed) in needs(one) {
                let mut all = all.to_vec();
                if let Some(there) = all.get_mut(at) {
                    *there = changed;
                }
                variants.push((what, whole(all)));
            }
            if let (Need::People { group, count: 1 }, true) = (one, all.len() > 1) {
                let left = all.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, need)| need.clone());
                variants.push((format!("without the one of `{group}`"), whole(left.collect())));
            }
        }
        variants
    };
    match need {
        Need::People { group, count } if *count > 1 => {
            let fewer = count.saturating_sub(1);
            vec![(
                format!("{fewer} of `{group}` instead of {count}"),
                Need::People { group: group.clone(), count: fewer },
            )]
        }
        Need::People { .. } => Vec::new(),
        Need::All(all) => each(all, Need::All),
        Need::Any(all) => each(all, Need::Any),
    }
}
