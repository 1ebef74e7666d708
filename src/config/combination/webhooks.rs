//! What does not go together in a webhook.

use super::{Wrong, error};
use crate::base::finding::Severity;
use crate::config::fault::{Fault, Place};
use crate::config::written::{Written, WrittenWebhook};

pub(super) fn wrong(written: &Written) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    for webhook in &written.webhooks {
        wrong.extend(plain(webhook));
        wrong.extend(nowhere(webhook));
        wrong.extend(elsewhere(webhook, written));
    }
    wrong.extend(no_links(written));
    wrong
}

/// Whoever stands between could read what waits, and make up what does not.
fn plain(webhook: &WrittenWebhook) -> Option<Wrong> {
    let (url, allowed) = (webhook.url.as_ref()?, webhook.allow_private.as_ref()?);
    let is_plain = url.value.reveal().get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http:"));
    let fault = Fault::new(format!("`webhook.{}.url` is plain HTTP", webhook.name));
    let remedy = "write `https://`, or, where it is on no public address, `allow_private = true`";
    (is_plain && !allowed.value).then(|| error(&url.place, fault.remedy(remedy)))
}

fn nowhere(webhook: &WrittenWebhook) -> Option<Wrong> {
    let environments = webhook.environments.as_ref()?;
    let fault = Fault::new(format!("`webhook.{}.environments`: the list is empty", webhook.name));
    let remedy = "write at least one, or leave it out for all";
    environments.value.is_empty().then(|| error(&environments.place, fault.remedy(remedy)))
}

/// It is never told anything of what is not served.
fn elsewhere(webhook: &WrittenWebhook, written: &Written) -> Option<Wrong> {
    let environments = webhook.environments.as_ref()?;
    let is_served = |one: &&_| written.environment(**one).listen.is_some();
    let missing = environments.value.iter().find(|one| !is_served(one))?;
    let fault = Fault::new(format!("`webhook.{}.environments`: `{missing}` is not served", webhook.name));
    Some((Severity::Warning, environments.place.clone(), fault.remedy("write that section, or leave it out here")))
}

fn no_links(written: &Written) -> Option<Wrong> {
    let url = written.webhooks.iter().find_map(|webhook| webhook.url.as_ref())?;
    let console = written.console.listen.as_ref();
    if written.console.public_url.is_some() {
        return None;
    }
    let place = console.map(|listen| &listen.place).filter(|place| **place != Place::Default).unwrap_or(&url.place);
    let fault = Fault::new("`console.public_url` is not set: what webhooks are told leads nowhere");
    Some((Severity::Warning, place.clone(), fault.remedy("write where people reach the console in their browsers")))
}
