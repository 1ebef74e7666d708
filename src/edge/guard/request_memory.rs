//! The memory of requests, and of HTTP/2 connections for all their streams.
//!
//! A request holds its memory in the share of its address from its head on, until it has a place among the calls in progress,
//! whose bound counts this memory. So whoever waits without a place, as for an issuer's keys, is counted.

use std::sync::atomic::{AtomicUsize, Ordering};

use pingora::http::RequestHeader;
use pingora::protocols::Digest;

use super::{ConnectionState, note_of};
use crate::edge::buffered::BufferedPart;

/// The memory of a request besides its head and its answer.
pub const REQUEST_BYTES: usize = 32 * 1024;
/// A head is there as it came, and as it was read.
const HEAD_COPIES: usize = 2;
/// The memory of a header besides its name and value.
const HEADER_BYTES: usize = 128;

/// The memory of an HTTP/2 connection before its first request, besides that of any connection.
pub(super) const HTTP2_BYTES: usize = 48 * 1024;
/// The memory that the engine keeps for each stream that was ever open beside others, until the connection ends.
const STREAM_PLACE_BYTES: usize = 1_280;

/// A request of a connection, until its answer is written.
#[derive(Debug)]
pub struct OpenRequest {
    memory: BufferedPart,
    _counted: CountedRequest,
}

#[derive(Debug)]
struct CountedRequest(ConnectionState);

/// How many requests of a connection are open at once.
#[derive(Debug, Default)]
pub(super) struct OpenRequests {
    now: AtomicUsize,
}

/// The most streams that an HTTP/2 connection had at once.
#[derive(Debug, Default)]
pub(super) struct StreamPlaces {
    /// How many requests had begun when the engine last waited.
    begun: u64,
    most: usize,
}

/// Holds the memory of a request whose head was read; `None` without a guard.
pub fn open_request(digest: Option<&Digest>, head: &RequestHeader) -> Option<OpenRequest> {
    let note = note_of(digest)?;
    let buffer = &note.0.buffer;
    let memory = buffer.hold(REQUEST_BYTES.saturating_add(head_bytes(head)));
    buffer.moved();
    note.0.open.now.fetch_add(1, Ordering::Relaxed);
    Some(OpenRequest { memory, _counted: CountedRequest(note.clone()) })
}

fn head_bytes(head: &RequestHeader) -> usize {
    let headers = head.headers.iter().map(|(name, value)| (name.as_str().len(), value.len()));
    headers.fold(head.raw_path().len().saturating_mul(HEAD_COPIES), |sum, (name, value)| {
        sum.saturating_add(HEADER_BYTES).saturating_add(name.saturating_add(value).saturating_mul(HEAD_COPIES))
    })
}

impl OpenRequest {
    /// The call has a place among the calls in progress: its memory counts there.
    pub fn has_place(&mut self) {
        self.memory.set(0);
    }

    /// Whether its memory is held here.
    pub fn is_held(&self) -> bool {
        self.memory.bytes() > 0
    }
}

impl Drop for CountedRequest {
    fn drop(&mut self) {
        self.0.0.open.now.fetch_sub(1, Ordering::Relaxed);
    }
}

impl StreamPlaces {
    /// Takes the number of requests that have begun, before the engine has them.
    pub fn begun(&mut self, requests: u64, open: &OpenRequests) {
        let more = usize::try_from(requests.saturating_sub(self.begun)).unwrap_or(usize::MAX);
        self.most = self.most.max(open.now.load(Ordering::Relaxed).saturating_add(more));
    }

    /// The engine has all of them.
    pub fn taken(&mut self, requests: u64) {
        self.begun = requests;
    }

    /// Returns the memory of the connection.
    pub fn bytes(&self) -> usize {
        HTTP2_BYTES.saturating_add(self.most.saturating_mul(STREAM_PLACE_BYTES))
    }
}
