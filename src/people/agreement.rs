//! Agreements that a looser set of policies takes force: one record for the set in force and the set that waits.
//!
//! An agreement covers exactly these two versions, and lasts for a day from the last vote: an old agreement, or one on
//! another set, loosens nothing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::audit::{Entry, EntryKind};
use crate::base::ids::Environment;
use crate::base::json;
use crate::ledger::{Commit, Content, Keep, Kind, NodeId, Record, RecordKey, Step};
use crate::stations::claim::Owner;

/// The people that it takes.
pub const PEOPLE: usize = 2;
/// The format of its record. No other is read.
const FORMAT: u64 = 1;
const HOLDS_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// The stored form of an agreement.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgreementRecord {
    by: Vec<Owner>,
}

/// The set in force, and its intended successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Succession<'s> {
    /// The environment of the record; nodes that share a store use the same one.
    pub environment: Environment,
    pub from: &'s str,
    pub to: &'s str,
}

/// The same person agreed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgreedAlready;

impl Succession<'_> {
    pub fn key(&self) -> RecordKey {
        let name = format!("{}/{}", self.from, self.to);
        RecordKey { environment: self.environment, kind: Kind::Agreement, name }
    }
}

/// Returns the people who agreed. An unreadable or expired record counts for nobody.
pub fn agreed(record: Option<&Record>) -> Vec<Owner> {
    let Some(Content::Whole(bytes)) = record.map(|record| &record.content) else { return Vec::new() };
    let Ok(AgreementRecord { by }) = json::from_record(bytes, FORMAT) else { return Vec::new() };
    let mut people: Vec<Owner> = Vec::new();
    for person in by {
        if !is_among(&people, &person) {
            people.push(person);
        }
    }
    people
}

/// Records one more person's agreement, guarded by the agreements before.
pub fn agree(
    succession: Succession<'_>,
    before: Option<&Record>,
    person: &Owner,
    reason: &str,
    node: &NodeId,
) -> Result<(Commit, Vec<Owner>), AgreedAlready> {
    let mut people = agreed(before);
    if is_among(&people, person) {
        return Err(AgreedAlready);
    }
    people.push(person.clone());
    let value = json::to_record(&AgreementRecord { by: people.clone() }, FORMAT).into();
    let key = succession.key();
    let keep = Keep::For { whole: HOLDS_FOR, spent: Duration::ZERO };
    let step = match before {
        None => Step::Create { key, value, keep },
        Some(record) => Step::Replace { key, version: record.version, value, keep },
    };
    let entry =
        agreement_entry(EntryKind::Agreed, succession).by(&person.issuer, &person.subject).with("reason", reason);
    let entry = entry.with("missing", PEOPLE.saturating_sub(people.len())).to_bytes();
    Ok((Commit { environment: succession.environment, node: node.clone(), steps: vec![step], entry }, people))
}

/// One subject is one person, whatever the issuer.
fn is_among(people: &[Owner], person: &Owner) -> bool {
    people.iter().any(|one| one.is_same_person(person))
}

fn agreement_entry(what: EntryKind, succession: Succession<'_>) -> Entry {
    Entry::of(what).with("policy", succession.to).with("before", succession.from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Number, StoreTime};

    #[test]
    fn a_person_in_another_case_or_form_agrees_once() {
        let succession = Succession { environment: Environment::Production, from: "1", to: "2" };
        let person = |subject: &str| Owner::named("people", subject);
        let (node, said) = (NodeId::parse("gate").unwrap(), "seen");
        let (first, people) = agree(succession, None, &person("ops-1"), said, &node).unwrap();
        assert_eq!(people.len(), 1);
        let Some(Step::Create { value, .. }) = first.steps.into_iter().next() else { panic!("it is not created") };
        let record = Record { version: Number::new(1), at: StoreTime::of_micros(1), content: Content::Whole(value) };
        for same in ["ops-1", "OPS-1", "\u{ff4f}ps-1"] {
            let refused = agree(succession, Some(&record), &person(same), said, &node);
            assert_eq!(refused.map(|_| ()), Err(AgreedAlready), "{same}");
        }
        assert_eq!(agree(succession, Some(&record), &person("ops-2"), said, &node).unwrap().1.len(), 2);
    }
}
