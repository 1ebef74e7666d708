//! Calls that wait for people: seen, and judged.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::asked::{Asked, store_failed, violated};
use super::page::Page;
use super::person::{Person, Role};
use super::policies::standing;
use super::told;
use crate::base::digest::Fingerprint;
use crate::base::ids::{Environment, HoldId};
use crate::commit::{Index, Record, RecordKey, StoreFault, StoreTime};
use crate::gateway::Inside;
use crate::journey::approve::{self, Said, Unsaid, progress_of};
use crate::journey::explain::{self, Outlook};
use crate::journey::holds::key;
use crate::policy::{Limit, Progress, Reservation};
use crate::stations::claim::Owner;
use crate::stations::hold::{Hold, Say, Unheard, in_words, read_again};
use crate::stations::reply::{Code, Reply, said, unsaid};

/// As many open holds of an environment are put in order to be listed.
const MOST_OPEN: usize = 100_000;

pub(super) async fn list(inside: &Inside, asked: &Asked) -> Reply {
    let page = match Page::of(inside, &asked.query, &STATES, Wanted::Open, ended) {
        Ok(page) => page,
        Err(violation) => return violated(vec![violation]),
    };
    match page.read(inside, &asked.person).await {
        Ok((holds, next)) => said(200, &json!({ "holds": holds, "next": next })),
        Err(fault) => store_failed(inside, &fault),
    }
}

pub(super) async fn show(inside: &Inside, asked: &Asked) -> Reply {
    match found(inside, asked).await {
        Ok(Some((key, record, hold))) => match shown(inside, &asked.person, &key, &record, &hold).await {
            Ok(hold) => said(200, &hold),
            Err(fault) => store_failed(inside, &fault),
        },
        Ok(None) => unknown(),
        Err(fault) => store_failed(inside, &fault),
    }
}

/// Whatever a person says of a hold.
pub(super) async fn say(inside: &Inside, asked: &Asked, say: Say) -> Reply {
    let text = |name: &str| asked.body.get(name).and_then(Value::as_str);
    let (key, person) = match found(inside, asked).await {
        Ok(Some((key, ..))) => (key, &asked.person.who),
        Ok(None) => return unknown(),
        Err(fault) => return store_failed(inside, &fault),
    };
    let words = text("comment").or(text("reason")).or(text("text"));
    let spoken = Said { say, person, seen: text("fingerprint").and_then(Fingerprint::of_hex), text: words };
    match approve::say(&inside.books, &inside.catalog(), &inside.in_force.now().policies, &key, spoken).await {
        Ok(changed) => match found(inside, asked).await {
            Ok(Some((key, record, hold))) => match shown(inside, &asked.person, &key, &record, &hold).await {
                Ok(hold) => said(200, &json!({ "changed": changed, "hold": hold })),
                Err(fault) => store_failed(inside, &fault),
            },
            Ok(None) => unknown(),
            Err(fault) => store_failed(inside, &fault),
        },
        Err(Unsaid::Store(fault)) => store_failed(inside, &fault),
        Err(Unsaid::NoSuchHold) => unknown(),
        Err(Unsaid::Unheard(why)) => unheard(&why),
    }
}

fn unheard(why: &Unheard) -> Reply {
    match why {
        Unheard::OtherBytes => {
            let message = "this is not the fingerprint of what waits here: look at it again. Nothing was changed.";
            unsaid(Code::OtherBytes, message, None)
        }
        Unheard::Asked => {
            let message = "whoever asked for a call does not judge it: others have to. Nothing was changed.";
            unsaid(Code::Forbidden, message, None)
        }
        Unheard::NotAsked => {
            let message = "you are in none of the groups that are asked here. Nothing was changed.";
            unsaid(Code::Forbidden, message, None)
        }
        Unheard::Over(state) => {
            let message = format!("this waits for nobody any more: it is `{state}`. Nothing was changed.");
            unsaid(Code::HoldOver, &message, Some(json!({ "state": state })))
        }
        Unheard::Full => unsaid(Code::HoldOver, "no more words are kept of this one. Nothing was changed.", None),
    }
}

fn unknown() -> Reply {
    unsaid(Code::HoldNotFound, "nothing waits here under this name, and nothing that did is kept.", None)
}

async fn found(inside: &Inside, asked: &Asked) -> Result<Option<(RecordKey, Record, Hold)>, StoreFault> {
    let id = asked.path.first().and_then(|id| HoldId::parse(id));
    let Some(id) = id else { return Ok(None) };
    approve::find(&inside.books, &inside.environments, &id).await
}

/// As people see it: words for every role, the exact bytes for those who judge.
async fn shown(
    inside: &Inside,
    person: &Person,
    key: &RecordKey,
    record: &Record,
    hold: &Hold,
) -> Result<Value, StoreFault> {
    let mut shown = summary(inside, key, record, hold);
    let sees = person.has(Role::Approver) || person.has(Role::Operator);
    if let (true, Ok(body)) = (sees, std::str::from_utf8(&hold.sent.body)) {
        let sent = json!({ "method": hold.method.as_str(), "target": hold.sent.target, "body": body });
        shown.insert("sent".to_owned(), sent);
    }
    shown.insert("mayJudge".to_owned(), Value::from(may_judge(inside, person, hold)));
    let now = inside.in_force.now();
    if let Some(intent) = read_again(&now.catalog, key.environment, hold).filter(|_| hold.state.is_open()) {
        let policies = &now.policies;
        let Outlook { paid, counts } = explain::outlook(&inside.books, policies, &intent).await?;
        let last = |(destination, at): &(String, Option<StoreTime>)| json!({ "destination": destination, "at": at.map(told::moment) });
        shown.insert("paidBefore".to_owned(), paid.iter().map(last).collect());
        let counted = |(reservation, used): &(Reservation, u64)| counted(&policies.rules.limits, reservation, *used);
        shown.insert("limits".to_owned(), counts.iter().filter_map(counted).collect());
    }
    Ok(Value::Object(shown))
}

/// What a limit has left now, and once the call has gone.
fn counted(limits: &[Limit], reservation: &Reservation, used: u64) -> Option<Value> {
    let Reservation { window, units, max, .. } = reservation;
    let mut members = standing(limits.iter().find(|limit| *limit.id == *window.limit)?, &window.key, used);
    members.insert("adds".to_owned(), json!(units));
    members.insert("leftAfter".to_owned(), json!(max.saturating_sub(used).saturating_sub(*units)));
    Some(Value::Object(members))
}

fn may_judge(inside: &Inside, person: &Person, hold: &Hold) -> bool {
    let member = format!("{}:{}", person.who.issuer, person.who.subject);
    let is_asked = hold.asked.iter().any(|approval| inside.in_force.now().policies.rules.may_say(approval, &member));
    person.has(Role::Approver)
        && hold.state.is_open()
        && is_asked
        && !hold.is_asked_by(&person.who.subject, &inside.books.owners)
}

fn summary(inside: &Inside, key: &RecordKey, record: &Record, hold: &Hold) -> Map<String, Value> {
    let mut members = Map::new();
    let mut put = |name: &str, value: Value| drop(members.insert(name.to_owned(), value));
    put("id", json!(hold.id.as_str()));
    put("environment", json!(key.environment.as_str()));
    put("state", json!(hold.state.as_str()));
    put("operation", json!(hold.operation.as_str()));
    if let Some(id) = &hold.request_id {
        put("requestId", json!(id.as_str()));
    }
    put("fingerprint", json!(hold.fingerprint.to_hex()));
    put("owner", json!({ "issuer": hold.by.issuer, "subject": hold.by.subject }));
    put("requester", json!(hold.by.requester));
    put("reasons", json!(hold.reasons));
    put("approvals", progress_of(&inside.books, hold, &inside.in_force.now().policies).iter().map(approval).collect());
    put("votes", hold.votes.iter().map(|vote| spoken(&vote.person, vote.comment.as_deref(), vote.at)).collect());
    put("notes", hold.notes.iter().map(|note| spoken(&note.person, Some(&note.text), note.at)).collect());
    put("createdAt", told::moment(hold.created(record.at)));
    put("expiresAt", told::moment(hold.deadline(record.at)));
    put("trace", json!(hold.trace.as_str()));
    if hold.tries > 0 {
        put("tries", json!(hold.tries));
    }
    let intent = read_again(&inside.catalog(), key.environment, hold);
    let line = |(name, text): (&str, String)| json!({ "name": name, "text": text });
    let words = intent.as_ref().map(in_words).unwrap_or_default();
    put("words", words.into_iter().map(line).collect());
    members
}

fn approval(one: &Progress) -> Value {
    let missing = |(group, count): &(String, u64)| json!({ "group": group, "count": count });
    let missing: Vec<Value> = one.missing.iter().map(missing).collect();
    json!({ "name": &*one.name, "needed": one.needed, "given": one.given, "missing": missing })
}

fn spoken(person: &Owner, text: Option<&str>, at: StoreTime) -> Value {
    json!({ "issuer": person.issuer, "subject": person.subject, "text": text, "at": told::moment(at) })
}

/// Which open holds are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Open,
    Pending,
    Approved,
}

const STATES: [(&str, Wanted); 3] =
    [("open", Wanted::Open), ("pending", Wanted::Pending), ("approved", Wanted::Approved)];

/// Of the page before, the last: its expiry and its name.
type Ended = (i64, String);

impl Page<Wanted, Ended> {
    /// Those that expire first stand first.
    async fn read(&self, inside: &Inside, person: &Person) -> Result<(Vec<Value>, Option<String>), StoreFault> {
        let (mut holds, mut last) = (Vec::new(), None);
        for environment in &self.environments {
            let is_behind = |due: &StoreTime, name: &str| match &self.after {
                Some((at, (micros, last))) if environment == at => (due.as_micros(), name) > (*micros, last.as_str()),
                Some((at, ..)) => environment > at,
                None => true,
            };
            for (due, name) in self.names(inside, *environment).await? {
                if !is_behind(&due, &name) {
                    continue;
                }
                if holds.len() >= self.limit {
                    return Ok((holds, last));
                }
                let Some(id) = HoldId::parse(&name) else { continue };
                let key = key(*environment, &id);
                match inside.books.find_hold(&key).await {
                    Ok(Some((record, hold))) => {
                        let mut one = summary(inside, &key, &record, &hold);
                        one.insert("mayJudge".to_owned(), Value::from(may_judge(inside, person, &hold)));
                        holds.push(Value::Object(one));
                        last = Some(format!("{environment}:{}:{name}", due.as_micros()));
                    }
                    Ok(None) => {}
                    // One that cannot be read does not hide the others.
                    Err(fault @ StoreFault::Broken(_)) => inside.books.told_of(&fault),
                    Err(fault) => return Err(fault),
                }
            }
        }
        Ok((holds, None))
    }

    async fn names(&self, inside: &Inside, environment: Environment) -> Result<Vec<(StoreTime, String)>, StoreFault> {
        let store = &inside.books.store;
        let mut open = store.due(environment, Index::Held, None, MOST_OPEN).await?;
        if self.state != Wanted::Open {
            let approved = store.due(environment, Index::Approved, None, MOST_OPEN).await?;
            let approved: BTreeSet<String> = approved.into_iter().map(|(_, name)| name).collect();
            open.retain(|(_, name)| approved.contains(name) == (self.state == Wanted::Approved));
        }
        open.sort();
        Ok(open)
    }
}

fn ended(text: &str) -> Option<Ended> {
    let (micros, id) = text.split_once(':')?;
    Some((micros.parse().ok()?, HoldId::parse(id)?.to_string()))
}
