//! The address of the Redis: fixed, or named by its Sentinels.
//!
//! All Sentinels are asked at once. The answer with the latest failover counts, because a Sentinel that was cut off
//! still names the former primary. One that does not answer in time is ignored.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo as _, RedisConnectionInfo, RedisError,
    RedisResult, TlsCertificates,
};
use thiserror::Error;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::RedisFault;
use crate::config::{Login, RedisConfig, RedisPlace, SentinelsConfig};

/// The deadline of a Sentinel, connecting included.
const SENTINEL_ANSWERS: Duration = Duration::from_millis(500);

/// A fixed address, or Sentinels that name it.
pub(super) enum Endpoint {
    Known(Client),
    Told(Sentinels),
}

pub(super) struct Sentinels {
    all: Vec<Arc<Sentinel>>,
    master: String,
    way: SentinelWay,
    login: RedisConnectionInfo,
}

struct Sentinel {
    client: Client,
    /// The connection that was used last.
    connection: Mutex<Option<MultiplexedConnection>>,
}

/// How hosts are reached.
struct SentinelWay {
    tls: bool,
    ca_pem: Option<Vec<u8>>,
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

/// The primary, as the Sentinels name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedPrimary {
    pub address: Address,
    /// Whether more than half of all Sentinels name it, and hold it for well.
    pub by_majority: bool,
}

/// The host as it was named, and the port.
pub(super) type Address = (String, u16);

/// Why the address is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum SentinelError {
    /// No Sentinel answers in time, or accepts a connection.
    #[error("none of `redis.sentinels` answers")]
    Silent,
    /// No Sentinel that answers knows the primary.
    #[error("none of `redis.sentinels` knows `redis.master`")]
    Unknown,
}

impl Endpoint {
    pub fn of(config: &RedisConfig) -> Result<Endpoint, RedisFault> {
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
                let way = SentinelWay { tls: sentinels.tls, ca_pem };
                Sentinels::of(sentinels, way).map(Endpoint::Told).map_err(|_| RedisFault)
            }
        }
    }

    /// Returns the current primary, if it may change.
    pub async fn named(&self) -> Result<Option<NamedPrimary>, SentinelError> {
        match self {
            Endpoint::Known(_) => Ok(None),
            Endpoint::Told(sentinels) => sentinels.ask().await.map(Some),
        }
    }

    pub fn client(&self, address: Option<&Address>) -> RedisResult<Client> {
        match (self, address) {
            (Endpoint::Told(sentinels), Some(address)) => sentinels.way.client(address, sentinels.login.clone()),
            (Endpoint::Known(client), _) => Ok(client.clone()),
            (Endpoint::Told(_), None) => {
                Err(RedisError::from((::redis::ErrorKind::Client, "no Sentinel named its address")))
            }
        }
    }

    pub fn may_change(&self) -> bool {
        matches!(self, Endpoint::Told(_))
    }
}

impl Sentinels {
    fn of(config: &SentinelsConfig, way: SentinelWay) -> RedisResult<Sentinels> {
        let login = info(&config.sentinel_login);
        let one = |address| {
            let client = way.client(address, login.clone())?;
            Ok(Arc::new(Sentinel { client, connection: Mutex::default() }))
        };
        let all = config.addresses.iter().map(one).collect::<RedisResult<_>>()?;
        Ok(Sentinels { all, master: config.master.clone(), way, login: info(&config.login) })
    }

    async fn ask(&self) -> Result<NamedPrimary, SentinelError> {
        let mut asked = JoinSet::new();
        for sentinel in &self.all {
            let (sentinel, master) = (Arc::clone(sentinel), self.master.clone());
            asked.spawn(async move { timeout(SENTINEL_ANSWERS, sentinel.ask(&master)).await });
        }
        let mut latest: Result<SentinelAnswer, SentinelError> = Err(SentinelError::Silent);
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
                (Err(_), Ok(Ok(Ok(None)))) => Err(SentinelError::Unknown),
                (latest, _) => latest,
            };
        }
        let address = latest?.address;
        let count = well.iter().filter(|one| **one == address).count();
        Ok(NamedPrimary { by_majority: count > self.all.len() / 2, address })
    }
}

impl Sentinel {
    /// Returns `None` if the Sentinel does not know the primary.
    async fn ask(&self, master: &str) -> RedisResult<Option<SentinelAnswer>> {
        let mut kept = self.connection.lock().await;
        // Taken out, so that a connection that is abandoned in the middle is not used again.
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => self.client.get_multiplexed_async_connection_with_config(&without_deadlines()).await?,
        };
        let told = ask_sentinel(&mut connection, master).await;
        if told.is_ok() {
            *kept = Some(connection);
        }
        told
    }
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

impl SentinelWay {
    fn client(&self, (host, port): &Address, login: RedisConnectionInfo) -> RedisResult<Client> {
        let (host, port) = (host.clone(), *port);
        let address = match self.tls {
            true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            false => ConnectionAddr::Tcp(host, port),
        };
        let info = address.into_connection_info()?.set_redis_settings(login);
        match self.ca_pem.clone().filter(|_| self.tls) {
            Some(pem) => Client::build_with_tls(info, certificates(pem)),
            None => Client::open(info),
        }
    }
}

fn info(login: &Login) -> RedisConnectionInfo {
    let mut info = RedisConnectionInfo::default();
    if let Some(user) = &login.user {
        info = info.set_username(user);
    }
    match &login.password {
        Some(password) => info.set_password(password.reveal()),
        None => info,
    }
}

fn certificates(root: Vec<u8>) -> TlsCertificates {
    TlsCertificates { client_tls: None, root_cert: Some(root) }
}

/// Returns a configuration without deadlines; callers keep their own.
pub(super) fn without_deadlines() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_connection_timeout(Some(super::CONNECT)).set_response_timeout(None)
}
