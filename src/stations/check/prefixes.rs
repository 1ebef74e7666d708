//! Prefixes of requestIds that belong to one caller.
//!
//! All callers of an environment share one space of requestIds, because upstream has one. A caller with a prefix uses
//! only requestIds that begin with it, and nobody else may: so nobody can take another's requestId first.

use std::collections::BTreeSet;

use super::Intent;
use crate::base::ids::is_identifier;
use crate::catalog::{ClaimSource, Violation};
use crate::stations::admit::Caller;

/// The longest prefix: the rest of a requestId tells the calls apart.
const MAX_PREFIX_BYTES: usize = 32;

/// The configured prefixes, each with its caller. No prefix begins with another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestIdPrefixes(Vec<CallerPrefix>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct CallerPrefix {
    issuer: String,
    /// `None`: every caller of the issuer that has none of its own.
    subject: Option<String>,
    prefix: String,
}

impl RequestIdPrefixes {
    /// Parses `main:payroll=pay-`, for one caller, and `main=m-`, for all of an issuer. Returns `None` where a text has
    /// another form.
    pub fn parse(texts: &[String]) -> Option<RequestIdPrefixes> {
        let one = |text: &String| {
            let (caller, prefix) = text.rsplit_once('=')?;
            let (issuer, subject) = match caller.split_once(':') {
                Some((issuer, subject)) => (issuer, Some(subject)),
                None => (caller, None),
            };
            let is_good =
                !issuer.is_empty() && subject != Some("") && is_identifier(prefix) && prefix.len() <= MAX_PREFIX_BYTES;
            let (issuer, subject, prefix) = (issuer.to_owned(), subject.map(str::to_owned), prefix.to_owned());
            is_good.then_some(CallerPrefix { issuer, subject, prefix })
        };
        texts.iter().map(one).collect::<Option<_>>().map(RequestIdPrefixes)
    }

    /// The names of issuers, in the order in which they are written.
    pub fn issuers(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|one| one.issuer.as_str())
    }

    /// Returns the first of these callers, written as `ISSUER:SUBJECT`, that has no prefix, or shares it with another of them.
    pub fn first_without<'c>(&self, callers: &BTreeSet<&'c str>) -> Option<&'c str> {
        let has_own = |caller: &str| {
            let (issuer, subject) = caller.split_once(':')?;
            let of = |subject: Option<&str>| {
                self.0.iter().any(|one| one.issuer == issuer && one.subject.as_deref() == subject)
            };
            let others = callers.iter().filter(|other| other.split_once(':').is_some_and(|(its, _)| its == issuer));
            Some(of(Some(subject)) || (of(None) && others.count() == 1))
        };
        callers.iter().copied().find(|caller| has_own(caller) != Some(true))
    }

    /// Returns two prefixes of which one begins with the other, or two of one caller.
    pub fn conflict(&self) -> Option<(&str, &str)> {
        self.0.iter().enumerate().find_map(|(at, one)| {
            let others = self.0.iter().take(at);
            let collides = |other: &&CallerPrefix| {
                let same = (&one.issuer, &one.subject) == (&other.issuer, &other.subject);
                same || begins_with(&one.prefix, &other.prefix) || begins_with(&other.prefix, &one.prefix)
            };
            others.into_iter().find(collides).map(|other| (other.prefix.as_str(), one.prefix.as_str()))
        })
    }

    /// Returns how the requestId of a call violates the prefixes; the caller learns nothing of whose prefix it is.
    pub fn violation(&self, intent: &Intent) -> Option<Violation> {
        let Some(ClaimSource::Body(pointer)) = &intent.operation().claim else { return None };
        let id = intent.named()?.request_id.as_ref()?;
        let expected = self.expected(intent.caller(), id.as_str())?;
        Some(Violation::new(pointer.as_str(), "prefix", expected))
    }

    fn expected(&self, caller: &Caller, id: &str) -> Option<String> {
        match self.of(caller) {
            Some(own) if id.starts_with(&own.prefix) => None,
            Some(own) => Some(format!("a text that begins with `{}`, the prefix of this caller", own.prefix)),
            // An id in other letters can be the same id.
            None => self
                .0
                .iter()
                .any(|one| begins_with(id, &one.prefix))
                .then(|| "a text that does not begin with the prefix of another caller".to_owned()),
        }
    }

    fn of(&self, caller: &Caller) -> Option<&CallerPrefix> {
        let of = |subject: Option<&str>| {
            self.0.iter().find(|one| one.issuer == caller.issuer() && one.subject.as_deref() == subject)
        };
        of(Some(caller.subject())).or_else(|| of(None))
    }
}

/// Compares without letter case, as UUIDs are compared.
fn begins_with(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes(texts: &[&str]) -> Option<RequestIdPrefixes> {
        RequestIdPrefixes::parse(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_caller_with_a_prefix_uses_it_and_nobody_else_does() {
        let all = prefixes(&["any=x-", "main:payroll=pay-", "main:a=b=ab-"]).unwrap();
        let anyone = crate::stations::admit::VerifiedToken::of_anyone().caller_with(None).unwrap();
        assert_eq!(all.expected(&anyone, "x-1"), None);
        for id in ["1", "X-1", "pay-1", "-x-1"] {
            assert!(all.expected(&anyone, id).unwrap().contains("`x-`"), "{id}");
        }
        let others = prefixes(&["main:payroll=pay-", "any:other=o-"]).unwrap();
        assert_eq!(others.expected(&anyone, "1"), None);
        for id in ["pay-1", "PAY-1", "pay-", "o-7"] {
            let expected = others.expected(&anyone, id).unwrap();
            assert!(!expected.contains("pay") && !expected.contains("main"), "{expected}");
        }
    }

    #[test]
    fn prefixes_have_one_form_and_do_not_overlap() {
        for bad in ["", "main", "=x", "main:=x", "main:payroll=", "main=a b", "main=ü"] {
            assert_eq!(prefixes(&[bad]), None, "{bad}");
        }
        assert!(prefixes(&[&format!("main={}", "x".repeat(33))]).is_none());
        for (one, other) in [("a=x", "b=xy"), ("a=xy", "b=x"), ("a=x", "b=X"), ("a=x", "a=y"), ("a:s=x", "a:s=y")] {
            assert!(prefixes(&[one, other]).unwrap().conflict().is_some(), "{one} {other}");
        }
        assert_eq!(prefixes(&["a=x", "a:s=y", "b=z"]).unwrap().conflict(), None);
    }
}
