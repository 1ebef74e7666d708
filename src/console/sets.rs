//! The set of policies in force, and the one that waits until two people agree.

use std::sync::Arc;

use serde_json::{Value, json};

use super::asked::{Asked, store_failed, violated};
use super::told;
use crate::base::ids::Environment;
use crate::catalog::{Operation, Place, Violation};
use crate::commit::{StoreFault, StoreTime};
use crate::config::Loosening;
use crate::gateway::Inside;
use crate::journey::activate::{self, NotTaken};
use crate::journey::{Candidate, Snapshot};
use crate::stations::agree::{PEOPLE, Succession};
use crate::stations::claim::Owner;
use crate::stations::reply::{Code, Reply, said, unsaid};

pub(super) async fn show(inside: &Inside, asked: &Asked) -> Reply {
    if let Some((name, _)) = asked.query.first() {
        return violated(vec![told::unknown_parameter(name)]);
    }
    let now = inside.in_force.now();
    let candidate = match &now.candidate {
        None => Value::Null,
        Some(candidate) => match shown(inside, &now, candidate).await {
            Ok(shown) => shown,
            Err(fault) => return store_failed(inside, &fault),
        },
    };
    let loosening = match inside.loosening {
        Loosening::Free => "free",
        Loosening::TwoPeople => "two-people",
    };
    let catalog = inside.catalog();
    let operations: Vec<Value> = catalog.operations().iter().filter(|one| one.enabled).map(told_of).collect();
    let mut told = json!({
        "version": now.policies.version(),
        "loosening": loosening,
        "candidate": candidate,
        "operations": operations,
    });
    if let Some(members) = told.as_object_mut() {
        members.extend(now.policies.rules.recited().map(|(name, words)| (name.to_owned(), words)));
    }
    said(200, &told)
}

fn told_of(operation: &Arc<Operation>) -> Value {
    let Operation { id, class, summary, .. } = &**operation;
    json!({ "operation": id.as_str(), "class": class.as_str(), "summary": summary })
}

pub(super) async fn agree(inside: &Inside, asked: &Asked) -> Reply {
    let now = inside.in_force.now();
    let wanted = asked.path.first().map(String::as_str).unwrap_or_default();
    let candidate = now.candidate.as_ref().filter(|candidate| candidate.policies.version() == wanted);
    let Some(candidate) = candidate else {
        let expected = match &now.candidate {
            Some(candidate) => format!("the version that waits at this node: {}", candidate.policies.version()),
            None => "a version that waits; none does at this node".to_owned(),
        };
        return violated(vec![Violation::new("version", "const", expected).inside(Place::Path)]);
    };
    let reason = asked.body.get("reason").and_then(Value::as_str).unwrap_or_default();
    match activate::agree(&inside.books, succession(inside, &now, candidate), &asked.person.who, reason).await {
        Ok(people) => {
            let missing = PEOPLE.saturating_sub(people.len());
            let status = if missing == 0 { 200 } else { 202 };
            said(status, &json!({ "version": wanted, "agreed": names(&people), "missing": missing }))
        }
        Err(NotTaken::AgreedAlready) => {
            let message = "you have agreed already, and it is noted. It takes the word of one more person.";
            unsaid(Code::TwoPeopleNeeded, message, Some(json!({ "missing": 1 })))
        }
        Err(NotTaken::Store(fault)) => store_failed(inside, &fault),
    }
}

async fn shown(inside: &Inside, now: &Snapshot, candidate: &Candidate) -> Result<Value, StoreFault> {
    let people = activate::agreed(&inside.books, succession(inside, now, candidate)).await?;
    let counted = candidate.counts();
    let counted =
        counted.iter().map(|(from, to, calls)| json!({"from": from.as_str(), "to": to.as_str(), "calls": calls}));
    Ok(json!({
        "version": candidate.policies.version(),
        "since": told::moment(StoreTime::of_micros(candidate.since.as_microsecond())),
        "agreed": names(&people),
        "missing": PEOPLE.saturating_sub(people.len()),
        "words": words(candidate),
        "difference": candidate.difference.as_json(),
        "rates": candidate.rates,
        "decisions": counted.collect::<Vec<_>>(),
    }))
}

fn words(candidate: &Candidate) -> String {
    let rates = candidate.rates.iter().map(|rate| format!("{rate} is gone or otherwise: more calls may pass\n"));
    format!("{}{}", rates.collect::<String>(), candidate.difference)
}

fn names(people: &[Owner]) -> Vec<String> {
    people.iter().map(ToString::to_string).collect()
}

/// Where the agreements stand is the same for all nodes that serve the same environments.
fn succession<'s>(inside: &Inside, now: &'s Snapshot, candidate: &'s Candidate) -> Succession<'s> {
    let environment = inside.environments.first().copied().unwrap_or(Environment::Production);
    Succession { environment, from: now.policies.version(), to: candidate.policies.version() }
}
