//! Writing an answer that Sluice holds whole.

use http::header::{CONTENT_LENGTH, HeaderValue};
use pingora::Result;
use pingora::http::ResponseHeader;
use pingora::proxy::Session;

use super::{Ctx, guard};
use crate::stations::reply::{self, Executed, Origin, Reply};

/// Always `true`: nothing is left for the proxy phases.
pub(super) async fn write(session: &mut Session, ctx: &mut Ctx, reply: Reply) -> Result<bool> {
    respond(session, ctx, reply).await?;
    if !session.is_body_done() {
        // The guard reads on for a while when the connection ends, so that its caller reads the answer.
        session.set_keepalive(None);
    }
    Ok(true)
}

/// Writes head and body.
pub(super) async fn respond(session: &mut Session, ctx: &mut Ctx, reply: Reply) -> Result<()> {
    ctx.note(&reply);
    let mut head = ResponseHeader::build(reply.status, Some(reply.headers.len().saturating_add(6)))?;
    for (name, value) in &reply.headers {
        head.append_header(name, value)?;
    }
    head.insert_header(CONTENT_LENGTH, HeaderValue::from(reply.body.len()))?;
    mark(&mut head, reply.origin, reply.executed, ctx)?;
    end_if_crowded(session);
    let empty = reply.body.is_empty();
    session.write_response_header(Box::new(head), empty).await?;
    if !empty {
        session.write_response_body(Some(reply.body), true).await?;
    }
    Ok(())
}

/// An answer that ends its connection says so.
pub(super) fn end_if_crowded(session: &mut Session) {
    if guard::is_crowded(session.digest()) {
        session.set_keepalive(None);
    }
}

/// What stands on every answer.
pub(super) fn mark(head: &mut ResponseHeader, origin: Origin, executed: Option<Executed>, ctx: &Ctx) -> Result<()> {
    head.insert_header(reply::ORIGIN, HeaderValue::from_static(origin.as_str()))?;
    if let Some(executed) = executed {
        head.insert_header(reply::OUTCOME, HeaderValue::from_static(executed.as_str()))?;
    }
    // Upstream may have rates of its own: these stand beside.
    for (name, value) in &ctx.limited.fields {
        head.append_header(name, value)?;
    }
    if let Some(trace) = &ctx.trace {
        head.insert_header(reply::REQUEST_ID, trace.as_str())?;
    }
    Ok(())
}
