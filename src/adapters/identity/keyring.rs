//! The keys of all issuers: fetched ahead of need, kept for a bounded time while an issuer is away.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use reqwest::Client;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::fetch;
use crate::config::{IssuerConfig, KeySource};
use crate::stations::admit::{IssuerRules, KeyFault, KeySet, Trusted};

/// How often a set is fetched again, or a file looked at.
const REFRESH_EVERY: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How soon after a failure it is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// How often a key that is not known may cause a fetch.
const COOLDOWN: Duration = Duration::from_secs(10);
/// How long the last good set is used while its issuer is away.
const LONGEST_STALE: Duration = Duration::from_secs(24 * 60 * 60);

/// The keys as they are known now.
pub struct Keyring {
    trusted: ArcSwap<Vec<Trusted>>,
    /// Grows with every change, so that what was believed by older keys is asked again.
    generation: AtomicU64,
    sources: Vec<Source>,
}

/// Where one issuer's keys come from.
struct Source {
    kind: Kind,
    /// One fetch at a time, and when the last began.
    fetching: Mutex<Fetching>,
}

enum Kind {
    Fixed,
    File(PathBuf),
    Url { url: String, client: Client },
}

#[derive(Default)]
struct Fetching {
    last: Option<Instant>,
    /// Since when no good set came.
    good: Option<Instant>,
}

/// Why a keyring cannot be made.
#[derive(Debug)]
pub enum KeyringError {
    Keys { issuer: String, fault: KeyFault },
    File { issuer: String, path: PathBuf, error: std::io::Error },
    Client { issuer: String, error: reqwest::Error },
}

impl fmt::Display for KeyringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyringError::Keys { issuer, fault } => write!(f, "issuer `{issuer}`: its keys cannot be used: {fault}"),
            KeyringError::File { issuer, path, error } => {
                write!(f, "issuer `{issuer}`: `{}` cannot be read: {error}", path.display())
            }
            KeyringError::Client { issuer, error } => {
                write!(f, "issuer `{issuer}`: its keys cannot be fetched: {error}")
            }
        }
    }
}

impl std::error::Error for KeyringError {}

impl Keyring {
    /// Keys that are at hand are read at once; those that must be fetched are not there yet.
    pub fn new(issuers: &[IssuerConfig]) -> Result<Keyring, KeyringError> {
        let (mut trusted, mut sources) = (Vec::new(), Vec::new());
        for issuer in issuers {
            let (kind, keys) = begin(issuer)?;
            trusted.push(Trusted { rules: rules(issuer), keys: keys.map(Arc::new) });
            sources.push(Source { kind, fetching: Mutex::default() });
        }
        Ok(Keyring { trusted: ArcSwap::from_pointee(trusted), generation: AtomicU64::new(0), sources })
    }

    pub fn trusted(&self) -> Arc<Vec<Trusted>> {
        self.trusted.load_full()
    }

    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The names of issuers whose keys are not known.
    pub fn missing(&self) -> Vec<String> {
        let trusted = self.trusted.load();
        trusted.iter().filter(|t| t.keys.is_none()).map(|t| t.rules.name.to_string()).collect()
    }

    /// Looks for keys that have come since, unless somebody did a moment ago.
    pub async fn look_again(&self, issuer: usize) {
        let Some(source) = self.sources.get(issuer) else { return };
        let mut fetching = source.fetching.lock().await;
        if fetching.last.is_none_or(|last| last.elapsed() >= COOLDOWN) {
            self.refresh(issuer, source, &mut fetching).await;
        }
    }

    /// Keeps all keys fresh; runs until the process ends.
    pub async fn keep_fresh(self: Arc<Keyring>) {
        let each = (0..self.sources.len()).map(|issuer| self.clone().keep_one(issuer));
        for one in each.collect::<Vec<_>>() {
            tokio::spawn(one);
        }
    }

    async fn keep_one(self: Arc<Keyring>, issuer: usize) {
        let Some(source) = self.sources.get(issuer) else { return };
        loop {
            let good = {
                let mut fetching = source.fetching.lock().await;
                self.refresh(issuer, source, &mut fetching).await
            };
            sleep(match source.kind {
                Kind::Fixed => return,
                Kind::File(_) => LOOK_EVERY,
                Kind::Url { .. } if good => REFRESH_EVERY,
                Kind::Url { .. } => RETRY_AFTER,
            })
            .await;
        }
    }

    /// True if the keys are known to be fresh.
    async fn refresh(&self, issuer: usize, source: &Source, fetching: &mut Fetching) -> bool {
        fetching.last = Some(Instant::now());
        let come = match &source.kind {
            Kind::Fixed => return true,
            Kind::File(path) => read(path).await,
            Kind::Url { url, client } => fetch::keys(client, url).await.map_err(|fault| fault.to_string()),
        };
        match come {
            Ok(keys) => {
                fetching.good = Some(Instant::now());
                self.put(issuer, Some(keys));
                true
            }
            Err(why) => {
                self.failed(issuer, &why, fetching);
                false
            }
        }
    }

    fn failed(&self, issuer: usize, why: &str, fetching: &Fetching) {
        let trusted = self.trusted.load();
        let name = trusted.get(issuer).map_or("", |t| &t.rules.name);
        if fetching.good.is_some_and(|good| good.elapsed() >= LONGEST_STALE) {
            tracing::error!(issuer = name, why, "keys cannot be had, and the last good ones are too old to be used on");
            self.put(issuer, None);
        } else {
            tracing::warn!(issuer = name, why, "keys cannot be had; the last good ones stay");
        }
    }

    fn put(&self, issuer: usize, keys: Option<KeySet>) {
        let current = self.trusted.load();
        let same = current.get(issuer).is_some_and(|t| t.keys.as_deref() == keys.as_ref());
        if same {
            return;
        }
        let keys = keys.map(Arc::new);
        self.trusted.rcu(|trusted| {
            let mut changed = Vec::clone(trusted);
            if let Some(one) = changed.get_mut(issuer) {
                one.keys = keys.clone();
            }
            changed
        });
        self.generation.fetch_add(1, Ordering::AcqRel);
        tracing::info!(issuer = current.get(issuer).map_or("", |t| &t.rules.name), "keys changed");
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("trusted", &self.trusted.load()).finish_non_exhaustive()
    }
}

fn begin(issuer: &IssuerConfig) -> Result<(Kind, Option<KeySet>), KeyringError> {
    let name = || issuer.name.clone();
    let usable =
        |keys: Result<KeySet, KeyFault>| keys.map(Some).map_err(|fault| KeyringError::Keys { issuer: name(), fault });
    match &issuer.keys {
        KeySource::Shared(secret) => Ok((Kind::Fixed, Some(KeySet::shared(secret)))),
        KeySource::Pem(pem) => Ok((Kind::Fixed, usable(KeySet::from_pem(pem))?)),
        KeySource::File(path) => {
            let text = std::fs::read(path).map_err(|error| KeyringError::File {
                issuer: name(),
                path: path.clone(),
                error,
            })?;
            Ok((Kind::File(path.clone()), usable(KeySet::from_jwks(&text))?))
        }
        KeySource::Url { url, ca_pem } => {
            let client =
                fetch::client(ca_pem.as_deref()).map_err(|error| KeyringError::Client { issuer: name(), error })?;
            Ok((Kind::Url { url: url.clone(), client }, None))
        }
    }
}

async fn read(path: &Path) -> Result<KeySet, String> {
    let text = tokio::fs::read(path).await.map_err(|error| error.to_string())?;
    KeySet::from_jwks(&text).map_err(|fault| fault.to_string())
}

fn rules(issuer: &IssuerConfig) -> IssuerRules {
    let secs = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    IssuerRules {
        name: issuer.name.as_str().into(),
        issuer: issuer.issuer.clone(),
        audiences: issuer.audiences.clone(),
        environments: issuer.environments.clone(),
        algorithms: issuer.algorithms.clone(),
        leeway_secs: secs(issuer.leeway),
        longest_lifetime_secs: secs(issuer.longest_lifetime),
        required: issuer.required.clone(),
        roles: issuer.roles.clone(),
        requester: issuer.requester.clone(),
    }
}
