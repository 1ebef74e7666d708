//! The table of settings: one entry for each; the parser, the environment variables and the reference derive from it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::belief::UnlistedMode;
use super::heading::Heading;
use super::meant::{
    AnswerMode, CredentialSource, HoldsMode, LogFormat, LogLevel, Loosening, StoreKind, SubjectForm, UnwitnessedMode,
    UpstreamConfig,
};
use super::pem::PemKey;
use super::written::{DurabilityWord, RevokedFile, SettingSlot, TrustedWord};
use crate::audit::NoteKey;
use crate::base::ids::Environment;
use crate::base::secret::Secret;
use crate::ledger::NodeId;
use crate::notify::{NoticeEvent, PayloadFormat};
use crate::stations::admit::{Algorithm, FieldPath};

mod store_and_audit;
mod console;
mod environment;
mod general;
mod issuer;
mod limits;
mod redis;
mod timeouts;
mod webhook;
mod witness;

pub use issuer::FIRST_SECRET;

/// The settings under one heading. The first section has no name: its settings are above all headings.
pub(super) struct Section {
    pub name: &'static str,
    pub doc: &'static str,
    pub presence: Presence,
    pub settings: &'static [Setting],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    /// Its settings apply whether or not the section is written.
    Always,
    /// The section exists only if one of its settings is written: an environment.
    IfWritten,
    /// Like `IfWritten`, but never required: files for people have it as a comment.
    Optional,
    /// Any number of sections, each with a name that its writer chooses; `example` is one. If none is required, files
    /// for people have it as a comment.
    Named { example: &'static str, is_needed: bool },
}

pub(super) struct Setting {
    pub name: &'static str,
    pub kind: SettingKind,
    pub absent: Absent,
    pub doc: &'static str,
}

/// The meaning of a setting that is not set; examples and defaults are TOML.
pub(super) enum Absent {
    /// The section requires it. `first` is the value that `sluice init` writes.
    Fault {
        example: &'static str,
        first: &'static str,
    },
    Means(&'static str),
    Nothing {
        example: &'static str,
    },
    /// No value, but `sluice init` writes it.
    First {
        example: &'static str,
    },
    /// Exactly one of all such settings of a section is set; `used` says in which files the example is it.
    Another {
        example: &'static str,
        used: Used,
    },
}

/// The files for people in which an example is a setting instead of a comment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Used {
    Nowhere,
    InReference,
    InFirst,
}

/// The type of a value, and where it is stored.
pub(super) enum SettingKind {
    Address(SettingSlot<SocketAddr>),
    Upstream(SettingSlot<UpstreamConfig>),
    /// A PEM file with at least one certificate.
    Certificates(SettingSlot<Vec<u8>>),
    /// A file with revocation lists, read again when it changes.
    RevokedFile(SettingSlot<RevokedFile>),
    Folder(SettingSlot<PathBuf>),
    Secret(SettingSlot<Secret>),
    /// `whsec_…`; at least one.
    SigningSecrets(SettingSlot<Vec<Secret>>),
    /// A secret that is sent in a header; if it comes from a file, the file is read again.
    Credential(SettingSlot<CredentialSource>),
    Text(SettingSlot<String>),
    Names(SettingSlot<Vec<String>>),
    /// At least one.
    Texts(SettingSlot<Vec<String>>),
    Environments(SettingSlot<Vec<Environment>>),
    /// At least one.
    Algorithms(SettingSlot<Vec<Algorithm>>),
    FieldPath(SettingSlot<FieldPath>),
    FieldPaths(SettingSlot<Vec<FieldPath>>),
    KeysUrl(SettingSlot<String>),
    /// A secret, because its path may contain one.
    WebhookUrl(SettingSlot<Secret>),
    /// At least one.
    Events(SettingSlot<Vec<NoticeEvent>>),
    MessageFormat(SettingSlot<PayloadFormat>),
    CollectorUrl(SettingSlot<String>),
    WitnessUrl(SettingSlot<String>),
    /// The key of a witness, in the form of C2SP.
    WitnessKey(SettingSlot<NoteKey>),
    /// A URL without a path.
    Origin(SettingSlot<String>),
    /// A secret, because it may contain a password.
    RedisUrl(SettingSlot<Secret>),
    /// At least one host, each with a port or the default port of a Redis.
    ClusterHosts(SettingSlot<Vec<(String, u16)>>),
    /// At least one host, each with a port or the default port of Sentinels.
    Hosts(SettingSlot<Vec<(String, u16)>>),
    /// A file with a JWKS document, read again when it changes.
    KeysFile(SettingSlot<PathBuf>),
    /// A file that Sluice writes; its folder must exist.
    KeptFile(SettingSlot<PathBuf>),
    /// A folder that Sluice creates; its parent must exist.
    KeptFolder(SettingSlot<PathBuf>),
    Node(SettingSlot<NodeId>),
    /// The version of a set of policies: a digest.
    SetVersion(SettingSlot<String>),
    /// A PEM file with one public key or certificate.
    PublicKey(SettingSlot<PemKey>),
    Truth(SettingSlot<bool>),
    Number {
        least: u64,
        most: u64,
        unit: &'static str,
        slot: SettingSlot<usize>,
    },
    Millis(SettingSlot<Duration>),
    Seconds {
        least: u64,
        most: u64,
        slot: SettingSlot<Duration>,
    },
    Answers(SettingSlot<AnswerMode>),
    Unlisted(SettingSlot<UnlistedMode>),
    Holds(SettingSlot<HoldsMode>),
    Subjects(SettingSlot<SubjectForm>),
    Loosening(SettingSlot<Loosening>),
    Unwitnessed(SettingSlot<UnwitnessedMode>),
    Store(SettingSlot<StoreKind>),
    Durability(SettingSlot<DurabilityWord>),
    TrustedTraits(SettingSlot<Vec<TrustedWord>>),
    LogFormat(SettingSlot<LogFormat>),
    LogLevel(SettingSlot<LogLevel>),
}

/// The longest time that can be set: a day. A longer one is probably a mistake.
pub(super) const MAX_MILLIS: u64 = 86_400_000;

const fn millis(name: &'static str, default: &'static str, slot: SettingSlot<Duration>, doc: &'static str) -> Setting {
    Setting { name, kind: SettingKind::Millis(slot), absent: Absent::Means(default), doc }
}

/// All settings, in the order of the reference.
pub(super) static SECTIONS: &[Section] = &[
    Section { name: "", doc: "", presence: Presence::Always, settings: general::SETTINGS },
    Section {
        name: "production",
        doc: "The environment where real money moves. At least one of this section and the next is required.",
        presence: Presence::IfWritten,
        settings: environment::settings!(
            production,
            r#""127.0.0.1:8080""#,
            r#""https://api.example.com""#,
            r#""http://127.0.0.1:9080""#
        ),
    },
    Section {
        name: "sandbox",
        doc: "The environment for tests.",
        presence: Presence::IfWritten,
        settings: environment::settings!(
            sandbox,
            r#""127.0.0.1:8081""#,
            r#""https://sandbox.example.com""#,
            r#""http://127.0.0.1:9081""#
        ),
    },
    Section {
        name: "issuer",
        doc: "The issuers of accepted tokens: sections `[issuer.NAME]`, at least one for each environment. The\n\
              name is used in logs, metrics and policies: up to 32 of `a-z`, `0-9` and `-`.",
        presence: Presence::Named { example: "main", is_needed: true },
        settings: issuer::SETTINGS,
    },
    Section {
        name: "console",
        doc: "The console, where people approve calls, freeze money, and resolve unknown outcomes. Without this section\n\
              there is none.",
        presence: Presence::Optional,
        settings: console::SETTINGS,
    },
    Section {
        name: "webhook",
        doc: "Webhooks that get the events of holds and of unknown outcomes; any number of sections\n\
              `[webhook.NAME]`. `sluice webhook test NAME` sends a test message.",
        presence: Presence::Named { example: "approvals", is_needed: false },
        settings: webhook::SETTINGS,
    },
    Section {
        name: "witness",
        doc: "Witnesses of the journal, on machines of others: each signs a checkpoint only if the journal kept all lines of the\n\
              one before, so nobody can be shown another journal. Any number of sections `[witness.NAME]`; they need\n\
              `audit.checkpoint_key`.",
        presence: Presence::Named { example: "first", is_needed: false },
        settings: witness::SETTINGS,
    },
    Section {
        name: "probes",
        doc: "The listener for probes and metrics.",
        presence: Presence::Always,
        settings: &[
            Setting {
                name: "listen",
                kind: SettingKind::Address(|w| &mut w.probes_listen),
                absent: Absent::Means(r#""127.0.0.1:9090""#),
                doc: "Where `/livez`, `/readyz`, `/readyz/money` and `/metrics` are served; not for callers.",
            },
            Setting {
                name: "hosts",
                kind: SettingKind::Names(|w| &mut w.probes_hosts),
                absent: Absent::Means("[]"),
                doc: "Host names under which Prometheus and probes reach this listener, besides IP addresses and `localhost`;\n\
                  requests under other names are refused.",
            },
        ],
    },
    Section {
        name: "catalog",
        doc: "The contract: the operations, and the schemas of their bodies.",
        presence: Presence::Always,
        settings: &[
            Setting {
                name: "schemas",
                kind: SettingKind::Folder(|w| &mut w.schemas),
                absent: Absent::Nothing { example: r#""schemas""# },
                doc: "A folder with `openapi.json` and its schemas, instead of the built-in contract.",
            },
            Setting {
                name: "enable",
                kind: SettingKind::Names(|w| &mut w.enable),
                absent: Absent::Means("[]"),
                doc: "Operations, by id, that are off by default and enabled here.",
            },
            Setting {
                name: "further",
                kind: SettingKind::Names(|w| &mut w.further),
                absent: Absent::Means("[]"),
                doc: "Fields of bodies that the contract does not know and that are accepted anyway, such as\n\
                      `\"createOfframp:/memo\"`. A call with such a field is denied unless a matching rule names the\n\
                      field.",
            },
        ],
    },
    Section {
        name: "redis",
        doc: "The Redis that nodes share: for rates that are `shared`, and for `store.kind = \"redis\"`.",
        presence: Presence::Always,
        settings: redis::SETTINGS,
    },
    Section {
        name: "store",
        doc: "The store of requestIds, which keeps each from being paid twice.",
        presence: Presence::Always,
        settings: store_and_audit::STORE,
    },
    Section { name: "audit", doc: "The audit chain.", presence: Presence::Always, settings: store_and_audit::AUDIT },
    Section {
        name: "reconcile",
        doc: "Resolving unknown outcomes: upstream is asked repeatedly, if the operation allows it and the environment\n\
              has a `credential`.",
        presence: Presence::Always,
        settings: store_and_audit::RECONCILE,
    },
    Section {
        name: "follow",
        doc: "Following payments to their end, where the contract names a list of them and the environment has a\n\
              `credential`: states, limits, and payments that no gate sent.",
        presence: Presence::Always,
        settings: store_and_audit::FOLLOW,
    },
    Section {
        name: "limits",
        doc: "Limits on requests, answers and connections.",
        presence: Presence::Always,
        settings: limits::SETTINGS,
    },
    Section {
        name: "timeouts",
        doc: "Timeouts, in milliseconds unless the name says otherwise.",
        presence: Presence::Always,
        settings: timeouts::SETTINGS,
    },
    Section {
        name: "log",
        doc: "The log, on standard output.",
        presence: Presence::Always,
        settings: &[
            Setting {
                name: "format",
                kind: SettingKind::LogFormat(|w| &mut w.log_format),
                absent: Absent::Means(r#""auto""#),
                doc: "`json`, `human`, or `auto`: human on a terminal, JSON elsewhere.",
            },
            Setting {
                name: "level",
                kind: SettingKind::LogLevel(|w| &mut w.log_level),
                absent: Absent::Means(r#""info""#),
                doc: "`error`, `warn`, `info`, `debug` or `trace`.",
            },
        ],
    },
    Section {
        name: "telemetry",
        doc: "Traces of requests, by W3C trace context. Metrics are served by `[probes]`.",
        presence: Presence::Always,
        settings: &[
            Setting {
                name: "otlp",
                kind: SettingKind::CollectorUrl(|w| &mut w.otlp),
                absent: Absent::Nothing { example: r#""http://127.0.0.1:4318""# },
                doc: "Where spans are sent, by OTLP over HTTP; `/v1/traces` is appended. Without it, requests are\n\
                      not traced, and callers' trace headers pass unchanged.",
            },
            Setting {
                name: "otlp_authorization",
                kind: SettingKind::Secret(|w| &mut w.otlp_authorization),
                absent: Absent::Nothing { example: r#"{ file = "otlp.secret" }"# },
                doc: "The whole `Authorization` header of each batch: `Bearer …` or `Basic …`.",
            },
            Setting {
                name: "trace_one_in",
                kind: SettingKind::Number {
                    least: 1,
                    most: 1_000_000,
                    unit: "requests",
                    slot: |w| &mut w.trace_one_in,
                },
                absent: Absent::Means("1"),
                doc: "One in this many requests without a trace begins one. A trace that a caller began is\n\
                      continued if the caller samples it.",
            },
        ],
    },
    Section {
        name: "server",
        doc: "The process.",
        presence: Presence::Always,
        settings: &[Setting {
            name: "threads",
            kind: SettingKind::Number { least: 0, most: 1_024, unit: "threads", slot: |w| &mut w.threads },
            absent: Absent::Means("0"),
            doc: "The number of worker threads; 0 is one for each core.",
        }],
    },
];

impl Section {
    pub fn named(name: &str) -> Option<&'static Section> {
        SECTIONS.iter().find(|section| section.name == name)
    }

    pub fn setting(&self, name: &str) -> Option<&'static Setting> {
        self.settings.iter().find(|setting| setting.name == name)
    }

    /// Returns the names of all sections that have a heading.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SECTIONS.iter().map(|section| section.name).filter(|name| !name.is_empty())
    }

    /// Returns the heading of a section that exists once.
    pub fn heading(&self) -> Heading {
        self.heading_of("")
    }

    pub fn heading_of(&self, name: &str) -> Heading {
        Heading { section: self.name, name: name.to_owned() }
    }

    /// Whether files for people have it as a comment.
    pub fn is_optional(&self) -> bool {
        matches!(self.presence, Presence::Optional | Presence::Named { is_needed: false, .. })
    }

    /// Returns its heading: `[timeouts]`, `[issuer.NAME]`.
    pub fn bracketed(&self) -> String {
        match self.presence {
            Presence::Always | Presence::IfWritten | Presence::Optional => format!("[{}]", self.name),
            Presence::Named { .. } => format!("[{}.NAME]", self.name),
        }
    }
}
