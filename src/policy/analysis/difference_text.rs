//! Formats a difference of policy sets, as text and as JSON.

use std::fmt;

use serde_json::{Value, json};

use super::difference::{ChangeKind, Difference, Direction, OutcomeChange};
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
        text.push_str(&format!("{heading}: {}\n  example: {}\n", change.operation, change.example));
        text.push_str(&format!("  before: {}\n  then: {}\n", verdict_text(&change.old), verdict_text(&change.new)));
    }
    for limit in &found.limits {
        let what = limit.what.join(", ");
        let what = if what.is_empty() { what } else { format!(" ({what})") };
        text.push_str(&format!("limit `{}` is {}{what}\n", limit.id, limit.kind.as_str()));
    }
    for approval in &found.approvals {
        let what = match approval.is_as_strict {
            true => "demands at least as much as before",
            false => "may be completed by fewer or other people, or later",
        };
        text.push_str(&format!("approval `{}` {what}\n", approval.name));
    }
    if found.is_valued_otherwise {
        text.push_str("amounts are valued differently: the sets cannot be compared for all payments\n");
    }
    format!("{text}{}\n", conclusion(found.direction))
}

fn heading(kind: &ChangeKind) -> String {
    let was = |effect: Effect| match effect {
        Effect::Allow => "allowed",
        Effect::Hold => "held",
        Effect::Deny => "denied",
    };
    match kind {
        ChangeKind::Effect(old, new) => format!("newly {}, {} before", was(*new), was(*old)),
        ChangeKind::EasierHold => "held for fewer or other people".to_owned(),
        ChangeKind::HarderHold => "held for more people".to_owned(),
        ChangeKind::Named(place) => {
            format!("`{place}` is named by a rule, which matters if the configuration lists it")
        }
    }
}

fn conclusion(direction: Direction) -> &'static str {
    match direction {
        Direction::Same => "every request has the same outcome: proved",
        Direction::OnlyTightens => "it only tightens: proved",
        Direction::Loosens => "it loosens",
        Direction::NotProved => "not proved that it only tightens",
    }
}

fn verdict_text(verdict: &Verdict) -> String {
    let causes: Vec<String> =
        verdict.reasons.iter().map(|reason| format!("{}: {}", reason.cause, reason.text)).collect();
    format!("{}, {}", verdict.effect.as_str(), causes.join("; "))
}

impl Difference {
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
        "limits": limits.collect::<Vec<_>>(),
        "approvals": approvals.collect::<Vec<_>>(),
        "valuedOtherwise": found.is_valued_otherwise,
    })
}
