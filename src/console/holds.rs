//! The acts on held calls: list, show, vote and comment.

use serde_json::{Value, json};

use super::payments::{JudgedHold, put_earlier};
use super::queue::{Queue, QueueFault};
use super::request::{ActRequest, done_unread, store_failed, violated};
use super::server::ConsoleServer;
use super::signature::{bad_signature, sent_signature};
use super::state::ConsoleState;
use super::view::HoldViewer;
use crate::base::digest::Fingerprint;
use crate::base::ids::HoldId;
use crate::ledger::{Record, RecordKey, StoreFault};
use crate::node::approve;
use crate::node::approve::{VoteError, VoteRequest};
use crate::stations::hold::{Hold, MAX_OWN_NOTES, SeenHold, VoteAction, VoteRefusal};
use crate::stations::reply::{Code, Reply, error_json, ok_json};

pub(super) async fn list(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    let inside = &server.inside;
    let queue = match Queue::of(inside, asked) {
        Ok(queue) => queue,
        Err(violation) => return violated(vec![violation]),
    };
    match queue.read(inside, asked).await {
        Ok((holds, next)) => {
            let holds = put_earlier(server, &asked.person, holds).await;
            ok_json(200, &json!({ "holds": holds, "next": next }))
        }
        Err(QueueFault::Store(fault)) => store_failed(inside, &fault),
        Err(QueueFault::Order(violation)) => violated(vec![violation]),
    }
}

pub(super) async fn show(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    match hold_json(server, asked).await {
        Ok(Some(hold)) => ok_json(200, &hold),
        Ok(None) => unknown(),
        Err(fault) => store_failed(&server.inside, &fault),
    }
}

/// Votes on a hold, withdraws a vote, or adds a comment.
pub(super) async fn vote(server: &ConsoleServer, asked: &ActRequest, say: VoteAction) -> Reply {
    let inside = &server.inside;
    let text = |name: &str| asked.body.get(name).and_then(Value::as_str);
    let (key, person) = match find_hold(inside, asked).await {
        Ok(Some((key, ..))) => (key, &asked.person.who),
        Ok(None) => return unknown(),
        Err(fault) => return store_failed(inside, &fault),
    };
    let words = text("comment").or(text("reason")).or(text("text"));
    let digest = |name: &str| text(name).and_then(Fingerprint::of_hex);
    let seen = SeenHold { fingerprint: digest("fingerprint"), causes: digest("causes") };
    let signature = match sent_signature(asked) {
        Ok(signature) => signature,
        Err(why) => return bad_signature(&why),
    };
    let spoken = VoteRequest { say, person, seen, text: words, signature: signature.as_ref() };
    match approve::vote(&inside.node, &inside.catalog(), &inside.in_force.now().policies, &key, spoken).await {
        Ok(changed) => match hold_json(server, asked).await {
            Ok(Some(hold)) => ok_json(200, &json!({ "changed": changed, "hold": hold })),
            Ok(None) => unknown(),
            Err(fault) if changed => done_unread(inside, &fault),
            Err(fault) => store_failed(inside, &fault),
        },
        Err(VoteError::Store(fault)) => store_failed(inside, &fault),
        Err(VoteError::NoSuchHold) => unknown(),
        Err(VoteError::Refused(why)) => vote_refused(&why),
    }
}

pub(super) fn vote_refused(why: &VoteRefusal) -> Reply {
    match why {
        VoteRefusal::OtherBytes => {
            let message =
                "this is not the fingerprint of the held call: reload it and check it again. Nothing was changed.";
            error_json(Code::OtherBytes, message, None)
        }
        VoteRefusal::OtherCauses => {
            let message = "you were shown other rules, limits or figures than hold this call now: reload it, and look at why it is held. Your vote does not count.";
            error_json(Code::OtherCauses, message, None)
        }
        VoteRefusal::Asked => {
            let message = "you requested this call, so that others must approve or reject it. Nothing was changed.";
            error_json(Code::Forbidden, message, None)
        }
        VoteRefusal::NotAsked => {
            let message = "you are in none of the groups that must approve this call. Nothing was changed.";
            error_json(Code::Forbidden, message, None)
        }
        VoteRefusal::Over(state) => {
            let message =
                format!("this hold is already closed or fully approved: it is `{state}`. Nothing was changed.");
            error_json(Code::HoldOver, &message, Some(json!({ "state": state })))
        }
        VoteRefusal::NotSigned => {
            let message = "this approval takes only signed votes: vote on the console's page, with your passkey, or with `sluice approvals sign`. Your vote does not count.";
            error_json(Code::SignatureRequired, message, None)
        }
        VoteRefusal::NotEnrolled => {
            let message = "this approval takes only signed votes, and the policies in force have no passkey of yours: enrol one on the console's page. Your vote does not count.";
            error_json(Code::SignatureRequired, message, None)
        }
        VoteRefusal::BadSignature(why) => bad_signature(why),
        VoteRefusal::FullOfVotes => {
            error_json(Code::HoldFull, "this hold has as many votes as it takes. Nothing was changed.", None)
        }
        VoteRefusal::FullOfNotes => {
            let message = "this hold has as many comments as it takes; votes go on. Nothing was changed.";
            error_json(Code::HoldFull, message, None)
        }
        VoteRefusal::FullOfOwnNotes => {
            let message = format!(
                "this hold has {MAX_OWN_NOTES} comments of yours, which is as many as it takes of one person; others may comment, \
                 and votes go on. Nothing was changed."
            );
            error_json(Code::HoldFull, &message, None)
        }
    }
}

pub(super) fn unknown() -> Reply {
    error_json(Code::HoldNotFound, "there is no hold with this id, or it is no longer stored.", None)
}

pub(super) async fn find_hold(
    inside: &ConsoleState,
    asked: &ActRequest,
) -> Result<Option<(RecordKey, Record, Hold)>, StoreFault> {
    let id = asked.path.first().and_then(|id| HoldId::parse(id));
    let Some(id) = id else { return Ok(None) };
    let found = approve::find(&inside.node, &inside.environments, &id).await?;
    let is_shown = |hold: &Hold, key: &RecordKey| {
        inside.shows_call(&asked.person, key.environment, &hold.by.issuer, &hold.by.subject)
    };
    Ok(found.filter(|(key, _, hold)| is_shown(hold, key)))
}

async fn hold_json(server: &ConsoleServer, asked: &ActRequest) -> Result<Option<Value>, StoreFault> {
    let inside = &server.inside;
    let Some((key, record, hold)) = find_hold(inside, asked).await? else { return Ok(None) };
    let viewer = HoldViewer::of(inside, &asked.person, &[key.environment]).await?;
    let Some(view) = viewer.view(&key, &record, &hold).await? else { return Ok(None) };
    let shown = JudgedHold { json: viewer.details(&view).await?, earlier: view.earlier_query() };
    Ok(put_earlier(server, &asked.person, vec![shown]).await.pop())
}
