//! How long anything may take.

use super::{Absent, Kind, Setting, millis};

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
    Setting {
        name: "notice_secs",
        kind: Kind::Seconds { least: 0, most: 600, slot: |w| &mut w.notice },
        absent: Absent::Means("0"),
        doc: "How long a shutdown is announced: `/readyz` fails, and all is served still. Give a load balancer that sends\n\
              callers here the time that it takes to notice.",
    },
    millis(
        "grace_ms",
        "95_000",
        |w| &mut w.grace,
        "How long a shutdown waits for what runs. At least as long as one write may take, by the timeouts above and 20\n\
         seconds for the books, so that no payment is cut off. Give whoever stops the gate some seconds more.",
    ),
];
