//! Whether the people that approvals name can reach them, whoever asks.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::finding::Finding;
use crate::policy::Policies;
use crate::policy::words::Need;

/// How many ways to reach an approval are looked at.
const MOST_WAYS: usize = 256;
/// How many people may be asked of one way.
const MOST_PEOPLE: usize = 1_000;

/// One way to reach an approval: so many of each of these groups, all of them different people.
type Way<'n> = Vec<(&'n str, usize)>;

/// Approvals that could never be reached for what some member asks.
pub(crate) fn unreachable(policies: &Policies) -> Vec<Finding> {
    let each = policies.rules.approvals.iter();
    each.filter_map(|(name, approval)| {
        let (file, (line, column)) = policies.place_of("approval", name)?;
        let text = match reach(&approval.need, &policies.rules.groups) {
            Reach::ByAll => return None,
            Reach::NotFor(person) => format!(
                "`{name}` could never be reached for what `{person}` asks: nobody votes on what they ask themselves"
            ),
            Reach::NotProved => format!("`{name}` has too many ways to be reached: it is not proved that there is one"),
        };
        let finding = Finding::error(file, text).at(format!("{line}:{column}"));
        Some(finding.remedy("add members to its groups, ask for fewer, or offer another way with `any`"))
    })
    .collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reach {
    ByAll,
    NotFor(String),
    NotProved,
}

fn reach(need: &Need, groups: &BTreeMap<String, BTreeSet<String>>) -> Reach {
    let Some(ways) = ways(need) else { return Reach::NotProved };
    let members = |group: &str| groups.get(group).into_iter().flatten();
    let people: BTreeSet<&str> =
        ways.iter().flatten().flat_map(|(group, _)| members(group)).map(|member| subject(member)).collect();
    for person in people {
        let is_free = |member: &&String| subject(member) != person;
        let open = |way: &Way<'_>| {
            let seats = way.iter().flat_map(|(group, count)| std::iter::repeat_n(*group, *count));
            let seats: Vec<Vec<&str>> =
                seats.map(|group| members(group).filter(is_free).map(String::as_str).collect()).collect();
            are_filled(&seats)
        };
        if !ways.iter().any(open) {
            return Reach::NotFor(person.to_owned());
        }
    }
    Reach::ByAll
}

/// People are compared by subject: an issuer more does not make two of one.
fn subject(member: &str) -> &str {
    member.split_once(':').map_or(member, |(_, subject)| subject)
}

/// Nothing where there are too many.
fn ways(need: &Need) -> Option<Vec<Way<'_>>> {
    let ways = match need {
        Need::People { group, count } => vec![vec![(group.as_str(), usize::try_from(*count).ok()?)]],
        Need::Any(needs) => needs.iter().map(ways).collect::<Option<Vec<_>>>()?.concat(),
        Need::All(needs) => {
            let mut all: Vec<Way<'_>> = vec![Vec::new()];
            for need in needs {
                let more = ways(need)?;
                if all.len().saturating_mul(more.len()) > MOST_WAYS {
                    return None;
                }
                all = all.iter().flat_map(|way| more.iter().map(|m| [way.as_slice(), m].concat())).collect();
            }
            all
        }
    };
    let people = |way: &Way<'_>| way.iter().map(|(_, count)| *count).sum::<usize>();
    (ways.len() <= MOST_WAYS && ways.iter().all(|way| people(way) <= MOST_PEOPLE)).then_some(ways)
}

/// Whether every seat has a person of its own, of those that may sit there.
fn are_filled(seats: &[Vec<&str>]) -> bool {
    let mut seated: BTreeMap<&str, usize> = BTreeMap::new();
    (0..seats.len()).all(|seat| seats_one(seat, seats, &mut seated, &mut BTreeSet::new()))
}

/// Seats somebody, and moves others to other seats if need be.
fn seats_one<'p>(
    seat: usize,
    seats: &[Vec<&'p str>],
    seated: &mut BTreeMap<&'p str, usize>,
    asked: &mut BTreeSet<&'p str>,
) -> bool {
    for person in seats.get(seat).into_iter().flatten() {
        if !asked.insert(person) {
            continue;
        }
        let other = seated.get(person).copied();
        if other.is_none_or(|other| seats_one(other, seats, seated, asked)) {
            seated.insert(person, seat);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(list: &[(&str, &[&str])]) -> BTreeMap<String, BTreeSet<String>> {
        let set = |members: &[&str]| members.iter().map(|member| format!("console:{member}")).collect();
        list.iter().map(|(name, members)| ((*name).to_owned(), set(members))).collect()
    }

    fn people(group: &str, count: u64) -> Need {
        Need::People { group: group.to_owned(), count }
    }

    #[test]
    fn a_quorum_must_be_reached_without_the_one_who_asks() {
        let groups = groups(&[("ops", &["a", "b", "c"]), ("two", &["d", "e"]), ("mixed", &["a", "b"])]);
        let reach = |need: Need| reach(&need, &groups);
        assert_eq!(reach(people("ops", 2)), Reach::ByAll);
        assert_eq!(reach(people("ops", 3)), Reach::NotFor("a".to_owned()));
        assert_eq!(reach(people("two", 2)), Reach::NotFor("d".to_owned()));
        assert_eq!(reach(Need::Any(vec![people("two", 2), people("ops", 3)])), Reach::ByAll);
        assert_eq!(reach(Need::All(vec![people("two", 1), people("ops", 2)])), Reach::ByAll);
        // Two of three and one of two of them: three people, and one of the three asks.
        assert_eq!(reach(Need::All(vec![people("ops", 2), people("mixed", 1)])), Reach::NotFor("a".to_owned()));
        assert_eq!(reach(Need::All(vec![people("ops", 1), people("mixed", 1)])), Reach::ByAll);
        let many = Need::All((0..10).map(|_| Need::Any(vec![people("ops", 1), people("two", 1)])).collect());
        assert_eq!(reach(many), Reach::NotProved);
    }

    #[test]
    fn one_person_of_two_issuers_is_one() {
        let mut groups = groups(&[("ops", &["a", "b"])]);
        groups.get_mut("ops").unwrap().insert("main:a".to_owned());
        assert_eq!(reach(&people("ops", 2), &groups), Reach::NotFor("a".to_owned()));
    }
}
