//! What the configuration means, once nothing is wrong with it: complete, typed, with every file read.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::base::ids::Environment;
use crate::base::secret::Secret;
use crate::commit::NodeId;
use crate::stations::admit::{Algorithm, FieldPath};
use crate::stations::hold::Owners;
use crate::stations::session::SessionTerms;

mod webhook;

pub use webhook::WebhookConfig;

/// All that is configured.
#[derive(Clone, Debug)]
pub struct Config {
    /// At least one, production first, none twice.
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
    pub loosening: Loosening,
    pub redis: Option<RedisConfig>,
    pub store: StoreConfig,
    pub audit: AuditConfig,
    pub reconcile: ReconcileConfig,
    pub limits: LimitsConfig,
    pub timeouts: TimeoutsConfig,
    pub log: LogConfig,
    /// Without it nothing is traced.
    pub traces: Option<Collector>,
    /// Threads that serve; 0 means one for each core.
    pub threads: usize,
}

/// What callers hear of a call that waits for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldsMode {
    /// 202.
    Wait,
    /// 403: their clients take any 2xx for done.
    Refuse,
}

/// One environment: where callers reach it, and where it leads.
#[derive(Clone, Debug)]
pub struct EnvironmentConfig {
    pub environment: Environment,
    pub listen: SocketAddr,
    pub tls: Option<ListenerTls>,
    pub upstream: UpstreamConfig,
    pub credential: CredentialConfig,
}

/// Whose token upstream sees.
#[derive(Clone, Debug)]
pub enum CredentialConfig {
    /// The caller's own.
    Forward,
    /// Ours, in the place of the caller's.
    Inject(CredentialSource),
}

#[derive(Clone, Debug)]
pub enum CredentialSource {
    /// From a variable, or as it was written.
    Given(Secret),
    /// From a file, read again when it changes.
    File(PathBuf),
}

/// Whose tokens are taken.
#[derive(Clone, Debug)]
pub struct IssuerConfig {
    /// What policies, metrics and logs call it.
    pub name: String,
    /// What its tokens say in `iss`.
    pub issuer: String,
    /// Of these a token must name one in `aud`.
    pub audiences: Vec<String>,
    /// Where its tokens may be used; nowhere if it is the console's alone.
    pub environments: Vec<Environment>,
    /// The algorithms that its signatures may have; they fit the kind of its keys.
    pub algorithms: Vec<Algorithm>,
    pub keys: KeySource,
    /// How long keys that may change are used since they were last seen to be good.
    pub longest_stale: Duration,
    /// How far clocks may be apart.
    pub leeway: Duration,
    /// The longest time from a token's issue to its expiry.
    pub longest_lifetime: Duration,
    /// Fields that must be there, each a path such as `client_id` or `act.sub`.
    pub required: Vec<FieldPath>,
    /// Where the roles are.
    pub roles: Option<FieldPath>,
    /// Where the person behind a service's token is.
    pub requester: FieldPath,
    /// What its callers hear of a call that waits for people.
    pub holds: HoldsMode,
}

/// Where an issuer's keys come from.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// A JWKS document, fetched; `ca_pem` replaces the system's authorities, `keep` is where the last good one is kept.
    Url { url: String, ca_pem: Option<Vec<u8>>, keep: Option<PathBuf> },
    /// A JWKS document in a file, read again when it changes.
    File(PathBuf),
    /// One public key or certificate, as PEM.
    Pem(Vec<u8>),
    /// A secret that both sides know.
    Shared(Secret),
}

/// What a listener shows to callers; certificate and key fit each other.
#[derive(Clone, Debug)]
pub struct ListenerTls {
    pub certificates_pem: Vec<u8>,
    pub key_pem: Secret,
    /// What callers must show, if they must.
    pub clients: Option<ClientsConfig>,
}

/// Whose certificates callers must show.
#[derive(Clone, Debug)]
pub struct ClientsConfig {
    /// The authorities that they come from; at least one.
    pub ca_pem: Vec<u8>,
    /// A file with lists of those that are revoked, read again when it changes.
    pub revoked: Option<PathBuf>,
}

/// The one host that an environment's calls go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamConfig {
    pub tls: bool,
    /// Never empty: an empty name would switch the check of upstream's certificate off. An IPv6 address has no brackets.
    pub host: String,
    pub port: u16,
    /// Empty, or `/x` without a slash at the end.
    pub base_path: String,
    /// The authorities to trust instead of the system's.
    pub ca_pem: Option<Vec<u8>>,
}

/// Where people come in.
#[derive(Clone, Debug)]
pub struct ConsoleConfig {
    pub listen: SocketAddr,
    pub tls: Option<ListenerTls>,
    /// The name of the one issuer whose tokens are taken; it has a field for roles.
    pub issuer: String,
    pub owners: Owners,
    /// What browsers call it, to the letter, where that was said.
    pub origin: Option<String>,
    pub sessions: SessionTerms,
    /// Whether a browser may sign in with a token.
    pub token_sign_in: bool,
    pub oidc: Option<OidcConfig>,
    /// How long before a hold expires people are reminded.
    pub remind_before: Duration,
}

/// The OpenID provider that people sign in at.
#[derive(Clone, Debug)]
pub struct OidcConfig {
    /// Where it is, and what its tokens say in `iss`, of the console's issuer.
    pub issuer: String,
    /// Among the audiences of the console's issuer.
    pub client_id: String,
    pub client_secret: Option<Secret>,
    pub scopes: Vec<String>,
    /// What people call it.
    pub name: String,
    /// The authorities to trust instead of the system's.
    pub ca_pem: Option<Vec<u8>>,
    /// What browsers call the console.
    pub origin: String,
}

/// When upstream is asked what became of calls in doubt.
#[derive(Clone, Copy, Debug)]
pub struct ReconcileConfig {
    pub first_look: Duration,
    /// From the first look to the second; then ever twice as long.
    pub pause: Duration,
    pub longest_pause: Duration,
}

#[derive(Clone, Debug)]
pub struct ProbesConfig {
    pub listen: SocketAddr,
}

#[derive(Clone, Debug)]
pub struct CatalogConfig {
    /// The folder of a contract that replaces the built-in one.
    pub schemas: Option<PathBuf>,
    /// Operations that are off as shipped and wanted nevertheless.
    pub enable: Vec<String>,
    /// Places of bodies that the contract does not know, as `operation:/pointer`.
    pub further: Vec<String>,
}

/// The Redis that nodes share.
#[derive(Clone, Debug)]
pub struct RedisConfig {
    pub place: RedisPlace,
    /// The authorities to trust instead of the system's.
    pub ca_pem: Option<Vec<u8>>,
    /// How long a call waits for it.
    pub timeout: Duration,
    /// How many nodes share it; at least 1.
    pub nodes: u64,
    /// What it must do as the store; nothing where it is none.
    pub demands: Option<Demands>,
}

/// Where a Redis is.
#[derive(Clone, Debug)]
pub enum RedisPlace {
    /// `redis://` or `rediss://`.
    Url(Secret),
    Sentinels(SentinelsConfig),
}

/// Those who say where a Redis is.
#[derive(Clone, Debug)]
pub struct SentinelsConfig {
    /// Hosts and ports, at least one.
    pub addresses: Vec<(String, u16)>,
    /// What they call the Redis.
    pub master: String,
    /// At the Redis.
    pub login: Login,
    /// At the Sentinels.
    pub sentinel_login: Login,
    /// To both.
    pub tls: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Login {
    pub user: Option<String>,
    pub password: Option<Secret>,
}

/// What a Redis that is the store must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demands {
    pub durability: Durability,
    /// It may evict, and keep nothing on disk.
    pub allow_unsafe: bool,
}

/// How sure a write must be before money leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The Redis has done it.
    Acknowledged,
    /// So many replicas have it as well.
    Replicated { replicas: u64 },
    /// It is on the disk of the Redis.
    Fsynced,
}

/// Where the store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// In a folder of this process alone.
    Embedded,
    /// In the Redis that nodes share.
    Redis,
}

/// What is kept of requestIds.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    pub kind: StoreKind,
    /// Of the embedded store; and where outcomes wait that the store could not be told.
    pub folder: PathBuf,
    /// How long a start waits for it while another process has it.
    pub wait: Duration,
    /// The name of this gate.
    pub node: NodeId,
    /// How long answers are kept.
    pub answers: Duration,
    /// How long after that it is kept that there was one.
    pub spent: Duration,
    /// What is stored is encrypted with the first; the others are of former times.
    pub seal_keys: Vec<(String, Secret)>,
}

/// The audit chain of this node.
#[derive(Clone, Debug)]
pub struct AuditConfig {
    pub folder: PathBuf,
    /// From this size on a new file is begun.
    pub file_bytes: usize,
    /// What its state is signed with.
    pub checkpoint_key: Option<Secret>,
    /// What personal operands of decisions are kept under; without one, a random one in the folder.
    pub operand_key: Option<Secret>,
}

/// What happens when upstream's answer breaks the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerMode {
    /// It passes; the drift is counted and logged.
    Observe,
    /// A read's answer is held back until checked, and refused.
    Enforce,
}

/// What it takes for a set of policies to take force that is not proved to let no more pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loosening {
    /// Nothing: whoever may write the folder decides.
    Free,
    /// Two people agree at the console.
    TwoPeople,
}

#[derive(Clone, Debug)]
pub struct LimitsConfig {
    /// The longest request body.
    pub body_bytes: usize,
    /// All request bodies that are held at one time; at least `body_bytes`.
    pub bodies_bytes: usize,
    /// The longest head of a request.
    pub head_bytes: usize,
    /// The most headers of a request.
    pub headers: usize,
    /// The most connections of a listener at one time.
    pub connections: usize,
    pub connections_per_peer: usize,
    /// After so many requests a connection is closed.
    pub requests_per_connection: usize,
    /// The most requests at one time on an HTTP/2 connection.
    pub streams_per_connection: usize,
    /// The most of an upstream answer that is read whole.
    pub answer_bytes: usize,
}

#[derive(Clone, Debug)]
pub struct TimeoutsConfig {
    /// For the whole head of a request.
    pub head: Duration,
    /// For the whole body of a request.
    pub body: Duration,
    /// For what a caller still sends after a refusal.
    pub drain: Duration,
    /// For the TLS handshake with a caller.
    pub client_handshake: Duration,
    /// To reach upstream.
    pub connect: Duration,
    /// For the TLS handshake with upstream.
    pub tls_handshake: Duration,
    /// For one write to upstream.
    pub write: Duration,
    /// From the last byte sent to the whole answer of a write; to each piece of the answer to a read.
    pub answer: Duration,
    /// For one write to a caller.
    pub client_write: Duration,
    /// How long a caller's connection may be idle.
    pub keepalive: Duration,
    /// How long a connection to upstream may be idle.
    pub upstream_idle: Duration,
    /// How long a shutdown is announced before it begins.
    pub notice: Duration,
    /// How long a shutdown waits for what runs; at least a [`super::LongestWrite`].
    pub grace: Duration,
}

/// Where traces of requests go.
#[derive(Clone, Debug)]
pub struct Collector {
    pub url: String,
    /// What each batch says for itself; it is fit for a header.
    pub authorization: Option<Secret>,
    /// Of requests that come without a trace, one in so many begins one.
    pub one_in: u64,
}

#[derive(Clone, Debug)]
pub struct LogConfig {
    pub format: LogFormat,
    pub level: LogLevel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people on a terminal, JSON elsewhere.
    Auto,
    Json,
    Human,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    /// The one that says a little more; none says more than the last.
    pub fn louder(self) -> LogLevel {
        match self {
            LogLevel::Error => LogLevel::Warn,
            LogLevel::Warn => LogLevel::Info,
            LogLevel::Info => LogLevel::Debug,
            LogLevel::Debug | LogLevel::Trace => LogLevel::Trace,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        }
    }
}
