//! Checks of settings that work, but that let others read or change what they must not.

use super::Wrong;
use crate::base::finding::Severity;
use crate::base::ids::Environment;
use crate::config::fault::{SettingFault, SettingPlace};
use crate::config::written::WrittenConfig;

pub(super) fn wrong(written: &WrittenConfig) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    for environment in Environment::ALL {
        wrong.extend(tokens_in_the_clear(environment, written));
    }
    wrong.extend(probes_for_everybody(written));
    wrong.extend(unsigned_audit_log(written));
    wrong.extend(one_issuer_for_people_and_services(written));
    wrong
}

fn insecure(place: &SettingPlace, text: String, remedy: &str) -> Wrong {
    (Severity::Insecure, place.clone(), SettingFault::new(text).remedy(remedy))
}

/// Checks that callers' tokens are not sent unencrypted from other machines.
fn tokens_in_the_clear(environment: Environment, written: &WrittenConfig) -> Option<Wrong> {
    let of = written.environment(environment);
    let listen = of.listen.as_ref()?;
    let is_safe = listen.value.ip().is_loopback() || of.tls_certificate.is_some();
    let text = format!(
        "`{environment}.listen` speaks plain HTTP to other machines: anyone on the network path can read tokens and payments"
    );
    let remedy = "set `tls_certificate` and `tls_key`, or listen on 127.0.0.1 beside a TLS proxy";
    (!is_safe).then(|| insecure(&listen.place, text, remedy))
}

/// Checks that metrics are not served on every network of the machine.
fn probes_for_everybody(written: &WrittenConfig) -> Option<Wrong> {
    let listen = written.probes_listen.as_ref()?;
    let text =
        "`probes.listen` is every address of this machine: anyone who reaches it reads the metrics, without a token";
    let remedy = "listen on the address of the network that Prometheus and the probes come from";
    listen.value.ip().is_unspecified().then(|| insecure(&listen.place, text.to_owned(), remedy))
}

/// Checks that the audit log of production is signed.
fn unsigned_audit_log(written: &WrittenConfig) -> Option<Wrong> {
    let listen = written.production.listen.as_ref()?;
    let text =
        "`audit.checkpoint_key` is not set: whoever can write the audit files can cut off or rewrite entries unnoticed";
    let remedy = "create a key with `sluice audit key FILE`, and keep the checkpoints on another machine";
    written.checkpoint_key.is_none().then(|| insecure(&listen.place, text.to_owned(), remedy))
}

/// Checks that tokens of people and tokens of services have different issuers.
fn one_issuer_for_people_and_services(written: &WrittenConfig) -> Option<Wrong> {
    let named = written.console.issuer.as_ref()?;
    let issuer = written.issuers.iter().find(|issuer| issuer.name == named.value)?;
    let has_own = written.console.audiences.as_ref().is_some_and(|audiences| !audiences.value.is_empty());
    let is_shared = issuer.is_for_callers() && !has_own && written.console.oidc_client_id.is_none();
    let text = format!(
        "`console.issuer`: `[issuer.{}]` is the issuer of callers, too: the ID token of a person can call the API, and a service \
         with a role can act at the console",
        issuer.name
    );
    let remedy = "set `console.audience` to an audience that only people's tokens have, or give people an issuer of their own, with \
                  `environments = []`";
    is_shared.then(|| insecure(&named.place, text, remedy))
}
