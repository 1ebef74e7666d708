//! A read's answer on its way back: a success streams and is checked beside the stream; an error is held and rewritten
//! in the API's shapes.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use pingora::http::ResponseHeader;
use pingora::proxy::Session;
use pingora::{Error, ErrorType, Result};
use tokio::sync::OwnedSemaphorePermit;

use super::observe::Observed;
use super::{Answered, Ctx, Gate, answer};
use crate::adapters::upstream::AnswerHead;
use crate::base::secret_search::Revealed;
use crate::catalog::Operation;
use crate::journey::SentCredential;
use crate::stations::reply::{Code, ReadError, ReadFailure, Reply, ReplyOrigin, is_passed, read_error, read_failed};
use crate::stations::settle::media_drift;

/// How many headers of an answer usually pass, with those of the gate.
const USUALLY_PASSED: usize = 12;

/// The most bytes that are set aside for a body before it comes.
const ANNOUNCED_AT_MOST: usize = 16 * 1024;

/// The answer to a read so far.
#[derive(Debug)]
pub(super) enum Incoming {
    Nothing,
    /// A success: it streams, and a copy is kept for the check.
    Streaming(KeptBody),
    /// An error: it is held until it is complete.
    Held(KeptBody),
}

/// The pieces of a body, up to a bound.
#[derive(Debug)]
pub(super) struct KeptBody {
    operation: Arc<Operation>,
    status: u16,
    headers: HeaderMap,
    whole: BytesMut,
    room: Option<OwnedSemaphorePermit>,
    too_large: bool,
}

/// Takes the head of an answer, with whether its body is over; returns the head that the caller gets, and the length of
/// the body that will be written, where it is known.
pub(super) fn head(
    gate: &Gate,
    session: &mut Session,
    head: AnswerHead,
    is_over: bool,
    ctx: &mut Ctx,
) -> Result<(ResponseHeader, Option<u64>)> {
    let AnswerHead { status, mut headers, .. } = head;
    let status = status.as_u16();
    ctx.upstream_time = ctx.upstream_watch.map(|w| w.elapsed());
    let (Some(operation), Some(read)) = (ctx.operation.clone(), ctx.read.as_mut()) else {
        return Err(Error::explain(ErrorType::InternalError, "an answer to this request was not checked"));
    };
    read.credential.remove_revealing(&mut headers);
    // A status that is neither success nor error, such as a redirect or an upgrade, is not a valid answer.
    if !matches!(status, 200..300 | 400..600) {
        return Err(instead(&mut read.instead, read_failed(ReadFailure::of_status(status))));
    }
    if status == 401 && gate.egress.credential.is_injected() {
        return Err(instead(&mut read.instead, read_failed(ReadFailure::CredentialRefused)));
    }
    if status < 400 && read.credential.cannot_be_searched_for(&headers) {
        return Err(instead(&mut read.instead, read_failed(ReadFailure::Withheld)));
    }
    let kept = KeptBody { operation, status, headers, whole: BytesMut::new(), room: None, too_large: false };
    if status >= 400 && is_over {
        // Without a body there is no later step that could write one.
        let rebuilt = kept.error(&read.credential).into_reply(status, &kept.headers);
        return Err(instead(&mut read.instead, rebuilt));
    }
    let mut passed = ResponseHeader::build(status, Some(USUALLY_PASSED))?;
    let length = if status >= 400 {
        if media_drift(&kept.headers).is_some() {
            // The body will be the gate's, so no header that describes upstream's stays.
            passed.insert_header(CONTENT_TYPE, "application/json")?;
        } else {
            pass(&kept.headers, status, &mut passed)?;
        }
        read.incoming = Incoming::Held(kept);
        None
    } else {
        pass(&kept.headers, status, &mut passed)?;
        let length = kept.announced();
        read.incoming = Incoming::Streaming(kept);
        length
    };
    answer::end_if_last(session);
    ctx.answered = Answered { status, origin: Some(ReplyOrigin::Upstream), executed: None, code: None };
    answer::mark(&mut passed, ReplyOrigin::Upstream, None, ctx)?;
    Ok((passed, length))
}

pub(super) fn body(gate: &Gate, body: &mut Option<Bytes>, end: bool, ctx: &mut Ctx) -> Result<()> {
    let Some(read) = ctx.read.as_mut() else { return Ok(()) };
    match &mut read.incoming {
        Incoming::Nothing => {}
        Incoming::Streaming(kept) => {
            if let Some(search) = &mut read.search {
                match search.pass(body.take().unwrap_or_default(), end) {
                    Ok(piece) => *body = (!piece.is_empty()).then_some(piece),
                    Err(Revealed) => {
                        read.credential.log_found();
                        let why = "the answer contains the gate's credential";
                        return Err(Error::explain(ErrorType::Custom("answer withheld"), why).into_up());
                    }
                }
            }
            kept.keep(body.as_ref(), gate);
            if end && let Incoming::Streaming(kept) = std::mem::replace(&mut read.incoming, Incoming::Nothing) {
                gate.observer.observe(kept.observed(gate));
            }
        }
        Incoming::Held(kept) => {
            kept.keep(body.take().as_ref(), gate);
            if end {
                let error = kept.error(&read.credential);
                if matches!(error, ReadError::Rebuilt(_)) {
                    ctx.answered.code = Some(Code::UpstreamError);
                }
                *body = Some(error.body().clone());
            }
        }
    }
    Ok(())
}

impl KeptBody {
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
        if self.whole.is_empty() {
            let announced = self.announced().and_then(|length| usize::try_from(length).ok()).unwrap_or_default();
            self.whole.reserve(announced.min(ANNOUNCED_AT_MOST).max(piece.len()));
        }
        self.whole.extend_from_slice(piece);
    }

    /// The length of the body as upstream says. The engine refuses lengths that differ, and a transfer encoding goes before
    /// any.
    fn announced(&self) -> Option<u64> {
        let length = self.headers.get(CONTENT_LENGTH).filter(|_| !self.headers.contains_key(TRANSFER_ENCODING))?;
        length.to_str().ok()?.split(',').next()?.trim().parse().ok()
    }

    fn let_go(&mut self) {
        (self.too_large, self.whole, self.room) = (true, BytesMut::new(), None);
    }

    fn error(&self, credential: &SentCredential) -> ReadError {
        let may_pass = !self.too_large && !credential.is_in(&self.whole);
        let whole = may_pass.then(|| Bytes::copy_from_slice(&self.whole));
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

/// Adds the headers that pass: without those about the framing, which is the gate's.
fn pass(headers: &HeaderMap, status: u16, to: &mut ResponseHeader) -> Result<()> {
    for (name, value) in headers.iter().filter(|(name, _)| is_passed(name, status, headers)) {
        to.append_header(name, value)?;
    }
    Ok(())
}

fn instead(place: &mut Option<Reply>, reply: Reply) -> Box<Error> {
    *place = Some(reply);
    Error::explain(ErrorType::Custom("answered instead"), "upstream's answer is withheld")
}
