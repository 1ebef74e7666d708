//! What people did that outlasts a rebuild without it, as an audit log tells of it: freezes, and gates that are gone.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::freeze::{self, Freeze};
use super::gone::{self, GoneWord};
use super::owner::Owner;
use crate::base::ids::Environment;
use crate::ledger::{Commit, JournalId, NodeId, Number, Sender};

/// The freezes and the words on gates that stand at the end of a log.
#[derive(Debug, Default)]
pub struct ToldActs {
    freezes: BTreeMap<String, ToldFreeze>,
    gone: BTreeMap<Sender, ToldGone>,
}

#[derive(Debug)]
struct ToldFreeze {
    person: Owner,
    reason: String,
    /// The number of its commit.
    number: Number,
}

/// The word of one person, or of two, that a gate is gone.
#[derive(Debug)]
struct ToldGone {
    word: GoneWord,
    is_complete: bool,
    unknown_behind: Option<u64>,
    /// The number of its last commit.
    number: Number,
}

impl ToldActs {
    /// Adds an entry, in the order of the log.
    pub(super) fn add(&mut self, entry: &Map<String, Value>, number: Number) {
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        let reason = text("reason").unwrap_or_default().to_owned();
        match (text("what"), text("freeze"), entry.get("by").and_then(owner_of)) {
            (Some("frozen"), Some(name), Some(person)) => {
                self.freezes.insert(name.to_owned(), ToldFreeze { person, reason, number });
            }
            (Some("unfrozen"), Some(name), _) => drop(self.freezes.remove(name)),
            (Some(what @ ("said-gone" | "gone")), ..) => {
                let sender = text("node").and_then(NodeId::parse).zip(text("journal").and_then(JournalId::parse));
                let Some((node, journal)) = sender else { return };
                let people = entry.get("saidBy").and_then(Value::as_array).into_iter().flatten();
                let said_by = people.filter_map(Value::as_str).map(str::to_owned).collect();
                let unknown_behind = entry.get("unknownBehind").and_then(Value::as_u64);
                let word = GoneWord { said_by, reason };
                let told = ToldGone { word, is_complete: what == "gone", unknown_behind, number };
                self.gone.insert(Sender { node, journal }, told);
            }
            _ => {}
        }
    }

    /// Returns the commits that make the freezes again that stand behind a number.
    pub fn freezes_behind(&self, number: u64, environment: Environment, node: &NodeId) -> Vec<Commit> {
        let behind = self.freezes.iter().filter(|(_, told)| told.number.as_u64() > number);
        let again = behind.filter_map(|(name, told)| {
            Some(freeze::freeze(&Freeze::parse(name)?, environment, &told.person, &told.reason, node))
        });
        again.collect()
    }

    /// Returns the gates of which people said behind a number that they are gone, each with the commit that says so again.
    pub fn gone_behind(&self, number: u64, environment: Environment, node: &NodeId) -> Vec<(Sender, Commit)> {
        let behind = self.gone.iter().filter(|(_, told)| told.number.as_u64() > number);
        let again = behind.map(|(sender, told)| {
            let unknown_behind = told.unknown_behind;
            let commit = gone::say_again(environment, sender, (&told.word, told.is_complete), unknown_behind, node);
            (sender.clone(), commit)
        });
        again.collect()
    }
}

pub(super) fn owner_of(written: &Value) -> Option<Owner> {
    let text = |name: &str| written.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(Owner::named(text("issuer")?, text("subject")?))
}
