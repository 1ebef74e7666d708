//! Checks of the console's settings together with others.

use super::{Wrong, error, lacks};
use crate::base::finding::Severity;
use crate::config::fault::SettingFault;
use crate::config::url;
use crate::config::written::{Placed, WrittenConfig, WrittenIssuer};
use crate::people::visibility::{ROLES, Visibility};

pub(super) fn wrong(written: &WrittenConfig) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    wrong.extend(cookies_in_the_clear(written));
    wrong.extend(odd_hosts("console.hosts", written.console.hosts.as_ref()));
    wrong.extend(odd_hosts("probes.hosts", written.probes_hosts.as_ref()));
    wrong.extend(visible_to_no_role(written));
    let issuer = written.console.issuer.as_ref();
    let issuer = issuer.and_then(|named| written.issuers.iter().find(|issuer| issuer.name == named.value));
    if let Some(issuer) = issuer {
        wrong.extend(tokens_for_another(written, issuer));
        wrong.extend(audiences_of_nobody(written, issuer));
        wrong.extend(provider_without_address(written, issuer));
        wrong.extend(authorities_without_tls(written, issuer));
    }
    wrong.extend(sign_ins_of_one_node(written));
    wrong
}

/// Checks that session cookies are not sent unencrypted: anyone who sees one has the session.
fn cookies_in_the_clear(written: &WrittenConfig) -> Option<Wrong> {
    let console = &written.console;
    let listen = console.listen.as_ref()?;
    let is_https = console.public_url.as_ref().is_some_and(|url| url.value.starts_with("https:"));
    let has_tls = !lacks(written, "console.tls_certificate", &console.tls_certificate);
    let is_refused = written.refused.contains("console.public_url");
    if listen.value.ip().is_loopback() || has_tls || is_https || is_refused {
        return None;
    }
    let fault = SettingFault::new(
        "`console` speaks plain HTTP to other machines: anyone on the network path can steal people's sessions",
    );
    let remedy =
        "set `tls_certificate` and `tls_key`, or, behind a TLS proxy, `public_url` with the proxy's `https://` URL";
    Some((Severity::Insecure, listen.place.clone(), fault.remedy(remedy)))
}

/// Checks the form of what roles see: a misspelt entry would show too much or nothing.
fn visible_to_no_role(written: &WrittenConfig) -> Vec<Wrong> {
    let Some(visible) = &written.console.visible else { return Vec::new() };
    let is_known = |issuer: &str| written.issuers.iter().any(|one| one.name == issuer);
    let is_right = |text: &String| {
        Visibility::parse(std::slice::from_ref(text)).is_some_and(|visibility| visibility.issuers().all(is_known))
    };
    let fault = |text: &String| {
        let fault = SettingFault::new(format!(
            "`console.visible` contains `{}`, which is not a role and what it sees",
            text.escape_debug()
        ));
        let remedy = format!(
            "write `ROLE:ENVIRONMENT` or `ROLE:ENVIRONMENT:ISSUER:SUBJECT`, with one of the roles {} and a configured issuer",
            ROLES.map(|role| format!("`{role}`")).join(", ")
        );
        error(&visible.place, fault.remedy(remedy))
    };
    visible.value.iter().filter(|text| !is_right(text)).map(fault).collect()
}

/// Checks that the issuer accepts the tokens that the provider issues for this client.
fn tokens_for_another(written: &WrittenConfig, issuer: &WrittenIssuer) -> Option<Wrong> {
    let (client, audiences) = (written.console.oidc_client_id.as_ref()?, issuer.audiences.as_ref()?);
    let fault = SettingFault::new(format!(
        "`console.oidc_client_id`: `{}` is not in `issuer.{}.audience`: every sign-in would be refused",
        client.value, issuer.name
    ));
    let is_taken = audiences.value.contains(&client.value);
    (!is_taken).then(|| error(&client.place, fault.remedy("add it to that list")))
}

/// Checks that people's audiences are audiences of their issuer, and leave one for callers.
fn audiences_of_nobody(written: &WrittenConfig, issuer: &WrittenIssuer) -> Option<Wrong> {
    let (of_people, of_issuer) = (written.console.audiences.as_ref()?, issuer.audiences.as_ref()?);
    let foreign = of_people.value.iter().find(|one| !of_issuer.value.contains(one));
    let client = written.console.oidc_client_id.as_ref().filter(|_| !of_people.value.is_empty());
    let is_for_all = !of_people.value.is_empty() && of_issuer.value.iter().all(|one| of_people.value.contains(one));
    let (text, remedy) = if let Some(foreign) = foreign {
        let text =
            format!("`console.audience`: `{foreign}` is not in `issuer.{}.audience`: no token has it", issuer.name);
        (text, "add it to that list, or remove it here")
    } else if let Some(client) = client.filter(|client| !of_people.value.contains(&client.value)) {
        let text = format!(
            "`console.audience` lacks `{}`, the `oidc_client_id`: every sign-in would be refused",
            client.value
        );
        (text, "add it to that list")
    } else if issuer.is_for_callers() && is_for_all {
        let text = format!(
            "`console.audience` has every audience of `[issuer.{}]`: no token is left for callers",
            issuer.name
        );
        (text, "give callers an audience of their own in the issuer's `audience`")
    } else {
        return None;
    };
    Some(error(&of_people.place, SettingFault::new(text).remedy(remedy)))
}

/// Checks that host names are host names: without scheme, port and path.
fn odd_hosts(setting: &str, hosts: Option<&Placed<Vec<String>>>) -> Option<Wrong> {
    let is_plain = |name: &String| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
    };
    let (hosts, odd) = hosts.and_then(|hosts| Some((hosts, hosts.value.iter().find(|name| !is_plain(name))?)))?;
    let fault = SettingFault::new(format!("`{setting}`: `{}` is not a host name", odd.escape_debug()));
    Some(error(&hosts.place, fault.remedy("write the name alone, without scheme, port and path")))
}

/// Checks that the issuer's name is the address of its provider.
fn provider_without_address(written: &WrittenConfig, issuer: &WrittenIssuer) -> Option<Wrong> {
    let client = written.console.oidc_client_id.as_ref()?;
    let named = issuer.issuer.as_ref()?;
    let fault = url::keys(&named.value).err()?;
    let text = format!("`issuer.{}.issuer` is not the URL of an OpenID provider: {}", issuer.name, fault.text);
    let remedy = "set it to the `iss` of its tokens, or remove `console.oidc_client_id`";
    let place = (&named.place).max(&client.place);
    Some(error(place, SettingFault::new(text).remedy(remedy)))
}

fn authorities_without_tls(written: &WrittenConfig, issuer: &WrittenIssuer) -> Option<Wrong> {
    let (authorities, named) = (written.console.oidc_ca.as_ref()?, issuer.issuer.as_ref()?);
    let fault = SettingFault::new("`console.oidc_ca` has no effect: the provider is reached by plain HTTP");
    let is_plain = named.value.starts_with("http:");
    is_plain.then(|| error(&authorities.place, fault.remedy("remove `oidc_ca`")))
}

/// Checks that nodes share the client secret: without it, a node cannot complete a sign-in that another node began.
fn sign_ins_of_one_node(written: &WrittenConfig) -> Option<Wrong> {
    let (client, nodes) = (written.console.oidc_client_id.as_ref()?, written.redis_nodes.as_ref()?);
    let is_alone = nodes.value < 2 || !written.has_redis();
    let has_secret = !lacks(written, "console.oidc_client_secret", &written.console.oidc_client_secret);
    if has_secret || is_alone {
        return None;
    }
    let text = "`console.oidc_client_id` without `oidc_client_secret`: a sign-in must end at the node where it began";
    let fault = SettingFault::new(text).remedy("use a client with a secret, or route each browser to one node");
    Some((Severity::Warning, client.place.clone(), fault))
}
