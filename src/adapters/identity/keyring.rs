//! The keys of all issuers: fetched ahead of need, kept for a bounded time while an issuer is away.
//!
//! A key that is not known is looked for, but seldom: between two such looks, tokens that name it are refused at once;
//! they are not refused but put off while the last look failed.
//! Each issuer is fetched for itself; nobody waits for another's.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use reqwest::Client;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::fetch::{self, FetchFault, Fetched};
use super::kept;
use crate::config::{HoldsMode, IssuerConfig, KeySource};
use crate::stations::admit::{IssuerRules, KeyFault, KeySet, Trusted};
use crate::telemetry::Metrics;

/// How often a set is fetched again, or a file looked at.
const REFRESH_EVERY: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How soon after a failure it is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(5);
const SHORTEST_REST: Duration = Duration::from_millis(100);
/// How often a key that is not known may cause a fetch.
const COOLDOWN: Duration = Duration::from_secs(10);

/// The keys as they are known now.
pub struct Keyring {
    trusted: ArcSwap<Vec<Trusted>>,
    /// Grows with every change, so that what was believed by older keys is asked again.
    generation: AtomicU64,
    sources: Vec<Source>,
    metrics: Metrics,
}

/// Where one issuer's keys come from.
struct Source {
    issuer: String,
    kind: Kind,
    /// One fetch at a time, each issuer's for itself.
    fetching: Arc<Mutex<Asked>>,
    /// How many fetches have ended.
    ended: AtomicU64,
    /// Whether the last one failed.
    failing: AtomicBool,
    good: SyncMutex<Option<Good>>,
    /// How long the last good set is used while its issuer is away.
    longest_stale: Duration,
}

enum Kind {
    Fixed,
    File(PathBuf),
    Url { url: String, client: Client, keep: Option<PathBuf> },
}

/// When a key that is not known last caused a fetch.
type Asked = Option<Instant>;

/// When keys were last known to be good: when they were put here, and how old they were then.
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

/// Why a keyring cannot be made.
#[derive(Debug)]
pub enum KeyringError {
    Keys { issuer: String, fault: KeyFault },
    File { issuer: String, path: PathBuf, error: io::Error },
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
    pub fn new(issuers: &[IssuerConfig], metrics: Metrics) -> Result<Keyring, KeyringError> {
        let (mut trusted, mut sources) = (Vec::new(), Vec::new());
        for issuer in issuers {
            let (kind, keys) = begin(issuer)?;
            let good = match kind {
                Kind::File(_) => Some(Good::aged(Duration::ZERO)),
                Kind::Fixed | Kind::Url { .. } => None,
            };
            trusted.push(Trusted { rules: rules(issuer), keys: keys.map(Arc::new) });
            sources.push(Source {
                issuer: issuer.name.clone(),
                kind,
                fetching: Arc::default(),
                ended: AtomicU64::new(0),
                failing: AtomicBool::new(false),
                good: SyncMutex::new(good),
                longest_stale: issuer.longest_stale,
            });
        }
        Ok(Keyring { trusted: ArcSwap::from_pointee(trusted), generation: AtomicU64::new(0), sources, metrics })
    }

    pub fn trusted(&self) -> Arc<Vec<Trusted>> {
        self.trusted.load_full()
    }

    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether an issuer told its keys when it was last asked: what is not among them is not its own.
    pub fn is_answering(&self, issuer: usize) -> bool {
        self.sources.get(issuer).is_some_and(|source| !source.failing.load(Ordering::Acquire))
    }

    /// The names of issuers whose keys are not known.
    pub fn missing(&self) -> Vec<String> {
        let trusted = self.trusted.load();
        trusted.iter().filter(|t| t.keys.is_none()).map(|t| t.rules.name.to_string()).collect()
    }

    /// Tells the metrics how old the keys are; of keys that cannot change there is no age.
    pub fn tell_ages(&self) {
        for source in &self.sources {
            if let Some(good) = source.good() {
                self.metrics.keys_age(&source.issuer, good.age());
            }
        }
    }

    /// Looks for keys that have come since, unless somebody did a moment ago.
    pub async fn look_again(self: &Arc<Keyring>, issuer: usize) {
        let Some(source) = self.sources.get(issuer) else { return };
        if matches!(source.kind, Kind::Fixed) {
            return;
        }
        let ended = source.ended.load(Ordering::Acquire);
        let mut asked = source.fetching.clone().lock_owned().await;
        let came_meanwhile = source.ended.load(Ordering::Acquire) != ended;
        if came_meanwhile || asked.is_some_and(|asked| asked.elapsed() < COOLDOWN) {
            return;
        }
        *asked = Some(Instant::now());
        let keyring = self.clone();
        // A task of its own: who asked may leave, and what it used up of the cooldown is for everybody.
        let fetch = tokio::spawn(async move {
            let _alone = asked;
            keyring.refresh(issuer).await
        });
        if let Err(error) = fetch.await {
            tracing::error!(%error, "a task that fetched keys did not end");
        }
    }

    /// The keys that a configuration gives by themselves, of issuers that are known; each with its place here.
    pub fn given(issuers: &[IssuerConfig], known: &Keyring) -> Result<Vec<(usize, KeySet)>, KeyringError> {
        let mut given = Vec::new();
        for issuer in issuers {
            let at = known.sources.iter().position(|source| source.issuer == issuer.name);
            let source = at.and_then(|at| Some((at, known.sources.get(at)?)));
            if let (Some((at, Source { kind: Kind::Fixed, .. })), KeySource::Pem(_) | KeySource::Shared(_)) =
                (source, &issuer.keys)
                && let (_, Some(keys)) = begin(issuer)?
            {
                given.push((at, keys));
            }
        }
        Ok(given)
    }

    /// From now on these are its keys; whether they are others than before.
    pub fn replace(&self, issuer: usize, keys: KeySet) -> bool {
        let before = self.generation();
        self.put(issuer, Some(keys));
        self.generation() != before
    }

    pub fn name(&self, issuer: usize) -> &str {
        self.sources.get(issuer).map_or("", |source| &source.issuer)
    }

    /// Looks at once at the files that keys are in.
    pub async fn look_at_files(&self) {
        for (at, source) in self.sources.iter().enumerate() {
            if matches!(source.kind, Kind::File(_)) {
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
                Kind::Fixed => return,
                Kind::File(_) => LOOK_EVERY,
                Kind::Url { .. } if good => REFRESH_EVERY,
                Kind::Url { .. } => RETRY_AFTER,
            };
            sleep(rest.min(source.before_stale())).await;
        }
    }

    /// True if the keys are known to be fresh. Whoever calls this holds the source's `fetching`.
    async fn refresh(&self, issuer: usize) -> bool {
        let Some(source) = self.sources.get(issuer) else { return true };
        self.let_go_of_stale(issuer, source);
        let come = match &source.kind {
            Kind::Fixed => return true,
            Kind::File(path) => read(path).await,
            Kind::Url { url, client, keep } => self.fetch(source, url, client, keep.as_deref()).await,
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

    async fn fetch(&self, source: &Source, url: &str, client: &Client, keep: Option<&Path>) -> Result<KeySet, String> {
        let fetched = fetch::keys(client, url).await;
        self.metrics.keys_fetched(&source.issuer, fetched.as_ref().err().map_or("good", FetchFault::as_str));
        let Fetched { keys, document } = fetched.map_err(|fault| fault.to_string())?;
        if let Some(path) = keep {
            let (at, url) = (path.to_owned(), url.to_owned());
            if let Err(error) = blocking(move || kept::write(&at, &url, &document)).await {
                tracing::warn!(issuer = source.issuer, path = %path.display(), %error, "keys cannot be kept on disk");
            }
        }
        Ok(keys)
    }

    async fn failed(&self, issuer: usize, source: &Source, why: &str) {
        let issuer_name = source.issuer.as_str();
        let is_known = self.trusted.load().get(issuer).is_some_and(|t| t.keys.is_some());
        if !is_known {
            tracing::warn!(issuer = issuer_name, why, "keys cannot be had, and none are known");
            // What this process let go of as too old does not come back from the disk, whatever the file's time says.
            if source.good().is_none() {
                self.take_kept(issuer, source).await;
            }
        } else {
            tracing::warn!(issuer = issuer_name, why, "keys cannot be had; the last good ones stay");
        }
    }

    /// Before a fetch, not after it: an issuer that hangs gains nothing by it.
    fn let_go_of_stale(&self, issuer: usize, source: &Source) {
        let is_known = self.trusted.load().get(issuer).is_some_and(|t| t.keys.is_some());
        if is_known && source.good().is_some_and(|good| good.age() >= source.longest_stale) {
            tracing::error!(issuer = source.issuer, "the last good keys are too old to be used on");
            self.put(issuer, None);
        }
    }

    /// Takes the keys that an earlier process kept, if they are of use.
    async fn take_kept(&self, issuer: usize, source: &Source) {
        let Kind::Url { url, keep: Some(path), .. } = &source.kind else { return };
        let (at, url, longest) = (path.clone(), url.clone(), source.longest_stale);
        match blocking(move || Ok(kept::read(&at, &url, longest))).await {
            Ok(Ok((keys, age))) => {
                source.is_good(Good::aged(age));
                tracing::info!(
                    issuer = source.issuer,
                    age_secs = age.as_secs(),
                    "keys that were kept on disk are used"
                );
                self.put(issuer, Some(keys));
            }
            Ok(Err(fault)) => {
                tracing::warn!(issuer = source.issuer, path = %path.display(), why = %fault, "keys that were kept on disk are not used");
            }
            Err(error) => tracing::error!(issuer = source.issuer, %error, "a task that read keys did not end"),
        }
    }

    pub(super) fn put(&self, issuer: usize, keys: Option<KeySet>) {
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

impl Source {
    fn good(&self) -> Option<Good> {
        *self.good.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long to rest at most, so that good keys are seen again in time, and stale ones are let go of in time.
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
        KeySource::Url { url, ca_pem, keep } => {
            let client =
                fetch::client(ca_pem.as_deref()).map_err(|error| KeyringError::Client { issuer: name(), error })?;
            Ok((Kind::Url { url: url.clone(), client, keep: keep.clone() }, None))
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
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
        refuses_holds: issuer.holds == HoldsMode::Refuse,
    }
}
