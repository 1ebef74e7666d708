//! How much is read of what others send.

use super::{Absent, Kind, Setting};

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "body_bytes",
        kind: Kind::Number { least: 1, most: 67_108_864, unit: "bytes", slot: |w| &mut w.body_bytes },
        absent: Absent::Means("1_048_576"),
        doc: "The longest request body; a longer one is refused with 413.",
    },
    Setting {
        name: "bodies_bytes",
        kind: Kind::Number { least: 1, most: 17_179_869_184, unit: "bytes", slot: |w| &mut w.bodies_bytes },
        absent: Absent::Means("67_108_864"),
        doc: "All request bodies that are held at one time; past it, writes are refused with 503 for a moment. At\n\
                      least `body_bytes`.",
    },
    Setting {
        name: "head_bytes",
        kind: Kind::Number { least: 1_024, most: 65_536, unit: "bytes", slot: |w| &mut w.head_bytes },
        absent: Absent::Means("16_384"),
        doc: "The longest head of a request, first line and headers; a longer one is refused with 431.",
    },
    Setting {
        name: "headers",
        kind: Kind::Number { least: 8, most: 200, unit: "headers", slot: |w| &mut w.headers },
        absent: Absent::Means("64"),
        doc: "The most headers of a request; more are refused with 431.",
    },
    Setting {
        name: "connections",
        kind: Kind::Number { least: 1, most: 1_000_000, unit: "connections", slot: |w| &mut w.connections },
        absent: Absent::Means("8_192"),
        doc: "Connections that a listener holds at one time; one more is closed at once. Each takes a descriptor.",
    },
    Setting {
        name: "connections_per_peer",
        kind: Kind::Number { least: 1, most: 1_000_000, unit: "connections", slot: |w| &mut w.connections_per_peer },
        absent: Absent::Means("4_096"),
        doc: "Of these, from one address. Where callers come through a proxy, they share its address.",
    },
    Setting {
        name: "requests_per_connection",
        kind: Kind::Number {
            least: 1,
            most: 4_000_000_000,
            unit: "requests",
            slot: |w| &mut w.requests_per_connection,
        },
        absent: Absent::Means("10_000"),
        doc: "After so many requests a connection is closed; a new one is cheap.",
    },
    Setting {
        name: "streams_per_connection",
        kind: Kind::Number { least: 1, most: 10_000, unit: "streams", slot: |w| &mut w.streams_per_connection },
        absent: Absent::Means("64"),
        doc: "Requests at one time on an HTTP/2 connection.",
    },
    Setting {
        name: "answer_bytes",
        kind: Kind::Number { least: 1_024, most: 1_073_741_824, unit: "bytes", slot: |w| &mut w.answer_bytes },
        absent: Absent::Means("4_194_304"),
        doc: "The most of an answer of upstream that is read whole, where it has to be. Reads that only pass are not\n\
                      bound by it.",
    },
];
