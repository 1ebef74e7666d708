//! The address of the Redis: fixed, or named by its Sentinels, or by the nodes of its cluster.
//!
//! All Sentinels are asked at once. The answer with the latest failover counts, because a Sentinel that was cut off
//! still names the former primary. One that does not answer in time is ignored.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Client, IntoConnectionInfo as _, RedisConnectionInfo, RedisError, RedisResult};
use thiserror::Error;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::RedisFault;
use super::cluster::{Cluster, ClusterError};
use super::host::{Address, Host, HostAccess, NamedPrimary, certificates, info};
use crate::config::{RedisConfig, RedisPlace, SentinelsConfig};

/// The deadline of a Sentinel, connecting included.
const SENTINEL_ANSWERS: Duration = Duration::from_millis(500);

/// A fixed address, or what names it.
pub(super) enum Endpoint {
    Known(Client),
    Told(Sentinels),
    Cluster(Cluster),
}

pub(super) struct Sentinels {
    all: Vec<Arc<Host>>,
    master: String,
    access: HostAccess,
    login: RedisConnectionInfo,
}

/// A Sentinel's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SentinelAnswer {
    /// Raised with every failover.
    epoch: u64,
    address: Address,
    /// Whether it holds the primary for well, and no failover is under way.
    is_well: bool,
}

/// Why the address is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum EndpointError {
    /// No Sentinel answers in time, or accepts a connection.
    #[error("none of `redis.sentinels` answers")]
    Silent,
    /// No Sentinel that answers knows the primary.
    #[error("none of `redis.sentinels` knows `redis.master`")]
    Unknown,
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

impl Endpoint {
    /// Returns the endpoint of the keys with this hash tag.
    pub fn of(config: &RedisConfig, tag: &str) -> Result<Endpoint, RedisFault> {
        let ca_pem = config.ca_pem.clone();
        match &config.place {
            RedisPlace::Url(url) => {
                let info = url.reveal().into_connection_info().map_err(|_| RedisFault)?;
                let client = match ca_pem {
                    Some(pem) => Client::build_with_tls(info, certificates(pem)),
                    None => Client::open(info),
                };
                client.map(Endpoint::Known).map_err(|_| RedisFault)
            }
            RedisPlace::Sentinels(sentinels) => {
                let access = HostAccess { tls: sentinels.tls, ca_pem };
                Sentinels::of(sentinels, access).map(Endpoint::Told).map_err(|_| RedisFault)
            }
            RedisPlace::Cluster(cluster) => {
                let access = HostAccess { tls: cluster.tls, ca_pem };
                Ok(Endpoint::Cluster(Cluster::of(cluster, access, tag)))
            }
        }
    }

    /// Returns the current primary, if it may change.
    pub async fn named(&self) -> Result<Option<NamedPrimary>, EndpointError> {
        match self {
            Endpoint::Known(_) => Ok(None),
            Endpoint::Told(sentinels) => sentinels.ask().await.map(Some),
            Endpoint::Cluster(cluster) => Ok(Some(cluster.ask().await?)),
        }
    }

    pub fn client(&self, address: Option<&Address>) -> RedisResult<Client> {
        match (self, address) {
            (Endpoint::Told(sentinels), Some(address)) => sentinels.access.client(address, sentinels.login.clone()),
            (Endpoint::Cluster(cluster), Some(address)) => cluster.client(address),
            (Endpoint::Known(client), _) => Ok(client.clone()),
            (Endpoint::Told(_) | Endpoint::Cluster(_), None) => {
                Err(RedisError::from((::redis::ErrorKind::Client, "nobody named its address")))
            }
        }
    }

    pub fn may_change(&self) -> bool {
        !matches!(self, Endpoint::Known(_))
    }
}

impl Sentinels {
    fn of(config: &SentinelsConfig, access: HostAccess) -> RedisResult<Sentinels> {
        let login = info(&config.sentinel_login);
        let one = |address| Ok(Arc::new(Host::of(access.client(address, login.clone())?)));
        let all = config.addresses.iter().map(one).collect::<RedisResult<_>>()?;
        Ok(Sentinels { all, master: config.master.clone(), access, login: info(&config.login) })
    }

    async fn ask(&self) -> Result<NamedPrimary, EndpointError> {
        let mut asked = JoinSet::new();
        for sentinel in &self.all {
            let (sentinel, master) = (Arc::clone(sentinel), self.master.clone());
            asked.spawn(async move { timeout(SENTINEL_ANSWERS, ask_host(&sentinel, &master)).await });
        }
        let mut latest: Result<SentinelAnswer, EndpointError> = Err(EndpointError::Silent);
        let mut well = Vec::new();
        while let Some(answer) = asked.join_next().await {
            if let Ok(Ok(Ok(Some(told)))) = &answer
                && told.is_well
            {
                well.push(told.address.clone());
            }
            latest = match (latest, answer) {
                (Ok(known), Ok(Ok(Ok(Some(told))))) if told.epoch <= known.epoch => Ok(known),
                (_, Ok(Ok(Ok(Some(told))))) => Ok(told),
                (Err(_), Ok(Ok(Ok(None)))) => Err(EndpointError::Unknown),
                (latest, _) => latest,
            };
        }
        let address = latest?.address;
        let count = well.iter().filter(|one| **one == address).count();
        Ok(NamedPrimary { id: None, by_majority: count > self.all.len() / 2, address })
    }
}

/// Returns `None` if the Sentinel does not know the primary.
async fn ask_host(sentinel: &Host, master: &str) -> RedisResult<Option<SentinelAnswer>> {
    let mut connection = sentinel.take().await?;
    let told = ask_sentinel(&mut connection, master).await;
    if told.is_ok() {
        sentinel.put_back(connection).await;
    }
    told
}

async fn ask_sentinel(connection: &mut MultiplexedConnection, master: &str) -> RedisResult<Option<SentinelAnswer>> {
    let address: Option<Address> =
        ::redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(master).query_async(connection).await?;
    let Some(address) = address else { return Ok(None) };
    let said: HashMap<String, String> =
        ::redis::cmd("SENTINEL").arg("MASTER").arg(master).query_async(connection).await?;
    let epoch = said.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
    let flags = said.get("flags").map_or("", String::as_str);
    let is_well = !["down", "failover"].iter().any(|flag| flags.contains(flag));
    Ok(Some(SentinelAnswer { epoch, address, is_well }))
}
