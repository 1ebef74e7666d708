//! Settings of timeouts.

use super::{Absent, Setting, SettingKind, millis};

pub(super) const SETTINGS: &[Setting] = &[
    millis("head_ms", "10_000", |w| &mut w.head, "For the whole head of a request."),
    millis("body_ms", "10_000", |w| &mut w.body, "For the whole body of a request."),
    millis("drain_ms", "2_000", |w| &mut w.drain, "For the rest of a request after its refusal."),
    millis("client_handshake_ms", "10_000", |w| &mut w.client_handshake, "For the TLS handshake with a caller."),
    millis(
        "commit_ms",
        "10_000",
        |w| &mut w.commit,
        "For the store and the audit log, from the commit of a write to its first byte. After it, and the time to reach\n\
         upstream, nothing is sent.",
    ),
    millis("connect_ms", "3_000", |w| &mut w.connect, "For connecting to upstream."),
    millis("tls_handshake_ms", "3_000", |w| &mut w.tls_handshake, "For the TLS handshake with upstream."),
    millis("write_ms", "10_000", |w| &mut w.write, "For one write to upstream."),
    millis(
        "answer_ms",
        "30_000",
        |w| &mut w.answer,
        "From the last byte sent to the whole answer. After it, the outcome of a write is unknown; the gate goes on\n\
         listening for a late answer until `upstream_max_ms` is over, too.",
    ),
    millis(
        "upstream_max_ms",
        "120_000",
        |w| &mut w.upstream_max,
        "The longest that upstream may take to act on a request once its last byte has arrived: an assumption about\n\
         upstream, on which \"nothing was executed\" rests. Most servers and proxies give a request up after 30 to 60\n\
         seconds; the default is twice that. At least `answer_ms`.",
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
        "How long a connection to upstream may be idle, below upstream's own limit. Only reads use a connection\n\
         again; one that is opened ahead for a write is kept for 10 seconds at most.",
    ),
    Setting {
        name: "notice_secs",
        kind: SettingKind::Seconds { least: 0, most: 600, slot: |w| &mut w.notice },
        absent: Absent::Means("0"),
        doc: "How long a shutdown is announced: `/readyz` fails, but all requests are still served. Give a load\n\
              balancer the time that it needs to notice.",
    },
    millis(
        "grace_ms",
        "95_000",
        |w| &mut w.grace,
        "How long a shutdown waits for open requests. At least as long as one write may take, by the timeouts above\n\
         plus 10 seconds, so that no payment is cut off. The supervisor of the\n\
         gate must allow a few seconds more.",
    ),
];
