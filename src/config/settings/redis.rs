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
        name: "sentinels",
        kind: Kind::Hosts(|w| &mut w.redis_sentinels),
        absent: Absent::Nothing {
            example: r#"["sentinel-1.example.com:26379", "sentinel-2.example.com:26379", "sentinel-3.example.com:26379"]"#,
        },
        doc: "Instead of `url`: the Sentinels that say where it is, now and after a failover; as many as there are.",
    },
    Setting {
        name: "master",
        kind: Kind::Text(|w| &mut w.redis_master),
        absent: Absent::Nothing { example: r#""sluice""# },
        doc: "What the `sentinels` call it.",
    },
    Setting {
        name: "user",
        kind: Kind::Text(|w| &mut w.redis_user),
        absent: Absent::Nothing { example: r#""sluice""# },
        doc: "With `sentinels`: the user of the Redis itself.",
    },
    Setting {
        name: "password",
        kind: Kind::Secret(|w| &mut w.redis_password),
        absent: Absent::Nothing { example: r#"{ file = "redis.password" }"# },
        doc: "With `sentinels`: the password for the Redis itself.",
    },
    Setting {
        name: "sentinel_user",
        kind: Kind::Text(|w| &mut w.sentinel_user),
        absent: Absent::Nothing { example: r#""sluice""# },
        doc: "The user of the `sentinels`.",
    },
    Setting {
        name: "sentinel_password",
        kind: Kind::Secret(|w| &mut w.sentinel_password),
        absent: Absent::Nothing { example: r#"{ file = "sentinel.password" }"# },
        doc: "The password for the `sentinels`.",
    },
    Setting {
        name: "tls",
        kind: Kind::Truth(|w| &mut w.redis_tls),
        absent: Absent::Means("true"),
        doc: "With `sentinels`: whether they, and the Redis that they name, are reached by TLS.",
    },
    Setting {
        name: "ca",
        kind: Kind::Certificates(|w| &mut w.redis_ca),
        absent: Absent::Nothing { example: r#""tls/redis-ca.pem""# },
        doc: "The authorities that its certificate, and those of its Sentinels, may come from, as a PEM file, instead of the\n\
              system's.",
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
    Setting {
        name: "durability",
        kind: Kind::Durability(|w| &mut w.redis_durability),
        absent: Absent::Means(r#""acknowledged""#),
        doc: "As the store: how sure a write must be before money leaves. `acknowledged` by the Redis; `replicated` to\n\
              `replicas` of its replicas; `fsynced` to its disk, which needs Redis 7.2 or newer.",
    },
    Setting {
        name: "replicas",
        kind: Kind::Number { least: 1, most: 16, unit: "replicas", slot: |w| &mut w.redis_replicas },
        absent: Absent::Means("1"),
        doc: "How many replicas must have what is `replicated`.",
    },
    Setting {
        name: "allow_unsafe",
        kind: Kind::Truth(|w| &mut w.redis_allow_unsafe),
        absent: Absent::Means("false"),
        doc: "As the store of production: takes a Redis that may evict what it keeps, or that keeps nothing on disk. What\n\
              it forgets may be paid twice.",
    },
];
