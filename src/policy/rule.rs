//! `[[rule]]`: which requests are allowed, held or denied.

use std::sync::Arc;

use super::KnownNames;
use super::condition::{Condition, Sense};
use super::document::{DocumentTable, PolicyPlace};
use super::expiry::expiry;
use super::literal::MissingFact;
use super::rate::{self, Mode};
use super::request::{Facts, Field, View};
use super::when::{self, Vocabulary, When};
use crate::base::finding::Finding;
use crate::base::word_enum::word_enum;

word_enum! {
    /// The effect on a request. A later variant beats an earlier one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Effect {
        Allow = "allow",
        Hold = "hold",
        Deny = "deny",
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub id: Arc<str>,
    /// The line and the column of the table.
    pub place: (usize, usize),
    pub effect: Effect,
    /// The approval to complete; a Hold has one, and nothing else has.
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

    /// Returns the callers that it names, as `ISSUER:SUBJECT`.
    pub(super) fn callers(&self) -> impl Iterator<Item = &str> {
        self.names(Field::Caller)
    }

    /// Returns the roles that it names.
    pub(super) fn roles(&self) -> impl Iterator<Item = &str> {
        self.names(Field::Role)
    }

    fn names(&self, wanted: Field) -> impl Iterator<Item = &str> {
        let named = self.when.conditions.iter().filter_map(move |condition| match condition {
            Condition::Names(field, names) if *field == wanted => Some(names.iter().map(String::as_str)),
            _ => None,
        });
        named.flatten()
    }

    /// Whether it matches a request of one of its operations.
    pub(super) fn matches(&self, view: &View<'_>, facts: &Facts) -> Result<bool, MissingFact> {
        all_hold(&self.when.conditions, view, facts, self.sense())
    }

    /// Returns the only condition that fails; `None` if all hold, or several fail. That names have expired fails only where
    /// nothing else does.
    pub(super) fn near(&self, view: &View<'_>, facts: &Facts) -> Option<&Condition> {
        let mut missed = Vec::new();
        for condition in &self.when.conditions {
            match condition.holds(view, facts, self.sense()) {
                Ok(true) => {}
                Ok(false) => missed.push(condition),
                // Nobody knows whether it holds, such as a bound of an amount that cannot be valued.
                Err(_) => return None,
            }
        }
        let (expired, mut missed): (Vec<_>, Vec<_>) =
            missed.into_iter().partition(|condition| matches!(condition, Condition::During(..)));
        if missed.is_empty() { expired.into_iter().next() } else { missed.pop().filter(|_| missed.is_empty()) }
    }
}

/// Whether all conditions hold. One that fails decides, even if facts for others are missing, so that their order has
/// no meaning.
pub(super) fn all_hold(
    conditions: &[Condition],
    view: &View<'_>,
    facts: &Facts,
    sense: Sense,
) -> Result<bool, MissingFact> {
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

/// Reads a rule; errors go to the findings.
pub(super) fn read_rule(
    mut table: DocumentTable<'_>,
    known: &KnownNames<'_>,
    words: &Vocabulary,
    findings: &mut Vec<Finding>,
) -> Option<Rule> {
    let place = table.place;
    let id = rate::id(&mut table);
    let effect = table.required("effect", |table, name| table.choice(name, &Effect::WORDS));
    let approval = approval(&mut table, words);
    match (effect, &approval) {
        (Some(Effect::Hold), None) if !table.has_misspelt("approval") => {
            table.fault(
                place,
                "`approval` is missing: nobody could release what is held",
                "set it to the name of an `[approval.NAME]`",
            );
        }
        (Some(Effect::Allow | Effect::Deny), Some(_)) => {
            table.fault(place, "`approval` needs `effect = \"hold\"`", "remove it, or set `effect = \"hold\"`");
        }
        _ => {}
    }
    let mode = table.choice("mode", &Mode::WORDS).unwrap_or(Mode::Enforce);
    let when = table.required("when", DocumentTable::nested).and_then(|mut nested| {
        let when = when::read_when(&mut nested, known, words);
        table.include(nested);
        when
    });
    let expiry = expiry(&mut table);
    let when = when.map(|mut when| {
        when.conditions.extend(expiry);
        when
    });
    let is_good = table.end(findings);
    let read = Rule { id: id?, place, effect: effect?, approval, mode, when: when? };
    is_good.then_some(read)
}

/// Reads the name of an existing approval.
pub(super) fn approval(table: &mut DocumentTable<'_>, words: &Vocabulary) -> Option<Arc<str>> {
    let (place, name): (PolicyPlace, String) = table.text("approval")?;
    if !words.approvals.contains(&name) {
        table.unknown_name(place, "an approval", &name, words.approvals.iter().map(String::as_str));
    }
    Some(name.into())
}
