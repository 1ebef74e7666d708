//! The validated configuration: complete, typed, with every file read.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::belief::BeliefConfig;
use super::shared_redis::RedisConfig;
use crate::base::ids::Environment;
use crate::base::secret::Secret;
use crate::base::word_enum::word_enum;
use crate::ledger::{InstallationId, NodeId};
use crate::stations::admit::{Algorithm, FieldPath};
use crate::stations::check::RequestIdPrefixes;

mod console;
mod limits;
mod webhook;
mod witness;

pub use console::{ConsoleConfig, OidcConfig};
pub use limits::{LimitsConfig, MAX_ANSWER_HEAD_BYTES};
pub use webhook::WebhookConfig;
pub use witness::{UnwitnessedMode, WitnessConfig, WitnessingConfig};

/// The whole configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// At least one, production first, without duplicates.
    pub environments: Vec<EnvironmentConfig>,
    /// At least one for each environment; no two with the same name or the same `iss`.
    pub issuers: Vec<IssuerConfig>,
    pub console: Option<ConsoleConfig>,
    /// No two with the same name.
    pub webhooks: Vec<WebhookConfig>,
    pub probes: ProbesConfig,
    pub catalog: CatalogConfig,
    pub answers: AnswerMode,
    /// The folder of policies.
    pub policies: Option<PathBuf>,
    /// The set of policies from which signatures must lead to the one in force.
    pub policies_root: Option<String>,
    pub loosening: Loosening,
    /// Beginnings of requestIds that belong to one caller.
    pub request_id_prefixes: RequestIdPrefixes,
    pub redis: Option<RedisConfig>,
    pub store: StoreConfig,
    pub audit: AuditConfig,
    pub reconcile: ReconcileConfig,
    pub follow: FollowConfig,
    pub limits: LimitsConfig,
    pub timeouts: TimeoutsConfig,
    pub log: LogConfig,
    /// The collector of traces; `None` if nothing is traced.
    pub traces: Option<Collector>,
    /// The number of worker threads; 0 means one for each core.
    pub threads: usize,
}

word_enum! {
    /// The answer to a caller whose call waits for approval.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum HoldsMode {
        /// 202.
        Wait = "wait",
        /// 403: for clients that take any 2xx for success.
        Refuse = "refuse",
    }
}

word_enum! {
    /// The comparison of an issuer's subjects where two people must be two.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SubjectForm {
        /// Without letter case, in Unicode's compatible form.
        Folded = "folded",
        /// Byte for byte.
        Opaque = "opaque",
    }
}

/// One environment: its listener and its upstream.
#[derive(Clone, Debug)]
pub struct EnvironmentConfig {
    pub environment: Environment,
    pub listen: SocketAddr,
    pub tls: Option<ListenerTls>,
    pub upstream: UpstreamConfig,
    /// Whether money waits at a start until upstream or an issuer told a date that agrees.
    pub asks_date: bool,
    pub credential: CredentialConfig,
    pub belief: BeliefConfig,
}

/// The token that upstream gets.
#[derive(Clone, Debug)]
pub enum CredentialConfig {
    /// The caller's own.
    Forward,
    /// The gate's own, in place of the caller's.
    Inject(CredentialSource),
}

#[derive(Clone, Debug)]
pub enum CredentialSource {
    /// From a variable, or from the configuration itself.
    Given(Secret),
    /// From a file, read again when it changes.
    File(PathBuf),
}

/// An issuer whose tokens are accepted.
#[derive(Clone, Debug)]
pub struct IssuerConfig {
    /// The name in policies, metrics and logs.
    pub name: String,
    /// The `iss` of its tokens.
    pub issuer: String,
    /// A token must name one of these in `aud`.
    pub audiences: Vec<String>,
    /// The audiences of people's tokens, which callers cannot use; empty if people have none of their own.
    pub people_audiences: Vec<String>,
    /// Where its tokens are accepted; empty if only the console accepts them.
    pub environments: Vec<Environment>,
    /// The accepted signature algorithms; they fit the kind of its keys.
    pub algorithms: Vec<Algorithm>,
    pub keys: KeySource,
    /// How long keys that may change are used after they were last known to be good.
    pub longest_stale: Duration,
    /// The accepted difference between clocks.
    pub leeway: Duration,
    /// The longest time from a token's issue to its expiry.
    pub longest_lifetime: Duration,
    /// Fields that a token must have, each a path such as `client_id` or `act.sub`.
    pub required: Vec<FieldPath>,
    /// The field of the roles.
    pub roles: Option<FieldPath>,
    /// The field of the person for whom a service acts.
    pub requester: FieldPath,
    /// The answer to its callers whose calls wait for approval.
    pub holds: HoldsMode,
    /// How its subjects are compared where two people must be two.
    pub subjects: SubjectForm,
}

/// The source of an issuer's keys.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// A JWKS document, fetched; `ca_pem` replaces the system's authorities, `keep` is the file of the last good one.
    Url { url: String, ca_pem: Option<Vec<u8>>, keep: Option<PathBuf> },
    /// A JWKS document in a file, read again when it changes.
    File(PathBuf),
    /// One public key or certificate, as PEM.
    Pem(Vec<u8>),
    /// A secret that the issuer and the gate share.
    Shared(Secret),
}

/// The certificate of a listener and its key; they fit each other.
#[derive(Clone, Debug)]
pub struct ListenerTls {
    pub certificates_pem: Vec<u8>,
    pub key_pem: Secret,
    /// The certificates that callers must have, if any.
    pub clients: Option<ClientsConfig>,
}

/// The authorities of callers' certificates.
#[derive(Clone, Debug)]
pub struct ClientsConfig {
    /// The authorities that issue the certificates; at least one.
    pub ca_pem: Vec<u8>,
    /// A file with revocation lists, read again when it changes.
    pub revoked: Option<PathBuf>,
}

/// The one host that an environment's calls are sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamConfig {
    pub tls: bool,
    /// Never empty: an empty name would disable the check of upstream's certificate. An IPv6 address has no brackets.
    pub host: String,
    pub port: u16,
    /// Empty, or `/x` without a slash at the end.
    pub base_path: String,
    /// The authorities to trust instead of the system's.
    pub ca_pem: Option<Vec<u8>>,
}

/// When upstream is asked about calls with an unknown outcome.
#[derive(Clone, Copy, Debug)]
pub struct ReconcileConfig {
    pub first_look: Duration,
    /// The pause between the first two queries; it doubles from then on.
    pub pause: Duration,
    pub longest_pause: Duration,
}

/// How payments are followed to their end.
#[derive(Clone, Copy, Debug)]
pub struct FollowConfig {
    pub is_enabled: bool,
    /// The pause between two readings of a list.
    pub interval: Duration,
    /// The longest pause while readings fail.
    pub longest_pause: Duration,
    /// How far each reading goes back behind the latest record of the one before.
    pub overlap: Duration,
    /// The most pages of one reading.
    pub pages: usize,
    /// How old a payment may be whose state is still read.
    pub reach: Duration,
}

#[derive(Clone, Debug)]
pub struct ProbesConfig {
    pub listen: SocketAddr,
    /// The host names under which it answers, besides addresses.
    pub hosts: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct CatalogConfig {
    /// The folder of a contract that replaces the built-in one.
    pub schemas: Option<PathBuf>,
    /// Operations that are off by default and enabled here.
    pub enable: Vec<String>,
    /// Fields of bodies that the contract does not know, as `operation:/pointer`.
    pub further: Vec<String>,
}

word_enum! {
    /// The kind of store.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum StoreKind {
        /// In a folder of this process alone.
        Embedded = "embedded",
        /// In the Redis that nodes share.
        Redis = "redis",
    }
}

/// The store of requestIds.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    pub kind: StoreKind,
    /// The folder of the embedded store; and of outcomes that could not be written to any store.
    pub folder: PathBuf,
    /// How long a start waits while another process has the store open.
    pub wait: Duration,
    pub node: NodeId,
    /// The id that the store of production must have, if it is set.
    pub installation: Option<InstallationId>,
    /// All gates that share the store, if they are listed.
    pub nodes: Vec<NodeId>,
    /// How many running gates must have an entry on disk before it leaves the outbox.
    pub copies: usize,
    pub answers: Duration,
    /// How long after that a used requestId is remembered.
    pub spent: Duration,
    /// The first key encrypts; the others are former keys.
    pub seal_keys: Vec<(String, Secret)>,
    /// Whether records in plain text are taken although a key is set.
    pub allow_plain: bool,
}

/// The audit log of this node.
#[derive(Clone, Debug)]
pub struct AuditConfig {
    pub folder: PathBuf,
    /// The size at which a new file is begun.
    pub file_bytes: usize,
    /// The free disk that sandbox leaves to production.
    pub production_bytes: usize,
    /// The key that signs checkpoints.
    pub checkpoint_key: Option<Secret>,
    /// The longest time from an entry to its checkpoint.
    pub checkpoint_every: Duration,
    pub witnessing: WitnessingConfig,
    /// The key that digests personal operands of decisions; if `None`, a random one in the folder.
    pub operand_key: Option<Secret>,
}

word_enum! {
    /// The reaction to an upstream answer that breaks the contract.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum AnswerMode {
        /// The answer passes; the drift is counted and logged.
        Observe = "observe",
        /// A read's answer is held back until it is checked, and refused if it breaks the contract.
        Enforce = "enforce",
    }
}

word_enum! {
    /// The condition for a policy set that may allow more than the current one to take force.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Loosening {
        /// None: whoever may write the folder decides.
        Free = "free",
        /// Two people approve it at the console.
        TwoPeople = "two-people",
    }
}

#[derive(Clone, Debug)]
pub struct TimeoutsConfig {
    /// For the whole head of a request.
    pub head: Duration,
    /// For the whole body of a request.
    pub body: Duration,
    /// For the rest of a request after its refusal.
    pub drain: Duration,
    /// For the TLS handshake with a caller.
    pub client_handshake: Duration,
    /// For connecting to upstream.
    pub connect: Duration,
    /// For the TLS handshake with upstream.
    pub tls_handshake: Duration,
    /// For one write to upstream.
    pub write: Duration,
    /// For the store and the audit log, before the first byte of a write is sent.
    pub commit: Duration,
    /// From the last byte sent to the whole answer.
    pub answer: Duration,
    /// The longest that upstream may take to act on a request whose last byte has arrived; at least `answer`.
    pub upstream_max: Duration,
    /// For one write to a caller.
    pub client_write: Duration,
    /// How long a caller's connection may be idle.
    pub keepalive: Duration,
    /// How long a connection to upstream may be idle.
    pub upstream_idle: Duration,
    /// How long a shutdown is announced before it begins.
    pub notice: Duration,
    /// How long a shutdown waits for open requests; at least a [`super::LongestWrite`].
    pub grace: Duration,
}

/// The collector of traces.
#[derive(Clone, Debug)]
pub struct Collector {
    pub url: String,
    /// The `Authorization` header of each batch; a valid header value.
    pub authorization: Option<Secret>,
    /// One in this many requests without a trace begins one.
    pub one_in: u64,
}

#[derive(Clone, Debug)]
pub struct LogConfig {
    pub format: LogFormat,
    pub level: LogLevel,
}

word_enum! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LogFormat {
        /// `human` on a terminal, JSON elsewhere.
        Auto = "auto",
        Json = "json",
        Human = "human",
    }
}

word_enum! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LogLevel {
        Error = "error",
        Warn = "warn",
        Info = "info",
        Debug = "debug",
        Trace = "trace",
    }
}

impl LogLevel {
    /// Returns the next more verbose level; the last one returns itself.
    pub fn louder(self) -> LogLevel {
        match self {
            LogLevel::Error => LogLevel::Warn,
            LogLevel::Warn => LogLevel::Info,
            LogLevel::Info => LogLevel::Debug,
            LogLevel::Debug | LogLevel::Trace => LogLevel::Trace,
        }
    }
}
