//! What this gate says of itself: its contract as one OpenAPI document, and help on each error code.
//!
//! Only callers get the document: it is large, and strangers get nothing but a 401. The help on codes is for everybody:
//! the 401 links to it as well.

use http::Method;
use pingora::proxy::Session;

use super::holds::own_caller;
use super::{Ctx, Gate};
use crate::stations::admit::{AdmitRefusal, READ_WITH_BODY};
use crate::stations::reply::{HELP, Refusal, Reply, help, ok_bytes, refused};

const PATH: &[u8] = b"/sluice/v1/openapi.json";

/// Returns whether a request is for the document or for help; no operation of the contract has such a path.
pub(super) fn is_about(session: &Session) -> bool {
    session.req_header().raw_path() == PATH || code_of(session).is_some()
}

pub(super) async fn answer(gate: &Gate, session: &mut Session, ctx: &mut Ctx) -> Reply {
    let refuse = |refusal| refused(&Refusal::Admit(refusal), None);
    if session.req_header().method != Method::GET {
        return refuse(AdmitRefusal::MethodNotAllowed(vec![Method::GET]));
    }
    if let Some(code) = code_of(session) {
        return match std::str::from_utf8(code).ok().and_then(help) {
            _ if !session.is_body_empty() => refuse(AdmitRefusal::Malformed(READ_WITH_BODY)),
            Some(help) => help,
            None => refuse(AdmitRefusal::UnknownPath),
        };
    }
    match own_caller(gate, session, ctx).await {
        Ok(_) => ok_bytes(gate.in_force.now().catalog.document().clone()),
        Err(reply) => reply,
    }
}

/// Returns the code that a request asks help on.
fn code_of(session: &Session) -> Option<&[u8]> {
    session.req_header().raw_path().strip_prefix(HELP.as_bytes())
}
