//! What is right setting by setting, and wrong together.

mod console;
mod issuers;
mod redis;
mod traces;
mod webhooks;

use std::net::SocketAddr;

use super::fault::{Fault, Place};
use super::longest::LongestWrite;
use super::meant::Loosening;
use super::revocations::Revocations;
use super::written::{Placed, Written, WrittenEnvironment};
use super::{pem, url};
use crate::base::finding::{Finding, Severity};
use crate::base::ids::Environment;
use crate::base::keyed::SHORTEST_KEY;
use crate::base::secret::Secret;

/// Everything that does not go together.
pub(super) fn findings(file: &str, written: &Written) -> Vec<Finding> {
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
    faults.extend(short_longest_pause(written));
    faults.extend(no_room_for_one(written));
    faults.extend(seal_keys(written));
    faults.extend(operand_key(written));
    faults.extend(redis::wrong(written));
    faults.extend(webhooks::wrong(written));
    faults.extend(traces::wrong(written));
    faults.extend(nobody_to_agree(written));
    faults.into_iter().map(|(severity, place, fault)| Finding { severity, ..fault.error(file, &place) }).collect()
}

type Wrong = (Severity, Place, Fault);

fn error(place: &Place, fault: Fault) -> Wrong {
    (Severity::Error, place.clone(), fault)
}

/// Where nobody can agree, no set could ever loosen.
fn nobody_to_agree(written: &Written) -> Option<Wrong> {
    let loosening = written.loosening.as_ref().filter(|loosening| loosening.value == Loosening::TwoPeople)?;
    let fault = Fault::new("`loosening` is `two-people`, and there is no `[console]` at which they could agree");
    let fault = fault.remedy("write `[console]`, with the issuer of people's tokens");
    written.console.listen.is_none().then(|| error(&loosening.place, fault))
}

fn tls(section: &str, certificate: &Option<Placed<Vec<u8>>>, key: &Option<Placed<Secret>>) -> Option<Wrong> {
    let (certificate, key) = (certificate.as_ref()?, key.as_ref()?);
    let fault = pem::fit(&certificate.value, key.value.reveal()).err()?;
    Some(error(&key.place, Fault { text: format!("`{section}.tls_key`: {}", fault.text), ..fault }))
}

fn authorities_of_callers(environment: Environment, of: &WrittenEnvironment) -> Option<Wrong> {
    let authorities = of.client_ca.as_ref()?;
    let fault = pem::authorities(&authorities.value).err()?;
    Some(error(&authorities.place, Fault { text: format!("`{environment}.client_ca`: {}", fault.text), ..fault }))
}

fn revocations(environment: Environment, of: &WrittenEnvironment) -> Option<Wrong> {
    let (authorities, file) = (of.client_ca.as_ref()?, of.client_revoked.as_ref()?);
    let certificates = pem::certificates(&authorities.value).ok()?;
    let fault = Revocations::read(&file.value.content, &certificates).err()?;
    let fault = Fault::new(format!("`{environment}.client_revoked`: {fault}"));
    Some(error(&file.place, fault.remedy("put the newest list of each authority into the file")))
}

/// In production a warning would not be enough: whoever stands between could send money elsewhere.
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
    let fault = Fault::new(format!(
        "`{environment}.upstream` is plain HTTP to another machine: anyone between can read and alter calls"
    ));
    let remedy = "write `https://`, or, where the way there is protected otherwise, `allow_plain_upstream = true`";
    Some((severity, upstream.place.clone(), fault.remedy(remedy)))
}

fn authorities_without_tls(environment: Environment, of: &WrittenEnvironment) -> Option<Wrong> {
    let (upstream, authorities) = (of.upstream.as_ref()?, of.upstream_ca.as_ref()?);
    let fault = Fault::new(format!("`{environment}.upstream_ca` has no use: `upstream` is plain HTTP"));
    (!upstream.value.tls)
        .then(|| error(&authorities.place, fault.remedy("write `https://`, or leave `upstream_ca` out")))
}

fn same_address(written: &Written) -> Vec<Wrong> {
    let listeners: Vec<(&str, &Placed<SocketAddr>)> = [
        ("production.listen", &written.production.listen),
        ("sandbox.listen", &written.sandbox.listen),
        ("console.listen", &written.console.listen),
        ("probes.listen", &written.probes_listen),
    ]
    .into_iter()
    .filter_map(|(name, listen)| Some((name, listen.as_ref()?)))
    .collect();
    let mut wrong = Vec::new();
    for (at, (name, listen)) in listeners.iter().enumerate() {
        for (other_name, other) in listeners.iter().take(at).filter(|(_, other)| collide(listen.value, other.value)) {
            let fault = Fault::new(format!(
                "`{name}` and `{other_name}` are the same address, {} and {}",
                listen.value, other.value
            ));
            let place = if listen.place == Place::Default { &other.place } else { &listen.place };
            wrong.push(error(place, fault.remedy("give each a port of its own")));
        }
    }
    wrong
}

/// Port 0 is any free port, so never the same one twice.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let same_ip = one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && same_ip
}

fn same_upstream(written: &Written) -> Option<Wrong> {
    let (production, sandbox) = (written.production.upstream.as_ref()?, written.sandbox.upstream.as_ref()?);
    let (one, other) = (&production.value, &sandbox.value);
    let same = (&one.host, one.port, &one.base_path) == (&other.host, other.port, &other.base_path);
    let fault = Fault::new("`sandbox.upstream` and `production.upstream` are the same: what is tried would be real");
    same.then(|| error(&sandbox.place, fault.remedy("give each environment its own upstream")))
}

fn short_grace(written: &Written) -> Option<Wrong> {
    let (grace, answer) = (written.grace.as_ref()?, written.answer.as_ref()?);
    let (connect, handshake) = (written.connect.as_ref()?.value, written.tls_handshake.as_ref()?.value);
    let longest = LongestWrite::of(connect, handshake, written.write.as_ref()?.value, answer.value).whole;
    let place = if grace.place == Place::Default { &answer.place } else { &grace.place };
    let fault = Fault::new(format!(
        "`timeouts.grace_ms` ({}) is shorter than a write may take ({} ms by the other timeouts): a shutdown would cut \
         payments off",
        grace.value.as_millis(),
        longest.as_millis()
    ));
    let remedy = format!("make `grace_ms` at least {}", longest.as_millis());
    (grace.value < longest).then(|| error(place, fault.remedy(remedy)))
}

fn short_longest_pause(written: &Written) -> Option<Wrong> {
    let (longest, first) = (written.longest_pause.as_ref()?, written.pause.as_ref()?);
    let place = if longest.place == Place::Default { &first.place } else { &longest.place };
    let fault = Fault::new(format!(
        "`reconcile.longest_pause_ms` ({}) is shorter than `reconcile.pause_ms` ({})",
        longest.value.as_millis(),
        first.value.as_millis()
    ));
    (longest.value < first.value).then(|| error(place, fault.remedy("make `longest_pause_ms` the longer one")))
}

fn no_room_for_one(written: &Written) -> Option<Wrong> {
    let (all, one) = (written.bodies_bytes.as_ref()?, written.body_bytes.as_ref()?);
    let place = if all.place == Place::Default { &one.place } else { &all.place };
    let fault = Fault::new(format!(
        "`limits.bodies_bytes` ({}) is less than `limits.body_bytes` ({}): the longest body could never be taken",
        all.value, one.value
    ));
    (all.value < one.value).then(|| error(place, fault.remedy("make `bodies_bytes` the larger one")))
}

fn operand_key(written: &Written) -> Option<Wrong> {
    let key = written.operand_key.as_ref()?;
    let fault =
        Fault::new(format!("`audit.operand_key` is shorter than {SHORTEST_KEY} characters: it could be guessed"));
    let remedy = "make a key with `openssl rand -hex 32`, and name its file";
    (key.value.reveal().len() < SHORTEST_KEY).then(|| error(&key.place, fault.remedy(remedy)))
}

fn seal_keys(written: &Written) -> Option<Wrong> {
    let Some(key) = &written.seal_key else {
        let place = written.production.listen.as_ref()?.place.clone();
        let fault =
            Fault::new("`store.seal_key` is not set: bank and personal data of production are stored in the clear");
        return Some((
            Severity::Warning,
            place,
            fault.remedy("make a key with `openssl rand -hex 32`, and name its file"),
        ));
    };
    let former = written.former_seal_key.as_ref()?;
    let (id, former_id) = (written.seal_key_id.as_ref()?, written.former_seal_key_id.as_ref()?);
    let place = if former_id.place == Place::Default { &id.place } else { &former_id.place };
    let place = if *place == Place::Default { &former.place } else { place };
    let fault = Fault::new(format!(
        "`store.seal_key_id` and `store.former_seal_key_id` are the same, `{}`: which key sealed what?",
        id.value
    ));
    let same_key = key.value.reveal() == former.value.reveal();
    (id.value == former_id.value && !same_key).then(|| error(place, fault.remedy("give the new key a new name")))
}
