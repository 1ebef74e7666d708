//! HTTP/2 as far as times and counts go: whether a frame or a header block is under way, how many requests have begun, and
//! which streams begin and end. The engine interprets the frames.

/// The length of the connection preface.
const PREFACE: usize = 24;
const FRAME_HEAD: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const GOAWAY: u8 = 7;
/// The peer is told that it makes too much work.
const ENHANCE_YOUR_CALM: u8 = 11;

/// Who sends the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameSender {
    Caller,
    Gate,
}

/// The begin or the end of a stream, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    Begins(u32),
    /// Its answer is complete, or it was reset.
    Ends(u32),
}

/// The position in the sequence of frames of one direction.
#[derive(Debug)]
pub struct Frames {
    sender: FrameSender,
    place: FramePosition,
    /// A header block has begun and not ended.
    in_block: bool,
    /// Counts the preface, frames and blocks that have ended.
    ended: u64,
    last_stream: u32,
    requests: u64,
}

#[derive(Clone, Copy, Debug)]
enum FramePosition {
    Preface(usize),
    Head([u8; FRAME_HEAD], usize),
    Payload(usize),
}

const START: FramePosition = FramePosition::Head([0; FRAME_HEAD], 0);

impl Frames {
    /// Frames of a caller begin with a preface.
    pub fn of(sender: FrameSender) -> Frames {
        let place = if sender == FrameSender::Caller { FramePosition::Preface(0) } else { START };
        Frames { sender, place, in_block: false, ended: 0, last_stream: 0, requests: 0 }
    }

    /// Returns how many items have ended: while it stands still, the same item is under way.
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// Returns whether an item has begun and not ended.
    pub fn is_within(&self) -> bool {
        self.in_block || !matches!(self.place, FramePosition::Preface(0) | FramePosition::Head(_, 0))
    }

    /// Returns how many requests have begun.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Returns the frame that ends the connection: no request after the last one that began was looked at.
    pub fn go_away(&self) -> Vec<u8> {
        let head = [0, 0, 8, GOAWAY, 0, 0, 0, 0, 0];
        [&head[..], &self.last_stream.to_be_bytes(), &[0, 0, 0, ENHANCE_YOUR_CALM]].concat()
    }

    pub fn watch(&mut self, mut bytes: &[u8], mut see: impl FnMut(StreamEvent)) {
        while let Some((first, rest)) = bytes.split_first() {
            match self.place {
                FramePosition::Preface(read) => {
                    let read = read.saturating_add(1);
                    self.place = if read < PREFACE { FramePosition::Preface(read) } else { self.next() };
                    bytes = rest;
                }
                FramePosition::Head(mut head, read) => {
                    if let Some(place) = head.get_mut(read) {
                        *place = *first;
                    }
                    let read = read.saturating_add(1);
                    self.place =
                        if read < FRAME_HEAD { FramePosition::Head(head, read) } else { self.begin(head, &mut see) };
                    bytes = rest;
                }
                FramePosition::Payload(left) => {
                    let count = left.min(bytes.len());
                    self.place =
                        if count < left { FramePosition::Payload(left.saturating_sub(count)) } else { self.next() };
                    bytes = bytes.get(count..).unwrap_or_default();
                }
            }
        }
    }

    fn begin(&mut self, head: [u8; FRAME_HEAD], see: &mut impl FnMut(StreamEvent)) -> FramePosition {
        let [high, middle, low, kind, flags, a, b, c, d] = head;
        let stream = u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff;
        if kind == HEADERS && stream > self.last_stream {
            self.last_stream = stream;
            self.requests = self.requests.saturating_add(1);
            if self.sender == FrameSender::Caller {
                see(StreamEvent::Begins(stream));
            }
        }
        let ends_answer = self.sender == FrameSender::Gate && matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0;
        if ends_answer || kind == RST_STREAM {
            see(StreamEvent::Ends(stream));
        }
        if kind == HEADERS || kind == CONTINUATION {
            self.in_block = flags & END_HEADERS == 0;
        }
        let length = u32::from_be_bytes([0, high, middle, low]);
        if length == 0 { self.next() } else { FramePosition::Payload(usize::try_from(length).unwrap_or(usize::MAX)) }
    }

    fn next(&mut self) -> FramePosition {
        if !self.in_block {
            self.ended = self.ended.saturating_add(1);
        }
        START
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
    }

    /// Feeds bytes in pieces of a size; returns the number of requests, of ended items, and whether an item is under
    /// way.
    fn seen(bytes: &[u8], piece: usize) -> (u64, u64, bool) {
        let mut frames = Frames::of(FrameSender::Caller);
        bytes.chunks(piece).for_each(|piece| frames.watch(piece, |_| {}));
        (frames.requests(), frames.ended(), frames.is_within())
    }

    #[test]
    fn streams_begin_with_the_caller_and_end_with_either() {
        let events = |sender, bytes: &[u8], piece| {
            let (mut frames, mut seen) = (Frames::of(sender), Vec::new());
            bytes.chunks(piece).for_each(|piece| frames.watch(piece, |event| seen.push(event)));
            seen
        };
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let asked = [preface, frame(HEADERS, END_HEADERS | END_STREAM, 1, b"a"), frame(HEADERS, END_HEADERS, 3, b"a")];
        let more = [frame(DATA, END_STREAM, 3, b"x"), frame(HEADERS, END_HEADERS | END_STREAM, 3, b"t")];
        let asked = [asked.concat(), more.concat(), frame(RST_STREAM, 0, 1, &[0; 4])].concat();
        let answered = [frame(HEADERS, END_HEADERS, 1, b"a"), frame(DATA, 0, 1, b"x"), frame(DATA, END_STREAM, 1, b"")];
        let rest = [frame(HEADERS, END_HEADERS | END_STREAM, 3, b"a"), frame(RST_STREAM, 0, 5, &[0; 4])];
        let answered = [answered.concat(), rest.concat()].concat();
        for piece in [1, 2, 5, 1000] {
            let begun = [StreamEvent::Begins(1), StreamEvent::Begins(3), StreamEvent::Ends(1)];
            assert_eq!(events(FrameSender::Caller, &asked, piece), begun, "by {piece}");
            let ended = [StreamEvent::Ends(1), StreamEvent::Ends(3), StreamEvent::Ends(5)];
            assert_eq!(events(FrameSender::Gate, &answered, piece), ended, "by {piece}");
        }
    }

    #[test]
    fn frames_blocks_and_requests_are_told_apart() {
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let settings = frame(4, 0, 0, b"");
        let request = frame(HEADERS, END_HEADERS | 1, 1, b"abc");
        let (open, more) = (frame(HEADERS, 0, 3, b"abc"), frame(CONTINUATION, 0, 3, b"d"));
        let last = frame(CONTINUATION, END_HEADERS, 3, b"");
        let trailers = frame(HEADERS, END_HEADERS | 1, 3, b"t");
        for (what, parts, expected) in [
            ("nothing", vec![], (0, 0, false)),
            ("half a preface", vec![preface[..10].to_vec()], (0, 0, true)),
            ("settings", vec![preface.clone(), settings.clone()], (0, 2, false)),
            ("half a head", vec![preface.clone(), settings[..4].to_vec()], (0, 1, true)),
            ("a request", vec![preface.clone(), settings.clone(), request.clone()], (1, 3, false)),
            ("half a request", vec![preface.clone(), request[..10].to_vec()], (1, 1, true)),
            ("an open block", vec![preface.clone(), open.clone(), more.clone()], (1, 1, true)),
            ("a block", vec![preface.clone(), open.clone(), more, last.clone()], (1, 2, false)),
            ("trailers", vec![preface, request, open, last, trailers], (2, 4, false)),
        ] {
            for piece in [1, 2, 5, 1000] {
                assert_eq!(seen(&parts.concat(), piece), expected, "{what} by {piece}");
            }
        }
    }
}
