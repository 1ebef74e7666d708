//! HTTP/1.1 as it comes over the wire, read so strictly that no other reader can understand it otherwise.
//!
//! Pure: bytes in, bytes out. Bytes of a head come out only when the whole head is good; bytes of a body only as far
//! as their framing is good. What is not understood in exactly one way is refused, never repaired.

use super::head::{self, Body, HeadLimits};
use super::unreadable::Unreadable;

/// Where in the sequence of requests a connection is.
#[derive(Debug)]
pub struct Wire {
    limits: HeadLimits,
    place: Place,
    /// The head so far.
    head: Vec<u8>,
    /// How far the search for the end of the head has come.
    searched: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Head,
    /// So many bytes of a body are left.
    Length(u64),
    Chunk(ChunkPlace),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkPlace {
    /// `digits` of the size read, their value, the length of the extension so far.
    Size {
        digits: u8,
        size: u64,
        extension: Option<u16>,
    },
    SizeEnd {
        size: u64,
    },
    Data {
        left: u64,
    },
    DataEnd,
    DataEndLf,
    /// After the last chunk.
    Last,
    LastLf,
}

/// The longest extension of a chunk.
const LONGEST_EXTENSION: u16 = 64;
/// The most digits of a chunk's size.
const SIZE_DIGITS: u8 = 8;

/// What became of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fed {
    /// How many were taken; the rest belongs to the next request.
    pub taken: usize,
    /// A request ends after the bytes taken.
    pub ended: bool,
}

impl Wire {
    pub fn new(limits: HeadLimits) -> Wire {
        Wire { limits, place: Place::Head, head: Vec::new(), searched: 0 }
    }

    /// No byte of a request has come since the last one ended.
    pub fn is_between(&self) -> bool {
        self.place == Place::Head && self.head.is_empty()
    }

    /// A head has begun and is not whole.
    pub fn is_in_head(&self) -> bool {
        self.place == Place::Head && !self.head.is_empty()
    }

    /// Takes bytes until a head is whole, a request ends, or there are no more; good ones go to `out`.
    pub fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Fed, Unreadable> {
        match self.place {
            Place::Head => self.feed_head(input, out),
            Place::Length(left) => Ok(self.feed_length(input, left, out)),
            Place::Chunk(_) => self.feed_chunks(input, out),
        }
    }

    fn feed_head(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Fed, Unreadable> {
        let before = self.head.len();
        let room = self.limits.bytes.saturating_add(1).saturating_sub(before);
        self.head.extend_from_slice(input.get(..room.min(input.len())).unwrap_or(input));
        let from = self.searched.saturating_sub(3);
        let found = self.head.get(from..).and_then(|rest| rest.windows(4).position(|w| w == b"\r\n\r\n"));
        let Some(at) = found else {
            head::so_far(&self.head, self.searched)?;
            self.searched = self.head.len();
            if self.head.len() > self.limits.bytes {
                return Err(Unreadable::HeadTooLarge);
            }
            return Ok(Fed { taken: input.len(), ended: false });
        };
        let end = from.saturating_add(at).saturating_add(4);
        self.head.truncate(end);
        if end > self.limits.bytes {
            return Err(Unreadable::HeadTooLarge);
        }
        let body = head::check(&self.head, self.limits)?;
        out.append(&mut self.head);
        self.searched = 0;
        self.place = match body {
            Body::None => Place::Head,
            Body::Length(length) => Place::Length(length),
            Body::Chunked => Place::Chunk(ChunkPlace::SIZE),
        };
        Ok(Fed { taken: end.saturating_sub(before), ended: self.place == Place::Head })
    }

    fn feed_length(&mut self, input: &[u8], left: u64, out: &mut Vec<u8>) -> Fed {
        let taken = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
        out.extend_from_slice(input.get(..taken).unwrap_or_default());
        let left = left.saturating_sub(taken as u64);
        self.place = if left == 0 { Place::Head } else { Place::Length(left) };
        Fed { taken, ended: left == 0 }
    }

    fn feed_chunks(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Fed, Unreadable> {
        let mut taken = 0;
        while let (Place::Chunk(place), Some(byte)) = (self.place, input.get(taken).copied()) {
            let step = match place {
                ChunkPlace::Data { left } => {
                    let rest = input.len().saturating_sub(taken);
                    let run = usize::try_from(left).unwrap_or(usize::MAX).min(rest);
                    let left = left.saturating_sub(run as u64);
                    self.place = Place::Chunk(if left == 0 { ChunkPlace::DataEnd } else { ChunkPlace::Data { left } });
                    run
                }
                other => {
                    self.place = other.after(byte)?;
                    1
                }
            };
            taken = taken.saturating_add(step);
        }
        out.extend_from_slice(input.get(..taken).unwrap_or_default());
        Ok(Fed { taken, ended: self.place == Place::Head })
    }
}

impl ChunkPlace {
    const SIZE: ChunkPlace = ChunkPlace::Size { digits: 0, size: 0, extension: None };

    /// Where one byte of framing leads.
    fn after(self, byte: u8) -> Result<Place, Unreadable> {
        let next = match (self, byte) {
            (ChunkPlace::Size { digits: 1.., size, extension: _ }, b'\r') => ChunkPlace::SizeEnd { size },
            (ChunkPlace::Size { digits: digits @ 1.., size, extension: None }, b';') => {
                ChunkPlace::Size { digits, size, extension: Some(1) }
            }
            (ChunkPlace::Size { digits, size, extension: Some(length) }, byte) => {
                let printable = byte == b'\t' || (0x20..=0x7e).contains(&byte);
                if length >= LONGEST_EXTENSION || !printable {
                    return Err(Unreadable::ChunkExtension);
                }
                ChunkPlace::Size { digits, size, extension: Some(length.saturating_add(1)) }
            }
            (ChunkPlace::Size { digits, size, extension: None }, byte) => {
                let digit = char::from(byte).to_digit(16).ok_or(Unreadable::ChunkSize)?;
                if digits >= SIZE_DIGITS {
                    return Err(Unreadable::ChunkSize);
                }
                ChunkPlace::Size {
                    digits: digits.saturating_add(1),
                    size: size << 4 | u64::from(digit),
                    extension: None,
                }
            }
            (ChunkPlace::SizeEnd { size: 0 }, b'\n') => ChunkPlace::Last,
            (ChunkPlace::SizeEnd { size }, b'\n') => ChunkPlace::Data { left: size },
            (ChunkPlace::SizeEnd { .. }, _) => return Err(Unreadable::ChunkSize),
            (ChunkPlace::DataEnd, b'\r') => ChunkPlace::DataEndLf,
            (ChunkPlace::DataEndLf, b'\n') => ChunkPlace::SIZE,
            (ChunkPlace::DataEnd | ChunkPlace::DataEndLf, _) => return Err(Unreadable::ChunkEnd),
            (ChunkPlace::Last, b'\r') => ChunkPlace::LastLf,
            (ChunkPlace::LastLf, b'\n') => return Ok(Place::Head),
            (ChunkPlace::Last, _) => return Err(Unreadable::Trailers),
            (ChunkPlace::LastLf, _) => return Err(Unreadable::ChunkEnd),
            (ChunkPlace::Data { .. }, _) => self,
        };
        Ok(Place::Chunk(next))
    }
}

#[cfg(test)]
mod tests;
