//! The settings as written: each value of the right type, with the place that it comes from.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::belief::{BeliefConfig, UnlistedMode};
use super::fault::SettingPlace;
use super::heading::Heading;
use super::meant::{
    AnswerMode, AuditConfig, CatalogConfig, ClientsConfig, Collector, Config, ConsoleConfig, CredentialConfig,
    CredentialSource, EnvironmentConfig, FollowConfig, HoldsMode, IssuerConfig, KeySource, ListenerTls, LogConfig,
    LogFormat, LogLevel, Loosening, ProbesConfig, ReconcileConfig, StoreConfig, StoreKind, SubjectForm, TimeoutsConfig,
    UnwitnessedMode, UpstreamConfig, WitnessingConfig,
};
use super::pem::PemKey;
use super::url::is_loopback;
use crate::base::ids::Environment;
use crate::base::secret::Secret;
use crate::base::word_enum::word_enum;
use crate::ledger::{InstallationId, NodeId};
use crate::stations::admit::{Algorithm, FieldPath};
use crate::stations::check::RequestIdPrefixes;

mod console;
mod limits;
mod redis;
mod webhook;
mod witness;

pub(super) use console::WrittenConsole;
pub(super) use webhook::WrittenWebhook;
pub(super) use witness::WrittenWitness;

/// Every setting that has a value, from the file, from the environment or by default.
#[derive(Default)]
pub(super) struct WrittenConfig {
    /// The settings that are written with values that were refused.
    pub refused: BTreeSet<String>,
    pub production: WrittenEnvironment,
    pub sandbox: WrittenEnvironment,
    pub issuers: Vec<WrittenIssuer>,
    /// The issuer whose section is being read; `end_named` moves it to the list.
    pub issuer: WrittenIssuer,
    pub console: WrittenConsole,
    pub webhooks: Vec<WrittenWebhook>,
    /// The webhook whose section is being read; `end_named` moves it to the list.
    pub webhook: WrittenWebhook,
    pub witnesses: Vec<WrittenWitness>,
    /// The witness whose section is being read; `end_named` moves it to the list.
    pub witness: WrittenWitness,
    pub answers: Option<Placed<AnswerMode>>,
    pub policies: Option<Placed<PathBuf>>,
    pub policies_root: Option<Placed<String>>,
    pub loosening: Option<Placed<Loosening>>,
    pub request_id_prefixes: Option<Placed<Vec<String>>>,
    pub probes_listen: Option<Placed<SocketAddr>>,
    pub probes_hosts: Option<Placed<Vec<String>>>,
    pub schemas: Option<Placed<PathBuf>>,
    pub enable: Option<Placed<Vec<String>>>,
    pub further: Option<Placed<Vec<String>>>,
    pub redis_url: Option<Placed<Secret>>,
    pub redis_sentinels: Option<Placed<Vec<(String, u16)>>>,
    pub redis_cluster: Option<Placed<Vec<(String, u16)>>>,
    pub redis_master: Option<Placed<String>>,
    pub redis_user: Option<Placed<String>>,
    pub redis_password: Option<Placed<Secret>>,
    pub sentinel_user: Option<Placed<String>>,
    pub sentinel_password: Option<Placed<Secret>>,
    pub redis_tls: Option<Placed<bool>>,
    pub redis_ca: Option<Placed<Vec<u8>>>,
    pub redis_timeout: Option<Placed<Duration>>,
    pub redis_fence: Option<Placed<Duration>>,
    pub redis_allow_split: Option<Placed<bool>>,
    pub redis_nodes: Option<Placed<usize>>,
    pub redis_durability: Option<Placed<DurabilityWord>>,
    pub redis_replicas: Option<Placed<usize>>,
    pub redis_allow_unsafe: Option<Placed<bool>>,
    pub redis_trusted: Option<Placed<Vec<TrustedWord>>>,
    pub store_kind: Option<Placed<StoreKind>>,
    pub store_folder: Option<Placed<PathBuf>>,
    pub store_wait: Option<Placed<Duration>>,
    pub node: Option<Placed<NodeId>>,
    pub installation: Option<Placed<String>>,
    pub all_nodes: Option<Placed<Vec<String>>>,
    pub journal_copies: Option<Placed<usize>>,
    pub answers_days: Option<Placed<usize>>,
    pub spent_days: Option<Placed<usize>>,
    pub seal_key: Option<Placed<Secret>>,
    pub seal_key_id: Option<Placed<String>>,
    pub allow_plain: Option<Placed<bool>>,
    pub former_seal_key: Option<Placed<Secret>>,
    pub former_seal_key_id: Option<Placed<String>>,
    pub checkpoint_key: Option<Placed<Secret>>,
    pub witnesses_needed: Option<Placed<usize>>,
    pub unwitnessed: Option<Placed<UnwitnessedMode>>,
    pub unwitnessed_within: Option<Placed<Duration>>,
    pub checkpoint_seconds: Option<Placed<Duration>>,
    pub operand_key: Option<Placed<Secret>>,
    pub audit_folder: Option<Placed<PathBuf>>,
    pub audit_file_bytes: Option<Placed<usize>>,
    pub production_bytes: Option<Placed<usize>>,
    pub first_look: Option<Placed<Duration>>,
    pub pause: Option<Placed<Duration>>,
    pub longest_pause: Option<Placed<Duration>>,
    pub follow_enabled: Option<Placed<bool>>,
    pub follow_interval: Option<Placed<Duration>>,
    pub follow_longest_pause: Option<Placed<Duration>>,
    pub follow_overlap: Option<Placed<Duration>>,
    pub follow_pages: Option<Placed<usize>>,
    pub follow_days: Option<Placed<usize>>,
    pub body_bytes: Option<Placed<usize>>,
    pub bodies_bytes: Option<Placed<usize>>,
    pub holds: Option<Placed<usize>>,
    pub holds_bytes: Option<Placed<usize>>,
    pub refusals: Option<Placed<usize>>,
    pub buffered_bytes: Option<Placed<usize>>,
    pub calls: Option<Placed<usize>>,
    pub head_bytes: Option<Placed<usize>>,
    pub headers: Option<Placed<usize>>,
    pub connections: Option<Placed<usize>>,
    pub connections_per_peer: Option<Placed<usize>>,
    pub requests_per_connection: Option<Placed<usize>>,
    pub streams_per_connection: Option<Placed<usize>>,
    pub answer_bytes: Option<Placed<usize>>,
    pub answers_bytes: Option<Placed<usize>>,
    pub head: Option<Placed<Duration>>,
    pub body: Option<Placed<Duration>>,
    pub drain: Option<Placed<Duration>>,
    pub client_handshake: Option<Placed<Duration>>,
    pub commit: Option<Placed<Duration>>,
    pub connect: Option<Placed<Duration>>,
    pub tls_handshake: Option<Placed<Duration>>,
    pub write: Option<Placed<Duration>>,
    pub answer: Option<Placed<Duration>>,
    pub upstream_max: Option<Placed<Duration>>,
    pub client_write: Option<Placed<Duration>>,
    pub keepalive: Option<Placed<Duration>>,
    pub upstream_idle: Option<Placed<Duration>>,
    pub notice: Option<Placed<Duration>>,
    pub grace: Option<Placed<Duration>>,
    pub log_format: Option<Placed<LogFormat>>,
    pub log_level: Option<Placed<LogLevel>>,
    pub otlp: Option<Placed<String>>,
    pub otlp_authorization: Option<Placed<Secret>>,
    pub trace_one_in: Option<Placed<usize>>,
    pub threads: Option<Placed<usize>>,
}

word_enum! {
    /// A durability as written, without its number.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum DurabilityWord {
        Acknowledged = "acknowledged",
        Replicated = "replicated",
        Fsynced = "fsynced",
    }
}

word_enum! {
    /// What is trusted of a Redis that does not report it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum TrustedWord {
        Persistence = "persistence",
        Eviction = "eviction",
        Run = "run",
    }
}

#[derive(Default)]
pub(super) struct WrittenEnvironment {
    pub listen: Option<Placed<SocketAddr>>,
    pub tls_certificate: Option<Placed<Vec<u8>>>,
    pub tls_key: Option<Placed<Secret>>,
    pub client_ca: Option<Placed<Vec<u8>>>,
    pub client_revoked: Option<Placed<RevokedFile>>,
    /// Without its authorities, which are a separate setting.
    pub upstream: Option<Placed<UpstreamConfig>>,
    pub upstream_ca: Option<Placed<Vec<u8>>>,
    pub allow_plain_upstream: Option<Placed<bool>>,
    pub upstream_behind_proxy: Option<Placed<bool>>,
    pub ask_date: Option<Placed<bool>>,
    pub unlisted: Option<Placed<UnlistedMode>>,
    pub credential: Option<Placed<CredentialSource>>,
}

/// The path of a file of revocation lists, and its content when the configuration was read.
pub(super) struct RevokedFile {
    pub path: PathBuf,
    pub content: Vec<u8>,
}

#[derive(Default)]
pub(super) struct WrittenIssuer {
    pub name: String,
    pub issuer: Option<Placed<String>>,
    pub audiences: Option<Placed<Vec<String>>>,
    pub environments: Option<Placed<Vec<Environment>>>,
    pub algorithms: Option<Placed<Vec<Algorithm>>>,
    pub jwks_url: Option<Placed<String>>,
    pub jwks_ca: Option<Placed<Vec<u8>>>,
    pub jwks_keep: Option<Placed<PathBuf>>,
    pub jwks_file: Option<Placed<PathBuf>>,
    pub public_key: Option<Placed<PemKey>>,
    pub shared_secret: Option<Placed<Secret>>,
    pub longest_stale: Option<Placed<Duration>>,
    pub leeway: Option<Placed<Duration>>,
    pub longest_lifetime: Option<Placed<Duration>>,
    pub required: Option<Placed<Vec<FieldPath>>>,
    pub roles: Option<Placed<FieldPath>>,
    pub requester: Option<Placed<FieldPath>>,
    pub holds: Option<Placed<HoldsMode>>,
    pub subjects: Option<Placed<SubjectForm>>,
}

impl WrittenConfig {
    /// Whether nodes share a Redis.
    pub fn has_redis(&self) -> bool {
        self.redis_url.is_some() || self.redis_sentinels.is_some() || self.redis_cluster.is_some()
    }

    pub fn environment(&self, environment: Environment) -> &WrittenEnvironment {
        match environment {
            Environment::Production => &self.production,
            Environment::Sandbox => &self.sandbox,
        }
    }

    /// Ends a section of a kind that may occur several times.
    pub fn end_named(&mut self, heading: &Heading) {
        let name = heading.name.clone();
        match heading.section {
            "webhook" => self.webhooks.push(WrittenWebhook { name, ..std::mem::take(&mut self.webhook) }),
            "witness" => self.witnesses.push(WrittenWitness { name, ..std::mem::take(&mut self.witness) }),
            _ => self.issuers.push(WrittenIssuer { name, ..std::mem::take(&mut self.issuer) }),
        }
    }

    /// Returns the complete configuration; `None` if a required setting has no value.
    pub fn meant(mut self) -> Option<Config> {
        let limits = self.limits()?;
        let redis = redis::take(&mut self)?;
        let console = self.console.meant(&self.issuers)?;
        let environments = [(Environment::Production, self.production), (Environment::Sandbox, self.sandbox)];
        let environments = environments.into_iter().filter(|(_, of)| of.listen.is_some());
        let kind = self.store_kind?.value;
        Some(Config {
            environments: environments.map(|(environment, of)| of.meant(environment)).collect::<Option<_>>()?,
            issuers: self.issuers.into_iter().map(|one| one.meant(console.as_ref())).collect::<Option<_>>()?,
            console,
            webhooks: self.webhooks.into_iter().map(WrittenWebhook::meant).collect::<Option<_>>()?,
            probes: ProbesConfig { listen: self.probes_listen?.value, hosts: self.probes_hosts?.value },
            catalog: CatalogConfig {
                schemas: self.schemas.map(|s| s.value),
                enable: self.enable?.value,
                further: self.further?.value,
            },
            answers: self.answers?.value,
            policies: self.policies.map(|p| p.value),
            policies_root: self.policies_root.map(|root| root.value),
            loosening: self.loosening?.value,
            request_id_prefixes: RequestIdPrefixes::parse(&self.request_id_prefixes?.value)?,
            redis,
            store: StoreConfig {
                kind,
                folder: self.store_folder?.value,
                wait: self.store_wait?.value,
                node: self.node?.value,
                installation: self.installation.and_then(|id| InstallationId::parse(&id.value)),
                nodes: self.all_nodes.map_or_else(Vec::new, |all| node_ids(&all.value)),
                copies: self.journal_copies?.value,
                answers: days(self.answers_days?.value),
                spent: days(self.spent_days?.value),
                seal_keys: named_keys([
                    (self.seal_key_id, self.seal_key),
                    (self.former_seal_key_id, self.former_seal_key),
                ]),
                allow_plain: self.allow_plain?.value,
            },
            audit: AuditConfig {
                folder: self.audit_folder?.value,
                file_bytes: self.audit_file_bytes?.value,
                production_bytes: self.production_bytes?.value,
                checkpoint_key: self.checkpoint_key.map(|key| key.value),
                checkpoint_every: self.checkpoint_seconds?.value,
                witnessing: WitnessingConfig {
                    needed: self.witnesses_needed.map_or(self.witnesses.len(), |needed| needed.value),
                    witnesses: self.witnesses.into_iter().map(WrittenWitness::meant).collect::<Option<_>>()?,
                    within: self.unwitnessed_within?.value,
                    unwitnessed: self.unwitnessed?.value,
                },
                operand_key: self.operand_key.map(|key| key.value),
            },
            reconcile: ReconcileConfig {
                first_look: self.first_look?.value,
                pause: self.pause?.value,
                longest_pause: self.longest_pause?.value,
            },
            follow: FollowConfig {
                is_enabled: self.follow_enabled?.value,
                interval: self.follow_interval?.value,
                longest_pause: self.follow_longest_pause?.value,
                overlap: self.follow_overlap?.value,
                pages: self.follow_pages?.value,
                reach: days(self.follow_days?.value),
            },
            limits,
            timeouts: TimeoutsConfig {
                head: self.head?.value,
                body: self.body?.value,
                drain: self.drain?.value,
                client_handshake: self.client_handshake?.value,
                commit: self.commit?.value,
                connect: self.connect?.value,
                tls_handshake: self.tls_handshake?.value,
                write: self.write?.value,
                answer: self.answer?.value,
                upstream_max: self.upstream_max?.value,
                client_write: self.client_write?.value,
                keepalive: self.keepalive?.value,
                upstream_idle: self.upstream_idle?.value,
                notice: self.notice?.value,
                grace: self.grace?.value,
            },
            log: LogConfig { format: self.log_format?.value, level: self.log_level?.value },
            traces: match self.otlp {
                None => None,
                Some(url) => Some(Collector {
                    url: url.value,
                    authorization: self.otlp_authorization.map(|authorization| authorization.value),
                    one_in: u64::try_from(self.trace_one_in?.value).ok()?,
                }),
            },
            threads: self.threads?.value,
        })
    }
}

impl WrittenEnvironment {
    fn meant(self, environment: Environment) -> Option<EnvironmentConfig> {
        let clients = match (self.client_ca, self.client_revoked) {
            (Some(ca), revoked) => {
                Some(ClientsConfig { ca_pem: ca.value, revoked: revoked.map(|file| file.value.path) })
            }
            (None, None) => None,
            (None, Some(_)) => return None,
        };
        let tls = tls(self.tls_certificate, self.tls_key, clients)?;
        let upstream = UpstreamConfig { ca_pem: self.upstream_ca.map(|ca| ca.value), ..self.upstream?.value };
        let credential = match self.credential {
            Some(credential) => CredentialConfig::Inject(credential.value),
            None => CredentialConfig::Forward,
        };
        let is_own_line = upstream.tls || is_loopback(&upstream.host);
        let belief = BeliefConfig {
            is_direct: is_own_line && !self.upstream_behind_proxy?.value,
            unlisted: self.unlisted?.value,
        };
        let asks_date = self.ask_date?.value;
        Some(EnvironmentConfig {
            environment,
            listen: self.listen?.value,
            tls,
            upstream,
            asks_date,
            credential,
            belief,
        })
    }
}

/// Returns the TLS of a listener; one that was to use TLS or check certificates never runs without.
fn tls(
    certificate: Option<Placed<Vec<u8>>>,
    key: Option<Placed<Secret>>,
    clients: Option<ClientsConfig>,
) -> Option<Option<ListenerTls>> {
    match (certificate, key) {
        (Some(certificate), Some(key)) => {
            Some(Some(ListenerTls { certificates_pem: certificate.value, key_pem: key.value, clients }))
        }
        (None, None) if clients.is_none() => Some(None),
        _ => None,
    }
}

impl WrittenIssuer {
    /// Returns whether callers have tokens of it, too.
    pub fn is_for_callers(&self) -> bool {
        self.environments.as_ref().is_some_and(|environments| !environments.value.is_empty())
    }

    fn meant(self, console: Option<&ConsoleConfig>) -> Option<IssuerConfig> {
        let of_people = console.filter(|console| console.issuer == self.name).map(|console| console.audiences.clone());
        let (ca_pem, keep) = (self.jwks_ca.map(|ca| ca.value), self.jwks_keep.map(|keep| keep.value));
        let keys = match (self.jwks_url, self.jwks_file, self.public_key, self.shared_secret) {
            (Some(url), None, None, None) => KeySource::Url { url: url.value, ca_pem, keep },
            (None, Some(file), None, None) => KeySource::File(file.value),
            (None, None, Some(key), None) => KeySource::Pem(key.value.pem),
            (None, None, None, Some(secret)) => KeySource::Shared(secret.value),
            _ => return None,
        };
        Some(IssuerConfig {
            name: self.name,
            issuer: self.issuer?.value,
            audiences: self.audiences?.value,
            people_audiences: of_people.unwrap_or_default(),
            environments: self.environments?.value,
            algorithms: self.algorithms?.value,
            keys,
            longest_stale: self.longest_stale?.value,
            leeway: self.leeway?.value,
            longest_lifetime: self.longest_lifetime?.value,
            required: self.required?.value,
            roles: self.roles.map(|roles| roles.value),
            requester: self.requester?.value,
            holds: self.holds?.value,
            subjects: self.subjects?.value,
        })
    }
}

/// A name and a key, either of which may not be set.
type NamedKey = (Option<Placed<String>>, Option<Placed<Secret>>);

/// Returns the keys that are set, with their names.
fn named_keys(written: [NamedKey; 2]) -> Vec<(String, Secret)> {
    written.into_iter().filter_map(|(id, key)| Some((id?.value, key?.value))).collect()
}

fn days(count: usize) -> Duration {
    Duration::from_hours(u64::try_from(count).unwrap_or(u64::MAX).saturating_mul(24))
}

/// Where the value of a setting is stored.
pub(super) type SettingSlot<T> = fn(&mut WrittenConfig) -> &mut Option<Placed<T>>;

pub(super) struct Placed<T> {
    pub value: T,
    pub place: SettingPlace,
}

/// Names that are none are refused where combinations are checked.
fn node_ids(names: &[String]) -> Vec<NodeId> {
    names.iter().filter_map(|name| NodeId::parse(name)).collect()
}
