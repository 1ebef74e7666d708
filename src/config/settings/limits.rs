//! Limits on the size and number of requests and answers.

use super::{Absent, Setting, SettingKind};

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "body_bytes",
        kind: SettingKind::Number { least: 1, most: 67_108_864, unit: "bytes", slot: |w| &mut w.body_bytes },
        absent: Absent::Means("1_048_576"),
        doc: "The maximum size of a request body; a larger one is refused with 413, and one of more than 16,384 JSON values\n\
              with 400.",
    },
    Setting {
        name: "bodies_bytes",
        kind: SettingKind::Number { least: 1, most: 17_179_869_184, unit: "bytes", slot: |w| &mut w.bodies_bytes },
        absent: Absent::Means("67_108_864"),
        doc: "The maximum size of all request bodies in memory, read and unread. Each environment has an equal part, in\n\
              which a caller may take as much as stays free for the others; beyond it, writes of this caller are\n\
              refused with 503 for a moment. At least twice `body_bytes` for each environment.",
    },
    Setting {
        name: "holds",
        kind: SettingKind::Number { least: 2, most: 1_000_000, unit: "holds", slot: |w| &mut w.holds },
        absent: Absent::Means("4_096"),
        doc: "The maximum number of calls of an environment that wait for approval, over all gates. A caller may have as\n\
              many as stay free for the others, alone half of them; beyond it, its calls that would be held are refused\n\
              with 429. The same on all gates.",
    },
    Setting {
        name: "holds_bytes",
        kind: SettingKind::Number { least: 65_536, most: 17_179_869_184, unit: "bytes", slot: |w| &mut w.holds_bytes },
        absent: Absent::Means("67_108_864"),
        doc: "The maximum size of all calls of an environment that wait for approval, shared as `holds`. The store needs\n\
              several times this on disk. At least four times `body_bytes`. Calls that were held within an hour count, too,\n\
              at this gate, also once they ended, up to twice this: what they leave in the audit log stays there.",
    },
    Setting {
        name: "calls",
        kind: SettingKind::Number { least: 2, most: 1_000_000, unit: "calls", slot: |w| &mut w.calls },
        absent: Absent::Means("1_024"),
        doc: "The maximum number of calls of an environment in progress at this gate. A caller may have as many as stay\n\
              free for the others, alone half of them; further ones are refused with 503 for a moment. As many late answers,\n\
              and at least 1,024, are waited for, shared alike; beyond a share, the outcome stays unknown.",
    },
    Setting {
        name: "refusals",
        kind: SettingKind::Number { least: 2, most: 1_000_000_000, unit: "entries", slot: |w| &mut w.refusals },
        absent: Absent::Means("65_536"),
        doc: "The maximum number of audit entries about refused calls of an environment within an hour, at this gate. A\n\
              caller may have as many as stay free for the others, alone half of them; beyond it, calls that the rules\n\
              would refuse are answered with 429 and leave no entry.",
    },
    Setting {
        name: "buffered_bytes",
        kind: SettingKind::Number {
            least: 65_536,
            most: 17_179_869_184,
            unit: "bytes",
            slot: |w| &mut w.buffered_bytes,
        },
        absent: Absent::Means("67_108_864"),
        doc: "The maximum memory for callers without a place among the calls: handshakes of TLS, heads that arrive in\n\
              parts, requests whose callers are not known yet, answers that are not taken, and HTTP/2 connections,\n\
              48 KiB each. Each listener has an equal part. Where it is full, the address that holds the most of it loses\n\
              the connection that has stood still for the longest time. At least `answer_bytes` for each listener.",
    },
    Setting {
        name: "head_bytes",
        kind: SettingKind::Number { least: 1_024, most: 65_536, unit: "bytes", slot: |w| &mut w.head_bytes },
        absent: Absent::Means("16_384"),
        doc: "The maximum size of a request head, first line and headers; a larger one is refused with 431.",
    },
    Setting {
        name: "headers",
        kind: SettingKind::Number { least: 8, most: 200, unit: "headers", slot: |w| &mut w.headers },
        absent: Absent::Means("64"),
        doc: "The maximum number of headers in a request; more are refused with 431.",
    },
    Setting {
        name: "connections",
        kind: SettingKind::Number { least: 2, most: 1_000_000, unit: "connections", slot: |w| &mut w.connections },
        absent: Absent::Means("4_096"),
        doc: "The maximum number of open connections of a listener. An address may have as many as stay free for the\n\
              others, alone half of them, beside a second one a third; further ones are closed at once. Callers behind\n\
              a proxy share its address. Each needs a file descriptor, and 5 KB while it is idle, 17 KB over TLS. The console\n\
              and the probes have 512 at most.",
    },
    Setting {
        name: "connections_per_peer",
        kind: SettingKind::Number {
            least: 1,
            most: 1_000_000,
            unit: "connections",
            slot: |w| &mut w.connections_per_peer,
        },
        absent: Absent::Means("2_048"),
        doc: "The maximum number of them from one address, if that is less.",
    },
    Setting {
        name: "requests_per_connection",
        kind: SettingKind::Number {
            least: 1,
            most: 4_000_000_000,
            unit: "requests",
            slot: |w| &mut w.requests_per_connection,
        },
        absent: Absent::Means("10_000"),
        doc: "The number of requests after which a connection is closed; a new one is cheap.",
    },
    Setting {
        name: "streams_per_connection",
        kind: SettingKind::Number { least: 1, most: 10_000, unit: "streams", slot: |w| &mut w.streams_per_connection },
        absent: Absent::Means("64"),
        doc: "The maximum number of concurrent requests on an HTTP/2 connection.",
    },
    Setting {
        name: "answer_bytes",
        kind: SettingKind::Number { least: 1_024, most: 1_073_741_824, unit: "bytes", slot: |w| &mut w.answer_bytes },
        absent: Absent::Means("4_194_304"),
        doc: "The maximum size of an upstream answer that must be read whole. Reads that are passed through are not\n\
              limited.",
    },
    Setting {
        name: "answers_bytes",
        kind: SettingKind::Number { least: 1_024, most: 17_179_869_184, unit: "bytes", slot: |w| &mut w.answers_bytes },
        absent: Absent::Means("33_554_432"),
        doc: "The maximum memory for answers to writes while they are read. Each environment has an equal part, and in\n\
              it every caller a share: a caller alone gets half, and what one caller holds leaves room for the next. An\n\
              answer of up to 16 KiB needs none; a longer one waits for room within `timeouts.answer_ms`. At least four\n\
              times `answer_bytes`, and 256 KiB, for each environment.",
    },
];
