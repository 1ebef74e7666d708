//! The head of an answer of upstream: found, parsed, and what it says of the body behind it.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use http::{HeaderMap, StatusCode};
use pingora::{Error, ErrorType, OrErr as _, Result};

use super::answer_body::AnswerPieces;

const MAX_HEADERS: usize = 256;
const VERSION: &[u8] = b"HTTP/1.";

/// The search for the end of a head, which looks at each byte once.
#[derive(Debug, Default)]
pub(super) struct HeadSearch {
    /// Where the line begins that is not whole.
    line: usize,
    searched: usize,
    /// Where the first line begins; empty lines before it are skipped.
    begin: Option<usize>,
}

/// A head of an answer, interim or final.
#[derive(Debug)]
pub struct AnswerHead {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// Another request may follow the answer, if the body has an end.
    pub(super) goes_on: bool,
}

impl HeadSearch {
    /// Returns the length of the head once it is whole. Bytes that begin otherwise are refused at once.
    pub fn end(&mut self, came: &[u8]) -> Result<Option<usize>> {
        while let Some(at) = came.get(self.searched..).and_then(|rest| memchr::memchr(b'\n', rest)) {
            let end = self.searched.saturating_add(at).saturating_add(1);
            let is_empty = matches!(came.get(self.line..end), Some(b"\n" | b"\r\n"));
            if is_empty && self.begin.is_some() {
                check_begin(self.begin, came)?;
                return Ok(Some(end));
            }
            if !is_empty {
                self.begin.get_or_insert(self.line);
            }
            (self.line, self.searched) = (end, end);
        }
        self.searched = came.len();
        let begin = self
            .begin
            .or_else(|| came.get(self.line..).filter(|rest| !matches!(*rest, [] | [b'\r'])).map(|_| self.line));
        check_begin(begin, came)?;
        Ok(None)
    }
}

fn check_begin(begin: Option<usize>, came: &[u8]) -> Result<()> {
    let first = begin.and_then(|begin| came.get(begin..)).unwrap_or_default();
    if first.iter().zip(VERSION).all(|(byte, wanted)| byte == wanted) {
        return Ok(());
    }
    Err(Error::explain(ErrorType::InvalidHTTPHeader, "upstream's answer is not HTTP/1"))
}

impl AnswerHead {
    /// Parses a whole head. The headers share its bytes.
    pub fn parse(bytes: Bytes) -> Result<AnswerHead> {
        let mut space = [const { MaybeUninit::uninit() }; MAX_HEADERS];
        let mut parsed = httparse::Response::new(&mut []);
        let mut config = httparse::ParserConfig::default();
        // An answer about money counts, however its headers are spaced.
        config.allow_spaces_after_header_name_in_responses(true);
        config.allow_obsolete_multiline_headers_in_responses(true);
        let read = config.parse_response_with_uninit_headers(&mut parsed, &bytes, &mut space);
        let (Ok(httparse::Status::Complete(_)), Some(code), Some(version)) = (read, parsed.code, parsed.version) else {
            return Err(Error::explain(ErrorType::InvalidHTTPHeader, "upstream's head cannot be read"));
        };
        let status = StatusCode::from_u16(code).or_err(ErrorType::InvalidHTTPHeader, "upstream's status")?;
        let mut headers = HeaderMap::with_capacity(parsed.headers.len());
        for header in &*parsed.headers {
            let name = HeaderName::from_bytes(header.name.as_bytes())
                .or_err(ErrorType::InvalidHTTPHeader, "the name of a header of upstream's")?;
            if header.value.contains(&b'\n') {
                // A secret that is broken over lines would not be found in it.
                headers.extend(unfolded(&name, header.value).map(|value| (name, value)));
                continue;
            }
            let value = HeaderValue::from_maybe_shared(bytes.slice_ref(header.value))
                .or_err(ErrorType::InvalidHTTPHeader, "the value of a header of upstream's")?;
            headers.append(name, value);
        }
        let goes_on = version == 1 && status != StatusCode::SWITCHING_PROTOCOLS && !names_close(&headers);
        Ok(AnswerHead { status, headers, goes_on })
    }

    /// Whether another head follows.
    pub fn is_interim(&self) -> bool {
        self.status.is_informational() && self.status != StatusCode::SWITCHING_PROTOCOLS
    }

    /// Returns how the body ends. Where a transfer encoding says it, a length says nothing and is removed.
    pub(super) fn take_framing(&mut self, is_head_request: bool) -> Result<AnswerPieces> {
        let is_chunked = is_chunked(&self.headers)?;
        if is_chunked.is_some() {
            self.headers.remove(CONTENT_LENGTH);
        }
        let length = stated_length(&self.headers)?;
        let has_none = is_head_request || matches!(self.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        Ok(match (is_chunked, length) {
            _ if has_none => AnswerPieces::of_length(0),
            (Some(true), _) => AnswerPieces::in_chunks(),
            (None, Some(length)) => AnswerPieces::of_length(length),
            (Some(false), _) | (None, None) => AnswerPieces::until_closed(),
        })
    }
}

/// Returns the value of a header over several lines, on one line: only of those that the gate itself reads. Of
/// `Content-Type`, that is the media type.
fn unfolded(name: &HeaderName, value: &[u8]) -> Option<HeaderValue> {
    let on_one_line: Vec<u8> = value.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    if [TRANSFER_ENCODING, CONTENT_LENGTH, CONTENT_ENCODING, CONNECTION].contains(name) {
        return HeaderValue::from_bytes(&on_one_line).ok();
    }
    let media_type = on_one_line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let is_whole = !media_type.iter().any(u8::is_ascii_whitespace);
    (name == CONTENT_TYPE && is_whole).then(|| HeaderValue::from_bytes(media_type).ok()).flatten()
}

/// Returns whether the body is in chunks; `None` where no transfer coding is stated. A body in another coding cannot be read:
/// the gate asked for none.
fn is_chunked(headers: &HeaderMap) -> Result<Option<bool>> {
    let codings =
        headers.get_all(TRANSFER_ENCODING).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    codings.map(<[u8]>::trim_ascii).try_fold(None, |before, coding| match before {
        // Nothing follows the chunks, and `identity` is no coding.
        None | Some(false) if coding.eq_ignore_ascii_case(b"identity") => Ok(Some(false)),
        None | Some(false) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Some(true)),
        _ => Err(Error::explain(ErrorType::InvalidHTTPHeader, "the transfer coding of upstream's answer")),
    })
}

fn names_close(headers: &HeaderMap) -> bool {
    let all = headers.get_all(CONNECTION).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    all.map(<[u8]>::trim_ascii).any(|name| name.eq_ignore_ascii_case(b"close"))
}

/// Returns the length that the headers state; lengths that differ are refused.
fn stated_length(headers: &HeaderMap) -> Result<Option<u64>> {
    let mut stated = None;
    for value in headers.get_all(CONTENT_LENGTH) {
        for one in value.as_bytes().split(|byte| *byte == b',') {
            let length = length_of(one.trim_ascii());
            if length.is_none() || stated.is_some_and(|before| Some(before) != length) {
                return Err(Error::explain(ErrorType::InvalidHTTPHeader, "the length of upstream's answer"));
            }
            stated = length;
        }
    }
    Ok(stated)
}

fn length_of(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| str::from_utf8(digits).ok()?.parse().ok()).flatten()
}
