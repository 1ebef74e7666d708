//! Calls that are being sent, and calls in doubt.

use serde_json::{Value, json};

use super::asked::{Asked, environment as served, store_failed, violated};
use super::page::Page;
use super::person::Role;
use super::told::{self, name_of, shown_as};
use crate::catalog::Violation;
use crate::commit::{Content, Index, Kind, RecordKey, StoreFault};
use crate::gateway::Inside;
use crate::journey::operate::{self, Resolved, Unresolved, Word};
use crate::stations::claim::{NotTaken, Otherwise};
use crate::stations::reply::{Code, Reply, said, unsaid};

pub(super) async fn list(inside: &Inside, asked: &Asked) -> Reply {
    let page = match Page::of(inside, &asked.query, &STATES, Index::Unknown, name_of, |_, _| Ok(false)) {
        Ok(page) => page,
        Err(violation) => return violated(vec![violation]),
    };
    match page.read(inside).await {
        Ok((requests, next)) => said(200, &json!({ "requests": requests, "next": next })),
        Err(fault) => store_failed(inside, &fault),
    }
}

pub(super) async fn show(inside: &Inside, asked: &Asked) -> Reply {
    let Some(key) = key(inside, asked) else { return unknown() };
    let books = &inside.books;
    match books.find(&key).await {
        Ok(Some((record, claim))) => {
            let mut request = told::request(&key, &record, &claim);
            if let (Some(members), true) = (request.as_object_mut(), asked.person.has(Role::Operator)) {
                members.extend(told::sent(&claim).map(|sent| ("sent".to_owned(), sent)));
            }
            said(200, &request)
        }
        Ok(None) => match books.store.read(&key).await {
            Ok((Some(record), _)) if record.content == Content::Spent => said(200, &told::spent(&key)),
            Ok(_) => unknown(),
            Err(fault) => store_failed(inside, &fault),
        },
        Err(fault) => store_failed(inside, &fault),
    }
}

pub(super) async fn resolve(inside: &Inside, asked: &Asked) -> Reply {
    let Some(key) = key(inside, asked) else { return unknown() };
    let reason = asked.body.get("reason").and_then(Value::as_str).unwrap_or_default();
    let word = match asked.body.get("record") {
        Some(record) => {
            if let Some(violations) = not_in_form(inside, &key, record).await {
                return violated(violations);
            }
            Word::Executed(record)
        }
        None => Word::Absent,
    };
    let resolved = operate::resolve(&inside.books, &inside.catalog(), &key, &asked.person.who, reason, word).await;
    match resolved {
        Ok(Resolved::Executed) => said(200, &json!({ "state": "executed", "missing": 0 })),
        Ok(Resolved::Absent) => said(200, &json!({ "state": "absent", "missing": 0 })),
        Ok(Resolved::SaidOnce) => said(202, &json!({ "state": "unknown", "missing": 1 })),
        Err(Unresolved::Store(fault)) => store_failed(inside, &fault),
        Err(why) => not_resolved(&why),
    }
}

fn not_resolved(why: &Unresolved) -> Reply {
    let not_in_doubt = |state: &str| {
        let message = format!("this call is not in doubt: it is `{state}`. Nothing was changed.");
        unsaid(Code::NotInDoubt, &message, Some(json!({ "state": state })))
    };
    match why {
        Unresolved::NoSuchClaim => unknown(),
        Unresolved::NotInDoubt(state) => not_in_doubt(state),
        Unresolved::NotTaken(NotTaken::NotInDoubt) => not_in_doubt("changing"),
        Unresolved::NotTaken(NotTaken::TooEarly(from)) => {
            let message = "upstream may still execute this call; say so when that time is over.";
            unsaid(Code::TooEarly, message, Some(json!({ "from": told::moment(*from) })))
        }
        Unresolved::NotTaken(NotTaken::Owner) => {
            let message = "whoever asked for a call does not say what became of it: others have to.";
            unsaid(Code::Forbidden, message, None)
        }
        Unresolved::NotTaken(NotTaken::SaidAlready) => {
            let message = "you have said so already, and it is noted. It takes the word of one more person.";
            unsaid(Code::TwoPeopleNeeded, message, Some(json!({ "missing": 1 })))
        }
        Unresolved::NotItsRecord(Otherwise::RequestId) => {
            violated(vec![Violation::new("/record", "const", "the record that bears this requestId")])
        }
        Unresolved::NotItsRecord(Otherwise::Money) => {
            let expected = "the record of this call: it moves what was asked for, from there, to there";
            violated(vec![Violation::new("/record", "const", expected)])
        }
        Unresolved::Store(_) => unsaid(Code::StoreUnavailable, "the store does not answer at this moment.", None),
    }
}

/// What of a record is not as the contract says of the operation's answers.
async fn not_in_form(inside: &Inside, key: &RecordKey, record: &Value) -> Option<Vec<Violation>> {
    let (_, claim) = inside.books.find(key).await.ok()??;
    let catalog = inside.catalog();
    let operation = catalog.operation(&claim.operation)?;
    let violations = operation.success()?.contract.violations(record);
    let inside = |violation: Violation| Violation { pointer: format!("/record{}", violation.pointer), ..violation };
    (!violations.is_empty()).then(|| violations.into_iter().map(inside).collect())
}

fn unknown() -> Reply {
    let message =
        "there is no such call here: it never came, or certainly nothing was executed and it may be sent again.";
    unsaid(Code::RequestNotFound, message, None)
}

/// Where the claim stands that a path names.
fn key(inside: &Inside, asked: &Asked) -> Option<RecordKey> {
    let [environment, request, ..] = asked.path.as_slice() else { return None };
    let environment = served(inside, environment)?;
    Some(RecordKey { environment, kind: Kind::Claim, name: name_of(request)? })
}

const STATES: [(&str, Index); 2] = [("unknown", Index::Unknown), ("sending", Index::Sending)];

impl Page<Index, String> {
    async fn read(&self, inside: &Inside) -> Result<(Vec<Value>, Option<String>), StoreFault> {
        let mut requests = Vec::new();
        let mut last = None;
        for environment in &self.environments {
            let after = match &self.after {
                Some((at, _)) if environment < at => continue,
                Some((at, name)) if environment == at => Some(name.as_str()),
                _ => None,
            };
            let room = self.limit.saturating_sub(requests.len());
            let (found, more) = operate::claims(&inside.books, *environment, self.state, after, room).await?;
            for (key, record, claim) in &found {
                requests.push(told::request(key, record, claim));
                last = Some(format!("{environment}:{}", shown_as(&key.name)));
            }
            if more {
                return Ok((requests, last));
            }
        }
        Ok((requests, None))
    }
}
