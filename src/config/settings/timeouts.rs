//! How long anything may take.

use super::{Setting, millis};

pub(super) const SETTINGS: &[Setting] = &[
    millis("head_ms", "10_000", |w| &mut w.head, "For the whole head of a request."),
    millis("body_ms", "10_000", |w| &mut w.body, "For the whole body of a request."),
    millis("drain_ms", "2_000", |w| &mut w.drain, "For what a caller still sends after a refusal."),
    millis("client_handshake_ms", "10_000", |w| &mut w.client_handshake, "For the TLS handshake with a caller."),
    millis("connect_ms", "3_000", |w| &mut w.connect, "To reach upstream."),
    millis("tls_handshake_ms", "3_000", |w| &mut w.tls_handshake, "For the TLS handshake with upstream."),
    millis("write_ms", "10_000", |w| &mut w.write, "For one write to upstream."),
    millis(
        "answer_ms",
        "30_000",
        |w| &mut w.answer,
        "From the last byte sent to the whole answer of a write; to each piece of the answer to a read. What a write\n\
         has done is unknown after it.",
    ),
    millis(
        "client_write_ms",
        "20_000",
        |w| &mut w.client_write,
        "For a caller to take the next 64 KiB of its answer, or the rest; over HTTP/2, for each write.",
    ),
    millis("keepalive_ms", "60_000", |w| &mut w.keepalive, "How long a caller's connection may be idle."),
    millis(
        "upstream_idle_ms",
        "60_000",
        |w| &mut w.upstream_idle,
        "How long a connection to upstream may be idle, below upstream's own limit; one that is to carry a write, a second\n\
         at most.",
    ),
    millis(
        "grace_ms",
        "45_000",
        |w| &mut w.grace,
        "How long a shutdown waits for what runs. Longer than `answer_ms`, so that no payment is cut off.",
    ),
];
