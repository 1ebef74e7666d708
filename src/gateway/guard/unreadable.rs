//! The reasons why a request cannot be read.

/// Why what came cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unreadable {
    RequestLine,
    Target,
    Version,
    LineEnd,
    HeaderName,
    HeaderValue,
    Folding,
    HeadTooLarge,
    TooManyHeaders,
    Host,
    ContentLength,
    TransferEncoding,
    Framing,
    Repeated,
    Upgrade,
    Expectation,
    ChunkSize,
    ChunkExtension,
    ChunkEnd,
    Trailers,
    HeadSlow,
    HeadCut,
    Pipelined,
}

impl Unreadable {
    /// As metrics and logs call it.
    pub fn as_str(self) -> &'static str {
        match self {
            Unreadable::RequestLine => "request_line",
            Unreadable::Target => "target",
            Unreadable::Version => "version",
            Unreadable::LineEnd => "line_end",
            Unreadable::HeaderName => "header_name",
            Unreadable::HeaderValue => "header_value",
            Unreadable::Folding => "folding",
            Unreadable::HeadTooLarge => "head_too_large",
            Unreadable::TooManyHeaders => "too_many_headers",
            Unreadable::Host => "host",
            Unreadable::ContentLength => "content_length",
            Unreadable::TransferEncoding => "transfer_encoding",
            Unreadable::Framing => "framing",
            Unreadable::Repeated => "repeated",
            Unreadable::Upgrade => "upgrade",
            Unreadable::Expectation => "expectation",
            Unreadable::ChunkSize => "chunk_size",
            Unreadable::ChunkExtension => "chunk_extension",
            Unreadable::ChunkEnd => "chunk_end",
            Unreadable::Trailers => "trailers",
            Unreadable::HeadSlow => "head_slow",
            Unreadable::HeadCut => "head_cut",
            Unreadable::Pipelined => "pipelined",
        }
    }

    /// As its sender reads it.
    pub fn told(self) -> &'static str {
        match self {
            Unreadable::RequestLine => "the request line is not `METHOD /path HTTP/1.1`",
            Unreadable::Target => "the request target is not a path of printable ASCII",
            Unreadable::Version => "only HTTP/1.1 is spoken here, and HTTP/2 over TLS",
            Unreadable::LineEnd => "a line of the head does not end with CR and LF",
            Unreadable::HeaderName => "the name of a header is empty or holds a character that names do not have",
            Unreadable::HeaderValue => "the value of a header holds a control character",
            Unreadable::Folding => "a header goes on in a second line",
            Unreadable::HeadTooLarge => "the head of the request is too large",
            Unreadable::TooManyHeaders => "the request has too many headers",
            Unreadable::Host => "one Host header is needed, naming a host",
            Unreadable::ContentLength => "one Content-Length at most, a plain number",
            Unreadable::TransferEncoding => "the only transfer encoding is `chunked`, stated once",
            Unreadable::Framing => "Content-Length and Transfer-Encoding exclude each other",
            Unreadable::Repeated => "a header that may stand once stands twice",
            Unreadable::Upgrade => "no other protocol is offered here",
            Unreadable::Expectation => "the only expectation that is met is `100-continue`",
            Unreadable::ChunkSize => "the size of a chunk is not a plain hexadecimal number",
            Unreadable::ChunkExtension => "the extension of a chunk is too long or holds a control character",
            Unreadable::ChunkEnd => "a chunk does not end with CR and LF",
            Unreadable::Trailers => "trailers are not taken",
            Unreadable::HeadSlow => "the head of the request did not arrive in time",
            Unreadable::HeadCut => "the request ended inside its head",
            Unreadable::Pipelined => "a second request came before the first was answered",
        }
    }
}
