//! A hold in words: what it would send, from its bytes; why it waits, for whom, and what is known beside it.

use serde_json::Value;

use crate::policy::Max;
use crate::stations::check::Intent;
use crate::stations::hold::in_words;

/// A hold as the console tells it, and the call that its bytes are.
pub(super) struct Shown {
    pub hold: Value,
    /// `None`: this person is not shown the bytes.
    pub intent: Option<Intent>,
}

impl Shown {
    pub fn in_words(&self) -> String {
        let mut lines = vec![line(&self.hold)];
        match &self.intent {
            Some(intent) => {
                lines.extend(in_words(intent).into_iter().map(|(name, text)| format!("  {name:<7} {text}")))
            }
            None => lines.push("  You are not shown what would be sent: that takes the role `approver`.".to_owned()),
        }
        for reason in list(&self.hold, "reasons") {
            let rule = reason["rule"].as_str().map_or_else(String::new, |rule| format!(" ({rule})"));
            lines.push(format!("  why     {}{rule}", reason["text"].as_str().unwrap_or("-")));
        }
        for approval in list(&self.hold, "approvals") {
            lines.push(format!("  needs   {}", needed(approval)));
        }
        if let Some(stuck) = self.hold.get("stuck").and_then(Value::as_str) {
            lines.push(format!("  stuck   {}; any approver may reject it", plain(stuck)));
        }
        lines.extend(list(&self.hold, "paidBefore").map(paid));
        lines.extend(list(&self.hold, "limits").map(limit));
        for (name, words) in [("agreed", "votes"), ("said", "notes")] {
            for word in list(&self.hold, words) {
                let text = word["text"].as_str().map_or_else(String::new, |text| format!(": {}", plain(text)));
                let places: Vec<String> = list(word, "for").filter_map(Value::as_str).map(plain).collect();
                let places =
                    if places.is_empty() { String::new() } else { format!(", also for {}", places.join(" or ")) };
                lines.push(format!("  {name:<7} {}{places}{text}", word["subject"].as_str().unwrap_or("-")));
            }
        }
        if let Some(intent) = &self.intent {
            let body = intent.body().map(|body| String::from_utf8_lossy(body).into_owned()).unwrap_or_default();
            lines.push(format!("  sends   {} {}", intent.operation().method, intent.target()));
            lines.push(format!("          {body}"));
            lines.push(format!("  as      {}", intent.fingerprint()));
        }
        format!("{}\n", lines.join("\n"))
    }
}

/// When something was paid there last.
fn paid(destination: &Value) -> String {
    let name = plain(destination["destination"].as_str().unwrap_or("-"));
    match destination["at"].as_str() {
        Some(at) => format!("  before  {name} was last paid {}", plain(at)),
        None => format!("  before  {name} was never paid by this gate"),
    }
}

/// What a limit has left, now and then.
fn limit(limit: &Value) -> String {
    let key = limit["key"].as_object().into_iter().flatten();
    let key: Vec<String> =
        key.map(|(name, value)| format!("{name} {}", plain(value.as_str().unwrap_or("-")))).collect();
    let key = if key.is_empty() { String::new() } else { format!(" for {}", key.join(", ")) };
    let told = |name: &str| {
        let units = limit[name].as_u64().unwrap_or_default();
        let max = if limit["unit"] == "calls" { Max::Calls(units) } else { Max::MicroUsd(units) };
        max.told(units)
    };
    let (name, shadow) = (limit["limit"].as_str().unwrap_or("-"), limit["mode"] == "shadow");
    let shadow = if shadow { " (in shadow)" } else { "" };
    let (adds, left, after, max) = (told("adds"), told("left"), told("leftAfter"), told("max"));
    format!("  limit   {name}{key}: takes {adds} of {max}; {left} left before, {after} after{shadow}")
}

fn needed(approval: &Value) -> String {
    let missing: Vec<String> = list(approval, "missing")
        .map(|one| format!("{} of {}", one["count"], one["group"].as_str().unwrap_or("-")))
        .collect();
    let missing = if missing.is_empty() { "nobody more".to_owned() } else { format!("{} more", missing.join(" and ")) };
    let name = approval["name"].as_str().unwrap_or("-");
    format!("{name}: {} of {}, {missing}", approval["given"], approval["needed"])
}

/// One line of a list.
pub(super) fn line(hold: &Value) -> String {
    let text = |pointer: &str| hold.pointer(pointer).and_then(Value::as_str).unwrap_or("-");
    let moves = list(hold, "words").filter(|word| matches!(word["name"].as_str(), Some("from" | "to")));
    let moves: Vec<String> = moves
        .map(|word| format!("{} {}", word["name"].as_str().unwrap_or(""), word["text"].as_str().unwrap_or("")))
        .collect();
    let moves = if moves.is_empty() { String::new() } else { format!(": {}", moves.join(" ")) };
    let stuck = if hold.get("stuck").is_some() { " (nobody can complete it)" } else { "" };
    let (until, time) = match hold.get("endedAt") {
        Some(_) => ("since", text("/endedAt")),
        None => ("until", text("/expiresAt")),
    };
    format!(
        "{} {} {}{stuck} {} by {}/{}, {until} {time}{moves}",
        text("/id"),
        text("/environment"),
        text("/state"),
        text("/operation"),
        text("/owner/issuer"),
        text("/owner/subject"),
    )
}

/// How it stands with one.
pub(super) fn standing(hold: &Value) -> String {
    match hold["state"].as_str() {
        Some("pending") => {
            format!("It waits: {}.", list(hold, "approvals").map(needed).collect::<Vec<_>>().join("; "))
        }
        Some("approved" | "released") => "People enough have agreed: it is being sent.".to_owned(),
        state => format!("It is {}.", state.unwrap_or("-")),
    }
}

pub(super) fn list<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// What others wrote does not move the cursor.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
