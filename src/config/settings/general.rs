//! The settings that stand above all headings.

use super::{Absent, Kind, Setting};

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "answers",
        kind: Kind::Answers(|w| &mut w.answers),
        absent: Absent::Means(r#""observe""#),
        doc: "What becomes of an answer of upstream that breaks the contract: `observe` lets it pass, counts and\n\
              logs it; `enforce` holds the answers of reads back until they are checked, and refuses such a one.",
    },
    Setting {
        name: "policies",
        kind: Kind::Folder(|w| &mut w.policies),
        absent: Absent::First { example: r#""policies""# },
        doc: "The folder of policies: all its `*.toml` files are one set, and without rules nothing passes. What changes there\n\
              takes force while the gate runs, a few seconds later or at once after SIGHUP; a set with an error does not.",
    },
    Setting {
        name: "loosening",
        kind: Kind::Loosening(|w| &mut w.loosening),
        absent: Absent::Means(r#""free""#),
        doc: "What it takes for a set of policies to take force that is not proved to let no more pass: `free`, nothing, for\n\
              then those who may write the folder decide; `two-people`, that two people with the role `policy-admin` agree\n\
              at the console. Until then it waits, also over a restart, and the set that was in force stays.",
    },
];
