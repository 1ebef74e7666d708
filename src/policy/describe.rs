//! Describes a policy set in words, one line for each rule, limit and approval, for people at the console.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::acquaintance::span;
use super::condition::Condition;
use super::descriptions::Descriptions;
use super::limit::{Limit, Window};
use super::limit_key::{KEYS, LimitKey};
use super::rate::Mode;
use super::recovery_keys::RecoveryKeys;
use super::rule::Rule;
use super::rules::{Cause, Rules};
use super::signing::{Passkey, Signing};
use super::value_kind::ValueKind;
use super::words::{Approval, Need};
use crate::base::digest::{hex, plain_sha256};
use crate::base::ids::OperationId;
use crate::base::webauthn::PasskeyKey;

/// How many operations are named; of the others only the number is.
const MAX_NAMED: usize = 5;
const SIGNED: &str = ", by signed votes";

impl Rules {
    /// `rules`, `limits` and `approvals`, each with its id and its words.
    pub fn recited(&self) -> [(&'static str, Value); 3] {
        let words = |cause: Cause, words: String| match self.descriptions.of_cause(&cause) {
            Some(description) => format!("{words} ({description})"),
            None => words,
        };
        let rule = |rule: &Rule| {
            let told = words(Cause::Rule(rule.id.clone()), words_of_rule(rule));
            json!({ "id": &*rule.id, "effect": rule.effect.as_str(), "mode": rule.mode.as_str(), "words": told })
        };
        let limit = |limit: &Limit| {
            let told = words(Cause::Limit(limit.id.clone()), words_of_limit(limit));
            json!({ "id": &*limit.id, "mode": limit.mode.as_str(), "words": told })
        };
        let approvals = self.approvals.iter().map(|(name, one)| {
            let words = match self.descriptions.of(ValueKind::Approval, name) {
                Some(description) => format!("{} ({description})", approval(one)),
                None => approval(one),
            };
            json!({ "id": &**name, "words": words })
        });
        let (rules, limits) = (self.rules.iter().map(rule).collect(), self.limits.iter().map(limit).collect());
        [("rules", rules), ("limits", limits), ("approvals", approvals.collect())]
    }
}

impl Rules {
    /// Says whom an approval asks, such as "needs 1 of `ops` and 1 of `finance`", with its description.
    pub(super) fn asked_by(&self, name: &str) -> String {
        let who = self.approvals.get(name).map_or_else(|| format!("approval `{name}`"), |one| needed(&one.need));
        let who = if self.is_signed(name) { format!("{who}{SIGNED}") } else { who };
        match self.descriptions.of(ValueKind::Approval, name) {
            Some(description) => format!("needs {who} ({description})"),
            None => format!("needs {who}"),
        }
    }
}

impl Limit {
    /// Whether it counts equal payments: same amount, same ends.
    pub fn counts_equal_payments(&self) -> bool {
        self.per.contains(&LimitKey::Payment)
    }
}

impl Descriptions {
    /// Returns the description of a rule or limit, and those of the lists that it names, in one line.
    pub fn of_cause(&self, cause: &Cause) -> Option<String> {
        match cause {
            Cause::Rule(name) => self.with_lists(ValueKind::Rule, name),
            Cause::Limit(name) => self.with_lists(ValueKind::Limit, name),
            Cause::Gate => None,
        }
    }
}

fn words_of_rule(rule: &Rule) -> String {
    let held = rule.approval.iter().map(|approval| format!("; waits for `{approval}`")).collect::<String>();
    format!("{}{}{held}", operations(&rule.when.operations), conditions(&rule.when.conditions))
}

/// Formats a rule with its effect and its mode.
pub(super) fn rule_in_words(rule: &Rule) -> String {
    format!("{} {}{}", rule.effect.as_str(), words_of_rule(rule), in_shadow(rule.mode))
}

/// Formats a limit with its mode.
pub(super) fn limit_in_words(limit: &Limit) -> String {
    format!("{}{}", words_of_limit(limit), in_shadow(limit.mode))
}

fn in_shadow(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "",
        Mode::Shadow => " (in shadow mode, without effect)",
    }
}

fn words_of_limit(limit: &Limit) -> String {
    let window = match &limit.window {
        Window::Rolling(length) => format!("in any {}", span(*length)),
        Window::Calendar(period, zone) => {
            format!("in each {period} of {}", zone.iana_name().unwrap_or("UTC"))
        }
    };
    let per: Vec<&str> = KEYS.iter().filter(|(_, key)| limit.per.contains(key)).map(|(name, _)| *name).collect();
    let per = if per.is_empty() { String::new() } else { format!(", for each {}", per.join(" and ")) };
    let over = match &limit.over {
        Some(approval) => format!("what goes beyond waits for `{approval}`"),
        None => "what goes beyond is denied".to_owned(),
    };
    let alert: Vec<String> = limit.alert.iter().map(|name| format!("`{name}`")).collect();
    let alert = match alert.as_slice() {
        [] => String::new(),
        names => format!("; {} hears of payments that fail or come back", names.join(" and ")),
    };
    format!(
        "at most {} {window}{per}: {}{}; {over}{alert}",
        limit.most_in_words(),
        operations(&limit.operations),
        conditions(&limit.conditions)
    )
}

pub(super) fn approval(Approval { need, expires, signed }: &Approval) -> String {
    format!("{}{}; within {}", needed(need), if *signed { SIGNED } else { "" }, span(*expires))
}

pub(super) fn signing(signing: &Signing) -> String {
    let Signing { installation, rp_id, origins, synced, acts, .. } = signing;
    let origins: Vec<&str> = origins.iter().map(String::as_str).collect();
    let acts: Vec<&str> = acts.iter().map(|act| act.as_str()).collect();
    let acts = if acts.is_empty() { String::new() } else { format!("; signed acts: {}", acts.join(", ")) };
    format!("`{installation}`, with passkeys of `{rp_id}`, at {}; synced: {synced}{acts}", origins.join(", "))
}

pub(super) fn passkey(Passkey { person, name, .. }: &Passkey) -> String {
    format!("`{name}` of `{person}`")
}

pub(super) fn recovery(RecoveryKeys { needs, keys }: &RecoveryKeys) -> String {
    format!("{needs} of {} recovery keys enrol passkeys together", keys.len())
}

pub(super) fn recovery_key(key: &PasskeyKey) -> String {
    format!("the key with the digest {}", hex(&plain_sha256(&key.to_cose())))
}

fn needed(need: &Need) -> String {
    let joined = |needs: &[Need], word: &str| needs.iter().map(needed).collect::<Vec<_>>().join(word);
    match need {
        Need::People { group, count } => format!("{count} of `{group}`"),
        Need::All(needs) => joined(needs, " and "),
        Need::Any(needs) => format!("({})", joined(needs, " or ")),
    }
}

fn operations(all: &BTreeSet<OperationId>) -> String {
    let named: Vec<String> = all.iter().take(MAX_NAMED).map(|id| format!("`{id}`")).collect();
    match all.len().saturating_sub(named.len()) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn conditions(all: &[Condition]) -> String {
    let told: Vec<String> = all.iter().map(ToString::to_string).collect();
    if told.is_empty() { String::new() } else { format!(", where {}", told.join(" and ")) }
}
