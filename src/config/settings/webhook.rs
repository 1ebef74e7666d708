//! Settings of a webhook: its URL, its events, and its secrets.

use super::{Absent, Setting, SettingKind};

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "url",
        kind: SettingKind::WebhookUrl(|w| &mut w.webhook.url),
        absent: Absent::Fault {
            example: r#""https://hooks.example.com/sluice""#,
            first: r#""https://hooks.example.com/sluice""#,
        },
        doc: "Where messages are sent: `https://`. If the URL contains a secret, write it as one. Redirects are not\n\
              followed.",
    },
    Setting {
        name: "secrets",
        kind: SettingKind::SigningSecrets(|w| &mut w.webhook.secrets),
        absent: Absent::Nothing { example: r#"[{ file = "webhook.secret" }]"# },
        doc: "The secrets that sign messages, as in Standard Webhooks: `whsec_` and 24 to 64 random bytes in\n\
              base64; `echo \"whsec_$(openssl rand -base64 32)\"` creates one. If there are several, each signs, so\n\
              that a new one can replace an old one. Only a chat needs none.",
    },
    Setting {
        name: "events",
        kind: SettingKind::Events(|w| &mut w.webhook.events),
        absent: Absent::Nothing { example: r#"["hold.held", "hold.reminder", "request.in-doubt", "payment.foreign"]"# },
        doc: "The events that are sent; all by default: `hold.held`, `hold.voted`, `hold.withdrawn`,\n\
              `hold.approved`, `hold.reopened` (more approvals are needed), `hold.reminder`, `hold.rejected`,\n\
              `hold.expired`, `hold.cancelled`, `hold.blocked` (the current rules deny it), `hold.released` (it is\n\
              being sent), `hold.not-sent` (it will be tried again), `hold.executed`, `hold.not-executed`; of any\n\
              call, `request.in-doubt`; of payments in upstream's list, `payment.open` (each state on the way),\n\
              `payment.settled`, `payment.failed`, `payment.returned` and `payment.foreign` (no gate sent it, or not\n\
              like that); and `policies.waiting` (policies that may allow more wait for two people).",
    },
    Setting {
        name: "environments",
        kind: SettingKind::Environments(|w| &mut w.webhook.environments),
        absent: Absent::Nothing { example: r#"["production"]"# },
        doc: "The environments whose events are sent; all by default.",
    },
    Setting {
        name: "format",
        kind: SettingKind::MessageFormat(|w| &mut w.webhook.format),
        absent: Absent::Means(r#""standard""#),
        doc: "`standard`: an object with `type`, `timestamp` and `data`. `chat`: `{\"text\": …}`, for chat tools.",
    },
    Setting {
        name: "details",
        kind: SettingKind::Truth(|w| &mut w.webhook.details),
        absent: Absent::Means("false"),
        doc: "Whether messages contain amounts, currencies, chains and requesters. Accounts and wallets are never\n\
              sent.",
    },
    Setting {
        name: "allow_private",
        kind: SettingKind::Truth(|w| &mut w.webhook.allow_private),
        absent: Absent::Means("false"),
        doc: "Whether its host may have an address that is not on the public internet; such a host may also use\n\
              `http://`.",
    },
    Setting {
        name: "ca",
        kind: SettingKind::Certificates(|w| &mut w.webhook.ca),
        absent: Absent::Nothing { example: r#""tls/webhook-ca.pem""# },
        doc: "The authorities of its certificate, as a PEM file, instead of the system's.",
    },
    Setting {
        name: "timeout_ms",
        kind: SettingKind::Millis(|w| &mut w.webhook.timeout),
        absent: Absent::Means("10_000"),
        doc: "The deadline of one whole delivery.",
    },
    Setting {
        name: "keep_days",
        kind: SettingKind::Number { least: 1, most: 30, unit: "days", slot: |w| &mut w.webhook.keep_days },
        absent: Absent::Means("3"),
        doc: "How long delivery of a message is retried. Then the message is dropped, counted and logged.",
    },
];
