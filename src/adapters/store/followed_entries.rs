//! The newest entries that a replica followed, by their digests.
//!
//! Whoever writes the outbox can put one sealed entry in the place of another, or show it twice. Steps that were made before,
//! under another number, are known by that. What gates followed between two numbers must be the same: each states a digest
//! of it with its heartbeat, which nobody without a key can make.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::audit::{steps_in, unused_before};
use crate::base::digest::Fingerprint;
use crate::base::ids::Environment;
use crate::ledger::{Number, Outstanding, StoreTime};

/// How many entries of an environment are remembered.
const MAX_REMEMBERED: usize = 65_536;
/// How many marks a statement reaches back, and how far they are apart: some missed heartbeats do no harm.
const MARKS: usize = 16;
const MARK_EVERY: Duration = Duration::from_secs(1);

/// A gate's statement of what its journal has between two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FollowedDigest {
    /// The first entry is behind this number.
    pub behind: Number,
    pub up_to: Number,
    pub digest: Fingerprint,
}

/// Digests of the newest entries of each environment.
#[derive(Debug, Default)]
pub(super) struct FollowedEntries(Mutex<BTreeMap<Environment, NewestEntries>>);

#[derive(Debug, Default)]
struct NewestEntries {
    /// The number behind which all entries are known here, one after the other.
    behind: u64,
    entries: VecDeque<Fingerprint>,
    /// The numbers of sealed steps, also of entries that are known no longer one after the other.
    steps: HashMap<Fingerprint, u64>,
    in_order: VecDeque<Fingerprint>,
    /// The lowest numbers that gates had, and when that was.
    marks: VecDeque<(Duration, Number)>,
    /// The loss of the store behind which they begin.
    loss: Option<StoreTime>,
}

impl NewestEntries {
    fn last(&self) -> u64 {
        self.behind.saturating_add(self.entries.len() as u64)
    }

    /// Adds an entry that comes next. Behind a gap, and behind a rebuild of the store, they begin anew.
    fn add(&mut self, entry: &Outstanding, steps: Option<Fingerprint>) {
        let number = entry.number.as_u64();
        if number <= self.last() && !self.entries.is_empty() {
            return;
        }
        if number != self.last().saturating_add(1) || unused_before(&entry.entry).is_some() {
            self.entries.clear();
            self.behind = number.saturating_sub(1);
        }
        self.entries.push_back(Fingerprint::of(&[
            &number.to_be_bytes(),
            &entry.at.as_micros().to_be_bytes(),
            entry.node.as_str().as_bytes(),
            &entry.entry,
        ]));
        if self.entries.len() > MAX_REMEMBERED {
            self.entries.pop_front();
            self.behind = self.behind.saturating_add(1);
        }
        let Some(steps) = steps else { return };
        // The first number stays: a copy that is told again, as after a failure of the disk, is still one.
        if let Entry::Vacant(place) = self.steps.entry(steps) {
            place.insert(number);
            self.in_order.push_back(steps);
        }
        if self.in_order.len() > MAX_REMEMBERED
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.steps.remove(&oldest);
        }
    }

    /// Returns the digest of the entries between two numbers, where all of them are known.
    fn digest(&self, behind: Number, up_to: Number) -> Option<Fingerprint> {
        let skipped = behind.as_u64().checked_sub(self.behind)?;
        let count = up_to.as_u64().checked_sub(behind.as_u64())?;
        if up_to.as_u64() > self.last() {
            return None;
        }
        let (skipped, count) = (usize::try_from(skipped).ok()?, usize::try_from(count).ok()?);
        let parts: Vec<&[u8]> = self.entries.iter().skip(skipped).take(count).map(Fingerprint::as_bytes).collect();
        Some(Fingerprint::of(&parts))
    }
}

impl FollowedEntries {
    fn of(&self) -> MutexGuard<'_, BTreeMap<Environment, NewestEntries>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry that comes next; returns the number under which its sealed steps were made before, if it is another
    /// one.
    pub fn add(&self, entry: &Outstanding) -> Option<Number> {
        let steps = steps_of(entry);
        let mut all = self.of();
        let followed = all.entry(entry.environment).or_default();
        let made = steps.and_then(|steps| followed.steps.get(&steps).copied());
        followed.add(entry, steps);
        made.filter(|made| *made < entry.number.as_u64()).map(Number::new)
    }

    /// Begins with the newest entries of a journal, all of one environment.
    pub fn begin(&self, environment: Environment, entries: &[Outstanding]) {
        let mut begun = NewestEntries::default();
        entries.iter().for_each(|entry| begun.add(entry, steps_of(entry)));
        let mut all = self.of();
        let followed = all.entry(environment).or_default();
        if begun.last() >= followed.last() {
            begun.loss = followed.loss;
            *followed = begun;
        }
    }

    /// Begins anew behind a loss of the store, unless it did so before. What gates said before it is about another history.
    pub fn begin_behind(&self, environment: Environment, loss: Option<StoreTime>) {
        let mut all = self.of();
        let followed = all.entry(environment).or_default();
        if followed.loss != loss {
            (followed.behind, followed.loss) = (followed.last(), loss);
            followed.entries.clear();
        }
    }

    /// Goes on behind a number: what was before is of another history.
    pub fn pass_over(&self, environment: Environment, up_to: u64) {
        let mut all = self.of();
        let followed = all.entry(environment).or_default();
        followed.behind = up_to;
        followed.entries.clear();
    }

    /// Notes the lowest number that a gate had now.
    pub fn mark(&self, environment: Environment, now: Duration, lowest: Number) {
        let mut all = self.of();
        let marks = &mut all.entry(environment).or_default().marks;
        match marks.back_mut() {
            Some((since, number)) if now.saturating_sub(*since) < MARK_EVERY => *number = lowest.min(*number),
            _ => marks.push_back((now, lowest)),
        }
        if marks.len() > MARKS {
            marks.pop_front();
        }
    }

    /// Returns what is known since the marks.
    pub fn stated(&self, environment: Environment) -> Option<FollowedDigest> {
        let all = self.of();
        let followed = all.get(&environment)?;
        let up_to = Number::new(followed.last());
        let lowest = followed.marks.iter().map(|(_, number)| *number).min()?;
        let behind = lowest.max(Number::new(followed.behind));
        let digest = followed.digest(behind, up_to)?;
        (behind < up_to).then_some(FollowedDigest { behind, up_to, digest })
    }

    /// Whether the same entries are known here; `None` where some of them are not known.
    pub fn are(&self, environment: Environment, stated: &FollowedDigest) -> Option<bool> {
        let digest = self.of().get(&environment)?.digest(stated.behind, stated.up_to)?;
        Some(digest == stated.digest)
    }
}

/// Returns the digest of an entry's sealed steps. Nobody can make the same ones twice.
fn steps_of(entry: &Outstanding) -> Option<Fingerprint> {
    let steps = steps_in(&entry.entry).filter(|steps| steps.starts_with('"'))?;
    Some(Fingerprint::of(&[steps.as_bytes()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::NodeId;

    const PLACE: Environment = Environment::Production;

    fn entry(number: u64, text: &str) -> Outstanding {
        let node = NodeId::parse("gate").unwrap();
        let entry = format!(r#"{{"steps":"{text}","what":"sending"}}"#).into();
        Outstanding { environment: PLACE, number: Number::new(number), at: StoreTime::default(), node, entry }
    }

    fn followed(texts: &[&str]) -> FollowedEntries {
        let followed = FollowedEntries::default();
        (1_u64..).zip(texts).for_each(|(number, text)| assert_eq!(followed.add(&entry(number, text)), None));
        followed
    }

    #[test]
    fn steps_that_were_made_before_are_known_under_another_number_only() {
        let followed = followed(&["a", "b", "c"]);
        assert_eq!(followed.add(&entry(2, "b")), None, "it is told again");
        assert_eq!(followed.add(&entry(4, "b")), Some(Number::new(2)));
        assert_eq!(followed.add(&entry(4, "b")), Some(Number::new(2)), "a copy is told again");
        assert_eq!(followed.add(&entry(5, "d")), None);
    }

    #[test]
    fn what_two_gates_followed_is_compared_between_numbers_that_both_know() {
        let (one, same, other) = (followed(&["a", "b", "c"]), followed(&["a", "b", "c"]), followed(&["a", "x", "c"]));
        one.mark(PLACE, Duration::ZERO, Number::new(1));
        one.mark(PLACE, MARK_EVERY * 2, Number::new(3));
        let stated = one.stated(PLACE).unwrap();
        assert_eq!(stated.behind, Number::new(1));
        assert_eq!((same.are(PLACE, &stated), other.are(PLACE, &stated)), (Some(true), Some(false)));
        assert_eq!(followed(&["a", "b"]).are(PLACE, &stated), None, "it has not come so far");
        let later = FollowedEntries::default();
        [entry(3, "c"), entry(4, "d")].iter().for_each(|entry| assert_eq!(later.add(entry), None));
        assert_eq!(later.are(PLACE, &stated), None, "it begins later");
        (0..MARKS as u32).for_each(|nth| one.mark(PLACE, MARK_EVERY * (3 + nth), Number::new(3)));
        assert_eq!(one.stated(PLACE), None, "all gates had it long ago");
    }
}
