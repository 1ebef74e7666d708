//! Where the Redis is: at an address that never changes, or where its Sentinels say.
//!
//! All Sentinels are asked at once. Of what they say, the latest failover counts: one that was cut off from the others
//! still names the Redis of former times. Who does not answer in time is not waited for.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo as _, RedisConnectionInfo, RedisError,
    RedisResult, TlsCertificates,
};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::RedisFault;
use crate::config::{Login, RedisConfig, RedisPlace, SentinelsConfig};

/// How long a Sentinel is waited for, connecting included.
const SENTINEL_ANSWERS: Duration = Duration::from_millis(500);

/// See the module.
pub(super) enum Place {
    Known(Client),
    Told(Sentinels),
}

pub(super) struct Sentinels {
    all: Vec<Arc<Sentinel>>,
    master: String,
    way: Way,
    login: RedisConnectionInfo,
}

struct Sentinel {
    client: Client,
    /// The one that was used last.
    connection: Mutex<Option<MultiplexedConnection>>,
}

/// How hosts are reached.
struct Way {
    tls: bool,
    ca_pem: Option<Vec<u8>>,
}

/// What a Sentinel says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    /// It grows with every failover.
    epoch: u64,
    address: Address,
}

/// The host as it was named, and the port.
pub(super) type Address = (String, u16);

/// Why nobody says where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Untold {
    /// No Sentinel answers in time, or none lets itself be asked.
    Silent,
    /// None of those that answer knows it.
    Unknown,
}

impl fmt::Display for Untold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Untold::Silent => "none of `redis.sentinels` answers",
            Untold::Unknown => "none of `redis.sentinels` knows `redis.master`",
        })
    }
}

impl Place {
    pub fn of(config: &RedisConfig) -> Result<Place, RedisFault> {
        let ca_pem = config.ca_pem.clone();
        match &config.place {
            RedisPlace::Url(url) => {
                let info = url.reveal().into_connection_info().map_err(|_| RedisFault)?;
                let client = match ca_pem {
                    Some(pem) => Client::build_with_tls(info, certificates(pem)),
                    None => Client::open(info),
                };
                client.map(Place::Known).map_err(|_| RedisFault)
            }
            RedisPlace::Sentinels(sentinels) => {
                let way = Way { tls: sentinels.tls, ca_pem };
                Sentinels::of(sentinels, way).map(Place::Told).map_err(|_| RedisFault)
            }
        }
    }

    /// Where it is now, if that may change.
    pub async fn address(&self) -> Result<Option<Address>, Untold> {
        match self {
            Place::Known(_) => Ok(None),
            Place::Told(sentinels) => sentinels.ask().await.map(Some),
        }
    }

    pub fn client(&self, address: Option<&Address>) -> RedisResult<Client> {
        match (self, address) {
            (Place::Told(sentinels), Some(address)) => sentinels.way.client(address, sentinels.login.clone()),
            (Place::Known(client), _) => Ok(client.clone()),
            (Place::Told(_), None) => Err(RedisError::from((::redis::ErrorKind::Client, "nobody said where it is"))),
        }
    }

    pub fn may_change(&self) -> bool {
        matches!(self, Place::Told(_))
    }
}

impl Sentinels {
    fn of(config: &SentinelsConfig, way: Way) -> RedisResult<Sentinels> {
        let login = info(&config.sentinel_login);
        let one = |address| {
            let client = way.client(address, login.clone())?;
            Ok(Arc::new(Sentinel { client, connection: Mutex::default() }))
        };
        let all = config.addresses.iter().map(one).collect::<RedisResult<_>>()?;
        Ok(Sentinels { all, master: config.master.clone(), way, login: info(&config.login) })
    }

    async fn ask(&self) -> Result<Address, Untold> {
        let mut asked = JoinSet::new();
        for sentinel in &self.all {
            let (sentinel, master) = (Arc::clone(sentinel), self.master.clone());
            asked.spawn(async move { timeout(SENTINEL_ANSWERS, sentinel.ask(&master)).await });
        }
        let mut latest: Result<Told, Untold> = Err(Untold::Silent);
        while let Some(answer) = asked.join_next().await {
            latest = match (latest, answer) {
                (Ok(known), Ok(Ok(Ok(Some(told))))) if told.epoch <= known.epoch => Ok(known),
                (_, Ok(Ok(Ok(Some(told))))) => Ok(told),
                (Err(_), Ok(Ok(Ok(None)))) => Err(Untold::Unknown),
                (latest, _) => latest,
            };
        }
        latest.map(|told| told.address)
    }
}

impl Sentinel {
    /// Nothing if it does not know it.
    async fn ask(&self, master: &str) -> RedisResult<Option<Told>> {
        let mut kept = self.connection.lock().await;
        // Taken out, so that one that was given up in the middle is not used again.
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => self.client.get_multiplexed_async_connection_with_config(&plain()).await?,
        };
        let told = told(&mut connection, master).await;
        if told.is_ok() {
            *kept = Some(connection);
        }
        told
    }
}

async fn told(connection: &mut MultiplexedConnection, master: &str) -> RedisResult<Option<Told>> {
    let address: Option<Address> =
        ::redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(master).query_async(connection).await?;
    let Some(address) = address else { return Ok(None) };
    let said: HashMap<String, String> =
        ::redis::cmd("SENTINEL").arg("MASTER").arg(master).query_async(connection).await?;
    let epoch = said.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
    Ok(Some(Told { epoch, address }))
}

impl Way {
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

/// Deadlines are kept by those who ask.
pub(super) fn plain() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_connection_timeout(Some(super::CONNECT)).set_response_timeout(None)
}
