//! Whether a Redis is fit to store payments, by its own `INFO`.

use thiserror::Error;

use crate::base::digest::Fingerprint;
use crate::config::{Demands, Durability};

/// `WAITAOF` is there from this version on.
const FSYNCED_SINCE: (u64, u64) = (7, 2);
/// From this version on a script can check its user's permissions.
const STORE_SINCE: (u64, u64) = (7, 0);
/// The letters of a run: 128 bits, as two runs must never look alike.
const RUN_LENGTH: usize = 32;

/// Why a Redis is not fit for the store.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnfitRedis {
    #[error(
        "the Redis may evict records (`maxmemory-policy {policy}`): a payment forgotten is a payment \
         made twice; set `maxmemory-policy noeviction`, or `redis.allow_unsafe = true`"
    )]
    Evicts { policy: String },
    #[error(
        "the Redis keeps nothing on disk (`appendonly no`): a restart would lose all payments; set \
         `appendonly yes`, or `redis.allow_unsafe = true`"
    )]
    Forgets,
    #[error(
        "`redis.durability = \"fsynced\"` needs Redis 7.2 or newer, but this is {version}; use a newer one, or \
         `appendfsync always` there with \"acknowledged\" here"
    )]
    CannotFsync { version: String },
    #[error("`redis.durability = \"fsynced\"` needs `appendonly yes`, but the Redis has it off: set it")]
    NothingToFsync,
    #[error("the Redis refuses writes: it is a replica; name its primary, or promote it")]
    Replica,
    #[error("the Redis does not report its settings: allow its user to call `INFO`")]
    Silent,
    #[error("a store needs Redis 7.0 or newer, but this is {version}")]
    Old { version: String },
    #[error("the user of the Redis lacks permissions that a store needs: {what}; use those of `deploy/redis.acl`")]
    Denied { what: String },
}

impl UnfitRedis {
    /// Whether the settings must be changed: a replica may become the primary by itself.
    pub fn is_misconfiguration(&self) -> bool {
        !matches!(self, UnfitRedis::Replica)
    }
}

/// Returns the run, as a digest of the process and the history of its data: every call of the script names it. A promoted replica has another run, and so has a Redis
/// that was restarted, or that followed another primary in between.
pub(super) fn run(info: &str) -> Result<String, UnfitRedis> {
    let parts = [info_field(info, "run_id")?.as_bytes(), info_field(info, "master_replid")?.as_bytes()];
    let mut run = Fingerprint::of(&parts).to_hex();
    run.truncate(RUN_LENGTH);
    Ok(run)
}

pub(super) fn info_field<'i>(info: &'i str, name: &str) -> Result<&'i str, UnfitRedis> {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.map(str::trim).ok_or(UnfitRedis::Silent)
}

/// Checks the answer of `INFO`. Without demands, the Redis need only accept writes.
pub(super) fn check(info: &str, demands: Option<Demands>) -> Result<(), UnfitRedis> {
    let info_field = |name: &str| info_field(info, name);
    if info_field("role")? != "master" {
        return Err(UnfitRedis::Replica);
    }
    let Some(demands) = demands else { return Ok(()) };
    let keeps_on_disk = info_field("aof_enabled")? == "1";
    if demands.durability == Durability::Fsynced {
        let version = info_field("redis_version")?;
        if numbers(version).is_none_or(|numbers| numbers < FSYNCED_SINCE) {
            return Err(UnfitRedis::CannotFsync { version: version.to_owned() });
        }
        if !keeps_on_disk {
            return Err(UnfitRedis::NothingToFsync);
        }
    }
    if numbers(info_field("redis_version")?).is_none_or(|numbers| numbers < STORE_SINCE) {
        return Err(UnfitRedis::Old { version: info_field("redis_version")?.to_owned() });
    }
    if demands.allow_unsafe {
        return Ok(());
    }
    let policy = info_field("maxmemory_policy")?;
    if info_field("maxmemory")? != "0" && policy != "noeviction" {
        return Err(UnfitRedis::Evicts { policy: policy.to_owned() });
    }
    if keeps_on_disk { Ok(()) } else { Err(UnfitRedis::Forgets) }
}

fn numbers(version: &str) -> Option<(u64, u64)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(version: &str, role: &str, maxmemory: &str, policy: &str, aof: &str) -> String {
        format!(
            "# Server\r\nredis_version:{version}\r\n# Memory\r\nmaxmemory:{maxmemory}\r\nmaxmemory_policy:{policy}\r\n\
             # Persistence\r\naof_enabled:{aof}\r\n# Replication\r\nrole:{role}\r\n"
        )
    }

    #[test]
    fn what_forgets_is_not_trusted() {
        let strict = |durability| Demands { durability, allow_unsafe: false };
        let lax = |durability| Demands { durability, allow_unsafe: true };
        use Durability::{Acknowledged, Fsynced, Replicated};
        let evicts = || UnfitRedis::Evicts { policy: "allkeys-lru".to_owned() };
        let old = |version: &str| UnfitRedis::CannotFsync { version: version.to_owned() };
        let too_old = || UnfitRedis::Old { version: "6.2.1".to_owned() };
        let cases = [
            (info("7.0.15", "master", "0", "noeviction", "1"), strict(Acknowledged), Ok(())),
            (info("7.0.15", "master", "0", "allkeys-lru", "1"), strict(Acknowledged), Ok(())),
            (info("7.0.15", "master", "100", "noeviction", "1"), strict(Replicated { replicas: 1 }), Ok(())),
            (info("7.0.15", "master", "100", "allkeys-lru", "1"), strict(Acknowledged), Err(evicts())),
            (info("7.0.15", "master", "0", "noeviction", "0"), strict(Acknowledged), Err(UnfitRedis::Forgets)),
            (info("7.0.15", "master", "100", "allkeys-lru", "0"), lax(Acknowledged), Ok(())),
            (info("7.0.15", "slave", "0", "noeviction", "1"), lax(Acknowledged), Err(UnfitRedis::Replica)),
            (info("7.0.15", "master", "0", "noeviction", "1"), lax(Fsynced), Err(old("7.0.15"))),
            (info("6.2.1", "master", "0", "noeviction", "1"), strict(Fsynced), Err(old("6.2.1"))),
            (info("6.2.1", "master", "0", "noeviction", "1"), lax(Acknowledged), Err(too_old())),
            (info("odd", "master", "0", "noeviction", "1"), strict(Fsynced), Err(old("odd"))),
            (info("7.2.0", "master", "0", "noeviction", "1"), strict(Fsynced), Ok(())),
            (info("8.0.1", "master", "0", "noeviction", "1"), strict(Fsynced), Ok(())),
            (info("8.0.1", "master", "0", "noeviction", "0"), lax(Fsynced), Err(UnfitRedis::NothingToFsync)),
            (String::new(), lax(Acknowledged), Err(UnfitRedis::Silent)),
        ];
        for (info, demands, expected) in cases {
            assert_eq!(check(&info, Some(demands)), expected, "{info} {demands:?}");
        }
    }
}
