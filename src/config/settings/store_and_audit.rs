//! Settings of the store, the audit log, the reconciliation of unknown outcomes, and the following of payments.

use super::{Absent, Setting, SettingKind, millis};

pub(super) const STORE: &[Setting] = &[
    Setting {
        name: "kind",
        kind: SettingKind::Store(|w| &mut w.store_kind),
        absent: Absent::Means(r#""embedded""#),
        doc: "`embedded` is for one gate: a file in `folder`. `redis` is for many gates: in the Redis of `[redis]`,\n\
              and each gate needs its own `node`.",
    },
    Setting {
        name: "folder",
        kind: SettingKind::KeptFolder(|w| &mut w.store_folder),
        absent: Absent::Means(r#""sluice-data""#),
        doc: "The folder of the embedded store; created if it does not exist. Without it, nobody knows which\n\
              payments were made: keep it on a durable disk, and never start with an empty one in its place. With\n\
              any store, the folder also keeps outcomes that could not be written to the store yet.",
    },
    Setting {
        name: "wait_secs",
        kind: SettingKind::Seconds { least: 0, most: 3_600, slot: |w| &mut w.store_wait },
        absent: Absent::Means("120"),
        doc: "How long a start waits while the previous process still has the embedded store open. Connections wait\n\
              meanwhile.",
    },
    Setting {
        name: "node",
        kind: SettingKind::Node(|w| &mut w.node),
        absent: Absent::Means(r#""gate""#),
        doc: "The unique name of this gate among those that share a store; the audit chain and its files contain\n\
              it.",
    },
    Setting {
        name: "installation",
        kind: SettingKind::Text(|w| &mut w.installation),
        absent: Absent::Nothing { example: r#""0123456789abcdef0123456789abcdef""# },
        doc: "The id of the installation, which `sluice store create` shows once. A gate uses no production store with\n\
              another id.",
    },
    Setting {
        name: "all_nodes",
        kind: SettingKind::Texts(|w| &mut w.all_nodes),
        absent: Absent::Nothing { example: r#"["gate", "gate-2"]"# },
        doc: "The names of all gates that share a Redis. If the Redis lost its memory while no gate ran, or all\n\
              gates crashed, money opens by itself only when all of them have come; without the list, after a loss a\n\
              person opens it, and after a crash the gates count that the Redis knows.",
    },
    Setting {
        name: "journal_copies",
        kind: SettingKind::Number { least: 1, most: 16, unit: "gates", slot: |w| &mut w.journal_copies },
        absent: Absent::Means("1"),
        doc: "How many running gates must have an audit entry on disk before the Redis drops it, and how many others must\n\
              have all entries of a gate that ends in order. Entries always wait for every running gate. With 2, one\n\
              disk of a fleet may be lost at any time.",
    },
    Setting {
        name: "answers_days",
        kind: SettingKind::Number { least: 1, most: 3_650, unit: "days", slot: |w| &mut w.answers_days },
        absent: Absent::Means("35"),
        doc: "How long the answer to a requestId is kept and repeated.",
    },
    Setting {
        name: "spent_days",
        kind: SettingKind::Number { least: 35, most: 3_650, unit: "days", slot: |w| &mut w.spent_days },
        absent: Absent::Means("400"),
        doc: "How long after that a used requestId is remembered. After that, the requestId could be paid again.",
    },
    Setting {
        name: "seal_key",
        kind: SettingKind::Secret(|w| &mut w.seal_key),
        absent: Absent::Nothing { example: r#"{ file = "seal.key" }"# },
        doc: "The key that encrypts stored requests and answers, with their personal and bank data: 32 random\n\
              bytes, as base64 or as 64 hexadecimal digits. Production demands it, unless its `upstream` is on this\n\
              machine. With a key, records in plain text are refused.",
    },
    Setting {
        name: "allow_plain",
        kind: SettingKind::Truth(|w| &mut w.allow_plain),
        absent: Absent::Means("false"),
        doc: "Without `seal_key`: stores production unencrypted. With it: takes records in plain text, to take over a\n\
              store from before the key; remove it when that is done, because whoever writes the store can plant records.",
    },
    Setting {
        name: "seal_key_id",
        kind: SettingKind::Text(|w| &mut w.seal_key_id),
        absent: Absent::Means(r#""1""#),
        doc: "The name of that key; a new key needs a new name.",
    },
    Setting {
        name: "former_seal_key",
        kind: SettingKind::Secret(|w| &mut w.former_seal_key),
        absent: Absent::Nothing { example: r#"{ file = "seal-before.key" }"# },
        doc: "The former key, as long as stored records are encrypted with it.",
    },
    Setting {
        name: "former_seal_key_id",
        kind: SettingKind::Text(|w| &mut w.former_seal_key_id),
        absent: Absent::Means(r#""0""#),
        doc: "The name of the former key.",
    },
];

pub(super) const AUDIT: &[Setting] = &[
    Setting {
        name: "folder",
        kind: SettingKind::KeptFolder(|w| &mut w.audit_folder),
        absent: Absent::Means(r#""sluice-audit""#),
        doc: "The folder of this node's audit chain; it is made if it is not there. No money moves while it cannot be\n\
              written.",
    },
    Setting {
        name: "file_bytes",
        kind: SettingKind::Number {
            least: 4_096,
            most: 1_099_511_627_776,
            unit: "bytes",
            slot: |w| &mut w.audit_file_bytes,
        },
        absent: Absent::Means("104_857_600"),
        doc: "The maximum size of an audit file; a new file also begins with each day (UTC).",
    },
    Setting {
        name: "production_bytes",
        kind: SettingKind::Number {
            least: 0,
            most: 1_099_511_627_776,
            unit: "bytes",
            slot: |w| &mut w.production_bytes,
        },
        absent: Absent::Means("268_435_456"),
        doc: "The free space that is kept for production on the disks of `audit.folder` and `store.folder`. Where less is\n\
              free, writes of sandbox are refused with 503. Without effect where one environment alone is served.",
    },
    Setting {
        name: "checkpoint_key",
        kind: SettingKind::Secret(|w| &mut w.checkpoint_key),
        absent: Absent::Nothing { example: r#"{ file = "checkpoint.pem" }"# },
        doc: "An Ed25519 key from `sluice audit key`. It signs the state of the chain regularly, in a file beside\n\
              the audit files and in the log, so that anyone who keeps those lines can detect removed or rewritten\n\
              entries.",
    },
    Setting {
        name: "checkpoint_seconds",
        kind: SettingKind::Seconds { least: 1, most: 3_600, slot: |w| &mut w.checkpoint_seconds },
        absent: Absent::Means("60"),
        doc: "The longest time from an entry to the checkpoint that covers it; after 1,000 entries one is made at once.",
    },
    Setting {
        name: "witnesses_needed",
        kind: SettingKind::Number { least: 1, most: 16, unit: "witnesses", slot: |w| &mut w.witnesses_needed },
        absent: Absent::Nothing { example: "1" },
        doc: "How many of the witnesses must sign a checkpoint; without this setting, all of them.",
    },
    Setting {
        name: "unwitnessed_seconds",
        kind: SettingKind::Seconds { least: 1, most: 86_400, slot: |w| &mut w.unwitnessed_within },
        absent: Absent::Means("900"),
        doc: "How long lines of the journal may wait for enough witnesses, from when they were written: at least a minute more\n\
              than `checkpoint_seconds`.",
    },
    Setting {
        name: "unwitnessed",
        kind: SettingKind::Unwitnessed(|w| &mut w.unwitnessed),
        absent: Absent::Means(r#""alert""#),
        doc: "What happens then: `alert` logs an error; `close` also closes this gate's money until enough witnesses sign.",
    },
    Setting {
        name: "operand_key",
        kind: SettingKind::Secret(|w| &mut w.operand_key),
        absent: Absent::Nothing { example: r#"{ file = "operand.key" }"# },
        doc: "Users, wallets and accounts are written to the chain as digests under this key, at least 16\n\
              characters, so that `sluice policy replay` can compare them and nobody else can read them. All nodes\n\
              that are replayed together need the same key. Without it, each node creates a random one and keeps it\n\
              in `store.folder`, away from the audit files.",
    },
];

pub(super) const RECONCILE: &[Setting] = &[
    millis(
        "first_look_ms",
        "15_000",
        |w| &mut w.first_look,
        "The time from an unknown outcome to the first query for its record.",
    ),
    millis(
        "pause_ms",
        "15_000",
        |w| &mut w.pause,
        "The pause between the first two queries; it doubles from then\n\
                                                    on.",
    ),
    millis("longest_pause_ms", "3_600_000", |w| &mut w.longest_pause, "The longest pause between two queries."),
];

pub(super) const FOLLOW: &[Setting] = &[
    Setting {
        name: "enabled",
        kind: SettingKind::Truth(|w| &mut w.follow_enabled),
        absent: Absent::Means("true"),
        doc: "Whether payments are followed to their end. Without it, limits count payments that never happened, and nobody\n\
              sees a payment that came back or was made past the gate.",
    },
    millis(
        "interval_ms",
        "60_000",
        |w| &mut w.follow_interval,
        "The pause between two readings of upstream's list. One gate at a time reads; another goes on if it was silent\n\
         for three of them.",
    ),
    millis(
        "longest_pause_ms",
        "900_000",
        |w| &mut w.follow_longest_pause,
        "The longest pause while readings fail; the pause doubles with each failure.",
    ),
    Setting {
        name: "overlap_secs",
        kind: SettingKind::Seconds { least: 1, most: 86_400, slot: |w| &mut w.follow_overlap },
        absent: Absent::Means("3_600"),
        doc: "How far each reading goes back behind the latest payment of the one before, for payments that upstream\n\
              lists late.",
    },
    Setting {
        name: "pages",
        kind: SettingKind::Number { least: 2, most: 1_000, unit: "pages", slot: |w| &mut w.follow_pages },
        absent: Absent::Means("10"),
        doc: "The most pages of one reading, with 100 payments each. What is left goes on with older payments, whose\n\
              states change late.",
    },
    Setting {
        name: "days",
        kind: SettingKind::Number { least: 1, most: 365, unit: "days", slot: |w| &mut w.follow_days },
        absent: Absent::Means("60"),
        doc: "How old a payment may be whose state is still read.",
    },
];
