//! The address of the Redis: fixed, or named by its Sentinels, or by the nodes of its cluster.
//!
//! All Sentinels are asked at once. The answer with the latest failover counts, because a Sentinel that was cut off
//! still names the former primary. One that does not answer in time is ignored.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Client, IntoConnectionInfo as _, RedisConnectionInfo, RedisError, RedisResult};
use thiserror::Error;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::RedisFault;
use super::cluster::{Cluster, ClusterError};
use super::faults::refuses_login;
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
    /// The id of the Sentinel: the same one may answer at two addresses.
    sentinel: String,
    /// How many Sentinels it knows, with itself.
    knows: usize,
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
    /// A Sentinel refuses the user or the password, and no other one names the primary.
    #[error("the Sentinels refuse the user or the password")]
    Refused,
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
        let (mut answers, mut nobody) = (Vec::new(), EndpointError::Silent);
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(Ok(Some(told)))) => answers.push(told),
                Ok(Ok(Ok(None))) => nobody = EndpointError::Unknown,
                Ok(Ok(Err(error))) if refuses_login(&error) || error.code() == Some("NOPERM") => {
                    nobody = EndpointError::Refused;
                }
                _ => {}
            }
        }
        named(&answers, self.all.len()).ok_or(nobody)
    }
}

/// Returns the primary with the latest failover, and whether a majority names it: of the addresses that are configured, and
/// of the Sentinels that there are.
fn named(answers: &[SentinelAnswer], configured: usize) -> Option<NamedPrimary> {
    let latest = answers.iter().max_by_key(|told| (told.epoch, &told.address))?;
    let is_for_it = |told: &&SentinelAnswer| told.is_well && told.address == latest.address;
    let names: BTreeSet<&str> = answers.iter().filter(is_for_it).map(|told| told.sentinel.as_str()).collect();
    let all = answers.iter().map(|told| told.knows).fold(configured, usize::max);
    Some(NamedPrimary { id: None, by_majority: names.len() > all / 2, address: latest.address.clone() })
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
    let sentinel: String = ::redis::cmd("SENTINEL").arg("MYID").query_async(connection).await?;
    let number = |name: &str| said.get(name).and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
    let epoch = number("config-epoch");
    let knows = usize::try_from(number("num-other-sentinels").saturating_add(1)).unwrap_or(usize::MAX);
    let flags = said.get("flags").map_or("", String::as_str);
    let is_well = !["down", "failover"].iter().any(|flag| flags.contains(flag));
    Ok(Some(SentinelAnswer { sentinel, knows, epoch, address, is_well }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(sentinel: &str, knows: usize, (epoch, host): (u64, &str)) -> SentinelAnswer {
        let address = (host.to_owned(), 6_379);
        SentinelAnswer { sentinel: sentinel.to_owned(), knows, epoch, address, is_well: true }
    }

    #[test]
    fn each_sentinel_has_one_voice_and_all_that_there_are_count() {
        let is_named = |answers: &[SentinelAnswer], configured| {
            let found = named(answers, configured).unwrap();
            (found.address.0, found.by_majority)
        };
        let is = |host: &str, by_majority| (host.to_owned(), by_majority);
        let old = |sentinel| told(sentinel, 3, (0, "old"));
        assert_eq!(named(&[], 3), None);
        assert_eq!(is_named(&[old("a"), old("b")], 3), is("old", true));
        // One Sentinel at two addresses.
        assert_eq!(is_named(&[old("a"), old("a")], 3), is("old", false));
        // Only one of three is configured.
        assert_eq!(is_named(&[old("a")], 1), is("old", false));
        assert_eq!(is_named(&[told("a", 1, (0, "old"))], 1), is("old", true));
        // The latest failover counts, also where fewer have heard of it.
        let new = told("c", 3, (1, "new"));
        assert_eq!(is_named(&[old("a"), old("b"), new.clone()], 3), is("new", false));
        let ill = SentinelAnswer { is_well: false, ..told("b", 3, (1, "new")) };
        assert_eq!(is_named(&[ill, new], 3), is("new", false));
    }
}
