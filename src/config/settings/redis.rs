//! The settings of the Redis that nodes share.

use super::{Absent, Kind, Setting, millis};

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "url",
        kind: Kind::RedisUrl(|w| &mut w.redis_url),
        absent: Absent::Nothing { example: r#"{ file = "redis.url" }"# },
        doc: "Where it is: `rediss://user:password@host:6379/0`, or `redis://` without TLS. A secret.",
    },
    Setting {
        name: "ca",
        kind: Kind::Certificates(|w| &mut w.redis_ca),
        absent: Absent::Nothing { example: r#""tls/redis-ca.pem""# },
        doc: "The authorities that its certificate may come from, as a PEM file, instead of the system's.",
    },
    millis(
        "timeout_ms",
        "100",
        |w| &mut w.redis_timeout,
        "How long a call waits for it. After one that waited in vain, none waits until it answers again.",
    ),
    Setting {
        name: "nodes",
        kind: Kind::Number { least: 1, most: 1_000, unit: "nodes", slot: |w| &mut w.redis_nodes },
        absent: Absent::Means("2"),
        doc: "How many nodes share it. While it is away, each allows its part of a shared rate.",
    },
];
