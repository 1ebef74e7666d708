//! Checks of an issuer's settings together, among issuers, and with the environments.

use super::{Wrong, error, lacks};
use crate::base::finding::Severity;
use crate::base::ids::Environment;
use crate::config::fault::SettingFault;
use crate::config::meant::SubjectForm;
use crate::config::written::{WrittenConfig, WrittenIssuer};
use crate::stations::admit::{Algorithm, KeyKind};
use crate::stations::check::RequestIdPrefixes;
use crate::stations::hold::Owners;

pub(super) fn wrong(written: &WrittenConfig) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    for environment in Environment::ALL {
        wrong.extend(nobody_may_call(environment, written));
    }
    wrong.extend(nobody_for_the_console(written));
    wrong.extend(owners_of_nothing(written));
    wrong.extend(prefixes_that_do_not_fit(written));
    wrong.extend(shared_request_ids(written));
    for (at, issuer) in written.issuers.iter().enumerate() {
        wrong.extend(nowhere_to_be_used(issuer, written));
        wrong.extend(algorithms_that_do_not_fit(issuer));
        wrong.extend(short_secret(issuer));
        wrong.extend(opaque_subjects(issuer));
        wrong.extend(audience_as_a_pattern(issuer));
        wrong.extend(authorities_without_tls(issuer));
        wrong.extend(written.issuers.iter().take(at).filter_map(|other| same_issuer(issuer, other)));
        wrong.extend(written.issuers.iter().take(at).filter_map(|other| same_kept_file(issuer, other)));
    }
    wrong
}

/// Checks that an environment has an issuer. Unreadable environments of an issuer are reported elsewhere.
fn nobody_may_call(environment: Environment, written: &WrittenConfig) -> Option<Wrong> {
    let of = written.environment(environment);
    let place = of.listen.as_ref().map(|l| &l.place).or(of.upstream.as_ref().map(|u| &u.place))?;
    let may = |issuer: &WrittenIssuer| {
        let unreadable = issuer.environments.is_none() || nowhere_to_be_used(issuer, written).is_some();
        unreadable || issuer.environments.as_ref().is_some_and(|e| e.value.contains(&environment))
    };
    let fault = SettingFault::new(format!("no issuer may use `{environment}`: every call would be refused")).remedy(
        format!("add a section `[issuer.NAME]`, or add `{environment}` to the `environments` of an existing one"),
    );
    (!written.issuers.iter().any(may)).then(|| error(place, fault))
}

/// Checks that the console's issuer exists and has roles, which say what each person may do.
fn nobody_for_the_console(written: &WrittenConfig) -> Option<Wrong> {
    let named = written.console.issuer.as_ref()?;
    let name = &named.value;
    let Some(issuer) = written.issuers.iter().find(|issuer| issuer.name == *name) else {
        let known: Vec<String> = written.issuers.iter().map(|issuer| format!("`{}`", issuer.name)).collect();
        let remedy = format!("add that section, or name an existing one: {}", known.join(", "));
        let fault = SettingFault::new(format!("`console.issuer`: there is no `[issuer.{name}]`"));
        return Some(error(&named.place, fault.remedy(remedy)));
    };
    let fault = SettingFault::new(format!(
        "`console.issuer`: `[issuer.{name}]` has no `roles`: nobody could do anything at the console"
    ));
    let remedy =
        "set `roles` to the field of its tokens that lists a person's roles: `operator`, `approver`, and so on";
    lacks(written, &format!("issuer.{name}.roles"), &issuer.roles).then(|| error(&named.place, fault.remedy(remedy)))
}

/// Checks the form of owners: a misspelt owner would not be kept from approving their own requests.
fn owners_of_nothing(written: &WrittenConfig) -> Vec<Wrong> {
    let Some(owners) = &written.console.owners else { return Vec::new() };
    let is_known = |text: &str| {
        let issuer = text.split_once(':').map(|(issuer, _)| issuer);
        written.issuers.iter().any(|one| Some(one.name.as_str()) == issuer)
    };
    let is_wrong = |text: &&String| Owners::parse(std::slice::from_ref(*text)).is_none() || !is_known(text);
    let fault = |text: &String| {
        let fault =
            SettingFault::new(format!("`console.owners` contains `{}`, which is not an owner", text.escape_debug()));
        let remedy = "write the name of a configured issuer, a colon, a subject, `=`, and the subject of a person";
        error(&owners.place, fault.remedy(remedy))
    };
    owners.value.iter().filter(is_wrong).map(fault).collect()
}

/// Checks the form of prefixes, that their issuers exist, and that no requestId has two.
fn prefixes_that_do_not_fit(written: &WrittenConfig) -> Option<Wrong> {
    let given = written.request_id_prefixes.as_ref()?;
    let Some(prefixes) = RequestIdPrefixes::parse(&given.value) else {
        let fault = SettingFault::new("`request_id_prefixes` contains a text that is not a caller and its prefix");
        let remedy = "write `ISSUER:SUBJECT=PREFIX` or `ISSUER=PREFIX`; a prefix has 1 to 32 of `A-Za-z0-9._-`";
        return Some(error(&given.place, fault.remedy(remedy)));
    };
    if let Some((one, other)) = prefixes.conflict() {
        let fault = SettingFault::new(format!(
            "`request_id_prefixes`: `{one}` and `{other}` are of one caller, or one begins with the other"
        ));
        return Some(error(&given.place, fault.remedy("give each caller one prefix, such as its name and a hyphen")));
    }
    let unknown = prefixes.issuers().find(|name| !written.issuers.iter().any(|issuer| issuer.name == **name))?;
    let fault = SettingFault::new(format!("`request_id_prefixes`: there is no `[issuer.{}]`", unknown.escape_debug()));
    Some(error(&given.place, fault.remedy("write the name of a configured issuer before the colon")))
}

/// Recommends prefixes where the callers of several issuers pay: one could take another's requestId first.
fn shared_request_ids(written: &WrittenConfig) -> Option<Wrong> {
    let given = written.request_id_prefixes.as_ref()?;
    let prefixes = RequestIdPrefixes::parse(&given.value)?;
    let pays = |issuer: &&WrittenIssuer| {
        issuer.environments.as_ref().is_some_and(|all| all.value.contains(&Environment::Production))
    };
    let paying: Vec<&WrittenIssuer> = written.issuers.iter().filter(pays).collect();
    let without = paying.iter().find(|issuer| !prefixes.issuers().any(|name| name == issuer.name))?;
    let fault = SettingFault::new(format!(
        "callers of several issuers use production, and those of `{}` have no prefix of requestIds: another caller can take \
         their requestIds first",
        without.name
    ));
    let remedy = "give each caller that pays its own prefix in `request_id_prefixes`";
    let place = without.environments.as_ref().map_or(&given.place, |environments| &environments.place);
    (paying.len() > 1).then(|| (Severity::Warning, place.clone(), fault.remedy(remedy)))
}

fn nowhere_to_be_used(issuer: &WrittenIssuer, written: &WrittenConfig) -> Option<Wrong> {
    let environments = issuer.environments.as_ref()?;
    let is_of_console = written.console.issuer.as_ref().is_some_and(|console| console.value == issuer.name);
    let fault = SettingFault::new(format!("`issuer.{}.environments`: the list is empty", issuer.name))
        .remedy("add at least one, or name this issuer in `[console]`");
    (environments.value.is_empty() && !is_of_console).then(|| error(&environments.place, fault))
}

/// Checks that algorithms fit the keys: a public key used as a shared secret is known to everyone.
fn algorithms_that_do_not_fit(issuer: &WrittenIssuer) -> Option<Wrong> {
    let algorithms = issuer.algorithms.as_ref()?;
    let path = format!("issuer.{}.algorithms", issuer.name);
    let first = |fits: &dyn Fn(Algorithm) -> bool| algorithms.value.iter().find(|a| !fits(**a));
    let is_shared = |algorithm: Algorithm| algorithm.kind() == KeyKind::Shared;
    let public = issuer.jwks_url.is_some() || issuer.jwks_file.is_some() || issuer.public_key.is_some();
    let fault = match (&issuer.shared_secret, &issuer.public_key) {
        (Some(_), _) if !public => {
            let algorithm = first(&is_shared)?.as_str();
            SettingFault::new(format!("`{path}`: `{algorithm}` cannot be used with a shared secret"))
                .remedy("use `HS256`, `HS384` or `HS512`, or configure public keys instead of `shared_secret`")
        }
        (None, Some(key)) => {
            let algorithm = first(&|algorithm| algorithm.kind() == key.value.kind)?.as_str();
            let named = Algorithm::ALL.into_iter().filter(|a| a.kind() == key.value.kind);
            let fitting: Vec<String> = named.map(|a| format!("`{}`", a.as_str())).collect();
            SettingFault::new(format!("`{path}`: `{algorithm}` cannot be used with the key in `public_key`"))
                .remedy(format!("that key can be used with: {}", fitting.join(", ")))
        }
        (None, None) if public => {
            let algorithm = first(&|algorithm| !is_shared(algorithm))?.as_str();
            SettingFault::new(format!("`{path}`: `{algorithm}` needs a shared secret"))
                .remedy("use algorithms with public keys, such as `RS256`, `ES256` or `EdDSA`")
        }
        // Several key sources, or none that is readable, are reported elsewhere.
        _ => return None,
    };
    Some(error(&algorithms.place, fault))
}

fn short_secret(issuer: &WrittenIssuer) -> Option<Wrong> {
    let (secret, algorithms) = (issuer.shared_secret.as_ref()?, issuer.algorithms.as_ref()?);
    let needs = algorithms.value.iter().filter_map(|a| Some((a.shortest_secret_bytes()?, a.as_str())));
    let (bytes, algorithm) = needs.max()?;
    let fault = SettingFault::new(format!(
        "`issuer.{}.shared_secret`: the secret is too short: `{algorithm}` needs at least {bytes} bytes",
        issuer.name
    ));
    let is_short = secret.value.reveal().len() < bytes;
    is_short.then(|| error(&secret.place, fault.remedy("create a new one, for example with `openssl rand -base64 48`")))
}

/// Recommends opaque subjects of one case: if one person can have two spellings of a subject, that person counts twice.
fn opaque_subjects(issuer: &WrittenIssuer) -> Option<Wrong> {
    let subjects = issuer.subjects.as_ref().filter(|form| form.value == SubjectForm::Opaque)?;
    let fault = SettingFault::new(format!(
        "`issuer.{}.subjects` is `opaque`: subjects that differ in letter case alone are two people, of whom one may approve \
         what the other asked for",
        issuer.name
    ));
    let remedy = "have the issuer give each person one subject for good, which nobody can choose, all in one letter case; \
                  with such subjects `folded` compares as exactly";
    Some((Severity::Warning, subjects.place.clone(), fault.remedy(remedy)))
}

/// Checks that no audience looks as if it stood for several: it is compared as it is.
fn audience_as_a_pattern(issuer: &WrittenIssuer) -> Option<Wrong> {
    let audiences = issuer.audiences.as_ref()?;
    let pattern = audiences.value.iter().find(|audience| audience.contains('*'))?;
    let fault = SettingFault::new(format!(
        "`issuer.{}.audience` contains `{}`: an audience is no pattern, and only a token with just this text would have it",
        issuer.name,
        pattern.escape_debug()
    ));
    Some(error(&audiences.place, fault.remedy("list each audience as the issuer writes it in `aud`")))
}

fn authorities_without_tls(issuer: &WrittenIssuer) -> Option<Wrong> {
    let (url, authorities) = (issuer.jwks_url.as_ref()?, issuer.jwks_ca.as_ref()?);
    let is_plain = url.value.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http:"));
    let fault = SettingFault::new(format!("`issuer.{}.jwks_ca` has no effect: `jwks_url` is plain HTTP", issuer.name));
    is_plain.then(|| error(&authorities.place, fault.remedy("use `https://`, or remove `jwks_ca`")))
}

/// Checks that issuers save their keys to different files: one would overwrite the other's.
fn same_kept_file(one: &WrittenIssuer, other: &WrittenIssuer) -> Option<Wrong> {
    let (kept, same) = (one.jwks_keep.as_ref()?, other.jwks_keep.as_ref()?);
    let fault = SettingFault::new(format!(
        "`issuer.{}.jwks_keep` and `issuer.{}.jwks_keep` are the same file",
        one.name, other.name
    ));
    let place = (&kept.place).max(&same.place);
    (kept.value == same.value).then(|| error(place, fault.remedy("give each issuer its own file")))
}

/// Checks that issuers have different names, because `iss` alone tells whose a token is.
fn same_issuer(one: &WrittenIssuer, other: &WrittenIssuer) -> Option<Wrong> {
    let (issuer, same) = (one.issuer.as_ref()?, other.issuer.as_ref()?);
    let fault =
        SettingFault::new(format!("`issuer.{}.issuer` and `issuer.{}.issuer` are the same", one.name, other.name));
    let place = (&issuer.place).max(&same.place);
    (issuer.value == same.value)
        .then(|| error(place, fault.remedy("configure each issuer once, with all its `environments`")))
}
