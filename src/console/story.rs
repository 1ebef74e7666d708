//! Audit entries in words.

use serde_json::{Value, json};

use super::render::{moment, shown_as};
use crate::ledger::Outstanding;

/// Returns the JSON of an entry.
pub(super) fn entry_json(outstanding: &Outstanding, entry: Value) -> Value {
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let mut json = json!({
        "environment": outstanding.environment.as_str(),
        "number": outstanding.number.as_u64(),
        "at": moment(outstanding.at),
        "node": outstanding.node.as_str(),
        "what": text("what"),
        "words": entry_in_words(&entry),
    });
    let name = text("claim").map(shown_as);
    if let Some(members) = json.as_object_mut() {
        members.extend(name.map(|name| ("name".to_owned(), Value::from(name))));
        members.insert("entry".to_owned(), entry);
    }
    json
}

/// Describes an entry in one sentence, without a full stop.
pub(super) fn entry_in_words(entry: &Value) -> String {
    let what = entry.get("what").and_then(Value::as_str).unwrap_or_default();
    let waited = entry.get("hold").is_some();
    let mut text = match what {
        "sending" if waited => "the approved call was sent upstream",
        "sending" => "the call was allowed and sent upstream",
        "refused" => "the rules denied the call, and it was not sent",
        "executed" if entry.get("executions").and_then(Value::as_str).is_some_and(|word| word != "at-most-once") => {
            "upstream executed this attempt as well: the call was paid twice, or may have been"
        }
        "executed" if entry.get("late") == Some(&Value::Bool(true)) => {
            "proof arrived that upstream had executed the call, whatever was said of it before"
        }
        "executed" => "upstream executed the call",
        "not-executed" => "upstream refused the call without executing it",
        "undone" => "the call was certainly not executed and may be sent again",
        "unknown" => "the outcome is unknown: upstream may have executed the call",
        "late" => "an answer arrived after the state of the call had changed",
        "said-absent" => "confirmed once that upstream did not execute the call",
        "said-abandoned" => "confirmed once that nobody will ever know the outcome",
        "abandoned" => "given up: the call is never sent again, and limits count it",
        "took-plain" => "this gate takes records in plain text, although it has a seal key",
        "sealed-anew" => "a record of the store was sealed anew, with the key of now",
        "journal-lost" => "this gate came with a new journal; its former one is lost",
        "said-gone" => "confirmed once that a gate is gone for good",
        "gone" => "a gate was declared gone for good",
        "retired" => "a gate that is gone for good retired: its journal was taken in",
        "said-executed" => "one operator showed that upstream executed the call",
        "frozen" => "money was frozen",
        "said-unfrozen" => "one operator confirmed that a freeze is to be lifted",
        "unfrozen" => "a freeze was lifted",
        "waits" => "new policies wait until two people approve them",
        "agreed" => "a person approved new policies",
        "recovery-signed" => "signatures of recovery keys were handed in, to enrol passkeys",
        "took-force" => "new policies came into force",
        "rebuilt" => "the store had lost its memory and was rebuilt from a journal",
        "remembered" => "a record that the store had lost was restored from this audit log",
        "held" => "the call was held for approval",
        "voted" if entry.get("complete") == Some(&Value::Bool(true)) => {
            "a person approved the call, and no other approval is needed"
        }
        "voted" => "a person approved the call",
        "challenged" => "a person was asked to sign a vote",
        "withdrawn" => "a vote was withdrawn",
        "noted" => "a comment was added",
        "approved" => "fully approved: the call will be sent",
        "reopened" => "more approvals are needed than were given",
        "rejected" => "the call was rejected and not sent",
        "expired" => "expired with too few approvals, and was not sent",
        "cancelled" => "the caller cancelled the call, and it was not sent",
        "blocked" => {
            "the hold was blocked: the rules in force at release denied its call, or its call ended without it"
        }
        "reminded" => "approvers were reminded that the hold expires soon",
        "telling" => "notices to webhooks are being sent",
        "told" => "notices to webhooks were delivered or dropped",
        "stand-in" => "a stand-in was named",
        "stand-in-revoked" => "a stand-in was revoked",
        "signed-in" => "signed in at the console",
        "stayed-in" => "used a session at the console",
        "signed-out" => "signed out at the console",
        "sessions-ended" => "all console sessions of a person were ended",
        "exported" if entry.get("list").and_then(Value::as_str) == Some("history") => {
            "entries of the audit log were exported to a file"
        }
        "exported" => "payments were exported to a file",
        "follows" => "a gate reads upstream's list of payments",
        "followed" => "upstream's list shows the payment",
        "foreign" => "upstream lists a payment that no gate sent, or not like that",
        other => other,
    }
    .to_owned();
    let text_of = |name: &str| entry.get(name).and_then(Value::as_str);
    if let Some(rules) = entry.pointer("/decision/by").and_then(Value::as_array) {
        let rules: Vec<&str> = rules.iter().filter_map(Value::as_str).collect();
        if !rules.is_empty() {
            text.push_str(&format!(", by {}", rules.join(" and ")));
        }
    }
    if let Some(limits) = entry.pointer("/decision/mayExceed").and_then(Value::as_array) {
        let limits: Vec<String> = limits.iter().filter_map(beyond).collect();
        text.push_str(&format!(", approved beyond the limit {}", limits.join(" and ")));
    }
    if let Some(status) = entry.get("status").and_then(Value::as_u64) {
        text.push_str(&format!(" (status {status})"));
    }
    text.extend(text_of("doubt").map(|doubt| format!(" ({doubt})")));
    text.extend(text_of("state").map(|state| format!(" ({state})")));
    text.extend(text_of("problem").map(|problem| format!(": {problem}")));
    text.extend(text_of("windows").map(|windows| format!("; limits: {windows}")));
    text.extend(text_of("freeze").map(|freeze| format!(": {freeze}")));
    let people = people(entry);
    if !people.is_empty() {
        text.push_str(&format!(", by {}", people.join(" and ")));
    }
    text.extend(text_of("reason").or(text_of("text")).map(|reason| format!(": “{reason}”")));
    text
}

/// Describes how far a call may exceed a limit.
fn beyond(limit: &Value) -> Option<String> {
    Some(format!("`{}` up to {}", limit.get("limit")?.as_str()?, limit.get("upTo")?.as_str()?))
}

/// Returns the people who did it.
fn people(entry: &Value) -> Vec<&str> {
    let subject = |one| Value::pointer(one, "/subject").or(Some(one)).and_then(Value::as_str);
    let confirmed = entry.get("saidBy").and_then(Value::as_array).into_iter().flatten();
    entry.get("by").into_iter().chain(confirmed).filter_map(subject).collect()
}

/// Returns whether this subject requested the call or took part in the event.
pub(super) fn is_about(entry: &Value, person: &str) -> bool {
    let is_subject = |value: Option<&Value>| value.and_then(Value::as_str) == Some(person);
    let is_named = |value: &Value| {
        is_subject(value.get("subject"))
            || value.as_str().is_some_and(|text| text.split_once('/').is_some_and(|(_, subject)| subject == person))
    };
    let named = ["saidBy", "agreed"].into_iter().filter_map(|name| entry.get(name)).filter_map(Value::as_array);
    is_subject(entry.get("requester"))
        || ["owner", "by"].iter().filter_map(|name| entry.get(*name)).any(is_named)
        || named.flatten().any(is_named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::EntryKind;

    #[test]
    fn whatever_happens_has_words() {
        for what in EntryKind::ALL {
            let text = entry_in_words(&json!({ "what": what.as_str() }));
            assert!(text.len() > what.as_str().len() + 4, "{text}");
        }
    }

    #[test]
    fn words_say_who_and_why() {
        let by = json!({"issuer": "people", "subject": "ann"});
        let rejected = json!({"what": "rejected", "by": by, "reason": "too <b>much</b>"});
        assert_eq!(entry_in_words(&rejected), "the call was rejected and not sent, by ann: “too <b>much</b>”");
        let sending = json!({"what": "sending", "decision": {"by": ["small", "day"], "effect": "allow"}});
        assert_eq!(entry_in_words(&sending), "the call was allowed and sent upstream, by small and day");
        let beyond = json!([{"limit": "day", "upTo": "1500 USD"}]);
        let sending = json!({"what": "sending", "hold": "a1", "decision": {"by": ["day"], "mayExceed": beyond}});
        let words = "the approved call was sent upstream, by day, approved beyond the limit `day` up to 1500 USD";
        assert_eq!(entry_in_words(&sending), words);
        let said = json!({"what": "executed", "status": 200, "saidBy": ["people/bob"], "reason": "seen"});
        assert_eq!(entry_in_words(&said), "upstream executed the call (status 200), by people/bob: “seen”");
    }

    #[test]
    fn a_person_is_found_in_each_part() {
        let ann = json!({"issuer": "people", "subject": "ann"});
        for entry in [
            json!({"owner": ann}),
            json!({"requester": "ann"}),
            json!({"by": ann}),
            json!({"saidBy": ["people/bob", "people/ann"]}),
            json!({"agreed": [ann]}),
        ] {
            assert!(is_about(&entry, "ann") && !is_about(&entry, "an") && !is_about(&entry, "people"), "{entry}");
        }
        assert!(!is_about(&json!({"reason": "ann", "by": "sluice store import"}), "ann"));
    }
}
