//! Owners of services, and the names of people in groups.

use std::collections::BTreeSet;

use crate::stations::claim::Owner;

/// The configured owners of services, who must not vote on their services' requests, and names that differ between
/// issuers; and the issuers whose subjects are opaque.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// A caller, and the subject of a person.
    all: Vec<(Owner, String)>,
    opaque: BTreeSet<String>,
}

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
            owners.all.push((Owner::named(issuer, subject), person.to_owned()));
        }
        Some(owners)
    }

    /// Names the issuers whose subjects are opaque.
    #[must_use]
    pub fn with_opaque(mut self, issuers: impl IntoIterator<Item = String>) -> Owners {
        self.opaque.extend(issuers);
        for (caller, _) in &mut self.all {
            caller.opaque = self.opaque.contains(&caller.issuer);
        }
        self
    }

    /// Returns whether this person owns the requests of a caller.
    pub fn owns(&self, caller: &Owner, person: &Owner) -> bool {
        let is_owner = |(of, owner): &(Owner, String)| {
            of.issuer == caller.issuer && of.is_same_person(caller) && person.beside(owner).is_same_person(person)
        };
        self.all.iter().any(is_owner)
    }

    /// Returns a recorded person as the configuration compares them today: opaque only if the record says so, too.
    #[must_use]
    pub fn as_today(&self, person: &Owner) -> Owner {
        Owner { opaque: person.opaque && self.opaque.contains(&person.issuer), ..person.clone() }
    }

    /// Returns a person whom the configuration or a policy names.
    pub fn person(&self, issuer: &str, subject: &str) -> Owner {
        Owner { opaque: self.opaque.contains(issuer), ..Owner::named(issuer, subject) }
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
        let owns = |issuer: &str, caller: &str, person: &str| {
            owners.owns(&Owner::named(issuer, caller), &Owner::named("people", person))
        };
        assert!(owns("main", "payroll", "OPS-1") && owns("main", "Payroll", "ops-1"));
        assert!(owns("main", "payrol\u{ff4c}", "ops-1") && owns("main", "payroll", "\u{ff2f}PS-1"));
        assert!(!owns("Main", "payroll", "ops-1") && !owns("main", "payroll", "ops-2"));
    }

    #[test]
    fn an_opaque_owner_is_another_in_other_letters_and_only_if_all_say_so() {
        let owners = Owners::parse(&["main:Payroll=Ab3".to_owned()]).unwrap();
        let owners = owners.with_opaque(["main".to_owned(), "people".to_owned()]);
        let (caller, person) = (owners.person("main", "Payroll"), owners.person("people", "Ab3"));
        assert!(owners.owns(&caller, &person));
        assert!(!owners.owns(&caller.beside("payroll"), &person) && !owners.owns(&caller, &person.beside("aB3")));
        // Recorded while the issuer's subjects were folded.
        assert!(owners.owns(&Owner::named("main", "payroll"), &person));
        assert!(owners.owns(&caller, &Owner::named("people", "aB3")));
    }
}
