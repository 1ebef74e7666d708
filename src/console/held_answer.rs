//! The body of a large answer, whose memory counts until it is written.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Body as _, Frame, SizeHint};

use crate::edge::buffered::BufferedPart;
use crate::edge::guard::{ConnectionWatch, GATHERED_BYTES};

/// The most that is copied out of an answer at one time, so that it is not in memory twice.
const PIECE_BYTES: usize = 16 * 1024;

/// A body in pieces.
struct HeldAnswer {
    whole: Body,
    /// What came of it and was not taken yet.
    rest: Bytes,
    /// The bytes that were not taken yet.
    left: u64,
    _held: BufferedPart,
}

/// Counts an answer among the memory of its connection until it is written. The guard counts what it gathers, so short
/// answers are counted already; and a stream has no length.
pub(super) fn hold(response: Response, watch: &ConnectionWatch) -> Response {
    let Some(left) = response.body().size_hint().exact() else { return response };
    let bytes = usize::try_from(left).unwrap_or(usize::MAX);
    if bytes <= GATHERED_BYTES {
        return response;
    }
    let held = watch.hold_answer(bytes);
    response.map(|whole| Body::new(HeldAnswer { whole, rest: Bytes::new(), left, _held: held }))
}

impl hyper::body::Body for HeldAnswer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.whole).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                ended => return Poll::Ready(ended),
            }
        }
        let count = PIECE_BYTES.min(self.rest.len());
        let piece = self.rest.split_to(count);
        self.left = self.left.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
