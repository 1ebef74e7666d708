//! The changes that a new set would have made: the recorded decisions of the last days, decided by both sets.
//!
//! A decision that depends on what was not recorded is counted as one that cannot be told, and never guessed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Policies;
use super::past_decisions::{RecordedDecision, ReplayEvent, ReplayRecord};
use super::replay::{Replay, Replayed, Undecided};
use super::rule::Effect;
use crate::base::ids::Environment;
use crate::base::keyed::OperandKey;
use crate::base::money::MicroUsd;
use crate::base::visible::visible;
use crate::catalog::Catalog;
use crate::ledger::StoreTime;

/// The lengths of the windows, in days.
const DAYS: [i64; 3] = [7, 30, 90];
const DAY_MICROS: i64 = 86_400 * 1_000_000;
const INCOMPLETE: &str = "missing fields in its audit entry";

/// What a new set would have changed in the last days.
#[derive(Debug)]
pub struct DecisionHistory {
    /// The time of the newest decision: the windows end there.
    until: Option<StoreTime>,
    windows: Vec<HistoryWindow>,
    notes: Vec<String>,
    /// The decisions whose names are digested under another key, and all.
    keys: (u64, u64),
}

#[derive(Debug)]
struct HistoryWindow {
    days: i64,
    /// The first time that counts.
    from: i64,
    /// Whether the record reaches so far back.
    is_whole: bool,
    decisions: u64,
    changes: BTreeMap<(Environment, Effect, Effect), HistorySum>,
    untold: BTreeMap<(Environment, &'static str), HistorySum>,
}

#[derive(Debug, Default)]
struct HistorySum {
    count: u64,
    micro_usd: u64,
    /// How many requests have no value.
    unvalued: u64,
    largest: Option<HistoryCall>,
}

#[derive(Debug)]
struct HistoryCall {
    micro_usd: u64,
    name: String,
    caller: String,
}

impl HistorySum {
    fn add(&mut self, decided: &RecordedDecision, value: Option<u64>) {
        self.count = self.count.saturating_add(1);
        self.unvalued = self.unvalued.saturating_add(u64::from(value.is_none()));
        let Some(value) = value else { return };
        self.micro_usd = self.micro_usd.saturating_add(value);
        if self.largest.as_ref().is_none_or(|largest| value > largest.micro_usd) {
            let recorded = &decided.recorded;
            let caller = format!("{}:{}", recorded.issuer, recorded.subject);
            self.largest = Some(HistoryCall { micro_usd: value, name: decided.name.clone(), caller });
        }
    }

    fn in_words(&self) -> String {
        let without = if self.unvalued > 0 { format!(", {} without a value", self.unvalued) } else { String::new() };
        let largest = self.largest.as_ref().map_or_else(String::new, |largest| {
            let (name, caller) = (visible(&largest.name), visible(&largest.caller));
            format!("; the largest: {}, `{name}` of {caller}", usd(largest.micro_usd))
        });
        format!("{}, {}{without}{largest}", self.count, usd(self.micro_usd))
    }

    fn as_json(&self, mut members: Value) -> Value {
        let largest = self
            .largest
            .as_ref()
            .map(|largest| json!({"microUsd": largest.micro_usd, "request": largest.name, "caller": largest.caller}));
        let sum = [
            ("count", json!(self.count)),
            ("microUsd", json!(self.micro_usd)),
            ("unvalued", json!(self.unvalued)),
            ("largest", json!(largest)),
        ];
        if let Some(members) = members.as_object_mut() {
            members.extend(sum.map(|(name, value)| (name.to_owned(), value)));
        }
        members
    }
}

impl DecisionHistory {
    /// Decides every recorded request by both sets.
    pub fn of(
        old: &Policies,
        new: &Policies,
        catalog: &Catalog,
        key: &OperandKey,
        record: &ReplayRecord,
    ) -> DecisionHistory {
        let until = record.events().filter_map(|(_, event)| event.decided_at()).max();
        let first = record.events().filter_map(|(_, event)| event.decided_at()).min();
        let window = |days: i64| {
            let from = until.map_or(0, |until| until.as_micros().saturating_sub(days.saturating_mul(DAY_MICROS)));
            let is_whole = first.is_some_and(|first| first.as_micros() <= from);
            let (changes, untold) = (BTreeMap::new(), BTreeMap::new());
            HistoryWindow { days, from, is_whole, decisions: 0, changes, untold }
        };
        let windows = DAYS.into_iter().map(window).collect();
        let mut history = DecisionHistory { until, windows, notes: record.gaps(), keys: (0, 0) };
        let (mut before, mut then) = (Replay::of(&old.rules, catalog, key), Replay::of(&new.rules, catalog, key));
        for (environment, event) in record.events() {
            match event {
                ReplayEvent::Released(released) => {
                    before.release(&released.recorded);
                    then.release(&released.recorded);
                }
                ReplayEvent::GivenBack { attempt } => {
                    before.give_back(environment, *attempt);
                    then.give_back(environment, *attempt);
                }
                ReplayEvent::Decided(decided) => {
                    let both = (before.decide(&decided.recorded), then.decide(&decided.recorded));
                    history.add(environment, decided, &both, &then);
                }
                ReplayEvent::Incomplete { at, .. } => history.add_incomplete(environment, *at),
                ReplayEvent::Other => {}
            }
        }
        history
    }

    /// Adds what a reader should know of how the decisions were read.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Whether every name was digested under another key: then nothing was compared.
    pub fn is_of_another_key(&self) -> bool {
        self.keys.1 > 0 && self.keys.0 == self.keys.1
    }

    fn add(
        &mut self,
        environment: Environment,
        decided: &RecordedDecision,
        both: &(Replayed, Replayed),
        replay: &Replay<'_>,
    ) {
        let other_key = matches!(both.1, Replayed::Undecided(Undecided::OtherKey));
        self.keys = (self.keys.0.saturating_add(u64::from(other_key)), self.keys.1.saturating_add(1));
        let at = decided.recorded.at.as_micros();
        for window in self.windows.iter_mut().filter(|window| at >= window.from) {
            window.decisions = window.decisions.saturating_add(1);
            match both {
                (Replayed::Decided(before), Replayed::Decided(then)) if before.effect == then.effect => {}
                (Replayed::Decided(before), Replayed::Decided(then)) => {
                    let sum = window.changes.entry((environment, before.effect, then.effect)).or_default();
                    sum.add(decided, replay.value(&decided.recorded, then));
                }
                (Replayed::Undecided(why), _) | (_, Replayed::Undecided(why)) => {
                    let sum = window.untold.entry((environment, why.as_str())).or_default();
                    sum.add(decided, decided.recorded.operands.value);
                }
            }
        }
    }

    fn add_incomplete(&mut self, environment: Environment, at: StoreTime) {
        for window in self.windows.iter_mut().filter(|window| at.as_micros() >= window.from) {
            let sum = window.untold.entry((environment, INCOMPLETE)).or_default();
            sum.count = sum.count.saturating_add(1);
            sum.unvalued = sum.unvalued.saturating_add(1);
        }
    }

    pub fn in_words(&self) -> String {
        let Some(until) = self.until else {
            return format!("no decision is recorded in these files\n{}", self.notes_in_words());
        };
        let mut text = String::new();
        for window in &self.windows {
            let short = if window.is_whole { "" } else { ", as far as the files go back" };
            text.push_str(&format!(
                "the {} days to {}{short}: {} recorded decisions\n",
                window.days,
                moment(until),
                window.decisions
            ));
            for ((environment, from, to), sum) in &window.changes {
                let (from, to) = (done(*from), done(*to));
                text.push_str(&format!("  {environment}, now {to}, {from} before: {}\n", sum.in_words()));
            }
            for ((environment, why), sum) in &window.untold {
                text.push_str(&format!("  {environment}, cannot say ({why}): {}\n", sum.in_words()));
            }
            if window.changes.is_empty() && window.untold.is_empty() {
                text.push_str("  none would have been decided differently\n");
            }
        }
        format!("{text}{}", self.notes_in_words())
    }

    /// Returns what may leave the gate: no names of requests and, without `with_money`, neither amounts nor callers.
    pub fn as_news(&self, with_money: bool) -> Value {
        let sum = |sum: &HistorySum, mut members: Value| {
            if let Some(members) = members.as_object_mut() {
                members.insert("count".to_owned(), json!(sum.count));
                if with_money {
                    let largest = sum.largest.as_ref();
                    let largest = largest.map(|one| json!({"microUsd": one.micro_usd, "caller": one.caller}));
                    members.insert("microUsd".to_owned(), json!(sum.micro_usd));
                    members.insert("unvalued".to_owned(), json!(sum.unvalued));
                    members.insert("largest".to_owned(), json!(largest));
                }
            }
            members
        };
        let window = |window: &HistoryWindow| {
            let changes = window.changes.iter().map(|((environment, from, to), change)| {
                let members =
                    json!({"environment": environment.as_str(), "before": from.as_str(), "then": to.as_str()});
                sum(change, members)
            });
            let untold = window.untold.iter().map(|((environment, why), untold)| {
                sum(untold, json!({"environment": environment.as_str(), "why": why}))
            });
            json!({
                "days": window.days,
                "whole": window.is_whole,
                "decisions": window.decisions,
                "changes": changes.collect::<Vec<_>>(),
                "cannotSay": untold.collect::<Vec<_>>(),
            })
        };
        json!({"until": self.until.map(moment), "windows": self.windows.iter().map(window).collect::<Vec<_>>()})
    }

    /// Returns the same as lines.
    pub fn news_in_words(&self, with_money: bool) -> Vec<String> {
        let window = |window: &HistoryWindow| {
            let sum = |sum: &HistorySum| match with_money {
                true => {
                    let largest = sum.largest.as_ref();
                    let largest = largest.map(|one| format!(", the largest {} of {}", usd(one.micro_usd), one.caller));
                    format!("{}, {}{}", sum.count, usd(sum.micro_usd), largest.unwrap_or_default())
                }
                false => sum.count.to_string(),
            };
            let changes = window.changes.iter().map(|((environment, from, to), change)| {
                format!("{environment}, now {}, {} before: {}", done(*to), done(*from), sum(change))
            });
            let untold = window.untold.values().map(|sum| sum.count).fold(0, u64::saturating_add);
            let untold = (untold > 0).then(|| format!("cannot say: {untold}"));
            let changes: Vec<String> = changes.chain(untold).collect();
            let changes = if changes.is_empty() { "none differs".to_owned() } else { changes.join("; ") };
            format!("{} days, {} decisions: {changes}", window.days, window.decisions)
        };
        self.windows.iter().map(window).collect()
    }

    fn notes_in_words(&self) -> String {
        self.notes.iter().map(|note| format!("note: {note}\n")).collect()
    }

    pub fn as_json(&self) -> Value {
        let window = |window: &HistoryWindow| {
            let change = |((environment, from, to), sum): (&(Environment, Effect, Effect), &HistorySum)| {
                sum.as_json(json!({"environment": environment.as_str(), "before": from.as_str(), "then": to.as_str()}))
            };
            let untold = |((environment, why), sum): (&(Environment, &'static str), &HistorySum)| {
                sum.as_json(json!({"environment": environment.as_str(), "why": why}))
            };
            json!({
                "days": window.days,
                "whole": window.is_whole,
                "decisions": window.decisions,
                "changes": window.changes.iter().map(change).collect::<Vec<_>>(),
                "cannotSay": window.untold.iter().map(untold).collect::<Vec<_>>(),
            })
        };
        json!({
            "until": self.until.map(moment),
            "windows": self.windows.iter().map(window).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}

fn moment(time: StoreTime) -> String {
    jiff::Timestamp::from_microsecond(time.as_micros()).map_or_else(|_| "-".to_owned(), |time| time.to_string())
}

fn usd(micros: u64) -> String {
    MicroUsd::new(micros).map_or_else(|_| "more than can be counted".to_owned(), |usd| usd.to_string())
}

fn done(effect: Effect) -> &'static str {
    match effect {
        Effect::Allow => "allowed",
        Effect::Hold => "held",
        Effect::Deny => "denied",
    }
}
