//! The contract of this gate as one OpenAPI document, at `/sluice/v1/openapi.json`.
//!
//! Only callers get it: it is large, and strangers get nothing but a 401.

use http::Method;
use pingora::proxy::Session;

use super::holds::own_caller;
use super::{Ctx, Gate};
use crate::stations::admit::AdmitRefusal;
use crate::stations::reply::{Refusal, Reply, ok_bytes, refused};

const PATH: &[u8] = b"/sluice/v1/openapi.json";

/// Returns whether a request is for the document; no operation of the contract has such a path.
pub(super) fn is_about(session: &Session) -> bool {
    session.req_header().raw_path() == PATH
}

pub(super) async fn answer(gate: &Gate, session: &mut Session, ctx: &mut Ctx) -> Reply {
    if session.req_header().method != Method::GET {
        return refused(&Refusal::Admit(AdmitRefusal::MethodNotAllowed(vec![Method::GET])), None);
    }
    match own_caller(gate, session, ctx).await {
        Ok(_) => ok_bytes(gate.in_force.now().catalog.document().clone()),
        Err(reply) => reply,
    }
}
