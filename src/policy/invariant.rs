//! `[[invariant]]`: a claim about every request, proved when a set is loaded.

use std::sync::Arc;

use super::KnownNames;
use super::condition::{Condition, Sense};
use super::document::DocumentTable;
use super::rate;
use super::rule::Effect;
use super::when::{self, Vocabulary, When};
use crate::base::finding::Finding;
use crate::base::word_enum::word_enum;

#[derive(Clone, Debug, PartialEq)]
pub struct Invariant {
    pub id: Arc<str>,
    pub file: String,
    /// The line and the column of the table.
    pub place: (usize, usize),
    pub claim: InvariantClaim,
    pub effect: Effect,
    pub(super) when: When,
}

word_enum! {
    /// The claim about the requests that the invariant matches.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum InvariantClaim {
        /// No such request has the effect.
        Never = "never",
        /// Every such request has the effect.
        Always = "always",
    }
}

impl Invariant {
    /// An invariant that promises passage matches requests whose every name fits, like a rule that allows; all others
    /// match if any name fits.
    pub(super) fn sense(&self) -> Sense {
        match (self.claim, self.effect) {
            (InvariantClaim::Always, Effect::Allow) | (InvariantClaim::Never, Effect::Deny) => Sense::Permits,
            (InvariantClaim::Always | InvariantClaim::Never, _) => Sense::Restricts,
        }
    }

    pub(super) fn conditions(&self) -> &[Condition] {
        &self.when.conditions
    }
}

/// Reads an invariant; errors go to the findings.
pub(super) fn read_invariant(
    file: &str,
    mut table: DocumentTable<'_>,
    known: &KnownNames<'_>,
    words: &Vocabulary,
    findings: &mut Vec<Finding>,
) -> Option<Invariant> {
    let place = table.place;
    let id = rate::id(&mut table);
    let remedy = "write for example `never = { effect = \"allow\", op = [\"@money\"], amount = \"(5000, inf) USD\" }`";
    let (never, always) = (table.nested("never"), table.nested("always"));
    let claimed = match (never, always) {
        (Some(never), None) => Some((InvariantClaim::Never, never)),
        (None, Some(always)) => Some((InvariantClaim::Always, always)),
        (None, None) if ["never", "always"].iter().any(|name| table.has_misspelt(name)) => None,
        _ => {
            table.fault(place, "exactly one of `never` and `always` is required", remedy);
            None
        }
    };
    let claimed = claimed.map(|(claim, mut nested)| {
        let effect = nested.required("effect", |table, name| table.choice(name, &Effect::WORDS));
        let when = when::read_when(&mut nested, known, words);
        table.include(nested);
        (claim, effect, when)
    });
    let is_good = table.end(findings);
    let (claim, effect, when) = claimed?;
    let read = Invariant { id: id?, file: file.to_owned(), place, claim, effect: effect?, when: when? };
    is_good.then_some(read)
}
