//! A read's answer on its way back: success streams and is checked beside the stream, errors are held and said in
//! the API's shapes.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, TRANSFER_ENCODING};
use pingora::http::ResponseHeader;
use pingora::proxy::Session;
use pingora::{Error, ErrorType, Result};
use tokio::sync::OwnedSemaphorePermit;

use super::observe::Observed;
use super::{Answered, Ctx, Gate, answer};
use crate::catalog::Operation;
use crate::stations::reply::{Code, Origin, ReadError, ReadFailure, Reply, is_passed, read_error, read_failed};
use crate::stations::settle::media_drift;

/// What came back of a read so far.
#[derive(Debug)]
pub(super) enum Incoming {
    Nothing,
    /// Success: it streams, and is kept beside for the check.
    Streaming(Kept),
    /// An error: it is held until it is whole.
    Held(Kept),
}

/// Pieces of a body, up to a bound.
#[derive(Debug)]
pub(super) struct Kept {
    operation: Arc<Operation>,
    status: u16,
    headers: HeaderMap,
    whole: BytesMut,
    room: Option<OwnedSemaphorePermit>,
    too_large: bool,
}

pub(super) fn head(gate: &Gate, session: &mut Session, head: &mut ResponseHeader, ctx: &mut Ctx) -> Result<()> {
    let status = head.status.as_u16();
    if (100..200).contains(&status) && status != 101 {
        strip(head);
        return Ok(());
    }
    ctx.upstream_time = ctx.upstream_watch.map(|w| w.elapsed());
    let (Some(operation), Some(read)) = (ctx.operation.clone(), ctx.read.as_mut()) else {
        return Err(Error::explain(ErrorType::InternalError, "an answer to a request that was not checked"));
    };
    // What is neither success nor an error is no answer: a redirect, an upgrade that nobody asked for.
    if !matches!(status, 200..300 | 400..600) {
        return Err(instead(&mut read.instead, read_failed(ReadFailure::of_status(status))));
    }
    if status == 401 && gate.road.credential.is_injected() {
        return Err(instead(&mut read.instead, read_failed(ReadFailure::CredentialRefused)));
    }
    let kept =
        Kept { operation, status, headers: head.headers.clone(), whole: BytesMut::new(), room: None, too_large: false };
    if status >= 400 && head.headers.get(CONTENT_LENGTH).is_some_and(|l| l.as_bytes() == b"0") {
        // Without a body there is no later step at which one could be given.
        let rebuilt = kept.error().into_reply(status, &kept.headers);
        return Err(instead(&mut read.instead, rebuilt));
    }
    strip(head);
    if status >= 400 {
        head.remove_header(&CONTENT_LENGTH);
        head.set_reason_phrase(None)?;
        if media_drift(&kept.headers).is_some() {
            // The body will be ours, so nothing that describes upstream's stays.
            retain(head, |name, _| *name == TRANSFER_ENCODING);
            head.insert_header(CONTENT_TYPE, "application/json")?;
        }
        if !session.is_http2() {
            head.insert_header(TRANSFER_ENCODING, "chunked")?;
        }
        read.incoming = Incoming::Held(kept);
    } else {
        read.incoming = Incoming::Streaming(kept);
    }
    answer::end_if_crowded(session);
    ctx.answered = Answered { status, origin: Some(Origin::Upstream), executed: None, code: None };
    answer::mark(head, Origin::Upstream, None, ctx)
}

pub(super) fn body(gate: &Gate, body: &mut Option<Bytes>, end: bool, ctx: &mut Ctx) {
    let Some(read) = ctx.read.as_mut() else { return };
    match &mut read.incoming {
        Incoming::Nothing => {}
        Incoming::Streaming(kept) => {
            kept.keep(body.as_ref(), gate);
            if end && let Incoming::Streaming(kept) = std::mem::replace(&mut read.incoming, Incoming::Nothing) {
                gate.observer.observe(kept.observed(gate));
            }
        }
        Incoming::Held(kept) => {
            kept.keep(body.take().as_ref(), gate);
            if end {
                let error = kept.error();
                if matches!(error, ReadError::Rebuilt(_)) {
                    ctx.answered.code = Some(Code::UpstreamError);
                }
                *body = Some(error.body().clone());
            }
        }
    }
}

impl Kept {
    fn keep(&mut self, piece: Option<&Bytes>, gate: &Gate) {
        let Some(piece) = piece else { return };
        if self.too_large || self.whole.len().saturating_add(piece.len()) > gate.limits.answer_bytes {
            return self.let_go();
        }
        match (gate.observer.room(piece.len()), &mut self.room) {
            (None, _) => return self.let_go(),
            (Some(more), Some(room)) => room.merge(more),
            (Some(first), none @ None) => *none = Some(first),
        }
        self.whole.extend_from_slice(piece);
    }

    fn let_go(&mut self) {
        (self.too_large, self.whole, self.room) = (true, BytesMut::new(), None);
    }

    fn error(&self) -> ReadError {
        let whole = (!self.too_large).then(|| Bytes::copy_from_slice(&self.whole));
        read_error(&self.operation, self.status, &self.headers, whole.as_ref())
    }

    fn observed(self, gate: &Gate) -> Observed {
        Observed {
            environment: gate.environment,
            operation: self.operation,
            status: self.status,
            headers: self.headers,
            body: (!self.too_large).then(|| self.whole.freeze()),
            room: self.room,
        }
    }
}

/// Takes out what does not go on, except the framing, which the engine needs.
fn strip(head: &mut ResponseHeader) {
    let status = head.status.as_u16();
    retain(head, |name, all| *name == CONTENT_LENGTH || *name == TRANSFER_ENCODING || is_passed(name, status, all));
}

fn retain(head: &mut ResponseHeader, stays: impl Fn(&HeaderName, &HeaderMap) -> bool) {
    let dropped: Vec<_> = head.headers.keys().filter(|name| !stays(name, &head.headers)).cloned().collect();
    for name in dropped {
        head.remove_header(&name);
    }
}

fn instead(place: &mut Option<Reply>, reply: Reply) -> Box<Error> {
    *place = Some(reply);
    Error::explain(ErrorType::Custom("answered instead"), "upstream's answer is not passed on")
}
