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
];
