//! What people did, as an audit log tells of it, that a store lacks: it is told of freezes and of gates that are gone, and people
//! do the rest again.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::freeze::{Forgotten, Freeze};
use super::gone::{self, GoneWord};
use super::owner::Owner;
use crate::audit::EntryKind;
use crate::base::ids::Environment;
use crate::ledger::{Commit, JournalId, NodeId, Number, Sender};

/// The most acts that are named to people.
const MAX_NAMED: usize = 8;
/// The acts that nobody can do for people again, and without which the store lets more pass. Of an agreement, a word of one or
/// the end of a freeze it lets less pass, and holds end where votes may be missing.
const NOT_TOLD: [EntryKind; 2] = [EntryKind::StandInRevoked, EntryKind::SessionsEnded];

/// The entries of a node's log that a store lacks. Numbers of two histories say nothing of each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LackedEntries {
    pub node: NodeId,
    /// The number behind which the store lacks commits of this node, and the one up to which.
    pub from: u64,
    pub up_to: u64,
    /// The number up to which the log is of another history.
    pub apart_up_to: u64,
    /// The last number of the journal from which the store was rebuilt, and the one behind which that journal begins.
    pub known_up_to: Option<u64>,
    pub begins_behind: u64,
}

impl LackedEntries {
    /// What a store lacks of the log of a node, where money is closed for this.
    pub fn of(node: &NodeId, waits: &Forgotten, from: u64, apart_up_to: u64) -> LackedEntries {
        let Forgotten { lacks_up_to: up_to, known_up_to, begins_behind, .. } = *waits;
        LackedEntries { node: node.clone(), from, up_to, apart_up_to, known_up_to, begins_behind }
    }

    fn has(&self, node: &NodeId, number: Number) -> bool {
        let number = number.as_u64();
        // What was done since the store goes on without these commits is in the store.
        let is_before = number <= self.up_to;
        let is_unknown = *node == self.node || self.known_up_to.is_some_and(|known| number > known);
        number <= self.begins_behind
            || (is_before && is_unknown && number > self.from)
            || (number > self.from && number <= self.apart_up_to)
    }
}

/// The freezes and the words on gates that stand at the end of a log, and what else people did.
#[derive(Debug, Default)]
pub struct ToldActs {
    freezes: BTreeMap<String, ToldFreeze>,
    gone: BTreeMap<Sender, ToldGone>,
    not_told: Vec<(EntryKind, NodeId, Number)>,
    /// The last set of policies that took force, and the node and the number of its commit.
    took_force: Option<(String, NodeId, Number)>,
}

#[derive(Debug)]
struct ToldFreeze {
    person: Owner,
    reason: String,
    /// The node and the number of its commit.
    node: NodeId,
    number: Number,
}

/// The word of one person, or of two, that a gate is gone.
#[derive(Debug)]
struct ToldGone {
    word: GoneWord,
    is_complete: bool,
    unknown_behind: Option<u64>,
    /// The node and the number of its last commit.
    node: NodeId,
    number: Number,
}

impl ToldActs {
    /// Adds an entry, in the order of the log.
    pub(super) fn add(&mut self, entry: &Map<String, Value>, (by_node, number): (&NodeId, Number)) {
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        let reason = text("reason").unwrap_or_default().to_owned();
        let what = text("what").and_then(EntryKind::parse);
        self.not_told.extend(what.filter(|what| NOT_TOLD.contains(what)).map(|what| (what, by_node.clone(), number)));
        if what == Some(EntryKind::TookForce)
            && let Some(version) = text("policy")
        {
            self.took_force = Some((version.to_owned(), by_node.clone(), number));
        }
        match (text("what"), text("freeze"), entry.get("by").and_then(owner_of)) {
            (Some("frozen"), Some(name), Some(person)) => {
                self.freezes.insert(name.to_owned(), ToldFreeze { person, reason, node: by_node.clone(), number });
            }
            (Some("unfrozen"), Some(name), _) => drop(self.freezes.remove(name)),
            (Some(what @ ("said-gone" | "gone")), ..) => {
                let sender = text("node").and_then(NodeId::parse).zip(text("journal").and_then(JournalId::parse));
                let Some((node, journal)) = sender else { return };
                let people = entry.get("saidBy").and_then(Value::as_array).into_iter().flatten();
                let said_by = people.filter_map(Value::as_str).map(str::to_owned).collect();
                let unknown_behind = entry.get("unknownBehind").and_then(Value::as_u64);
                let word = GoneWord { said_by, reason };
                let told =
                    ToldGone { word, is_complete: what == "gone", unknown_behind, node: by_node.clone(), number };
                self.gone.insert(Sender { node, journal }, told);
            }
            _ => {}
        }
    }

    /// Returns the freezes that a store lacks, each with who froze, and why.
    pub fn lacked_freezes(&self, lacks: &LackedEntries) -> Vec<(Freeze, Owner, String)> {
        let lacked = self.freezes.iter().filter(|(_, told)| lacks.has(&told.node, told.number));
        let lacked =
            lacked.filter_map(|(name, told)| Some((Freeze::parse(name)?, told.person.clone(), told.reason.clone())));
        lacked.collect()
    }

    /// Returns the gates of which people said that they are gone, where a store lacks it, each with the commit that says so
    /// again.
    pub fn gone_again(&self, lacks: &LackedEntries, environment: Environment) -> Vec<(Sender, Commit)> {
        let lacked = self.gone.iter().filter(|(_, told)| lacks.has(&told.node, told.number));
        let again = lacked.map(|(sender, told)| {
            let (word, unknown_behind) = ((&told.word, told.is_complete), told.unknown_behind);
            (sender.clone(), gone::say_again(environment, sender, word, unknown_behind, &lacks.node))
        });
        again.collect()
    }

    /// Says what else people did that a store lacks; `None` where there is nothing.
    pub fn not_told(&self, lacks: &LackedEntries, is_in_force: &dyn Fn(&str) -> bool) -> Option<String> {
        let set = self.took_force.iter().filter(|(version, ..)| !is_in_force(version));
        let set = set
            .map(|(version, node, number)| (format!("`{}` of the set {version}", EntryKind::TookForce), node, *number));
        let others = self.not_told.iter().rev().map(|(what, node, number)| (format!("`{what}`"), node, *number));
        let lacked = set.chain(others).filter(|(_, node, number)| lacks.has(node, *number));
        let mut named: Vec<String> = lacked.map(|(what, _, number)| format!("{what} (number {number})")).collect();
        let more = named.len().saturating_sub(MAX_NAMED);
        named.truncate(MAX_NAMED);
        let more = if more > 0 { format!(", and {more} before") } else { String::new() };
        (!named.is_empty()).then(|| {
            format!(
                "the store lacks what people did, which the journal of `{}` has: {}{more}; see what of it still counts, and do it \
                 again",
                lacks.node,
                named.join(", ")
            )
        })
    }
}

pub(super) fn owner_of(written: &Value) -> Option<Owner> {
    let text = |name: &str| written.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(Owner::named(text("issuer")?, text("subject")?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str) -> NodeId {
        NodeId::parse(name).unwrap()
    }

    /// Acts of a log, each by a node under a number.
    fn told(acts: &[(Value, &str, u64)]) -> ToldActs {
        let mut told = ToldActs::default();
        for (entry, by, number) in acts {
            told.add(entry.as_object().unwrap(), (&node(by), Number::new(*number)));
        }
        told
    }

    fn frozen(name: &str) -> Value {
        json!({"what": "frozen", "freeze": name, "by": {"issuer": "people", "subject": "ops-1"}, "reason": "drill"})
    }

    /// The store lacks what this node did behind 2, and went on up to 62 before it was rebuilt.
    fn lacks() -> LackedEntries {
        let (known_up_to, up_to) = (Some(62), 900);
        LackedEntries { node: node("left"), from: 2, up_to, apart_up_to: 0, known_up_to, begins_behind: 0 }
    }

    fn again(told: &ToldActs, lacks: &LackedEntries) -> usize {
        told.lacked_freezes(lacks).len()
    }

    #[test]
    fn a_freeze_that_the_store_lacks_is_told_whatever_its_number_is() {
        let cases = [
            ("left", 2, 0, 0),
            // The store has another entry under this number.
            ("left", 5, 0, 1),
            ("right", 5, 0, 0),
            ("right", 5, 6, 1),
            ("right", 2, 6, 0),
            ("right", 63, 0, 1),
            // Since the rebuild, it is in the store.
            ("left", 901, 0, 0),
        ];
        for (by, number, apart_up_to, count) in cases {
            let told = told(&[(frozen("operation/createSwap"), by, number)]);
            assert_eq!(again(&told, &LackedEntries { apart_up_to, ..lacks() }), count, "{by} {number} {apart_up_to}");
        }
        let early = told(&[(frozen("all"), "right", 3)]);
        assert_eq!(again(&early, &LackedEntries { begins_behind: 7, ..lacks() }), 1);
        let lifted = told(&[(frozen("all"), "left", 5), (json!({"what": "unfrozen", "freeze": "all"}), "left", 6)]);
        assert_eq!(again(&lifted, &lacks()), 0);
    }

    #[test]
    fn people_are_told_of_sets_and_other_acts_that_nobody_does_again() {
        let set = |version: &str| json!({"what": "took-force", "policy": version});
        let ended = json!({"what": "sessions-ended", "person": "people/ops-2"});
        let told = told(&[(set("loose"), "left", 1), (set("strict"), "left", 5), (ended, "left", 6)]);
        let text = told.not_told(&lacks(), &|version| version == "loose").unwrap();
        assert!(text.contains("`took-force` of the set strict (number 5), `sessions-ended` (number 6)"), "{text}");
        assert!(!told.not_told(&lacks(), &|version| version == "strict").unwrap().contains("took-force"));
        assert_eq!(told.not_told(&LackedEntries { from: 6, ..lacks() }, &|_| false), None);
    }
}
