//! Certificates of listeners, certificate authorities of callers, and keys of issuers, which are replaced while the
//! gate runs.
//!
//! Every part is prepared before any is replaced. Settings whose change needs a restart are named.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::start_error::StartError;
use crate::adapters::credential::Credential;
use crate::adapters::identity::Keyring;
use crate::base::digest::Fingerprint;
use crate::config::{Config, ListenerTls};
use crate::edge::tls::{Speaking, Tls};
use crate::stations::admit::KeySet;

/// The settings whose values, and the files that they name, are reloaded while the gate runs.
const RELOADED: [&str; 11] = [
    "tls_certificate",
    "tls_key",
    "client_ca",
    "client_revoked",
    "credential",
    "jwks_file",
    "public_key",
    "shared_secret",
    "schemas",
    "enable",
    "further",
];

/// The parts that are replaced by a reload.
#[derive(Debug)]
pub(super) struct ReloadableParts {
    pub speaking: Vec<Speaking>,
    pub keyring: Arc<Keyring>,
    pub credentials: Vec<Arc<Credential>>,
}

/// New parts that are not yet in use.
#[derive(Debug)]
pub(super) struct PreparedParts {
    tls: Vec<(Speaking, Tls)>,
    keys: Vec<(usize, KeySet)>,
}

impl ReloadableParts {
    pub fn prepare(&self, config: &Config) -> Result<PreparedParts, StartError> {
        let mut tls = Vec::new();
        for speaking in &self.speaking {
            if let Some(given) = tls_of_listener(config, speaking.listener())
                && let Some(next) = speaking.next(given)?
            {
                tls.push((speaking.clone(), next));
            }
        }
        Ok(PreparedParts { tls, keys: Keyring::given(&config.issuers, &self.keyring)? })
    }

    /// Puts the new parts in use; returns what changed, in words.
    pub fn apply(&self, prepared: PreparedParts) -> Vec<String> {
        let mut changed = Vec::new();
        for (speaking, next) in prepared.tls {
            changed.push(format!("certificates of {}", speaking.listener()));
            speaking.take(next);
        }
        for (issuer, keys) in prepared.keys {
            if self.keyring.replace(issuer, keys) {
                changed.push(format!("keys of {}", self.keyring.name(issuer)));
            }
        }
        changed
    }

    /// Makes the parts that watch their own files check them at once.
    pub async fn reload_files(&self) {
        self.keyring.look_at_files().await;
        for credential in &self.credentials {
            credential.reload().await;
        }
        for clients in self.speaking.iter().filter_map(Speaking::clients) {
            clients.reload().await;
        }
    }
}

fn tls_of_listener<'c>(config: &'c Config, listener: &str) -> Option<&'c ListenerTls> {
    match config.environments.iter().find(|one| one.environment.as_str() == listener) {
        Some(environment) => environment.tls.as_ref(),
        None => config.console.as_ref()?.tls.as_ref(),
    }
}

/// Returns the settings that have changed since the start and need a restart.
pub(super) fn settings_needing_restart(
    then: &BTreeMap<String, Fingerprint>,
    now: &BTreeMap<String, Fingerprint>,
) -> Vec<String> {
    let names = then.keys().chain(now.keys().filter(|name| !then.contains_key(*name)));
    let waits = |name: &&String| {
        let is_reloaded = name.rsplit('.').next().is_some_and(|last| RELOADED.contains(&last));
        // Adding or removing a setting needs a restart.
        let is_there = then.contains_key(*name) && now.contains_key(*name);
        then.get(*name) != now.get(*name) && !(is_reloaded && (is_there || name.starts_with("catalog.")))
    };
    names.filter(waits).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_a_restart_takes_is_named() {
        let settings = |all: &[(&str, &str)]| -> BTreeMap<String, Fingerprint> {
            all.iter().map(|(name, value)| ((*name).to_owned(), Fingerprint::of(&[value.as_bytes()]))).collect()
        };
        let then = settings(&[
            ("limits.body_bytes", "1"),
            ("production.tls_key", "a"),
            ("redis.url", "x"),
            ("log.level", "a"),
        ]);
        let now = settings(&[
            ("limits.body_bytes", "2"),
            ("production.tls_key", "b"),
            ("redis.url", "x"),
            ("sandbox.tls_key", "a"),
            ("catalog.enable", "x"),
        ]);
        assert_eq!(settings_needing_restart(&then, &now), ["limits.body_bytes", "log.level", "sandbox.tls_key"]);
        assert!(settings_needing_restart(&now, &now).is_empty());
    }
}
