//! Settings of what is kept: the store and the audit chain.

use super::{Absent, Kind, Setting};

pub(super) const STORE: &[Setting] = &[
    Setting {
        name: "folder",
        kind: Kind::KeptFolder(|w| &mut w.store_folder),
        absent: Absent::Means(r#""sluice-data""#),
        doc: "The folder of the embedded store; it is made if it is not there. Without it nobody knows what was paid:\n\
              keep it on a disk that lasts, and never start with an empty one in its place.",
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
        doc: "From this size on, and at the end of each day, a new file is begun.",
    },
];
