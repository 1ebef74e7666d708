//! The limits on sizes and numbers.

/// The longest head of an answer of upstream.
pub const MAX_ANSWER_HEAD_BYTES: usize = 64 * 1024;

/// The limits of `[limits]`.
#[derive(Clone, Debug)]
pub struct LimitsConfig {
    /// The maximum size of a request body.
    pub body_bytes: usize,
    /// The maximum size of all request bodies in memory; at least twice `body_bytes` for each environment.
    pub bodies_bytes: usize,
    /// The maximum number of open holds of an environment, and of their bytes.
    pub holds: usize,
    pub holds_bytes: usize,
    /// The maximum number of bytes that wait for callers, and of heads that arrive, over all listeners.
    pub buffered_bytes: usize,
    /// The maximum number of calls in progress of an environment.
    pub calls: usize,
    /// The maximum number of entries about refused calls of an environment within an hour.
    pub refusals: usize,
    /// The maximum size of a request head.
    pub head_bytes: usize,
    /// The maximum number of headers in a request.
    pub headers: usize,
    /// The maximum number of connections to a listener.
    pub connections: usize,
    pub connections_per_peer: usize,
    /// The number of requests after which a connection is closed.
    pub requests_per_connection: usize,
    /// The maximum number of concurrent requests on an HTTP/2 connection.
    pub streams_per_connection: usize,
    /// The maximum size of an upstream answer that is read whole.
    pub answer_bytes: usize,
    /// The maximum memory for answers to writes while they are read, over all environments: at least four times the
    /// longest for each.
    pub answers_bytes: usize,
}
