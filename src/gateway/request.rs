//! `request_filter`: who asks for what, how often, and for writes the whole way to the answer.

use std::sync::Arc;

use http::header::CONNECTION;
use pingora::proxy::Session;
use pingora::{Error, ErrorType, Result};

use super::guard::{self, Unreadable};
use super::observe::Observed;
use super::{Ctx, Gate, Phase, Speaking, answer, body, holds, observe, read};
use crate::adapters::clock::Stopwatch;
use crate::adapters::random::trace_id;
use crate::base::ids::TraceId;
use crate::catalog::Found;
use crate::config::AnswerMode;
use crate::journey::fetch::fetch;
use crate::journey::submit::submit;
use crate::journey::{Exchange, Snapshot, tell_decided};
use crate::stations::admit::{AdmitRefusal, Admitted, Certificate, Head, READ_WITH_BODY, admit, bearer, find};
use crate::stations::check::{check, check_head};
use crate::stations::decide::{Decision, decide};
use crate::stations::forward::clear_read;
use crate::stations::reply::{self, Earlier, Refusal, Reply};
use crate::telemetry::Station;

/// `true`: the answer is written. `false`: a read that the proxy phases carry on.
pub(super) async fn filter(gate: &Gate, session: &mut Session, ctx: &mut Ctx) -> Result<bool> {
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
    if holds::is_about(session) {
        let reply = holds::answer(gate, session, ctx).await;
        return answer::write(session, ctx, reply).await;
    }
    let admitting = ctx.spans.enter(Station::Admit);
    let snapshot = gate.in_force.now();
    let admitted = match admitted(gate, session, ctx, &snapshot).await {
        Ok(admitted) => admitted,
        Err(refusal) => return refuse(session, ctx, &refusal).await,
    };
    ctx.limited = snapshot.rates.take(&admitted, &trace).await;
    drop(admitting);
    if let Some(exceeded) = ctx.limited.exceeded.take() {
        return refuse(session, ctx, &Refusal::Exceeded(exceeded)).await;
    }
    if admitted.operation().is_write() {
        let exchange = Exchange { id: trace, spans: ctx.spans.clone() };
        write(gate, session, ctx, admitted, &snapshot, &exchange).await
    } else {
        read(gate, session, ctx, admitted, &snapshot, &trace).await
    }
}

/// Of HTTP/1.1, the guard keeps the times; the engine's own would cut what it allows.
fn time(gate: &Gate, session: &mut Session) {
    if session.is_http2() {
        session.set_write_timeout(Some(gate.timeouts.client_write));
    } else {
        // Whether the connection goes on, its caller and the engine have said.
        if session.get_keepalive().is_some() {
            session.set_keepalive(Some(0));
        }
        session.set_read_timeout(None);
        // Who ends its sending side can still read.
        session.set_abort_on_close(false);
        // It has said whether the connection goes on. What else it names is not for the engine to strip or to refuse.
        session.req_header_mut().remove_header(&CONNECTION);
    }
}

fn unreadable(why: Unreadable) -> AdmitRefusal {
    match why {
        Unreadable::HeadTooLarge | Unreadable::TooManyHeaders => AdmitRefusal::HeadTooLarge(why.told()),
        Unreadable::HeadSlow => AdmitRefusal::HeadSlow,
        other => AdmitRefusal::Malformed(other.told()),
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
    believed(gate, session, ctx, found, head).await.map_err(Refusal::Admit)
}

fn head<'s>(gate: &Gate, session: &'s Session) -> std::result::Result<Head<'s>, AdmitRefusal> {
    let request = session.req_header();
    if !session.is_http2() && request.uri.authority().is_some() {
        return Err(AdmitRefusal::Malformed("the request target is not a path"));
    }
    // Of HTTP/1.1 the guard has counted them.
    if request.headers.len() > gate.limits.headers {
        return Err(unreadable(Unreadable::TooManyHeaders));
    }
    let target = std::str::from_utf8(request.raw_path())
        .map_err(|_| AdmitRefusal::Malformed("the request target is not UTF-8"))?;
    Ok(Head { method: &request.method, target, headers: &request.headers })
}

async fn believed(
    gate: &Gate,
    session: &Session,
    ctx: &mut Ctx,
    found: Found,
    head: Head<'_>,
) -> std::result::Result<Admitted, AdmitRefusal> {
    let certificate = certificate(gate, session, ctx)?;
    let token = bearer(head.headers)?;
    let believed = gate.identity.believe(&token).await.map_err(AdmitRefusal::NotBelieved);
    let admitted =
        believed.and_then(|believed| admit(gate.environment, found, head, token, &believed, certificate.as_ref()));
    if let Err(AdmitRefusal::NotBelieved(fault)) = &admitted {
        gate.metrics.token_refused(gate.environment.as_str(), fault.as_str());
    }
    admitted
}

/// The certificate of the connection, which may have been revoked since; nobody comes without where one must be shown.
pub(super) fn certificate(
    gate: &Gate,
    session: &Session,
    ctx: &mut Ctx,
) -> std::result::Result<Option<Arc<Certificate>>, AdmitRefusal> {
    let Some(clients) = gate.tls.as_ref().and_then(Speaking::clients) else { return Ok(None) };
    let refusal = |ctx: &mut Ctx, reason| {
        ctx.fault = reason;
        AdmitRefusal::Unauthorized("the certificate of this connection is not accepted any more")
    };
    let presented = guard::presented(session.digest()).ok_or_else(|| refusal(ctx, "certificate_missing"))?;
    clients.accepts(presented).map(Some).map_err(|reason| refusal(ctx, reason))
}

async fn write(
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
    let read = body::whole(gate, session).await;
    ctx.body_time = since.elapsed();
    let (body, _room) = match read {
        Ok(read) => read,
        Err(refusal) => return refuse(session, ctx, &refusal).await,
    };
    let operation = admitted.operation().clone();
    let submitted =
        submit(&gate.road, &gate.books, snapshot, admitted, &session.req_header().headers, &body, exchange).await;
    ctx.upstream_time = submitted.upstream_time;
    if submitted.unchecked {
        // What was executed passes whatever its answer looks like: it is checked beside, in every mode.
        let Reply { status, ref headers, ref body, .. } = submitted.reply;
        let room = gate.observer.room(body.len());
        let body = room.is_some().then(|| body.clone());
        let (environment, headers) = (gate.environment, headers.clone());
        gate.observer.observe(Observed { environment, operation, status, headers, body, room });
    }
    answer::write(session, ctx, submitted.reply).await
}

async fn read(
    gate: &Gate,
    session: &mut Session,
    ctx: &mut Ctx,
    admitted: Admitted,
    snapshot: &Snapshot,
    trace: &TraceId,
) -> Result<bool> {
    if !session.is_body_empty() {
        // Over HTTP/2 a body needs no header to announce it.
        return refuse(session, ctx, &Refusal::Admit(AdmitRefusal::Malformed(READ_WITH_BODY))).await;
    }
    let headers = &session.req_header().headers;
    let checking = ctx.spans.enter(Station::Check);
    let checked = check(admitted, headers, b"");
    drop(checking);
    let intent = match checked {
        Ok(intent) => intent,
        Err(unfit) => return refuse(session, ctx, &Refusal::Check(unfit.refusal)).await,
    };
    let facts = gate.books.facts_of_read();
    let deciding = ctx.spans.enter(Station::Decide);
    let decision = decide(&intent, &snapshot.policies, &facts);
    drop(deciding);
    if let Some(candidate) = &snapshot.candidate {
        candidate.decide(&intent, &facts, &decision.grounds().verdict, &gate.metrics);
    }
    let operation = intent.operation().clone();
    tell_decided(trace, &decision.grounds().verdict);
    gate.metrics.decided(gate.environment.as_str(), operation.id.as_str(), &decision.grounds().verdict);
    let allowed = match decision {
        Decision::Allowed(allowed) => allowed,
        Decision::Held(held) => {
            return answer::write(session, ctx, reply::not_held(&held, &operation, Earlier::None)).await;
        }
        Decision::Denied(denied) => {
            return answer::write(session, ctx, reply::denied(&denied, &operation, Earlier::None)).await;
        }
    };
    let Some(cleared) = clear_read(intent, &allowed) else {
        return Err(Error::explain(ErrorType::InternalError, "only reads go this way"));
    };
    let forwarding = ctx.spans.enter(Station::Forward);
    match gate.answers {
        AnswerMode::Observe => {
            ctx.read = Some(read::Read::new(gate, cleared, headers, trace, forwarding)?);
            Ok(false)
        }
        AnswerMode::Enforce => {
            let since = Stopwatch::start();
            let fetched = fetch(&gate.road, cleared, &forwarding.headers(headers), trace).await;
            drop(forwarding);
            ctx.upstream_time = Some(since.elapsed());
            if let Some(violation) = &fetched.drift {
                observe::tell(gate.environment, &operation, fetched.reply.status, violation, &gate.metrics);
            }
            answer::write(session, ctx, fetched.reply).await
        }
    }
}

async fn refuse(session: &mut Session, ctx: &mut Ctx, refusal: &Refusal) -> Result<bool> {
    let reply: Reply = reply::refused(refusal, ctx.operation.as_deref());
    answer::write(session, ctx, reply).await
}
