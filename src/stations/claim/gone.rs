//! Gates that will never return: two people declare a gate and its journal gone.
//!
//! From then on the store takes nothing from it but proofs of execution, so that people may say of its calls that they
//! were not executed. A gate of the same name with a new journal is another one.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::first_word::WORD_LASTS;
use super::owner::Owner;
use crate::audit::{Entry, EntryKind};
use crate::base::ids::Environment;
use crate::base::json as strict_json;
use crate::ledger::{Commit, Index, JournalId, Keep, Kind, NodeId, Number, RecordKey, Sender, Step};

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
        strict_json::from_record(record, FORMAT).unwrap_or_default()
    }

    fn to_bytes(&self) -> Bytes {
        strict_json::to_record(self, FORMAT).into()
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

/// Records that a gate came with a new journal. It pays as long as the store is whole; `lost` has its former journals, and
/// how far each of them reached.
pub fn journal_lost(environment: Environment, sender: &Sender, lost: &[(JournalId, Number)]) -> Commit {
    let former: Vec<Value> =
        lost.iter().map(|(journal, up_to)| json!({ "journal": journal.as_str(), "upTo": up_to.as_u64() })).collect();
    let entry = Entry::of(EntryKind::JournalLost).with("node", sender.node.as_str());
    let entry = entry.with("journal", sender.journal.as_str()).with("former", former);
    Commit { environment, node: sender.node.clone(), steps: Vec::new(), entry: entry.to_bytes() }
}

/// Records that the journal of a gate that is gone for good was taken in. `lacks` has the numbers that it never had.
pub fn retired(environment: Environment, sender: &Sender, up_to: Number, lacks: &[(u64, u64)], reason: &str) -> Commit {
    let entry = Entry::of(EntryKind::Retired).with("node", sender.node.as_str());
    let entry = entry.with("journal", sender.journal.as_str()).with("journalUpTo", up_to.as_u64());
    let lacks: Vec<Value> = lacks.iter().map(|(first, last)| json!({ "first": first, "last": last })).collect();
    let entry = entry.with("lacks", lacks).with("by", "sluice nodes retire").with("reason", reason);
    Commit { environment, node: sender.node.clone(), steps: Vec::new(), entry: entry.to_bytes() }
}

/// Records a person's word that a gate is gone. `first`: the record of another person's word, which this one completes.
/// `unknown_behind`: the store was rebuilt without what the gate did behind this number.
pub fn say_gone(
    environment: Environment,
    sender: &Sender,
    (person, reason): (&Owner, &str),
    first: Option<(Number, &GoneWord)>,
    unknown_behind: Option<u64>,
    node: &NodeId,
) -> Commit {
    let before = first.map(|(_, word)| word.said_by.clone()).unwrap_or_default();
    let said_by: Vec<String> = before.into_iter().chain([person.to_string()]).collect();
    let word = GoneWord { said_by, reason: reason.to_owned() };
    let mut commit = say_again(environment, sender, (&word, first.is_some()), unknown_behind, node);
    let delete = |(version, _)| Step::Delete { key: said_gone_key(environment, sender), version };
    commit.steps.extend(first.map(delete));
    commit
}

/// Records the words of people that a gate is gone as they stood before the store was rebuilt without them.
pub(super) fn say_again(
    environment: Environment,
    sender: &Sender,
    (word, is_complete): (&GoneWord, bool),
    unknown_behind: Option<u64>,
    node: &NodeId,
) -> Commit {
    let value = word.to_bytes();
    let (what, steps) = if is_complete {
        let create = Step::Create { key: gone_key(environment, sender), value, keep: Keep::Forever };
        let add = Step::IndexAdd { index: Index::Gone, member: sender.to_string(), due: Duration::ZERO };
        (EntryKind::Gone, vec![create, add])
    } else {
        let keep = Keep::For { whole: WORD_LASTS, spent: Duration::ZERO };
        (EntryKind::SaidGone, vec![Step::Create { key: said_gone_key(environment, sender), value, keep }])
    };
    let entry = Entry::of(what).with("node", sender.node.as_str()).with("journal", sender.journal.as_str());
    let mut entry = entry.with("saidBy", word.said_by.clone()).with("reason", word.reason.as_str());
    if let Some(number) = unknown_behind {
        entry = entry.with("unknownBehind", number);
    }
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}
