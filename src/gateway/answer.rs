//! Writes an answer that Sluice holds whole.

use http::header::{CONTENT_LENGTH, HeaderValue};
use http::{Method, StatusCode};
use pingora::Result;
use pingora::http::ResponseHeader;
use pingora::proxy::Session;

use super::Ctx;
use crate::edge::buffered::BufferedPart;
use crate::edge::guard;
use crate::edge::guard::{GATHERED_BYTES, OpenRequest, REQUEST_BYTES};
use crate::stations::reply::{self, Executed, Reply, ReplyOrigin};

/// Writes an answer. Always returns `true`: nothing is left for the proxy phases.
pub(super) async fn write_answer(session: &mut Session, ctx: &mut Ctx, reply: Reply) -> Result<bool> {
    respond(session, ctx, reply).await?;
    if !session.is_body_done() {
        // The guard goes on reading for a while, so that the caller can read the answer.
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
    if !is_without_body(head.status) {
        head.insert_header(CONTENT_LENGTH, HeaderValue::from(reply.body.len()))?;
    }
    mark(&mut head, reply.origin, reply.executed, ctx)?;
    end_if_last(session);
    let is_head_only = session.req_header().method == Method::HEAD || is_without_body(head.status);
    let empty = reply.body.is_empty() || is_head_only;
    let _held = hold(session, ctx, reply.body.len());
    session.write_response_header(Box::new(head), empty).await?;
    if !empty {
        session.write_response_body(Some(reply.body), true).await?;
    }
    Ok(())
}

/// Returns whether an answer ends with its head, whatever its headers say.
pub(super) fn is_without_body(status: StatusCode) -> bool {
    matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// Holds the memory of a part of an answer until it is written.
pub(super) fn hold(session: &Session, ctx: &Ctx, bytes: usize) -> Option<BufferedPart> {
    let held = match session.is_http2() {
        true if ctx.open.as_ref().is_some_and(OpenRequest::is_held) => bytes,
        // The stream, too, lives until its answer is taken.
        true => bytes.saturating_add(REQUEST_BYTES),
        // The guard counts what it gathers.
        false if bytes <= GATHERED_BYTES => 0,
        false => bytes,
    };
    guard::hold_answer(session.digest(), held)
}

/// Marks an answer that ends its connection.
pub(super) fn end_if_last(session: &mut Session) {
    if guard::is_last_answer(session.digest()) {
        session.set_keepalive(None);
    }
}

/// Adds the headers of every answer.
pub(super) fn mark(
    head: &mut ResponseHeader,
    origin: ReplyOrigin,
    executed: Option<Executed>,
    ctx: &Ctx,
) -> Result<()> {
    head.insert_header(reply::ORIGIN, HeaderValue::from_static(origin.as_str()))?;
    if let Some(executed) = executed {
        head.insert_header(reply::OUTCOME, HeaderValue::from_static(executed.as_str()))?;
    }
    // Upstream's own ones tell of the quota of the whole organization: beside the gate's, a client could take them for its own.
    if !ctx.limited.fields.is_empty() {
        for name in reply::RATE_FIELDS {
            head.remove_header(&name);
        }
    }
    for (name, value) in &ctx.limited.fields {
        head.append_header(name, value)?;
    }
    if let Some(trace) = &ctx.trace {
        head.insert_header(reply::REQUEST_ID, trace.as_str())?;
    }
    Ok(())
}
