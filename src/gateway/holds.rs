//! The API for callers on their own holds: status and cancellation.
//!
//! `GET /sluice/v1/holds/{id}` and `POST /sluice/v1/holds/{id}/cancel`. Nobody learns whether another caller's hold
//! exists.

use std::sync::Arc;

use http::Method;
use pingora::proxy::Session;
use serde_json::json;

use super::caller::{believe, certificate};
use super::{Ctx, Gate, body};
use crate::base::ids::HoldId;
use crate::ledger::StoreFault;
use crate::node::approve::progress_of;
use crate::node::holds::{Cancelled, key};
use crate::stations::admit::{AdmitRefusal, Caller, READ_WITH_BODY, bearer};
use crate::stations::claim::Owner;
use crate::stations::reply::{Code, HeldCall, Refusal, Reply, error_json, ok_json, refused};

const PREFIX: &[u8] = b"/sluice/v1/holds/";

/// Returns whether a request is about a hold; no operation of the contract has such a path.
pub(super) fn is_about(session: &Session) -> bool {
    session.req_header().raw_path().starts_with(PREFIX)
}

pub(super) async fn answer(gate: &Gate, session: &mut Session, ctx: &mut Ctx) -> Reply {
    match parse_request(session.req_header().raw_path(), &session.req_header().method) {
        Ok((id, ask)) => match own_caller(gate, session, ctx).await {
            Ok(caller) => answered(gate, &caller, id, ask).await,
            Err(reply) => reply,
        },
        Err(refusal) => refused(&Refusal::Admit(refusal), None),
    }
}

/// Returns the caller of a request for the gate's own API, which has no body, or the refusal of the request. Nothing is
/// awaited of who has no token and no place.
pub(super) async fn own_caller(gate: &Gate, session: &mut Session, ctx: &mut Ctx) -> Result<Arc<Caller>, Reply> {
    let caller = asker(gate, session, ctx).await.map_err(|refusal| {
        if let AdmitRefusal::NotBelieved(fault) = &refusal {
            gate.metrics.token_refused(gate.environment.as_str(), fault.as_str());
        }
        refused(&Refusal::Admit(refusal), None)
    })?;
    ctx.take_place(gate, &caller).map_err(|refusal| refused(&refusal, None))?;
    if let Some(trace) = ctx.trace.clone() {
        ctx.limited = gate.in_force.now().rates.take_for_hold(gate.environment, &caller, &trace).await;
    }
    if let Some(exceeded) = ctx.limited.exceeded.take() {
        return Err(refused(&Refusal::Exceeded(exceeded), None));
    }
    match body::is_empty(gate, session).await {
        true => Ok(caller),
        false => Err(refused(&Refusal::Admit(AdmitRefusal::Malformed(READ_WITH_BODY)), None)),
    }
}

/// The request of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HoldRequest {
    Show,
    Cancel,
}

async fn answered(gate: &Gate, caller: &Caller, id: Option<HoldId>, ask: HoldRequest) -> Reply {
    let (snapshot, asker) = (gate.in_force.now(), Owner::of(caller));
    let Some(id) = id else { return unknown() };
    let (node, key) = (&gate.node, key(gate.environment, &id));
    let cancelled = match ask {
        HoldRequest::Show => Ok(None),
        HoldRequest::Cancel => node.cancel(&key, &asker).await,
    };
    match cancelled {
        Ok(Some(Cancelled::TooLate)) => {
            let message = "this hold is closed; repeat the original call for its outcome. Nothing was changed.";
            return error_json(Code::HoldOver, message, None);
        }
        Ok(Some(Cancelled::Now) | None) => {}
        Err(fault) => {
            node.told_of(&fault);
            return if fault == StoreFault::AwaitsJournals { awaits_journals() } else { away() };
        }
    }
    match node.find_hold(&key).await {
        Ok(Some((record, hold))) if hold.owner() == asker => {
            match progress_of(node, gate.environment, &hold, (&snapshot.catalog, &snapshot.policies)).await {
                Ok(progress) => ok_json(
                    200,
                    &json!({ "hold": HeldCall { hold: &hold, at: record.at, progress: &progress }.to_json() }),
                ),
                Err(fault) => {
                    node.told_of(&fault);
                    away()
                }
            }
        }
        Ok(_) => unknown(),
        Err(fault) => {
            node.told_of(&fault);
            away()
        }
    }
}

async fn asker(gate: &Gate, session: &Session, ctx: &mut Ctx) -> Result<Arc<Caller>, AdmitRefusal> {
    let certificate = certificate(gate, session, ctx)?;
    let token = bearer(&session.req_header().headers)?;
    let believed = believe(gate, session, &token).await?;
    let caller = believed.caller_with(certificate.as_ref()).map_err(AdmitRefusal::NotBelieved)?;
    if !believed.environments.contains(&gate.environment) {
        return Err(AdmitRefusal::WrongEnvironment);
    }
    Ok(caller)
}

/// Reads the hold's id, if the path has one, and the request.
fn parse_request(path: &[u8], method: &Method) -> Result<(Option<HoldId>, HoldRequest), AdmitRefusal> {
    let rest = path.strip_prefix(PREFIX).and_then(|rest| std::str::from_utf8(rest).ok()).unwrap_or_default();
    let (id, allowed, ask) = match rest.split_once('/') {
        None => (rest, Method::GET, HoldRequest::Show),
        Some((id, "cancel")) => (id, Method::POST, HoldRequest::Cancel),
        Some(_) => return Err(AdmitRefusal::UnknownPath),
    };
    if method != allowed {
        return Err(AdmitRefusal::MethodNotAllowed(vec![allowed]));
    }
    Ok((HoldId::parse(id), ask))
}

fn unknown() -> Reply {
    error_json(Code::HoldNotFound, "you have no hold with this id.", None)
}

fn away() -> Reply {
    error_json(
        Code::StoreUnavailable,
        "the store does not answer right now; nothing was changed. Repeat the request.",
        None,
    )
}

fn awaits_journals() -> Reply {
    error_json(
        Code::StoreUnavailable,
        "the store waits for the journals of other gates, and may be rebuilt without a cancellation; nothing was changed. Repeat \
         the request later.",
        None,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_hold_or_nothing() {
        let id = "0a".repeat(16);
        let path = |rest: &str| format!("/sluice/v1/holds/{rest}").into_bytes();
        let read = |rest: &str, method| parse_request(&path(rest), &method);
        let named = HoldId::parse(&id);
        assert_eq!(read(&id, Method::GET), Ok((named.clone(), HoldRequest::Show)));
        assert_eq!(read(&format!("{id}/cancel"), Method::POST), Ok((named, HoldRequest::Cancel)));
        for odd in ["", "x", "../x", &format!("{id}?a=b"), &id.to_uppercase()] {
            assert!(!matches!(read(odd, Method::GET), Ok((Some(_), _))), "{odd}");
        }
        assert_eq!(read(&format!("{id}/cancel"), Method::GET), Err(AdmitRefusal::MethodNotAllowed(vec![Method::POST])));
        assert_eq!(read(&id, Method::DELETE), Err(AdmitRefusal::MethodNotAllowed(vec![Method::GET])));
        assert_eq!(read(&format!("{id}/approve"), Method::POST), Err(AdmitRefusal::UnknownPath));
    }
}
