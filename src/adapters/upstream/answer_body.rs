//! The body of an answer of upstream, as its pieces come.

use bytes::{Buf as _, Bytes, BytesMut};
use pingora::{Error, ErrorType, Result};

/// The most bytes of the line before a chunk.
const MAX_SIZE_LINE: usize = 8 * 1024;
/// The most bytes behind the last chunk. Nobody reads them.
const MAX_TRAILERS: usize = 64 * 1024;

/// What is left of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerPieces {
    /// So many bytes.
    Length(u64),
    Chunks(ChunkPart),
    /// All that comes until upstream closes the connection.
    UntilClosed,
    Over,
}

/// The part of a body in chunks that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkPart {
    Size,
    Data(u64),
    DataEnd,
    /// The lines behind the last chunk, with the bytes of those that came.
    Trailers(usize),
}

impl AnswerPieces {
    pub fn of_length(length: u64) -> AnswerPieces {
        if length == 0 { AnswerPieces::Over } else { AnswerPieces::Length(length) }
    }

    pub fn in_chunks() -> AnswerPieces {
        AnswerPieces::Chunks(ChunkPart::Size)
    }

    pub fn until_closed() -> AnswerPieces {
        AnswerPieces::UntilClosed
    }

    pub fn is_over(&self) -> bool {
        *self == AnswerPieces::Over
    }

    /// Whether the body says where it ends.
    pub fn has_end(&self) -> bool {
        *self != AnswerPieces::UntilClosed
    }

    /// Takes the bytes of the body out of those that came; `None` where more must come, or the body is over.
    pub fn take(&mut self, came: &mut BytesMut) -> Result<Option<Bytes>> {
        self.follow_framing(came)?;
        let taken = match self {
            AnswerPieces::Length(left) => {
                let taken = split(came, left);
                if *left == 0 {
                    *self = AnswerPieces::Over;
                }
                taken
            }
            AnswerPieces::Chunks(ChunkPart::Data(left)) => {
                let taken = split(came, left);
                if *left == 0 {
                    *self = AnswerPieces::Chunks(ChunkPart::DataEnd);
                }
                taken
            }
            AnswerPieces::UntilClosed => came.split().freeze(),
            AnswerPieces::Chunks(_) | AnswerPieces::Over => Bytes::new(),
        };
        // Whoever takes the last bytes can tell that they are the last ones. What cannot be read behind them is told next time.
        self.follow_framing(came).ok();
        Ok((!taken.is_empty()).then_some(taken))
    }

    /// Takes what frames chunks out of the bytes that came, up to the next bytes of the body.
    pub fn follow_framing(&mut self, came: &mut BytesMut) -> Result<()> {
        while let AnswerPieces::Chunks(part) = *self {
            let next = match part {
                ChunkPart::Data(_) => return Ok(()),
                ChunkPart::Size => size_line(came)?,
                ChunkPart::DataEnd => data_end(came)?,
                ChunkPart::Trailers(before) => trailer(came, before)?,
            };
            match next {
                Some(next) => *self = next,
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Upstream has closed the connection.
    pub fn closed(&mut self) -> Result<()> {
        match self {
            AnswerPieces::UntilClosed | AnswerPieces::Over => {
                *self = AnswerPieces::Over;
                Ok(())
            }
            AnswerPieces::Length(_) | AnswerPieces::Chunks(_) => {
                Err(Error::explain(ErrorType::ConnectionClosed, "an answer without its whole body"))
            }
        }
    }
}

fn split(came: &mut BytesMut, left: &mut u64) -> Bytes {
    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(came.len());
    *left = left.saturating_sub(count as u64);
    came.split_to(count).freeze()
}

fn size_line(came: &mut BytesMut) -> Result<Option<AnswerPieces>> {
    match httparse::parse_chunk_size(came) {
        Ok(httparse::Status::Complete((length, size))) => {
            came.advance(length.min(came.len()));
            Ok(Some(AnswerPieces::Chunks(if size == 0 { ChunkPart::Trailers(0) } else { ChunkPart::Data(size) })))
        }
        Ok(httparse::Status::Partial) if came.len() <= MAX_SIZE_LINE => Ok(None),
        Ok(httparse::Status::Partial) | Err(_) => Err(bad_chunk("the size of a chunk")),
    }
}

fn data_end(came: &mut BytesMut) -> Result<Option<AnswerPieces>> {
    match **came {
        [b'\r', b'\n', ..] => {
            came.advance(2);
            Ok(Some(AnswerPieces::Chunks(ChunkPart::Size)))
        }
        [] | [b'\r'] => Ok(None),
        _ => Err(bad_chunk("the end of a chunk")),
    }
}

fn trailer(came: &mut BytesMut, before: usize) -> Result<Option<AnswerPieces>> {
    let found = memchr::memchr(b'\n', came).map(|at| at.saturating_add(1));
    let all = before.saturating_add(found.unwrap_or(came.len()));
    if all > MAX_TRAILERS {
        return Err(bad_chunk("the trailers"));
    }
    let Some(length) = found else { return Ok(None) };
    let line = came.split_to(length);
    match &*line {
        b"\r\n" => Ok(Some(AnswerPieces::Over)),
        line if line.ends_with(b"\r\n") => Ok(Some(AnswerPieces::Chunks(ChunkPart::Trailers(all)))),
        _ => Err(bad_chunk("the trailers")),
    }
}

fn bad_chunk(part: &'static str) -> Box<Error> {
    Error::explain(ErrorType::InvalidHTTPHeader, format!("{part} of upstream's answer cannot be read"))
}
