//! What does not go together where people sign in.

use super::{Wrong, error};
use crate::base::finding::Severity;
use crate::config::fault::Fault;
use crate::config::url;
use crate::config::written::{Written, WrittenIssuer};

pub(super) fn wrong(written: &Written) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    wrong.extend(cookies_in_the_clear(written));
    let issuer = written.console.issuer.as_ref();
    let issuer = issuer.and_then(|named| written.issuers.iter().find(|issuer| issuer.name == named.value));
    if let Some(issuer) = issuer {
        wrong.extend(tokens_for_another(written, issuer));
        wrong.extend(provider_without_address(written, issuer));
        wrong.extend(authorities_without_tls(written, issuer));
    }
    wrong.extend(sign_ins_of_one_node(written));
    wrong
}

/// Whoever sees a cookie on its way has the session.
fn cookies_in_the_clear(written: &Written) -> Option<Wrong> {
    let console = &written.console;
    let listen = console.listen.as_ref()?;
    let is_https = console.public_url.as_ref().is_some_and(|url| url.value.starts_with("https:"));
    if listen.value.ip().is_loopback() || console.tls_certificate.is_some() || is_https {
        return None;
    }
    let fault = Fault::new("`console` speaks plain HTTP to other machines: anyone between can take people's sessions");
    let remedy = "write `tls_certificate` and `tls_key`, or, behind a proxy that does, its `https://` `public_url`";
    Some((Severity::Warning, listen.place.clone(), fault.remedy(remedy)))
}

/// The provider's tokens are for its client.
fn tokens_for_another(written: &Written, issuer: &WrittenIssuer) -> Option<Wrong> {
    let (client, audiences) = (written.console.oidc_client_id.as_ref()?, issuer.audiences.as_ref()?);
    let fault = Fault::new(format!(
        "`console.oidc_client_id`: `{}` is not in `issuer.{}.audience`: nobody who signs in would be believed",
        client.value, issuer.name
    ));
    let is_taken = audiences.value.contains(&client.value);
    (!is_taken).then(|| error(&client.place, fault.remedy("add it to that list")))
}

/// Where the provider is, its tokens say.
fn provider_without_address(written: &Written, issuer: &WrittenIssuer) -> Option<Wrong> {
    let client = written.console.oidc_client_id.as_ref()?;
    let named = issuer.issuer.as_ref()?;
    let fault = url::keys(&named.value).err()?;
    let text = format!("`issuer.{}.issuer` is no address of an OpenID provider: {}", issuer.name, fault.text);
    let remedy = "write what its tokens say in `iss`, or leave `console.oidc_client_id` out";
    let place = (&named.place).max(&client.place);
    Some(error(place, Fault::new(text).remedy(remedy)))
}

fn authorities_without_tls(written: &Written, issuer: &WrittenIssuer) -> Option<Wrong> {
    let (authorities, named) = (written.console.oidc_ca.as_ref()?, issuer.issuer.as_ref()?);
    let fault = Fault::new("`console.oidc_ca` has no use: the provider is reached by plain HTTP");
    let is_plain = named.value.starts_with("http:");
    is_plain.then(|| error(&authorities.place, fault.remedy("leave `oidc_ca` out")))
}

/// Without a secret that all nodes know, none understands what another began.
fn sign_ins_of_one_node(written: &Written) -> Option<Wrong> {
    let (client, nodes) = (written.console.oidc_client_id.as_ref()?, written.redis_nodes.as_ref()?);
    let is_alone = nodes.value < 2 || (written.redis_url.is_none() && written.redis_sentinels.is_none());
    if written.console.oidc_client_secret.is_some() || is_alone {
        return None;
    }
    let text = "`console.oidc_client_id` without `oidc_client_secret`: a sign-in ends only at the node where it began";
    let fault = Fault::new(text).remedy("make it a client with a secret, or let browsers stay with one node");
    Some((Severity::Warning, client.place.clone(), fault))
}
