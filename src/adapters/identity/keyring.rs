//! The keys of all issuers: fetched ahead of need, and kept for a bounded time while an issuer cannot be reached.
//!
//! A token that none of the keys signed causes a fetch, at most once per cooldown: in between, nobody knows whether the
//! issuer has another key by now, and the answer is unavailable; only a wrong signature of a key that the token names is
//! refused. Each issuer is fetched on its own; none waits for another.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use reqwest::Client;
use thiserror::Error;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::fetch::{self, FetchFault, Fetched};
use super::issuer_rules::rules_of;
use super::saved_document;
use crate::adapters::heard_dates::HeardDates;
use crate::adapters::regular_file::{read_regular, read_regular_aside};
use crate::config::{IssuerConfig, KeySource};
use crate::stations::admit::{KeyFault, KeySet, Trusted};
use crate::telemetry::Metrics;

/// How often keys are fetched again, or their file is checked.
const REFRESH_INTERVAL: Duration = Duration::from_secs(300);
const FILE_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// The pause after a failed fetch.
const RETRY_AFTER: Duration = Duration::from_secs(5);
const SHORTEST_REST: Duration = Duration::from_millis(100);
/// The minimum time between two fetches that tokens cause.
const COOLDOWN: Duration = Duration::from_secs(10);

/// The current keys of all issuers.
pub struct Keyring {
    trusted: ArcSwap<Vec<Trusted>>,
    /// Raised with every change, so that tokens verified with older keys are verified again.
    generation: AtomicU64,
    sources: Vec<KeyringSource>,
    metrics: Metrics,
    /// The dates of others' answers.
    dates: Arc<HeardDates>,
}

/// The source of one issuer's keys.
struct KeyringSource {
    issuer: String,
    kind: SourceKind,
    /// Allows one fetch of an issuer at a time.
    fetching: Arc<Mutex<RefetchState>>,
    /// How many fetches have ended.
    ended: AtomicU64,
    /// Whether the last fetch failed.
    failing: AtomicBool,
    good: SyncMutex<Option<Good>>,
    /// How long the last good keys are used while the issuer cannot be reached.
    longest_stale: Duration,
}

enum SourceKind {
    Fixed,
    File(PathBuf),
    Url { url: String, client: Client, keep: Option<PathBuf> },
}

/// When a token last caused a fetch.
type RefetchState = Option<Instant>;

/// The result of a wish for newer keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysLook {
    /// The issuer was asked since, or its keys cannot change.
    Ended,
    /// Too little time has passed since the last fetch that a token caused.
    Resting,
}

/// When keys were last known to be good: when they were stored here, and how old they were then.
#[derive(Clone, Copy)]
struct Good {
    here: Instant,
    age_then: Duration,
}

impl Good {
    fn aged(age_then: Duration) -> Good {
        Good { here: Instant::now(), age_then }
    }

    fn age(self) -> Duration {
        self.here.elapsed().saturating_add(self.age_then)
    }
}

/// Why a keyring cannot be created.
#[derive(Debug, Error)]
pub enum KeyringError {
    #[error("issuer `{issuer}`: its keys cannot be used: {fault}")]
    Keys { issuer: String, fault: KeyFault },
    #[error("issuer `{issuer}`: `{}` cannot be read: {error}", .path.display())]
    File { issuer: String, path: PathBuf, error: io::Error },
    #[error("issuer `{issuer}`: its keys cannot be fetched: {error}")]
    Client { issuer: String, error: reqwest::Error },
}

impl Keyring {
    /// Creates a keyring. Keys from the configuration or from files are read at once; keys from a URL are fetched
    /// later.
    pub fn new(issuers: &[IssuerConfig], metrics: Metrics) -> Result<Keyring, KeyringError> {
        let (mut trusted, mut sources) = (Vec::new(), Vec::new());
        for issuer in issuers {
            let (kind, keys) = begin(issuer)?;
            keys.iter().for_each(|keys| warn_of(&issuer.name, keys));
            let good = match kind {
                SourceKind::File(_) => Some(Good::aged(Duration::ZERO)),
                SourceKind::Fixed | SourceKind::Url { .. } => None,
            };
            trusted.push(Trusted { rules: rules_of(issuer), keys: keys.map(Arc::new) });
            sources.push(KeyringSource {
                issuer: issuer.name.clone(),
                kind,
                fetching: Arc::default(),
                ended: AtomicU64::new(0),
                failing: AtomicBool::new(false),
                good: SyncMutex::new(good),
                longest_stale: issuer.longest_stale,
            });
        }
        let (trusted, generation) = (ArcSwap::from_pointee(trusted), AtomicU64::new(0));
        Ok(Keyring { trusted, generation, sources, metrics, dates: Arc::default() })
    }

    /// Returns the dates that issuers tell; upstream's are heard there as well.
    pub fn dates(&self) -> &Arc<HeardDates> {
        &self.dates
    }

    pub fn trusted(&self) -> Arc<Vec<Trusted>> {
        self.trusted.load_full()
    }

    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether the issuer answered the last fetch: a key id that is not among its keys is then not its own.
    pub fn is_answering(&self, issuer: usize) -> bool {
        self.sources.get(issuer).is_some_and(|source| !source.failing.load(Ordering::Acquire))
    }

    /// Returns the names of issuers whose keys are not known.
    pub fn missing(&self) -> Vec<String> {
        let trusted = self.trusted.load();
        trusted.iter().filter(|t| t.keys.is_none()).map(|t| t.rules.name.to_string()).collect()
    }

    /// Sets the metrics of the keys: whether they are known, and their age; keys that cannot change have no age.
    pub fn tell_ages(&self) {
        for trusted in self.trusted.load().iter() {
            self.metrics.keys_known(&trusted.rules.name, trusted.keys.is_some());
        }
        for source in &self.sources {
            if let Some(good) = source.good() {
                self.metrics.keys_age(&source.issuer, good.age());
            }
        }
    }

    /// Fetches the keys again, unless that happened a moment ago.
    pub async fn look_again(self: &Arc<Keyring>, issuer: usize) -> KeysLook {
        let Some(source) = self.sources.get(issuer) else { return KeysLook::Ended };
        if matches!(source.kind, SourceKind::Fixed) {
            return KeysLook::Ended;
        }
        let ended = source.ended.load(Ordering::Acquire);
        let mut asked = source.fetching.clone().lock_owned().await;
        if source.ended.load(Ordering::Acquire) != ended {
            return KeysLook::Ended;
        }
        if asked.is_some_and(|asked| asked.elapsed() < COOLDOWN) {
            return KeysLook::Resting;
        }
        *asked = Some(Instant::now());
        let keyring = self.clone();
        // A task of its own: the caller may leave, but the fetch that used the cooldown serves every caller.
        let fetch = tokio::spawn(async move {
            let _alone = asked;
            keyring.refresh(issuer).await
        });
        if let Err(error) = fetch.await {
            tracing::error!(%error, "a task that fetched keys failed");
        }
        KeysLook::Ended
    }

    /// Reads the keys that a configuration or a file gives, of known issuers; each with its index here.
    pub fn given(issuers: &[IssuerConfig], known: &Keyring) -> Result<Vec<(usize, KeySet)>, KeyringError> {
        let mut given = Vec::new();
        for issuer in issuers {
            let at = known.sources.iter().position(|source| source.issuer == issuer.name);
            let source = at.and_then(|at| Some((at, known.sources.get(at)?)));
            if let (Some((at, KeyringSource { kind: SourceKind::Fixed, .. })), KeySource::Pem(_) | KeySource::Shared(_)) =
                (source, &issuer.keys)
                && let (_, Some(keys)) = begin(issuer)?
            {
                given.push((at, keys));
            }
        }
        Ok(given)
    }

    /// Replaces the keys of an issuer; returns whether they changed.
    pub fn replace(&self, issuer: usize, keys: KeySet) -> bool {
        let before = self.generation();
        self.put(issuer, Some(keys));
        self.generation() != before
    }

    pub fn name(&self, issuer: usize) -> &str {
        self.sources.get(issuer).map_or("", |source| &source.issuer)
    }

    /// Reads the files of keys at once.
    pub async fn look_at_files(&self) {
        for (at, source) in self.sources.iter().enumerate() {
            if matches!(source.kind, SourceKind::File(_)) {
                let _alone = source.fetching.lock().await;
                self.refresh(at).await;
            }
        }
    }

    /// Keeps all keys fresh; runs until the process ends.
    pub async fn keep_fresh(self: Arc<Keyring>) {
        let each = (0..self.sources.len()).map(|issuer| self.clone().keep_one(issuer));
        let mut all: JoinSet<()> = each.collect();
        while let Some(one) = all.join_next().await {
            if let Err(error) = one
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
    }

    async fn keep_one(self: Arc<Keyring>, issuer: usize) {
        let Some(source) = self.sources.get(issuer) else { return };
        loop {
            let good = {
                let _alone = source.fetching.lock().await;
                self.refresh(issuer).await
            };
            let rest = match source.kind {
                SourceKind::Fixed => return,
                SourceKind::File(_) => FILE_POLL_INTERVAL,
                SourceKind::Url { .. } if good => REFRESH_INTERVAL,
                SourceKind::Url { .. } => RETRY_AFTER,
            };
            sleep(rest.min(source.before_stale())).await;
        }
    }

    /// Fetches or reads the keys; true if they are known to be fresh. The caller must hold the source's `fetching`.
    async fn refresh(&self, issuer: usize) -> bool {
        let Some(source) = self.sources.get(issuer) else { return true };
        self.let_go_of_stale(issuer, source);
        let come = match &source.kind {
            SourceKind::Fixed => return true,
            SourceKind::File(path) => read_key_file(path).await,
            SourceKind::Url { url, client, keep } => self.fetch(source, url, client, keep.as_deref()).await,
        };
        let good = come.is_ok();
        source.failing.store(!good, Ordering::Release);
        match come {
            Ok(keys) => {
                source.is_good(Good::aged(Duration::ZERO));
                self.put(issuer, Some(keys));
            }
            Err(why) => self.failed(issuer, source, &why).await,
        }
        source.ended.fetch_add(1, Ordering::AcqRel);
        good
    }

    async fn fetch(
        &self,
        source: &KeyringSource,
        url: &str,
        client: &Client,
        keep: Option<&Path>,
    ) -> Result<KeySet, String> {
        let fetched = fetch::keys(client, url).await;
        self.metrics.keys_fetched(&source.issuer, fetched.as_ref().err().map_or("good", FetchFault::as_str));
        let Fetched { keys, document, headers } = fetched.map_err(|fault| fault.to_string())?;
        self.dates.hear(&format!("issuer `{}`", source.issuer), &headers);
        if let Some(path) = keep {
            let (at, url) = (path.to_owned(), url.to_owned());
            if let Err(error) = blocking(move || saved_document::save(&at, &url, &document)).await {
                tracing::warn!(issuer = source.issuer, path = %path.display(), %error, "the issuer's keys could not be saved to disk");
            }
        }
        Ok(keys)
    }

    async fn failed(&self, issuer: usize, source: &KeyringSource, why: &str) {
        let issuer_name = source.issuer.as_str();
        let is_known = self.trusted.load().get(issuer).is_some_and(|t| t.keys.is_some());
        if !is_known {
            tracing::warn!(
                issuer = issuer_name,
                why,
                "the issuer's keys cannot be fetched, and none are known: its tokens are answered 503"
            );
            // Keys that this process dropped as too old are not restored from disk, whatever the file's time says.
            if source.good().is_none() {
                self.take_kept(issuer, source).await;
            }
        } else {
            tracing::warn!(
                issuer = issuer_name,
                why,
                "the issuer's keys cannot be fetched; the last good ones stay in use"
            );
        }
    }

    /// Drops keys that are too old. This runs before a fetch, so that an issuer that hangs cannot extend their use.
    fn let_go_of_stale(&self, issuer: usize, source: &KeyringSource) {
        let is_known = self.trusted.load().get(issuer).is_some_and(|t| t.keys.is_some());
        if is_known && source.good().is_some_and(|good| good.age() >= source.longest_stale) {
            tracing::error!(
                issuer = source.issuer,
                "the last good keys of the issuer are too old and are no longer used"
            );
            self.put(issuer, None);
        }
    }

    /// Uses the keys that an earlier process saved, if they are still valid.
    async fn take_kept(&self, issuer: usize, source: &KeyringSource) {
        let SourceKind::Url { url, keep: Some(path), .. } = &source.kind else { return };
        let (at, url, longest) = (path.clone(), url.clone(), source.longest_stale);
        match blocking(move || Ok(saved_document::load(&at, &url, longest))).await {
            Ok(Ok((keys, age))) => {
                source.is_good(Good::aged(age));
                tracing::info!(
                    issuer = source.issuer,
                    age_secs = age.as_secs(),
                    "the issuer's keys saved on disk are used"
                );
                self.put(issuer, Some(keys));
            }
            Ok(Err(fault)) => {
                tracing::warn!(issuer = source.issuer, path = %path.display(), why = %fault, "the issuer's keys saved on disk cannot be used");
            }
            Err(error) => tracing::error!(issuer = source.issuer, %error, "a task that read keys failed"),
        }
    }

    pub(super) fn put(&self, issuer: usize, keys: Option<KeySet>) {
        let current = self.trusted.load();
        let same = current.get(issuer).is_some_and(|t| t.keys.as_deref() == keys.as_ref());
        if same {
            return;
        }
        if let (Some(keys), Some(source)) = (&keys, self.sources.get(issuer)) {
            warn_of(&source.issuer, keys);
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

impl KeyringSource {
    fn good(&self) -> Option<Good> {
        *self.good.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the longest pause before the keys must be fetched again or dropped.
    fn before_stale(&self) -> Duration {
        let half = self.longest_stale / 2;
        let left = self.good().map_or(Duration::ZERO, |good| self.longest_stale.saturating_sub(good.age()));
        if left.is_zero() { half } else { left.clamp(SHORTEST_REST, half) }
    }

    fn is_good(&self, good: Good) {
        *self.good.lock().unwrap_or_else(PoisonError::into_inner) = Some(good);
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("trusted", &self.trusted.load()).finish_non_exhaustive()
    }
}

fn begin(issuer: &IssuerConfig) -> Result<(SourceKind, Option<KeySet>), KeyringError> {
    let name = || issuer.name.clone();
    let usable =
        |keys: Result<KeySet, KeyFault>| keys.map(Some).map_err(|fault| KeyringError::Keys { issuer: name(), fault });
    match &issuer.keys {
        KeySource::Shared(secret) => Ok((SourceKind::Fixed, Some(KeySet::shared(secret)))),
        KeySource::Pem(pem) => Ok((SourceKind::Fixed, usable(KeySet::from_pem(pem))?)),
        KeySource::File(path) => {
            let text =
                read_regular(path).map_err(|error| KeyringError::File { issuer: name(), path: path.clone(), error })?;
            Ok((SourceKind::File(path.clone()), usable(KeySet::from_jwks(&text))?))
        }
        KeySource::Url { url, ca_pem, keep } => {
            let client =
                fetch::client(ca_pem.as_deref()).map_err(|error| KeyringError::Client { issuer: name(), error })?;
            Ok((SourceKind::Url { url: url.clone(), client, keep: keep.clone() }, None))
        }
    }
}

fn warn_of(issuer: &str, keys: &KeySet) {
    for warning in keys.warnings() {
        tracing::warn!(issuer, %warning, "the issuer's keys are odd");
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

async fn read_key_file(path: &Path) -> Result<KeySet, String> {
    let text = read_regular_aside(path).await.map_err(|error| error.to_string())?;
    KeySet::from_jwks(&text).map_err(|fault| fault.to_string())
}
