//! The settings of a webhook: where it is, what it is told, and how it knows who says it.

use super::{Absent, Kind, Setting};

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "url",
        kind: Kind::WebhookUrl(|w| &mut w.webhook.url),
        absent: Absent::Fault {
            example: r#""https://hooks.example.com/sluice""#,
            first: r#""https://hooks.example.com/sluice""#,
        },
        doc: "Where messages are sent: `https://`. Where it holds a secret itself, write it as one. Redirects are not followed.",
    },
    Setting {
        name: "secrets",
        kind: Kind::SigningSecrets(|w| &mut w.webhook.secrets),
        absent: Absent::Nothing { example: r#"[{ file = "webhook.secret" }]"# },
        doc: "What messages are signed with, as Standard Webhooks has it: `whsec_` and 24 to 64 random bytes in base64;\n\
              `echo \"whsec_$(openssl rand -base64 32)\"` makes one. With several, each signs: so a new one takes the place of\n\
              an old one. Only a chat can be without.",
    },
    Setting {
        name: "events",
        kind: Kind::Events(|w| &mut w.webhook.events),
        absent: Absent::Nothing { example: r#"["hold.held", "hold.reminder", "request.in-doubt"]"# },
        doc: "What is told; without it, all: `hold.held`, `hold.voted`, `hold.withdrawn`, `hold.approved`, `hold.reopened` (it\n\
              takes more people than agreed), `hold.reminder`, `hold.rejected`, `hold.expired`, `hold.cancelled`,\n\
              `hold.blocked` (the rules of today deny it), `hold.released` (it is being sent), `hold.not-sent` (it is tried\n\
              again), `hold.executed`, `hold.not-executed`, and, of any call, `request.in-doubt`.",
    },
    Setting {
        name: "environments",
        kind: Kind::Environments(|w| &mut w.webhook.environments),
        absent: Absent::Nothing { example: r#"["production"]"# },
        doc: "Where it must have happened; without it, anywhere.",
    },
    Setting {
        name: "format",
        kind: Kind::MessageFormat(|w| &mut w.webhook.format),
        absent: Absent::Means(r#""standard""#),
        doc: "`standard`: an object with `type`, `timestamp` and `data`. `chat`: `{\"text\": …}`, as chat tools take it.",
    },
    Setting {
        name: "details",
        kind: Kind::Truth(|w| &mut w.webhook.details),
        absent: Absent::Means("false"),
        doc: "Whether it is told amounts, currencies, chains and who asked. Accounts and wallets are never told.",
    },
    Setting {
        name: "allow_private",
        kind: Kind::Truth(|w| &mut w.webhook.allow_private),
        absent: Absent::Means("false"),
        doc: "Whether its host may have an address that is not on the public internet; to such a one `http://` is allowed, too.",
    },
    Setting {
        name: "ca",
        kind: Kind::Certificates(|w| &mut w.webhook.ca),
        absent: Absent::Nothing { example: r#""tls/webhook-ca.pem""# },
        doc: "The authorities that its certificate may come from, as a PEM file, instead of the system's.",
    },
    Setting {
        name: "timeout_ms",
        kind: Kind::Millis(|w| &mut w.webhook.timeout),
        absent: Absent::Means("10_000"),
        doc: "For the whole of one delivery.",
    },
    Setting {
        name: "keep_days",
        kind: Kind::Number { least: 1, most: 30, unit: "days", slot: |w| &mut w.webhook.keep_days },
        absent: Absent::Means("3"),
        doc: "How long a message is sent again and again until it is taken. Then it is dropped, counted and logged.",
    },
];
