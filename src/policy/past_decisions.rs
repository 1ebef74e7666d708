//! Past decisions from audit entries, each commit once, in the order of their numbers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::operands::Operands;
use super::replay::RecordedCall;
use crate::base::ids::{Environment, OperationId};
use crate::ledger::{Outstanding, StoreTime};

/// The kind of a commit.
#[derive(Debug)]
pub enum ReplayEvent {
    Decided(Box<RecordedDecision>),
    /// A held call was released: it is not a new decision of its request, but it counts in limits.
    Released(Box<RecordedDecision>),
    /// A decision whose entry lacks the fields to repeat it.
    Incomplete {
        day: String,
        at: StoreTime,
    },
    /// This attempt was certainly not executed.
    GivenBack {
        attempt: u64,
    },
    Other,
}

/// A decision that can be repeated.
#[derive(Debug)]
pub struct RecordedDecision {
    pub recorded: RecordedCall,
    pub effect: String,
    /// The day, in UTC.
    pub day: String,
    /// The name that people know the request by.
    pub name: String,
}

#[derive(Debug, Default)]
pub struct ReplayRecord {
    events: BTreeMap<(Environment, u64), ReplayEvent>,
    unreadable: u64,
}

impl ReplayEvent {
    /// Returns the time of a decision.
    pub fn decided_at(&self) -> Option<StoreTime> {
        match self {
            ReplayEvent::Decided(decided) => Some(decided.recorded.at),
            ReplayEvent::Incomplete { at, .. } => Some(*at),
            ReplayEvent::Released(_) | ReplayEvent::GivenBack { .. } | ReplayEvent::Other => None,
        }
    }
}

impl ReplayRecord {
    /// Adds an entry; one that is there already counts once.
    pub fn add(&mut self, outstanding: &Outstanding, entry: &Value) {
        let key = (outstanding.environment, outstanding.number.as_u64());
        self.events.entry(key).or_insert_with(|| event(outstanding, entry));
    }

    /// Notes lines that could not be read.
    pub fn add_unreadable(&mut self, lines: u64) {
        self.unreadable = self.unreadable.saturating_add(lines);
    }

    pub fn events(&self) -> impl Iterator<Item = (Environment, &ReplayEvent)> {
        self.events.iter().map(|((environment, _), event)| (*environment, event))
    }

    /// Returns the ids of the keys that names were hashed with.
    pub fn keys(&self) -> BTreeSet<String> {
        let key = |event: &ReplayEvent| match event {
            ReplayEvent::Decided(decided) => Some(decided.recorded.operands.key.clone()),
            ReplayEvent::Released(released) => Some(released.recorded.operands.key.clone()),
            ReplayEvent::Incomplete { .. } | ReplayEvent::GivenBack { .. } | ReplayEvent::Other => None,
        };
        self.events.values().filter_map(key).collect()
    }

    /// Returns a note for each gap because of which limits may count less than they should.
    pub fn gaps(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for environment in Environment::ALL {
            let numbers = self.events.range((environment, 0)..=(environment, u64::MAX)).map(|((_, number), _)| *number);
            let (mut first, mut last, mut count) = (None, 0, 0_u64);
            for number in numbers {
                first.get_or_insert(number);
                (last, count) = (number, count.saturating_add(1));
            }
            let Some(first) = first else { continue };
            if first > 1 {
                notes.push(format!("{environment} begins at number {first}: the earlier usage of limits is unknown"));
            }
            let missing = last.saturating_sub(first).saturating_add(1).saturating_sub(count);
            if missing > 0 {
                notes.push(format!("{missing} entries of {environment} are missing between {first} and {last}"));
            }
        }
        if self.unreadable > 0 {
            let count = self.unreadable;
            notes.push(format!("{count} lines are damaged; `sluice audit verify` shows where they are"));
        }
        notes
    }
}

fn event(outstanding: &Outstanding, entry: &Value) -> ReplayEvent {
    let attempt = entry.get("attempt").and_then(Value::as_u64);
    let what = text(entry, "/what").unwrap_or_default();
    match (what.as_str(), attempt) {
        ("not-executed" | "undone", Some(attempt)) => ReplayEvent::GivenBack { attempt },
        (_, None) if entry.get("decision").is_some() => match decided(outstanding, entry) {
            Some(decided) if what == "sending" && decided.recorded.hold.is_some() => {
                ReplayEvent::Released(Box::new(decided))
            }
            Some(decided) => ReplayEvent::Decided(Box::new(decided)),
            None => ReplayEvent::Incomplete { day: day(outstanding.at), at: outstanding.at },
        },
        _ => ReplayEvent::Other,
    }
}

fn decided(outstanding: &Outstanding, entry: &Value) -> Option<RecordedDecision> {
    let name = |pointer: &str| text(entry, pointer).filter(|text| !text.is_empty());
    let number = outstanding.number.as_u64();
    let recorded = RecordedCall {
        environment: outstanding.environment,
        number,
        at: outstanding.at,
        operation: OperationId::new(&name("/operation")?),
        issuer: name("/owner/issuer")?,
        subject: name("/owner/subject")?,
        requester: name("/requester"),
        hold: name("/hold"),
        operands: Operands::read(entry.get("operands")?)?,
    };
    let known = name("/requestId").or_else(|| name("/claim")).unwrap_or_else(|| format!("number {number}"));
    let (effect, day) = (name("/decision/effect")?, day(outstanding.at));
    Some(RecordedDecision { recorded, effect, day, name: known })
}

fn text(entry: &Value, pointer: &str) -> Option<String> {
    match entry.pointer(pointer) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(other) => Some(other.to_string()),
    }
}

fn day(at: StoreTime) -> String {
    let at = jiff::Timestamp::from_microsecond(at.as_micros());
    at.map_or_else(|_| String::new(), |at| at.to_string().chars().take("2026-11-20".len()).collect())
}
