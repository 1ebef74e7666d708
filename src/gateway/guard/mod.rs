//! What stands between a socket and the engine: strict framing, deadlines, and an end that does not destroy the answer.
//!
//! The engine repairs what it can and waits as long as bytes trickle. A guarded HTTP/1.1 stream gives it only heads that
//! are whole and have one reading, in time, one request after the other. Where that fails before a request began, the
//! engine gets a stand-in for the request, and [`refusal_of`] tells the gate what to answer; so that even what never
//! parsed gets an answer in the API's shapes and a line in the log.

mod head;
mod stream;
mod unreadable;
mod wire;

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pingora::http::ResponseHeader;
use pingora::protocols::Stream;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::proxy::Session;

pub use head::HeadLimits;
pub use unreadable::Unreadable;

use stream::Guarded;

use crate::telemetry::Metrics;

/// What a guard allows.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub head: HeadLimits,
    /// For a whole head, from the connection's start or the head's first byte.
    pub head_time: Duration,
    /// Between requests.
    pub idle_time: Duration,
    /// Between two pieces of what an HTTP/2 caller sends.
    pub silence_time: Duration,
    /// For what is still arriving when the connection ends.
    pub linger_time: Duration,
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
    /// Takes a stream under guard. HTTP/2, which frames strictly by itself, is only kept from falling silent.
    pub fn over(&self, stream: Stream) -> pingora::Result<Stream> {
        let note = Note::default();
        let response = Box::new(ResponseHeader::build(200, Some(0))?);
        let digest = Arc::new(ProxyDigest::new(response, Some(Box::new(note.clone()))));
        Ok(Box::new(Guarded::new(stream, self, note, digest)))
    }
}

/// Why the request of a session could not be read, if it could not.
pub fn refusal_of(session: &Session) -> Option<Unreadable> {
    let digest = session.digest()?.proxy_digest.as_ref()?;
    let user_data: &(dyn Any + Send + Sync) = digest.user_data.as_deref()?;
    user_data.downcast_ref::<Note>()?.read()
}

/// What a guard tells the gate about its connection.
#[derive(Clone, Debug, Default)]
struct Note(Arc<Mutex<Option<Unreadable>>>);

impl Note {
    fn write(&self, why: Unreadable) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    fn read(&self) -> Option<Unreadable> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
