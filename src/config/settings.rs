//! The table of settings: one entry a setting, from which parser, environment variables and reference derive.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::meant::{
    AnswerMode, CredentialSource, HoldsMode, LogFormat, LogLevel, Loosening, StoreKind, UpstreamConfig,
};
use super::pem::PublicKey;
use super::written::{DurabilityWord, RevokedFile, Slot};
use crate::base::ids::Environment;
use crate::base::secret::Secret;
use crate::commit::NodeId;
use crate::stations::admit::{Algorithm, FieldPath};
use crate::stations::tell::{Event, Format};

mod books;
mod console;
mod environment;
mod general;
mod heading;
mod issuer;
mod limits;
mod redis;
mod timeouts;
mod webhook;

pub(super) use heading::Heading;
pub use issuer::FIRST_SECRET;

/// Settings under one heading; the first section has no name: its settings stand above all headings.
pub(super) struct Section {
    pub name: &'static str,
    pub doc: &'static str,
    pub presence: Presence,
    pub settings: &'static [Setting],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    /// Its settings hold whether anything is written or not.
    Always,
    /// It holds only if something in it is written: an environment.
    IfWritten,
    /// The same, and nothing needs it: files for people have it as a comment.
    Optional,
    /// There are any number, each with a name that its writer chose; `example` is one. Where none is needed, files for
    /// people have it as a comment.
    Named { example: &'static str, is_needed: bool },
}

pub(super) struct Setting {
    pub name: &'static str,
    pub kind: Kind,
    pub absent: Absent,
    pub doc: &'static str,
}

/// What it means that a setting is not written; examples and defaults are TOML.
pub(super) enum Absent {
    /// The section cannot be without it. `first` is what `sluice init` writes.
    Fault {
        example: &'static str,
        first: &'static str,
    },
    Means(&'static str),
    Nothing {
        example: &'static str,
    },
    /// Nothing, but `sluice init` writes it.
    First {
        example: &'static str,
    },
    /// Of all such settings of a section exactly one is written; `used` says where the example is it.
    Another {
        example: &'static str,
        used: Used,
    },
}

/// Which file for people has an example as a setting, not as a comment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Used {
    Nowhere,
    InReference,
    InFirst,
}

/// What may be written, and where the value goes.
pub(super) enum Kind {
    Address(Slot<SocketAddr>),
    Upstream(Slot<UpstreamConfig>),
    /// A PEM file with at least one certificate.
    Certificates(Slot<Vec<u8>>),
    /// A file with lists of revoked certificates, read again when it changes.
    RevokedFile(Slot<RevokedFile>),
    Folder(Slot<PathBuf>),
    Secret(Slot<Secret>),
    /// `whsec_…`; at least one.
    SigningSecrets(Slot<Vec<Secret>>),
    /// A secret that is sent in a header; from a file it is read again.
    Credential(Slot<CredentialSource>),
    Text(Slot<String>),
    Names(Slot<Vec<String>>),
    /// At least one.
    Texts(Slot<Vec<String>>),
    Environments(Slot<Vec<Environment>>),
    /// At least one.
    Algorithms(Slot<Vec<Algorithm>>),
    FieldPath(Slot<FieldPath>),
    FieldPaths(Slot<Vec<FieldPath>>),
    KeysUrl(Slot<String>),
    /// A secret: what stands in its path may be one.
    WebhookUrl(Slot<Secret>),
    /// At least one.
    Events(Slot<Vec<Event>>),
    MessageFormat(Slot<Format>),
    CollectorUrl(Slot<String>),
    /// A URL without a path.
    Origin(Slot<String>),
    /// A secret: it may hold a password.
    RedisUrl(Slot<Secret>),
    /// At least one host, each with a port or the one that Sentinels have.
    Hosts(Slot<Vec<(String, u16)>>),
    /// A file with a JWKS document, read again when it changes.
    KeysFile(Slot<PathBuf>),
    /// A file that Sluice writes itself; its folder is there.
    KeptFile(Slot<PathBuf>),
    /// A folder that Sluice makes itself; the one that it stands in is there.
    KeptFolder(Slot<PathBuf>),
    Node(Slot<NodeId>),
    /// A PEM file with one public key or certificate.
    PublicKey(Slot<PublicKey>),
    Truth(Slot<bool>),
    Number {
        least: u64,
        most: u64,
        unit: &'static str,
        slot: Slot<usize>,
    },
    Millis(Slot<Duration>),
    Seconds {
        least: u64,
        most: u64,
        slot: Slot<Duration>,
    },
    Answers(Slot<AnswerMode>),
    Holds(Slot<HoldsMode>),
    Loosening(Slot<Loosening>),
    Store(Slot<StoreKind>),
    Durability(Slot<DurabilityWord>),
    LogFormat(Slot<LogFormat>),
    LogLevel(Slot<LogLevel>),
}

/// The longest time that can be set: a day. Longer ones are slips of the pen.
pub(super) const MOST_MILLIS: u64 = 86_400_000;

pub(super) const ANSWERS: &[(&str, AnswerMode)] = &[("observe", AnswerMode::Observe), ("enforce", AnswerMode::Enforce)];

pub(super) const HOLDS: &[(&str, HoldsMode)] = &[("wait", HoldsMode::Wait), ("refuse", HoldsMode::Refuse)];
pub(super) const LOOSENINGS: &[(&str, Loosening)] = &[("free", Loosening::Free), ("two-people", Loosening::TwoPeople)];

pub(super) const STORE_KINDS: &[(&str, StoreKind)] = &[("embedded", StoreKind::Embedded), ("redis", StoreKind::Redis)];

pub(super) const DURABILITIES: &[(&str, DurabilityWord)] = &[
    ("acknowledged", DurabilityWord::Acknowledged),
    ("replicated", DurabilityWord::Replicated),
    ("fsynced", DurabilityWord::Fsynced),
];

pub(super) const MESSAGE_FORMATS: &[(&str, Format)] = &[("standard", Format::Standard), ("chat", Format::Chat)];

pub(super) const LOG_FORMATS: &[(&str, LogFormat)] =
    &[("auto", LogFormat::Auto), ("json", LogFormat::Json), ("human", LogFormat::Human)];

pub(super) const LOG_LEVELS: &[(&str, LogLevel)] = &[
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];

const fn millis(name: &'static str, default: &'static str, slot: Slot<Duration>, doc: &'static str) -> Setting {
    Setting { name, kind: Kind::Millis(slot), absent: Absent::Means(default), doc }
}

/// All settings, in the order in which they are explained.
pub(super) static SECTIONS: &[Section] = &[
    Section { name: "", doc: "", presence: Presence::Always, settings: general::SETTINGS },
    Section {
        name: "production",
        doc: "The environment where real money moves. This section or the next is needed.",
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
        doc: "The environment to try things in.",
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
        doc: "Whose tokens are taken, and where; sections `[issuer.NAME]`, at least one for each environment.\n\
              Logs, metrics and policies call it by that name: up to 32 of `a-z`, `0-9` and `-`.",
        presence: Presence::Named { example: "main", is_needed: true },
        settings: issuer::SETTINGS,
    },
    Section {
        name: "console",
        doc: "Where people freeze, and say what became of calls in doubt. There is none unless this section is written.",
        presence: Presence::Optional,
        settings: console::SETTINGS,
    },
    Section {
        name: "webhook",
        doc: "Who is told what happens to calls that wait for people, or are in doubt; any number of sections\n\
              `[webhook.NAME]`. `sluice webhook test NAME` tries one.",
        presence: Presence::Named { example: "approvals", is_needed: false },
        settings: webhook::SETTINGS,
    },
    Section {
        name: "probes",
        doc: "What watches Sluice.",
        presence: Presence::Always,
        settings: &[Setting {
            name: "listen",
            kind: Kind::Address(|w| &mut w.probes_listen),
            absent: Absent::Means(r#""127.0.0.1:9090""#),
            doc: "Where `/livez`, `/readyz` and `/metrics` are; not for callers.",
        }],
    },
    Section {
        name: "catalog",
        doc: "The contract: which operations there are, and what their bodies look like.",
        presence: Presence::Always,
        settings: &[
            Setting {
                name: "schemas",
                kind: Kind::Folder(|w| &mut w.schemas),
                absent: Absent::Nothing { example: r#""schemas""# },
                doc: "A folder with `openapi.json` and its schemas, instead of the contract that is built in.",
            },
            Setting {
                name: "enable",
                kind: Kind::Names(|w| &mut w.enable),
                absent: Absent::Means("[]"),
                doc: "Operations, by their ids, that are off unless they are named here.",
            },
            Setting {
                name: "further",
                kind: Kind::Names(|w| &mut w.further),
                absent: Absent::Means("[]"),
                doc: "Places of bodies that the contract does not know and that may be stated all the same, such as\n\
                      `\"createOfframp:/memo\"`. One that is stated and that no matching rule names is denied.",
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
        doc: "What is kept of requestIds, so that none is paid twice.",
        presence: Presence::Always,
        settings: books::STORE,
    },
    Section { name: "audit", doc: "What auditors read.", presence: Presence::Always, settings: books::AUDIT },
    Section {
        name: "reconcile",
        doc: "Finding out what became of calls in doubt: upstream is asked again and again, where it can tell and an\n\
              environment has a `credential`.",
        presence: Presence::Always,
        settings: books::RECONCILE,
    },
    Section {
        name: "limits",
        doc: "How much is read of what others send.",
        presence: Presence::Always,
        settings: limits::SETTINGS,
    },
    Section {
        name: "timeouts",
        doc: "How long anything may take, in milliseconds.",
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
                kind: Kind::LogFormat(|w| &mut w.log_format),
                absent: Absent::Means(r#""auto""#),
                doc: "`json`, `human`, or `auto`: for people on a terminal, JSON elsewhere.",
            },
            Setting {
                name: "level",
                kind: Kind::LogLevel(|w| &mut w.log_level),
                absent: Absent::Means(r#""info""#),
                doc: "`error`, `warn`, `info`, `debug` or `trace`.",
            },
        ],
    },
    Section {
        name: "telemetry",
        doc: "Traces of requests, by W3C trace context. The metrics are where `[probes]` says.",
        presence: Presence::Always,
        settings: &[
            Setting {
                name: "otlp",
                kind: Kind::CollectorUrl(|w| &mut w.otlp),
                absent: Absent::Nothing { example: r#""http://127.0.0.1:4318""# },
                doc: "Where spans are sent, by OTLP over HTTP; `/v1/traces` is added. Without it, requests are not traced,\n\
                      and what callers say of their traces passes as it came.",
            },
            Setting {
                name: "otlp_authorization",
                kind: Kind::Secret(|w| &mut w.otlp_authorization),
                absent: Absent::Nothing { example: r#"{ file = "otlp.secret" }"# },
                doc: "What each batch says in `Authorization`, whole: `Bearer …` or `Basic …`.",
            },
            Setting {
                name: "trace_one_in",
                kind: Kind::Number { least: 1, most: 1_000_000, unit: "requests", slot: |w| &mut w.trace_one_in },
                absent: Absent::Means("1"),
                doc: "Of requests that come without a trace, one in so many begins one. A trace that a caller began is gone\n\
                      on with if it says that it is kept.",
            },
        ],
    },
    Section {
        name: "server",
        doc: "The process itself.",
        presence: Presence::Always,
        settings: &[Setting {
            name: "threads",
            kind: Kind::Number { least: 0, most: 1_024, unit: "threads", slot: |w| &mut w.threads },
            absent: Absent::Means("0"),
            doc: "Threads that serve; 0 is one for each core.",
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

    /// The names of all sections that have a heading.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SECTIONS.iter().map(|section| section.name).filter(|name| !name.is_empty())
    }

    /// The heading of a section that is there once.
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

    /// How its heading is written: `[timeouts]`, `[issuer.NAME]`.
    pub fn bracketed(&self) -> String {
        match self.presence {
            Presence::Always | Presence::IfWritten | Presence::Optional => format!("[{}]", self.name),
            Presence::Named { .. } => format!("[{}.NAME]", self.name),
        }
    }
}
