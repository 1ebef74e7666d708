//! `[[invariant]]`: what must be so of every request, whatever the rules say; to be proved when a set is loaded.

use std::sync::Arc;

use super::Known;
use super::condition::{Condition, Sense};
use super::document::Table;
use super::rate;
use super::rule::{EFFECTS, Effect};
use super::when::{self, Vocabulary, When};
use crate::base::finding::Finding;

#[derive(Clone, Debug, PartialEq)]
pub struct Invariant {
    pub id: Arc<str>,
    pub file: String,
    /// The line and the column that it stands in.
    pub place: (usize, usize),
    pub claim: Claim,
    pub effect: Effect,
    pub(super) when: When,
}

/// What is claimed of the requests that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// None of them has the effect.
    Never,
    /// Each of them has it.
    Always,
}

impl Claim {
    pub fn as_str(self) -> &'static str {
        match self {
            Claim::Never => "never",
            Claim::Always => "always",
        }
    }
}

impl Invariant {
    /// One that promises passage is about requests of which every name fits, as a rule that allows is; all others
    /// about those of which any fits.
    pub(super) fn sense(&self) -> Sense {
        match (self.claim, self.effect) {
            (Claim::Always, Effect::Allow) | (Claim::Never, Effect::Deny) => Sense::Permits,
            (Claim::Always | Claim::Never, _) => Sense::Restricts,
        }
    }

    pub(super) fn conditions(&self) -> &[Condition] {
        &self.when.conditions
    }
}

/// Reads one; what is wrong goes to the findings.
pub(super) fn read(
    file: &str,
    mut table: Table<'_>,
    known: &Known<'_>,
    words: &Vocabulary,
    findings: &mut Vec<Finding>,
) -> Option<Invariant> {
    let place = table.place;
    let id = rate::id(&mut table);
    let remedy = "write for example `never = { effect = \"allow\", op = [\"@money\"], amount = \"(5000, inf) USD\" }`";
    let (never, always) = (table.nested("never"), table.nested("always"));
    let claimed = match (never, always) {
        (Some(never), None) => Some((Claim::Never, never)),
        (None, Some(always)) => Some((Claim::Always, always)),
        _ => {
            table.fault(place, "it is not said what is never or always so: one of `never` and `always`", remedy);
            None
        }
    };
    let claimed = claimed.map(|(claim, mut nested)| {
        let effects = "write `effect = \"allow\"`, `\"hold\"` or `\"deny\"`";
        let effect = nested.required("effect", effects, |table, name| table.choice(name, &EFFECTS));
        let when = when::read(&mut nested, known, words);
        table.include(nested);
        (claim, effect, when)
    });
    let is_good = table.end(findings);
    let (claim, effect, when) = claimed?;
    let read = Invariant { id: id?, file: file.to_owned(), place, claim, effect: effect?, when: when? };
    is_good.then_some(read)
}
