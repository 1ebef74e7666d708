//! A store that lost claims. Money stays closed until every node has reported what its own audit log contains, or a person
//! opens it.
//!
//! The calls of an audit log that a store lost are told to it, as [`super::told_claims`] says.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::freeze::{self, Forgotten, Freeze, Frozen};
use crate::audit::{Entry, EntryKind, UnusedNumbers};
use crate::base::ids::Environment;
use crate::ledger::{Commit, Content, Index, Keep, NodeId, Number, Record, Step};

/// The most reasons in one record.
const MAX_REASONS: usize = 16;

impl Forgotten {
    /// Reads the record of [`Freeze::Restored`].
    pub fn read(record: &[u8]) -> Forgotten {
        let all_else = || Forgotten { by_person: true, ..Forgotten::default() };
        freeze::forgotten(record).unwrap_or_else(all_else)
    }

    /// Whether the last awaited node opens money.
    pub fn opens_by_itself(&self) -> bool {
        !self.by_person && self.begins_behind == 0
    }

    /// Whether the store may lack what was done after something that it knows. Of what it has behind the beginning of a
    /// journal, it has the newest.
    pub fn may_lack_newer(&self) -> bool {
        self.by_person || !self.nodes.is_empty()
    }

    /// Leaves money closed until a person opens it, and keeps the reason for later closings.
    pub fn must_be_opened(&mut self, reason: &str) {
        self.by_person = true;
        if self.reasons.len() < MAX_REASONS && !self.reasons.iter().any(|known| known == reason) {
            self.reasons.push(reason.to_owned());
        }
    }

    /// Adds the nodes of another closing; of each, the store lacks what either lacks.
    pub fn awaits_also(&mut self, other: &Forgotten) {
        for (node, from) in &other.nodes {
            let known = self.nodes.entry(node.clone()).or_insert(*from);
            *known = (*from).min(*known);
        }
        self.lacks_up_to = self.lacks_up_to.max(other.lacks_up_to);
        self.differ.extend(other.differ.iter().cloned());
        self.here.extend(other.here.iter().cloned());
        self.knows_of(&other.made);
    }

    /// Reads the record of [`Freeze::Restored`] that the store has, if it has one, and its version.
    pub fn of_record(record: Option<Record>) -> (Option<Number>, Forgotten) {
        let Some(record) = record else { return (None, Forgotten::default()) };
        let bytes = match &record.content {
            Content::Whole(bytes) => bytes.as_ref(),
            Content::Spent => b"",
        };
        (Some(record.version), Forgotten::read(bytes))
    }

    /// Notes commits that others were told of.
    pub fn knows_of(&mut self, made: &BTreeMap<NodeId, u64>) {
        for (node, number) in made {
            let known = self.made.entry(node.clone()).or_default();
            *known = (*number).max(*known);
        }
    }

    fn written(&self, why: (&str, &str)) -> Bytes {
        freeze::written(why, Some(self.clone()))
    }
}

/// What a rebuild makes of money.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoneyAfterRebuild {
    Closed(RebuildClosing),
    /// Nothing is missing: a closing by an earlier rebuild, if there is one, ends.
    Open(Option<Number>),
}

/// The reasons that close money after a rebuild.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebuildClosing {
    /// The commit that closed money before, if it is closed.
    pub before: Option<Number>,
    /// The nodes whose journals hold commits that the rebuilt store lacks.
    pub waits_for: Forgotten,
    /// For people.
    pub why: String,
}

impl MoneyAfterRebuild {
    /// Decides over money behind a rebuild from a journal with everything up to a number, for which these reasons keep it
    /// closed. `closed`: the commit that closed money before, as the journal has it, and what it waits for.
    pub fn decided(
        closed: Option<(Number, Forgotten)>,
        mut waits_for: Forgotten,
        up_to: Number,
        reasons: &[String],
    ) -> MoneyAfterRebuild {
        let before = closed.as_ref().map(|(version, _)| *version);
        if reasons.is_empty() {
            return MoneyAfterRebuild::Open(before);
        }
        waits_for.known_up_to = Some(up_to.as_u64());
        // What closed money before this loss has not been answered yet.
        if let Some((_, former)) = closed {
            waits_for.by_person |= former.by_person;
            former.reasons.iter().for_each(|reason| waits_for.must_be_opened(reason));
            waits_for.known_up_to = former.known_up_to.or(waits_for.known_up_to);
            waits_for.awaits_also(&former);
        }
        let why = format!("the store lost its memory: {}", reasons.join("; "));
        MoneyAfterRebuild::Closed(RebuildClosing { before, waits_for, why })
    }
}

/// The commit behind a rebuild of a lost store from a journal, above all numbers that any node knows.
pub fn rebuilt(environment: Environment, unused: UnusedNumbers, money: MoneyAfterRebuild, node: &NodeId) -> Commit {
    const BY: &str = "sluice serve";
    let what = Freeze::Restored;
    let mut entry = unused.stated(Entry::of(EntryKind::Rebuilt).with("by", BY));
    let mut steps = vec![Step::Above(Number::new(unused.last))];
    let key = what.key(environment);
    match money {
        MoneyAfterRebuild::Closed(RebuildClosing { before, mut waits_for, why }) => {
            waits_for.lacks_up_to = unused.last;
            let nodes: Vec<&str> = waits_for.nodes.keys().map(NodeId::as_str).collect();
            entry = entry.with("freeze", what.name()).with("reason", why.as_str()).with("nodes", nodes);
            let (keep, value) = (Keep::Forever, waits_for.written((BY, &why)));
            steps.push(match before {
                None => Step::Create { key, value, keep },
                Some(version) => Step::Replace { key, version, value, keep },
            });
            steps.push(Step::IndexAdd { index: Index::Frozen, member: what.name(), due: Duration::ZERO });
        }
        MoneyAfterRebuild::Open(Some(version)) => {
            entry = entry.with("opens", what.name());
            steps.push(Step::Delete { key, version });
            steps.push(Step::IndexRemove { index: Index::Frozen, member: what.name() });
        }
        MoneyAfterRebuild::Open(None) => {}
    }
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// Records that this node has reported all it knows; the last node opens money. `former` says who closed it, and why.
pub fn remembered(
    environment: Environment,
    version: Number,
    mut forgotten: Forgotten,
    former: &Frozen,
    node: &NodeId,
) -> Commit {
    forgotten.nodes.remove(node);
    let what = Freeze::Restored;
    let key = what.key(environment);
    let opens = forgotten.nodes.is_empty() && forgotten.opens_by_itself();
    let by = "sluice serve";
    let steps = if opens {
        let remove = Step::IndexRemove { index: Index::Frozen, member: what.name() };
        vec![Step::Delete { key, version }, remove]
    } else {
        let reason = former.reason.as_deref().unwrap_or("the store lost records that nodes still know");
        let value = forgotten.written((former.by.as_deref().unwrap_or(by), reason));
        vec![Step::Replace { key, version, value, keep: Keep::Forever }]
    };
    let happened = if opens { EntryKind::Unfrozen } else { EntryKind::Remembered };
    let entry = Entry::of(happened).with("freeze", what.name()).with("by", by);
    let entry = entry.with("reason", "the store has again what this node's audit log holds");
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// Records that a node came without the journal for which the store waits: a person must open money.
pub fn never_remembered(
    environment: Environment,
    version: Number,
    mut forgotten: Forgotten,
    why: &str,
    node: &NodeId,
) -> Commit {
    forgotten.nodes.remove(node);
    let (what, by) = (Freeze::Restored, "sluice serve");
    forgotten.must_be_opened(why);
    let value = forgotten.written((by, why));
    let steps = vec![Step::Replace { key: what.key(environment), version, value, keep: Keep::Forever }];
    let entry = Entry::of(EntryKind::Remembered).with("freeze", what.name()).with("by", by).with("reason", why);
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// Closes money until a person opens it, because of what a journal lacks, or what the store lacks of it. Guarded: money is
/// closed by the version `before`, if it is closed.
pub fn closed_for_gap(
    environment: Environment,
    before: Option<Number>,
    mut forgotten: Forgotten,
    why: &str,
    node: &NodeId,
) -> Commit {
    forgotten.must_be_opened(why);
    closed_awaiting(environment, before, &forgotten, why, node)
}

/// Closes money until nodes have told what the store may lack. Guarded: money is closed by the version `before`, if it is
/// closed.
pub fn closed_awaiting(
    environment: Environment,
    before: Option<Number>,
    forgotten: &Forgotten,
    why: &str,
    node: &NodeId,
) -> Commit {
    let (what, by) = (Freeze::Restored, "sluice serve");
    let (key, keep) = (what.key(environment), Keep::Forever);
    let value = forgotten.written((by, why));
    let record = match before {
        None => Step::Create { key, value, keep },
        Some(version) => Step::Replace { key, version, value, keep },
    };
    let add = Step::IndexAdd { index: Index::Frozen, member: what.name(), due: Duration::ZERO };
    let entry = Entry::of(EntryKind::Frozen).with("freeze", what.name()).with("by", by).with("reason", why);
    Commit { environment, node: node.clone(), steps: vec![record, add], entry: entry.to_bytes() }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::base::json::{self, Limits};

    /// A closing that stays would have the store rebuilt again for each journal that begins earlier than the one that was
    /// used then, for ever.
    #[test]
    fn a_rebuild_with_which_nothing_is_missing_ends_an_earlier_closing() {
        let (environment, gate) = (Environment::Production, NodeId::parse("gate").unwrap());
        let former = Forgotten {
            begins_behind: 4,
            known_up_to: Some(7),
            nodes: [(gate.clone(), 3)].into(),
            ..Forgotten::default()
        };
        let closed = || Some((Number::new(9), former.clone()));
        let unused = UnusedNumbers { behind: 9, last: 20, begins: 0 };
        let after = |closed, reasons: &[String]| {
            let money = MoneyAfterRebuild::decided(closed, Forgotten::default(), Number::new(9), reasons);
            let commit = rebuilt(environment, unused, money.clone(), &gate);
            let Value::Object(entry) = json::parse(&commit.entry, Limits::ANSWER).unwrap() else { panic!() };
            (money, commit.steps, entry)
        };
        let key = Freeze::Restored.key(environment);
        let (_, steps, entry) = after(closed(), &[]);
        let delete = Step::Delete { key: key.clone(), version: Number::new(9) };
        let remove = Step::IndexRemove { index: Index::Frozen, member: Freeze::Restored.name() };
        assert_eq!(steps, [Step::Above(Number::new(20)), delete, remove]);
        assert_eq!(entry["opens"], Freeze::Restored.name());
        let (_, steps, entry) = after(None, &[]);
        assert_eq!((steps, entry.get("opens")), (vec![Step::Above(Number::new(20))], None));

        // What is still missing stays closed, with what was missing before.
        let (money, steps, entry) = after(closed(), &["`other` did not come yet".to_owned()]);
        let MoneyAfterRebuild::Closed(RebuildClosing { before, waits_for, .. }) = money else { panic!("it is closed") };
        assert_eq!((before, waits_for.known_up_to), (Some(Number::new(9)), Some(7)));
        assert_eq!(waits_for.nodes, former.nodes);
        let Step::Replace { key: its, version, value, .. } = &steps[1] else { panic!("it replaces the record") };
        assert_eq!((its, version.as_u64()), (&key, 9));
        // Everything up to the rebuild may be what it lacks.
        assert_eq!(Forgotten::read(value).lacks_up_to, 20);
        assert_eq!(entry.get("opens"), None);
    }

    #[test]
    fn a_node_that_reports_leaves_the_reason_of_the_closing_as_it_was() {
        let [left, right] = ["left", "right"].map(|name| NodeId::parse(name).unwrap());
        let mut waits = Forgotten { nodes: [(left.clone(), 3), (right, 4)].into(), ..Forgotten::default() };
        for number in 0..2 * MAX_REASONS {
            waits.must_be_opened("the journal begins in the middle");
            waits.must_be_opened(&format!("reason {number}"));
        }
        assert_eq!((waits.reasons.len(), waits.by_person), (MAX_REASONS, true));
        let former = Frozen { by: Some("people/ops-1".to_owned()), reason: Some("the disk was lost".to_owned()) };
        let commit = remembered(Environment::Production, Number::new(9), waits.clone(), &former, &left);
        let [Step::Replace { value, .. }] = commit.steps.as_slice() else { panic!("it replaces the record") };
        assert_eq!(freeze::frozen(value), former);
        let now = Forgotten::read(value);
        assert!(!now.nodes.contains_key(&left) && now.nodes.len() == 1);
        assert_eq!(now.reasons, waits.reasons);
    }
}
