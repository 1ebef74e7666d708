//! Settings of the Redis that nodes share.

use super::{Absent, Setting, SettingKind, millis};

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "url",
        kind: SettingKind::RedisUrl(|w| &mut w.redis_url),
        absent: Absent::Nothing { example: r#"{ file = "redis.url" }"# },
        doc: "The address: `rediss://user:password@host:6379/0`, or `redis://` without TLS. A secret.",
    },
    Setting {
        name: "sentinels",
        kind: SettingKind::Hosts(|w| &mut w.redis_sentinels),
        absent: Absent::Nothing {
            example: r#"["sentinel-1.example.com:26379", "sentinel-2.example.com:26379", "sentinel-3.example.com:26379"]"#,
        },
        doc: "Instead of `url`: the Sentinels that name the current primary; list all of them.",
    },
    Setting {
        name: "master",
        kind: SettingKind::Text(|w| &mut w.redis_master),
        absent: Absent::Nothing { example: r#""sluice""# },
        doc: "The name of the Redis at the `sentinels`.",
    },
    Setting {
        name: "cluster",
        kind: SettingKind::ClusterHosts(|w| &mut w.redis_cluster),
        absent: Absent::Nothing {
            example: r#"["redis-1.example.com:6379", "redis-2.example.com:6379", "redis-3.example.com:6379"]"#,
        },
        doc: "Instead of `url`: nodes of a Redis Cluster; those that are running name the others. The keys of one\n\
              environment lie on one shard.",
    },
    Setting {
        name: "user",
        kind: SettingKind::Text(|w| &mut w.redis_user),
        absent: Absent::Nothing { example: r#""sluice""# },
        doc: "With `sentinels` or `cluster`: the user of the Redis itself.",
    },
    Setting {
        name: "password",
        kind: SettingKind::Secret(|w| &mut w.redis_password),
        absent: Absent::Nothing { example: r#"{ file = "redis.password" }"# },
        doc: "With `sentinels` or `cluster`: the password for the Redis itself.",
    },
    Setting {
        name: "sentinel_user",
        kind: SettingKind::Text(|w| &mut w.sentinel_user),
        absent: Absent::Nothing { example: r#""sluice""# },
        doc: "The user of the `sentinels`.",
    },
    Setting {
        name: "sentinel_password",
        kind: SettingKind::Secret(|w| &mut w.sentinel_password),
        absent: Absent::Nothing { example: r#"{ file = "sentinel.password" }"# },
        doc: "The password for the `sentinels`.",
    },
    Setting {
        name: "tls",
        kind: SettingKind::Truth(|w| &mut w.redis_tls),
        absent: Absent::Means("true"),
        doc: "With `sentinels` or `cluster`: whether they and the Redis are reached by TLS.",
    },
    Setting {
        name: "ca",
        kind: SettingKind::Certificates(|w| &mut w.redis_ca),
        absent: Absent::Nothing { example: r#""tls/redis-ca.pem""# },
        doc: "The authorities of its certificate, and of those of its Sentinels, as a PEM file, instead of the\n\
              system's.",
    },
    millis(
        "timeout_ms",
        "500",
        |w| &mut w.redis_timeout,
        "How long a call waits for an answer of the Redis. Money and changes whose answer is later get 503; once two\n\
         checks in a row are late as well, no call waits until the Redis answers again.",
    ),
    Setting {
        name: "nodes",
        kind: SettingKind::Number { least: 1, most: 1_000, unit: "nodes", slot: |w| &mut w.redis_nodes },
        absent: Absent::Means("2"),
        doc: "How many nodes share the Redis. While it is away, each allows its part of a shared rate.",
    },
    Setting {
        name: "durability",
        kind: SettingKind::Durability(|w| &mut w.redis_durability),
        absent: Absent::Means(r#""acknowledged""#),
        doc: "For the store: how durable a write must be before money leaves. `acknowledged` by the Redis;\n\
              `replicated` to `replicas` of its replicas; `fsynced` to its disk, which needs Redis 7.2 or newer.",
    },
    Setting {
        name: "replicas",
        kind: SettingKind::Number { least: 1, most: 16, unit: "replicas", slot: |w| &mut w.redis_replicas },
        absent: Absent::Means("1"),
        doc: "How many replicas must confirm a write that is `replicated`.",
    },
    Setting {
        name: "allow_unsafe",
        kind: SettingKind::Truth(|w| &mut w.redis_allow_unsafe),
        absent: Absent::Means("false"),
        doc: "For the store of production: accepts a Redis that may evict records, or keeps nothing on disk. A\n\
              payment that it loses may be paid twice.",
    },
    Setting {
        name: "trusted",
        kind: SettingKind::TrustedTraits(|w| &mut w.redis_trusted),
        absent: Absent::Means("[]"),
        doc: "For a store in a managed Redis that does not report everything: what is trusted instead. `persistence`:\n\
              it keeps every write that it acknowledged, also through a failover. `eviction`: it evicts no record.\n\
              `run`: a restart or failover that its `INFO` does not show loses nothing.",
    },
    millis(
        "fence_ms",
        "5000",
        |w| &mut w.redis_fence,
        "With `sentinels` or `cluster`: for how long a majority of the Sentinels, or of the primaries of the cluster,\n\
         must have named the primary of a gate before the gate pays, also at its start. It pays only while they named it\n\
         within half of this time. The longest of all gates counts.",
    ),
    Setting {
        name: "allow_split",
        kind: SettingKind::Truth(|w| &mut w.redis_allow_split),
        absent: Absent::Means("false"),
        doc: "For the store of production: accepts an address that can lead to another Redis without a fence (a host\n\
              name, a managed service), and a failover that loses writes (`durability` is not `replicated`). Two Redis\n\
              may then carry money at a time, and a payment may be made twice.",
    },
];
