//! Checks of settings that are valid, and with which the gate hardly does, counts or tells anything.

use std::net::SocketAddr;
use std::time::Duration;

use super::{Wrong, error, insecure, listeners, moves_money};
use crate::base::finding::Severity;
use crate::config::fault::{SettingFault, SettingPlace};
use crate::config::meant::{LogLevel, StoreKind};
use crate::config::written::{Placed, WrittenConfig};

/// A shorter time ends almost every call before it is done.
const LEAST_TIME: Duration = Duration::from_millis(100);
/// The time in which a payments API hardly answers at all.
const LEAST_ANSWER_TIME: Duration = Duration::from_secs(1);
/// A Redis in the same room answers in this time.
const LEAST_REDIS_TIME: Duration = Duration::from_millis(10);
/// The time in which a person reads one page.
const LEAST_SESSION: Duration = Duration::from_secs(60);
/// The bytes that a call with an account and a reference takes.
const LEAST_BODY: usize = 1_024;

pub(super) fn wrong(written: &WrittenConfig) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    wrong.extend(copies_of_no_use(written));
    wrong.extend(more_copies_than_gates(written));
    wrong.extend(listed_twice(written));
    wrong.extend(no_limit_of_an_address(written));
    if moves_money(written) {
        wrong.extend(ports_that_nobody_knows(written));
        wrong.extend(payments_that_nobody_follows(written));
        wrong.extend(no_wait_for_the_store(written));
        wrong.extend(short_times(written));
        wrong.extend(short_sessions(written));
        wrong.extend(short_bodies(written));
        wrong.extend(silent_log(written));
    }
    wrong
}

/// Checks that journals can have copies: an embedded store has one gate.
fn copies_of_no_use(written: &WrittenConfig) -> Option<Wrong> {
    let (copies, kind) = (written.journal_copies.as_ref()?, written.store_kind.as_ref()?);
    let fault = SettingFault::new("`store.journal_copies` has no effect: `store.kind` is not `redis`");
    let is_useless = copies.value > 1 && kind.value != StoreKind::Redis;
    is_useless.then(|| error(&copies.place, fault.remedy("remove `journal_copies`; an embedded store has one gate")))
}

/// Checks that as many gates exist as must have an entry before the Redis drops it.
fn more_copies_than_gates(written: &WrittenConfig) -> Option<Wrong> {
    let (copies, all) = (written.journal_copies.as_ref()?, written.all_nodes.as_ref()?);
    let fault = SettingFault::new(format!(
        "`store.journal_copies` is {}, but `store.all_nodes` lists {} gates: the Redis could never drop an entry",
        copies.value,
        all.value.len()
    ));
    let remedy = "list every gate in `all_nodes`, or lower `journal_copies`";
    (copies.value > all.value.len()).then(|| error(&copies.place, fault.remedy(remedy)))
}

/// Checks that no gate is listed twice: a gate that is missing hides behind the number.
fn listed_twice(written: &WrittenConfig) -> Option<Wrong> {
    let all = written.all_nodes.as_ref()?;
    let is_again = |(at, name): &(usize, &String)| all.value.iter().take(*at).any(|before| before == *name);
    let (_, twice) = all.value.iter().enumerate().find(is_again)?;
    let fault = SettingFault::new(format!("`store.all_nodes` lists `{twice}` twice"));
    Some(error(&all.place, fault.remedy("list the `store.node` of every gate once")))
}

/// Tells of a limit for an address that is above the share which an address gets anyway.
fn no_limit_of_an_address(written: &WrittenConfig) -> Option<Wrong> {
    let (all, one) = (written.connections.as_ref()?, written.connections_per_peer.as_ref()?);
    let is_written = one.place != SettingPlace::Default;
    let fault = SettingFault::new(format!(
        "`limits.connections_per_peer` ({}) has no effect: an address gets at most half of `limits.connections` ({})",
        one.value, all.value
    ));
    let remedy = "lower it, or remove it";
    (is_written && one.value > all.value.div_ceil(2))
        .then(|| (Severity::Warning, one.place.clone(), fault.remedy(remedy)))
}

/// Checks that callers, people and probes know where to connect.
fn ports_that_nobody_knows(written: &WrittenConfig) -> Vec<Wrong> {
    let is_any = |(_, listen): &(&'static str, &Placed<SocketAddr>)| listen.value.port() == 0;
    let wrong = listeners(written).into_iter().filter(is_any).map(|(name, listen)| {
        let text = format!("`{name}` has port 0: each start takes another port, which nobody knows");
        insecure(&listen.place, text, "write the port that callers, people or probes connect to")
    });
    wrong.collect()
}

fn payments_that_nobody_follows(written: &WrittenConfig) -> Option<Wrong> {
    let follow = written.follow_enabled.as_ref()?;
    let text = "`follow.enabled` is false: limits count payments that never happened, and nobody sees a payment that came back \
                or was made past the gate";
    (!follow.value).then(|| insecure(&follow.place, text.to_owned(), "remove it, or set it to `true`"))
}

fn no_wait_for_the_store(written: &WrittenConfig) -> Option<Wrong> {
    let (wait, kind) = (written.store_wait.as_ref()?, written.store_kind.as_ref()?);
    let text = "`store.wait_secs` is 0: a start fails while the previous process still ends, as at each upgrade";
    let is_none = wait.value.is_zero() && kind.value == StoreKind::Embedded;
    is_none.then(|| insecure(&wait.place, text.to_owned(), "remove it, or set it to more than `timeouts.grace_ms`"))
}

/// Checks that calls have time to be made.
fn short_times(written: &WrittenConfig) -> Vec<Wrong> {
    let refused = "hardly any call arrives whole in this time";
    let not_sent = "hardly any call can be sent in this time";
    let times = [
        ("timeouts.head_ms", &written.head, LEAST_TIME, refused),
        ("timeouts.body_ms", &written.body, LEAST_TIME, refused),
        ("timeouts.client_handshake_ms", &written.client_handshake, LEAST_TIME, "hardly any caller gets a connection"),
        ("timeouts.commit_ms", &written.commit, LEAST_TIME, not_sent),
        ("timeouts.connect_ms", &written.connect, LEAST_TIME, not_sent),
        ("timeouts.tls_handshake_ms", &written.tls_handshake, LEAST_TIME, not_sent),
        ("timeouts.write_ms", &written.write, LEAST_TIME, "the outcome of many calls would be unknown"),
        ("timeouts.answer_ms", &written.answer, LEAST_ANSWER_TIME, "the outcome of most calls would be unknown"),
        ("timeouts.client_write_ms", &written.client_write, LEAST_TIME, "callers lose the answers to their calls"),
        (
            "redis.timeout_ms",
            &written.redis_timeout,
            LEAST_REDIS_TIME,
            "money is closed whenever the Redis is not idle",
        ),
    ];
    let wrong = times.into_iter().filter_map(|(name, time, least, effect)| {
        let time = time.as_ref().filter(|time| time.value < least)?;
        let text = format!("`{name}` is {}: {effect}", time.value.as_millis());
        Some(insecure(&time.place, text, &format!("set it to at least {}, or remove it", least.as_millis())))
    });
    wrong.collect()
}

/// Checks that people have time to read what they approve.
fn short_sessions(written: &WrittenConfig) -> Vec<Wrong> {
    let console = &written.console;
    let times = [
        ("session_idle_secs", &console.session_idle),
        ("session_longest_secs", &console.session_longest),
        ("oidc_renew_secs", &console.oidc_renew),
    ];
    let wrong = times.into_iter().filter_map(|(name, time)| {
        let time = time.as_ref().filter(|time| console.listen.is_some() && time.value < LEAST_SESSION)?;
        let text = format!(
            "`console.{name}` is {}: people are signed out before they can read what they approve",
            time.value.as_secs()
        );
        let remedy = format!("set it to at least {}, or remove it", LEAST_SESSION.as_secs());
        Some(insecure(&time.place, text, &remedy))
    });
    wrong.collect()
}

fn short_bodies(written: &WrittenConfig) -> Option<Wrong> {
    let body = written.body_bytes.as_ref()?;
    let text = format!("`limits.body_bytes` is {}: hardly any call that pays is so short", body.value);
    let remedy = format!("set it to at least {LEAST_BODY}, or remove it");
    (body.value < LEAST_BODY).then(|| insecure(&body.place, text, &remedy))
}

fn silent_log(written: &WrittenConfig) -> Option<Wrong> {
    let level = written.log_level.as_ref()?;
    let text = "`log.level` is `error`: the log does not tell what people must look at before it becomes an error";
    (level.value == LogLevel::Error)
        .then(|| insecure(&level.place, text.to_owned(), "set it to `warn`, or remove it for `info`"))
}
