//! HTTP/1.1 on a connection to upstream: one request at a time, and its answer.
//!
//! The engine has a client, too. It takes heads of 1 MB, reads one from its beginning with each piece that comes, and copies
//! each header. This one looks at each byte of a head once, and ends a head that is too long. A head that is longer than usual
//! waits for room like a long answer, and keeps it until the next request.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method};
use pingora::protocols::Stream;
use pingora::{Error, ErrorType, OrErr as _, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::answer_body::AnswerPieces;
use super::answer_head::{AnswerHead, HeadSearch};
use super::answer_room::AnswerShare;
use crate::config::MAX_ANSWER_HEAD_BYTES;

/// Up to this many bytes, a head counts as memory of its call.
const FREE_BYTES: usize = 4 * 1024;
/// The most bytes that are read at once, of a head with what is behind it and of a body.
const HEAD_READ_BYTES: usize = 8 * 1024;
const READ_BYTES: usize = 16 * 1024;
/// A body of up to this many bytes is written together with its head.
const WRITTEN_TOGETHER: usize = 16 * 1024;

pub(super) struct UpstreamLine {
    stream: Stream,
    /// The room of one long head.
    room: AnswerShare,
    /// The bytes that came and are not taken yet.
    came: BytesMut,
    search: HeadSearch,
    /// The body of the answer, once its head is read.
    body: Option<AnswerPieces>,
    is_head_request: bool,
    /// The answer says that another request may follow.
    goes_on: bool,
}

impl UpstreamLine {
    pub fn new(stream: Stream, room: AnswerShare) -> UpstreamLine {
        UpstreamLine {
            stream,
            room,
            came: BytesMut::new(),
            search: HeadSearch::default(),
            body: None,
            is_head_request: false,
            goes_on: false,
        }
    }

    /// Writes a request. The bytes that came before belong to no answer.
    pub async fn write(
        &mut self,
        method: &Method,
        target: &str,
        headers: &HeaderMap,
        body: Option<&Bytes>,
    ) -> Result<()> {
        self.is_head_request = *method == Method::HEAD;
        self.room.give_back();
        let body = body.map_or(&[][..], |body| body);
        let together = if body.len() <= WRITTEN_TOGETHER { body } else { &[] };
        let head = request_bytes(method, target, headers, together)?;
        self.write_all(&head).await?;
        if together.len() < body.len() {
            self.write_all(body).await?;
        }
        self.stream.flush().await.or_err(ErrorType::WriteError, "a request to upstream")
    }

    async fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await.or_err(ErrorType::WriteError, "a request to upstream")
    }

    /// Reads the next head, which may be an interim one. Reading can be given up and taken up again.
    pub async fn head(&mut self) -> Result<AnswerHead> {
        let end = loop {
            if let Some(end) = self.search.end(&self.came)? {
                break end;
            }
            if self.came.len() > MAX_ANSWER_HEAD_BYTES {
                return Err(Error::explain(ErrorType::InvalidHTTPHeader, "upstream's head is too long"));
            }
            if self.came.len() > FREE_BYTES {
                self.room.take(MAX_ANSWER_HEAD_BYTES).await;
            }
            if self.read_more(HEAD_READ_BYTES).await? == 0 {
                return Err(Error::explain(ErrorType::ConnectionClosed, "an answer without its whole head"));
            }
        };
        self.search = HeadSearch::default();
        let mut head = AnswerHead::parse(self.came.split_to(end).freeze())?;
        if !head.is_interim() {
            let mut pieces = head.take_framing(self.is_head_request)?;
            // A head counts whatever becomes of the body: what cannot be read there is told with the first piece.
            pieces.follow_framing(&mut self.came).ok();
            self.goes_on = head.goes_on && pieces.has_end();
            self.body = Some(pieces);
        }
        Ok(head)
    }

    /// Reads the next piece of the body; `None` at its end. Reading can be given up and taken up again.
    pub async fn piece(&mut self) -> Result<Option<Bytes>> {
        loop {
            let Some(body) = &mut self.body else {
                return Err(Error::explain(ErrorType::InternalError, "an answer's body before its head"));
            };
            if body.is_over() {
                return Ok(None);
            }
            if let Some(piece) = body.take(&mut self.came)? {
                return Ok(Some(piece));
            }
            if !body.is_over() && self.read_more(READ_BYTES).await? == 0 {
                self.body.as_mut().map_or(Ok(()), AnswerPieces::closed)?;
            }
        }
    }

    /// Whether the whole answer is read.
    pub fn is_over(&self) -> bool {
        self.body.as_ref().is_some_and(AnswerPieces::is_over)
    }

    /// Returns the connection where another request may follow; otherwise it is closed.
    pub async fn into_reusable(mut self) -> Option<Stream> {
        if self.is_over() && self.goes_on && self.came.is_empty() {
            return Some(self.stream);
        }
        // Whatever comes of it, the connection is closed.
        self.stream.shutdown().await.ok();
        None
    }

    async fn read_more(&mut self, at_most: usize) -> Result<usize> {
        self.came.reserve(at_most);
        let mut room = (&mut self.stream).take(at_most as u64);
        room.read_buf(&mut self.came).await.or_err(ErrorType::ReadError, "an answer of upstream")
    }
}

fn request_bytes(method: &Method, target: &str, headers: &HeaderMap, body: &[u8]) -> Result<Vec<u8>> {
    // A target is rebuilt from a path of the contract; nothing in it may end the line.
    if target.is_empty() || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::explain(ErrorType::InvalidHTTPHeader, "the target of a request to upstream"));
    }
    let lines = headers.iter().map(|(name, value)| name.as_str().len().saturating_add(value.len()).saturating_add(4));
    let length = lines.sum::<usize>().saturating_add(target.len()).saturating_add(body.len());
    let mut bytes = Vec::with_capacity(length.saturating_add(32));
    for part in [method.as_str(), " ", target, " HTTP/1.1\r\n"] {
        bytes.extend_from_slice(part.as_bytes());
    }
    for (name, value) in headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            bytes.extend_from_slice(part);
        }
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    Ok(bytes)
}

#[cfg(test)]
mod tests;
