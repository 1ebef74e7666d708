//! The meaning of a set, independent of its text: its version, and the differences of two sets.
//!
//! Order, comments, names of lists, classes in place of ids and the forms of numbers and addresses make no difference;
//! everything that could change a decision does, including the catalogue. Tests decide nothing and are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::condition::{Condition, SoughtValue, Ways};
use super::interval::Interval;
use super::limit::{Limit, Max, Window};
use super::limit_key;
use super::literal::Literal;
use super::rate::{Rate, RateBound, RateKey};
use super::request::Valuation;
use super::rule::Rule;
use super::rules::Rules;
use super::signing::Signing;
use super::words::{Approval, Need};
use crate::base::digest::Fingerprint;
use crate::base::money::Worth;
use crate::catalog::Catalog;

/// The decimals of asset values in comparisons: the most that they may have.
const VALUE_DECIMALS: u32 = 8;

/// The whole meaning of a set, by kind and name, in one normal form.
#[derive(Clone, Debug, PartialEq)]
pub struct Meaning {
    parts: BTreeMap<String, Value>,
    version: String,
}

/// The differences of two sets: kinds and names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub added: Vec<String>,
    pub removed: Vec<String>,
    pub changed: Vec<String>,
}

impl Changes {
    /// The rates that were removed or changed; no analysis shows whether they allow more.
    pub fn rates(&self) -> Vec<String> {
        let others = self.removed.iter().chain(&self.changed);
        others.filter(|name| name.starts_with("rate ")).cloned().collect()
    }
}

impl Meaning {
    pub(super) fn of(
        rates: &[Rate],
        rules: &Rules,
        groups: &BTreeMap<String, BTreeSet<String>>,
        catalog: &Catalog,
    ) -> Meaning {
        let mut parts = BTreeMap::from([("catalogue".to_owned(), Value::from(catalog.digest().to_hex()))]);
        parts.extend(rates.iter().map(|rate| (format!("rate {}", rate.id), of_rate(rate))));
        parts.extend(rules.rules.iter().map(|rule| (format!("rule {}", rule.id), of_rule(rule))));
        parts.extend(rules.limits.iter().map(|limit| (format!("limit {}", limit.id), of_limit(limit))));
        parts.extend(rules.approvals.iter().map(|(name, one)| (format!("approval {name}"), of_approval(one))));
        parts.extend(groups.iter().map(|(name, members)| (format!("group {name}"), json!(members))));
        parts.extend(assets(&rules.valuation));
        parts.extend(rules.descriptions.all().map(|(of, text)| (format!("description {of}"), Value::from(text))));
        parts.extend(rules.signing.iter().flat_map(Signing::parts));
        parts.extend(rules.valuation.slippage_millionths.map(|slippage| ("slippage".to_owned(), json!(slippage))));
        Meaning::of_parts(parts)
    }

    /// Returns the digest of the meaning: sets with one version decide alike.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns a meaning that was archived.
    pub(super) fn of_parts(parts: BTreeMap<String, Value>) -> Meaning {
        let version = version_of(&parts);
        Meaning { parts, version }
    }

    /// Returns the meaning with these parts besides.
    pub(super) fn with(&self, parts: impl Iterator<Item = (String, Value)>) -> Meaning {
        Meaning::of_parts(self.parts.clone().into_iter().chain(parts).collect())
    }

    /// Returns the parts by kind and name.
    pub(super) fn parts(&self) -> &BTreeMap<String, Value> {
        &self.parts
    }

    /// Returns the part of a kind and name, such as `rule small`.
    pub(super) fn part(&self, name: &str) -> Option<&Value> {
        self.parts.get(name)
    }

    /// Returns the meaning by kind and name: the input of the digest.
    pub fn to_json(&self) -> Value {
        Value::Object(self.parts.iter().map(|(name, part)| (name.clone(), part.clone())).collect())
    }

    /// Returns the changes since an earlier set.
    pub fn since(&self, before: &Meaning) -> Changes {
        let only = |of: &Meaning, other: &Meaning| {
            of.parts.keys().filter(|name| !other.parts.contains_key(*name)).cloned().collect()
        };
        let changed = self.parts.iter().filter(|(name, part)| before.parts.get(*name).is_some_and(|was| was != *part));
        Changes {
            added: only(self, before),
            removed: only(before, self),
            changed: changed.map(|(name, _)| name.clone()).collect(),
        }
    }
}

/// Returns the digest of a meaning, by its parts.
fn version_of(parts: &BTreeMap<String, Value>) -> String {
    let texts: Vec<(&str, String)> = parts.iter().map(|(name, part)| (name.as_str(), part.to_string())).collect();
    let pieces: Vec<&[u8]> = texts.iter().flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()]).collect();
    Fingerprint::of(&pieces).to_hex()
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [("added", &self.added), ("removed", &self.removed), ("changed", &self.changed)];
        let told: Vec<String> = all
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(word, names)| format!("{word}: {}", names.join(", ")))
            .collect();
        if told.is_empty() { f.write_str("nothing") } else { f.write_str(&told.join("; ")) }
    }
}

fn of_rate(rate: &Rate) -> Value {
    let fits = &rate.fits;
    json!({
        "ops": fits.operations.iter().map(|id| id.as_str()).collect::<BTreeSet<_>>(),
        "environments": fits.environments.as_ref().map(|all| all.iter().map(|one| one.as_str()).collect::<BTreeSet<_>>()),
        "issuers": fits.issuers,
        "roles": fits.roles,
        "callers": fits.callers,
        "per": names(&RateKey::WORDS, &rate.per),
        "bound": match rate.bound {
            RateBound::Quota(quota) => json!({"calls": quota.calls(), "secs": quota.period_secs(), "burst": quota.burst()}),
            RateBound::Concurrent(most) => json!({"concurrent": most}),
        },
        "shared": rate.is_shared,
        "mode": rate.mode.as_str(),
    })
}

fn of_rule(rule: &Rule) -> Value {
    json!({
        "effect": rule.effect.as_str(),
        "approval": rule.approval.as_deref(),
        "mode": rule.mode.as_str(),
        "ops": rule.when.operations.iter().map(|id| id.as_str()).collect::<BTreeSet<_>>(),
        "when": conditions(&rule.when.conditions),
    })
}

fn of_limit(limit: &Limit) -> Value {
    let mut meaning = json!({
        "ops": limit.operations.iter().map(|id| id.as_str()).collect::<BTreeSet<_>>(),
        "when": conditions(&limit.conditions),
        "window": match &limit.window {
            Window::Rolling(length) => json!({"rolling_secs": length.as_secs()}),
            Window::Calendar(period, zone) => {
                json!({"calendar": period.as_str(), "zone": zone_name(zone)})
            }
        },
        "per": names(&limit_key::KEYS, &limit.per),
        "max": match limit.max {
            Max::MicroUsd(micros) => match &limit.max_in {
                None => json!({"micro_usd": micros}),
                Some(one) => json!({"micro_usd": micros, "of": one.asset, "from": one.from_secs, "to": one.to_secs}),
            },
            Max::Calls(calls) => json!({"calls": calls}),
        },
        "over": limit.over.as_deref(),
        "denies_without_amount": matches!(limit.max, Max::MicroUsd(_)) && limit.denies_without,
        "mode": limit.mode.as_str(),
    });
    if let Some(members) = meaning.as_object_mut().filter(|_| !limit.alert.is_empty()) {
        members.insert("alert".to_owned(), limit.alert.iter().map(|name| name.as_ref()).collect());
    }
    meaning
}

fn of_approval(approval: &Approval) -> Value {
    let mut meaning = json!({"need": of_need(&approval.need), "expires_secs": approval.expires.as_secs()});
    if let Some(members) = meaning.as_object_mut().filter(|_| approval.signed) {
        members.insert("signed".to_owned(), Value::Bool(true));
    }
    meaning
}

fn of_need(need: &Need) -> Value {
    let all = |needs: &[Need]| {
        let mut parts: Vec<Value> = needs.iter().map(of_need).collect();
        parts.sort_by_key(Value::to_string);
        Value::Array(parts)
    };
    match need {
        Need::All(needs) => json!({"all": all(needs)}),
        Need::Any(needs) => json!({"any": all(needs)}),
        Need::People { group, count } => json!({"of": group, "n": count}),
    }
}

fn assets(valuation: &Valuation) -> Vec<(String, Value)> {
    let of = |name: &str| {
        let asset = valuation.assets.asset(name)?;
        let worth = match asset.worth {
            Worth::Par => json!("par"),
            Worth::Unknown => json!("unknown"),
            Worth::Rate { usd, from_secs, to_secs } => {
                json!({"usd": usd.units(VALUE_DECIMALS).ok()?.to_string(), "from": from_secs, "to": to_secs})
            }
        };
        Some((format!("asset {name}"), json!({"decimals": asset.decimals, "worth": worth})))
    };
    valuation.assets.names().filter_map(of).collect()
}

/// Sorts conditions: all of them must hold, so their order has no meaning.
fn conditions(conditions: &[Condition]) -> Value {
    let mut all: Vec<Value> = conditions.iter().map(of_condition).collect();
    all.sort_by_key(Value::to_string);
    Value::Array(all)
}

fn of_condition(condition: &Condition) -> Value {
    match condition {
        Condition::Names(field, set) => json!({"names": format!("{field:?}"), "in": set}),
        Condition::Destination(Ways { user, wallet, external_wallet }) => {
            json!({"destination": {"user": user, "wallet": wallet, "external_wallet": external_wallet}})
        }
        Condition::NotNames(field, set) => json!({"names": format!("{field:?}"), "not_in": set}),
        Condition::NotDestination(Ways { user, wallet, external_wallet }) => {
            json!({"not_destination": {"user": user, "wallet": wallet, "external_wallet": external_wallet}})
        }
        Condition::FeesOnlyTo(set) => json!({"fees_only_to": set}),
        Condition::NewDestination { new, cooldown } if cooldown.is_zero() => json!({"new": new}),
        Condition::NewDestination { new, cooldown } => json!({"new": new, "cooldown_secs": cooldown.as_secs()}),
        Condition::Amount { within, without } => json!({"amount": of_interval(*within), "without": without}),
        Condition::Price(within) => json!({"price": of_interval(*within)}),
        Condition::Body(pointer, sought) => json!({"body": pointer.as_str(), "is": match sought {
            SoughtValue::Present => json!("present"),
            SoughtValue::Absent => json!("absent"),
            SoughtValue::Among(set) => json!(set.iter().map(of_literal).collect::<Vec<_>>()),
            SoughtValue::NotAmong(set) => json!({"not_in": set.iter().map(of_literal).collect::<Vec<_>>()}),
        }}),
        Condition::Weekday(days, zone) => {
            let days: BTreeSet<i8> = days.iter().copied().map(Weekday::to_monday_one_offset).collect();
            json!({"weekday": days, "zone": zone_name(zone)})
        }
        Condition::Hour(within, zone) => json!({"hour": of_interval(*within), "zone": zone_name(zone)}),
        Condition::Date(ranges, zone) => {
            let dates: Vec<Value> = ranges.iter().copied().map(of_interval).collect();
            json!({"dates": dates, "zone": zone_name(zone)})
        }
        Condition::During(range, zone, inner) => {
            json!({"during": of_interval(*range), "zone": zone_name(zone), "is": of_condition(inner)})
        }
    }
}

fn of_interval(interval: Interval) -> Value {
    json!([interval.least.to_string(), interval.most.to_string()])
}

fn of_literal(literal: &Literal) -> Value {
    match literal {
        Literal::Text(text) => json!(text),
        Literal::Number(number) => json!(number),
        Literal::Truth(truth) => json!(truth),
    }
}

fn zone_name(zone: &TimeZone) -> &str {
    zone.iana_name().unwrap_or("UTC")
}

/// Returns the words of some keys.
fn names<'n, K: Ord>(words: &[(&'n str, K)], keys: &BTreeSet<K>) -> Vec<&'n str> {
    words.iter().filter(|(_, key)| keys.contains(key)).map(|(name, _)| *name).collect()
}
