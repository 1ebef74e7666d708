//! Acts that take two people in production: lifting a freeze, and showing that a call was executed.
//!
//! The first person's word is a record of its own, which names exactly one act: a certain freeze, or an attempt and the
//! record that shows it. Where the freeze changes, or another record is shown, it counts for nothing. It lasts for a day.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::audit::{Entry, EntryKind};
use crate::base::digest::Fingerprint;
use crate::base::ids::Environment;
use crate::base::json;
use crate::ledger::{Commit, Content, Keep, Kind, NodeId, Number, Record, RecordKey, Step};
use crate::stations::claim::{Freeze, Owner};

/// The format of its record. No other is read.
const FORMAT: u64 = 1;
const HOLDS_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// The stored form of the first person's word.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstWordRecord {
    by: Owner,
    shown: Option<String>,
}

/// An act that waits for a second person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JointAct {
    key: RecordKey,
    /// The digest of the record that was shown.
    shown: Option<Fingerprint>,
    entry: Entry,
}

/// What a person's word does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JointStep {
    /// A second person must confirm it.
    First(Commit),
    /// This is the second person: the act is done, with these steps besides.
    Second { first: Owner, steps: Vec<Step> },
    /// The same person said so before.
    SaidAlready,
}

impl JointAct {
    /// The act of lifting a freeze that was made or changed by this commit.
    pub fn lift(environment: Environment, freeze: &Freeze, version: Number) -> JointAct {
        let name = format!("unfreeze/{}/{}", version.as_u64(), freeze.name());
        let entry = Entry::of(EntryKind::SaidUnfrozen).with("freeze", freeze.name());
        JointAct { key: RecordKey { environment, kind: Kind::Agreement, name }, shown: None, entry }
    }

    /// The act of showing upstream's record of an attempt. `entry` names the call.
    pub fn show(claim: &RecordKey, attempt: Number, shown: &[u8], entry: Entry) -> JointAct {
        let key = JointAct::shown_key(claim, attempt);
        JointAct { key, shown: Some(Fingerprint::of(&[shown])), entry }
    }

    /// Returns the key of the first word on an attempt.
    pub fn shown_key(claim: &RecordKey, attempt: Number) -> RecordKey {
        let name = format!("executed/{}/{}", attempt.as_u64(), claim.name);
        RecordKey { environment: claim.environment, kind: Kind::Agreement, name }
    }

    pub fn key(&self) -> &RecordKey {
        &self.key
    }

    /// Adds a person's word to the one before, if there is one. `guards` are of the first word's own commit.
    pub fn say(
        self,
        before: Option<&Record>,
        (person, reason): (&Owner, &str),
        guards: Vec<Step>,
        node: &NodeId,
    ) -> JointStep {
        let shown = self.shown.map(Fingerprint::to_hex);
        let first = before.and_then(first_word).filter(|first| first.shown == shown);
        let (key, mut steps) = (self.key, guards);
        match (first, before) {
            (Some(first), _) if first.by.is_same_person(person) => JointStep::SaidAlready,
            (Some(first), Some(record)) => {
                let steps = vec![Step::Delete { key, version: record.version }];
                JointStep::Second { first: first.by, steps }
            }
            (_, before) => {
                let value = json::to_record(&FirstWordRecord { by: person.clone(), shown }, FORMAT).into();
                let keep = Keep::For { whole: HOLDS_FOR, spent: Duration::ZERO };
                let environment = key.environment;
                steps.push(match before {
                    None => Step::Create { key, value, keep },
                    Some(record) => Step::Replace { key, version: record.version, value, keep },
                });
                let entry = self.entry.with("saidBy", vec![person.to_string()]).with("reason", reason);
                JointStep::First(Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() })
            }
        }
    }
}

/// Returns the person who said the first word, if it counts.
pub fn first_person(record: &Record) -> Option<Owner> {
    first_word(record).map(|first| first.by)
}

/// An unreadable or expired word counts for nobody.
fn first_word(record: &Record) -> Option<FirstWordRecord> {
    let Content::Whole(bytes) = &record.content else { return None };
    json::from_record(bytes, FORMAT).ok()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::ledger::StoreTime;

    fn person(subject: &str) -> Owner {
        Owner::named("people", subject)
    }

    fn stored(commit: &Commit) -> Record {
        let value = commit.steps.iter().find_map(|step| match step {
            Step::Create { value, .. } | Step::Replace { value, .. } => Some(value.clone()),
            _ => None,
        });
        Record { version: Number::new(9), at: StoreTime::of_micros(1), content: Content::Whole(value.unwrap()) }
    }

    fn say(act: JointAct, before: Option<&Record>, who: &str) -> JointStep {
        act.say(before, (&person(who), "seen it"), Vec::new(), &NodeId::parse("gate").unwrap())
    }

    #[test]
    fn a_freeze_is_lifted_by_two_people_and_only_as_the_first_saw_it() {
        let lift = |version| JointAct::lift(Environment::Production, &Freeze::All, Number::new(version));
        let JointStep::First(first) = say(lift(7), None, "ops-1") else { panic!("nobody spoke before") };
        let record = stored(&first);
        for same in ["OPS-1", "\u{ff4f}ps-1"] {
            assert_eq!(say(lift(7), Some(&record), same), JointStep::SaidAlready, "{same}");
        }
        let JointStep::Second { first, steps } = say(lift(7), Some(&record), "ops-2") else {
            panic!("it is the second")
        };
        assert_eq!((first, steps.len()), (person("ops-1"), 1));
        // A freeze that was changed has another name.
        assert_ne!(lift(7).key(), lift(8).key());
        let spent = Record { content: Content::Spent, ..record.clone() };
        assert!(matches!(say(lift(7), Some(&spent), "ops-2"), JointStep::First(_)));
        let odd = Record { content: Content::Whole(Bytes::from_static(b"{}")), ..record };
        assert!(matches!(say(lift(7), Some(&odd), "ops-2"), JointStep::First(_)));
    }

    #[test]
    fn two_people_show_the_same_record() {
        let claim = RecordKey { environment: Environment::Production, kind: Kind::Claim, name: "request/r".to_owned() };
        let show = |shown: &[u8]| JointAct::show(&claim, Number::new(3), shown, Entry::of(EntryKind::SaidExecuted));
        let JointStep::First(first) = say(show(b"{\"id\":1}"), None, "ops-1") else { panic!("nobody spoke before") };
        let record = stored(&first);
        assert!(matches!(say(show(b"{\"id\":1}"), Some(&record), "ops-2"), JointStep::Second { .. }));
        // Another record is another first word, also of the same person.
        for who in ["ops-1", "ops-2"] {
            let JointStep::First(other) = say(show(b"{\"id\":2}"), Some(&record), who) else {
                panic!("another record")
            };
            assert!(other.steps.iter().any(|step| matches!(step, Step::Replace { .. })));
        }
        assert_eq!(first_person(&record), Some(person("ops-1")));
    }
}
