//! Agreements that a looser set of policies takes force: one record for the set in force and the set that waits.
//!
//! An agreement covers exactly these two versions and the activation that put the first in force, and lasts for a day
//! from the last vote: an old agreement, or one on another set, loosens nothing. Nor does one that was used up, after the
//! first set came into force again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::signed_act::{ActTerms, PersonAct, SignedAct, SignedWord};
use crate::audit::{Entry, EntryKind};
use crate::base::ids::Environment;
use crate::base::json;
use crate::ledger::{Commit, Content, Keep, Kind, NodeId, Number, Record, RecordKey, Step};
use crate::stations::claim::{Owner, WORD_LASTS};

/// The people that it takes.
pub const PEOPLE: usize = 2;
/// The format of its record. No other is read.
const FORMAT: u64 = 2;

/// The stored form of an agreement.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgreementRecord {
    by: Vec<AgreedWord>,
}

/// A person who agreed, with the signature if there is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgreedWord {
    pub person: Owner,
    pub signed: Option<SignedWord>,
}

/// The set in force, and its intended successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Succession<'s> {
    /// The environment of the record; nodes that share a store use the same one.
    pub environment: Environment,
    /// The commit that put the set in force; 0 where none did yet.
    pub replaces: Number,
    pub from: &'s str,
    pub to: &'s str,
}

/// The same person agreed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgreedAlready;

impl Succession<'_> {
    /// Returns the act of each of the people.
    pub fn act(&self) -> PersonAct {
        PersonAct::Activation { from: self.from.to_owned(), to: self.to.to_owned() }
    }

    pub fn key(&self) -> RecordKey {
        let name = format!("{}/{}/{}", self.replaces, self.from, self.to);
        RecordKey { environment: self.environment, kind: Kind::Agreement, name }
    }
}

/// Returns those who agreed. An unreadable or expired record counts for nobody, nor does a word that must be signed and is
/// not.
pub fn agreed(record: Option<&Record>, terms: ActTerms<'_>) -> Vec<AgreedWord> {
    let Some(Content::Whole(bytes)) = record.map(|record| &record.content) else { return Vec::new() };
    let Ok(AgreementRecord { by }) = json::from_record(bytes, FORMAT) else { return Vec::new() };
    let mut words: Vec<AgreedWord> = Vec::new();
    for word in by {
        if !is_among(&words, &word.person) && terms.counts(&word.person, word.signed.as_ref()) {
            words.push(word);
        }
    }
    words
}

/// Records one more person's agreement, guarded by the agreements before.
pub fn agree(
    succession: Succession<'_>,
    before: Option<&Record>,
    (person, reason, signed): (&Owner, &str, Option<SignedWord>),
    terms: ActTerms<'_>,
    node: &NodeId,
) -> Result<(Commit, Vec<AgreedWord>), AgreedAlready> {
    let mut words = agreed(before, terms);
    if is_among(&words, person) {
        return Err(AgreedAlready);
    }
    words.push(AgreedWord { person: person.clone(), signed: signed.clone() });
    let value = json::to_record(&AgreementRecord { by: words.clone() }, FORMAT).into();
    let key = succession.key();
    let keep = Keep::For { whole: WORD_LASTS, spent: Duration::ZERO };
    let step = match before {
        None => Step::Create { key, value, keep },
        Some(record) => Step::Replace { key, version: record.version, value, keep },
    };
    let entry = Entry::of(EntryKind::Agreed).with("policy", succession.to).with("before", succession.from);
    let mut entry = entry.by(&person.issuer, &person.subject).with("reason", reason);
    if let Some(signed) = SignedAct::of(succession.environment, terms.act, [signed]) {
        entry = entry.with("signed", signed);
    }
    let entry = entry.with("missing", PEOPLE.saturating_sub(words.len())).to_bytes();
    Ok((Commit { environment: succession.environment, node: node.clone(), steps: vec![step], entry }, words))
}

/// One subject is one person, whatever the issuer.
fn is_among(words: &[AgreedWord], person: &Owner) -> bool {
    words.iter().any(|one| one.person.is_same_person(person))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::StoreTime;

    #[test]
    fn a_person_in_another_case_or_form_agrees_once() {
        let replaces = Number::new(7);
        let succession = Succession { environment: Environment::Production, replaces, from: "1", to: "2" };
        let again = Succession { replaces: Number::new(9), ..succession };
        assert_ne!(succession.key(), again.key(), "the first set came into force again");
        let person = |subject: &str| Owner::named("people", subject);
        let (node, act) = (NodeId::parse("gate").unwrap(), succession.act());
        let terms = ActTerms { environment: succession.environment, act: &act, signing: None };
        let agree =
            |before: Option<&Record>, who: &str| agree(succession, before, (&person(who), "seen", None), terms, &node);
        let (first, people) = agree(None, "ops-1").unwrap();
        assert_eq!(people.len(), 1);
        let Some(Step::Create { value, .. }) = first.steps.into_iter().next() else { panic!("it is not created") };
        let record = Record { version: Number::new(1), at: StoreTime::of_micros(1), content: Content::Whole(value) };
        for same in ["ops-1", "OPS-1", "\u{ff4f}ps-1"] {
            assert_eq!(agree(Some(&record), same).map(|_| ()), Err(AgreedAlready), "{same}");
        }
        assert_eq!(agree(Some(&record), "ops-2").unwrap().1.len(), 2);
    }
}
