//! What operators froze: a record for each, at which every beginning looks in its own commit.
//!
//! So it holds from the moment that it is stored, on every node, and no call that begins can miss it. What a claim has
//! to say is said all the same.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::state::Owner;
use crate::base::ids::{Environment, OperationId};
use crate::catalog::Class;
use crate::commit::{Commit, Index, Keep, Kind, NodeId, Number, RecordKey, Step};
use crate::stations::check::Intent;
use crate::stations::record::{Entry, What};

/// The form of its record.
const FORM: u64 = 1;

/// What is frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freeze {
    /// All money of an environment.
    All,
    /// The same, from the moment that a store was taken in from elsewhere: what was done meanwhile is not in it.
    Restored,
    /// One operation, whatever its class.
    Operation(OperationId),
    /// The money of one caller.
    Caller(Owner),
}

/// What is kept of a freeze besides what it freezes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frozen {
    pub by: Option<String>,
    pub reason: Option<String>,
}

impl Freeze {
    /// Its name in the store and in the index of all that is frozen.
    pub fn name(&self) -> String {
        match self {
            Freeze::All => "all".to_owned(),
            Freeze::Restored => "restored".to_owned(),
            Freeze::Operation(operation) => format!("operation/{operation}"),
            Freeze::Caller(owner) => format!("caller/{}/{}", owner.issuer, owner.subject),
        }
    }

    /// What a name freezes. The name of an issuer holds no slash; a subject may.
    pub fn parse(name: &str) -> Option<Freeze> {
        match name.split_once('/') {
            None if name == "all" => Some(Freeze::All),
            None if name == "restored" => Some(Freeze::Restored),
            Some(("operation", operation)) => Some(Freeze::Operation(OperationId::new(operation))),
            Some(("caller", caller)) => {
                let (issuer, subject) = caller.split_once('/')?;
                Some(Freeze::Caller(Owner { issuer: issuer.to_owned(), subject: subject.to_owned() }))
            }
            _ => None,
        }
    }

    /// As metrics call it.
    pub fn scope(&self) -> &'static str {
        match self {
            Freeze::All => "all",
            Freeze::Restored => "restored",
            Freeze::Operation(_) => "operation",
            Freeze::Caller(_) => "caller",
        }
    }

    /// Every scope that metrics know.
    pub const SCOPES: [&'static str; 4] = ["all", "restored", "operation", "caller"];

    pub fn key(&self, environment: Environment) -> RecordKey {
        RecordKey { environment, kind: Kind::Freeze, name: self.name() }
    }
}

/// What must not be frozen for a call to go.
pub(super) fn in_the_way_of(intent: &Intent) -> Vec<Freeze> {
    let operation = intent.operation();
    let mut all = vec![Freeze::Operation(operation.id.clone())];
    if operation.class == Class::Money {
        all.extend([Freeze::All, Freeze::Restored, Freeze::Caller(Owner::of(intent.caller()))]);
    }
    all
}

/// Guarded: it is not frozen yet.
pub fn freeze(what: &Freeze, environment: Environment, person: &Owner, reason: &str, node: &NodeId) -> Commit {
    let value = json!({ "v": FORM, "by": person.to_string(), "reason": reason });
    let steps = vec![
        Step::Create { key: what.key(environment), value: Bytes::from(value.to_string()), keep: Keep::Forever },
        Step::IndexAdd { index: Index::Frozen, member: what.name(), due: Duration::ZERO },
    ];
    commit(What::Frozen, what, environment, (person, reason), steps, node)
}

/// A store that was taken in from elsewhere, or set back: closed for money until somebody opens it. Guarded: it is
/// closed as `before` says. `above`: numbers that the audit chain has already.
pub fn restored(
    environment: Environment,
    before: Option<Number>,
    above: Number,
    (by, reason): (&str, &str),
    node: &NodeId,
) -> Commit {
    let what = Freeze::Restored;
    let (key, keep) = (what.key(environment), Keep::Forever);
    let value = Bytes::from(json!({ "v": FORM, "by": by, "reason": reason }).to_string());
    let record = match before {
        None => Step::Create { key, value, keep },
        Some(version) => Step::Replace { key, version, value, keep },
    };
    let add = Step::IndexAdd { index: Index::Frozen, member: what.name(), due: Duration::ZERO };
    let entry = Entry::of(What::Frozen).with("freeze", what.name()).with("by", by).with("reason", reason);
    let steps = vec![Step::Above(above), record, add];
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// Guarded: it is frozen as that commit left it.
pub fn unfreeze(
    what: &Freeze,
    environment: Environment,
    version: Number,
    person: &Owner,
    reason: &str,
    node: &NodeId,
) -> Commit {
    let steps = vec![
        Step::Delete { key: what.key(environment), version },
        Step::IndexRemove { index: Index::Frozen, member: what.name() },
    ];
    commit(What::Unfrozen, what, environment, (person, reason), steps, node)
}

fn commit(
    happened: What,
    what: &Freeze,
    environment: Environment,
    (person, reason): (&Owner, &str),
    steps: Vec<Step>,
    node: &NodeId,
) -> Commit {
    let entry = Entry::of(happened).with("freeze", what.name()).by(&person.issuer, &person.subject);
    Commit { environment, node: node.clone(), steps, entry: entry.with("reason", reason).to_bytes() }
}

/// What a record of a freeze tells. It freezes whatever it tells.
pub fn frozen(record: &[u8]) -> Frozen {
    let Ok(record) = serde_json::from_slice::<Value>(record) else { return Frozen::default() };
    let text = |name: &str| record.get(name).and_then(Value::as_str).map(str::to_owned);
    Frozen { by: text("by"), reason: text("reason") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_what_it_was_made_of() {
        let caller = |subject: &str| Freeze::Caller(Owner { issuer: "main".to_owned(), subject: subject.to_owned() });
        for freeze in [
            Freeze::All,
            Freeze::Restored,
            Freeze::Operation(OperationId::new("createSwap")),
            caller("payroll"),
            caller("spiffe://cluster/ns/payroll"),
            caller(""),
        ] {
            assert_eq!(Freeze::parse(&freeze.name()), Some(freeze));
        }
        for name in ["", "everything", "operation", "caller/main", "all/x"] {
            assert_eq!(Freeze::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_record_tells_who_and_why_also_where_an_import_wrote_it() {
        let person = Owner { issuer: "people".to_owned(), subject: "ops-1".to_owned() };
        let node = NodeId::parse("gate").unwrap();
        let commit = freeze(&Freeze::All, Environment::Production, &person, "drill", &node);
        let Some(Step::Create { value, .. }) = commit.steps.first() else { panic!("it creates its record first") };
        let told = Frozen { by: Some("people/ops-1".to_owned()), reason: Some("drill".to_owned()) };
        assert_eq!(frozen(value), told);
        let imported = frozen(br#"{"v":1,"reason":"restored from an export","by":"sluice store import"}"#);
        assert_eq!(imported.by.as_deref(), Some("sluice store import"));
        assert_eq!(frozen(b"of another time"), Frozen::default());
    }
}
