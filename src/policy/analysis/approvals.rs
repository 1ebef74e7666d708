//! Compares approvals: whether one demands at least as much as another.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::policy::Policies;
use crate::policy::words::Need;

/// The approvals of two policy sets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sides<'s> {
    pub old: &'s Policies,
    pub new: &'s Policies,
}

impl Sides<'_> {
    /// Whether a name has the same people and the same expiry in both sets.
    pub(super) fn is_same(&self, name: &str) -> bool {
        let (old, new) = (self.old.rules.approvals.get(name), self.new.rules.approvals.get(name));
        old == new
            && old.is_none_or(|approval| {
                groups_of(&approval.need)
                    .iter()
                    .all(|group| self.old.rules.groups.get(*group) == self.new.rules.groups.get(*group))
            })
    }

    /// Whether only people who complete the old approval can complete the new one, and no later.
    pub(super) fn is_as_strict(&self, new: &str, old: &str) -> bool {
        match (self.new.rules.approvals.get(new), self.old.rules.approvals.get(old)) {
            (Some(new), Some(old)) => {
                new.expires <= old.expires && (new.signed || !old.signed) && self.implies(&new.need, &old.need)
            }
            _ => false,
        }
    }

    /// Whether every former demand is still made, by one approval or another.
    pub(super) fn are_as_strict(&self, new: &BTreeSet<Arc<str>>, old: &BTreeSet<Arc<str>>) -> bool {
        old.iter().all(|old| new.iter().any(|new| self.is_as_strict(new, old)))
    }

    /// Whether meeting `new` always meets `old`. `true` is certain: different people stay different people.
    fn implies(&self, new: &Need, old: &Need) -> bool {
        match (new, old) {
            (Need::People { group: a, count: n }, Need::People { group: b, count: m }) => {
                let members =
                    |groups: &Policies, name: &String| groups.rules.groups.get(name).cloned().unwrap_or_default();
                n >= m && members(self.new, a).is_subset(&members(self.old, b))
            }
            (Need::Any(ways), old) => ways.iter().all(|way| self.implies(way, old)),
            (new, Need::Any(ways)) => ways.iter().any(|way| self.implies(new, way)),
            (Need::All(needs), Need::All(olds)) => {
                // Each former need must match its own new one.
                let mut left: Vec<&Need> = needs.iter().collect();
                olds.iter().all(|old| {
                    let found = left.iter().position(|new| self.implies(new, old));
                    found.map(|at| left.remove(at)).is_some()
                })
            }
            (Need::All(needs), old @ Need::People { .. }) => needs.iter().any(|need| self.implies(need, old)),
            (new @ Need::People { .. }, Need::All(olds)) => match olds.as_slice() {
                [old] => self.implies(new, old),
                _ => false,
            },
        }
    }
}

fn groups_of(need: &Need) -> Vec<&str> {
    match need {
        Need::People { group, .. } => vec![group.as_str()],
        Need::All(needs) | Need::Any(needs) => needs.iter().flat_map(groups_of).collect(),
    }
}
