//! What changes while the gate runs, besides policies and contract: certificates of listeners, authorities of callers'
//! certificates, and keys that the configuration gives by themselves.
//!
//! All of it is made before any of it is used. What a change cannot reach is named: it needs a restart.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::start_error::StartError;
use super::tls::{Speaking, Tls};
use crate::adapters::credential::Credential;
use crate::adapters::identity::Keyring;
use crate::base::digest::Fingerprint;
use crate::config::{Config, ListenerTls};
use crate::stations::admit::KeySet;

/// The settings whose values, and the files that they name, are taken while the gate runs.
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

/// See the module.
#[derive(Debug)]
pub(super) struct Live {
    pub speaking: Vec<Speaking>,
    pub keyring: Arc<Keyring>,
    pub credentials: Vec<Arc<Credential>>,
}

/// What was made and is not yet in use.
#[derive(Debug)]
pub(super) struct Made {
    tls: Vec<(Speaking, Tls)>,
    keys: Vec<(usize, KeySet)>,
}

impl Live {
    pub fn make(&self, config: &Config) -> Result<Made, StartError> {
        let mut tls = Vec::new();
        for speaking in &self.speaking {
            if let Some(given) = of_listener(config, speaking.listener())
                && let Some(next) = speaking.next(given)?
            {
                tls.push((speaking.clone(), next));
            }
        }
        Ok(Made { tls, keys: Keyring::given(&config.issuers, &self.keyring)? })
    }

    /// What changed by it, in words.
    pub fn take(&self, made: Made) -> Vec<String> {
        let mut changed = Vec::new();
        for (speaking, next) in made.tls {
            changed.push(format!("certificates of {}", speaking.listener()));
            speaking.take(next);
        }
        for (issuer, keys) in made.keys {
            if self.keyring.replace(issuer, keys) {
                changed.push(format!("keys of {}", self.keyring.name(issuer)));
            }
        }
        changed
    }

    /// What looks at its own files by itself does so at once.
    pub async fn look(&self) {
        self.keyring.look_at_files().await;
        for credential in &self.credentials {
            credential.look().await;
        }
        for clients in self.speaking.iter().filter_map(Speaking::clients) {
            clients.look().await;
        }
    }
}

fn of_listener<'c>(config: &'c Config, listener: &str) -> Option<&'c ListenerTls> {
    match config.environments.iter().find(|one| one.environment.as_str() == listener) {
        Some(environment) => environment.tls.as_ref(),
        None => config.console.as_ref()?.tls.as_ref(),
    }
}

/// The settings that are otherwise than at the start, and that only a restart takes.
pub(super) fn need_restart(then: &BTreeMap<String, Fingerprint>, now: &BTreeMap<String, Fingerprint>) -> Vec<String> {
    let names = then.keys().chain(now.keys().filter(|name| !then.contains_key(*name)));
    let waits = |name: &&String| {
        let is_reloaded = name.rsplit('.').next().is_some_and(|last| RELOADED.contains(&last));
        // Whether there is such a thing at all is settled by the start.
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
        assert_eq!(need_restart(&then, &now), ["limits.body_bytes", "log.level", "sandbox.tls_key"]);
        assert!(need_restart(&now, &now).is_empty());
    }
}
