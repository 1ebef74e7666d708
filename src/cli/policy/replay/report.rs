//! The report of a replay: the changes by rule and day, with counts, amounts and examples.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::base::money::MicroUsd;
use crate::base::visible::visible;
use crate::policy::{RecordedDecision, ReplayRecord, Replayed, Verdict};

/// How many example requests each change names.
const MAX_EXAMPLES: usize = 3;

#[derive(Debug)]
pub(super) struct ReplayReport {
    version: String,
    same: u64,
    changes: BTreeMap<DecisionChange, Sum>,
    undecided: BTreeMap<&'static str, Sum>,
    notes: Vec<String>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DecisionChange {
    day: String,
    now: &'static str,
    was: String,
    /// The rules that decide now; empty if no rule matches.
    by: Vec<String>,
}

#[derive(Debug, Default)]
struct Sum {
    count: u64,
    micro_usd: u64,
    /// How many requests have no value.
    unvalued: u64,
    examples: Vec<String>,
}

impl Sum {
    fn add(&mut self, name: &str, value: Option<u64>) {
        self.count = self.count.saturating_add(1);
        self.micro_usd = self.micro_usd.saturating_add(value.unwrap_or(0));
        self.unvalued = self.unvalued.saturating_add(u64::from(value.is_none()));
        if self.examples.len() < MAX_EXAMPLES {
            self.examples.push(name.to_owned());
        }
    }

    fn in_words(&self) -> String {
        let usd =
            MicroUsd::new(self.micro_usd).map_or_else(|_| "more than can be counted".to_owned(), |usd| usd.to_string());
        let without = if self.unvalued > 0 { format!(", {} without a value", self.unvalued) } else { String::new() };
        let examples: Vec<String> = self.examples.iter().map(|name| visible(name).into_owned()).collect();
        format!("{}, {usd}{without}, such as {}", self.count, examples.join(", "))
    }

    fn as_json(&self) -> Value {
        json!({"count": self.count, "microUsd": self.micro_usd, "unvalued": self.unvalued, "examples": self.examples})
    }
}

impl ReplayReport {
    pub fn of(version: &str, record: &ReplayRecord) -> ReplayReport {
        let version = version.to_owned();
        ReplayReport { version, same: 0, changes: BTreeMap::new(), undecided: BTreeMap::new(), notes: record.gaps() }
    }

    pub fn add(
        &mut self,
        decided: &RecordedDecision,
        replayed: &Replayed,
        value: impl FnOnce(&Verdict) -> Option<u64>,
    ) {
        match replayed {
            Replayed::Undecided(why) => {
                let value = decided.recorded.operands.value;
                self.undecided.entry(why.as_str()).or_default().add(&decided.name, value);
            }
            Replayed::Decided(verdict) if verdict.effect.as_str() == decided.effect => {
                self.same = self.same.saturating_add(1);
            }
            Replayed::Decided(verdict) => {
                let by = verdict.reasons.iter().filter_map(|reason| reason.cause.name()).map(str::to_owned).collect();
                let (day, was) = (decided.day.clone(), decided.effect.clone());
                let change = DecisionChange { day, now: verdict.effect.as_str(), was, by };
                self.changes.entry(change).or_default().add(&decided.name, value(verdict));
            }
        }
    }

    pub fn add_incomplete(&mut self) {
        self.undecided.entry("missing fields in its audit entry").or_default().add("-", None);
    }

    /// Returns the notes that explain the counts.
    fn notes(&self) -> Vec<String> {
        let note =
            "undecided requests count in no limit, so that later requests may be allowed that were not".to_owned();
        self.notes.iter().cloned().chain((!self.undecided.is_empty()).then_some(note)).collect()
    }

    pub fn in_words(&self) -> String {
        let mut text = format!("version {}\n", self.version);
        for (DecisionChange { day, now, was, by }, sum) in &self.changes {
            let by = if by.is_empty() { "no rule".to_owned() } else { by.join(", ") };
            let was = visible(was);
            text.push_str(&format!(
                "{day}: now {}, recorded as {}, by {by}: {}\n",
                word(now),
                word(&was),
                sum.in_words()
            ));
        }
        for (why, sum) in &self.undecided {
            text.push_str(&format!("undecided ({why}): {}\n", sum.in_words()));
        }
        for note in self.notes() {
            text.push_str(&format!("note: {note}\n"));
        }
        let count = |sums: &mut dyn Iterator<Item = &Sum>| sums.fold(0_u64, |all, sum| all.saturating_add(sum.count));
        let changed = count(&mut self.changes.values());
        let undecided = count(&mut self.undecided.values());
        format!("{text}{} unchanged, {changed} changed, {undecided} undecided\n", self.same)
    }

    pub fn as_json(&self) -> Value {
        let with = |mut json: Value, sum: &Sum| {
            if let (Some(members), Value::Object(sum)) = (json.as_object_mut(), sum.as_json()) {
                members.extend(sum);
            }
            json
        };
        let change = |(DecisionChange { day, now, was, by }, sum): (&DecisionChange, &Sum)| {
            with(json!({"day": day, "now": now, "was": was, "by": by}), sum)
        };
        let undecided = |(why, sum): (&&str, &Sum)| with(json!({ "why": why }), sum);
        json!({
            "version": self.version,
            "same": self.same,
            "changes": self.changes.iter().map(change).collect::<Vec<_>>(),
            "undecided": self.undecided.iter().map(undecided).collect::<Vec<_>>(),
            "notes": self.notes(),
        })
    }
}

fn word(effect: &str) -> &str {
    match effect {
        "allow" => "allowed",
        "hold" => "held",
        "deny" => "denied",
        other => other,
    }
}
