//! The reasons why a request cannot be read.

use crate::base::word_enum::word_enum;

word_enum! {
    /// The reasons why a request cannot be read, with their words in metrics and logs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Unreadable {
        RequestLine = "request_line",
        Target = "target",
        Version = "version",
        LineEnd = "line_end",
        HeaderName = "header_name",
        HeaderValue = "header_value",
        Folding = "folding",
        HeadTooLarge = "head_too_large",
        TooManyHeaders = "too_many_headers",
        Host = "host",
        ContentLength = "content_length",
        TransferEncoding = "transfer_encoding",
        Framing = "framing",
        Repeated = "repeated",
        Upgrade = "upgrade",
        Expectation = "expectation",
        ChunkSize = "chunk_size",
        ChunkExtension = "chunk_extension",
        ChunkEnd = "chunk_end",
        Trailers = "trailers",
        HeadSlow = "head_slow",
        HeadCut = "head_cut",
        Pipelined = "pipelined",
    }
}

impl Unreadable {
    /// Returns the sentence for the caller.
    pub fn message(self) -> &'static str {
        match self {
            Unreadable::RequestLine => "the request line is not `METHOD /path HTTP/1.1`",
            Unreadable::Target => "the request target is not a path of printable ASCII",
            Unreadable::Version => "only HTTP/1.1 is supported here, and HTTP/2 over TLS",
            Unreadable::LineEnd => "a line of the head does not end with CR and LF",
            Unreadable::HeaderName => "a header name is empty or contains an invalid character",
            Unreadable::HeaderValue => "a header value contains a control character",
            Unreadable::Folding => "a header continues on a second line",
            Unreadable::HeadTooLarge => "the head of the request is too large",
            Unreadable::TooManyHeaders => "the request has too many headers",
            Unreadable::Host => "exactly one Host header with a host name is required",
            Unreadable::ContentLength => "at most one Content-Length is allowed, and it must be a plain number",
            Unreadable::TransferEncoding => "the only supported transfer encoding is `chunked`, stated once",
            Unreadable::Framing => "Content-Length and Transfer-Encoding exclude each other",
            Unreadable::Repeated => "a header that may occur once occurs twice",
            Unreadable::Upgrade => "protocol upgrades are not supported",
            Unreadable::Expectation => "the only supported expectation is `100-continue`",
            Unreadable::ChunkSize => "the size of a chunk is not a plain hexadecimal number",
            Unreadable::ChunkExtension => "a chunk extension is too long or contains a control character",
            Unreadable::ChunkEnd => "a chunk does not end with CR and LF",
            Unreadable::Trailers => "trailers are not accepted",
            Unreadable::HeadSlow => "the head of the request did not arrive in time",
            Unreadable::HeadCut => "the request ended inside its head",
            Unreadable::Pipelined => "a second request came before the first was answered",
        }
    }
}
