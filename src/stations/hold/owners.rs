//! Owners of services, and the names of people in groups.

use std::collections::{BTreeMap, BTreeSet};

use crate::stations::claim::{Owner, compared_subject};

/// The configured owners of services, who must not vote on their services' requests, and names that differ between
/// issuers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners(BTreeMap<(String, String), BTreeSet<String>>);

impl Owners {
    /// Parses `main:payroll=ops-1`: requests of payroll, by a token of `main`, count as those of ops-1. Returns `None`
    /// where a text has another form.
    pub fn parse(texts: &[String]) -> Option<Owners> {
        let mut owners = Owners::default();
        for text in texts {
            let (caller, person) = text.rsplit_once('=')?;
            let (issuer, subject) = caller.split_once(':')?;
            if [issuer, subject, person].iter().any(|part| part.is_empty()) {
                return None;
            }
            let caller = (issuer.to_owned(), compared_subject(subject));
            owners.0.entry(caller).or_default().insert(compared_subject(person));
        }
        Some(owners)
    }

    /// Returns whether this person owns the requests of a caller.
    pub fn owns(&self, issuer: &str, subject: &str, person: &str) -> bool {
        let of = self.0.get(&(issuer.to_owned(), compared_subject(subject)));
        of.is_some_and(|people| people.contains(&compared_subject(person)))
    }
}

/// The name of a person in groups.
pub fn member_of(person: &Owner) -> String {
    format!("{}:{}", person.issuer, person.subject)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_in_other_letters_is_the_owner() {
        let owners = Owners::parse(&["main:Payroll=ops-1".to_owned()]).unwrap();
        assert!(owners.owns("main", "payroll", "OPS-1") && owners.owns("main", "Payroll", "ops-1"));
        assert!(owners.owns("main", "payrol\u{ff4c}", "ops-1") && owners.owns("main", "payroll", "\u{ff2f}PS-1"));
        assert!(!owners.owns("Main", "payroll", "ops-1") && !owners.owns("main", "payroll", "ops-2"));
    }
}
