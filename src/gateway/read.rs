//! A read: sent, and its answer streamed to the caller.
//!
//! The engine could carry reads itself, but bounds each piece of an answer and not the whole: upstream could send a head
//! byte by byte for ever. So the gate reads the answer, within one time for all of it. The time that the caller takes
//! does not count.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING};
use pingora::http::ResponseHeader;
use pingora::protocols::http::HttpTask;
use pingora::proxy::Session;
use pingora::{Error, ErrorType, Result};
use tokio::time::timeout;

use super::response::Incoming;
use super::{Ctx, Gate, answer, response};
use crate::adapters::clock::Stopwatch;
use crate::adapters::otlp::Entered;
use crate::adapters::upstream::{AnswerHead, OpenRead};
use crate::base::ids::TraceId;
use crate::base::secret_search::SecretSearch;
use crate::journey::SentCredential;
use crate::stations::forward::{Cleared, Outgoing};
use crate::stations::reply::Reply;

/// The most interim (1xx) answers before a final one. One or two are usual.
const MAX_INTERIM_ANSWERS: u32 = 16;

/// A read whose answer streams.
#[derive(Debug)]
pub(super) struct StreamedRead {
    /// The gate's credential that was sent, which the answer must not repeat.
    pub(super) credential: SentCredential,
    /// The search for it in the body.
    pub(super) search: Option<SecretSearch>,
    /// The answer so far.
    pub(super) incoming: Incoming,
    /// An answer to write instead of upstream's.
    pub(super) instead: Option<Reply>,
    _forwarding: Entered,
}

/// The time that upstream has left for its whole answer.
struct AnswerTime(Duration);

pub(super) async fn carry(
    gate: &Gate,
    session: &mut Session,
    ctx: &mut Ctx,
    cleared: Cleared,
    trace: &TraceId,
    forwarding: Entered,
) -> Result<bool> {
    let outgoing = gate.egress.outgoing(cleared, &forwarding.headers(&session.req_header().headers), trace);
    let (outgoing, credential) =
        outgoing.map_err(|_| Error::explain(ErrorType::InternalError, "a header value cannot be written"))?;
    ctx.read = Some(StreamedRead {
        search: credential.search(),
        credential,
        incoming: Incoming::Nothing,
        instead: None,
        _forwarding: forwarding,
    });
    ctx.upstream_watch = Some(Stopwatch::start());
    let mut time = AnswerTime(gate.timeouts.answer);
    let (mut read, head) = begin_read(gate, session, ctx, &outgoing, &mut time).await?;
    stream_answer(gate, session, ctx, &mut read, head, &mut time).await?;
    gate.upstream.close_read(read).await;
    Ok(true)
}

/// Sends the read, and returns its first head. Where a connection that was used before breaks first, upstream may have
/// closed it while it was idle: the read is sent once more, over a new one.
async fn begin_read(
    gate: &Gate,
    session: &mut Session,
    ctx: &mut Ctx,
    outgoing: &Outgoing,
    time: &mut AnswerTime,
) -> Result<(OpenRead, AnswerHead)> {
    let mut read = open_read(gate, ctx, outgoing, false).await?;
    match ask_upstream(session, &mut read, outgoing, time).await {
        Ok(head) => Ok((read, head)),
        Err(error) if read.is_reused() && is_broken(&error) => {
            let mut again = open_read(gate, ctx, outgoing, true).await?;
            let head = ask_upstream(session, &mut again, outgoing, time).await?;
            Ok((again, head))
        }
        Err(error) => Err(error),
    }
}

fn is_broken(error: &Error) -> bool {
    matches!(error.etype(), ErrorType::ConnectionClosed | ErrorType::ReadError | ErrorType::WriteError)
}

async fn open_read(gate: &Gate, ctx: &mut Ctx, outgoing: &Outgoing, anew: bool) -> Result<OpenRead> {
    let read = gate.upstream.open_read(outgoing.caller(), anew).await.map_err(Error::into_up)?;
    ctx.connected = true;
    Ok(read)
}

async fn ask_upstream(
    session: &mut Session,
    read: &mut OpenRead,
    outgoing: &Outgoing,
    time: &mut AnswerTime,
) -> Result<AnswerHead> {
    read.write(outgoing).await.map_err(Error::into_up)?;
    time.awaited(session, read.head()).await
}

/// Writes the answer to the caller as it comes.
async fn stream_answer(
    gate: &Gate,
    session: &mut Session,
    ctx: &mut Ctx,
    read: &mut OpenRead,
    mut head: AnswerHead,
    time: &mut AnswerTime,
) -> Result<()> {
    let mut interim_answers = 0;
    while head.is_interim() {
        interim_answers += 1;
        // The engine would drop interim answers; without a bound upstream could send them for ever.
        if interim_answers > MAX_INTERIM_ANSWERS {
            return Err(Error::explain(ErrorType::InvalidHTTPHeader, "too many interim answers").into_up());
        }
        head = time.awaited(session, read.head()).await?;
    }
    gate.egress.dates.hear("upstream", &head.headers);
    let mut is_over = read.is_over();
    let (mut head, length) = response::head(gate, session, head, is_over, ctx)?;
    frame(session, &mut head, length)?;
    write_task(session, ctx, HttpTask::Header(Box::new(head), is_over)).await?;
    while !is_over {
        let mut piece: Option<Bytes> = time.awaited(session, read.piece()).await?;
        is_over = piece.is_none() || read.is_over();
        response::body(gate, &mut piece, is_over, ctx)?;
        if piece.is_some() || is_over {
            write_task(session, ctx, HttpTask::Body(piece, is_over)).await?;
        }
    }
    Ok(())
}

/// The gate frames the answer itself. Over HTTP/1.1 a body of unknown length is chunked, so that the caller's connection
/// goes on.
fn frame(session: &Session, head: &mut ResponseHeader, length: Option<u64>) -> Result<()> {
    match length {
        _ if answer::is_without_body(head.status) => {}
        Some(length) => head.insert_header(CONTENT_LENGTH, HeaderValue::from(length))?,
        None if session.is_http2() => {}
        None => head.insert_header(TRANSFER_ENCODING, "chunked")?,
    }
    Ok(())
}

async fn write_task(session: &mut Session, ctx: &Ctx, task: HttpTask) -> Result<()> {
    let bytes = match &task {
        HttpTask::Body(Some(piece), _) => piece.len(),
        _ => 0,
    };
    let _held = answer::hold(session, ctx, bytes);
    session.write_response_tasks(vec![task]).await.map(|_| ()).map_err(Error::into_down)
}

impl AnswerTime {
    /// Waits for upstream, until its time is over or the caller is gone.
    async fn awaited<T>(&mut self, session: &mut Session, upstream: impl Future<Output = Result<T>>) -> Result<T> {
        let watch = Stopwatch::start();
        let waited = timeout(self.0, async {
            tokio::select! {
                biased;
                came = upstream => came.map_err(Error::into_up),
                error = caller_gone(session) => Err(error),
            }
        });
        let came = waited.await;
        self.0 = self.0.saturating_sub(watch.elapsed());
        came.unwrap_or_else(|_| Err(Error::explain(ErrorType::ReadTimedout, "upstream's whole answer").into_up()))
    }
}

/// Returns when the caller's connection breaks. A caller who has only ended its sending side can still read.
async fn caller_gone(session: &mut Session) -> Box<Error> {
    match session.read_body_or_idle(true).await {
        Err(error) => error.into_down(),
        Ok(_) => std::future::pending().await,
    }
}
