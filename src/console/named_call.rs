//! The call that a path names, and the answer where the store has no record of it.
//!
//! A store that was restored, rebuilt or set back may have lost the record of a payment. So no record is no proof that
//! nothing was executed, and people learn whom to ask.

use serde_json::json;

use super::render::{moment, name_of};
use super::request::{ActRequest, environment as served};
use super::state::ConsoleState;
use crate::base::ids::Environment;
use crate::ledger::{Kind, RecordKey};
use crate::node::StopReason;
use crate::stations::reply::{Code, Reply, error_json};

/// Returns the key of the claim that a path names.
pub(super) fn claim_key(inside: &ConsoleState, asked: &ActRequest) -> Option<RecordKey> {
    let [environment, request, ..] = asked.path.as_slice() else { return None };
    let environment = served(inside, environment)?;
    Some(RecordKey { environment, kind: Kind::Claim, name: name_of(request)? })
}

/// Says that the store has no record of a call, and what this means there.
pub(super) async fn unrecorded(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    let [environment, request, ..] = asked.path.as_slice() else {
        return error_json(Code::RequestNotFound, "name an environment and a call.", None);
    };
    let (Some(key), Some(served)) = (claim_key(inside, asked), served(inside, environment)) else {
        let served: Vec<&str> = inside.environments.iter().map(|one| one.as_str()).collect();
        let message = format!(
            "this is no environment of this gate, or no name of a call: it serves {}, and was asked for `{request}` in \
             {environment}.",
            served.join(" and ")
        );
        return error_json(Code::RequestNotFound, &message, None);
    };
    let elsewhere = recorded_elsewhere(inside, asked, &key).await;
    let elsewhere = elsewhere.map_or_else(String::new, |other| format!(" It has one in {other}: ask there."));
    let meaning = match is_doubted(inside, served) {
        true => format!(
            "Money is closed in {served}, because this store or its journal may lack payments: what was before is not known, and \
             this call may have been executed.{} Ask the payments API for this requestId before money is opened",
            last_paid(inside, served).await
        ),
        false => "Either no gate got this call, or nothing of it was sent, or the record was lost when a store was restored or \
                  rebuilt. Ask the payments API for this requestId before anybody sends it again"
            .to_owned(),
    };
    let message = format!("this store has no record of `{request}` in {served}.{elsewhere} {meaning}.");
    error_json(Code::RequestNotFound, &message, Some(json!({ "environment": served.as_str() })))
}

/// Returns another environment in which the store has a record of a call that the person may see.
async fn recorded_elsewhere(inside: &ConsoleState, asked: &ActRequest, key: &RecordKey) -> Option<Environment> {
    for environment in inside.environments.iter().filter(|one| **one != key.environment) {
        let there = RecordKey { environment: *environment, ..key.clone() };
        if let Ok(Some((_, claim))) = inside.node.find(&there).await
            && inside.shows_call(&asked.person, *environment, &claim.owner.issuer, &claim.owner.subject)
        {
            return Some(*environment);
        }
    }
    None
}

/// Whether money is closed because payments may be missing from the store or the journal.
fn is_doubted(inside: &ConsoleState, environment: Environment) -> bool {
    let lacks = |reason| matches!(reason, StopReason::Restored | StopReason::JournalBegins);
    let stops = inside.node.watched.stops();
    stops.iter().any(|stop| lacks(stop.reason) && stop.environment.is_none_or(|one| one == environment))
}

async fn last_paid(inside: &ConsoleState, environment: Environment) -> String {
    match inside.node.store.last_paid(environment).await {
        Ok(Some(at)) => {
            let at = moment(at);
            format!(" The last payment that this store knows was executed by {}.", at.as_str().unwrap_or_default())
        }
        Ok(None) => " This store knows no payment at all.".to_owned(),
        Err(_) => String::new(),
    }
}
