//! Checks of the settings of the Redis that nodes share, together with those of the store.

use std::collections::BTreeSet;

use super::{Wrong, error};
use crate::base::finding::Severity;
use crate::config::fault::{SettingFault, SettingPlace};
use crate::config::meant::StoreKind;
use crate::config::url;
use crate::config::written::{DurabilityWord, Placed, TrustedWord, WrittenConfig};

pub(super) fn wrong(written: &WrittenConfig) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    wrong.extend(way(written));
    wrong.extend(sentinels_without_a_majority(written));
    wrong.extend(stores_apart(written));
    wrong.extend(failover_that_forgets(written));
    wrong.extend(address_that_moves(written));
    wrong.extend(trusted_address(written));
    wrong.extend(store_without_a_redis(written));
    wrong.extend(nameless(written));
    wrong.extend(of_no_use(written));
    wrong.extend(trusted(written));
    wrong
}

/// Returns the place of the setting that says where the Redis is.
fn place(written: &WrittenConfig) -> Option<&SettingPlace> {
    let url = written.redis_url.as_ref().map(|url| &url.place);
    url.or(named(written).map(|(_, hosts)| &hosts.place))
}

type NamedHosts = Placed<Vec<(String, u16)>>;

/// Returns the hosts that name the primary, and the name of their setting.
fn named(written: &WrittenConfig) -> Option<(&'static str, &NamedHosts)> {
    let sentinels = written.redis_sentinels.as_ref().map(|hosts| ("sentinels", hosts));
    sentinels.or(written.redis_cluster.as_ref().map(|hosts| ("cluster", hosts)))
}

fn is_the_store(written: &WrittenConfig) -> bool {
    written.store_kind.as_ref().is_some_and(|kind| kind.value == StoreKind::Redis)
}

/// Checks that the Sentinels can have a majority: a gate pays only where more than half of them name its primary.
fn sentinels_without_a_majority(written: &WrittenConfig) -> Option<Wrong> {
    let sentinels = written.redis_sentinels.as_ref().filter(|_| is_the_store(written))?;
    let mut seen = BTreeSet::new();
    if let Some((host, port)) = sentinels.value.iter().find(|address| !seen.insert(*address)) {
        let fault = SettingFault::new(format!("`redis.sentinels` names `{host}:{port}` twice"));
        return Some(error(&sentinels.place, fault.remedy("name each Sentinel once: each has one voice")));
    }
    let fault = SettingFault::new(format!(
        "`redis.sentinels` names fewer than three Sentinels ({}): money waits where one of them is away",
        sentinels.value.len()
    ));
    let remedy = "run at least three Sentinels on machines of their own, and name them all";
    let are_few = sentinels.value.len() < 3;
    are_few.then(|| (Severity::Insecure, sentinels.place.clone(), fault.remedy(remedy)))
}

/// Checks how the Redis is reached.
fn way(written: &WrittenConfig) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    let (name, remedy, tls, is_near) = if let Some(url) = &written.redis_url {
        let Ok((tls, host)) = url::redis(url.value.reveal()) else { return wrong };
        ("url", "write `rediss://`", tls, url::is_loopback(&host))
    } else if let (Some((name, hosts)), Some(tls)) = (named(written), &written.redis_tls) {
        let is_near = hosts.value.iter().all(|(host, _)| url::is_loopback(host));
        (name, "remove `tls = false`", tls.value, is_near)
    } else {
        return wrong;
    };
    if let Some(place) = place(written).filter(|_| !tls && !is_near) {
        let text = format!(
            "`redis.{name}` is without TLS to another machine: anyone on the network path can read and alter its data"
        );
        wrong.push((Severity::Insecure, place.clone(), SettingFault::new(text).remedy(remedy)));
    }
    if let Some(ca) = written.redis_ca.as_ref().filter(|_| !tls) {
        let fault = SettingFault::new(format!("`redis.ca` has no effect: `{name}` is without TLS"));
        wrong.push(error(&ca.place, fault.remedy(format!("{remedy}, or remove `ca`"))));
    }
    wrong
}

fn stores_apart(written: &WrittenConfig) -> Option<Wrong> {
    written.store_kind.as_ref()?;
    let place = place(written).filter(|_| !is_the_store(written))?;
    let fault = SettingFault::new(
        "gates that share a Redis for rates have separate stores: a requestId that is sent to two of them is paid twice",
    );
    let remedy = "set `kind = \"redis\"` in `[store]`, or run one gate";
    Some((Severity::Insecure, place.clone(), fault.remedy(remedy)))
}

/// Whether the store is one of production, and nobody accepted the risk of a split.
fn must_not_split(written: &WrittenConfig) -> bool {
    let is_allowed = written.redis_allow_split.as_ref().is_some_and(|one| one.value);
    is_the_store(written) && written.production.listen.is_some() && !is_allowed
}

/// Checks that the address of the store cannot lead to another Redis while the former one is still in use.
fn address_that_moves(written: &WrittenConfig) -> Option<Wrong> {
    let url = written.redis_url.as_ref().filter(|_| must_not_split(written))?;
    let (_, host) = url::redis(url.value.reveal()).ok()?;
    let stays = url::is_loopback(&host) || url::is_address(&host);
    let fault = SettingFault::new(
        "the host of `redis.url` is a name: it may lead to another Redis while gates still use the former one, and a payment may \
         be made at both",
    );
    let remedy = "name the `sentinels` or the `cluster` instead, or an IP address, or set `allow_split = true` if the name never moves to \
                  another Redis while the former one runs";
    (!stays).then(|| error(&url.place, fault.remedy(remedy)))
}

/// Tells what is trusted of the address, as nothing shows whether it is true.
fn trusted_address(written: &WrittenConfig) -> Option<Wrong> {
    let allowed = written.redis_allow_split.as_ref().filter(|one| one.value && is_the_store(written))?;
    written.production.listen.as_ref()?;
    let fault = SettingFault::new(
        "`redis.allow_split`: Sluice trusts that gates never use two Redis at once: a payment may be made at both",
    );
    let remedy = "make sure that whoever runs the Redis guarantees it, or name the `sentinels` or the `cluster`";
    Some((Severity::Warning, allowed.place.clone(), fault.remedy(remedy)))
}

/// Checks that a failover keeps every write: those that only the failed primary had are lost.
fn failover_that_forgets(written: &WrittenConfig) -> Option<Wrong> {
    let (name, hosts) = named(written).filter(|_| is_the_store(written))?;
    let is_replicated = written.redis_durability.as_ref()?.value == DurabilityWord::Replicated;
    let fault = SettingFault::new(format!(
        "a failover by the `{name}` loses writes that only the old primary had, payments too: `durability` is not \
         `replicated`"
    ));
    let remedy = "set `durability = \"replicated\"`, or `allow_split = true` to accept the risk";
    let severity = if must_not_split(written) { Severity::Error } else { Severity::Insecure };
    (!is_replicated).then(|| (severity, hosts.place.clone(), fault.remedy(remedy)))
}

fn store_without_a_redis(written: &WrittenConfig) -> Option<Wrong> {
    let kind = written.store_kind.as_ref().filter(|_| is_the_store(written) && place(written).is_none())?;
    let fault = "`store.kind` is `redis`, but neither `redis.url` nor `redis.sentinels` nor `redis.cluster` is set";
    let fault = SettingFault::new(fault);
    let is_set = ["redis.url", "redis.sentinels", "redis.cluster"].iter().any(|path| written.refused.contains(*path));
    (!is_set).then(|| error(&kind.place, fault.remedy("set one of them in `[redis]`")))
}

fn nameless(written: &WrittenConfig) -> Option<Wrong> {
    let kind = written.store_kind.as_ref().filter(|_| is_the_store(written))?;
    let is_nameless = written.node.as_ref().is_some_and(|node| node.place == SettingPlace::Default);
    let fault = SettingFault::new("gates that share a store need names: `store.node` is not set");
    let remedy = "set `node` in `[store]` to a different, permanent name for each gate";
    is_nameless.then(|| error(&kind.place, fault.remedy(remedy)))
}

/// Tells what is trusted of the Redis, as nothing shows whether it is true.
fn trusted(written: &WrittenConfig) -> Vec<Wrong> {
    let Some(trusted) = written.redis_trusted.as_ref().filter(|_| is_the_store(written)) else { return Vec::new() };
    let told = trusted.value.iter().map(|word| {
        let what = match word {
            TrustedWord::Persistence => {
                "that the Redis keeps every write that it acknowledged, also through a failover: a payment that it forgets may be \
                 made twice"
            }
            TrustedWord::Eviction => "that the Redis evicts no record: a payment that it forgets may be made twice",
            TrustedWord::Run => {
                "that the Redis loses nothing when it restarts or fails over: gates may not notice either, and do not register \
                 again"
            }
        };
        let fault = SettingFault::new(format!("`redis.trusted`: Sluice does not check, and trusts, {what}"));
        let remedy = format!("make sure that whoever runs the Redis guarantees it, or remove `{}`", word.as_str());
        (Severity::Warning, trusted.place.clone(), fault.remedy(remedy))
    });
    told.collect()
}

fn of_no_use(written: &WrittenConfig) -> Vec<Wrong> {
    let Some(kind) = &written.store_kind else { return Vec::new() };
    let is_store = kind.value == StoreKind::Redis;
    let is_replicated = written.redis_durability.as_ref().is_some_and(|one| one.value == DurabilityWord::Replicated);
    let of_store = "`store.kind` is not `redis`";
    let durability = written.redis_durability.as_ref().filter(|one| one.value != DurabilityWord::Acknowledged);
    let allow_unsafe = written.redis_allow_unsafe.as_ref().filter(|one| one.value);
    let allow_split = written.redis_allow_split.as_ref().filter(|one| one.value);
    let trusted = written.redis_trusted.as_ref().filter(|one| !one.value.is_empty());
    let fence = written.redis_fence.as_ref().filter(|one| one.place != SettingPlace::Default);
    let is_named = named(written).is_some();
    let replicas = written.redis_replicas.as_ref().filter(|one| one.value != 1);
    let useless = [
        ("durability", durability.map(|one| &one.place).filter(|_| !is_store), of_store),
        ("allow_unsafe", allow_unsafe.map(|one| &one.place).filter(|_| !is_store), of_store),
        ("trusted", trusted.map(|one| &one.place).filter(|_| !is_store), of_store),
        ("allow_split", allow_split.map(|one| &one.place).filter(|_| !is_store), of_store),
        ("fence_ms", fence.map(|one| &one.place).filter(|_| !is_named), "neither `sentinels` nor `cluster` is set"),
        ("replicas", replicas.map(|one| &one.place).filter(|_| !is_replicated), "`durability` is not `replicated`"),
    ];
    let wrong = useless.into_iter().filter_map(|(name, place, why)| {
        let fault = SettingFault::new(format!("`redis.{name}` has no effect: {why}"));
        Some(error(place?, fault.remedy(format!("remove `{name}`"))))
    });
    wrong.collect()
}
