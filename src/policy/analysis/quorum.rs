//! Checks that the people in an approval's groups can complete it, whoever asks.

use std::collections::BTreeSet;

use crate::base::finding::Finding;
use crate::base::folded::folded;
use crate::policy::Policies;
use crate::policy::quorum::{each_person, missing};
use crate::policy::rules::Rules;
use crate::policy::words::Groups;
use crate::policy::words::Need;

/// One more than must sign an act.
const PEOPLE_WITH_KEYS: usize = 3;

/// Returns a finding for each approval that cannot be completed for some member's own request, and for signed acts that too
/// few people could sign.
pub(crate) fn unreachable(policies: &Policies) -> Vec<Finding> {
    let mut findings = unreachable_approvals(policies);
    let signing = policies.rules.signing.as_ref().filter(|signing| !signing.acts.is_empty());
    let people = signing.map(|signing| {
        let subjects = signing.passkeys.values().map(|passkey| folded(subject(&passkey.person)));
        subjects.collect::<BTreeSet<String>>().len()
    });
    if let Some(people) = people.filter(|people| *people < PEOPLE_WITH_KEYS)
        && let Some((file, (line, column))) = policies.place_of("signing", "")
    {
        let text = format!(
            "`acts` needs {PEOPLE_WITH_KEYS} people with passkeys, so that two can sign without any one of them; {people} have one"
        );
        let finding = Finding::error(file, text).at(format!("{line}:{column}"));
        findings.push(finding.remedy("have more people enrol first"));
    }
    findings.extend(too_few_recovery_keys(policies));
    findings
}

/// Returns a finding where fewer recovery keys are there than must sign.
fn too_few_recovery_keys(policies: &Policies) -> Option<Finding> {
    let recovery = policies.rules.signing.as_ref()?.recovery.as_ref()?;
    let (needs, keys) = (recovery.needs, recovery.keys.len());
    let (file, (line, column)) = policies.place_of("recovery", "").filter(|_| keys < needs)?;
    let finding = Finding::error(file, format!("`needs` is {needs}, and the set has {keys} recovery keys"));
    Some(finding.at(format!("{line}:{column}")).remedy("add `[[recovery_key]]` tables of `sluice recovery new`"))
}

fn unreachable_approvals(policies: &Policies) -> Vec<Finding> {
    let each = policies.rules.approvals.iter();
    each.filter_map(|(name, approval)| {
        let (file, (line, column)) = policies.place_of("approval", name)?;
        let enrolled;
        let groups = match approval.signed {
            false => &policies.rules.groups,
            true => {
                enrolled = enrolled_groups(&policies.rules);
                &enrolled
            }
        };
        let text = match reach(&approval.need, groups) {
            Reach::ByAll => return None,
            Reach::NotFor(_) if approval.signed => {
                let finding = Finding::error(file, format!("`{name}` takes signed votes, and could not be completed without any one of the people who have a passkey"));
                return Some(finding.at(format!("{line}:{column}")).remedy("have more people of its groups enrol first: at least one more than must approve"));
            }
            Reach::NotFor(person) => format!(
                "`{name}` can never be completed for a request of `{person}`: nobody may approve their own request"
            ),
            Reach::NotProved => format!("`{name}` has too many ways to be completed: it is not proved that one exists"),
        };
        let finding = Finding::error(file, text).at(format!("{line}:{column}"));
        Some(finding.remedy("add members to its groups, require fewer, or add an alternative with `any`"))
    })
    .collect()
}

/// Returns the groups with those people only who have a passkey.
fn enrolled_groups(rules: &Rules) -> Groups {
    let enrolled = |members: &BTreeSet<String>| members.iter().filter(|one| rules.is_enrolled(one)).cloned().collect();
    rules.groups.iter().map(|(name, members)| (name.clone(), enrolled(members))).collect()
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
    let people = each_person(named.flatten().cloned());
    if people.is_empty() {
        return Reach::NotFor(String::new());
    }
    for (person, names) in &people {
        let mut others = people.clone();
        others.remove(person);
        if !ways.iter().any(|way| missing(way, groups, &others).is_empty()) {
            return Reach::NotFor(names.first().map_or("", |name| subject(name)).to_owned());
        }
    }
    Reach::ByAll
}

/// Returns a person's subject: the same subject at two issuers is one person.
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
        // Two of three and one of two of them need three people, but one of the three is the requester.
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

    #[test]
    fn one_person_in_two_spellings_is_one() {
        let groups = groups(&[("ops", &["stra\u{df}e", "STRASSE", "b"]), ("three", &["Ann", "ann", "b", "c"])]);
        assert_eq!(reach(&people("ops", 2), &groups), Reach::NotFor("b".to_owned()));
        assert_eq!(reach(&people("ops", 1), &groups), Reach::ByAll);
        assert_eq!(reach(&people("three", 2), &groups), Reach::ByAll);
        assert_eq!(reach(&people("three", 3), &groups), Reach::NotFor("Ann".to_owned()));
    }
}
