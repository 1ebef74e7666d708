//! Checks of settings that work, but that let others read or change what they must not.

use std::net::IpAddr;
use std::time::Duration;

use super::{Wrong, insecure, lacks, listeners, moves_money};
use crate::base::ids::Environment;
use crate::base::key_bytes::key_bytes;
use crate::config::fault::SettingPlace;
use crate::config::meant::{CredentialSource, Loosening, StoreKind};
use crate::config::url;
use crate::config::written::{WrittenConfig, WrittenIssuer};

/// The longest that a role should last in a session after the provider took it away.
const LONGEST_RENEWAL: Duration = Duration::from_secs(3_600);
/// The longest that a token should be valid.
const LONGEST_TOKEN: Duration = Duration::from_secs(7 * 86_400);
/// The least time after which servers and proxies give a request up.
const LEAST_UPSTREAM_MAX: Duration = Duration::from_secs(30);

pub(super) fn wrong(written: &WrittenConfig) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    for environment in Environment::ALL {
        wrong.extend(tokens_in_the_clear(environment, written));
    }
    wrong.extend(probes_for_everybody(written));
    wrong.extend(unsigned_audit_log(written));
    wrong.extend(one_issuer_for_people_and_services(written));
    wrong.extend(tokens_of_upstream_at_callers(written));
    wrong.extend(shared_secrets(written));
    wrong.extend(policies_of_one_person(written));
    wrong.extend(plain_production(written));
    wrong.extend(forgetful_store(written));
    wrong.extend(key_that_anybody_guesses(written));
    wrong.extend(no_disk_for_production(written));
    wrong.extend(one_credential_for_both(written));
    wrong.extend(traces_in_the_clear(written));
    for environment in Environment::ALL {
        wrong.extend(upstream_is_this_gate(environment, written));
        wrong.extend(upstream_is_the_cloud(environment, written));
    }
    wrong.extend(links_in_the_clear(written));
    wrong.extend(roles_that_anybody_chooses(written));
    wrong.extend(roles_that_stay_with_a_token(written));
    wrong.extend(roles_that_stay_with_a_session(written));
    wrong.extend(tokens_that_last(written));
    wrong.extend(date_that_nobody_told(written));
    wrong.extend(hasty_absence(written));
    wrong
}

/// Checks that callers' tokens are not sent unencrypted from other machines.
fn tokens_in_the_clear(environment: Environment, written: &WrittenConfig) -> Option<Wrong> {
    let of = written.environment(environment);
    let listen = of.listen.as_ref()?;
    let has_tls = !lacks(written, &format!("{environment}.tls_certificate"), &of.tls_certificate);
    let is_safe = listen.value.ip().is_loopback() || has_tls;
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
    lacks(written, "audit.checkpoint_key", &written.checkpoint_key)
        .then(|| insecure(&listen.place, text.to_owned(), remedy))
}

/// Checks that tokens of people and tokens of services have different issuers.
fn one_issuer_for_people_and_services(written: &WrittenConfig) -> Option<Wrong> {
    let named = written.console.issuer.as_ref()?;
    let issuer = written.issuers.iter().find(|issuer| issuer.name == named.value)?;
    let has_own = written.console.audiences.as_ref().is_some_and(|audiences| !audiences.value.is_empty());
    let has_client = !lacks(written, "console.oidc_client_id", &written.console.oidc_client_id);
    let is_shared = issuer.is_for_callers() && !has_own && !has_client;
    let text = format!(
        "`console.issuer`: `[issuer.{}]` is the issuer of callers, too: the ID token of a person can call the API, and a service \
         with a role can act at the console",
        issuer.name
    );
    let remedy = "set `console.audience` to an audience that only people's tokens have, or give people an issuer of their own, with \
                  `environments = []`";
    is_shared.then(|| insecure(&named.place, text, remedy))
}

/// Checks that callers do not have upstream's token.
fn tokens_of_upstream_at_callers(written: &WrittenConfig) -> Option<Wrong> {
    let listen = written.production.listen.as_ref()?;
    let text = "`production.credential` is not set: upstream gets the callers' tokens, so that callers can pay without this gate";
    let remedy = "set `credential` to a token that only this gate has";
    lacks(written, "production.credential", &written.production.credential)
        .then(|| insecure(&listen.place, text.to_owned(), remedy))
}

/// Checks that whoever verifies tokens of production or of people cannot make them.
fn shared_secrets(written: &WrittenConfig) -> Vec<Wrong> {
    let wrong = written.issuers.iter().filter(|issuer| is_of_production(issuer, written)).filter_map(|issuer| {
        let text = format!(
            "`issuer.{}.shared_secret`: whoever has the secret, this gate too, can make tokens of anybody",
            issuer.name
        );
        let remedy = "use public keys: `jwks_url`, `jwks_file` or `public_key`";
        Some(insecure(&issuer.shared_secret.as_ref()?.place, text, remedy))
    });
    wrong.collect()
}

/// Whether tokens of an issuer are those of production's callers, or of people.
fn is_of_production(issuer: &WrittenIssuer, written: &WrittenConfig) -> bool {
    let is_production =
        issuer.environments.as_ref().is_some_and(|environments| environments.value.contains(&Environment::Production));
    let is_console = written.console.issuer.as_ref().is_some_and(|named| named.value == issuer.name);
    written.production.listen.is_some() && (is_production || is_console)
}

/// Checks that nobody alone decides what is paid, where people could decide together.
fn policies_of_one_person(written: &WrittenConfig) -> Option<Wrong> {
    let (listen, loosening) = (written.production.listen.as_ref()?, written.loosening.as_ref()?);
    let is_free = written.console.listen.is_some() && loosening.value == Loosening::Free;
    let place = if loosening.place == SettingPlace::Default { &listen.place } else { &loosening.place };
    let text = "`loosening` is `free`: whoever can write the folder of policies alone decides what is paid";
    is_free.then(|| insecure(place, text.to_owned(), "set `loosening = \"two-people\"`"))
}

/// Checks that payments are encrypted on their way to upstream, even where plain HTTP is allowed.
fn plain_production(written: &WrittenConfig) -> Option<Wrong> {
    let (upstream, allowed) =
        (written.production.upstream.as_ref()?, written.production.allow_plain_upstream.as_ref()?);
    let is_plain = !upstream.value.tls && allowed.value && !url::is_loopback(&upstream.value.host);
    let text = "`production.allow_plain_upstream`: anyone between this gate and upstream can read and alter payments";
    is_plain.then(|| insecure(&allowed.place, text.to_owned(), "use `https://` in `upstream`"))
}

/// Checks that production does not use a Redis that may forget payments.
fn forgetful_store(written: &WrittenConfig) -> Option<Wrong> {
    let (_, allowed) = (written.production.listen.as_ref()?, written.redis_allow_unsafe.as_ref()?);
    let text = "`redis.allow_unsafe`: a Redis that may evict or keeps nothing on disk forgets what was paid";
    allowed.value.then(|| {
        insecure(&allowed.place, text.to_owned(), "remove `allow_unsafe`, and configure the Redis as `redis.md` says")
    })
}

/// Checks that the key that seals is not a placeholder.
fn key_that_anybody_guesses(written: &WrittenConfig) -> Option<Wrong> {
    let key = written.seal_key.as_ref()?;
    let bytes = key_bytes(key.value.reveal().trim())?;
    let is_one_byte = bytes.iter().all(|byte| bytes.first() == Some(byte));
    let text = "`store.seal_key` is the same byte 32 times: whoever tries that reads bank data, and can plant records";
    let remedy = "create a key with `openssl rand -hex 32`, and replace this one as `rotate.md` says";
    is_one_byte.then(|| insecure(&key.place, text.to_owned(), remedy))
}

/// Checks that the sandbox does not get the token that moves money.
fn one_credential_for_both(written: &WrittenConfig) -> Option<Wrong> {
    let (production, sandbox) = (written.production.credential.as_ref()?, written.sandbox.credential.as_ref()?);
    let text =
        "`sandbox.credential` is `production.credential`: the provider's sandbox gets the token that moves money";
    let remedy = "set `sandbox.credential` to a token of the sandbox";
    let is_same = match (&production.value, &sandbox.value) {
        (CredentialSource::Given(one), CredentialSource::Given(other)) => one.reveal() == other.reveal(),
        (CredentialSource::File(one), CredentialSource::File(other)) => one == other,
        _ => false,
    };
    is_same.then(|| insecure(&sandbox.place, text.to_owned(), remedy))
}

/// Checks that traces are encrypted on their way to another machine.
fn traces_in_the_clear(written: &WrittenConfig) -> Option<Wrong> {
    let has_secret = !lacks(written, "telemetry.otlp_authorization", &written.otlp_authorization);
    let otlp = written.otlp.as_ref().filter(|_| !has_secret)?;
    let text =
        "`telemetry.otlp` is plain HTTP to another machine: anyone on the network path reads what is called, and when";
    (!url::is_safe(&otlp.value))
        .then(|| insecure(&otlp.place, text.to_owned(), "use `https://`, or a collector on this machine"))
}

/// Checks that sandbox cannot fill the disk that production needs.
fn no_disk_for_production(written: &WrittenConfig) -> Option<Wrong> {
    let kept = written.production_bytes.as_ref()?;
    let has_both = written.production.listen.is_some() && written.sandbox.listen.is_some();
    let text = "`audit.production_bytes` is 0: callers of sandbox can fill the disk, and then production pays nothing";
    let remedy = "keep at least 268435456 bytes, the default";
    (has_both && kept.value == 0).then(|| insecure(&kept.place, text.to_owned(), remedy))
}

/// Checks that calls do not come back to this gate.
fn upstream_is_this_gate(environment: Environment, written: &WrittenConfig) -> Option<Wrong> {
    let upstream = written.environment(environment).upstream.as_ref()?;
    let (host, port) = (&upstream.value.host, upstream.value.port);
    let ip = host.parse::<IpAddr>().ok();
    let is_here = |listen: IpAddr| {
        let by_loopback = url::is_loopback(host) && (listen.is_unspecified() || listen.is_loopback());
        by_loopback || ip.is_some_and(|ip| ip == listen || ip.is_unspecified())
    };
    let listeners = listeners(written).into_iter();
    let (name, _) = listeners.filter(|(_, of)| of.value.port() == port).find(|(_, of)| is_here(of.value.ip()))?;
    let text =
        format!("`{environment}.upstream` is `{name}`, an address of this gate: no call reaches the payments API");
    Some(insecure(&upstream.place, text, "set the address of the payments API, or of the proxy before it"))
}

/// Checks that upstream's token does not go to whoever answers on the local link, such as the metadata service of a cloud.
fn upstream_is_the_cloud(environment: Environment, written: &WrittenConfig) -> Option<Wrong> {
    let upstream = written.environment(environment).upstream.as_ref()?;
    let text = format!(
        "`{environment}.upstream` is an address of the local link or of a cloud's metadata service: it is no payments API, and \
         gets its token"
    );
    url::is_local_link(&upstream.value.host)
        .then(|| insecure(&upstream.place, text, "set the address of the payments API, or of the proxy before it"))
}

/// Checks that browsers reach the console by HTTPS: links in notices lead to this address.
fn links_in_the_clear(written: &WrittenConfig) -> Option<Wrong> {
    let public = written.console.public_url.as_ref()?;
    let text = "`console.public_url` is plain HTTP to another machine: anyone on the network path can steal people's sessions, and \
                approve as they";
    let is_plain = public.value.starts_with("http:") && !url::is_safe(&public.value);
    is_plain.then(|| insecure(&public.place, text.to_owned(), "use the `https://` URL of the console"))
}

/// Checks that roles come from a field that the issuer fills, not from a name.
fn roles_that_anybody_chooses(written: &WrittenConfig) -> Vec<Wrong> {
    const NAMES: [&str; 8] = ["sub", "iss", "jti", "name", "nickname", "preferred_username", "given_name", "email"];
    let wrong = written.issuers.iter().filter_map(|issuer| {
        let roles = issuer.roles.as_ref()?;
        let [step] = roles.value.steps() else { return None };
        let name = NAMES.into_iter().find(|name| name == step)?;
        let text = format!(
            "`issuer.{}.roles` is `{name}`, a name: whoever gets a token with the name `operator` or `approver` has that role",
            issuer.name
        );
        let remedy = "name the field that lists a person's roles, such as `roles` or `realm_access.roles`";
        Some(insecure(&roles.place, text, remedy))
    });
    wrong.collect()
}

/// Checks that a role that the provider took away ends soon, also for whoever signed in with a token.
fn roles_that_stay_with_a_token(written: &WrittenConfig) -> Option<Wrong> {
    let console = &written.console;
    let (client, by_token) = (console.oidc_client_id.as_ref()?, console.token_sign_in.as_ref()?);
    let issuer =
        written.issuers.iter().find(|issuer| console.issuer.as_ref().is_some_and(|of| of.value == issuer.name))?;
    let token = issuer.longest_lifetime.as_ref()?.value;
    let longest = console.session_longest.as_ref().map_or(token, |session| session.value.min(token));
    let place = if by_token.place == SettingPlace::Default { &client.place } else { &by_token.place };
    let text = format!(
        "`console.token_sign_in` is true beside `oidc_client_id`: a session from a token keeps a role that was taken away for up to \
         {} s",
        longest.as_secs()
    );
    by_token.value.then(|| insecure(place, text, "set `token_sign_in = false`: people sign in at the provider"))
}

/// Checks that sessions ask the provider again soon whether a person still has a role.
fn roles_that_stay_with_a_session(written: &WrittenConfig) -> Option<Wrong> {
    let (_, renew) = (written.console.oidc_client_id.as_ref()?, written.console.oidc_renew.as_ref()?);
    let secs = renew.value.as_secs();
    let text = format!(
        "`console.oidc_renew_secs` is {secs}: a person acts for up to {secs} s with a role that was taken away"
    );
    let remedy = "set it to an hour or less; the default is 900";
    (renew.value > LONGEST_RENEWAL).then(|| insecure(&renew.place, text, remedy))
}

/// Checks that a token that leaks is of use for days at most.
fn tokens_that_last(written: &WrittenConfig) -> Vec<Wrong> {
    let wrong = written.issuers.iter().filter(|issuer| is_of_production(issuer, written)).filter_map(|issuer| {
        let longest = issuer.longest_lifetime.as_ref().filter(|longest| longest.value > LONGEST_TOKEN)?;
        let secs = longest.value.as_secs();
        let text = format!(
            "`issuer.{}.longest_lifetime_secs` is {secs}: whoever gets hold of a token uses it for up to {} days",
            issuer.name,
            secs / 86_400
        );
        Some(insecure(&longest.place, text, "set it to the lifetime of the issuer's tokens, a day or less"))
    });
    wrong.collect()
}

/// Checks that money waits for somebody's date where the gate's clock ends limits and claims.
fn date_that_nobody_told(written: &WrittenConfig) -> Option<Wrong> {
    let asks = written.production.ask_date.as_ref()?;
    let is_embedded = written.store_kind.as_ref().is_some_and(|kind| kind.value == StoreKind::Embedded);
    let text = "`production.ask_date` is false: a clock that is wrong at a start ends limits and claims early, so that payments can \
                exceed limits or be made twice";
    let remedy = "remove it: a start asks upstream for its date, without a token";
    (!asks.value && is_embedded && moves_money(written)).then(|| insecure(&asks.place, text.to_owned(), remedy))
}

/// Checks that nobody calls a payment absent while upstream may still carry it out.
fn hasty_absence(written: &WrittenConfig) -> Option<Wrong> {
    let longest = written.upstream_max.as_ref()?;
    let text = format!(
        "`timeouts.upstream_max_ms` is {}: a payment on which upstream works for longer can be called absent, and is made twice",
        longest.value.as_millis()
    );
    let remedy = "keep the default, 120000: servers and proxies give a request up after 30 to 60 seconds";
    (longest.value < LEAST_UPSTREAM_MAX && moves_money(written)).then(|| insecure(&longest.place, text, remedy))
}
