//! The connections to the Redis that nodes share: one for everything, or in a cluster one for each environment and one for
//! the rates, whose keys may lie on different shards.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::fence::Fence;
use super::{NotReady, Redis, RedisFault};
use crate::base::ids::Environment;
use crate::config::{RedisConfig, RedisPlace};
use crate::ledger::WriteRefusal;
use crate::telemetry::Metrics;

/// The keys that one connection serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShardKeys {
    /// Those of the store and of the rates, as all are in one Redis.
    All,
    Of(Environment),
    Rates,
}

/// The connections to the Redis.
#[derive(Clone, Debug)]
pub struct ShardConnections {
    production: Arc<Redis>,
    sandbox: Arc<Redis>,
    rates: Arc<Redis>,
}

/// The state that the connections of one gate share.
#[derive(Debug)]
pub(super) struct ShardState {
    pub fence: Arc<Fence>,
    /// Counts the connections.
    pub stood: watch::Sender<u64>,
    /// Those that are away, or refuse writes.
    down: Mutex<BTreeSet<ShardKeys>>,
}

impl ShardKeys {
    /// Returns the hash tag of these keys.
    pub(super) fn tag(self) -> &'static str {
        match self {
            ShardKeys::All | ShardKeys::Rates => "rates",
            ShardKeys::Of(environment) => environment.as_str(),
        }
    }

    /// Returns the environments whose store these keys are.
    pub(super) fn environments(&self) -> &[Environment] {
        match self {
            ShardKeys::All => &Environment::ALL,
            ShardKeys::Of(environment) => std::slice::from_ref(environment),
            ShardKeys::Rates => &[],
        }
    }

    /// Returns a key that never exists, among those that the Redis user may write.
    pub(super) fn unused_key(self) -> String {
        match self {
            ShardKeys::All | ShardKeys::Rates => "{rates}:write-check".to_owned(),
            ShardKeys::Of(environment) => format!("sluice:{{{environment}}}:write-check"),
        }
    }
}

impl ShardState {
    pub fn of(config: &RedisConfig) -> ShardState {
        let (stood, down) = (watch::Sender::new(0), Mutex::default());
        ShardState { fence: Arc::new(Fence::new(config.fence)), stood, down }
    }

    /// Notes whether one connection can be used; returns whether all can.
    pub fn tell(&self, keys: ShardKeys, is_up: bool) -> bool {
        let mut down = self.down.lock().unwrap_or_else(PoisonError::into_inner);
        if is_up {
            down.remove(&keys);
        } else {
            down.insert(keys);
        }
        down.is_empty()
    }
}

impl ShardConnections {
    /// Creates the connections; they are not connected yet.
    pub fn new(config: &RedisConfig, metrics: &Metrics) -> Result<ShardConnections, RedisFault> {
        let RedisPlace::Cluster(_) = &config.place else {
            return Ok(Arc::new(Redis::new(config, metrics.clone())?).into());
        };
        let state = Arc::new(ShardState::of(config));
        let one = |keys| Redis::of_keys(config, metrics.clone(), keys, &state).map(Arc::new);
        Ok(ShardConnections {
            production: one(ShardKeys::Of(Environment::Production))?,
            sandbox: one(ShardKeys::Of(Environment::Sandbox))?,
            rates: one(ShardKeys::Rates)?,
        })
    }

    /// Returns the connection to the store of an environment.
    pub fn of(&self, environment: Environment) -> &Arc<Redis> {
        match environment {
            Environment::Production => &self.production,
            Environment::Sandbox => &self.sandbox,
        }
    }

    /// Returns the connection to the rates.
    pub fn rates(&self) -> &Arc<Redis> {
        &self.rates
    }

    /// Returns the fence against a split.
    pub fn fence(&self) -> &Arc<Fence> {
        self.production.fence()
    }

    /// Returns a value that changes with every new connection.
    pub fn connections(&self) -> watch::Receiver<u64> {
        self.production.connections()
    }

    /// Returns why the store of an environment refuses writes, as far as is known.
    pub fn refusal(&self) -> Option<WriteRefusal> {
        self.production.refusal().or(self.sandbox.refusal())
    }

    /// Connects, and reconnects, as long as it is run.
    pub async fn keep_connected(self) {
        if Arc::ptr_eq(&self.production, &self.rates) {
            return self.rates.keep_connected().await;
        }
        let (production, sandbox) = (self.production.keep_connected(), self.sandbox.keep_connected());
        tokio::join!(production, sandbox, self.rates.keep_connected());
    }

    /// Returns when the stores of all environments are connected and meet all demands.
    pub async fn ready_within(&self, time: Duration) -> Result<(), NotReady> {
        let ready = async {
            let (production, sandbox) =
                tokio::join!(self.production.ready_within(time), self.sandbox.ready_within(time));
            production.and(sandbox)
        };
        timeout(time, ready).await.unwrap_or(Err(NotReady::Away))
    }
}

impl From<Arc<Redis>> for ShardConnections {
    fn from(redis: Arc<Redis>) -> ShardConnections {
        ShardConnections { production: redis.clone(), sandbox: redis.clone(), rates: redis }
    }
}
