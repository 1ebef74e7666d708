//! Explains a verdict: in words for people, and as JSON for programs. Command line and console use the same text.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use super::limit::{Limit, Max, Reservation};
use super::policy_test::NearMiss;
use super::rate::Mode;
use super::rules::{Cause, Reason, Rules, Verdict};
use crate::base::money::MicroUsd;
use crate::ledger::WindowKey;

/// A verdict with its details.
#[derive(Clone, Copy, Debug)]
pub struct Explanation<'v> {
    pub rules: &'v Rules,
    pub verdict: &'v Verdict,
    pub near: &'v [NearMiss],
    /// The windows that the request would count in.
    pub counts: &'v [Reservation],
    /// The units in windows, as far as a store was read.
    pub used: &'v BTreeMap<WindowKey, u64>,
}

impl Max {
    pub fn units(self) -> u64 {
        match self {
            Max::MicroUsd(units) | Max::Calls(units) => units,
        }
    }

    /// Formats a number of what is counted.
    pub fn describe(self, units: u64) -> String {
        match self {
            Max::MicroUsd(_) => {
                MicroUsd::new(units).map_or_else(|_| format!("{units} millionths of a USD"), |usd| usd.to_string())
            }
            Max::Calls(_) if units == 1 => "1 call".to_owned(),
            Max::Calls(_) => format!("{units} calls"),
        }
    }

    pub fn unit(self) -> &'static str {
        match self {
            Max::MicroUsd(_) => "microUsd",
            Max::Calls(_) => "calls",
        }
    }

    /// The unit of the numbers that people are shown.
    pub(super) fn shown_unit(self) -> &'static str {
        match self {
            Max::MicroUsd(_) => "USD",
            Max::Calls(_) => "calls",
        }
    }
}

impl Explanation<'_> {
    pub fn as_json(&self) -> Value {
        let Verdict { reasons, outweighed, shadows, .. } = self.verdict;
        let all = |reasons: &[Reason]| reasons.iter().map(as_json).collect::<Vec<_>>();
        let miss = |m: &NearMiss| json!({"rule": &*m.rule, "effect": m.effect.as_str(), "missing": m.missing});
        json!({
            "effect": self.verdict.effect.as_str(),
            "microUsd": self.verdict.value.map(|value| value.as_u64()),
            "reasons": all(reasons),
            "outweighed": all(outweighed),
            "shadows": all(shadows),
            "approvals": self.verdict.approvals.iter().map(|name| name.as_ref()).collect::<Vec<_>>(),
            "counts": self.counts.iter().map(|count| self.count(count)).collect::<Vec<_>>(),
            "near": self.near.iter().map(miss).collect::<Vec<_>>(),
        })
    }

    fn count(&self, reservation: &Reservation) -> Value {
        let Reservation { window, units, max, mode, .. } = reservation;
        let limit = self.limit(reservation);
        json!({
            "limit": window.limit,
            "key": limit.map(|limit| key_as_json(limit, &window.key)),
            "unit": limit.map(|limit| limit.max.unit()),
            "units": units,
            "used": self.used.get(window),
            "max": max,
            "mode": mode.as_str(),
        })
    }

    fn limit(&self, reservation: &Reservation) -> Option<&Limit> {
        self.rules.limits.iter().find(|limit| *limit.id == *reservation.window.limit)
    }

    fn counted(&self, reservation: &Reservation) -> Option<String> {
        let limit = self.limit(reservation)?;
        let (max, adds) = (limit.max, reservation.units);
        let used = self.used.get(&reservation.window).map(|used| format!(", {} used", max.describe(*used)));
        let shadow = if reservation.mode == Mode::Shadow { " (in shadow)" } else { "" };
        Some(format!(
            "{} of {}{} in limit {}{}{shadow}",
            max.describe(adds),
            max.describe(reservation.max),
            used.unwrap_or_default(),
            limit.id,
            key_in_words(limit, &reservation.window.key),
        ))
    }
}

/// Returns the key of a window by the names of its parts.
pub fn key_as_json(limit: &Limit, key: &str) -> Value {
    Value::Object(limit.named(key).map(|(name, value)| (name.to_owned(), Value::from(value))).collect())
}

/// Formats ` for environment production, caller main:payroll`; empty if all requests count together.
pub fn key_in_words(limit: &Limit, key: &str) -> String {
    let short = |value: String| match value.get(..8) {
        // People only need the beginning of a digest.
        Some(start) if value.len() == 64 && value.bytes().all(|b| b.is_ascii_hexdigit()) => format!("{start}…"),
        _ if value.is_empty() => "none".to_owned(),
        _ => value,
    };
    let words: Vec<String> = limit.named(key).map(|(name, value)| format!("{name} {}", short(value))).collect();
    if words.is_empty() { String::new() } else { format!(" for {}", words.join(", ")) }
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { effect, value, reasons, outweighed, shadows, .. } = self.verdict;
        writeln!(f, "{}", effect.as_str())?;
        if let Some(value) = value {
            writeln!(f, "  value: {value}")?;
        }
        for (heading, reasons) in [("because", reasons), ("outweighed", outweighed), ("in shadow", shadows)] {
            for reason in reasons {
                writeln!(f, "  {heading}: {}: {}", reason.cause, reason.text)?;
            }
        }
        for count in self.counts.iter().filter_map(|reservation| self.counted(reservation)) {
            writeln!(f, "  counts: {count}")?;
        }
        for miss in self.near {
            writeln!(f, "  nearly: rule {} ({}), if {}", miss.rule, miss.effect.as_str(), miss.missing)?;
        }
        Ok(())
    }
}

fn as_json(reason: &Reason) -> Value {
    json!({"effect": reason.effect.as_str(), "cause": reason.cause.to_string(), "text": reason.text})
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Rule(id) => write!(f, "rule {id}"),
            Cause::Limit(id) => write!(f, "limit {id}"),
            Cause::Gate => f.write_str("gate"),
        }
    }
}
