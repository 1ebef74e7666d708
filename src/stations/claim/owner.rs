//! Callers and people by name, and the one comparison of people.

use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

use crate::base::folded::folded;
use crate::stations::admit::{Caller, OF_THE_GATE};

/// The owner of a claim, or a person. Nobody else learns anything of a claim. Two are equal if their names are, byte for
/// byte.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    pub issuer: String,
    pub subject: String,
    /// Whether the issuer's subjects were opaque when this was recorded: then another case or form is another person.
    pub opaque: bool,
}

impl Owner {
    pub fn of(caller: &Caller) -> Owner {
        let opaque = caller.has_opaque_subject();
        Owner { issuer: caller.issuer().to_owned(), subject: caller.subject().to_owned(), opaque }
    }

    /// The gate, for what it asks upstream itself.
    pub fn of_the_gate() -> Owner {
        Owner::named(OF_THE_GATE, OF_THE_GATE)
    }

    /// Somebody of whose issuer no more is known than the name, so that the subject is compared in its folded form.
    pub fn named(issuer: impl Into<String>, subject: impl Into<String>) -> Owner {
        Owner { issuer: issuer.into(), subject: subject.into(), opaque: false }
    }

    /// Whether two names may be of one person. Subjects are compared across issuers. A difference in letter case, or in
    /// the form of characters, counts only where both were recorded as opaque: so neither a change of the setting nor two
    /// issuers with different settings make two people of one.
    pub fn is_same_person(&self, other: &Owner) -> bool {
        if self.opaque && other.opaque {
            return self.subject == other.subject;
        }
        folded(&self.subject) == folded(&other.subject)
    }

    /// Whether a text `issuer/subject` may be of this person. A text does not tell whether its subject is opaque.
    pub fn is_named_by(&self, text: &str) -> bool {
        text.split_once('/').is_some_and(|(issuer, subject)| Owner::named(issuer, subject).is_same_person(self))
    }

    /// Another subject of the same issuer.
    pub fn beside(&self, subject: &str) -> Owner {
        Owner { subject: subject.to_owned(), ..self.clone() }
    }
}

impl PartialEq for Owner {
    fn eq(&self, other: &Owner) -> bool {
        (&self.issuer, &self.subject) == (&other.issuer, &other.subject)
    }
}

impl Eq for Owner {}

impl Hash for Owner {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.issuer, &self.subject).hash(state);
    }
}

/// The form in the audit log and for operators. The name of an issuer contains no slash.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.issuer, self.subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(subject: &str, opaque: bool) -> Owner {
        Owner { opaque, ..Owner::named("people", subject) }
    }

    const ALIKE: [(&str, &str); 16] = [
        ("ops-1", "OPS-1"),
        ("ops-1", " Ops-1 "),
        ("ops-1", "\u{ff4f}ps-1"),
        ("jos\u{e9}", "JOSE\u{301}"),
        ("\u{130}zmir", "i\u{307}zmir"),
        ("ﬁnance", "finance"),
        ("\u{391}\u{3a3}", "\u{3b1}\u{3c3}"),
        ("\u{391}\u{3a3}", "\u{3b1}\u{3c2}"),
        ("stra\u{df}e", "STRASSE"),
        ("STRA\u{1e9e}E", "strasse"),
        ("ops-1", "ops-1\u{ad}"),
        ("ops-1", "ops\u{200b}-1"),
        ("ops-1", "ops-1\u{200d}"),
        ("ops-1", "\u{feff}ops-1"),
        ("ops-1", "ops-1\u{fe0f}"),
        ("\u{1fb3}", "\u{3b1}\u{399}"),
    ];

    #[test]
    fn one_person_is_one_in_every_case_and_form() {
        let is_same = |one: &str, other: &str| person(one, false).is_same_person(&person(other, false));
        for (one, other) in ALIKE {
            assert!(is_same(one, other) && is_same(other, one), "{one} {other}");
        }
        for (one, other) in [("ops-1", "ops-2"), ("jose", "jos\u{e9}"), ("ops-1", "ops-1x"), ("ops", "o ps")] {
            assert!(!is_same(one, other), "{one} {other}");
        }
    }

    #[test]
    fn opaque_subjects_are_told_apart_only_where_both_are_opaque() {
        for (one, other) in ALIKE {
            assert!(!person(one, true).is_same_person(&person(other, true)), "{one} {other}");
            assert!(person(one, true).is_same_person(&person(one, true)), "{one}");
            // Of two issuers with different settings, or before and after a change of the setting.
            assert!(person(one, true).is_same_person(&person(other, false)), "{one} {other}");
            assert!(person(one, false).is_same_person(&person(other, true)), "{one} {other}");
            // A text alone does not tell.
            assert!(person(one, true).is_named_by(&format!("people/{other}")), "{one} {other}");
        }
        assert_eq!(person("ops-1", true), person("ops-1", false), "names are equal however they are compared");
    }

    #[test]
    fn a_record_keeps_the_mark() {
        let read = |text: &str| serde_json::from_str::<Owner>(text).unwrap();
        let kept = serde_json::to_string(&person("Ab3", true)).unwrap();
        assert!(read(&kept).opaque);
        let plain = serde_json::to_string(&person("ops-1", false)).unwrap();
        assert!(!read(&plain).opaque);
    }
}
