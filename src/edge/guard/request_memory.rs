//! The memory of requests.
//!
//! A request holds its memory in the share of its address from its head on, until it has a place among the calls in progress,
//! whose bound counts this memory. So whoever waits without a place, as for an issuer's keys, is counted.

use pingora::http::RequestHeader;
use pingora::protocols::Digest;

use super::note_of;
use crate::edge::buffered::BufferedPart;

/// The memory of a request besides its head and its answer.
pub const REQUEST_BYTES: usize = 32 * 1024;
/// A head is there as it came, and as it was read.
const HEAD_COPIES: usize = 2;
/// The memory of a header besides its name and value.
const HEADER_BYTES: usize = 128;

/// A request of a connection, until its answer is written.
#[derive(Debug)]
pub struct OpenRequest {
    memory: BufferedPart,
}

/// Holds the memory of a request whose head was read; `None` without a guard.
pub fn open_request(digest: Option<&Digest>, head: &RequestHeader) -> Option<OpenRequest> {
    let note = note_of(digest)?;
    let buffer = &note.0.buffer;
    let memory = buffer.hold(REQUEST_BYTES.saturating_add(head_bytes(head)));
    buffer.moved();
    Some(OpenRequest { memory })
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
