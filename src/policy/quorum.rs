//! Decides whether enough people approved: numbers of members of groups, any or all of several such.
//!
//! Within one approval a person counts for one requirement only, whomever they stand in for; and a member counts once,
//! whoever stands in for them. People are written as in groups: the name of their issuer, a colon, their subject.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::condition::Condition;
use super::rate::Mode;
use super::request::Field;
use super::rule::Effect;
use super::rules::Rules;
use super::words::{Groups, MAX_WAYS, Need, Voices};
use crate::base::folded::folded;
use crate::base::ids::Environment;

/// The most people that one requirement may demand.
const MAX_PEOPLE: u64 = 1_000;

/// A number of members of each group.
type QuorumWay<'n> = Vec<(&'n str, u64)>;

/// The progress of an approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    pub name: Arc<str>,
    /// The number of people in the option that lacks the fewest.
    pub needed: u64,
    pub given: u64,
    /// The groups of the missing people, and how many of each.
    pub missing: Vec<(String, u64)>,
}

impl Progress {
    pub fn is_reached(&self) -> bool {
        self.missing.is_empty()
    }
}

impl Rules {
    /// Returns the progress that these voices make; `None` if there is no approval of that name.
    pub fn progress(&self, approval: &str, voices: &Voices) -> Option<Progress> {
        let (name, approval) = self.approvals.get_key_value(approval)?;
        let ways = approval.need.ways()?;
        let tried = ways.iter().map(|way| (needed(way), missing(way, &self.groups, voices)));
        let lacking = |missing: &[(String, u64)]| missing.iter().map(|(_, count)| *count).fold(0, u64::saturating_add);
        let (needed, missing) = tried.min_by_key(|(_, missing)| lacking(missing))?;
        Some(Progress { name: name.clone(), needed, given: needed.saturating_sub(lacking(&missing)), missing })
    }

    /// Returns the first rule or limit in force that could hold a call of an environment.
    pub fn holding_in(&self, environment: Environment) -> Option<&str> {
        let rule = self.rules.iter().find(|rule| {
            let is_there = is_in(environment, &rule.when.conditions);
            rule.effect == Effect::Hold && rule.mode == Mode::Enforce && is_there
        });
        let limit = self
            .limits
            .iter()
            .find(|limit| limit.over.is_some() && limit.mode == Mode::Enforce && is_in(environment, &limit.conditions));
        rule.map(|rule| &*rule.id).or(limit.map(|limit| &*limit.id))
    }

    /// Whether a person may vote on an approval.
    pub fn may_say(&self, approval: &str, person: &str) -> bool {
        let groups = self.approvals.get(approval).map(|approval| approval.need.groups()).unwrap_or_default();
        groups.iter().any(|group| self.groups.get(*group).is_some_and(|members| members.contains(person)))
    }
}

/// Returns voices of people who only stand for themselves.
pub fn each_alone(people: impl IntoIterator<Item = String>) -> Voices {
    people.into_iter().map(|person| (person.clone(), BTreeSet::from([person]))).collect()
}

/// Returns one voice for each person, who may stand for any of their names: the same subject at two issuers, or in
/// two spellings, is one person.
pub fn each_person(people: impl IntoIterator<Item = String>) -> Voices {
    let mut voices = Voices::new();
    for name in people {
        let subject = name.split_once(':').map_or(name.as_str(), |(_, subject)| subject);
        voices.entry(folded(subject)).or_default().insert(name);
    }
    voices
}

impl Need {
    /// Returns every option to complete it; `None` if there are too many.
    pub(super) fn ways(&self) -> Option<Vec<QuorumWay<'_>>> {
        let ways = match self {
            Need::People { count, .. } if *count > MAX_PEOPLE => return None,
            Need::People { group, count } => vec![vec![(group.as_str(), *count)]],
            Need::Any(needs) => needs.iter().map(Need::ways).collect::<Option<Vec<_>>>()?.concat(),
            Need::All(needs) => {
                let mut all: Vec<QuorumWay<'_>> = vec![Vec::new()];
                for need in needs {
                    let ways = need.ways()?;
                    let pairs = all.iter().flat_map(|so_far| ways.iter().map(move |way| (so_far, way)));
                    all = pairs.map(|(so_far, way)| [so_far.as_slice(), way.as_slice()].concat()).collect();
                    if all.len() > MAX_WAYS {
                        return None;
                    }
                }
                all
            }
        };
        (ways.len() <= MAX_WAYS).then_some(ways)
    }

    fn groups(&self) -> Vec<&str> {
        match self {
            Need::People { group, .. } => vec![group],
            Need::Any(needs) | Need::All(needs) => needs.iter().flat_map(Need::groups).collect(),
        }
    }
}

fn needed(way: &QuorumWay<'_>) -> u64 {
    way.iter().map(|(_, count)| *count).fold(0, u64::saturating_add)
}

/// Returns what the best assignment of voices to members, and members to groups, leaves open.
pub(super) fn missing(way: &QuorumWay<'_>, groups: &Groups, voices: &Voices) -> Vec<(String, u64)> {
    let seats: Vec<&str> = way.iter().flat_map(|(group, count)| (0..*count).map(|_| *group)).collect();
    let table = QuorumTable::of(&seats, groups, voices).seated();
    let mut open: BTreeMap<&str, u64> = BTreeMap::new();
    for (seat, sits) in seats.iter().zip(&table.sitting) {
        if sits.is_none() {
            let count = open.entry(seat).or_default();
            *count = count.saturating_add(1);
        }
    }
    open.into_iter().map(|(group, count)| (group.to_owned(), count)).collect()
}

/// Assigns voices to members and members to seats, each at most once. It fills as many seats as possible, by moving
/// earlier assignments.
#[derive(Debug)]
struct QuorumTable {
    /// For each voice, the members that it may stand for.
    may_speak: Vec<Vec<usize>>,
    /// For each member, the seats that fit.
    may_sit: Vec<Vec<usize>>,
    /// For each member, the voice that stands for it; `None` without a seat.
    spoken_for: Vec<Option<usize>>,
    /// For each seat, the member.
    sitting: Vec<Option<usize>>,
}

/// The nodes that a search has visited.
#[derive(Debug, Default)]
struct SeenQuorums {
    members: BTreeSet<usize>,
    seats: BTreeSet<usize>,
}

impl QuorumTable {
    fn of(seats: &[&str], groups: &Groups, voices: &Voices) -> QuorumTable {
        let members: BTreeSet<&String> = voices.values().flatten().collect();
        let place = |member: &String| members.iter().position(|one| *one == member);
        let fits = |member: &String| {
            let fit = |(_, group): &(usize, &&str)| groups.get(**group).is_some_and(|people| people.contains(member));
            seats.iter().enumerate().filter(fit).map(|(at, _)| at).collect()
        };
        QuorumTable {
            may_speak: voices.values().map(|spoken| spoken.iter().filter_map(place).collect()).collect(),
            may_sit: members.iter().map(|member| fits(member)).collect(),
            spoken_for: vec![None; members.len()],
            sitting: vec![None; seats.len()],
        }
    }

    fn seated(mut self) -> QuorumTable {
        for voice in 0..self.may_speak.len() {
            self.speak(voice, &mut SeenQuorums::default());
        }
        self
    }

    /// Finds a member for a voice that has none.
    fn speak(&mut self, voice: usize, seen: &mut SeenQuorums) -> bool {
        for member in self.may_speak.get(voice).cloned().unwrap_or_default() {
            if !seen.members.insert(member) {
                continue;
            }
            let found = match self.spoken_for.get(member).copied().flatten() {
                None => self.sit(member, seen),
                Some(other) => self.speak(other, seen),
            };
            if found {
                self.hear(member, Some(voice));
                return true;
            }
        }
        false
    }

    /// Finds a seat for a member, which gives up its former one.
    fn sit(&mut self, member: usize, seen: &mut SeenQuorums) -> bool {
        for seat in self.may_sit.get(member).cloned().unwrap_or_default() {
            if !seen.seats.insert(seat) {
                continue;
            }
            let is_free = match self.sitting.get(seat).copied().flatten() {
                None => true,
                Some(other) => self.sit(other, seen) || self.is_let_go(other, seen),
            };
            if is_free && let Some(place) = self.sitting.get_mut(seat) {
                *place = Some(member);
                return true;
            }
        }
        false
    }

    /// Whether the voice of a member can stand for another instead.
    fn is_let_go(&mut self, member: usize, seen: &mut SeenQuorums) -> bool {
        let Some(voice) = self.spoken_for.get(member).copied().flatten() else { return false };
        let is_let_go = seen.members.insert(member) && self.speak(voice, seen);
        if is_let_go {
            self.hear(member, None);
        }
        is_let_go
    }

    fn hear(&mut self, member: usize, voice: Option<usize>) {
        if let Some(place) = self.spoken_for.get_mut(member) {
            *place = voice;
        }
    }
}

/// Whether a rule or limit with these conditions may bind calls of an environment.
pub(super) fn is_in(environment: Environment, conditions: &[Condition]) -> bool {
    conditions.iter().all(|condition| match condition {
        Condition::Names(Field::Environment, names) => names.contains(environment.as_str()),
        Condition::NotNames(Field::Environment, names) => !names.contains(environment.as_str()),
        _ => true,
    })
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
        let approval = Approval { need, expires: Duration::from_secs(60), signed: false };
        let mut rules = Rules::default();
        rules.approvals.insert(Arc::from("dual"), approval);
        rules.groups = groups;
        rules
    }

    fn of(group: &str, count: u64) -> Need {
        Need::People { group: group.to_owned(), count }
    }

    fn counted(need: Need, people: &[&str]) -> (u64, u64, bool) {
        counted_of(need, &each_alone(people.iter().map(|one| format!("p:{one}"))))
    }

    fn counted_of(need: Need, voices: &Voices) -> (u64, u64, bool) {
        let progress = rules(need).progress("dual", voices).unwrap();
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
    fn who_speaks_for_others_is_one_and_so_is_who_is_spoken_for() {
        let dual = || Need::All(vec![of("ops", 2), of("finance", 1)]);
        let counted = |voices: &[(&str, &[&str])]| {
            let name = |one: &&str| format!("p:{one}");
            let voices = voices.iter().map(|(who, members)| (name(who), members.iter().map(name).collect()));
            counted_of(dual(), &voices.collect()).0
        };
        assert_eq!(counted(&[("x", &["x", "a"])]), 1, "a stand-in who is no member");
        assert_eq!(counted(&[("x", &["x", "a", "b", "d"])]), 1, "one person, whomever they speak for");
        assert_eq!(counted(&[("x", &["x", "a"]), ("a", &["a"])]), 1, "a sits once");
        assert_eq!(counted(&[("x", &["x", "a"]), ("y", &["a"])]), 1, "and has one stand-in at a time");
        assert_eq!(counted(&[("b", &["a", "b"])]), 1, "a member and stand-in fills one seat");
        assert_eq!(counted(&[("a", &["a"]), ("b", &["a", "b"])]), 2, "and here their own");
        assert_eq!(counted(&[("b", &["a", "b"]), ("a", &["a", "d"])]), 2);
        assert_eq!(counted(&[("c", &["a", "c"]), ("b", &["b"]), ("a", &["a", "c"])]), 3, "c sits for finance");
        assert_eq!(counted(&[("a", &["a", "d"]), ("b", &["b"]), ("x", &["x", "a"])]), 3, "a speaks for d, x for a");
        assert_eq!(counted(&[("x", &["a"]), ("a", &["a", "d"]), ("b", &["b"])]), 3, "in whatever order");
    }

    /// Compares with the best of all assignments.
    #[test]
    fn no_choice_fills_more_seats() {
        let names = ["p:a", "p:b", "p:c", "p:d"];
        let way = vec![("ops", 2_u64), ("finance", 1)];
        let groups = rules(of("ops", 1)).groups;
        let left = |voices: &Voices| missing(&way, &groups, voices).iter().map(|(_, count)| *count).sum::<u64>();
        for case in 0..4096_usize {
            let spoken = |voice: usize| {
                let members = names.iter().enumerate().filter(|(at, _)| case >> (voice * 4 + at) & 1 == 1);
                members.map(|(_, name)| (*name).to_owned()).collect::<BTreeSet<_>>()
            };
            let voices: Voices = (0..3).map(|voice| (format!("v{voice}"), spoken(voice))).collect();
            let choices = |voice: usize| {
                let each = voices[&format!("v{voice}")].iter().map(|member| Some(member.clone()));
                each.chain([None]).collect::<Vec<_>>()
            };
            let mut least = 3;
            for (x, y, z) in each_choice(&choices(0), &choices(1), &choices(2)) {
                let said: Vec<&String> = [x, y, z].into_iter().flatten().collect();
                let members: BTreeSet<String> = said.iter().map(|one| (*one).clone()).collect();
                if members.len() == said.len() {
                    least = least.min(left(&each_alone(members)));
                }
            }
            assert_eq!(left(&voices), least, "{voices:?}");
        }
    }

    type Choice = Option<String>;

    fn each_choice<'c>(x: &'c [Choice], y: &'c [Choice], z: &'c [Choice]) -> Vec<(&'c Choice, &'c Choice, &'c Choice)> {
        let pairs = x.iter().flat_map(|x| y.iter().map(move |y| (x, y)));
        pairs.flat_map(|(x, y)| z.iter().map(move |z| (x, y, z))).collect()
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
        let progress = rules.progress("dual", &each_alone(["p:a".to_owned()])).unwrap();
        assert_eq!(progress.missing, [("finance".to_owned(), 1), ("ops".to_owned(), 1)]);
        assert_eq!(rules.progress("other", &Voices::new()), None);
        assert!(rules.may_say("dual", "p:d") && !rules.may_say("dual", "q:d") && !rules.may_say("other", "p:d"));
    }

    #[test]
    fn ways_without_end_are_not_counted() {
        let pair = || Need::Any(vec![of("ops", 1), of("finance", 1)]);
        let six = |count| Need::All((0..count).map(|_| pair()).collect());
        assert_eq!(six(6).ways().map(|ways| ways.len()), Some(MAX_WAYS));
        assert_eq!(six(7).ways(), None);
        assert_eq!(of("ops", u64::MAX).ways(), None);
        assert_eq!(rules(six(7)).progress("dual", &Voices::new()), None);
    }
}
