//! HTTP/1.1 on the wire, parsed so strictly that no other parser can read it differently.
//!
//! Pure: bytes in, bytes out. The bytes of a head come out only when the whole head is good; the bytes of a body only
//! as far as their framing is good. Anything ambiguous is refused, never repaired.

use super::head;
use super::head::{BodyFraming, HeadLimits};
use super::unreadable::Unreadable;

/// The position in the sequence of requests.
#[derive(Debug)]
pub struct Wire {
    limits: HeadLimits,
    place: WirePosition,
    /// The head so far.
    head: Vec<u8>,
    /// How far the search for the end of the head has come.
    searched: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WirePosition {
    Head,
    /// This many bytes of a body are left.
    Length(u64),
    Chunk(ChunkPlace),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkPlace {
    /// The digits of the size, their value, and the length of the extension so far.
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

/// The longest chunk extension.
const LONGEST_EXTENSION: u16 = 64;
/// The most digits of a chunk size.
const SIZE_DIGITS: u8 = 8;

/// The result of feeding bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fed {
    /// How many bytes were taken; the rest belongs to the next request.
    pub taken: usize,
    /// A request ends after the taken bytes.
    pub ended: bool,
}

impl Wire {
    pub fn new(limits: HeadLimits) -> Wire {
        Wire { limits, place: WirePosition::Head, head: Vec::new(), searched: 0 }
    }

    /// Returns whether no byte of a new request has arrived.
    pub fn is_between(&self) -> bool {
        self.place == WirePosition::Head && self.head.is_empty()
    }

    /// Returns whether a head has begun and is not complete.
    pub fn is_in_head(&self) -> bool {
        self.place == WirePosition::Head && !self.head.is_empty()
    }

    /// Returns the memory of the head so far.
    pub fn head_bytes(&self) -> usize {
        self.head.capacity()
    }

    /// Takes bytes until a head is complete, a request ends, or none are left; good bytes go to `out`.
    pub fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Fed, Unreadable> {
        match self.place {
            WirePosition::Head => self.feed_head(input, out),
            WirePosition::Length(left) => Ok(self.feed_length(input, left, out)),
            WirePosition::Chunk(_) => self.feed_chunks(input, out),
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
        out.append(&mut std::mem::take(&mut self.head));
        self.searched = 0;
        self.place = match body {
            BodyFraming::None => WirePosition::Head,
            BodyFraming::Length(length) => WirePosition::Length(length),
            BodyFraming::Chunked => WirePosition::Chunk(ChunkPlace::SIZE),
        };
        Ok(Fed { taken: end.saturating_sub(before), ended: self.place == WirePosition::Head })
    }

    fn feed_length(&mut self, input: &[u8], left: u64, out: &mut Vec<u8>) -> Fed {
        let taken = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
        out.extend_from_slice(input.get(..taken).unwrap_or_default());
        let left = left.saturating_sub(taken as u64);
        self.place = if left == 0 { WirePosition::Head } else { WirePosition::Length(left) };
        Fed { taken, ended: left == 0 }
    }

    fn feed_chunks(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Fed, Unreadable> {
        let mut taken = 0;
        while let (WirePosition::Chunk(place), Some(byte)) = (self.place, input.get(taken).copied()) {
            let step = match place {
                ChunkPlace::Data { left } => {
                    let rest = input.len().saturating_sub(taken);
                    let run = usize::try_from(left).unwrap_or(usize::MAX).min(rest);
                    let left = left.saturating_sub(run as u64);
                    self.place =
                        WirePosition::Chunk(if left == 0 { ChunkPlace::DataEnd } else { ChunkPlace::Data { left } });
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
        Ok(Fed { taken, ended: self.place == WirePosition::Head })
    }
}

impl ChunkPlace {
    const SIZE: ChunkPlace = ChunkPlace::Size { digits: 0, size: 0, extension: None };

    /// Moves on by one byte of framing.
    fn after(self, byte: u8) -> Result<WirePosition, Unreadable> {
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
            (ChunkPlace::LastLf, b'\n') => return Ok(WirePosition::Head),
            (ChunkPlace::Last, _) => return Err(Unreadable::Trailers),
            (ChunkPlace::LastLf, _) => return Err(Unreadable::ChunkEnd),
            (ChunkPlace::Data { .. }, _) => self,
        };
        Ok(WirePosition::Chunk(next))
    }
}

#[cfg(test)]
mod tests;
