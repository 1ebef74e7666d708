//! What is wrong together with the Redis that nodes share, and with the store in it.

use super::{Wrong, error};
use crate::base::finding::Severity;
use crate::config::fault::{Fault, Place};
use crate::config::meant::StoreKind;
use crate::config::url;
use crate::config::written::{DurabilityWord, Written};

pub(super) fn wrong(written: &Written) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    wrong.extend(way(written));
    wrong.extend(stores_apart(written));
    wrong.extend(failover_that_forgets(written));
    wrong.extend(store_without_a_redis(written));
    wrong.extend(nameless(written));
    wrong.extend(of_no_use(written));
    wrong
}

/// Where the Redis is said to be.
fn place(written: &Written) -> Option<&Place> {
    let url = written.redis_url.as_ref().map(|url| &url.place);
    url.or(written.redis_sentinels.as_ref().map(|sentinels| &sentinels.place))
}

fn is_the_store(written: &Written) -> bool {
    written.store_kind.as_ref().is_some_and(|kind| kind.value == StoreKind::Redis)
}

/// How it is reached.
fn way(written: &Written) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    let (name, remedy, tls, is_near) = if let Some(url) = &written.redis_url {
        let Ok((tls, host)) = url::redis(url.value.reveal()) else { return wrong };
        ("url", "write `rediss://`", tls, url::is_loopback(&host))
    } else if let (Some(sentinels), Some(tls)) = (&written.redis_sentinels, &written.redis_tls) {
        let is_near = sentinels.value.iter().all(|(host, _)| url::is_loopback(host));
        ("sentinels", "leave `tls = false` out", tls.value, is_near)
    } else {
        return wrong;
    };
    if let Some(place) = place(written).filter(|_| !tls && !is_near) {
        let text = format!("`redis.{name}` is without TLS to another machine: anyone between can read and alter it");
        wrong.push((Severity::Warning, place.clone(), Fault::new(text).remedy(remedy)));
    }
    if let Some(ca) = written.redis_ca.as_ref().filter(|_| !tls) {
        let fault = Fault::new(format!("`redis.ca` has no use: `{name}` is without TLS"));
        wrong.push(error(&ca.place, fault.remedy(format!("{remedy}, or leave `ca` out"))));
    }
    wrong
}

fn stores_apart(written: &Written) -> Option<Wrong> {
    written.store_kind.as_ref()?;
    let place = place(written).filter(|_| !is_the_store(written))?;
    let fault = Fault::new(
        "gates that share a Redis for rates have a store each: a requestId that is sent to two of them is paid twice",
    );
    let remedy = "write `kind = \"redis\"` into `[store]`, or run one gate";
    Some((Severity::Warning, place.clone(), fault.remedy(remedy)))
}

/// What only the primary had is gone with it.
fn failover_that_forgets(written: &Written) -> Option<Wrong> {
    let sentinels = written.redis_sentinels.as_ref().filter(|_| is_the_store(written))?;
    let is_replicated = written.redis_durability.as_ref()?.value == DurabilityWord::Replicated;
    let fault = Fault::new(
        "after a failover of the `sentinels` what only the old Redis had is forgotten, payments too: `durability` is not \
         `replicated`",
    );
    let remedy = "write `durability = \"replicated\"`";
    (!is_replicated).then(|| (Severity::Warning, sentinels.place.clone(), fault.remedy(remedy)))
}

fn store_without_a_redis(written: &Written) -> Option<Wrong> {
    let kind = written.store_kind.as_ref().filter(|_| is_the_store(written) && place(written).is_none())?;
    let fault = Fault::new("`store.kind` is `redis`, and there is neither `redis.url` nor `redis.sentinels`");
    Some(error(&kind.place, fault.remedy("write one of them into `[redis]`")))
}

fn nameless(written: &Written) -> Option<Wrong> {
    let kind = written.store_kind.as_ref().filter(|_| is_the_store(written))?;
    let is_nameless = written.node.as_ref().is_some_and(|node| node.place == Place::Default);
    let fault = Fault::new("gates that share a store need names: `store.node` is not written");
    let remedy = "write a `node` into `[store]`, another for each gate, never changed";
    is_nameless.then(|| error(&kind.place, fault.remedy(remedy)))
}

fn of_no_use(written: &Written) -> Vec<Wrong> {
    let Some(kind) = &written.store_kind else { return Vec::new() };
    let is_store = kind.value == StoreKind::Redis;
    let is_replicated = written.redis_durability.as_ref().is_some_and(|one| one.value == DurabilityWord::Replicated);
    let of_store = "`store.kind` is not `redis`";
    let durability = written.redis_durability.as_ref().filter(|one| one.value != DurabilityWord::Acknowledged);
    let allow_unsafe = written.redis_allow_unsafe.as_ref().filter(|one| one.value);
    let replicas = written.redis_replicas.as_ref().filter(|one| one.value != 1);
    let useless = [
        ("durability", durability.map(|one| &one.place).filter(|_| !is_store), of_store),
        ("allow_unsafe", allow_unsafe.map(|one| &one.place).filter(|_| !is_store), of_store),
        ("replicas", replicas.map(|one| &one.place).filter(|_| !is_replicated), "nothing is `replicated`"),
    ];
    let wrong = useless.into_iter().filter_map(|(name, place, why)| {
        let fault = Fault::new(format!("`redis.{name}` has no use: {why}"));
        Some(error(place?, fault.remedy(format!("leave `{name}` out"))))
    });
    wrong.collect()
}
