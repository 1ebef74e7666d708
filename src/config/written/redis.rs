//! The Redis as written, and what is meant by it.

use super::{DurabilityWord, Placed, TrustedWord, WrittenConfig};
use crate::base::secret::Secret;
use crate::config::{
    ClusterConfig, Demands, Durability, Login, RedisConfig, RedisPlace, SentinelsConfig, StoreKind, TrustedTraits,
};

/// Takes the settings of the Redis; `None` where one is missing that has to be there.
pub(super) fn take(written: &mut WrittenConfig) -> Option<Option<RedisConfig>> {
    let is_sandbox_alone = written.production.listen.is_none();
    let kind = written.store_kind.as_ref()?.value;
    let durability = match written.redis_durability.as_ref()?.value {
        DurabilityWord::Acknowledged => Durability::Acknowledged,
        DurabilityWord::Replicated => {
            Durability::Replicated { replicas: u64::try_from(written.redis_replicas.as_ref()?.value).ok()? }
        }
        DurabilityWord::Fsynced => Durability::Fsynced,
    };
    // The sandbox holds nothing of value.
    let allow_unsafe = written.redis_allow_unsafe.as_ref()?.value || is_sandbox_alone;
    let is_trusted = |word| written.redis_trusted.as_ref().is_some_and(|trusted| trusted.value.contains(&word));
    let trusted = TrustedTraits {
        persistence: is_trusted(TrustedWord::Persistence),
        eviction: is_trusted(TrustedWord::Eviction),
        run: is_trusted(TrustedWord::Run),
    };
    let demands = (kind == StoreKind::Redis).then_some(Demands { durability, allow_unsafe, trusted });
    let is_named = written.redis_sentinels.is_some() || written.redis_cluster.is_some();
    let fence = written.redis_fence.as_ref().filter(|_| is_named).map(|fence| fence.value);
    let cluster = match written.redis_cluster.take() {
        Some(addresses) => Some(RedisPlace::Cluster(ClusterConfig {
            addresses: addresses.value,
            login: login(written.redis_user.take(), written.redis_password.take()),
            tls: written.redis_tls.as_ref()?.value,
        })),
        None => None,
    };
    let sentinels = match written.redis_sentinels.take() {
        Some(addresses) => Some(RedisPlace::Sentinels(SentinelsConfig {
            addresses: addresses.value,
            master: written.redis_master.take()?.value,
            login: login(written.redis_user.take(), written.redis_password.take()),
            sentinel_login: login(written.sentinel_user.take(), written.sentinel_password.take()),
            tls: written.redis_tls.as_ref()?.value,
        })),
        None => None,
    };
    let redis = match written.redis_url.take().map(|url| RedisPlace::Url(url.value)).or(sentinels).or(cluster) {
        Some(place) => Some(RedisConfig {
            place,
            ca_pem: written.redis_ca.take().map(|ca| ca.value),
            fence,
            timeout: written.redis_timeout.as_ref()?.value,
            nodes: u64::try_from(written.redis_nodes.as_ref()?.value).ok()?,
            demands,
        }),
        None => None,
    };
    Some(redis)
}

fn login(user: Option<Placed<String>>, password: Option<Placed<Secret>>) -> Login {
    Login { user: user.map(|user| user.value), password: password.map(|password| password.value) }
}
