//! Checks of settings that are valid on their own but wrong together.

mod console;
mod insecure;
mod issuers;
mod keys;
mod redis;
mod self_defeating;
mod traces;
mod webhooks;
mod witnesses;

use std::net::SocketAddr;
use std::time::Duration;

use super::fault::{SettingFault, SettingPlace};
use super::longest_write::LongestWrite;
use super::meant::{Loosening, MAX_ANSWER_HEAD_BYTES, StoreKind};
use super::revocations::Revocations;
use super::written::{Placed, WrittenConfig, WrittenEnvironment};
use super::{pem, url};
use crate::base::finding::{Finding, Severity};
use crate::base::ids::Environment;
use crate::base::secret::Secret;
use crate::ledger::{InstallationId, NodeId};

/// Returns a finding for every combination that is wrong.
pub(super) fn findings(file: &str, written: &WrittenConfig) -> Vec<Finding> {
    let mut faults = Vec::new();
    for environment in Environment::ALL {
        let of = written.environment(environment);
        faults.extend(tls(environment.as_str(), &of.tls_certificate, &of.tls_key));
        faults.extend(authorities_of_callers(environment, of));
        faults.extend(revocations(environment, of));
        faults.extend(plain_upstream(environment, of));
        faults.extend(authorities_without_tls(environment, of));
    }
    faults.extend(tls("console", &written.console.tls_certificate, &written.console.tls_key));
    faults.extend(issuers::wrong(written));
    faults.extend(console::wrong(written));
    faults.extend(same_address(written));
    faults.extend(same_upstream(written));
    faults.extend(short_grace(written));
    faults.extend(short_upstream_max(written));
    faults.extend(short_longest_pauses(written));
    faults.extend(no_room_for_one(written));
    faults.extend(no_room_for_one_hold(written));
    faults.extend(no_room_for_one_answer(written));
    faults.extend(no_room_to_read_an_answer(written));
    faults.extend(keys::wrong(written));
    faults.extend(installation(written));
    faults.extend(list_of_nodes(written));
    faults.extend(redis::wrong(written));
    faults.extend(webhooks::wrong(written));
    faults.extend(witnesses::wrong(written));
    faults.extend(traces::wrong(written));
    faults.extend(insecure::wrong(written));
    faults.extend(self_defeating::wrong(written));
    faults.extend(nobody_to_agree(written));
    faults.into_iter().map(|(severity, place, fault)| Finding { severity, ..fault.error(file, &place) }).collect()
}

type Wrong = (Severity, SettingPlace, SettingFault);

fn error(place: &SettingPlace, fault: SettingFault) -> Wrong {
    (Severity::Error, place.clone(), fault)
}

fn insecure(place: &SettingPlace, text: String, remedy: &str) -> Wrong {
    (Severity::Insecure, place.clone(), SettingFault::new(text).remedy(remedy))
}

/// Whether a setting is not set; one whose value was refused has a finding of its own.
fn lacks<T>(written: &WrittenConfig, path: &str, setting: &Option<T>) -> bool {
    setting.is_none() && !written.refused.contains(path)
}

/// Whether real money may move: a simulator on this machine moves none.
fn moves_money(written: &WrittenConfig) -> bool {
    written.production.upstream.as_ref().is_some_and(|one| !url::is_loopback(&one.value.host))
}

/// Checks that a console exists if two people must approve a loosening; without one, none could be approved.
fn nobody_to_agree(written: &WrittenConfig) -> Option<Wrong> {
    let loosening = written.loosening.as_ref().filter(|loosening| loosening.value == Loosening::TwoPeople)?;
    let fault = SettingFault::new("`loosening` is `two-people`, but without `[console]` nobody can approve policies");
    let fault = fault.remedy("add `[console]`, with the issuer of people's tokens");
    lacks(written, "console.listen", &written.console.listen).then(|| error(&loosening.place, fault))
}

fn tls(section: &str, certificate: &Option<Placed<Vec<u8>>>, key: &Option<Placed<Secret>>) -> Option<Wrong> {
    let (certificate, key) = (certificate.as_ref()?, key.as_ref()?);
    let fault = pem::fit(&certificate.value, key.value.reveal()).err()?;
    Some(error(&key.place, SettingFault { text: format!("`{section}.tls_key`: {}", fault.text), ..fault }))
}

fn authorities_of_callers(environment: Environment, of: &WrittenEnvironment) -> Option<Wrong> {
    let authorities = of.client_ca.as_ref()?;
    let fault = pem::authorities(&authorities.value).err()?;
    Some(error(
        &authorities.place,
        SettingFault { text: format!("`{environment}.client_ca`: {}", fault.text), ..fault },
    ))
}

fn revocations(environment: Environment, of: &WrittenEnvironment) -> Option<Wrong> {
    let (authorities, file) = (of.client_ca.as_ref()?, of.client_revoked.as_ref()?);
    let certificates = pem::certificates(&authorities.value).ok()?;
    let fault = Revocations::read(&file.value.content, &certificates).err()?;
    let fault = SettingFault::new(format!("`{environment}.client_revoked`: {fault}"));
    Some(error(&file.place, fault.remedy("write the newest list of each authority to the file")))
}

/// Checks that calls to another machine are encrypted. An error, not a warning: anyone in between could redirect
/// payments.
fn plain_upstream(environment: Environment, of: &WrittenEnvironment) -> Option<Wrong> {
    let upstream = of.upstream.as_ref()?;
    let allowed = of.allow_plain_upstream.as_ref().is_none_or(|allow| allow.value);
    if upstream.value.tls || allowed || url::is_loopback(&upstream.value.host) {
        return None;
    }
    let severity = match environment {
        Environment::Production => Severity::Error,
        Environment::Sandbox => Severity::Warning,
    };
    let fault = SettingFault::new(format!(
        "`{environment}.upstream` is plain HTTP to another machine: anyone between can read and alter calls"
    ));
    let remedy = "use `https://`, or set `allow_plain_upstream = true` if the network path is protected by other means";
    Some((severity, upstream.place.clone(), fault.remedy(remedy)))
}

fn authorities_without_tls(environment: Environment, of: &WrittenEnvironment) -> Option<Wrong> {
    let (upstream, authorities) = (of.upstream.as_ref()?, of.upstream_ca.as_ref()?);
    let fault = SettingFault::new(format!("`{environment}.upstream_ca` has no effect: `upstream` is plain HTTP"));
    (!upstream.value.tls).then(|| error(&authorities.place, fault.remedy("use `https://`, or remove `upstream_ca`")))
}

/// Returns the addresses of this gate, each with its setting.
fn listeners(written: &WrittenConfig) -> Vec<(&'static str, &Placed<SocketAddr>)> {
    let all = [
        ("production.listen", &written.production.listen),
        ("sandbox.listen", &written.sandbox.listen),
        ("console.listen", &written.console.listen),
        ("probes.listen", &written.probes_listen),
    ];
    all.into_iter().filter_map(|(name, listen)| Some((name, listen.as_ref()?))).collect()
}

fn same_address(written: &WrittenConfig) -> Vec<Wrong> {
    let listeners = listeners(written);
    let mut wrong = Vec::new();
    for (at, (name, listen)) in listeners.iter().enumerate() {
        for (other_name, other) in listeners.iter().take(at).filter(|(_, other)| collide(listen.value, other.value)) {
            let fault = SettingFault::new(format!(
                "`{name}` and `{other_name}` are the same address, {} and {}",
                listen.value, other.value
            ));
            let place = if listen.place == SettingPlace::Default { &other.place } else { &listen.place };
            wrong.push(error(place, fault.remedy("give each its own port")));
        }
    }
    wrong
}

/// Whether two listeners collide. Port 0 is any free port, so it never collides.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let same_ip = one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && same_ip
}

fn same_upstream(written: &WrittenConfig) -> Option<Wrong> {
    let (production, sandbox) = (written.production.upstream.as_ref()?, written.sandbox.upstream.as_ref()?);
    let (one, other) = (&production.value, &sandbox.value);
    let host = |host: &str| host.trim_end_matches('.').to_ascii_lowercase();
    let same = (host(&one.host), one.port, &one.base_path) == (host(&other.host), other.port, &other.base_path);
    let fault = SettingFault::new(
        "`sandbox.upstream` and `production.upstream` are the same: sandbox calls would move real money",
    );
    same.then(|| error(&sandbox.place, fault.remedy("give each environment its own upstream")))
}

fn short_grace(written: &WrittenConfig) -> Option<Wrong> {
    let (grace, answer) = (written.grace.as_ref()?, written.answer.as_ref()?);
    let (connect, handshake) = (written.connect.as_ref()?.value, written.tls_handshake.as_ref()?.value);
    let (commit, write) = (written.commit.as_ref()?.value, written.write.as_ref()?.value);
    let longest = LongestWrite::of(commit, connect, handshake, write, answer.value).whole;
    let place = if grace.place == SettingPlace::Default { &answer.place } else { &grace.place };
    let fault = SettingFault::new(format!(
        "`timeouts.grace_ms` ({}) is shorter than the longest write ({} ms by the other timeouts): a shutdown would cut \
         payments off",
        grace.value.as_millis(),
        longest.as_millis()
    ));
    let remedy = format!("make `grace_ms` at least {}", longest.as_millis());
    (grace.value < longest).then(|| error(place, fault.remedy(remedy)))
}

fn short_upstream_max(written: &WrittenConfig) -> Option<Wrong> {
    let (upstream_max, answer) = (written.upstream_max.as_ref()?, written.answer.as_ref()?);
    let place = if upstream_max.place == SettingPlace::Default { &answer.place } else { &upstream_max.place };
    let fault = SettingFault::new(format!(
        "`timeouts.upstream_max_ms` ({}) is shorter than `timeouts.answer_ms` ({}): upstream may act as long as the gate \
         waits for its answer",
        upstream_max.value.as_millis(),
        answer.value.as_millis()
    ));
    let remedy = format!("make `upstream_max_ms` at least {}", answer.value.as_millis());
    (upstream_max.value < answer.value).then(|| error(place, fault.remedy(remedy)))
}

fn short_longest_pauses(written: &WrittenConfig) -> Vec<Wrong> {
    let pauses = [
        ("reconcile", "pause_ms", &written.longest_pause, &written.pause),
        ("follow", "interval_ms", &written.follow_longest_pause, &written.follow_interval),
    ];
    pauses
        .into_iter()
        .filter_map(|(section, name, longest, first)| short_longest_pause(section, name, longest, first))
        .collect()
}

fn short_longest_pause(
    section: &str,
    name: &str,
    longest: &Option<Placed<Duration>>,
    first: &Option<Placed<Duration>>,
) -> Option<Wrong> {
    let (longest, first) = (longest.as_ref()?, first.as_ref()?);
    let place = if longest.place == SettingPlace::Default { &first.place } else { &longest.place };
    let fault = SettingFault::new(format!(
        "`{section}.longest_pause_ms` ({}) is shorter than `{section}.{name}` ({})",
        longest.value.as_millis(),
        first.value.as_millis()
    ));
    (longest.value < first.value)
        .then(|| error(place, fault.remedy(format!("make `longest_pause_ms` at least as long as `{name}`"))))
}

/// Checks that a caller alone may send the longest body: it gets half of the part of its environment.
fn no_room_for_one(written: &WrittenConfig) -> Option<Wrong> {
    let (all, one) = (written.bodies_bytes.as_ref()?, written.body_bytes.as_ref()?);
    let served = Environment::ALL.into_iter().filter(|one| written.environment(*one).listen.is_some()).count();
    let least = one.value.saturating_mul(2).saturating_mul(served.max(1));
    let place = if all.place == SettingPlace::Default { &one.place } else { &all.place };
    let fault = SettingFault::new(format!(
        "`limits.bodies_bytes` ({}) is less than {least}, twice `limits.body_bytes` for each environment: the longest body \
         would always be refused",
        all.value
    ));
    (all.value < least).then(|| error(place, fault.remedy("raise `bodies_bytes`, or lower `body_bytes`")))
}

/// Checks that the longest call may wait for approval: a caller alone gets half of the room, and a hold is longer than
/// its body.
fn no_room_for_one_hold(written: &WrittenConfig) -> Option<Wrong> {
    let (all, one) = (written.holds_bytes.as_ref()?, written.body_bytes.as_ref()?);
    let least = one.value.saturating_mul(4);
    let place = if all.place == SettingPlace::Default { &one.place } else { &all.place };
    let fault = SettingFault::new(format!(
        "`limits.holds_bytes` ({}) is less than {least}, four times `limits.body_bytes`: the longest call could never wait \
         for approval",
        all.value
    ));
    (all.value < least).then(|| error(place, fault.remedy("raise `holds_bytes`, or lower `body_bytes`")))
}

/// Checks that each listener has room for the longest answer.
fn no_room_for_one_answer(written: &WrittenConfig) -> Option<Wrong> {
    let (all, one) = (written.buffered_bytes.as_ref()?, written.answer_bytes.as_ref()?);
    let served = Environment::ALL.into_iter().filter(|one| written.environment(*one).listen.is_some()).count();
    // The probes have a listener, too.
    let listeners = served.saturating_add(1).saturating_add(usize::from(written.console.listen.is_some()));
    let least = one.value.saturating_mul(listeners);
    let place = if all.place == SettingPlace::Default { &one.place } else { &all.place };
    let fault = SettingFault::new(format!(
        "`limits.buffered_bytes` ({}) is less than {least}, `limits.answer_bytes` for each of {listeners} listeners: the longest \
         answer could not be written",
        all.value
    ));
    (all.value < least).then(|| error(place, fault.remedy("raise `buffered_bytes`, or lower `answer_bytes`")))
}

/// Checks that each environment has room to read the longest answer, head and body, of another caller beside one that has
/// its half.
fn no_room_to_read_an_answer(written: &WrittenConfig) -> Option<Wrong> {
    let (all, one) = (written.answers_bytes.as_ref()?, written.answer_bytes.as_ref()?);
    let served = Environment::ALL.into_iter().filter(|one| written.environment(*one).listen.is_some()).count();
    let least = one.value.max(MAX_ANSWER_HEAD_BYTES).saturating_mul(4).saturating_mul(served);
    let place = if all.place == SettingPlace::Default { &one.place } else { &all.place };
    let fault = SettingFault::new(format!(
        "`limits.answers_bytes` ({}) is less than {least}, four times `limits.answer_bytes`, or 256 KiB, for each of \
         {served} environments: the longest answers of two callers could not be read",
        all.value
    ));
    (all.value < least).then(|| error(place, fault.remedy("raise `answers_bytes`, or lower `answer_bytes`")))
}

/// Checks the form of the installation's id; gates that share a Redis should have one.
fn installation(written: &WrittenConfig) -> Option<Wrong> {
    let Some(id) = &written.installation else {
        let is_shared = written.store_kind.as_ref().is_some_and(|kind| kind.value == StoreKind::Redis);
        let place = written.production.listen.as_ref().filter(|_| is_shared)?.place.clone();
        let fault = SettingFault::new(
            "`store.installation` is not set: a gate with a new audit folder would not notice another store in the place of its \
             own",
        );
        let finding = (Severity::Insecure, place, fault.remedy("set the id that `sluice store create` shows"));
        return lacks(written, "store.installation", &written.installation).then_some(finding);
    };
    let fault = SettingFault::new("`store.installation` is not the id of an installation");
    let is_one = InstallationId::parse(&id.value).is_some();
    (!is_one).then(|| error(&id.place, fault.remedy("take what `sluice store create` shows: 8 to 64 of `a-z0-9-`")))
}

/// Checks that the list of all gates names this one, and only names of gates.
fn list_of_nodes(written: &WrittenConfig) -> Option<Wrong> {
    let (all, node) = (written.all_nodes.as_ref()?, written.node.as_ref()?);
    if let Some(name) = all.value.iter().find(|name| NodeId::parse(name).is_none()) {
        let fault = SettingFault::new(format!("`store.all_nodes` has `{name}`, which is not the name of a gate"));
        return Some(error(&all.place, fault.remedy("a name has 1 to 64 of `A-Za-z0-9._-`")));
    }
    let fault = SettingFault::new(format!("`store.all_nodes` does not list this gate, `{}`", node.value));
    let is_listed = all.value.iter().any(|name| name == node.value.as_str());
    (!is_listed).then(|| error(&all.place, fault.remedy("list the `store.node` of every gate")))
}
