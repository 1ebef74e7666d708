//! The Redis that nodes share, as it is meant.

use std::time::Duration;

use crate::base::secret::Secret;

/// The Redis that nodes share.
#[derive(Clone, Debug)]
pub struct RedisConfig {
    pub place: RedisPlace,
    /// The authorities to trust instead of the system's.
    pub ca_pem: Option<Vec<u8>>,
    /// The deadline of a call to it.
    pub timeout: Duration,
    /// How many nodes share it; at least 1.
    pub nodes: u64,
    /// How long a promoted primary carries no money; `None` where its address is fixed.
    pub fence: Option<Duration>,
    /// The demands on it as the store; `None` if it is not the store.
    pub demands: Option<Demands>,
}

/// The address of a Redis.
#[derive(Clone, Debug)]
pub enum RedisPlace {
    /// `redis://` or `rediss://`.
    Url(Secret),
    Sentinels(SentinelsConfig),
    Cluster(ClusterConfig),
}

/// The Sentinels that name the Redis.
#[derive(Clone, Debug)]
pub struct SentinelsConfig {
    /// Hosts and ports, at least one.
    pub addresses: Vec<(String, u16)>,
    /// The name of the Redis at the Sentinels.
    pub master: String,
    /// The login at the Redis.
    pub login: Login,
    /// The login at the Sentinels.
    pub sentinel_login: Login,
    /// Whether both are reached by TLS.
    pub tls: bool,
}

/// Nodes of a Redis Cluster.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// Hosts and ports, at least one.
    pub addresses: Vec<(String, u16)>,
    /// The login at every node.
    pub login: Login,
    /// Whether they are reached by TLS.
    pub tls: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Login {
    pub user: Option<String>,
    pub password: Option<Secret>,
}

/// The demands on a Redis that is the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demands {
    pub durability: Durability,
    /// Whether it may evict records, and keep nothing on disk.
    pub allow_unsafe: bool,
    pub trusted: TrustedTraits,
}

/// The traits of a Redis that are trusted where it does not report them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrustedTraits {
    /// It keeps every write that it acknowledged, also through a failover.
    pub persistence: bool,
    /// It evicts no record.
    pub eviction: bool,
    /// A restart or a failover that its `INFO` does not show loses nothing.
    pub run: bool,
}

/// How durable a write must be before money leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The primary has confirmed it.
    Acknowledged,
    /// This many replicas have it as well.
    Replicated { replicas: u64 },
    /// The commit is on the disk of the Redis.
    Fsynced,
}
