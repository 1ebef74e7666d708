//! Gates that will never return: two people declare a gate and its journal gone.
//!
//! From then on the store takes nothing from it but proofs of execution, so that people may say of its calls that they
//! were not executed. A gate of the same name with a new journal is another one.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::state::Owner;
use crate::audit::{Entry, EntryKind};
use crate::base::ids::Environment;
use crate::base::json;
use crate::ledger::{Commit, Index, Keep, Kind, NodeId, Number, RecordKey, Sender, Step};

const FORMAT: u64 = 1;

/// The people who declare a gate gone, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GoneWord {
    pub said_by: Vec<String>,
    pub reason: String,
}

impl GoneWord {
    /// Reads a record; an unreadable one names nobody.
    pub fn read(record: &[u8]) -> GoneWord {
        json::from_record(record, FORMAT).unwrap_or_default()
    }

    fn to_bytes(&self) -> Bytes {
        json::to_record(self, FORMAT).into()
    }
}

/// The record that stands while a gate is gone. Every commit of that gate guards that it is absent, but for proofs of
/// execution and for the repair of a store that lost records.
pub fn gone_key(environment: Environment, sender: &Sender) -> RecordKey {
    RecordKey { environment, kind: Kind::Gone, name: sender.to_string() }
}

/// The record of the first person's word.
pub fn said_gone_key(environment: Environment, sender: &Sender) -> RecordKey {
    RecordKey { environment, kind: Kind::Gone, name: format!("said/{sender}") }
}

/// Records a person's word that a gate is gone. `first`: the record of another person's word, which this one completes.
pub fn say_gone(
    environment: Environment,
    sender: &Sender,
    (person, reason): (&Owner, &str),
    first: Option<(Number, &GoneWord)>,
    node: &NodeId,
) -> Commit {
    let before = first.map(|(_, word)| word.said_by.clone()).unwrap_or_default();
    let said_by: Vec<String> = before.into_iter().chain([person.to_string()]).collect();
    let word = GoneWord { said_by: said_by.clone(), reason: reason.to_owned() };
    let (what, steps) = match first {
        Some((version, _)) => {
            let create =
                Step::Create { key: gone_key(environment, sender), value: word.to_bytes(), keep: Keep::Forever };
            let add = Step::IndexAdd { index: Index::Gone, member: sender.to_string(), due: Duration::ZERO };
            (EntryKind::Gone, vec![create, add, Step::Delete { key: said_gone_key(environment, sender), version }])
        }
        None => {
            let key = said_gone_key(environment, sender);
            (EntryKind::SaidGone, vec![Step::Create { key, value: word.to_bytes(), keep: Keep::Forever }])
        }
    };
    let entry = Entry::of(what).with("node", sender.node.as_str()).with("journal", sender.journal.as_str());
    let entry = entry.with("saidBy", said_by).with("reason", reason);
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}
