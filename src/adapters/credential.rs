//! Whose token upstream sees in one environment.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::time::sleep;

use crate::base::ids::Environment;
use crate::base::secret::Secret;
use crate::config::{CredentialConfig, CredentialSource, credential_in};

/// How often a credential's file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The credential of one environment; it is good for no other.
pub struct Credential {
    environment: Environment,
    kind: Kind,
}

enum Kind {
    Forward,
    Given(Arc<Secret>),
    File { path: PathBuf, current: ArcSwap<Secret> },
}

/// Why a credential cannot be had.
#[derive(Debug)]
pub struct CredentialError {
    environment: Environment,
    path: PathBuf,
    why: String,
}

impl fmt::Display for CredentialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: the credential in `{}` cannot be used: {}", self.environment, self.path.display(), self.why)
    }
}

impl std::error::Error for CredentialError {}

impl Credential {
    pub fn new(environment: Environment, config: &CredentialConfig) -> Result<Credential, CredentialError> {
        let kind = match config {
            CredentialConfig::Forward => Kind::Forward,
            CredentialConfig::Inject(CredentialSource::Given(secret)) => Kind::Given(Arc::new(secret.clone())),
            CredentialConfig::Inject(CredentialSource::File(path)) => {
                let read = std::fs::read(path).map_err(|error| error.to_string()).and_then(usable);
                let secret = read.map_err(|why| CredentialError { environment, path: path.clone(), why })?;
                Kind::File { path: path.clone(), current: ArcSwap::from_pointee(secret) }
            }
        };
        Ok(Credential { environment, kind })
    }

    /// Whether callers' own tokens end here.
    pub fn is_injected(&self) -> bool {
        match self.kind {
            Kind::Forward => false,
            Kind::Given(_) | Kind::File { .. } => true,
        }
    }

    /// What takes the place of the caller's token, if anything does; nothing at all for another environment.
    pub fn for_calls_of(&self, environment: Environment) -> Option<Arc<Secret>> {
        match &self.kind {
            _ if environment != self.environment => None,
            Kind::Forward => None,
            Kind::Given(secret) => Some(secret.clone()),
            Kind::File { current, .. } => Some(current.load_full()),
        }
    }

    /// Reads the file again when it changes; the last good credential stays while it cannot be used.
    pub async fn keep_fresh(self: Arc<Credential>) {
        if matches!(self.kind, Kind::File { .. }) {
            loop {
                sleep(LOOK_EVERY).await;
                self.look().await;
            }
        }
    }

    /// Does so once.
    pub async fn look(&self) {
        let Kind::File { path, current } = &self.kind else { return };
        let read = tokio::fs::read(path).await.map_err(|error| error.to_string());
        match read.and_then(usable) {
            Ok(secret) if secret != **current.load() => {
                current.store(Arc::new(secret));
                tracing::info!(environment = %self.environment, "upstream's credential changed");
            }
            Ok(_) => {}
            Err(why) => {
                tracing::warn!(environment = %self.environment, why, "upstream's credential cannot be read; the last good one stays");
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
    credential_in(bytes).ok_or_else(|| "it is not one word of printable ASCII".to_owned())
}
