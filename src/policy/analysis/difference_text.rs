//! Formats a difference of policy sets, as text and as JSON.

use std::fmt;

use serde_json::{Value, json};

use super::definitions::{DefinitionChange, MemberChange};
use super::difference::{ChangeKind, Difference, Direction, OutcomeChange};
use super::extent::{DimensionKind, Extent, amounts_in_words};
use super::newcomers::NewcomerChange;
use crate::base::money::MAX_MICRO_USD;
use crate::policy::rule::Effect;
use crate::policy::rules::Verdict;

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&in_words(self))
    }
}

fn in_words(found: &Difference) -> String {
    let mut text = String::new();
    for change in &found.changes {
        let heading = heading(&change.kind);
        text.push_str(&format!("{heading}: {}, {}\n", change.operation, extent_in_words(&change.extent)));
        for dimension in &change.extent.only {
            text.push_str(&format!("  only where {} is {}\n", dimension.name, dimension.values.join(", ")));
        }
        if !change.extent.is_complete {
            text.push_str("  the search was not complete: there may be more\n");
        }
        text.push_str(&format!("  example: {}\n", change.example));
        text.push_str(&format!("  before: {}\n  then: {}\n", verdict_text(&change.old), verdict_text(&change.new)));
        if let Some(widest) = change.extent.widest.as_ref().filter(|widest| ***widest != change.example) {
            text.push_str(&format!("  largest: {widest}\n"));
        }
    }
    for change in &found.definitions {
        text.push_str(&definition_in_words(change));
    }
    for limit in &found.limits {
        let what = limit.what.join(", ");
        let what = if what.is_empty() { what } else { format!(" ({what})") };
        text.push_str(&format!("limit `{}` {}{what}\n", limit.id, limit.kind.in_words()));
    }
    for approval in &found.approvals {
        let what = match approval.is_as_strict {
            true => "demands at least as much as before",
            false => "may be completed by fewer or other people, or later",
        };
        text.push_str(&format!("approval `{}` {what}\n", approval.name));
    }
    for change in &found.newcomers {
        text.push_str(&format!("{}\n", change.in_words()));
    }
    for change in &found.signing {
        let what = if change.loosens { " (allows more)" } else { "" };
        text.push_str(&format!("signed votes: {}{what}\n", change.what));
    }
    if found.is_valued_otherwise {
        text.push_str("amounts are valued differently: the sets cannot be compared for all payments\n");
    }
    format!("{text}{}\n", conclusion(found.direction))
}

/// Formats amounts, people, destinations and times, each as far as the change depends on it.
fn extent_in_words(extent: &Extent) -> String {
    let any = [
        (DimensionKind::People, "any caller", "some callers"),
        (DimensionKind::Destination, "any destination", "some destinations"),
        (DimensionKind::Time, "any time", "some times"),
    ];
    let word = |(kind, any, some): (DimensionKind, &'static str, &'static str)| {
        if extent.only.iter().any(|dimension| dimension.kind == kind) { some } else { any }
    };
    let amounts = extent.amounts.as_deref().map(amounts_in_words).filter(|text| !text.is_empty());
    amounts.into_iter().chain(any.map(word).map(str::to_owned)).collect::<Vec<_>>().join(", ")
}

fn definition_in_words(change: &DefinitionChange) -> String {
    let DefinitionChange { name, before, then, members } = change;
    let (kind, id) = name.split_once(' ').unwrap_or((name, ""));
    let name = if id.is_empty() { kind.to_owned() } else { format!("{kind} `{id}`") };
    let what = match (before, then) {
        (Some(_), None) => "is removed",
        (None, Some(_)) => "is added",
        _ => "is changed",
    };
    let side = |word: &str, text: &Option<String>| {
        text.as_ref().map_or_else(String::new, |text| format!("  {word}: {text}\n"))
    };
    let members: String = members.iter().map(|change| format!("  {}\n", change.in_words())).collect();
    format!("{name} {what}\n{}{}{members}", side("before", before), side("then", then))
}

fn heading(kind: &ChangeKind) -> String {
    let was = |effect: Effect| match effect {
        Effect::Allow => "allowed",
        Effect::Hold => "held",
        Effect::Deny => "denied",
    };
    match kind {
        ChangeKind::Effect(old, Effect::Allow) => format!("now allowed without people, {} before", was(*old)),
        ChangeKind::Effect(old, new) => format!("now {}, {} before", was(*new), was(*old)),
        ChangeKind::EasierHold => "now held for fewer or other people".to_owned(),
        ChangeKind::HarderHold => "now held for more people".to_owned(),
        ChangeKind::Named(place) => {
            format!("`{place}` is named by a rule, which matters if the configuration lists it")
        }
    }
}

fn conclusion(direction: Direction) -> &'static str {
    match direction {
        Direction::Same => "every request has the same outcome: proved",
        Direction::OnlyTightens => "allows no more than today: proved",
        Direction::Loosens => "allows more than today",
        Direction::NotProved => "not proved to allow no more than today",
    }
}

fn verdict_text(verdict: &Verdict) -> String {
    let causes: Vec<String> =
        verdict.reasons.iter().map(|reason| format!("{}: {}", reason.cause, reason.text)).collect();
    format!("{}, {}", verdict.effect.as_str(), causes.join("; "))
}

impl Difference {
    /// Returns what may leave the gate, a line for each change in the outcome of an operation and in who approves a
    /// destination: no names and, without `with_money`, no amounts.
    pub fn news(&self, with_money: bool) -> Vec<String> {
        let line = |change: &OutcomeChange| match with_money {
            true => format!("{}: {}: {}", change.operation, heading(&change.kind), extent_in_words(&change.extent)),
            false => format!("{}: {}", change.operation, heading(&change.kind)),
        };
        let newcomers = self.newcomers.iter().map(NewcomerChange::heading);
        self.changes.iter().map(line).chain(newcomers).collect()
    }

    pub fn as_json(&self) -> Value {
        as_json(self)
    }
}

fn as_json(found: &Difference) -> Value {
    let verdict = |verdict: &Verdict| {
        let reasons = verdict.reasons.iter().map(|r| json!({"cause": r.cause.to_string(), "text": r.text}));
        json!({
            "effect": verdict.effect.as_str(),
            "reasons": reasons.collect::<Vec<_>>(),
            "approvals": verdict.approvals.iter().map(|name| name.as_ref()).collect::<Vec<_>>(),
        })
    };
    let change = |change: &OutcomeChange| {
        json!({
            "operation": change.operation.as_str(),
            "what": heading(&change.kind),
            "loosens": change.kind.loosens(),
            "example": change.example.to_string(),
            "before": verdict(&change.old),
            "then": verdict(&change.new),
            "extent": extent_as_json(&change.extent),
        })
    };
    let members = |change: &MemberChange| json!({"of": change.of, "added": change.added, "removed": change.removed});
    let definition = |change: &DefinitionChange| {
        json!({
            "name": change.name,
            "before": change.before,
            "then": change.then,
            "members": change.members.iter().map(members).collect::<Vec<_>>(),
        })
    };
    let limits = found.limits.iter().map(|limit| {
        json!({"id": &*limit.id, "is": limit.kind.as_str(), "loosens": limit.kind.loosens(), "what": limit.what})
    });
    let approvals =
        found.approvals.iter().map(|approval| json!({"name": &*approval.name, "asStrict": approval.is_as_strict}));
    let direction = match found.direction {
        Direction::Same => "same",
        Direction::OnlyTightens => "onlyTightens",
        Direction::Loosens => "loosens",
        Direction::NotProved => "notProved",
    };
    json!({
        "direction": direction,
        "changes": found.changes.iter().map(change).collect::<Vec<_>>(),
        "definitions": found.definitions.iter().map(definition).collect::<Vec<_>>(),
        "limits": limits.collect::<Vec<_>>(),
        "approvals": approvals.collect::<Vec<_>>(),
        "newcomers": found.newcomers.iter().map(|change| json!({"what": change.in_words(), "loosens": change.loosens()})).collect::<Vec<_>>(),
        "signing": found.signing.iter().map(|change| json!({"what": change.what, "loosens": change.loosens})).collect::<Vec<_>>(),
        "valuedOtherwise": found.is_valued_otherwise,
    })
}

fn extent_as_json(extent: &Extent) -> Value {
    let range = |(least, most): &(u128, u128)| {
        let most = Some(*most).filter(|most| *most < u128::from(MAX_MICRO_USD));
        json!({"fromMicroUsd": u64::try_from(*least).ok(), "toMicroUsd": most.and_then(|most| u64::try_from(most).ok())})
    };
    let only = extent.only.iter().map(|one| json!({"what": one.name, "is": one.values}));
    json!({
        "words": extent_in_words(extent),
        "amounts": extent.amounts.as_ref().map(|all| all.iter().map(range).collect::<Vec<_>>()),
        "only": only.collect::<Vec<_>>(),
        "largest": extent.widest.as_ref().map(ToString::to_string),
        "complete": extent.is_complete,
    })
}
