//! `request_filter`: admission and rate limits, and for writes the whole way to the answer.

use std::sync::Arc;

use http::header::{CONNECTION, EXPECT};
use pingora::proxy::Session;
use pingora::{Error, ErrorType, Result};

use super::caller::admit_caller;
use super::observe::Observed;
use super::{Ctx, Gate, answer, body, document, holds, observe, read, receipts};
use crate::adapters::clock::Stopwatch;
use crate::adapters::random::trace_id;
use crate::base::ids::TraceId;
use crate::config::AnswerMode;
use crate::edge::Phase;
use crate::edge::guard;
use crate::edge::guard::Unreadable;
use crate::journey::read::fetch;
use crate::journey::submit::submit;
use crate::node::{Exchange, Snapshot, tell_decided};
use crate::stations::admit::{AdmitRefusal, Admitted, READ_WITH_BODY, RequestHead, find};
use crate::stations::check::{check, check_head};
use crate::stations::claim::Earlier;
use crate::stations::decide::{Decision, decide};
use crate::stations::forward::clear_read;
use crate::stations::reply::{self, Refusal, Reply};
use crate::telemetry::Station;

/// Answers the request. Always returns `true`: nothing is left for the proxy phases.
pub(super) async fn filter(gate: &Gate, session: &mut Session, ctx: &mut Ctx) -> Result<bool> {
    ctx.open = guard::open_request(session.digest(), session.req_header());
    time(gate, session);
    let trace = trace_id(session.get_header(reply::REQUEST_ID).and_then(|h| h.to_str().ok()));
    ctx.trace = Some(trace.clone());
    if let Some(tracer) = &gate.tracer {
        ctx.spans = tracer.begin(&session.req_header().headers);
    }

    if let Some(why) = guard::refusal_of(session.digest()) {
        ctx.fault = why.as_str();
        return refuse(session, ctx, &Refusal::Admit(unreadable(why))).await;
    }
    // Over HTTP/1.1 the target has no scheme.
    if session.req_header().uri.scheme_str().is_some_and(|scheme| !matches!(scheme, "http" | "https")) {
        let refusal = AdmitRefusal::Malformed("the scheme is neither http nor https");
        return refuse(session, ctx, &Refusal::Admit(refusal)).await;
    }
    if holds::is_about(session) {
        let reply = holds::answer(gate, session, ctx).await;
        return answer::write_answer(session, ctx, reply).await;
    }
    if receipts::is_about(session) {
        let reply = receipts::answer(gate, session, ctx).await;
        return answer::write_answer(session, ctx, reply).await;
    }
    if document::is_about(session) {
        let reply = document::answer(gate, session, ctx).await;
        return answer::write_answer(session, ctx, reply).await;
    }
    let admitting = ctx.spans.enter(Station::Admit);
    let snapshot = gate.in_force.now();
    let admitted = match admitted(gate, session, ctx, &snapshot).await {
        Ok(admitted) => admitted,
        Err(refusal) => return refuse(session, ctx, &refusal).await,
    };
    if let Err(refusal) = ctx.take_place(gate, admitted.caller()) {
        return refuse(session, ctx, &refusal).await;
    }
    ctx.limited = snapshot.rates.take(&admitted, &trace).await;
    drop(admitting);
    if let Some(exceeded) = ctx.limited.exceeded.take() {
        return refuse(session, ctx, &Refusal::Exceeded(exceeded)).await;
    }
    if admitted.operation().is_write() {
        let exchange = Exchange { id: trace, spans: ctx.spans.clone() };
        carry_write(gate, session, ctx, admitted, &snapshot, &exchange).await
    } else if gate
        .node
        .watched
        .freezes_reads(gate.environment, (admitted.caller().issuer(), admitted.caller().subject()))
    {
        refuse(session, ctx, &Refusal::ReadsFrozen).await
    } else {
        carry_read(gate, session, ctx, admitted, &snapshot, &trace).await
    }
}

/// The guard times HTTP/1.1; the engine's own timeouts would cut what it allows.
fn time(gate: &Gate, session: &mut Session) {
    if session.is_http2() {
        session.set_write_timeout(Some(gate.timeouts.client_write));
    } else {
        // The caller and the engine have said whether the connection goes on.
        if session.get_keepalive().is_some() {
            session.set_keepalive(Some(0));
        }
        session.set_read_timeout(None);
        // A caller who has ended its sending side can still read.
        session.set_abort_on_close(false);
        // A client may take an interim answer of upstream for the final one, and this call's answer for its next one's.
        session.set_ignore_info_resp(true);
        // The header has said whether the connection goes on; the engine must not act on the other names in it.
        session.req_header_mut().remove_header(&CONNECTION);
    }
}

fn unreadable(why: Unreadable) -> AdmitRefusal {
    match why {
        Unreadable::HeadTooLarge | Unreadable::TooManyHeaders => AdmitRefusal::HeadTooLarge(why.message()),
        Unreadable::HeadSlow => AdmitRefusal::HeadSlow,
        other => AdmitRefusal::Malformed(other.message()),
    }
}

async fn admitted(
    gate: &Gate,
    session: &Session,
    ctx: &mut Ctx,
    snapshot: &Snapshot,
) -> std::result::Result<Admitted, Refusal> {
    let head = head(gate, session).map_err(Refusal::Admit)?;
    let found = find(&snapshot.catalog, head).map_err(Refusal::Admit)?;
    ctx.operation = Some(found.operation.clone());
    if *gate.phase.borrow() >= Phase::Refusing {
        return Err(Refusal::Draining);
    }
    admit_caller(gate, session, ctx, found, head).await.map_err(Refusal::Admit)
}

fn head<'s>(gate: &Gate, session: &'s Session) -> std::result::Result<RequestHead<'s>, AdmitRefusal> {
    let request = session.req_header();
    if !session.is_http2() && request.uri.authority().is_some() {
        return Err(AdmitRefusal::Malformed("the request target is not a path"));
    }
    // The guard has counted the headers of HTTP/1.1.
    if request.headers.len() > gate.limits.headers {
        return Err(unreadable(Unreadable::TooManyHeaders));
    }
    let target = std::str::from_utf8(request.raw_path())
        .map_err(|_| AdmitRefusal::Malformed("the request target is not UTF-8"))?;
    Ok(RequestHead { method: &request.method, target, headers: &request.headers })
}

async fn carry_write(
    gate: &Gate,
    session: &mut Session,
    ctx: &mut Ctx,
    admitted: Admitted,
    snapshot: &Arc<Snapshot>,
    exchange: &Exchange,
) -> Result<bool> {
    if let Err(refusal) = check_head(&session.req_header().headers, gate.limits.body_bytes) {
        return refuse(session, ctx, &Refusal::Check(refusal)).await;
    }
    let since = Stopwatch::start();
    let read = body::whole(gate, session, admitted.caller()).await;
    ctx.body_time = since.elapsed();
    let (body, room) = match read {
        Ok(read) => read,
        Err(refusal) => return refuse(session, ctx, &refusal).await,
    };
    let operation = admitted.operation().clone();
    let submitted =
        submit(&gate.egress, &gate.node, snapshot, admitted, &session.req_header().headers, &body, exchange).await;
    // The caller's next body finds its room free.
    drop((body, room));
    ctx.upstream_time = submitted.upstream_time;
    if submitted.unchecked {
        // An executed call's answer passes whatever it looks like; it is checked beside, in every mode.
        let Reply { status, ref headers, ref body, .. } = submitted.reply;
        let room = gate.observer.room(body.len());
        let body = room.is_some().then(|| body.clone());
        let (environment, headers) = (gate.environment, headers.clone());
        gate.observer.observe(Observed { environment, operation, status, headers, body, room });
    }
    answer::write_answer(session, ctx, submitted.reply).await
}

async fn carry_read(
    gate: &Gate,
    session: &mut Session,
    ctx: &mut Ctx,
    admitted: Admitted,
    snapshot: &Snapshot,
    trace: &TraceId,
) -> Result<bool> {
    if !body::is_empty(gate, session).await {
        return refuse(session, ctx, &Refusal::Admit(AdmitRefusal::Malformed(READ_WITH_BODY))).await;
    }
    // A read has no body to wait for, so no `100` of upstream's may pass either.
    session.req_header_mut().remove_header(&EXPECT);
    let headers = &session.req_header().headers;
    let checking = ctx.spans.enter(Station::Check);
    let checked = check(admitted, headers, b"");
    drop(checking);
    let intent = match checked {
        Ok(intent) => intent,
        Err(unfit) => return refuse(session, ctx, &Refusal::Check(unfit.refusal)).await,
    };
    let facts = gate.node.facts_of_read();
    let deciding = ctx.spans.enter(Station::Decide);
    let decision = decide(intent, &snapshot.policies, &facts);
    drop(deciding);
    if let Some(candidate) = &snapshot.candidate {
        candidate.decide(decision.intent(), &facts, &decision.grounds().verdict, &gate.metrics);
    }
    let operation = decision.intent().operation().clone();
    tell_decided(trace, &decision.grounds().verdict);
    gate.metrics.decided(gate.environment.as_str(), operation.id.as_str(), &decision.grounds().verdict);
    let allowed = match decision {
        Decision::Allowed(allowed) => allowed,
        Decision::Held(held) => {
            return answer::write_answer(session, ctx, reply::not_held(&held, &operation, Earlier::None)).await;
        }
        Decision::Denied(denied) => {
            return answer::write_answer(session, ctx, reply::denied(&denied, &operation, Earlier::None)).await;
        }
    };
    let Some(cleared) = clear_read(allowed) else {
        return Err(Error::explain(ErrorType::InternalError, "only reads may take this path"));
    };
    let forwarding = ctx.spans.enter(Station::Forward);
    match gate.answers {
        AnswerMode::Observe => read::carry(gate, session, ctx, cleared, trace, forwarding).await,
        AnswerMode::Enforce => {
            let since = Stopwatch::start();
            let fetched = fetch(&gate.egress, cleared, &forwarding.headers(headers), trace).await;
            drop(forwarding);
            ctx.upstream_time = Some(since.elapsed());
            if let Some(violation) = &fetched.drift {
                observe::report_violations(
                    gate.environment,
                    &operation,
                    fetched.reply.status,
                    violation,
                    &gate.metrics,
                );
            }
            answer::write_answer(session, ctx, fetched.reply).await
        }
    }
}

async fn refuse(session: &mut Session, ctx: &mut Ctx, refusal: &Refusal) -> Result<bool> {
    let reply: Reply = reply::refused(refusal, ctx.operation.as_deref());
    answer::write_answer(session, ctx, reply).await
}
