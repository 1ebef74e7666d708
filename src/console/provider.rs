//! The OpenID provider of the console: its client, and recently completed sign-ins.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use crate::adapters::identity::Provider;
use crate::adapters::random;
use crate::adapters::rate::{RoomShare, SharedRoom};
use crate::base::digest::Fingerprint;
use crate::config::OidcConfig;
use crate::people::sign_in::{SignIn, SignInKey};

/// How many sign-ins ask the provider at once, and those of one address.
const MAX_PROVIDER_REQUESTS: usize = 64;
const MAX_OF_ADDRESS: usize = 8;
/// How long a sign-in waits for its turn.
const MAX_WAIT: Duration = Duration::from_secs(3);
/// How many completed sign-ins are remembered, so that none completes twice.
const MAX_ENDED: usize = 4096;

/// The configured provider.
#[derive(Debug)]
pub(super) struct ProviderSignIn {
    pub(super) provider: Provider,
    pub(super) key: SignInKey,
    /// Each address has a share, so that nobody's slow sign-ins keep the others out.
    requests: Arc<SharedRoom<IpAddr>>,
    freed: Notify,
    /// The digests of ended sign-ins, each with its expiry.
    ended: Mutex<HashMap<String, i64>>,
}

/// The place of one sign-in that asks the provider; dropping it lets another one in.
#[derive(Debug)]
pub(super) struct ProviderPlace<'p> {
    share: Option<RoomShare<IpAddr>>,
    freed: &'p Notify,
}

impl Drop for ProviderPlace<'_> {
    fn drop(&mut self) {
        self.share = None;
        self.freed.notify_waiters();
    }
}

impl ProviderSignIn {
    pub fn new(config: OidcConfig) -> Result<ProviderSignIn, String> {
        // Without a common secret, a sign-in must end at the node where it started.
        let secret = config.client_secret.clone().unwrap_or_else(random::key);
        let provider = Provider::new(config).map_err(|error| format!("the OpenID provider: {error}"))?;
        let requests = SharedRoom::capped(MAX_PROVIDER_REQUESTS, MAX_OF_ADDRESS);
        let key = SignInKey::of(secret.reveal());
        Ok(ProviderSignIn { provider, key, requests, freed: Notify::new(), ended: Mutex::default() })
    }

    pub fn name(&self) -> &str {
        &self.provider.config().name
    }

    /// Waits for the turn of a sign-in from this address to ask the provider; returns `None` if the wait is too long.
    pub(super) async fn place(&self, address: IpAddr) -> Option<ProviderPlace<'_>> {
        let mut share = self.requests.share_of(address);
        let turn = async {
            loop {
                let freed = self.freed.notified();
                if share.grow(1) {
                    return;
                }
                freed.await;
            }
        };
        timeout(MAX_WAIT, turn).await.ok()?;
        Some(ProviderPlace { share: Some(share), freed: &self.freed })
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
