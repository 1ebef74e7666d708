//! What callers ask of their own calls that wait for people: how they stand, and that they be cancelled.
//!
//! `GET /sluice/v1/holds/{id}` and `POST /sluice/v1/holds/{id}/cancel`. Nobody learns whether another's is there.

use std::sync::Arc;

use http::Method;
use pingora::proxy::Session;
use serde_json::json;

use super::{Ctx, Gate, request};
use crate::base::ids::HoldId;
use crate::journey::approve::progress_of;
use crate::journey::holds::{Cancelled, key};
use crate::stations::admit::{AdmitRefusal, Caller, READ_WITH_BODY, bearer};
use crate::stations::claim::Owner;
use crate::stations::reply::{Code, Refusal, Reply, Waiting, refused, said, unsaid};

const PREFIX: &[u8] = b"/sluice/v1/holds/";

/// Whether a request is about a hold; no operation of the contract has such a path.
pub(super) fn is_about(session: &Session) -> bool {
    session.req_header().raw_path().starts_with(PREFIX)
}

pub(super) async fn answer(gate: &Gate, session: &mut Session, ctx: &mut Ctx) -> Reply {
    match answered(gate, session, ctx).await {
        Ok(reply) => reply,
        Err(refusal) => {
            if let AdmitRefusal::NotBelieved(fault) = &refusal {
                gate.metrics.token_refused(gate.environment.as_str(), fault.as_str());
            }
            refused(&Refusal::Admit(refusal), None)
        }
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Show,
    Cancel,
}

async fn answered(gate: &Gate, session: &mut Session, ctx: &mut Ctx) -> Result<Reply, AdmitRefusal> {
    let (id, ask) = asked(session.req_header().raw_path(), &session.req_header().method)?;
    if !session.is_body_empty() {
        return Err(AdmitRefusal::Malformed(READ_WITH_BODY));
    }
    let caller = asker(gate, session, ctx).await?;
    let (snapshot, asker) = (gate.in_force.now(), Owner::of(&caller));
    if let Some(trace) = ctx.trace.clone() {
        ctx.limited = snapshot.rates.take_for_hold(gate.environment, &caller, &trace).await;
    }
    if let Some(exceeded) = ctx.limited.exceeded.take() {
        return Ok(refused(&Refusal::Exceeded(exceeded), None));
    }
    let Some(id) = id else { return Ok(unknown()) };
    let (books, key) = (&gate.books, key(gate.environment, &id));
    let cancelled = match ask {
        Ask::Show => Ok(None),
        Ask::Cancel => books.cancel(&key, &asker).await,
    };
    match cancelled {
        Ok(Some(Cancelled::TooLate)) => {
            let message = "this does not wait any more; repeat the call for what became of it. Nothing was changed.";
            return Ok(unsaid(Code::HoldOver, message, None));
        }
        Ok(Some(Cancelled::Now) | None) => {}
        Err(fault) => {
            books.told_of(&fault);
            return Ok(away());
        }
    }
    Ok(match books.find_hold(&key).await {
        Ok(Some((record, hold))) if hold.owner() == asker => {
            match progress_of(books, gate.environment, &hold, &snapshot.policies).await {
                Ok(progress) => {
                    said(200, &json!({ "hold": Waiting { hold: &hold, at: record.at, progress: &progress }.told() }))
                }
                Err(fault) => {
                    books.told_of(&fault);
                    away()
                }
            }
        }
        Ok(_) => unknown(),
        Err(fault) => {
            books.told_of(&fault);
            away()
        }
    })
}

async fn asker(gate: &Gate, session: &Session, ctx: &mut Ctx) -> Result<Arc<Caller>, AdmitRefusal> {
    let certificate = request::certificate(gate, session, ctx)?;
    let token = bearer(&session.req_header().headers)?;
    let believed = gate.identity.believe(&token).await.map_err(AdmitRefusal::NotBelieved)?;
    let caller = believed.caller_with(certificate.as_ref()).map_err(AdmitRefusal::NotBelieved)?;
    if !believed.environments.contains(&gate.environment) {
        return Err(AdmitRefusal::WrongEnvironment);
    }
    Ok(caller)
}

/// Which hold, if the path could name one, and what of it.
fn asked(path: &[u8], method: &Method) -> Result<(Option<HoldId>, Ask), AdmitRefusal> {
    let rest = path.strip_prefix(PREFIX).and_then(|rest| std::str::from_utf8(rest).ok()).unwrap_or_default();
    let (id, allowed, ask) = match rest.split_once('/') {
        None => (rest, Method::GET, Ask::Show),
        Some((id, "cancel")) => (id, Method::POST, Ask::Cancel),
        Some(_) => return Err(AdmitRefusal::UnknownPath),
    };
    if method != allowed {
        return Err(AdmitRefusal::MethodNotAllowed(vec![allowed]));
    }
    Ok((HoldId::parse(id), ask))
}

fn unknown() -> Reply {
    unsaid(Code::HoldNotFound, "no call of yours waits here under this name, and none that did is kept.", None)
}

fn away() -> Reply {
    unsaid(Code::StoreUnavailable, "the store does not answer at this moment; nothing was changed: repeat it.", None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_hold_or_nothing() {
        let id = "0a".repeat(16);
        let path = |rest: &str| format!("/sluice/v1/holds/{rest}").into_bytes();
        let read = |rest: &str, method| asked(&path(rest), &method);
        let named = HoldId::parse(&id);
        assert_eq!(read(&id, Method::GET), Ok((named.clone(), Ask::Show)));
        assert_eq!(read(&format!("{id}/cancel"), Method::POST), Ok((named, Ask::Cancel)));
        for odd in ["", "x", "../x", &format!("{id}?a=b"), &id.to_uppercase()] {
            assert!(!matches!(read(odd, Method::GET), Ok((Some(_), _))), "{odd}");
        }
        assert_eq!(read(&format!("{id}/cancel"), Method::GET), Err(AdmitRefusal::MethodNotAllowed(vec![Method::POST])));
        assert_eq!(read(&id, Method::DELETE), Err(AdmitRefusal::MethodNotAllowed(vec![Method::GET])));
        assert_eq!(read(&format!("{id}/approve"), Method::POST), Err(AdmitRefusal::UnknownPath));
    }
}
