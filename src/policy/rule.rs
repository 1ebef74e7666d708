//! `[[rule]]`: which requests pass, wait for people, or go no further.

use std::sync::Arc;

use super::Known;
use super::asked::{Facts, View};
use super::condition::{Condition, Sense, Untold};
use super::document::{Place, Table};
use super::rate::{self, Mode};
use super::when::{self, Vocabulary, When};
use crate::base::finding::Finding;

/// What becomes of a request. The later beats the earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    Allow,
    Hold,
    Deny,
}

pub(super) const EFFECTS: [(&str, Effect); 3] =
    [("allow", Effect::Allow), ("hold", Effect::Hold), ("deny", Effect::Deny)];

impl Effect {
    pub fn as_str(self) -> &'static str {
        match self {
            Effect::Allow => "allow",
            Effect::Hold => "hold",
            Effect::Deny => "deny",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub id: Arc<str>,
    /// The line and the column that it stands in.
    pub place: (usize, usize),
    pub effect: Effect,
    /// What must be reached; a Hold has one, and nothing else has.
    pub approval: Option<Arc<str>>,
    pub mode: Mode,
    pub(super) when: When,
}

impl Rule {
    pub(super) fn sense(&self) -> Sense {
        match self.effect {
            Effect::Allow => Sense::Permits,
            Effect::Hold | Effect::Deny => Sense::Restricts,
        }
    }

    /// Whether it is about a request of one of its operations.
    pub(super) fn matches(&self, view: &View<'_>, facts: &Facts) -> Result<bool, Untold> {
        all_hold(&self.when.conditions, view, facts, self.sense())
    }

    /// The one condition that keeps it from being about a request; nothing if it is about it, or several do.
    pub(super) fn near(&self, view: &View<'_>, facts: &Facts) -> Option<&Condition> {
        let mut missed = self.when.conditions.iter().filter(|c| c.holds(view, facts, self.sense()) == Ok(false));
        let one = missed.next()?;
        missed.next().is_none().then_some(one)
    }
}

/// Whether all conditions hold. One that fails decides, whatever could not be told about the others, so that their
/// order means nothing.
pub(super) fn all_hold(conditions: &[Condition], view: &View<'_>, facts: &Facts, sense: Sense) -> Result<bool, Untold> {
    let mut untold = None;
    for condition in conditions {
        match condition.holds(view, facts, sense) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(fault) => untold = Some(fault),
        }
    }
    untold.map_or(Ok(true), Err)
}

/// Reads one; what is wrong goes to the findings.
pub(super) fn read(
    mut table: Table<'_>,
    known: &Known<'_>,
    words: &Vocabulary,
    findings: &mut Vec<Finding>,
) -> Option<Rule> {
    let place = table.place;
    let id = rate::id(&mut table);
    let remedy = "write `effect = \"allow\"`, `\"hold\"` or `\"deny\"`";
    let effect = table.required("effect", remedy, |table, name| table.choice(name, &EFFECTS));
    let approval = approval(&mut table, words);
    match (effect, &approval) {
        (Some(Effect::Hold), None) => {
            table.fault(place, "`approval` is missing: nobody could release what is held", "name an `[approval.NAME]`");
        }
        (Some(Effect::Allow | Effect::Deny), Some(_)) => {
            table.fault(place, "`approval` goes with `effect = \"hold\"` alone", "leave it out, or hold");
        }
        _ => {}
    }
    let mode = table.choice("mode", &rate::MODES).unwrap_or(Mode::Enforce);
    let remedy = "write for example `when = { op = [\"createSwap\"] }`";
    let when = table.required("when", remedy, Table::nested).and_then(|mut nested| {
        let when = when::read(&mut nested, known, words);
        table.include(nested);
        when
    });
    let is_good = table.end(findings);
    let read = Rule { id: id?, place, effect: effect?, approval, mode, when: when? };
    is_good.then_some(read)
}

/// The name of an approval that there is.
pub(super) fn approval(table: &mut Table<'_>, words: &Vocabulary) -> Option<Arc<str>> {
    let (place, name): (Place, String) = table.text("approval")?;
    if !words.approvals.contains(&name) {
        table.unknown_name(place, "an approval", &name, words.approvals.iter().map(String::as_str));
    }
    Some(name.into())
}
