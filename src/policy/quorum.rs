//! Whether people are enough for an approval: so many members of groups, any or all of several such.
//!
//! Within one approval a person stands for one requirement alone. People are written as members of groups are: the name
//! of their issuer, a colon, their subject.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::asked::Field;
use super::condition::Condition;
use super::rate::Mode;
use super::rule::Effect;
use super::rules::Rules;
use super::words::Need;
use crate::base::ids::Environment;

/// People by the names of their groups.
pub type Groups = BTreeMap<String, BTreeSet<String>>;

/// An approval with more ways than these to be reached is not read.
pub(super) const MOST_WAYS: usize = 64;
/// As many people as one requirement may ask for.
const MOST_PEOPLE: u64 = 1_000;

/// So many of each group.
type Way<'n> = Vec<(&'n str, u64)>;

/// How far an approval has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    pub name: Arc<str>,
    /// In the way to it that lacks the fewest people.
    pub needed: u64,
    pub given: u64,
    /// Which groups they would come from, and how many of each.
    pub missing: Vec<(String, u64)>,
}

impl Progress {
    pub fn is_reached(&self) -> bool {
        self.missing.is_empty()
    }
}

impl Rules {
    /// How far these people bring an approval; `None` if there is none of the name.
    pub fn progress(&self, approval: &str, people: &BTreeSet<String>) -> Option<Progress> {
        let (name, approval) = self.approvals.get_key_value(approval)?;
        let ways = approval.need.ways()?;
        let tried = ways.iter().map(|way| (needed(way), missing(way, &self.groups, people)));
        let lacking = |missing: &[(String, u64)]| missing.iter().map(|(_, count)| *count).fold(0, u64::saturating_add);
        let (needed, missing) = tried.min_by_key(|(_, missing)| lacking(missing))?;
        Some(Progress { name: name.clone(), needed, given: needed.saturating_sub(lacking(&missing)), missing })
    }

    /// The first rule or limit in force that could let a call of an environment wait for people.
    pub fn holding_in(&self, environment: Environment) -> Option<&str> {
        let elsewhere = |condition: &Condition| match condition {
            Condition::Names(Field::Environment, names) => !names.contains(environment.as_str()),
            _ => false,
        };
        let rule = self.rules.iter().find(|rule| {
            rule.effect == Effect::Hold && rule.mode == Mode::Enforce && !rule.when.conditions.iter().any(elsewhere)
        });
        let limit = self.limits.iter().find(|limit| {
            limit.over.is_some() && limit.mode == Mode::Enforce && !limit.conditions.iter().any(elsewhere)
        });
        rule.map(|rule| &*rule.id).or(limit.map(|limit| &*limit.id))
    }

    /// Whether a person may have a say in an approval.
    pub fn may_say(&self, approval: &str, person: &str) -> bool {
        let groups = self.approvals.get(approval).map(|approval| approval.need.groups()).unwrap_or_default();
        groups.iter().any(|group| self.groups.get(*group).is_some_and(|members| members.contains(person)))
    }
}

impl Need {
    /// Every way to reach it; `None` if there are too many to count.
    pub(super) fn ways(&self) -> Option<Vec<Way<'_>>> {
        let ways = match self {
            Need::People { count, .. } if *count > MOST_PEOPLE => return None,
            Need::People { group, count } => vec![vec![(group.as_str(), *count)]],
            Need::Any(needs) => needs.iter().map(Need::ways).collect::<Option<Vec<_>>>()?.concat(),
            Need::All(needs) => {
                let mut all: Vec<Way<'_>> = vec![Vec::new()];
                for need in needs {
                    let ways = need.ways()?;
                    let pairs = all.iter().flat_map(|so_far| ways.iter().map(move |way| (so_far, way)));
                    all = pairs.map(|(so_far, way)| [so_far.as_slice(), way.as_slice()].concat()).collect();
                    if all.len() > MOST_WAYS {
                        return None;
                    }
                }
                all
            }
        };
        (ways.len() <= MOST_WAYS).then_some(ways)
    }

    fn groups(&self) -> Vec<&str> {
        match self {
            Need::People { group, .. } => vec![group],
            Need::Any(needs) | Need::All(needs) => needs.iter().flat_map(Need::groups).collect(),
        }
    }
}

fn needed(way: &Way<'_>) -> u64 {
    way.iter().map(|(_, count)| *count).fold(0, u64::saturating_add)
}

/// What the best choice of who stands for what leaves open.
pub(super) fn missing(way: &Way<'_>, groups: &Groups, people: &BTreeSet<String>) -> Vec<(String, u64)> {
    let seats: Vec<&str> = way.iter().flat_map(|(group, count)| (0..*count).map(|_| *group)).collect();
    let fits = |person: &str, group: &str| groups.get(group).is_some_and(|members| members.contains(person));
    let mut taken: Vec<Option<&str>> = vec![None; seats.len()];
    for person in people {
        let mut seen = BTreeSet::new();
        sit(person, &seats, &mut taken, &mut seen, &fits);
    }
    let mut open: BTreeMap<&str, u64> = BTreeMap::new();
    for (seat, who) in seats.iter().zip(&taken) {
        if who.is_none() {
            let count = open.entry(seat).or_default();
            *count = count.saturating_add(1);
        }
    }
    open.into_iter().map(|(group, count)| (group.to_owned(), count)).collect()
}

/// Finds a seat for a person, moving others where they fit elsewhere too.
fn sit<'p>(
    person: &'p str,
    seats: &[&str],
    taken: &mut Vec<Option<&'p str>>,
    seen: &mut BTreeSet<usize>,
    fits: &impl Fn(&str, &str) -> bool,
) -> bool {
    for (at, seat) in seats.iter().enumerate() {
        if !fits(person, seat) || !seen.insert(at) {
            continue;
        }
        let sitting = taken.get(at).copied().flatten();
        if sitting.is_none_or(|other| sit(other, seats, taken, seen, fits)) {
            if let Some(place) = taken.get_mut(at) {
                *place = Some(person);
            }
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::words::Approval;
    use super::*;

    fn rules(need: Need) -> Rules {
        let group = |members: &[&str]| members.iter().map(|one| (*one).to_owned()).collect();
        let groups = Groups::from([
            ("ops".to_owned(), group(&["p:a", "p:b", "p:c"])),
            ("finance".to_owned(), group(&["p:c", "p:d"])),
        ]);
        let approval = Approval { need, expires: Duration::from_secs(60) };
        let mut rules = Rules::default();
        rules.approvals.insert(Arc::from("dual"), approval);
        rules.groups = groups;
        rules
    }

    fn of(group: &str, count: u64) -> Need {
        Need::People { group: group.to_owned(), count }
    }

    fn counted(need: Need, people: &[&str]) -> (u64, u64, bool) {
        let people = people.iter().map(|one| format!("p:{one}")).collect();
        let progress = rules(need).progress("dual", &people).unwrap();
        (progress.given, progress.needed, progress.is_reached())
    }

    #[test]
    fn a_person_stands_for_one_requirement() {
        let dual = || Need::All(vec![of("ops", 2), of("finance", 1)]);
        assert_eq!(counted(dual(), &[]), (0, 3, false));
        assert_eq!(counted(dual(), &["a", "b"]), (2, 3, false));
        assert_eq!(counted(dual(), &["a", "c"]), (2, 3, false), "c is in both, and is one");
        assert_eq!(counted(dual(), &["a", "b", "c"]), (3, 3, true), "c sits for finance");
        assert_eq!(counted(dual(), &["a", "c", "d"]), (3, 3, true), "and here for ops");
        assert_eq!(counted(dual(), &["a", "b", "x"]), (2, 3, false), "x is nobody's member");
    }

    #[test]
    fn any_of_several_ways_is_enough_and_they_nest() {
        let any = || Need::Any(vec![of("finance", 2), Need::All(vec![of("ops", 1), of("finance", 1)])]);
        assert_eq!(counted(any(), &["a"]), (1, 2, false));
        assert_eq!(counted(any(), &["a", "b"]), (1, 2, false));
        assert_eq!(counted(any(), &["c"]), (1, 2, false));
        assert_eq!(counted(any(), &["c", "d"]), (2, 2, true));
        assert_eq!(counted(any(), &["a", "d"]), (2, 2, true));
    }

    #[test]
    fn what_is_missing_is_told_by_group() {
        let rules = rules(Need::All(vec![of("ops", 2), of("finance", 1)]));
        let progress = rules.progress("dual", &["p:a".to_owned()].into()).unwrap();
        assert_eq!(progress.missing, [("finance".to_owned(), 1), ("ops".to_owned(), 1)]);
        assert_eq!(rules.progress("other", &BTreeSet::new()), None);
        assert!(rules.may_say("dual", "p:d") && !rules.may_say("dual", "q:d") && !rules.may_say("other", "p:d"));
    }

    #[test]
    fn ways_without_end_are_not_counted() {
        let pair = || Need::Any(vec![of("ops", 1), of("finance", 1)]);
        let six = |count| Need::All((0..count).map(|_| pair()).collect());
        assert_eq!(six(6).ways().map(|ways| ways.len()), Some(MOST_WAYS));
        assert_eq!(six(7).ways(), None);
        assert_eq!(of("ops", u64::MAX).ways(), None);
        assert_eq!(rules(six(7)).progress("dual", &BTreeSet::new()), None);
    }
}
