//! What does not go together in an issuer, among issuers, or with the environments.

use super::{Wrong, error};
use crate::base::ids::Environment;
use crate::config::fault::Fault;
use crate::config::written::{Written, WrittenIssuer};
use crate::stations::admit::{Algorithm, KeyKind};
use crate::stations::hold::Owners;

pub(super) fn wrong(written: &Written) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    for environment in Environment::ALL {
        wrong.extend(nobody_may_call(environment, written));
    }
    wrong.extend(nobody_for_the_console(written));
    wrong.extend(owners_of_nothing(written));
    for (at, issuer) in written.issuers.iter().enumerate() {
        wrong.extend(nowhere_to_be_used(issuer, written));
        wrong.extend(algorithms_that_do_not_fit(issuer));
        wrong.extend(short_secret(issuer));
        wrong.extend(authorities_without_tls(issuer));
        wrong.extend(written.issuers.iter().take(at).filter_map(|other| same_issuer(issuer, other)));
        wrong.extend(written.issuers.iter().take(at).filter_map(|other| same_kept_file(issuer, other)));
    }
    wrong
}

/// Where an issuer's environments could not be read, that is told already.
fn nobody_may_call(environment: Environment, written: &Written) -> Option<Wrong> {
    let of = written.environment(environment);
    let place = of.listen.as_ref().map(|l| &l.place).or(of.upstream.as_ref().map(|u| &u.place))?;
    let may = |issuer: &WrittenIssuer| {
        let unreadable = issuer.environments.is_none() || nowhere_to_be_used(issuer, written).is_some();
        unreadable || issuer.environments.as_ref().is_some_and(|e| e.value.contains(&environment))
    };
    let fault = Fault::new(format!("no issuer may use `{environment}`: every call would be refused")).remedy(format!(
        "write a section `[issuer.NAME]`, or add `{environment}` to the `environments` of one that is there"
    ));
    (!written.issuers.iter().any(may)).then(|| error(place, fault))
}

/// The console takes the tokens of one issuer, and what each may do is said by its roles.
fn nobody_for_the_console(written: &Written) -> Option<Wrong> {
    let named = written.console.issuer.as_ref()?;
    let name = &named.value;
    let Some(issuer) = written.issuers.iter().find(|issuer| issuer.name == *name) else {
        let known: Vec<String> = written.issuers.iter().map(|issuer| format!("`{}`", issuer.name)).collect();
        let remedy = format!("write that section, or name one that is there: {}", known.join(", "));
        let fault = Fault::new(format!("`console.issuer`: there is no `[issuer.{name}]`"));
        return Some(error(&named.place, fault.remedy(remedy)));
    };
    let fault =
        Fault::new(format!("`console.issuer`: `[issuer.{name}]` has no `roles`: nobody could do anything there"));
    let remedy = "write `roles`, the field of its tokens that says who is an `operator`, an `approver`, and so on";
    issuer.roles.is_none().then(|| error(&named.place, fault.remedy(remedy)))
}

/// An owner that is written otherwise would be believed to be kept from judging, and would judge.
fn owners_of_nothing(written: &Written) -> Vec<Wrong> {
    let Some(owners) = &written.console.owners else { return Vec::new() };
    let is_known = |text: &str| {
        let issuer = text.split_once(':').map(|(issuer, _)| issuer);
        written.issuers.iter().any(|one| Some(one.name.as_str()) == issuer)
    };
    let is_wrong = |text: &&String| Owners::parse(std::slice::from_ref(*text)).is_none() || !is_known(text);
    let fault = |text: &String| {
        let fault = Fault::new(format!("`console.owners` cannot hold `{}`", text.escape_debug()));
        let remedy = "write the name of an issuer that is there, a colon, a subject, `=`, and the subject of a person";
        error(&owners.place, fault.remedy(remedy))
    };
    owners.value.iter().filter(is_wrong).map(fault).collect()
}

fn nowhere_to_be_used(issuer: &WrittenIssuer, written: &Written) -> Option<Wrong> {
    let environments = issuer.environments.as_ref()?;
    let is_of_console = written.console.issuer.as_ref().is_some_and(|console| console.value == issuer.name);
    let fault = Fault::new(format!("`issuer.{}.environments`: the list is empty", issuer.name))
        .remedy("write at least one, or name this issuer in `[console]`");
    (environments.value.is_empty() && !is_of_console).then(|| error(&environments.place, fault))
}

/// A public key that is taken for a shared secret is one that everybody has.
fn algorithms_that_do_not_fit(issuer: &WrittenIssuer) -> Option<Wrong> {
    let algorithms = issuer.algorithms.as_ref()?;
    let path = format!("issuer.{}.algorithms", issuer.name);
    let first = |fits: &dyn Fn(Algorithm) -> bool| algorithms.value.iter().find(|a| !fits(**a));
    let is_shared = |algorithm: Algorithm| algorithm.kind() == KeyKind::Shared;
    let public = issuer.jwks_url.is_some() || issuer.jwks_file.is_some() || issuer.public_key.is_some();
    let fault = match (&issuer.shared_secret, &issuer.public_key) {
        (Some(_), _) if !public => {
            let algorithm = first(&is_shared)?.as_str();
            Fault::new(format!("`{path}`: `{algorithm}` does not go with a shared secret"))
                .remedy("choose among `HS256`, `HS384` and `HS512`, or give public keys instead of `shared_secret`")
        }
        (None, Some(key)) => {
            let algorithm = first(&|algorithm| algorithm.kind() == key.value.kind)?.as_str();
            let named = Algorithm::ALL.into_iter().filter(|a| a.kind() == key.value.kind);
            let fitting: Vec<String> = named.map(|a| format!("`{}`", a.as_str())).collect();
            Fault::new(format!("`{path}`: `{algorithm}` does not go with the key in `public_key`"))
                .remedy(format!("with that key go: {}", fitting.join(", ")))
        }
        (None, None) if public => {
            let algorithm = first(&|algorithm| !is_shared(algorithm))?.as_str();
            Fault::new(format!("`{path}`: `{algorithm}` goes with a shared secret alone"))
                .remedy("name algorithms with public keys, such as `RS256`, `ES256` or `EdDSA`")
        }
        // More sources than one, or none that could be read: told already.
        _ => return None,
    };
    Some(error(&algorithms.place, fault))
}

fn short_secret(issuer: &WrittenIssuer) -> Option<Wrong> {
    let (secret, algorithms) = (issuer.shared_secret.as_ref()?, issuer.algorithms.as_ref()?);
    let needs = algorithms.value.iter().filter_map(|a| Some((a.shortest_secret_bytes()?, a.as_str())));
    let (bytes, algorithm) = needs.max()?;
    let fault = Fault::new(format!(
        "`issuer.{}.shared_secret`: it is too short: `{algorithm}` needs {bytes} bytes or more",
        issuer.name
    ));
    let is_short = secret.value.reveal().len() < bytes;
    is_short.then(|| error(&secret.place, fault.remedy("make a new one: `openssl rand -base64 48`, for example")))
}

fn authorities_without_tls(issuer: &WrittenIssuer) -> Option<Wrong> {
    let (url, authorities) = (issuer.jwks_url.as_ref()?, issuer.jwks_ca.as_ref()?);
    let is_plain = url.value.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http:"));
    let fault = Fault::new(format!("`issuer.{}.jwks_ca` has no use: `jwks_url` is plain HTTP", issuer.name));
    is_plain.then(|| error(&authorities.place, fault.remedy("write `https://`, or leave `jwks_ca` out")))
}

/// Each would overwrite what the other keeps.
fn same_kept_file(one: &WrittenIssuer, other: &WrittenIssuer) -> Option<Wrong> {
    let (kept, same) = (one.jwks_keep.as_ref()?, other.jwks_keep.as_ref()?);
    let fault =
        Fault::new(format!("`issuer.{}.jwks_keep` and `issuer.{}.jwks_keep` are the same file", one.name, other.name));
    let place = (&kept.place).max(&same.place);
    (kept.value == same.value).then(|| error(place, fault.remedy("give each issuer a file of its own")))
}

/// Whose token it is, is told by `iss` alone.
fn same_issuer(one: &WrittenIssuer, other: &WrittenIssuer) -> Option<Wrong> {
    let (issuer, same) = (one.issuer.as_ref()?, other.issuer.as_ref()?);
    let fault = Fault::new(format!("`issuer.{}.issuer` and `issuer.{}.issuer` are the same", one.name, other.name));
    let place = (&issuer.place).max(&same.place);
    (issuer.value == same.value).then(|| error(place, fault.remedy("write each issuer once, with all that it may do")))
}
