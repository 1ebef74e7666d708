//! A read on its way out, through the proxy phases.

use http::HeaderMap;
use pingora::http::RequestHeader;
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorType, Result};

use super::response::Incoming;
use super::{Ctx, Gate};
use crate::adapters::clock::Stopwatch;
use crate::adapters::otlp::Entered;
use crate::adapters::upstream::request_header;
use crate::base::ids::TraceId;
use crate::stations::forward::{Cleared, Outgoing};
use crate::stations::reply::Reply;

/// A read that the proxy phases carry.
#[derive(Debug)]
pub(super) struct Read {
    outgoing: Outgoing,
    /// What came of it so far.
    pub(super) incoming: Incoming,
    /// An answer that was decided on the way and is to be written instead of upstream's.
    pub(super) instead: Option<Reply>,
    _forwarding: Entered,
}

impl Read {
    pub(super) fn new(
        gate: &Gate,
        cleared: Cleared,
        headers: &HeaderMap,
        trace: &TraceId,
        forwarding: Entered,
    ) -> Result<Read> {
        let outgoing = gate
            .road
            .outgoing(cleared, &forwarding.headers(headers), trace)
            .map_err(|_| Error::explain(ErrorType::InternalError, "a header cannot be written"))?;
        Ok(Read { outgoing, incoming: Incoming::Nothing, instead: None, _forwarding: forwarding })
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
