//! The OpenID provider of the console: its client, and recently completed sign-ins.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::adapters::identity::Provider;
use crate::adapters::random;
use crate::base::digest::Fingerprint;
use crate::config::OidcConfig;
use crate::people::sign_in::{SignIn, SignInKey};

/// How many requests to the provider run at once.
const MAX_PROVIDER_REQUESTS: usize = 8;
/// How long a request waits for its turn.
const MAX_WAIT: Duration = Duration::from_secs(3);
/// How many completed sign-ins are remembered, so that none completes twice.
const MAX_ENDED: usize = 4096;

/// The configured provider.
#[derive(Debug)]
pub(super) struct ProviderSignIn {
    pub(super) provider: Provider,
    pub(super) key: SignInKey,
    requests: Semaphore,
    /// The digests of ended sign-ins, each with its expiry.
    ended: Mutex<HashMap<String, i64>>,
}

impl ProviderSignIn {
    pub fn new(config: OidcConfig) -> Result<ProviderSignIn, String> {
        // Without a common secret, a sign-in must end at the node where it started.
        let secret = config.client_secret.clone().unwrap_or_else(random::key);
        let provider = Provider::new(config).map_err(|error| format!("the OpenID provider: {error}"))?;
        let (requests, ended) = (Semaphore::new(MAX_PROVIDER_REQUESTS), Mutex::default());
        Ok(ProviderSignIn { provider, key: SignInKey::of(secret.reveal()), requests, ended })
    }

    pub fn name(&self) -> &str {
        &self.provider.config().name
    }

    /// Waits for a turn to send a request to the provider; returns `None` if the wait is too long.
    pub(super) async fn room(&self) -> Option<SemaphorePermit<'_>> {
        timeout(MAX_WAIT, self.requests.acquire()).await.ok()?.ok()
    }

    /// Marks a sign-in as completed; returns `false` if it already was.
    pub(super) fn ends(&self, sign_in: &SignIn, now_secs: i64) -> bool {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.len() >= MAX_ENDED {
            ended.retain(|_, until| now_secs < *until);
        }
        // The provider accepts no code twice, so that a sign-in that is forgotten here still cannot complete again.
        let soonest = ended.iter().min_by_key(|(_, until)| **until).map(|(digest, _)| digest.clone());
        if let (true, Some(soonest)) = (ended.len() >= MAX_ENDED, soonest) {
            ended.remove(&soonest);
        }
        ended.insert(Fingerprint::of(&[sign_in.kept().as_bytes()]).to_hex(), sign_in.until_secs()).is_none()
    }
}
