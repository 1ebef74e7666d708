//! Calls that wait for people: seen, and judged.

use serde_json::{Value, json};

use super::asked::{Asked, store_failed, violated};
use super::queue::Queue;
use super::view::Look;
use crate::base::digest::Fingerprint;
use crate::base::ids::HoldId;
use crate::commit::{Record, RecordKey, StoreFault};
use crate::gateway::Inside;
use crate::journey::approve::{self, Said, Unsaid};
use crate::stations::hold::{Hold, Say, Unheard};
use crate::stations::reply::{Code, Reply, said, unsaid};

pub(super) async fn list(inside: &Inside, asked: &Asked) -> Reply {
    let queue = match Queue::of(inside, asked) {
        Ok(queue) => queue,
        Err(violation) => return violated(vec![violation]),
    };
    match queue.read(inside, asked).await {
        Ok((holds, next)) => said(200, &json!({ "holds": holds, "next": next })),
        Err(fault) => store_failed(inside, &fault),
    }
}

pub(super) async fn show(inside: &Inside, asked: &Asked) -> Reply {
    match shown(inside, asked).await {
        Ok(Some(hold)) => said(200, &hold),
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
        Ok(changed) => match shown(inside, asked).await {
            Ok(Some(hold)) => said(200, &json!({ "changed": changed, "hold": hold })),
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

async fn shown(inside: &Inside, asked: &Asked) -> Result<Option<Value>, StoreFault> {
    let Some((key, record, hold)) = found(inside, asked).await? else { return Ok(None) };
    let look = Look::of(inside, &asked.person, &[key.environment]).await?;
    match look.at(&key, &record, &hold) {
        Some(seen) => look.whole(&seen).await.map(Some),
        None => Ok(None),
    }
}
