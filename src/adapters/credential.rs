//! The token that upstream gets in one environment.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use thiserror::Error;
use tokio::time::sleep;

use crate::adapters::regular_file::{read_regular, read_regular_aside};
use crate::base::ids::Environment;
use crate::base::secret::Secret;
use crate::config::{CredentialConfig, CredentialSource, credential_in};

/// How often a credential's file is checked for changes.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// The credential of one environment; it is valid for no other.
pub struct Credential {
    environment: Environment,
    kind: CredentialKind,
}

enum CredentialKind {
    Forward,
    Given(Arc<Secret>),
    File { path: PathBuf, current: ArcSwap<Secret> },
}

/// Why a credential cannot be loaded.
#[derive(Debug, Error)]
#[error("{environment}: the credential in `{}` cannot be used: {why}", .path.display())]
pub struct CredentialError {
    environment: Environment,
    path: PathBuf,
    why: String,
}

impl Credential {
    pub fn new(environment: Environment, config: &CredentialConfig) -> Result<Credential, CredentialError> {
        let kind = match config {
            CredentialConfig::Forward => CredentialKind::Forward,
            CredentialConfig::Inject(CredentialSource::Given(secret)) => {
                CredentialKind::Given(Arc::new(secret.clone()))
            }
            CredentialConfig::Inject(CredentialSource::File(path)) => {
                let read = read_regular(path).map_err(|error| error.to_string()).and_then(usable);
                let secret = read.map_err(|why| CredentialError { environment, path: path.clone(), why })?;
                CredentialKind::File { path: path.clone(), current: ArcSwap::from_pointee(secret) }
            }
        };
        Ok(Credential { environment, kind })
    }

    /// Whether the gate's credential replaces callers' own tokens.
    pub fn is_injected(&self) -> bool {
        match self.kind {
            CredentialKind::Forward => false,
            CredentialKind::Given(_) | CredentialKind::File { .. } => true,
        }
    }

    /// Returns the credential that replaces the caller's token, if one is configured; `None` for another environment.
    pub fn for_calls_of(&self, environment: Environment) -> Option<Arc<Secret>> {
        match &self.kind {
            _ if environment != self.environment => None,
            CredentialKind::Forward => None,
            CredentialKind::Given(secret) => Some(secret.clone()),
            CredentialKind::File { current, .. } => Some(current.load_full()),
        }
    }

    /// Reads the file again when it changes; the last good credential stays while the new one cannot be used.
    pub async fn keep_fresh(self: Arc<Credential>) {
        if matches!(self.kind, CredentialKind::File { .. }) {
            loop {
                sleep(POLL_INTERVAL).await;
                self.reload().await;
            }
        }
    }

    /// Checks the file once.
    pub async fn reload(&self) {
        let CredentialKind::File { path, current } = &self.kind else { return };
        let read = read_regular_aside(path).await.map_err(|error| error.to_string());
        match read.and_then(usable) {
            Ok(secret) if secret != **current.load() => {
                current.store(Arc::new(secret));
                tracing::info!(environment = %self.environment, "the credential for upstream changed");
            }
            Ok(_) => {}
            Err(why) => {
                tracing::warn!(environment = %self.environment, why, "the credential for upstream cannot be read; the last good one stays in use");
            }
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("environment", &self.environment).finish_non_exhaustive()
    }
}

fn usable(bytes: Vec<u8>) -> Result<Secret, String> {
    credential_in(bytes).ok_or_else(|| "its content is not one word of printable ASCII".to_owned())
}
