//! The answer to a read when upstream fails.

use pingora::proxy::{FailToProxy, Session};
use pingora::{Error, ErrorSource, ErrorType};

use super::{Ctx, answer};
use crate::stations::reply::{ReadFailure, Refusal, read_failed, refused};

/// Answers if the head is not out yet and the caller is still there.
pub(super) async fn to_proxy(session: &mut Session, error: &Error, ctx: &mut Ctx) -> FailToProxy {
    if ctx.read.is_none() && ctx.answered.status != 0 {
        // Only the way back failed: the noted answer stays.
        return FailToProxy { error_code: 0, can_reuse_downstream: false };
    }
    let gone = *error.esource() == ErrorSource::Downstream
        && matches!(
            error.etype(),
            ErrorType::WriteError | ErrorType::ReadError | ErrorType::ConnectionClosed | ErrorType::WriteTimedout
        );
    if gone || session.response_written().is_some() {
        return FailToProxy { error_code: 0, can_reuse_downstream: false };
    }
    let decided = ctx.read.as_mut().and_then(|read| read.instead.take());
    let reply = decided.unwrap_or_else(|| match (error.esource(), error.etype()) {
        (ErrorSource::Downstream, _) => refused(&Refusal::BodyBroken, ctx.operation.as_deref()),
        (_, ErrorType::ReadTimedout) => read_failed(ReadFailure::Silent),
        _ if ctx.connected => read_failed(ReadFailure::Broken),
        _ => read_failed(ReadFailure::Unreachable),
    });
    let status = reply.status;
    session.set_keepalive(None);
    if let Err(error) = answer::respond(session, ctx, reply).await {
        tracing::debug!(kind = error.etype().as_str(), "the caller left before its answer");
    }
    FailToProxy { error_code: status, can_reuse_downstream: false }
}
