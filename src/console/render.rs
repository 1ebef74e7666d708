//! JSON of records, and the names of claims in paths.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::base::ids::is_identifier;
use crate::base::json::{self as strict, Limits};
use crate::base::normal;
use crate::catalog::{BodyPlace, Violation};
use crate::ledger::{Record, RecordKey, StoreTime};
use crate::node::freezes::StandingFreeze;
use crate::stations::check::claim_name;
use crate::stations::claim::{AttemptEnd, Claim, ClaimState, Freeze, Owner, PastAttempt};

/// Returns the record name of a claim from its name in a path: a requestId, or an operation and its path parameters
/// separated by colons.
pub fn name_of(request: &str) -> Option<String> {
    let mut parts = request.split(':');
    let first = parts.next().filter(|first| is_identifier(first))?;
    let rest: Vec<String> = parts.map(|part| is_identifier(part).then(|| normal::uuid(part))).collect::<Option<_>>()?;
    if rest.is_empty() {
        return Some(claim_name(first));
    }
    Some(format!("path/{first}/{}", rest.join("/")))
}

/// Returns the name in a path from the record name of a claim.
pub(super) fn shown_as(name: &str) -> Cow<'_, str> {
    let shown = name.split_once('/').map_or(name, |(_, rest)| rest);
    if shown.contains('/') { Cow::Owned(shown.replace('/', ":")) } else { Cow::Borrowed(shown) }
}

pub(super) fn freeze(standing: &StandingFreeze) -> Value {
    let scope = match &standing.freeze {
        Freeze::All => json!("all"),
        Freeze::Restored => json!("restored"),
        Freeze::Clock => json!("clock"),
        Freeze::GateClock(node) => json!({ "gateClock": node.as_str() }),
        Freeze::Operation(id) => json!({ "operation": id.as_str() }),
        Freeze::Caller(owner) => json!({ "caller": { "issuer": owner.issuer, "subject": owner.subject } }),
        Freeze::Reads(owner) => json!({ "reads": { "issuer": owner.issuer, "subject": owner.subject } }),
    };
    json!({
        "environment": standing.environment.as_str(),
        "scope": scope,
        "at": moment(standing.at),
        "by": standing.told.by,
        "reason": standing.told.reason,
        "saidUnfrozen": standing.said_unfrozen.as_ref().map(Owner::to_string),
    })
}

/// Returns the JSON of a call that every role may see.
pub(super) fn request(key: &RecordKey, record: &Record, claim: &Claim) -> Value {
    let mut members = named(key, claim.state.as_str());
    let mut put = |name: &str, value: Value| drop(members.insert(name.to_owned(), value));
    if let Some(id) = &claim.request_id {
        put("requestId", json!(id.as_str()));
    }
    put("operation", json!(claim.operation.as_str()));
    put("owner", json!({ "issuer": claim.owner.issuer, "subject": claim.owner.subject }));
    put("fingerprint", json!(claim.fingerprint.to_hex()));
    put("trace", json!(claim.trace.as_str()));
    put("at", moment(record.at));
    if let Some(hold) = &claim.hold {
        put("hold", json!(hold.as_str()));
    }
    match &claim.state {
        ClaimState::Held => {}
        ClaimState::Declined(declined) => put("reason", json!(declined.reason)),
        ClaimState::Sending { sender, lease, .. } => {
            put("attempt", json!(record.version.as_u64()));
            put("node", json!(sender.node.as_str()));
            put("leaseUntil", moment(record.at.plus(*lease)));
        }
        ClaimState::Unknown { doubt, looks, .. } => {
            if let Some(past) = claim.in_doubt() {
                put("attempt", json!(past.number.as_u64()));
                put("since", moment(past.since));
                put("node", json!(past.sender.node.as_str()));
            }
            put("doubt", json!(doubt.as_str()));
            put("looks", json!(looks));
        }
        ClaimState::Absent | ClaimState::Abandoned => {}
        ClaimState::Done { answer, .. } => put("status", json!(answer.status)),
    }
    put("executions", json!(claim.executions().as_str()));
    put("attempts", claim.attempts.iter().map(attempt).collect());
    Value::Object(members)
}

/// Returns the JSON of an attempt that is over or in doubt.
fn attempt(past: &PastAttempt) -> Value {
    let PastAttempt { number, sender, since, booked, end } = past;
    let (end, more) = match end {
        AttemptEnd::Unknown => ("unknown", None),
        AttemptEnd::Executed => ("executed", None),
        AttemptEnd::NotExecuted { status } => ("not-executed", Some(("status", json!(status)))),
        AttemptEnd::Absent { said_by } => ("absent", Some(("saidBy", json!(said_by)))),
        AttemptEnd::Abandoned { said_by } => ("abandoned", Some(("saidBy", json!(said_by)))),
    };
    let windows: Vec<&str> = booked.windows.iter().map(|booked| booked.window.limit.as_str()).collect();
    let mut told = json!({
        "attempt": number.as_u64(),
        "node": sender.node.as_str(),
        "journal": sender.journal.as_str(),
        "since": moment(*since),
        "end": end,
        "limits": windows,
    });
    if let (Some(members), Some((name, value))) = (told.as_object_mut(), more) {
        members.insert(name.to_owned(), value);
    }
    told
}

/// Returns the JSON of a call of which only its existence is still stored.
pub(super) fn spent(key: &RecordKey) -> Value {
    Value::Object(named(key, "spent"))
}

/// Returns the target and the body that were sent, while they are stored.
pub(super) fn sent(claim: &Claim) -> Option<Value> {
    let (ClaimState::Sending { sent, .. } | ClaimState::Unknown { sent, .. }) = &claim.state else { return None };
    let body = strict::parse(&sent.body, Limits::ANSWER).unwrap_or(Value::Null);
    Some(json!({ "target": sent.target, "body": body }))
}

pub(super) fn unknown_parameter(name: &str) -> Violation {
    let shown: String = name.chars().take(64).collect();
    Violation::new(shown, "additionalProperties", "no parameter with this name").inside(BodyPlace::Query)
}

pub(super) fn not_served() -> Violation {
    Violation::new("/environment", "enum", "an environment that this gate serves")
}

fn named(key: &RecordKey, state: &str) -> Map<String, Value> {
    let mut members = Map::new();
    members.insert("environment".to_owned(), json!(key.environment.as_str()));
    members.insert("name".to_owned(), json!(shown_as(&key.name)));
    members.insert("state".to_owned(), json!(state));
    members
}

pub(super) fn moment(time: StoreTime) -> Value {
    Timestamp::from_microsecond(time.as_micros()).map_or(Value::Null, |time| json!(time.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_has_one_name_in_paths() {
        for (request, name) in [
            ("r-1", "request/r-1"),
            ("DA211151-8E73-4D2E-9343-6955E4A5B398", "request/da211151-8e73-4d2e-9343-6955e4a5b398"),
            ("acceptOffer:w-1:o-2", "path/acceptOffer/w-1/o-2"),
        ] {
            assert_eq!(name_of(request).as_deref(), Some(name));
            assert!(shown_as(name).eq_ignore_ascii_case(request));
        }
        for none in ["", ":", "a:", ":a", "a::b", "a/b", "a b", "é"] {
            assert_eq!(name_of(none), None, "{none}");
        }
    }
}
