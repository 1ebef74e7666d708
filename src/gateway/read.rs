//! A read on its way out: streamed by the proxy phases, or fetched whole where its answer must be checked first.

use bytes::Bytes;
use http::HeaderMap;
use pingora::http::RequestHeader;
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorType, Result};

use super::response::Incoming;
use super::{Ctx, Gate};
use crate::adapters::clock::Stopwatch;
use crate::adapters::upstream::request_header;
use crate::base::ids::TraceId;
use crate::journey::submit::send;
use crate::stations::forward::{AnswerBody, Cleared, Loss, Outgoing, Sent, outgoing};
use crate::stations::reply::{Reply, answer_refused, from_upstream, read_error, read_failed};
use crate::stations::settle::drift;

/// A read that the proxy phases carry.
#[derive(Debug)]
pub(super) struct Read {
    outgoing: Outgoing,
    /// What came of it so far.
    pub(super) incoming: Incoming,
    /// An answer that was decided on the way and is to be written instead of upstream's.
    pub(super) instead: Option<Reply>,
}

impl Read {
    pub(super) fn new(gate: &Gate, cleared: Cleared, headers: &HeaderMap, trace: &TraceId) -> Result<Read> {
        let outgoing = outgoing(cleared, &gate.road.origin, headers, trace)
            .map_err(|_| Error::explain(ErrorType::InternalError, "a header cannot be written"))?;
        Ok(Read { outgoing, incoming: Incoming::Nothing, instead: None })
    }
}

pub(super) fn peer(gate: &Gate, ctx: &mut Ctx) -> Result<Box<HttpPeer>> {
    let peer = gate.upstream.peer(ctx.attempts);
    ctx.attempts = ctx.attempts.saturating_add(1);
    ctx.upstream_watch.get_or_insert_with(Stopwatch::start);
    peer.map(Box::new).ok_or_else(|| Error::explain(ErrorType::ConnectNoRoute, "upstream's host has no known address"))
}

/// The head that leaves is ours: nothing of the caller's head is left in it.
pub(super) fn head(head: &mut RequestHeader, ctx: &mut Ctx) -> Result<()> {
    let Some(read) = &ctx.read else {
        return Err(Error::explain(ErrorType::InternalError, "a request that was not checked"));
    };
    *head = request_header(&read.outgoing)?;
    Ok(())
}

/// The answer to a read whose answer must be as the contract says.
pub(super) async fn whole(gate: &Gate, cleared: Cleared, headers: &HeaderMap, trace: &TraceId) -> Reply {
    let operation = cleared.intent().operation().clone();
    let (status, headers, body) = match send(&gate.road, cleared, headers, trace).await {
        Sent::NotWritten | Sent::Lost(Loss::Broken) => return read_failed(false),
        Sent::Lost(Loss::Silent) => return read_failed(true),
        Sent::Answered { status, headers, body } => (status, headers, body),
    };
    if (300..400).contains(&status) {
        return read_failed(false);
    }
    let body: Option<Bytes> = match body {
        AnswerBody::Complete(body) => Some(body),
        AnswerBody::Incomplete => None,
    };
    match body {
        None if status < 400 => read_failed(false),
        Some(body) if status < 400 => match drift(&operation, status, &headers, &body) {
            None => from_upstream(status, &headers, body, None),
            Some(violation) => {
                gate.metrics.drifted(gate.environment.as_str(), operation.id.as_str());
                answer_refused(&violation)
            }
        },
        body => read_error(&operation, status, &headers, body.as_ref()).into_reply(status, &headers),
    }
}
