//! Acquaintance with destinations: whether one was paid before, and since when it is known.
//!
//! A rule with a `cooldown` takes a destination as new until that long after its first payment, or until people approve
//! it: a payment that waits for such a rule, with the approvals of all such rules. Each combination of a destination
//! and a cool-down is a fact of its own, with a name of its own.

use std::collections::BTreeMap;
use std::time::Duration;

/// How long a destination is known; `None` if it was never paid. Without a cool-down, paid is known.
pub type Acquaintance = Option<Duration>;

/// Returns the name of the fact: the destination is known for at least this long, or was paid if the time is zero.
pub fn fact_name(destination: &str, cooldown: Duration) -> String {
    if cooldown.is_zero() { destination.to_owned() } else { format!("{destination}@{}", cooldown.as_secs()) }
}

/// Splits the name of a fact into its destination and its cool-down.
pub fn fact_parts(name: &str) -> (&str, Duration) {
    let parts = name.rsplit_once('@').and_then(|(destination, secs)| Some((destination, secs.parse().ok()?)));
    parts.map_or((name, Duration::ZERO), |(destination, secs)| (destination, Duration::from_secs(secs)))
}

/// Returns whether a destination is known for at least this long, from that fact or from one that implies it.
pub(super) fn is_known(paid: &BTreeMap<String, bool>, destination: &str, cooldown: Duration) -> Option<bool> {
    if let Some(known) = paid.get(&fact_name(destination, cooldown)) {
        return Some(*known);
    }
    let facts = paid.iter().map(|(name, known)| (fact_parts(name), *known));
    let of_it = facts.filter(|((other, _), _)| *other == destination);
    let implied = of_it.map(|((_, other), known)| (known && other >= cooldown, !known && other <= cooldown));
    implied.into_iter().find_map(|(yes, no)| (yes || no).then_some(yes))
}

/// Formats a duration in the largest unit that expresses it exactly.
pub(super) fn span(length: Duration) -> String {
    let secs = length.as_secs();
    for (each, unit) in [(86_400, "d"), (3_600, "h"), (60, "min")] {
        if secs >= each && secs.is_multiple_of(each) {
            return format!("{} {unit}", secs / each);
        }
    }
    format!("{secs} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn a_fact_implies_those_of_other_cooldowns() {
        let paid = |facts: &[(Duration, bool)]| -> BTreeMap<String, bool> {
            facts.iter().map(|(cooldown, known)| (fact_name("user:a", *cooldown), *known)).collect()
        };
        let known_for_a_day = paid(&[(DAY, true)]);
        assert_eq!(is_known(&known_for_a_day, "user:a", Duration::ZERO), Some(true));
        assert_eq!(is_known(&known_for_a_day, "user:a", DAY * 2), None);
        let not_for_a_day = paid(&[(DAY, false)]);
        assert_eq!(is_known(&not_for_a_day, "user:a", DAY * 2), Some(false));
        assert_eq!(is_known(&not_for_a_day, "user:a", Duration::ZERO), None);
        assert_eq!(is_known(&not_for_a_day, "user:b", DAY), None);
        let never = paid(&[(Duration::ZERO, false)]);
        assert_eq!(is_known(&never, "user:a", DAY), Some(false));
        assert_eq!(fact_parts("user:a@86400"), ("user:a", DAY));
        assert_eq!(fact_parts("user:a"), ("user:a", Duration::ZERO));
    }
}
