//! Checks of a webhook's settings together with others.

use super::{Wrong, error, insecure, lacks};
use crate::base::finding::Severity;
use crate::config::fault::{SettingFault, SettingPlace};
use crate::config::url;
use crate::config::written::{WrittenConfig, WrittenWebhook};

pub(super) fn wrong(written: &WrittenConfig) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    for webhook in &written.webhooks {
        wrong.extend(plain_http(webhook));
        wrong.extend(details_in_the_clear(webhook));
        wrong.extend(nowhere(webhook));
        wrong.extend(elsewhere(webhook, written));
    }
    wrong.extend(no_links(written));
    wrong
}

/// Checks for encryption: without it anyone in between can read notices and forge them.
fn plain_http(webhook: &WrittenWebhook) -> Option<Wrong> {
    let (url, allowed) = (webhook.url.as_ref()?, webhook.allow_private.as_ref()?);
    let is_plain = url.value.reveal().get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http:"));
    let fault = SettingFault::new(format!("`webhook.{}.url` is plain HTTP", webhook.name));
    let remedy = "use `https://`, or set `allow_private = true` if its host has no public address";
    (is_plain && !allowed.value).then(|| error(&url.place, fault.remedy(remedy)))
}

/// Checks that nobody between reads what is paid and for whom, even where a private host may use plain HTTP.
fn details_in_the_clear(webhook: &WrittenWebhook) -> Option<Wrong> {
    let (url, allowed, details) = (webhook.url.as_ref()?, webhook.allow_private.as_ref()?, webhook.details.as_ref()?);
    let text = format!(
        "`webhook.{}.url` is plain HTTP to another machine, and `details` is true: anyone on the network path reads amounts and \
         requesters, and can hold a notice back",
        webhook.name
    );
    let is_told = allowed.value && details.value && !url::is_safe(url.value.reveal());
    is_told.then(|| insecure(&url.place, text, "use `https://`, or set `details = false`"))
}

fn nowhere(webhook: &WrittenWebhook) -> Option<Wrong> {
    let environments = webhook.environments.as_ref()?;
    let fault = SettingFault::new(format!("`webhook.{}.environments`: the list is empty", webhook.name));
    let remedy = "add at least one, or remove the setting for all environments";
    environments.value.is_empty().then(|| error(&environments.place, fault.remedy(remedy)))
}

/// Checks that a webhook's environments are configured; it would get no notices of others.
fn elsewhere(webhook: &WrittenWebhook, written: &WrittenConfig) -> Option<Wrong> {
    let environments = webhook.environments.as_ref()?;
    let is_served = |one: &&_| written.environment(**one).listen.is_some();
    let missing = environments.value.iter().find(|one| !is_served(one))?;
    let fault = SettingFault::new(format!("`webhook.{}.environments`: `{missing}` is not configured", webhook.name));
    Some((Severity::Warning, environments.place.clone(), fault.remedy("add that section, or remove it here")))
}

fn no_links(written: &WrittenConfig) -> Option<Wrong> {
    let url = written.webhooks.iter().find_map(|webhook| webhook.url.as_ref())?;
    let console = written.console.listen.as_ref();
    if !lacks(written, "console.public_url", &written.console.public_url) {
        return None;
    }
    let place =
        console.map(|listen| &listen.place).filter(|place| **place != SettingPlace::Default).unwrap_or(&url.place);
    let fault = SettingFault::new("`console.public_url` is not set: notices to webhooks contain no links");
    Some((Severity::Warning, place.clone(), fault.remedy("set it to the URL at which browsers reach the console")))
}
