//! What stands between a socket and the engine: strict framing, deadlines, and an end that does not destroy the answer.
//!
//! The engine repairs what it can and waits as long as bytes trickle. A guarded HTTP/1.1 stream gives it only heads that
//! are whole and have one reading, in time, one request after the other. Where that fails before a request began, the
//! engine gets a stand-in for the request, and [`refusal_of`] tells the gate what to answer; so that even what never
//! parsed gets an answer in the API's shapes and a line in the log.

mod end;
mod frames;
mod head;
mod out;
mod stream;
mod unreadable;
mod wire;

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pingora::http::ResponseHeader;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::{Digest, Stream};
use tokio::sync::watch;

pub use end::End;
pub use head::HeadLimits;
pub use unreadable::Unreadable;

use end::Leaving;
use stream::Guarded;

use crate::adapters::clients::Presented;
use crate::telemetry::Metrics;

/// What a guard allows.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub head: HeadLimits,
    /// For a whole head, from the connection's start or the head's first byte.
    pub head_time: Duration,
    /// Between requests.
    pub idle_time: Duration,
    /// Between two frames of an HTTP/2 caller.
    pub silence_time: Duration,
    /// For a caller to take 64 KiB of what it is sent, or the rest.
    pub write_time: Duration,
    /// For what is still arriving when the connection ends.
    pub linger_time: Duration,
    /// Of an HTTP/2 connection; the engine counts those of HTTP/1.1.
    pub requests: u64,
}

/// The guard of one listener.
#[derive(Clone, Debug)]
pub struct Guard {
    /// What metrics call it.
    pub listener: &'static str,
    pub bounds: Bounds,
    pub metrics: Metrics,
}

impl Guard {
    /// Takes a stream under guard. HTTP/2, which frames strictly by itself, is kept from dawdling and falling silent.
    /// `enough` becomes true when the engine shall take no more requests from it. The end is to be run when the engine
    /// has let go of the stream.
    pub fn over(
        &self,
        stream: Stream,
        presented: Option<Presented>,
        enough: watch::Sender<bool>,
    ) -> pingora::Result<(Stream, End)> {
        let note = Note(Arc::new(Told { presented, ..Told::default() }));
        let leaving = Leaving::default();
        let response = Box::new(ResponseHeader::build(200, Some(0))?);
        let digest = Arc::new(ProxyDigest::new(response, Some(Box::new(note.clone()))));
        let end = End { leaving: leaving.clone(), linger_time: self.bounds.linger_time };
        Ok((Box::new(Guarded::new(stream, self, note, digest, leaving, enough)), end))
    }
}

/// Why the request of a session could not be read, if it could not.
pub fn refusal_of(digest: Option<&Digest>) -> Option<Unreadable> {
    note_of(digest)?.read()
}

/// Whether more came than one request, so that the connection has to end with its answer.
pub fn is_crowded(digest: Option<&Digest>) -> bool {
    note_of(digest).is_some_and(Note::is_crowded)
}

/// The certificate that the connection was opened with.
pub fn presented(digest: Option<&Digest>) -> Option<&Presented> {
    note_of(digest)?.0.presented.as_ref()
}

/// Tells the guard that the answer is whole: the next request may come.
pub fn answered(digest: Option<&Digest>) {
    if let Some(note) = note_of(digest) {
        note.end();
    }
}

/// What guard and engine tell each other about a connection, for an engine that has the stream and no digest of it.
#[derive(Clone, Debug)]
pub struct Watch(Note);

impl Watch {
    /// Of a stream that is under guard.
    pub fn of(stream: &Stream) -> Option<Watch> {
        let digest = stream.get_proxy_digest()?;
        let user_data: &(dyn Any + Send + Sync) = digest.user_data.as_deref()?;
        user_data.downcast_ref::<Note>().cloned().map(Watch)
    }

    /// As [`refusal_of`].
    pub fn refusal(&self) -> Option<Unreadable> {
        self.0.read()
    }

    /// As [`is_crowded`].
    pub fn is_crowded(&self) -> bool {
        self.0.is_crowded()
    }

    /// As [`answered`].
    pub fn answered(&self) {
        self.0.end();
    }
}

fn note_of(digest: Option<&Digest>) -> Option<&Note> {
    let user_data: &(dyn Any + Send + Sync) = digest?.proxy_digest.as_ref()?.user_data.as_deref()?;
    user_data.downcast_ref()
}

/// What a guard and the gate tell each other about a connection.
#[derive(Clone, Debug, Default)]
struct Note(Arc<Told>);

#[derive(Debug, Default)]
struct Told {
    presented: Option<Presented>,
    why: Mutex<Option<Unreadable>>,
    crowded: AtomicBool,
    answered: AtomicBool,
}

impl Note {
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

    /// Its answer is whole.
    fn end(&self) {
        self.0.answered.store(true, Ordering::Release);
    }

    fn is_crowded(&self) -> bool {
        self.0.crowded.load(Ordering::Acquire)
    }

    fn crowd(&self) {
        self.0.crowded.store(true, Ordering::Release);
    }

    fn is_answered(&self) -> bool {
        self.0.answered.load(Ordering::Acquire)
    }
}
