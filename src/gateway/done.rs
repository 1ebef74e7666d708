//! `logging`: the end of every request.

use std::time::Duration;

use http::StatusCode;
use pingora::Error;
use pingora::proxy::Session;

use super::{Ctx, Gate};
use crate::edge::guard;
use crate::stations::reply::{Code, Executed, ReplyOrigin};
use crate::telemetry::{RequestLine, Times};

pub(super) fn done(gate: &Gate, session: &mut Session, error: Option<&Error>, ctx: &mut Ctx) {
    guard::answered(session.digest());
    // The next request on this connection finds the place free.
    ctx.limited.slots.clear();
    ctx.call = None;
    ctx.open = None;
    let whole = ctx.watch.elapsed();
    let traced = ctx.spans.id();
    let times = Times { whole, gate: own_time(ctx, whole), upstream: ctx.upstream_time };
    let status = StatusCode::from_u16(ctx.answered.status).ok();
    let operation = ctx.operation.as_deref();
    let line = RequestLine {
        request_id: ctx.trace.as_ref().map_or("", |t| t.as_str()),
        environment: gate.environment.as_str(),
        operation: operation.map_or("none", |o| o.id.as_str()),
        method: operation.map_or("none", |o| o.method.as_str()),
        status: status.as_ref().map_or("none", StatusCode::as_str),
        origin: ctx.answered.origin.map_or("none", ReplyOrigin::as_str),
        outcome: ctx.answered.executed.map_or("none", Executed::as_str),
        code: ctx.answered.code.map_or("none", Code::as_str),
        bytes_in: session.body_bytes_read(),
        bytes_out: session.body_bytes_sent(),
        fault: error.map_or(ctx.fault, |e| e.etype().as_str()),
        trace: traced.as_deref(),
    };
    gate.metrics.answered(&line);
    gate.meters.observe(operation.map(|o| &o.id), times);
    ctx.spans.answered(&line);
    line.write(times);
}

/// The gate's own time: without the caller's sending and upstream's answering. A stream counts until it starts.
fn own_time(ctx: &Ctx, whole: Duration) -> Duration {
    whole.saturating_sub(ctx.body_time).saturating_sub(ctx.upstream_time.unwrap_or_default())
}
