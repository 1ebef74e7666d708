//! The memory of an HTTP/2 connection for its streams.
//!
//! The engine lets go of a request once it has the last bytes of the answer, and then sends them for as long as the caller
//! takes. So the streams are counted where they begin and end: in the frames that pass in both directions.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::frames::{FrameSender, Frames, StreamEvent};
use crate::edge::buffered::{BufferedPart, ConnectionBuffer};

/// The memory of an HTTP/2 connection before its first request, besides that of any connection.
const HTTP2_BYTES: usize = 48 * 1024;
/// The memory that the engine keeps for each stream that was ever open beside others, until the connection ends.
const STREAM_PLACE_BYTES: usize = 1_280;
/// The most bytes of an answer that the engine keeps for a stream whose caller does not take them.
pub const STREAM_BUFFER_BYTES: usize = 4 * 1024;
/// Streams beyond these are refused by the engine, and not looked at.
const MAX_LOOKED_AT: usize = 4_096;

/// The streams of a connection, and the memory that it holds for them.
#[derive(Debug)]
pub(super) struct Http2Streams {
    held: BufferedPart,
    places: StreamPlaces,
    answers: Frames,
}

/// The streams that are open, and the most that were open at once.
#[derive(Debug, Default)]
struct StreamPlaces {
    open: BTreeSet<u32>,
    most: usize,
}

impl Http2Streams {
    pub fn new(buffer: &Arc<ConnectionBuffer>) -> Http2Streams {
        let answers = Frames::of(FrameSender::Gate);
        Http2Streams { held: buffer.hold(HTTP2_BYTES), places: StreamPlaces::default(), answers }
    }

    /// Takes an event of the caller's frames.
    pub fn see(&mut self, event: StreamEvent) {
        self.places.see(event);
    }

    /// Takes bytes that the engine has sent.
    pub fn sent(&mut self, bytes: &[u8]) {
        self.answers.watch(bytes, |event| self.places.see(event));
        self.hold();
    }

    /// Holds the memory that the connection has now.
    pub fn hold(&mut self) {
        self.held.set(self.places.bytes());
    }
}

impl StreamPlaces {
    fn see(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Begins(stream) if self.open.len() < MAX_LOOKED_AT => {
                self.open.insert(stream);
                self.most = self.most.max(self.open.len());
            }
            StreamEvent::Begins(_) => {}
            StreamEvent::Ends(stream) => {
                self.open.remove(&stream);
            }
        }
    }

    /// Returns the memory of the connection.
    fn bytes(&self) -> usize {
        let places = self.most.saturating_mul(STREAM_PLACE_BYTES);
        HTTP2_BYTES.saturating_add(places).saturating_add(self.open.len().saturating_mul(STREAM_BUFFER_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_counts_until_its_answer_has_passed() {
        let mut places = StreamPlaces::default();
        for stream in [1, 3, 5] {
            places.see(StreamEvent::Begins(stream));
        }
        let full = places.bytes();
        assert_eq!(full, HTTP2_BYTES + 3 * (STREAM_PLACE_BYTES + STREAM_BUFFER_BYTES));
        places.see(StreamEvent::Ends(3));
        places.see(StreamEvent::Ends(3));
        assert_eq!(places.bytes(), full - STREAM_BUFFER_BYTES);
        places.see(StreamEvent::Begins(7));
        assert_eq!(places.bytes(), full, "the place of a former stream is used again");
    }
}
