//! Whether the people that approvals name can reach them, whoever asks.

use std::collections::BTreeSet;

use crate::base::finding::Finding;
use crate::policy::Policies;
use crate::policy::quorum::{Groups, each_alone, missing};
use crate::policy::words::Need;

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

fn reach(need: &Need, groups: &Groups) -> Reach {
    let Some(ways) = need.ways() else { return Reach::NotProved };
    let named = ways.iter().flatten().filter_map(|(group, _)| groups.get(*group));
    let members: BTreeSet<&String> = named.flatten().collect();
    let subjects: BTreeSet<&str> = members.iter().map(|member| subject(member)).collect();
    for person in subjects {
        let others = members.iter().filter(|member| subject(member) != person).map(|member| (*member).clone());
        let others = each_alone(others);
        if !ways.iter().any(|way| missing(way, groups, &others).is_empty()) {
            return Reach::NotFor(person.to_owned());
        }
    }
    Reach::ByAll
}

/// People are compared by subject: an issuer more does not make two of one.
fn subject(member: &str) -> &str {
    member.split_once(':').map_or(member, |(_, subject)| subject)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(list: &[(&str, &[&str])]) -> Groups {
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
