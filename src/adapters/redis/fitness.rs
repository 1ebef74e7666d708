//! Whether a Redis may keep what was paid: it says of itself what it does with what it is given.

use std::fmt;

use crate::config::{Demands, Durability};

/// `WAITAOF` is there from this version on.
const FSYNCED_SINCE: (u64, u64) = (7, 2);
/// From this version on a script can ask what its user may do.
const STORE_SINCE: (u64, u64) = (7, 0);

/// Why a Redis is not trusted with the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    Evicts { policy: String },
    Forgets,
    CannotFsync { version: String },
    NothingToFsync,
    Replica,
    Silent,
    Old { version: String },
    Denied { what: String },
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Evicts { policy } => write!(
                f,
                "the Redis may evict what it is to keep (`maxmemory-policy {policy}`): a payment forgotten is a payment \
                 made twice; set `maxmemory-policy noeviction`, or `redis.allow_unsafe = true`"
            ),
            Unfit::Forgets => write!(
                f,
                "the Redis keeps nothing on disk (`appendonly no`): after a restart nobody knows what was paid; set \
                 `appendonly yes`, or `redis.allow_unsafe = true`"
            ),
            Unfit::CannotFsync { version } => write!(
                f,
                "`redis.durability = \"fsynced\"` needs Redis 7.2 or newer, and this is {version}; use a newer one, or \
                 `appendfsync always` there with \"acknowledged\" here"
            ),
            Unfit::NothingToFsync => {
                write!(f, "`redis.durability = \"fsynced\"` needs `appendonly yes`, and the Redis has it off")
            }
            Unfit::Replica => write!(f, "the Redis is a replica, which takes no writes; name its primary"),
            Unfit::Silent => {
                write!(f, "the Redis does not say what it does with what it keeps: let its user call `INFO`")
            }
            Unfit::Old { version } => write!(f, "a store needs Redis 7.0 or newer, and this is {version}"),
            Unfit::Denied { what } => write!(
                f,
                "the user of the Redis may not do all that a store needs: {what}; `deploy/redis.acl` is enough"
            ),
        }
    }
}

impl std::error::Error for Unfit {}

/// The process and the history that its data have: a replica that was promoted has another, and so has one that was
/// started again, or that followed another in between.
pub(super) fn run(info: &str) -> Result<String, Unfit> {
    Ok(format!("{}:{}", said(info, "run_id")?, said(info, "master_replid")?))
}

pub(super) fn said<'i>(info: &'i str, name: &str) -> Result<&'i str, Unfit> {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.map(str::trim).ok_or(Unfit::Silent)
}

/// `info` is what the command `INFO` answers; where nothing is demanded, it need only take writes.
pub(super) fn check(info: &str, demands: Option<Demands>) -> Result<(), Unfit> {
    let said = |name: &str| said(info, name);
    if said("role")? != "master" {
        return Err(Unfit::Replica);
    }
    let Some(demands) = demands else { return Ok(()) };
    let keeps_on_disk = said("aof_enabled")? == "1";
    if demands.durability == Durability::Fsynced {
        let version = said("redis_version")?;
        if numbers(version).is_none_or(|numbers| numbers < FSYNCED_SINCE) {
            return Err(Unfit::CannotFsync { version: version.to_owned() });
        }
        if !keeps_on_disk {
            return Err(Unfit::NothingToFsync);
        }
    }
    if numbers(said("redis_version")?).is_none_or(|numbers| numbers < STORE_SINCE) {
        return Err(Unfit::Old { version: said("redis_version")?.to_owned() });
    }
    if demands.allow_unsafe {
        return Ok(());
    }
    let policy = said("maxmemory_policy")?;
    if said("maxmemory")? != "0" && policy != "noeviction" {
        return Err(Unfit::Evicts { policy: policy.to_owned() });
    }
    if keeps_on_disk { Ok(()) } else { Err(Unfit::Forgets) }
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
        let evicts = || Unfit::Evicts { policy: "allkeys-lru".to_owned() };
        let old = |version: &str| Unfit::CannotFsync { version: version.to_owned() };
        let too_old = || Unfit::Old { version: "6.2.1".to_owned() };
        let cases = [
            (info("7.0.15", "master", "0", "noeviction", "1"), strict(Acknowledged), Ok(())),
            (info("7.0.15", "master", "0", "allkeys-lru", "1"), strict(Acknowledged), Ok(())),
            (info("7.0.15", "master", "100", "noeviction", "1"), strict(Replicated { replicas: 1 }), Ok(())),
            (info("7.0.15", "master", "100", "allkeys-lru", "1"), strict(Acknowledged), Err(evicts())),
            (info("7.0.15", "master", "0", "noeviction", "0"), strict(Acknowledged), Err(Unfit::Forgets)),
            (info("7.0.15", "master", "100", "allkeys-lru", "0"), lax(Acknowledged), Ok(())),
            (info("7.0.15", "slave", "0", "noeviction", "1"), lax(Acknowledged), Err(Unfit::Replica)),
            (info("7.0.15", "master", "0", "noeviction", "1"), lax(Fsynced), Err(old("7.0.15"))),
            (info("6.2.1", "master", "0", "noeviction", "1"), strict(Fsynced), Err(old("6.2.1"))),
            (info("6.2.1", "master", "0", "noeviction", "1"), lax(Acknowledged), Err(too_old())),
            (info("odd", "master", "0", "noeviction", "1"), strict(Fsynced), Err(old("odd"))),
            (info("7.2.0", "master", "0", "noeviction", "1"), strict(Fsynced), Ok(())),
            (info("8.0.1", "master", "0", "noeviction", "1"), strict(Fsynced), Ok(())),
            (info("8.0.1", "master", "0", "noeviction", "0"), lax(Fsynced), Err(Unfit::NothingToFsync)),
            (String::new(), lax(Acknowledged), Err(Unfit::Silent)),
        ];
        for (info, demands, expected) in cases {
            assert_eq!(check(&info, Some(demands)), expected, "{info} {demands:?}");
        }
    }
}
