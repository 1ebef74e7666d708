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
/// What an unreported field leaves open.
const NO_RUN: &str = "a restart or a failover of it may pass unnoticed";
const EVICTS: &str = "it may evict records: a payment forgotten is a payment made twice";
const FORGETS: &str = "it may keep nothing on disk: a restart would lose all payments";

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
         `appendonly yes`, or, if it is a managed one that keeps its writes elsewhere, `redis.trusted = [\"persistence\"]`, \
         or `redis.allow_unsafe = true`"
    )]
    Forgets,
    #[error(
        "`redis.durability = \"fsynced\"` needs Redis 7.2 or newer, but this is {version}; use a newer one, or \
         `appendfsync always` there with \"acknowledged\" here"
    )]
    CannotFsync { version: String },
    #[error("`redis.durability = \"fsynced\"` needs `appendonly yes`, but the Redis has it off: set it")]
    NothingToFsync,
    #[error(
        "the Redis does not report `{field}`, so {why}: allow its user to call `INFO`, or, if whoever runs the Redis guarantees \
         it, set `redis.trusted = [\"{word}\"]`"
    )]
    Unreported { field: &'static str, why: &'static str, word: &'static str },
    #[error("the Redis refuses writes: it is a replica; name its primary, or promote it")]
    Replica,
    #[error(
        "the Redis refuses the user or the password: compare those of `redis.url`, or `redis.user` and `redis.password`, with the \
         user of the Redis (`ACL GETUSER`), who may be off; gates that run connect again once it accepts them"
    )]
    Credentials,
    #[error(
        "the Sentinels refuse the user or the password: compare `redis.sentinel_user` and `redis.sentinel_password` with the user \
         of the Sentinels, who may be off or lack permissions; gates that run connect again once they accept them"
    )]
    SentinelCredentials,
    #[error("the Redis does not report its settings: allow its user to call `INFO`")]
    Silent,
    #[error("a store needs Redis 7.0 or newer, but this is {version}")]
    Old { version: String },
    #[error("the user of the Redis lacks permissions that a store needs: {what}; use those of `deploy/redis.acl`")]
    Denied { what: String },
}

impl UnfitRedis {
    /// Whether the settings must be changed: a replica may become the primary by itself, and while a password is being
    /// replaced, a start waits.
    pub fn is_misconfiguration(&self) -> bool {
        !matches!(self, UnfitRedis::Replica | UnfitRedis::Credentials | UnfitRedis::SentinelCredentials)
    }
}

/// Returns the run, as a digest of the process and the history of its data: every call of the script names it. A promoted
/// replica has another run, and so has a Redis that was restarted, or that followed another primary in between. Where
/// `INFO` hides one of both, and the run is trusted, the primary that others named counts in its place.
pub(super) fn run(info: &str, is_trusted: bool, named: Option<&str>) -> Result<String, UnfitRedis> {
    let ids =
        ["run_id", "master_replid"].map(|name| info_field(info, name).filter(|id| id.bytes().any(|byte| byte != b'0')));
    let mut run = match ids {
        [Some(process), Some(history)] => Fingerprint::of(&[process.as_bytes(), history.as_bytes()]),
        [process, history] if is_trusted => {
            let parts = [process, history, named].map(Option::unwrap_or_default);
            Fingerprint::of(&parts.map(str::as_bytes))
        }
        [None, _] => return Err(UnfitRedis::Unreported { field: "run_id", why: NO_RUN, word: "run" }),
        [_, None] => return Err(UnfitRedis::Unreported { field: "master_replid", why: NO_RUN, word: "run" }),
    }
    .to_hex();
    run.truncate(RUN_LENGTH);
    Ok(run)
}

pub(super) fn info_field<'i>(info: &'i str, name: &str) -> Option<&'i str> {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.map(str::trim)
}

/// Checks the answer of `INFO`. Without demands, the Redis need only accept writes.
pub(super) fn check(info: &str, demands: Option<Demands>) -> Result<(), UnfitRedis> {
    let field = |name: &str| info_field(info, name);
    if field("role").ok_or(UnfitRedis::Silent)? != "master" {
        return Err(UnfitRedis::Replica);
    }
    let Some(Demands { durability, allow_unsafe, trusted }) = demands else { return Ok(()) };
    let version = field("redis_version").ok_or(UnfitRedis::Silent)?;
    let keeps_on_disk = field("aof_enabled").map(|enabled| enabled == "1");
    if durability == Durability::Fsynced {
        if numbers(version).is_none_or(|numbers| numbers < FSYNCED_SINCE) {
            return Err(UnfitRedis::CannotFsync { version: version.to_owned() });
        }
        if keeps_on_disk == Some(false) {
            return Err(UnfitRedis::NothingToFsync);
        }
    }
    if numbers(version).is_none_or(|numbers| numbers < STORE_SINCE) {
        return Err(UnfitRedis::Old { version: version.to_owned() });
    }
    if allow_unsafe {
        return Ok(());
    }
    match (field("maxmemory"), field("maxmemory_policy")) {
        (Some("0"), _) | (_, Some("noeviction")) => {}
        (Some(_), Some(policy)) => return Err(UnfitRedis::Evicts { policy: policy.to_owned() }),
        _ if trusted.eviction => {}
        (Some(_), None) => {
            return Err(UnfitRedis::Unreported { field: "maxmemory_policy", why: EVICTS, word: "eviction" });
        }
        (None, _) => return Err(UnfitRedis::Unreported { field: "maxmemory", why: EVICTS, word: "eviction" }),
    }
    // A managed Redis may keep its writes in a log of its own, and report that it has none.
    match keeps_on_disk {
        _ if trusted.persistence => Ok(()),
        Some(true) => Ok(()),
        Some(false) => Err(UnfitRedis::Forgets),
        None => Err(UnfitRedis::Unreported { field: "aof_enabled", why: FORGETS, word: "persistence" }),
    }
}

fn numbers(version: &str) -> Option<(u64, u64)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TrustedTraits;

    fn info(version: &str, role: &str, maxmemory: &str, policy: &str, aof: &str) -> String {
        format!(
            "# Server\r\nredis_version:{version}\r\n# Memory\r\nmaxmemory:{maxmemory}\r\nmaxmemory_policy:{policy}\r\n\
             # Persistence\r\naof_enabled:{aof}\r\n# Replication\r\nrole:{role}\r\n"
        )
    }

    #[test]
    fn what_forgets_is_not_trusted() {
        let trusted = TrustedTraits::default();
        let strict = |durability| Demands { durability, allow_unsafe: false, trusted };
        let lax = |durability| Demands { durability, allow_unsafe: true, trusted };
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

    #[test]
    fn what_is_not_reported_is_trusted_by_name_alone() {
        let all = TrustedTraits { persistence: true, eviction: true, run: true };
        let demands = |trusted| Some(Demands { durability: Durability::Acknowledged, allow_unsafe: false, trusted });
        let whole = info("7.0.15", "master", "100", "noeviction", "1");
        let without = |field: &str| -> String {
            whole.split_inclusive('\n').filter(|line| !line.starts_with(&format!("{field}:"))).collect()
        };
        for (field, word, trusted) in [
            ("maxmemory_policy", "eviction", TrustedTraits { eviction: false, ..all }),
            ("aof_enabled", "persistence", TrustedTraits { persistence: false, ..all }),
        ] {
            let told = check(&without(field), demands(trusted)).unwrap_err();
            assert!(
                matches!(told, UnfitRedis::Unreported { field: of, word: with, .. } if of == field && with == word)
            );
            assert_eq!(check(&without(field), demands(all)), Ok(()));
        }
        // What is reported counts, but for a log that it may have elsewhere.
        let evicts = info("7.0.15", "master", "100", "allkeys-lru", "0");
        assert_eq!(check(&evicts, demands(all)), Err(UnfitRedis::Evicts { policy: "allkeys-lru".to_owned() }));
        assert_eq!(check(&info("7.0.15", "master", "0", "noeviction", "0"), demands(all)), Ok(()));
    }

    #[test]
    fn a_run_that_is_hidden_is_trusted_by_name_alone() {
        let told = |process: &str, history: &str| format!("run_id:{process}\r\nmaster_replid:{history}\r\n");
        let (one, restarted) = (told("aaaa", "bbbb"), told("cccc", "bbbb"));
        assert_ne!(run(&one, false, None), run(&restarted, false, None));
        // Where both are reported, who named it does not count.
        assert_eq!(run(&one, true, Some("a")), run(&one, false, Some("b")));
        for hidden in
            [told("", "bbbb"), "master_replid:bbbb\r\n".to_owned(), "run_id:aaaa\r\n".to_owned(), String::new()]
        {
            assert!(matches!(run(&hidden, false, None), Err(UnfitRedis::Unreported { word: "run", .. })), "{hidden}");
            assert_ne!(run(&hidden, true, Some("a")).unwrap(), run(&hidden, true, Some("b")).unwrap());
        }
    }
}
