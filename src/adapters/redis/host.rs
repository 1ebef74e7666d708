//! How a host is reached: one that names the primary, or the primary itself.

use ::redis::aio::MultiplexedConnection;
use ::redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo as _, RedisConnectionInfo, RedisResult,
    TlsCertificates,
};
use tokio::sync::Mutex;

use crate::adapters::names::LookupPurpose;
use crate::config::Login;

/// The host as it was named, and the port.
pub(super) type Address = (String, u16);

/// A host that is asked repeatedly.
pub(super) struct Host {
    client: Client,
    /// The connection that was used last.
    connection: Mutex<Option<MultiplexedConnection>>,
}

/// How hosts are reached.
#[derive(Clone)]
pub(super) struct HostAccess {
    pub tls: bool,
    pub ca_pem: Option<Vec<u8>>,
}

/// The primary, as those that watch it name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedPrimary {
    /// The id of the node, if it has one: nodes of a cluster may be reached at several addresses.
    pub id: Option<String>,
    pub address: Address,
    /// Whether more than half of those that may name it do, and hold it for well.
    pub by_majority: bool,
}

impl NamedPrimary {
    /// Returns what tells it from others: its id, or its address.
    pub fn name(&self) -> String {
        self.id.clone().unwrap_or_else(|| format!("{}:{}", self.address.0, self.address.1))
    }

    pub fn is_same(&self, other: &NamedPrimary) -> bool {
        match (&self.id, &other.id) {
            (Some(one), Some(other)) => one == other,
            _ => self.address == other.address,
        }
    }
}

impl Host {
    pub fn of(client: Client) -> Host {
        Host { client, connection: Mutex::default() }
    }

    /// Takes the connection, so that one that is abandoned in the middle is not used again.
    pub async fn take(&self) -> RedisResult<MultiplexedConnection> {
        let kept = self.connection.lock().await.take();
        match kept {
            Some(connection) => Ok(connection),
            None => self.client.get_multiplexed_async_connection_with_config(&without_deadlines()).await,
        }
    }

    /// Keeps a connection that answered.
    pub async fn put_back(&self, connection: MultiplexedConnection) {
        *self.connection.lock().await = Some(connection);
    }
}

impl HostAccess {
    pub fn client(&self, (host, port): &Address, login: RedisConnectionInfo) -> RedisResult<Client> {
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

pub(super) fn info(login: &Login) -> RedisConnectionInfo {
    let mut info = RedisConnectionInfo::default();
    if let Some(user) = &login.user {
        info = info.set_username(user);
    }
    match &login.password {
        Some(password) => info.set_password(password.reveal()),
        None => info,
    }
}

pub(super) fn certificates(root: Vec<u8>) -> TlsCertificates {
    TlsCertificates { client_tls: None, root_cert: Some(root) }
}

/// Returns a configuration without deadlines; callers keep their own.
pub(super) fn without_deadlines() -> AsyncConnectionConfig {
    let config = AsyncConnectionConfig::new().set_dns_resolver(LookupPurpose::Money);
    config.set_connection_timeout(Some(super::CONNECT)).set_response_timeout(None)
}
