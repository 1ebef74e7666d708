//! The settings above all headings.

use super::{Absent, Setting, SettingKind};

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "answers",
        kind: SettingKind::Answers(|w| &mut w.answers),
        absent: Absent::Means(r#""observe""#),
        doc: "Treatment of an upstream answer that breaks the contract: `observe` lets it pass, counts and logs\n\
              it; `enforce` holds the answers of reads back until they are checked, and refuses those that break\n\
              the contract.",
    },
    Setting {
        name: "policies",
        kind: SettingKind::Folder(|w| &mut w.policies),
        absent: Absent::First { example: r#""policies""# },
        doc: "The folder of policies: all its `*.toml` files are one set; without rules nothing passes. Changes\n\
              take force while the gate runs, within a few seconds or at once after SIGHUP; a set with an error\n\
              does not.",
    },
    Setting {
        name: "policies_root",
        kind: SettingKind::SetVersion(|w| &mut w.policies_root),
        absent: Absent::Nothing { example: r#""77dd5d05b46e0d4b35f5b1b7ad3ab42ba4a1b5b1ab9c59a8a1a6f0ad3c1d0c11""# },
        doc: "The version of a set of policies that you vouch for, such as the first one with `[signing]`. Where `acts` of\n\
              `[signing]` has `activation`, this gate takes a set from the store only if signatures lead to it from the\n\
              one that ran here last, or from this one. A gate that never ran begins with its folder, or with this one.",
    },
    Setting {
        name: "loosening",
        kind: SettingKind::Loosening(|w| &mut w.loosening),
        absent: Absent::Means(r#""free""#),
        doc: "The condition for a set of policies that may allow more than the current one to take force: `free`,\n\
              none, so that anyone who can write the folder decides; `two-people`, the approval of two people with\n\
              the role `policy-admin` at the console. Until then the set waits, also over a restart, and the\n\
              current one stays in force.",
    },
    Setting {
        name: "request_id_prefixes",
        kind: SettingKind::Names(|w| &mut w.request_id_prefixes),
        absent: Absent::Means("[]"),
        doc: "Beginnings of requestIds that belong to one caller, who must use them; others may not. All callers share\n\
              one space of requestIds, so without them a caller can take another's requestId first. `ISSUER:SUBJECT=PREFIX`,\n\
              or `ISSUER=PREFIX` for the callers of an issuer that have none of their own: `[\"main:payroll=pay-\"]`. No\n\
              prefix begins with another.",
    },
];
