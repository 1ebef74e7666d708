//! Acts that take two people in production: lifting a freeze, and showing that a call was executed.
//!
//! The first person's word is a record of its own, which names exactly one act: a certain freeze, or an attempt and the
//! record that shows it. Where the freeze changes, or another record is shown, it counts for nothing, nor does a word
//! that is not signed where the set in force wants it signed. It lasts for a day.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::signed_act::{ActTerms, PersonAct, SignedAct, SignedWord};
use crate::audit::{Entry, EntryKind};
use crate::base::digest::Fingerprint;
use crate::base::ids::Environment;
use crate::base::json;
use crate::ledger::{Commit, Content, Keep, Kind, NodeId, Number, Record, RecordKey, Step};
use crate::policy::SignableAct;
use crate::stations::claim::{Freeze, Owner, WORD_LASTS};

/// The format of its record. No other is read.
const FORMAT: u64 = 2;

/// The stored form of the first person's word.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstWordRecord {
    by: Owner,
    shown: Option<Fingerprint>,
    signed: Option<SignedWord>,
}

/// What a person says, with the signature if there is one.
#[derive(Clone, Debug)]
pub struct PersonWord<'w> {
    pub person: &'w Owner,
    pub reason: &'w str,
    pub signed: Option<SignedWord>,
}

/// An act that waits for a second person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JointAct {
    key: RecordKey,
    pub act: PersonAct,
    entry: Entry,
    /// A person whose word counts for nothing.
    barred: Option<Owner>,
}

/// What a person's word does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JointStep {
    /// A second person must confirm it.
    First(Commit),
    /// This is the second person: the act is done, with these steps besides.
    Second { first: Owner, signed: Option<SignedAct>, steps: Vec<Step> },
    /// The same person said so before.
    SaidAlready,
}

impl JointAct {
    /// The act of lifting a freeze that was made or changed by this commit.
    pub fn lift(environment: Environment, freeze: &Freeze, version: Number) -> JointAct {
        let name = format!("unfreeze/{}/{}", version.as_u64(), freeze.name());
        let entry = Entry::of(EntryKind::SaidUnfrozen).with("freeze", freeze.name());
        let act = PersonAct::Unfreezing { freeze: freeze.name(), version };
        JointAct { key: RecordKey { environment, kind: Kind::Agreement, name }, act, entry, barred: None }
    }

    /// The act of showing upstream's record of an attempt. `entry` names the call.
    pub fn show(claim: &RecordKey, attempt: Number, shown: &[u8], entry: Entry) -> JointAct {
        let key = attempt_key(SignableAct::Executed, claim, attempt);
        let act = PersonAct::Executed { claim: claim.name.clone(), attempt, record: Fingerprint::of(&[shown]) };
        JointAct { key, act, entry, barred: None }
    }

    pub fn key(&self) -> &RecordKey {
        &self.key
    }

    /// The act, where a word of this person counts for nothing.
    #[must_use]
    pub fn not_counting(self, person: Option<Owner>) -> JointAct {
        JointAct { barred: person, ..self }
    }

    /// Adds a person's word to the one before, if there is one that counts. `guards` are of the first word's own commit.
    pub fn say(
        self,
        before: Option<&Record>,
        word: PersonWord<'_>,
        terms: ActTerms<'_>,
        guards: Vec<Step>,
        node: &NodeId,
    ) -> JointStep {
        let shown = self.shown();
        let first = before.and_then(first_word).filter(|first| first.shown == shown);
        let first = first.filter(|first| self.barred.as_ref() != Some(&first.by));
        let first = first.filter(|first| terms.counts(&first.by, first.signed.as_ref()));
        let (key, mut steps, environment) = (self.key, guards, terms.environment);
        let PersonWord { person, reason, signed } = word;
        match (first, before) {
            (Some(first), _) if first.by.is_same_person(person) => JointStep::SaidAlready,
            (Some(first), Some(record)) => {
                let steps = vec![Step::Delete { key, version: record.version }];
                let signed = SignedAct::of(environment, terms.act, [first.signed, signed]);
                JointStep::Second { first: first.by, signed, steps }
            }
            (_, before) => {
                let mut entry = self.entry.with("saidBy", vec![person.to_string()]).with("reason", reason);
                if let Some(signed) = SignedAct::of(environment, terms.act, [signed.clone()]) {
                    entry = entry.with("signed", signed);
                }
                steps.push(keep(key, before, &FirstWordRecord { by: person.clone(), shown, signed }));
                JointStep::First(Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() })
            }
        }
    }

    /// Returns the digest of the record that was shown.
    fn shown(&self) -> Option<Fingerprint> {
        match &self.act {
            PersonAct::Executed { record, .. } => Some(*record),
            _ => None,
        }
    }
}

/// Returns the key of the first word on an attempt.
pub fn attempt_key(kind: SignableAct, claim: &RecordKey, attempt: Number) -> RecordKey {
    let name = format!("{kind}/{}/{}", attempt.as_u64(), claim.name);
    RecordKey { environment: claim.environment, kind: Kind::Agreement, name }
}

/// The signature of the first of two people whose word is part of the claim.
#[derive(Debug)]
pub struct FirstSignature {
    key: RecordKey,
    before: Option<(Number, Owner, SignedWord)>,
}

impl FirstSignature {
    /// Reads its record. A signature that does not count is none.
    pub fn read(key: RecordKey, record: Option<&Record>, terms: ActTerms<'_>) -> FirstSignature {
        let before = record.and_then(|record| {
            let FirstWordRecord { by, signed, .. } = first_word(record)?;
            let signed = signed.filter(|signed| signed.person == by && terms.verify(signed).is_ok())?;
            Some((record.version, by, signed))
        });
        FirstSignature { key, before }
    }

    /// Whether it is this person's.
    pub fn is_of(&self, person: &Owner) -> bool {
        self.before.as_ref().is_some_and(|(_, by, _)| by == person)
    }

    /// Keeps the signature of the first person in place of what its record had; or, once the second has said so, takes the
    /// record away. Returns the signatures that the entry has.
    pub fn with(
        self,
        record: Option<&Record>,
        (person, signed): (&Owner, Option<SignedWord>),
        is_second: bool,
    ) -> (Vec<SignedWord>, Option<Step>) {
        match (is_second, self.before, signed) {
            (true, Some((version, _, first)), signed) => {
                let step = Step::Delete { key: self.key, version };
                (std::iter::once(first).chain(signed).collect(), Some(step))
            }
            (false, _, Some(signed)) => {
                let first = FirstWordRecord { by: person.clone(), shown: None, signed: Some(signed.clone()) };
                (vec![signed], Some(keep(self.key, record, &first)))
            }
            (_, _, signed) => (signed.into_iter().collect(), None),
        }
    }
}

fn keep(key: RecordKey, before: Option<&Record>, first: &FirstWordRecord) -> Step {
    let value = json::to_record(first, FORMAT).into();
    let keep = Keep::For { whole: WORD_LASTS, spent: Duration::ZERO };
    match before {
        None => Step::Create { key, value, keep },
        Some(record) => Step::Replace { key, version: record.version, value, keep },
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
    use crate::base::webauthn::tests::soft_key::SoftKey;
    use crate::ledger::StoreTime;
    use crate::people::signed_act::tests::{signing, word};

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
        let (said, who) = (act.act.clone(), person(who));
        let terms = ActTerms { environment: Environment::Production, act: &said, signing: None };
        let word = PersonWord { person: &who, reason: "seen it", signed: None };
        act.say(before, word, terms, Vec::new(), &NodeId::parse("gate").unwrap())
    }

    #[test]
    fn a_freeze_is_lifted_by_two_people_and_only_as_the_first_saw_it() {
        let lift = |version| JointAct::lift(Environment::Production, &Freeze::All, Number::new(version));
        let JointStep::First(first) = say(lift(7), None, "ops-1") else { panic!("nobody spoke before") };
        let record = stored(&first);
        for same in ["OPS-1", "\u{ff4f}ps-1"] {
            assert_eq!(say(lift(7), Some(&record), same), JointStep::SaidAlready, "{same}");
        }
        let JointStep::Second { first, steps, .. } = say(lift(7), Some(&record), "ops-2") else {
            panic!("it is the second")
        };
        assert_eq!((first, steps.len()), (person("ops-1"), 1));
        // A freeze that was changed has another name.
        assert_ne!(lift(7).key(), lift(8).key());
        let spent = Record { content: Content::Spent, ..record.clone() };
        assert!(matches!(say(lift(7), Some(&spent), "ops-2"), JointStep::First(_)));
        // Whose freeze it is has no word.
        let barring = lift(7).not_counting(Some(person("ops-1")));
        assert!(matches!(say(barring, Some(&record), "ops-2"), JointStep::First(_)));
        let odd = Record { content: Content::Whole(Bytes::from_static(b"{}")), ..record };
        assert!(matches!(say(lift(7), Some(&odd), "ops-2"), JointStep::First(_)));
    }

    #[test]
    fn a_first_word_without_a_signature_counts_no_more_where_the_set_wants_one() {
        let key = SoftKey::eddsa();
        let signing = signing(&[("ops-1", &key)]);
        let lift = || JointAct::lift(Environment::Production, &Freeze::All, Number::new(7));
        let JointStep::First(unsigned) = say(lift(), None, "ops-1") else { panic!("nobody spoke before") };
        let (act, second) = (lift().act, person("ops-2"));
        let terms = ActTerms { environment: Environment::Production, act: &act, signing: Some(&signing) };
        let say = |before: &Record| {
            let word = PersonWord { person: &second, reason: "seen it", signed: None };
            lift().say(Some(before), word, terms, Vec::new(), &NodeId::parse("gate").unwrap())
        };
        assert!(matches!(say(&stored(&unsigned)), JointStep::First(_)));
        let signed = Some(word("ops-1", &key, &act, "n", &signing));
        let said = PersonWord { person: &person("ops-1"), reason: "seen it", signed };
        let node = NodeId::parse("gate").unwrap();
        let JointStep::First(first) = lift().say(None, said, terms, Vec::new(), &node) else {
            panic!("it is the first")
        };
        assert!(matches!(say(&stored(&first)), JointStep::Second { signed: Some(_), .. }));
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
