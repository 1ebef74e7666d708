//! The definitions of two sets side by side: rules, limits, approvals, groups and assets that are not the same.

use std::collections::{BTreeSet, HashMap};

use crate::policy::Policies;
use crate::policy::condition::{Condition, SoughtValue, Ways};
use crate::policy::describe;
use crate::policy::limit::Limit;
use crate::policy::rule::Rule;

/// How many names are listed of those that were added or removed.
const MAX_LISTED: usize = 20;

/// A definition that is not the same in both sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionChange {
    /// The kind and the name: `rule small`.
    pub name: String,
    /// Its words in the old set; `None` if it is not there, or has no words.
    pub before: Option<String>,
    /// Its words in the new set.
    pub then: Option<String>,
    pub members: Vec<MemberChange>,
}

/// The names that a definition has gained or lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberChange {
    pub of: String,
    pub added: BTreeSet<String>,
    pub removed: BTreeSet<String>,
}

/// Returns every definition that differs, in the order of kinds and names.
pub(super) fn side_by_side(old: &Policies, new: &Policies) -> Vec<DefinitionChange> {
    let changes = new.meaning.since(&old.meaning);
    let mut names: Vec<String> =
        changes.removed.iter().chain(&changes.changed).chain(&changes.added).map(|name| name.to_owned()).collect();
    names.sort_unstable();
    let (old, new) = (SetById::of(old), SetById::of(new));
    let change = |name: String| {
        let (kind, id) = name.split_once(' ').unwrap_or((&name, ""));
        let (before, then) = (old.words(kind, id), new.words(kind, id));
        let members = members(&old, &new, kind, id);
        DefinitionChange { before, then, members, name }
    };
    names.into_iter().map(change).collect()
}

/// A set whose definitions are found by their ids.
struct SetById<'p> {
    set: &'p Policies,
    rules: HashMap<&'p str, &'p Rule>,
    limits: HashMap<&'p str, &'p Limit>,
    descriptions: HashMap<String, &'p str>,
}

impl<'p> SetById<'p> {
    fn of(set: &'p Policies) -> SetById<'p> {
        SetById {
            set,
            rules: set.rules.rules.iter().map(|rule| (&*rule.id, rule)).collect(),
            limits: set.rules.limits.iter().map(|limit| (&*limit.id, limit)).collect(),
            descriptions: set.rules.descriptions.all().collect(),
        }
    }

    fn words(&self, kind: &str, id: &str) -> Option<String> {
        match kind {
            "rule" => self.rules.get(id).map(|rule| describe::rule_in_words(rule)),
            "limit" => self.limits.get(id).map(|limit| describe::limit_in_words(limit)),
            "approval" => self.set.rules.approvals.get(id).map(describe::approval),
            "signing" => self.set.rules.signing.as_ref().map(describe::signing),
            "passkey" => self.set.rules.signing.as_ref()?.passkeys.get(id).map(describe::passkey),
            "recovery" => self.set.rules.signing.as_ref()?.recovery.as_ref().map(describe::recovery),
            "recovery_key" => {
                self.set.rules.signing.as_ref()?.recovery.as_ref()?.keys.get(id).map(describe::recovery_key)
            }
            "description" => self.descriptions.get(id).map(|text| (*text).to_owned()),
            _ => None,
        }
    }
}

fn members(old: &SetById<'_>, new: &SetById<'_>, kind: &str, id: &str) -> Vec<MemberChange> {
    let (before, then) = match kind {
        "group" => {
            let of = |by_id: &SetById<'_>| {
                by_id
                    .set
                    .rules
                    .groups
                    .get(id)
                    .map(|members| ("its members".to_owned(), members.clone()))
                    .into_iter()
                    .collect()
            };
            (of(old), of(new))
        }
        "rule" => match (old.rules.get(id), new.rules.get(id)) {
            (Some(old), Some(new)) => (sets_of_rule(old), sets_of_rule(new)),
            _ => return Vec::new(),
        },
        "limit" => {
            let of = |by_id: &SetById<'_>| {
                let limit = by_id.limits.get(id);
                let ids =
                    |limit: &Limit| limit.operations.iter().map(|id| id.as_str().to_owned()).collect::<BTreeSet<_>>();
                let sets = limit.map(|limit| with_operations(ids(limit), &limit.conditions));
                sets.unwrap_or_default()
            };
            (of(old), of(new))
        }
        _ => return Vec::new(),
    };
    changed(&before, &then)
}

fn changed(before: &[(String, BTreeSet<String>)], then: &[(String, BTreeSet<String>)]) -> Vec<MemberChange> {
    let mut found = Vec::new();
    for (of, now) in then {
        let Some((_, was)) = before.iter().find(|(other, _)| other == of) else { continue };
        if was != now {
            let only = |some: &BTreeSet<String>, others: &BTreeSet<String>| some.difference(others).cloned().collect();
            found.push(MemberChange { of: of.clone(), added: only(now, was), removed: only(was, now) });
        }
    }
    found
}

fn sets_of_rule(rule: &Rule) -> Vec<(String, BTreeSet<String>)> {
    with_operations(rule.when.operations.iter().map(|id| id.as_str().to_owned()).collect(), &rule.when.conditions)
}

/// Returns the sets of names, each with the words for what they are.
fn with_operations(operations: BTreeSet<String>, conditions: &[Condition]) -> Vec<(String, BTreeSet<String>)> {
    let mut sets = vec![("the operation".to_owned(), operations)];
    for condition in conditions {
        match condition {
            Condition::Names(field, set) => sets.push((field.as_str().to_owned(), set.clone())),
            Condition::NotNames(field, set) => sets.push((format!("{}, excluded", field.as_str()), set.clone())),
            Condition::NotDestination(Ways { user, wallet, external_wallet }) => {
                for (of, set) in [("user", user), ("wallet", wallet), ("external wallet", external_wallet)] {
                    sets.push((format!("the destination's {of}, excluded"), set.clone()));
                }
            }
            Condition::Destination(Ways { user, wallet, external_wallet }) => {
                for (of, set) in [("user", user), ("wallet", wallet), ("external wallet", external_wallet)] {
                    sets.push((format!("the destination's {of}"), set.clone()));
                }
            }
            Condition::Body(pointer, SoughtValue::Among(set) | SoughtValue::NotAmong(set)) => {
                sets.push((format!("`{pointer}`"), set.iter().map(ToString::to_string).collect()));
            }
            _ => {}
        }
    }
    sets
}

impl MemberChange {
    /// Formats `the account: 2 added (a, b), 1 removed (c)`.
    pub(super) fn in_words(&self) -> String {
        let some = |names: &BTreeSet<String>, word: &str| {
            let listed: Vec<String> = names.iter().take(MAX_LISTED).map(|name| format!("`{name}`")).collect();
            let more = names.len().saturating_sub(listed.len());
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            (!names.is_empty()).then(|| format!("{} {word} ({}{more})", names.len(), listed.join(", ")))
        };
        let both: Vec<String> =
            [some(&self.added, "added"), some(&self.removed, "removed")].into_iter().flatten().collect();
        format!("{}: {}", self.of, both.join(", "))
    }
}
