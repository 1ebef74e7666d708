//! What an Entry of the audit chain means, in words.

use serde_json::{Value, json};

use super::told::{moment, shown_as};
use crate::commit::Outstanding;

/// An Entry as the console tells it.
pub(super) fn as_told(outstanding: &Outstanding, entry: Value) -> Value {
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let mut told = json!({
        "environment": outstanding.environment.as_str(),
        "number": outstanding.number.as_u64(),
        "at": moment(outstanding.at),
        "node": outstanding.node.as_str(),
        "what": text("what"),
        "words": words(&entry),
    });
    let name = text("claim").map(shown_as);
    if let Some(members) = told.as_object_mut() {
        members.extend(name.map(|name| ("name".to_owned(), Value::from(name))));
        members.insert("entry".to_owned(), entry);
    }
    told
}

/// One sentence, without a full stop.
pub(super) fn words(entry: &Value) -> String {
    let what = entry.get("what").and_then(Value::as_str).unwrap_or_default();
    let waited = entry.get("hold").is_some();
    let mut text = match what {
        "sending" if waited => "what people approved was let go upstream",
        "sending" => "it was allowed, and let go upstream",
        "refused" => "the rules did not let it pass: nothing was sent",
        "executed" => "upstream executed it",
        "not-executed" => "upstream refused it: nothing was executed",
        "undone" => "certainly nothing was executed: it may be tried again",
        "unknown" => "whether upstream executed it is not known",
        "late" => "an answer came after the call had moved on",
        "said-absent" => "one person says that upstream did not execute it",
        "frozen" => "money was frozen",
        "unfrozen" => "a freeze was lifted",
        "agreed" => "a person agreed that other policies take force",
        "took-force" => "other policies took force",
        "remembered" => "what the store had forgotten was put back from this chain",
        "held" => "it waits for people",
        "voted" if entry.get("complete") == Some(&Value::Bool(true)) => {
            "a person approved it, and it needs nobody else"
        }
        "voted" => "a person approved it",
        "withdrawn" => "a person took their vote back",
        "noted" => "a person remarked something",
        "approved" => "people enough approved it: it is to be sent",
        "reopened" => "it takes more people than approved it",
        "rejected" => "it was rejected: nothing was sent",
        "expired" => "its time was over before people enough approved it: nothing was sent",
        "cancelled" => "whoever asked for it took it back: nothing was sent",
        "blocked" => "people approved it, and the rules of that moment did not let it pass: nothing was sent",
        "reminded" => "people were reminded that its time is over soon",
        "telling" => "webhooks are about to be told what happened",
        "told" => "webhooks were told what happened, or it is not kept for them any longer",
        "stand-in" => "a member named a person who votes in their place for a time",
        "stand-in-revoked" => "a member took back that a person votes in their place",
        "signed-in" => "a person signed in at the console",
        "stayed-in" => "a person used their session at the console",
        "signed-out" => "a person signed out at the console",
        "sessions-ended" => "all sessions of a person at the console were ended",
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
    if let Some(status) = entry.get("status").and_then(Value::as_u64) {
        text.push_str(&format!(", with {status}"));
    }
    text.extend(text_of("doubt").map(|doubt| format!(" ({doubt})")));
    text.extend(text_of("freeze").map(|freeze| format!(": {freeze}")));
    let people = people(entry);
    if !people.is_empty() {
        text.push_str(&format!(", by {}", people.join(" and ")));
    }
    text.extend(text_of("reason").or(text_of("text")).map(|reason| format!(": “{reason}”")));
    text
}

/// Those who did it.
fn people(entry: &Value) -> Vec<&str> {
    let subject = |one| Value::pointer(one, "/subject").or(Some(one)).and_then(Value::as_str);
    let said = entry.get("saidBy").and_then(Value::as_array).into_iter().flatten();
    entry.get("by").into_iter().chain(said).filter_map(subject).collect()
}

/// Everybody who asked for it or did it, as subjects.
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
    use crate::stations::record::What;

    #[test]
    fn whatever_happens_has_words() {
        for what in What::ALL {
            let text = words(&json!({ "what": what.as_str() }));
            assert!(text.len() > what.as_str().len() + 4, "{text}");
        }
    }

    #[test]
    fn words_say_who_and_why() {
        let by = json!({"issuer": "people", "subject": "ann"});
        let rejected = json!({"what": "rejected", "by": by, "reason": "too <b>much</b>"});
        assert_eq!(words(&rejected), "it was rejected: nothing was sent, by ann: “too <b>much</b>”");
        let sending = json!({"what": "sending", "decision": {"by": ["small", "day"], "effect": "allow"}});
        assert_eq!(words(&sending), "it was allowed, and let go upstream, by small and day");
        let said = json!({"what": "executed", "status": 200, "saidBy": ["people/bob"], "reason": "seen"});
        assert_eq!(words(&said), "upstream executed it, with 200, by people/bob: “seen”");
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
