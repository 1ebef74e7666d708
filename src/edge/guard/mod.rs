//! The guard between a socket and the engine: strict framing, deadlines, and an end that does not destroy the answer.
//!
//! The engine repairs what it can, and waits as long as bytes trickle. A guarded HTTP/1.1 stream gives it only heads
//! that are complete and have one reading, in time, one request after another. Where that fails before a request has
//! begun, the engine gets a placeholder request, and [`refusal_of`] tells the gateway how to answer it. So even
//! unparseable bytes get an answer in the API's shapes and a log line.

mod end;
mod frames;
mod head;
mod out;
mod request_memory;
mod stream;
mod stream_places;
mod unreadable;
mod wire;

use std::any::Any;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pingora::http::ResponseHeader;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::{Digest, Stream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use end::ConnectionEnd;
pub use frames::{FrameSender, Frames, StreamEvent};
pub use head::HeadLimits;
pub use out::GATHERED_BYTES;
pub use request_memory::{OpenRequest, REQUEST_BYTES, open_request};
pub use unreadable::Unreadable;
pub use wire::{Fed, Wire};

use end::Leaving;
use stream::Guarded;
pub use stream_places::STREAM_BUFFER_BYTES;

use super::buffered::{BufferedBytes, BufferedPart, ConnectionBuffer};
use super::handshake::Begun;
use crate::adapters::clients::Presented;
use crate::telemetry::Metrics;

/// The limits of a guard.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub head: HeadLimits,
    /// For a whole head, from the connection's start or the head's first byte.
    pub head_time: Duration,
    /// Between requests.
    pub idle_time: Duration,
    /// Between two frames of an HTTP/2 caller.
    pub silence_time: Duration,
    /// For a caller to take 64 KiB of its answer, or the rest.
    pub write_time: Duration,
    /// For bytes that still arrive when the connection ends.
    pub linger_time: Duration,
    /// Requests of an HTTP/2 connection; the engine counts those of HTTP/1.1.
    pub requests: u64,
}

/// The guard of one listener.
#[derive(Debug)]
pub struct Guard {
    /// The listener's name in metrics.
    pub listener: &'static str,
    pub bounds: Bounds,
    pub metrics: Metrics,
    /// The memory of its slow callers.
    pub buffered: Arc<BufferedBytes>,
}

impl Guard {
    /// Takes a stream under guard. HTTP/2 has strict framing of its own; the guard keeps it from stalling. `enough`
    /// becomes true when the engine must take no more requests from it. The returned end runs when the engine has let
    /// go of the stream.
    pub(super) fn over(
        self: &Arc<Guard>,
        begun: Begun,
        buffer: Arc<ConnectionBuffer>,
        enough: watch::Sender<bool>,
    ) -> pingora::Result<(GuardedStream, ConnectionEnd)> {
        let Begun { stream, presented, unread } = begun;
        let flags = ConnectionFlags {
            presented,
            buffer,
            why: Mutex::new(None),
            crowded: AtomicBool::new(false),
            answered: AtomicBool::new(false),
            enough: enough.subscribe(),
        };
        let note = ConnectionState(Arc::new(flags));
        let leaving = Leaving::default();
        let response = Box::new(ResponseHeader::build(200, Some(0))?);
        let digest = Arc::new(ProxyDigest::new(response, Some(Box::new(note.clone()))));
        let end = ConnectionEnd { leaving: leaving.clone(), linger_time: self.bounds.linger_time };
        let guarded = Guarded::new(stream, self.clone(), note, digest, leaving, enough, unread);
        Ok((GuardedStream(Box::new(guarded)), end))
    }
}

/// A guarded stream that the engine does not have.
#[derive(Debug)]
pub struct GuardedStream(Box<Guarded>);

impl GuardedStream {
    /// Takes a guarded stream back from the engine; `None` for another stream.
    pub fn of(stream: Stream) -> Option<GuardedStream> {
        stream.into_any().downcast().ok().map(GuardedStream)
    }

    /// Waits for the next request, so that an idle connection costs no engine; returns whether there is one, or a refusal
    /// to be written.
    pub async fn begins(&mut self) -> bool {
        poll_fn(|cx| self.0.poll_checked(cx)).await.is_ok_and(|has_bytes| has_bytes)
    }

    pub fn into_stream(self) -> Stream {
        self.0
    }
}

/// Returns why the request of a session could not be read, if so.
pub fn refusal_of(digest: Option<&Digest>) -> Option<Unreadable> {
    note_of(digest)?.read()
}

/// Returns whether the connection must end with its answer: more than one request arrived, or the gate is ending.
pub fn is_last_answer(digest: Option<&Digest>) -> bool {
    note_of(digest).is_some_and(ConnectionState::is_last_answer)
}

/// Returns the client certificate of the connection.
pub fn presented(digest: Option<&Digest>) -> Option<&Presented> {
    note_of(digest)?.0.presented.as_ref()
}

/// Holds the memory of an answer, or a part of one, until it is written.
pub fn hold_answer(digest: Option<&Digest>, bytes: usize) -> Option<BufferedPart> {
    note_of(digest).filter(|_| bytes > 0).map(|note| note.0.buffer.hold(bytes))
}

/// Returns what is cancelled when the connection must end at once; a connection without a guard has none.
pub fn reset_of(digest: Option<&Digest>) -> CancellationToken {
    note_of(digest).map_or_else(CancellationToken::new, |note| note.0.buffer.reset().clone())
}

/// Tells the guard that the answer is complete: the next request may come.
pub fn answered(digest: Option<&Digest>) {
    if let Some(note) = note_of(digest) {
        note.end();
    }
}

/// The state of a connection that guard and engine share, for an engine without a digest of the stream.
#[derive(Clone, Debug)]
pub struct ConnectionWatch(ConnectionState);

impl ConnectionWatch {
    /// Returns it for a guarded stream.
    pub fn of(stream: &Stream) -> Option<ConnectionWatch> {
        let digest = stream.get_proxy_digest()?;
        let user_data: &(dyn Any + Send + Sync) = digest.user_data.as_deref()?;
        user_data.downcast_ref::<ConnectionState>().cloned().map(ConnectionWatch)
    }

    /// Returns the same as [`refusal_of`].
    pub fn refusal(&self) -> Option<Unreadable> {
        self.0.read()
    }

    /// Returns the same as [`is_last_answer`].
    pub fn is_last_answer(&self) -> bool {
        self.0.is_last_answer()
    }

    /// Holds the memory of an answer until it is written.
    pub fn hold_answer(&self, bytes: usize) -> BufferedPart {
        self.0.0.buffer.hold_answer(bytes)
    }

    /// Does the same as [`answered`].
    pub fn answered(&self) {
        self.0.end();
    }
}

fn note_of(digest: Option<&Digest>) -> Option<&ConnectionState> {
    let user_data: &(dyn Any + Send + Sync) = digest?.proxy_digest.as_ref()?.user_data.as_deref()?;
    user_data.downcast_ref()
}

/// The state of a connection that guard and gateway share.
#[derive(Clone, Debug)]
struct ConnectionState(Arc<ConnectionFlags>);

#[derive(Debug)]
struct ConnectionFlags {
    presented: Option<Presented>,
    buffer: Arc<ConnectionBuffer>,
    why: Mutex<Option<Unreadable>>,
    crowded: AtomicBool,
    answered: AtomicBool,
    /// True when the engine must take no more requests from the connection.
    enough: watch::Receiver<bool>,
}

impl ConnectionState {
    fn write(&self, why: Unreadable) {
        *self.0.why.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    fn read(&self) -> Option<Unreadable> {
        *self.0.why.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request begins.
    fn begin(&self) {
        self.0.answered.store(false, Ordering::Release);
    }

    /// The answer is complete.
    fn end(&self) {
        self.0.answered.store(true, Ordering::Release);
    }

    fn is_last_answer(&self) -> bool {
        self.0.crowded.load(Ordering::Acquire) || *self.0.enough.borrow()
    }

    fn crowd(&self) {
        self.0.crowded.store(true, Ordering::Release);
    }

    fn is_answered(&self) -> bool {
        self.0.answered.load(Ordering::Acquire)
    }
}
