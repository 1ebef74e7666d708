//! Freezes: one record each, which every beginning checks in its own commit.
//!
//! So a freeze holds from the moment it is stored, on every node, and no call that begins can miss it. Existing claims
//! are answered all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::owner::Owner;
use crate::audit::{Entry, EntryKind};
use crate::base::ids::{Environment, OperationId};
use crate::base::json;
use crate::catalog::Class;
use crate::ledger::{Commit, Index, Keep, Kind, NodeId, Number, RecordKey, Step};
use crate::stations::check::Intent;

/// The format of its record. No other is read.
const FORMAT: u64 = 1;

/// The scope of a freeze.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freeze {
    /// All money of an environment.
    All,
    /// All money of an environment, because its store was restored or set back and may lack later calls.
    Restored,
    /// All money of an environment, because the clock of its store leapt.
    Clock,
    /// All money of one gate, because its machine's clock was not that of others at its start.
    GateClock(NodeId),
    /// One operation of any class.
    Operation(OperationId),
    /// The money of one caller.
    Caller(Owner),
    /// The reads of one caller.
    Reads(Owner),
}

/// The stored form of a freeze.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FreezeRecord {
    by: String,
    reason: String,
    /// The records that the store lacks, where money is closed for that.
    forgotten: Option<Forgotten>,
}

/// The nodes that still have to tell what they know, each with the number above which the store may lack commits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Forgotten {
    pub nodes: BTreeMap<NodeId, u64>,
    /// The number up to which the commits lie that the store lacks. What awaited nodes did behind it is in the store.
    #[serde(default)]
    pub lacks_up_to: u64,
    /// The nodes' knowledge is not enough: a person must open money.
    pub by_person: bool,
    /// The last number of the journal from which the store was rebuilt. No money has moved since.
    #[serde(default)]
    pub known_up_to: Option<u64>,
    /// The number behind which that journal begins; what was before is not known. An awaited node may come with a journal
    /// that begins earlier.
    #[serde(default)]
    pub begins_behind: u64,
    /// The number behind which a journal begins whose gate came when no gate ran that knows what was before. The store may have
    /// all of it.
    #[serde(default)]
    pub joined_behind: u64,
    /// Why a person must open money.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// The last commit of awaited nodes that others were told of. A copy of a journal must reach as far; a journal may end
    /// before, where its disk never had that commit.
    #[serde(default)]
    pub made: BTreeMap<NodeId, u64>,
    /// The nodes whose journals have other entries than the one from which the store was rebuilt. They do not tell the commits of
    /// `here`: somebody may have changed what they got of those.
    #[serde(default)]
    pub differ: BTreeSet<NodeId>,
    /// The nodes that came to that rebuild, so that they tell their own commits.
    #[serde(default)]
    pub here: BTreeSet<NodeId>,
}

/// Writes the record of a freeze.
pub(super) fn written((by, reason): (&str, &str), forgotten: Option<Forgotten>) -> Bytes {
    json::to_record(&FreezeRecord { by: by.to_owned(), reason: reason.to_owned(), forgotten }, FORMAT).into()
}

/// Reads what the store lacks from the record of [`Freeze::Restored`].
pub(super) fn forgotten(record: &[u8]) -> Option<Forgotten> {
    json::from_record::<FreezeRecord>(record, FORMAT).ok()?.forgotten
}

/// The author and the reason of a freeze.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frozen {
    pub by: Option<String>,
    pub reason: Option<String>,
}

impl Freeze {
    /// Its name in the store and in the index of freezes.
    pub fn name(&self) -> String {
        match self {
            Freeze::All => "all".to_owned(),
            Freeze::Restored => "restored".to_owned(),
            Freeze::Clock => "clock".to_owned(),
            Freeze::GateClock(node) => format!("gate-clock/{node}"),
            Freeze::Operation(operation) => format!("operation/{operation}"),
            Freeze::Caller(owner) => format!("caller/{}/{}", owner.issuer, owner.subject),
            Freeze::Reads(owner) => format!("reads/{}/{}", owner.issuer, owner.subject),
        }
    }

    /// Reads a scope of the console's JSON.
    pub fn of_scope(scope: &Value) -> Option<Freeze> {
        let text = |pointer: &str| scope.pointer(pointer).and_then(Value::as_str);
        match (scope.as_str(), text("/operation")) {
            (Some(special), _) => Freeze::parse(special),
            (None, Some(operation)) => Some(Freeze::Operation(OperationId::new(operation))),
            (None, None) if text("/gateClock").is_some() => {
                text("/gateClock").and_then(NodeId::parse).map(Freeze::GateClock)
            }
            (None, None) => {
                let of = |issuer, subject| Some(Owner::named(text(issuer)?, text(subject)?));
                let money = of("/caller/issuer", "/caller/subject").map(Freeze::Caller);
                money.or_else(|| of("/reads/issuer", "/reads/subject").map(Freeze::Reads))
            }
        }
    }

    /// Parses a name. The name of an issuer contains no slash; a subject may.
    pub fn parse(name: &str) -> Option<Freeze> {
        match name.split_once('/') {
            None if name == "all" => Some(Freeze::All),
            None if name == "restored" => Some(Freeze::Restored),
            None if name == "clock" => Some(Freeze::Clock),
            Some(("gate-clock", node)) => NodeId::parse(node).map(Freeze::GateClock),
            Some(("operation", operation)) => Some(Freeze::Operation(OperationId::new(operation))),
            Some((scope @ ("caller" | "reads"), caller)) => {
                let (issuer, subject) = caller.split_once('/')?;
                let owner = Owner::named(issuer, subject);
                Some(if scope == "reads" { Freeze::Reads(owner) } else { Freeze::Caller(owner) })
            }
            _ => None,
        }
    }

    /// The word in metrics.
    pub fn scope(&self) -> &'static str {
        match self {
            Freeze::All => "all",
            Freeze::Restored => "restored",
            Freeze::Clock => "clock",
            Freeze::GateClock(_) => "gate-clock",
            Freeze::Operation(_) => "operation",
            Freeze::Caller(_) => "caller",
            Freeze::Reads(_) => "reads",
        }
    }

    /// Whether it stops one caller: people may make many of these.
    pub fn is_of_caller(&self) -> bool {
        matches!(self, Freeze::Caller(_) | Freeze::Reads(_))
    }

    /// Every word in metrics.
    pub const SCOPES: [&'static str; 7] = ["all", "restored", "clock", "gate-clock", "operation", "caller", "reads"];

    pub fn key(&self, environment: Environment) -> RecordKey {
        RecordKey { environment, kind: Kind::Freeze, name: self.name() }
    }
}

/// The freezes that stop a call, on every gate.
pub(super) fn in_the_way_of(intent: &Intent) -> Vec<Freeze> {
    let operation = intent.operation();
    let mut all = vec![Freeze::Operation(operation.id.clone())];
    if operation.class == Class::Money {
        all.extend([Freeze::All, Freeze::Restored, Freeze::Clock, Freeze::Caller(Owner::of(intent.caller()))]);
    }
    all
}

/// Freezes. Guarded: it is not frozen yet.
pub fn freeze(what: &Freeze, environment: Environment, person: &Owner, reason: &str, node: &NodeId) -> Commit {
    let value = written((&person.to_string(), reason), None);
    let steps = vec![
        Step::Create { key: what.key(environment), value, keep: Keep::Forever },
        Step::IndexAdd { index: Index::Frozen, member: what.name(), due: Duration::ZERO },
    ];
    commit(EntryKind::Frozen, what, environment, (person, reason), steps, node)
}

/// Freezes again what people froze already: whoever said before that it is to be lifted did not know of this reason. Guarded:
/// it is frozen as it was read. `None` where the freeze says so already, or where it is a gate's own.
pub fn freeze_again(
    what: &Freeze,
    environment: Environment,
    (version, record): (Number, &[u8]),
    (person, reason): (&Owner, &str),
    node: &NodeId,
) -> Option<Commit> {
    if matches!(what, Freeze::Restored | Freeze::Clock | Freeze::GateClock(_)) {
        return None;
    }
    let (by, before) = (person.to_string(), frozen(record));
    let reason_once = reason.replace(BEFORE, "; ");
    let both = match before.by.as_deref().zip(before.reason.as_deref()) {
        Some((known, said)) => {
            let (word, all) = (format!("{by}: {reason_once}"), format!("{known}: {said}"));
            // What comes behind a long reason may be cut.
            let is_word = |one: &str| one.strip_prefix(&*word).is_some_and(|rest| BEFORE.starts_with(rest));
            if all.split(BEFORE).any(is_word) {
                return None;
            }
            format!("{reason_once}{BEFORE}{all}")
        }
        None => reason_once,
    };
    let both: String = both.chars().take(LONGEST_REASON).collect();
    let value = written((&by, &both), None);
    let steps = vec![Step::Replace { key: what.key(environment), version, value, keep: Keep::Forever }];
    Some(commit(EntryKind::Frozen, what, environment, (person, reason), steps, node))
}

/// Stands between the reason of a freeze and the one that it had before.
const BEFORE: &str = "; before that, ";
/// The longest reason of a freeze, in characters, with those before.
const LONGEST_REASON: usize = 500;

/// Closes money because the store was restored or set back. Guarded: money is closed as `before` says. `above` has the
/// numbers that the audit log already holds.
pub fn restored(
    environment: Environment,
    before: Option<Number>,
    above: Number,
    (by, reason): (&str, &str),
    node: &NodeId,
) -> Commit {
    let what = Freeze::Restored;
    let (key, keep) = (what.key(environment), Keep::Forever);
    let value = written((by, reason), None);
    let record = match before {
        None => Step::Create { key, value, keep },
        Some(version) => Step::Replace { key, version, value, keep },
    };
    let add = Step::IndexAdd { index: Index::Frozen, member: what.name(), due: Duration::ZERO };
    let entry = Entry::of(EntryKind::Frozen).with("freeze", what.name()).with("by", by).with("reason", reason);
    let steps = vec![Step::Above(above), record, add];
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// The author of freezes that a gate makes by itself.
const BY: &str = "sluice serve";

/// Closes the money of one gate because its machine's clock is not that of others. Guarded: it is not closed yet.
pub fn gate_clock_doubted(environment: Environment, reason: &str, node: &NodeId) -> Commit {
    let what = Freeze::GateClock(node.clone());
    let entry = Entry::of(EntryKind::Frozen).with("freeze", what.name()).with("by", BY).with("reason", reason);
    let steps = vec![
        Step::Create { key: what.key(environment), value: written((BY, reason), None), keep: Keep::Forever },
        Step::IndexAdd { index: Index::Frozen, member: what.name(), due: Duration::ZERO },
    ];
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// Closes money because the clock of the store leapt. `correction` has the store's time go on as it was, where the store does
/// not do so by itself. Guarded: the freeze is as `before` says.
pub fn clock_doubted(
    environment: Environment,
    before: Option<Number>,
    reason: &str,
    correction: Vec<Step>,
    node: &NodeId,
) -> Commit {
    let what = Freeze::Clock;
    let (key, keep, value) = (what.key(environment), Keep::Forever, written((BY, reason), None));
    let record = match before {
        None => Step::Create { key, value, keep },
        Some(version) => Step::Replace { key, version, value, keep },
    };
    let add = Step::IndexAdd { index: Index::Frozen, member: what.name(), due: Duration::ZERO };
    let entry = Entry::of(EntryKind::Frozen).with("freeze", what.name()).with("by", BY).with("reason", reason);
    let steps = vec![record, add, Step::KeepPace].into_iter().chain(correction).collect();
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// Whether these steps do nothing but close money behind a restored store.
pub fn only_closes(steps: &[Step]) -> bool {
    let is_closing = |key: &RecordKey| *key == Freeze::Restored.key(key.environment);
    steps.iter().all(|step| match step {
        Step::Above(_) => true,
        Step::Create { key, .. } | Step::Replace { key, .. } => is_closing(key),
        Step::IndexAdd { index, member, .. } => *index == Index::Frozen && *member == Freeze::Restored.name(),
        _ => false,
    })
}

/// Unfreezes. `first` is the person who said so before. Guarded: it is frozen by that commit.
pub fn unfreeze(
    what: &Freeze,
    environment: Environment,
    version: Number,
    (first, person): (Option<&Owner>, &Owner),
    reason: &str,
    node: &NodeId,
) -> Commit {
    let mut steps = vec![
        Step::Delete { key: what.key(environment), version },
        Step::IndexRemove { index: Index::Frozen, member: what.name() },
    ];
    if *what == Freeze::Clock {
        steps.push(Step::FollowClock);
    }
    let mut unfrozen = commit(EntryKind::Unfrozen, what, environment, (person, reason), steps, node);
    if let Some(first) = first {
        let entry = Entry::of(EntryKind::Unfrozen).with("freeze", what.name()).by(&person.issuer, &person.subject);
        let people = vec![first.to_string(), person.to_string()];
        unfrozen.entry = entry.with("saidBy", people).with("reason", reason).to_bytes();
    }
    unfrozen
}

fn commit(
    happened: EntryKind,
    what: &Freeze,
    environment: Environment,
    (person, reason): (&Owner, &str),
    steps: Vec<Step>,
    node: &NodeId,
) -> Commit {
    let entry = Entry::of(happened).with("freeze", what.name()).by(&person.issuer, &person.subject);
    Commit { environment, node: node.clone(), steps, entry: entry.with("reason", reason).to_bytes() }
}

/// Reads the record of a freeze. An unreadable record freezes all the same.
pub fn frozen(record: &[u8]) -> Frozen {
    let Ok(FreezeRecord { by, reason, .. }) = json::from_record(record, FORMAT) else { return Frozen::default() };
    Frozen { by: Some(by), reason: Some(reason) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_freezes_once_for_one_reason() {
        let node = NodeId::parse("gate").unwrap();
        let (one, two) = (Owner::named("people", "ops-1"), Owner::named("people", "ops-2"));
        let again = |record: &[u8], person: &Owner, reason: &str| {
            let of = (Number::new(1), record);
            let commit = freeze_again(&Freeze::All, Environment::Production, of, (person, reason), &node)?;
            commit.steps.into_iter().find_map(|step| match step {
                Step::Replace { value, .. } => Some(value),
                _ => None,
            })
        };
        let first = written(("people/ops-1", "a drill in Rome"), None);
        assert_eq!(again(&first, &one, "a drill in Rome"), None);
        let second = again(&first, &two, "a stolen token").unwrap();
        assert_eq!(again(&second, &two, "a stolen token"), None);
        assert_eq!(again(&second, &one, "a drill in Rome"), None, "said before");
        assert!(again(&second, &one, "a drill").is_some(), "a shorter reason is another");
        assert!(again(&second, &two, "a drill in Rome").is_some(), "another person's word");
        let long = "x".repeat(495);
        let third = again(&second, &one, &long).unwrap();
        assert_eq!(again(&third, &one, &long), None, "what is behind it is cut");
    }

    #[test]
    fn a_name_means_what_it_was_made_of() {
        let caller = |subject: &str| Freeze::Caller(Owner::named("main", subject));
        for freeze in [
            Freeze::All,
            Freeze::Restored,
            Freeze::Clock,
            Freeze::GateClock(NodeId::parse("left-1").unwrap()),
            Freeze::Operation(OperationId::new("createSwap")),
            caller("payroll"),
            caller("spiffe://cluster/ns/payroll"),
            caller(""),
        ] {
            assert_eq!(Freeze::parse(&freeze.name()), Some(freeze));
        }
        for name in ["", "everything", "operation", "caller/main", "all/x", "gate-clock", "gate-clock/"] {
            assert_eq!(Freeze::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_record_tells_who_and_why_also_where_an_import_wrote_it() {
        let person = Owner::named("people", "ops-1");
        let node = NodeId::parse("gate").unwrap();
        let commit = freeze(&Freeze::All, Environment::Production, &person, "drill", &node);
        let Some(Step::Create { value, .. }) = commit.steps.first() else { panic!("it creates its record first") };
        let told = Frozen { by: Some("people/ops-1".to_owned()), reason: Some("drill".to_owned()) };
        assert_eq!(frozen(value), told);
        let imported =
            frozen(br#"{"format":1,"reason":"restored from an export","by":"sluice store import","forgotten":null}"#);
        assert_eq!(imported.by.as_deref(), Some("sluice store import"));
        assert_eq!(frozen(b"of another time"), Frozen::default());
    }
}
