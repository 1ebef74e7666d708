//! Settings of what is kept: the store, the audit chain, and what is done about calls in doubt.

use super::{Absent, Kind, Setting, millis};

pub(super) const STORE: &[Setting] = &[
    Setting {
        name: "kind",
        kind: Kind::Store(|w| &mut w.store_kind),
        absent: Absent::Means(r#""embedded""#),
        doc: "`embedded` is for one gate: a file in `folder`. `redis` is for many: in the Redis of `[redis]`, where each\n\
              has a `node` of its own.",
    },
    Setting {
        name: "folder",
        kind: Kind::KeptFolder(|w| &mut w.store_folder),
        absent: Absent::Means(r#""sluice-data""#),
        doc: "The folder of the embedded store; it is made if it is not there. Without it nobody knows what was paid:\n\
              keep it on a disk that lasts, and never start with an empty one in its place. Of any store, outcomes wait\n\
              here that it could not be told.",
    },
    Setting {
        name: "wait_secs",
        kind: Kind::Seconds { least: 0, most: 3_600, slot: |w| &mut w.store_wait },
        absent: Absent::Means("120"),
        doc: "How long a start waits for an embedded store that another process has: the one before it, which is ending.\n\
              Connections wait meanwhile.",
    },
    Setting {
        name: "node",
        kind: Kind::Node(|w| &mut w.node),
        absent: Absent::Means(r#""gate""#),
        doc: "The name of this gate among those that share a store; it stands in the audit chain and in its files.",
    },
    Setting {
        name: "answers_days",
        kind: Kind::Number { least: 1, most: 3_650, unit: "days", slot: |w| &mut w.answers_days },
        absent: Absent::Means("35"),
        doc: "How long the answer to a requestId is kept, to be given again.",
    },
    Setting {
        name: "spent_days",
        kind: Kind::Number { least: 35, most: 3_650, unit: "days", slot: |w| &mut w.spent_days },
        absent: Absent::Means("400"),
        doc: "How long after that it is kept that the requestId was used. Then it could be paid again.",
    },
    Setting {
        name: "seal_key",
        kind: Kind::Secret(|w| &mut w.seal_key),
        absent: Absent::Nothing { example: r#"{ file = "seal.key" }"# },
        doc: "What is stored of requests and answers, personal and bank data with it, is encrypted with this key: 32 random\n\
              bytes, as base64 or as 64 hexadecimal digits. Without a key it is not encrypted.",
    },
    Setting {
        name: "seal_key_id",
        kind: Kind::Text(|w| &mut w.seal_key_id),
        absent: Absent::Means(r#""1""#),
        doc: "The name of that key; a new key has a new name.",
    },
    Setting {
        name: "former_seal_key",
        kind: Kind::Secret(|w| &mut w.former_seal_key),
        absent: Absent::Nothing { example: r#"{ file = "seal-before.key" }"# },
        doc: "The key before, as long as something is stored that it encrypts.",
    },
    Setting {
        name: "former_seal_key_id",
        kind: Kind::Text(|w| &mut w.former_seal_key_id),
        absent: Absent::Means(r#""0""#),
        doc: "The name of the key before.",
    },
];

pub(super) const AUDIT: &[Setting] = &[
    Setting {
        name: "folder",
        kind: Kind::KeptFolder(|w| &mut w.audit_folder),
        absent: Absent::Means(r#""sluice-audit""#),
        doc: "The folder of this node's audit chain; it is made if it is not there. No money moves while it cannot be\n\
              written.",
    },
    Setting {
        name: "file_bytes",
        kind: Kind::Number { least: 4_096, most: 1_099_511_627_776, unit: "bytes", slot: |w| &mut w.audit_file_bytes },
        absent: Absent::Means("104_857_600"),
        doc: "A file ends before it is longer, and with each day (UTC).",
    },
    Setting {
        name: "checkpoint_key",
        kind: Kind::Secret(|w| &mut w.checkpoint_key),
        absent: Absent::Nothing { example: r#"{ file = "checkpoint.pem" }"# },
        doc: "Ed25519, as `sluice audit key` makes it. With it the state of the chain is signed now and then, beside the\n\
              files and in the log, so that who keeps those lines can tell when entries were cut off or written anew.",
    },
    Setting {
        name: "operand_key",
        kind: Kind::Secret(|w| &mut w.operand_key),
        absent: Absent::Nothing { example: r#"{ file = "operand.key" }"# },
        doc: "Users, wallets and accounts stand in the chain as names under this key, at least 16 characters, so that\n\
              `sluice policy replay` knows them again and nobody else does. The same for all nodes that are replayed\n\
              together. Without it each node makes a random one, and keeps it in `folder`.",
    },
];

pub(super) const RECONCILE: &[Setting] = &[
    millis(
        "first_look_ms",
        "15_000",
        |w| &mut w.first_look,
        "From an unknown outcome to the first look for its record.",
    ),
    millis("pause_ms", "15_000", |w| &mut w.pause, "From that to the next look; then ever twice as long."),
    millis("longest_pause_ms", "3_600_000", |w| &mut w.longest_pause, "The longest time between two looks."),
];
