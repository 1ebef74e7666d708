//! The steps of a commit in its entry, with which a journal can make the commit again.
//!
//! A step names its value by digest, and the sealed values stand beside the steps, once each. With a key the steps are
//! sealed as a whole, bound to the rest of the entry: nobody without the key can read or make them, or put another value
//! in the place of one of theirs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::sealed::Seals;
use super::sealed_place::SealedPlace;
use crate::audit::{SplitEntry, UnusedNumbers, split_steps, with_steps};
use crate::base::digest::Fingerprint;
use crate::base::ids::Environment;
use crate::base::json::{self, Limits};
use crate::ledger::{Commit, Outstanding, Step, StoreFault, StoreTime, TimeBounds};

/// The kind under which the steps of a commit are sealed; no record has it.
const STEPS: &str = "steps";

/// The steps that a journal kept of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalledSteps {
    pub steps: Vec<Step>,
    pub is_sealed: bool,
    /// The numbers before the commit that its entry explains.
    pub unused: Option<UnusedNumbers>,
    /// The times between which the committing gate had the commit made.
    pub within: Option<TimeBounds>,
}

impl JournalledSteps {
    /// Whether the commit can have been made at this time, which its entry states outside of what is sealed.
    pub fn are_made_at(&self, at: StoreTime) -> bool {
        self.within.is_none_or(|within| within.contain(at))
    }
}

/// Steps that were made within times.
#[derive(Serialize)]
struct StepsWithin<'s> {
    within: TimeBounds,
    steps: &'s [&'s Step],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadStepsWithin {
    within: TimeBounds,
    steps: Vec<Step>,
}

impl Seals {
    /// Seals the values of a commit, and puts its steps and these values into its entry.
    pub fn sealed_commit(&self, commit: Commit) -> Result<Commit, StoreFault> {
        self.sealed_commit_within(commit, None)
    }

    /// Does so, and seals the times with the steps between which the commit is made.
    pub fn sealed_commit_within(&self, mut commit: Commit, within: Option<TimeBounds>) -> Result<Commit, StoreFault> {
        for step in &mut commit.steps {
            if let Step::Create { key, value, .. } | Step::Replace { key, value, .. } = step {
                *value = self.seal(key, value)?;
            }
        }
        commit.entry = self.journalled(&commit, within)?;
        Ok(commit)
    }

    /// Returns the entry of a commit with the steps that a journal keeps. The values in them are sealed already.
    fn journalled(&self, commit: &Commit, within: Option<TimeBounds>) -> Result<Bytes, StoreFault> {
        let kept: Vec<&Step> = commit.steps.iter().filter(|step| step.is_journalled()).collect();
        let values: Vec<&Bytes> = kept.iter().filter_map(|step| step.value()).collect();
        let unfit = || StoreFault::Broken("an entry is not a JSON object".to_owned());
        let mut steps = match within {
            None => json::to_form(&kept),
            Some(within) => json::to_form(&StepsWithin { within, steps: &kept }),
        };
        if self.is_sealing() {
            let entry = split_steps(&commit.entry).map_err(|_| unfit())?.bare;
            let sealed = self.seal_at(&of_steps(commit.environment, &digest_of(&entry)), &steps.into_bytes().into())?;
            steps = String::with_capacity(sealed.len().saturating_mul(4).div_ceil(3).saturating_add(2));
            steps.push('"');
            STANDARD_NO_PAD.encode_string(sealed, &mut steps);
            steps.push('"');
        }
        with_steps(&commit.entry, &steps, &values).ok().flatten().ok_or_else(unfit)
    }

    /// Returns the steps that a journal kept of a commit, their values still sealed; `None` where an entry has none.
    pub fn steps(&self, entry: &Outstanding) -> Result<Option<JournalledSteps>, StoreFault> {
        let Outstanding { environment, number, .. } = entry;
        let broken = |why: &str| {
            StoreFault::Broken(format!("the steps of entry {number} of {environment} are not readable: {why}"))
        };
        let split = split_steps(&entry.entry).map_err(|error| broken(&error.reason.to_string()))?;
        let values = split.values().ok_or_else(|| broken("their values are not an array of base64"))?;
        let SplitEntry { bare, steps, unused, .. } = split;
        let Some(steps) = steps else { return Ok(None) };
        let is_sealed = steps.starts_with('"');
        let opened = if is_sealed {
            // Base64 has no escapes.
            let sealed = STANDARD_NO_PAD.decode(steps.trim_matches('"'));
            let sealed = sealed.map_err(|_| broken("they are not base64"))?;
            Some(self.open_at(&of_steps(*environment, &digest_of(&bare)), sealed.into())?)
        } else {
            None
        };
        let text = opened.as_deref().unwrap_or(steps.as_bytes());
        let read = if text.starts_with(b"{") {
            json::from_slice(text, Limits::ANSWER).map(|ReadStepsWithin { within, steps }| (Some(within), steps))
        } else {
            json::from_slice(text, Limits::ANSWER).map(|steps| (None, steps))
        };
        let (within, mut steps): (_, Vec<Step>) = read.map_err(|error| broken(&error.to_string()))?;
        let mut values = values.into_iter();
        for named in steps.iter_mut().filter_map(Step::value_mut) {
            let value = values.next().ok_or_else(|| broken("a value is missing"))?;
            if *named != Step::digest_of_value(&value) {
                return Err(broken("a value beside them is not the one that they name"));
            }
            *named = value;
        }
        match values.next() {
            None => Ok(Some(JournalledSteps { steps, is_sealed, unused, within })),
            Some(_) => Err(broken("there is a value that they do not name")),
        }
    }
}

fn digest_of(bare: &[u8]) -> String {
    Fingerprint::of(&[bare]).to_hex()
}

fn of_steps(environment: Environment, digest: &str) -> SealedPlace<'_> {
    SealedPlace { environment, kind: STEPS, name: digest }
}

#[cfg(test)]
mod tests {
    use super::super::sealed::SealingKey;
    use super::*;
    use crate::base::secret::Secret;
    use crate::ledger::{Keep, Kind, NodeId, Number, RecordKey, StoreTime};

    fn key() -> RecordKey {
        RecordKey { environment: Environment::Production, kind: Kind::Claim, name: "request/r-1".to_owned() }
    }

    fn entry(seals: &Seals, value: &'static [u8]) -> Bytes {
        let node = NodeId::parse("gate").unwrap();
        let steps = vec![Step::Create { key: key(), value: value.into(), keep: Keep::Forever }];
        let commit =
            Commit { environment: Environment::Production, node, steps, entry: r#"{"what":"sending"}"#.into() };
        seals.sealed_commit(commit).unwrap().entry
    }

    fn read(seals: &Seals, entry: Bytes) -> Result<Option<JournalledSteps>, StoreFault> {
        let (node, at) = (NodeId::parse("gate").unwrap(), StoreTime::default());
        seals.steps(&Outstanding { environment: Environment::Production, number: Number::new(1), at, node, entry })
    }

    /// Each of the other values was sealed for this very record.
    #[test]
    fn values_that_the_steps_do_not_name_are_refused() {
        let key_of_test = || SealingKey::new("1", &Secret::new("42".repeat(32))).unwrap();
        for seals in [Seals::default(), Seals::new(vec![key_of_test()])] {
            let (own, other) = (entry(&seals, b"{\"a\":1}"), entry(&seals, b"{\"a\":2}"));
            let [step] = read(&seals, own.clone()).unwrap().unwrap().steps.try_into().unwrap();
            assert_eq!(seals.open(&key(), step.value().unwrap().clone()).unwrap(), &b"{\"a\":1}"[..]);
            let split = split_steps(&own).unwrap();
            let (steps, value) = (split.steps.as_deref().unwrap(), split.values().unwrap().remove(0));
            let another = split_steps(&other).unwrap().values().unwrap().remove(0);
            for values in [&[][..], &[&another], &[&value, &another]] {
                let changed = with_steps(&split.bare, steps, values).unwrap().unwrap();
                assert!(read(&seals, changed).is_err(), "{values:?}");
            }
        }
    }
}
