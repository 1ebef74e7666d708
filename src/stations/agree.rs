//! Who agreed that a looser set of policies takes force: a record for the set in force and the one that waits.
//!
//! An agreement is about exactly these two versions, and holds for a day from the last word: what was agreed on long ago,
//! or against another set, lets nothing loosen.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::claim::Owner;
use super::record::{Entry, What};
use crate::base::ids::Environment;
use crate::commit::{Commit, Content, Keep, Kind, NodeId, Record, RecordKey, Step};

/// So many people, none of them twice.
pub const PEOPLE: usize = 2;
/// The form of its record.
const FORM: u64 = 1;
const HOLDS_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// The set in force, and the one that is to follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Succession<'s> {
    /// Where the record stands: nodes that share a store say the same.
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

/// Those who agreed. A record that cannot be read, or whose time is over, is nobody's word.
pub fn agreed(record: Option<&Record>) -> Vec<Owner> {
    let Some(Content::Whole(bytes)) = record.map(|record| &record.content) else { return Vec::new() };
    let Ok(told) = serde_json::from_slice::<Value>(bytes) else { return Vec::new() };
    if told.get("v").and_then(Value::as_u64) != Some(FORM) {
        return Vec::new();
    }
    let owner = |one: &Value| {
        let text = |name: &str| one.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Owner { issuer: text("issuer")?, subject: text("subject")? })
    };
    let mut people: Vec<Owner> = Vec::new();
    for person in told.get("by").and_then(Value::as_array).into_iter().flatten().filter_map(owner) {
        if !is_among(&people, &person) {
            people.push(person);
        }
    }
    people
}

/// One more person agrees; guarded by what those before said.
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
    let by: Vec<Value> = people.iter().map(told).collect();
    let (key, value) = (succession.key(), Bytes::from(json!({ "v": FORM, "by": by }).to_string()));
    let keep = Keep::For { whole: HOLDS_FOR, spent: Duration::ZERO };
    let step = match before {
        None => Step::Create { key, value, keep },
        Some(record) => Step::Replace { key, version: record.version, value, keep },
    };
    let entry = of(What::Agreed, succession).by(&person.issuer, &person.subject).with("reason", reason);
    let entry = entry.with("missing", PEOPLE.saturating_sub(people.len())).to_bytes();
    Ok((Commit { environment: succession.environment, node: node.clone(), steps: vec![step], entry }, people))
}

/// The set that waited, or that needed nobody's word, is in force at this node.
pub fn took_force(succession: Succession<'_>, people: &[Owner], node: &NodeId) -> Commit {
    let mut entry = of(What::TookForce, succession);
    if !people.is_empty() {
        entry = entry.with("agreed", people.iter().map(told).collect::<Vec<_>>());
    }
    Commit { environment: succession.environment, node: node.clone(), steps: Vec::new(), entry: entry.to_bytes() }
}

/// One subject is one person, whichever issuer says so.
fn is_among(people: &[Owner], person: &Owner) -> bool {
    people.iter().any(|one| one.subject == person.subject)
}

fn told(person: &Owner) -> Value {
    json!({ "issuer": person.issuer, "subject": person.subject })
}

fn of(what: What, succession: Succession<'_>) -> Entry {
    Entry::of(what).with("policy", succession.to).with("before", succession.from)
}
