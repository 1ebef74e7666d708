//! Turns settings into the limits of callers, connections and the engine.

use std::num::NonZeroUsize;
use std::sync::Arc;

use pingora::apps::HttpServerOptions;
use pingora::protocols::http::v2::server::H2Options;
use pingora::proxy::HttpProxy;

use crate::config::Config;
use crate::edge::buffered::BufferedBytes;
use crate::edge::guard::{Bounds, Guard, HeadLimits, STREAM_BUFFER_BYTES};
use crate::edge::listen::ConnectionLimits;
use crate::gateway::Gate;
use crate::telemetry::Metrics;

/// Per HTTP/2 connection: how many streams that the client reset are remembered.
const MAX_RESET_STREAMS: usize = 20;
/// Per HTTP/2 connection: how many streams may be reset for the client's errors before the connection is closed.
const MAX_ERROR_STREAMS: usize = 100;

/// Returns how many threads work.
pub(super) fn threads(config: &Config) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    if config.threads == 0 { cores() } else { config.threads }
}

pub(super) fn guard(listener: &'static str, config: &Config, metrics: &Metrics) -> Arc<Guard> {
    let (limits, timeouts) = (&config.limits, &config.timeouts);
    let bounds = Bounds {
        head: HeadLimits { bytes: limits.head_bytes, headers: limits.headers },
        head_time: timeouts.head,
        idle_time: timeouts.keepalive,
        // A caller that waits for its answer is silent, but not idle.
        silence_time: timeouts.keepalive.saturating_add(timeouts.answer),
        write_time: timeouts.client_write,
        linger_time: timeouts.drain,
        requests: u64::try_from(limits.requests_per_connection).unwrap_or(u64::MAX),
    };
    // The console and the probes have listeners, too.
    let listeners = config.environments.len().saturating_add(1).saturating_add(usize::from(config.console.is_some()));
    let buffered = BufferedBytes::new(listener, limits.buffered_bytes / listeners, metrics.clone());
    Arc::new(Guard { listener, bounds, metrics: metrics.clone(), buffered })
}

/// Returns the limits of a listener that may have so many connections.
pub(super) fn connection_limits(config: &Config, all: usize) -> ConnectionLimits {
    ConnectionLimits {
        all,
        of_one_peer: config.limits.connections_per_peer,
        handshake_time: config.timeouts.client_handshake,
    }
}

/// Sets the engine's own limits: requests per connection, and the limits of HTTP/2.
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
        .max_concurrent_reset_streams(MAX_RESET_STREAMS)
        .max_pending_accept_reset_streams(MAX_RESET_STREAMS)
        .max_local_error_reset_streams(Some(MAX_ERROR_STREAMS))
        .max_send_buffer_size(STREAM_BUFFER_BYTES);
    proxy.h2_options = Some(h2);
    proxy
}
