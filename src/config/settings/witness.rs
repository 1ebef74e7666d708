//! Settings of a witness.

use super::{Absent, Setting, SettingKind};

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "url",
        kind: SettingKind::WitnessUrl(|w| &mut w.witness.url),
        absent: Absent::Fault {
            example: r#""https://witness.example.com""#,
            first: r#""https://witness.example.com""#,
        },
        doc: "Where the witness takes checkpoints, without `/add-checkpoint`. Its signatures are checked: over `http://`, somebody\n\
              between can hold them back, and not forge them.",
    },
    Setting {
        name: "key",
        kind: SettingKind::WitnessKey(|w| &mut w.witness.key),
        absent: Absent::Fault {
            example: r#""witness.example.com+13a8191b+BC8ilSsqIoAizrqszJFX8Q3ZcM6mwDqXiohf+O+/cux9""#,
            first: r#""witness.example.com+13a8191b+BC8ilSsqIoAizrqszJFX8Q3ZcM6mwDqXiohf+O+/cux9""#,
        },
        doc: "Its key, as `sluice witness` prints it.",
    },
    Setting {
        name: "ca",
        kind: SettingKind::Certificates(|w| &mut w.witness.ca),
        absent: Absent::Nothing { example: r#""tls/witness-ca.pem""# },
        doc: "The authorities of its certificate, as a PEM file, instead of the system's.",
    },
];
