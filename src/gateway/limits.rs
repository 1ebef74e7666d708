//! What one caller, one connection and all connections may take: from the settings to those who keep them.

use pingora::apps::HttpServerOptions;
use pingora::protocols::http::v2::server::H2Options;
use pingora::proxy::HttpProxy;

use super::Gate;
use super::guard::{Bounds, Guard, HeadLimits};
use super::listen::ConnectionLimits;
use crate::config::Config;
use crate::telemetry::Metrics;

/// Of one HTTP/2 connection: streams that its caller reset and that are still remembered.
const RESET_STREAMS: usize = 20;
/// Of one HTTP/2 connection: streams that were reset for a caller's fault, before it is closed.
const ERROR_STREAMS: usize = 100;
/// Of one HTTP/2 stream: what is gathered of an answer that its caller does not read.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

pub(super) fn guard(listener: &'static str, config: &Config, metrics: &Metrics) -> Guard {
    let (limits, timeouts) = (&config.limits, &config.timeouts);
    let bounds = Bounds {
        head: HeadLimits { bytes: limits.head_bytes, headers: limits.headers },
        head_time: timeouts.head,
        idle_time: timeouts.keepalive,
        // A caller that waits for its answer is silent, and is not idle.
        silence_time: timeouts.keepalive.saturating_add(timeouts.answer),
        write_time: timeouts.client_write,
        linger_time: timeouts.drain,
        requests: u64::try_from(limits.requests_per_connection).unwrap_or(u64::MAX),
    };
    Guard { listener, bounds, metrics: metrics.clone() }
}

pub(super) fn connection_limits(config: &Config) -> ConnectionLimits {
    ConnectionLimits {
        all: config.limits.connections,
        of_one_peer: config.limits.connections_per_peer,
        handshake_time: config.timeouts.client_handshake,
    }
}

/// What the engine itself bounds: requests of a connection, and all of HTTP/2.
pub(super) fn with_limits(mut proxy: HttpProxy<Gate>, config: &Config) -> HttpProxy<Gate> {
    let limits = &config.limits;
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let mut options = HttpServerOptions::default();
    // The engine counts how often a connection is used again.
    options.keepalive_request_limit = Some(count(limits.requests_per_connection.saturating_sub(1)));
    options.h2_idle_timeout = Some(config.timeouts.keepalive);
    proxy.server_options = Some(options);
    let mut h2 = H2Options::default();
    h2.max_header_list_size(count(limits.head_bytes))
        .max_concurrent_streams(count(limits.streams_per_connection))
        .max_concurrent_reset_streams(RESET_STREAMS)
        .max_pending_accept_reset_streams(RESET_STREAMS)
        .max_local_error_reset_streams(Some(ERROR_STREAMS))
        .max_send_buffer_size(SEND_BUFFER_BYTES);
    proxy.h2_options = Some(h2);
    proxy
}
