//! Settings that are valid one by one, and do not fit what the policies demand, what the store keeps or whom the gate calls.
//! They only concern a check: a start must not depend on them.

use std::path::Path;
use std::time::Duration;

use super::Loaded;
use crate::base::finding::Finding;
use crate::base::ids::Environment;
use crate::config::{Config, UpstreamConfig, is_loopback};

/// The parts of names that only a place for trials has.
const OF_TRIALS: [&str; 4] = ["sandbox", "sbx", "staging", "test"];
/// The parts of names that only the place has where money moves.
const OF_MONEY: [&str; 3] = ["live", "prod", "production"];
/// The longest time that `follow.days` can be.
const LONGEST_REACH: Duration = Duration::from_hours(24 * 365);

/// Returns the findings for a gate that moves real money: a simulator on this machine moves none.
pub(super) fn unfit_settings(loaded: &Loaded, file: &Path) -> Vec<Finding> {
    let (config, file) = (&loaded.config, file.display().to_string());
    let production = config.environments.iter().find(|of| of.environment == Environment::Production);
    if production.is_none_or(|of| is_loopback(&of.upstream.host)) {
        return Vec::new();
    }
    let boundless = loaded.policies.policies.boundless(&loaded.catalog, Environment::Production);
    let boundless = boundless
        .zip(config.policies.as_ref())
        .map(|(finding, folder)| Finding { file: folder.join(&finding.file).display().to_string(), ..finding });
    let mut found = swapped_upstreams(config, &file);
    found.extend(hidden_holds(loaded, &file));
    found.extend(short_reach(config, &file));
    found.extend(boundless);
    found
}

/// Checks that production calls no sandbox, and the sandbox does not call what moves money.
fn swapped_upstreams(config: &Config, file: &str) -> Vec<Finding> {
    let found = config.environments.iter().filter_map(|of| {
        let (marks, effect) = match of.environment {
            Environment::Production => (&OF_TRIALS[..], "no payment of production would happen"),
            Environment::Sandbox => (&OF_MONEY[..], "calls to the sandbox would move real money"),
        };
        let mark = mark_in(&of.upstream, marks)?;
        let (environment, host) = (of.environment, &of.upstream.host);
        let text = format!("`{environment}.upstream` has `{mark}` in its name, `{host}{}`: {effect}", of.upstream.base_path);
        let remedy = "check that the URLs of `[production]` and `[sandbox]` are not swapped, and that each is the one that the payments \
                      API names for it";
        Some(Finding::insecure(file, text).remedy(remedy))
    });
    found.collect()
}

/// Returns the first part of an address that is one of these. The organization's own domain says nothing.
fn mark_in<'m>(upstream: &UpstreamConfig, marks: &[&'m str]) -> Option<&'m str> {
    let host = upstream.host.to_ascii_lowercase();
    let labels: Vec<&str> = host.trim_end_matches('.').split('.').collect();
    let own = labels.get(..labels.len().saturating_sub(2)).unwrap_or_default();
    let path = upstream.base_path.to_ascii_lowercase();
    let parts: Vec<&str> = own.iter().copied().chain(path.split('/')).flat_map(|part| part.split(['-', '_'])).collect();
    marks.iter().copied().find(|mark| parts.contains(mark))
}

/// Checks that approvers see the calls that wait for them.
fn hidden_holds(loaded: &Loaded, file: &str) -> Option<Finding> {
    let console = loaded.config.console.as_ref()?;
    let holding = loaded.policies.policies.rules.holding_in(Environment::Production)?;
    let is_shown = console.visibility.shows(&["approver"], Environment::Production, None);
    let text = format!(
        "`console.visible` shows the role `approver` nothing of production, where `{holding}` lets calls wait for approval: whoever \
         has no other role cannot see what waits, and it expires"
    );
    let remedy = "add `\"approver:production\"` to `console.visible`, or the callers whose calls approvers decide on";
    (!is_shown).then(|| Finding::insecure(file, text).remedy(remedy))
}

/// Checks that payments are followed as long as their claims are kept.
fn short_reach(config: &Config, file: &str) -> Option<Finding> {
    let (reach, kept) = (config.follow.reach, config.store.answers.min(LONGEST_REACH));
    let text = format!(
        "`follow.days` is {}, and claims are kept for {} days (`store.answers_days`): nobody notices a payment that fails or comes back \
         after that, and limits go on counting it",
        days(reach),
        days(config.store.answers)
    );
    let remedy = format!("set `follow.days` to at least {}, or remove it", days(kept));
    (config.follow.is_enabled && reach < kept).then(|| Finding::insecure(file, text).remedy(remedy))
}

fn days(time: Duration) -> u64 {
    time.as_secs().div_euclid(86_400)
}
