//! Acts that take two people in production: lifting a freeze, and showing that a call was executed.
//!
//! The words that wait for a second one are a record of their own, with the latest word of each person. Each names exactly
//! one act: a certain freeze, or an attempt and the record that shows it. Where the freeze changes, or another record is
//! shown, it does not count, nor does a word that is not signed where the set in force wants it signed. It lasts for a day,
//! and nobody but its person takes it back.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::signed_act::{ActTerms, PersonAct, SignedAct, SignedWord};
use crate::audit::{Entry, EntryKind};
use crate::base::digest::Fingerprint;
use crate::base::ids::Environment;
use crate::base::json;
use crate::ledger::{Commit, Content, Keep, Kind, NodeId, Number, Record, RecordKey, Step, StoreTime};
use crate::policy::SignableAct;
use crate::stations::claim::{Freeze, Owner, WORD_LASTS, executed_key};

/// The format of the record. No other is read.
const FORMAT: u64 = 3;

/// The stored form of the words that wait.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitingWords {
    words: Vec<WaitingWord>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WaitingWord {
    by: Owner,
    shown: Option<ShownAttempt>,
    signed: Option<SignedWord>,
    /// The store's time at which it was said.
    #[serde(rename = "saidMicros")]
    said: StoreTime,
}

/// An attempt, and the digest of the record that shows that it was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShownAttempt {
    attempt: Number,
    record: Fingerprint,
}

impl WaitingWords {
    /// Reads those that still wait at this time. An unreadable record has none.
    fn read(record: Option<&Record>, now: StoreTime) -> WaitingWords {
        let mut read = match record.map(|record| &record.content) {
            Some(Content::Whole(bytes)) => json::from_record::<WaitingWords>(bytes, FORMAT).unwrap_or_default(),
            _ => WaitingWords::default(),
        };
        read.words.retain(|word| now.since(word.said) < WORD_LASTS);
        read
    }

    fn without(mut self, person: &Owner) -> WaitingWords {
        self.words.retain(|word| !word.by.is_same_person(person));
        self
    }

    fn and(mut self, word: WaitingWord) -> WaitingWords {
        self.words.push(word);
        self
    }

    /// Returns the step that keeps them in place of what was there.
    fn keep(&self, key: RecordKey, before: Option<&Record>) -> Step {
        let value = json::to_record(self, FORMAT).into();
        let keep = Keep::For { whole: WORD_LASTS, spent: Duration::ZERO };
        match before {
            None => Step::Create { key, value, keep },
            Some(record) => Step::Replace { key, version: record.version, value, keep },
        }
    }
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
    /// People whose words do not count.
    barred: Vec<Owner>,
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
        JointAct { key: RecordKey { environment, kind: Kind::Agreement, name }, act, entry, barred: Vec::new() }
    }

    /// The act of showing upstream's record of an attempt. `entry` names the call.
    pub fn show(claim: &RecordKey, attempt: Number, shown: &[u8], entry: Entry) -> JointAct {
        let act = PersonAct::Executed { claim: claim.name.clone(), attempt, record: Fingerprint::of(&[shown]) };
        JointAct { key: executed_key(claim), act, entry, barred: Vec::new() }
    }

    pub fn key(&self) -> &RecordKey {
        &self.key
    }

    /// The act, where words of these people do not count.
    #[must_use]
    pub fn not_counting(self, people: Vec<Owner>) -> JointAct {
        JointAct { barred: people, ..self }
    }

    /// Adds a person's word to one before, if there is one that counts, as the record with them was at this time. `guards`
    /// are of the first word's own commit.
    pub fn say(
        self,
        (before, now): (Option<&Record>, StoreTime),
        word: PersonWord<'_>,
        terms: ActTerms<'_>,
        guards: Vec<Step>,
        node: &NodeId,
    ) -> JointStep {
        let (shown, waiting) = (self.shown(), WaitingWords::read(before, now));
        let counts = |word: &&WaitingWord| {
            word.shown == shown && !self.barred.contains(&word.by) && terms.counts(&word.by, word.signed.as_ref())
        };
        let PersonWord { person, reason, signed } = word;
        let (own, of_others): (Vec<_>, Vec<_>) =
            waiting.words.iter().filter(counts).cloned().partition(|word| word.by.is_same_person(person));
        let (key, mut steps, environment) = (self.key, guards, terms.environment);
        match (of_others.into_iter().next(), before) {
            (Some(first), Some(record)) => {
                let steps = vec![Step::Delete { key, version: record.version }];
                let signed = SignedAct::of(environment, terms.act, [first.signed, signed]);
                JointStep::Second { first: first.by, signed, steps }
            }
            _ if !own.is_empty() => JointStep::SaidAlready,
            (_, before) => {
                let mut entry = self.entry.with("saidBy", vec![person.to_string()]).with("reason", reason);
                if let Some(signed) = SignedAct::of(environment, terms.act, [signed.clone()]) {
                    entry = entry.with("signed", signed);
                }
                let word = WaitingWord { by: person.clone(), shown, signed, said: now };
                steps.push(waiting.without(person).and(word).keep(key, before));
                JointStep::First(Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() })
            }
        }
    }

    fn shown(&self) -> Option<ShownAttempt> {
        match &self.act {
            PersonAct::Executed { attempt, record, .. } => Some(ShownAttempt { attempt: *attempt, record: *record }),
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
    /// Reads its record, as it was at this time. A signature that does not count is none.
    pub fn read(key: RecordKey, (record, now): (Option<&Record>, StoreTime), terms: ActTerms<'_>) -> FirstSignature {
        let before = record.and_then(|record| {
            let WaitingWord { by, signed, .. } = WaitingWords::read(Some(record), now).words.pop()?;
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
        (record, now): (Option<&Record>, StoreTime),
        (person, signed): (&Owner, Option<SignedWord>),
        is_second: bool,
    ) -> (Vec<SignedWord>, Option<Step>) {
        match (is_second, self.before, signed) {
            (true, Some((version, _, first)), signed) => {
                let step = Step::Delete { key: self.key, version };
                (std::iter::once(first).chain(signed).collect(), Some(step))
            }
            (false, _, Some(signed)) => {
                let first = WaitingWord { by: person.clone(), shown: None, signed: Some(signed.clone()), said: now };
                (vec![signed], Some(WaitingWords::default().and(first).keep(self.key, record)))
            }
            (_, _, signed) => (signed.into_iter().collect(), None),
        }
    }
}

/// Returns the people whose words wait at this time, in the order in which they spoke.
pub fn waiting_people(record: Option<&Record>, now: StoreTime) -> Vec<Owner> {
    WaitingWords::read(record, now).words.into_iter().map(|word| word.by).collect()
}

/// Returns the step that takes a person's words back, as their record was at this time; others' stay.
pub fn taken_back(key: RecordKey, record: &Record, now: StoreTime, person: &Owner) -> Step {
    let left = WaitingWords::read(Some(record), now).without(person);
    match left.words.is_empty() {
        true => Step::Delete { key, version: record.version },
        false => left.keep(key, Some(record)),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::base::webauthn::tests::soft_key::SoftKey;
    use crate::ledger::StoreTime;
    use crate::people::signed_act::tests::{signing, word};

    const NOW: StoreTime = StoreTime::of_micros(1);

    fn person(subject: &str) -> Owner {
        Owner::named("people", subject)
    }

    fn stored(commit: &Commit) -> Record {
        let value = commit.steps.iter().find_map(|step| match step {
            Step::Create { value, .. } | Step::Replace { value, .. } => Some(value.clone()),
            _ => None,
        });
        Record { version: Number::new(9), at: NOW, content: Content::Whole(value.unwrap()) }
    }

    fn say(act: JointAct, before: Option<&Record>, who: &str) -> JointStep {
        let (said, who) = (act.act.clone(), person(who));
        let terms = ActTerms { environment: Environment::Production, act: &said, signing: None };
        let word = PersonWord { person: &who, reason: "seen it", signed: None };
        act.say((before, NOW), word, terms, Vec::new(), &NodeId::parse("gate").unwrap())
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
        let barring = lift(7).not_counting(vec![person("ops-1")]);
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
            lift().say((Some(before), NOW), word, terms, Vec::new(), &NodeId::parse("gate").unwrap())
        };
        assert!(matches!(say(&stored(&unsigned)), JointStep::First(_)));
        let signed = Some(word("ops-1", &key, &act, "n", &signing));
        let said = PersonWord { person: &person("ops-1"), reason: "seen it", signed };
        let node = NodeId::parse("gate").unwrap();
        let JointStep::First(first) = lift().say((None, NOW), said, terms, Vec::new(), &node) else {
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
        // Another record is another first word; the word of another person stays.
        let JointStep::First(other) = say(show(b"{\"id\":2}"), Some(&record), "ops-3") else {
            panic!("another record")
        };
        let both = stored(&other);
        assert_eq!(waiting_people(Some(&both), NOW), [person("ops-1"), person("ops-3")]);
        for shown in [b"{\"id\":1}", b"{\"id\":2}"] {
            assert!(matches!(say(show(shown), Some(&both), "ops-2"), JointStep::Second { .. }));
        }
        // The same person's latest word stands alone, and only its person takes it back.
        let JointStep::First(changed) = say(show(b"{\"id\":3}"), Some(&both), "ops-1") else {
            panic!("another record")
        };
        assert_eq!(waiting_people(Some(&stored(&changed)), NOW), [person("ops-3"), person("ops-1")]);
        let key = executed_key(&claim);
        let Step::Replace { value, .. } = taken_back(key.clone(), &both, NOW, &person("ops-3")) else {
            panic!("the other word stays")
        };
        let left = Record { content: Content::Whole(value), ..both.clone() };
        assert_eq!(waiting_people(Some(&left), NOW), [person("ops-1")]);
        assert!(matches!(taken_back(key, &left, NOW, &person("ops-1")), Step::Delete { .. }));
        // Each lasts for a day.
        let later = NOW.plus(WORD_LASTS);
        assert_eq!(waiting_people(Some(&both), later), []);
    }
}
