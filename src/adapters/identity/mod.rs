//! Verification of tokens: the issuers' current keys, and a cache of tokens that are already verified.

pub(super) mod fetch;
mod issuer_rules;
mod saved_document;
mod keyring;
mod provider;
mod token_cache;

use std::sync::Arc;

pub use keyring::{Keyring, KeyringError};
pub use provider::{Provider, ProviderFault};

use keyring::KeysLook;
use token_cache::RememberedTokens;

use crate::base::secret::Secret;
use crate::ports::Clock;
use crate::stations::admit::{TokenFault, VerifiedToken, believe};

/// Verifies tokens.
#[derive(Debug)]
pub struct Identity {
    keyring: Arc<Keyring>,
    remembered: RememberedTokens,
    clock: Arc<dyn Clock>,
}

impl Identity {
    pub fn new(keyring: Arc<Keyring>, clock: Arc<dyn Clock>) -> Identity {
        Identity { keyring, remembered: RememberedTokens::default(), clock }
    }

    /// Verifies a token. One that another key could have signed causes a fetch of the issuer's keys; if the issuer cannot
    /// be reached, or was asked just now, the result is unknown rather than a refusal.
    pub async fn believe(&self, token: &Secret) -> Result<Arc<VerifiedToken>, TokenFault> {
        if let Some(believed) = self.remembered.find(token, self.keyring.generation(), self.now_secs()) {
            return Ok(believed);
        }
        let generation = self.keyring.generation();
        match self.ask(token) {
            Err(
                fault @ (TokenFault::UnknownKey { issuer }
                | TokenFault::NoKeys { issuer }
                | TokenFault::Signature { issuer, .. }),
            ) => {
                let look = self.keyring.look_again(issuer).await;
                // The keys may have changed between the two looks at them.
                let is_same = look == KeysLook::Resting && self.keyring.generation() == generation;
                let result = if is_same { Err(fault) } else { self.ask(token) };
                result.map_err(|fault| match fault {
                    // The issuer could have the key by now.
                    TokenFault::UnknownKey { issuer } | TokenFault::Signature { issuer, is_key_named: false }
                        if look == KeysLook::Resting || !self.keyring.is_answering(issuer) =>
                    {
                        TokenFault::NoKeys { issuer }
                    }
                    fault => fault,
                })
            }
            other => other,
        }
    }

    fn ask(&self, token: &Secret) -> Result<Arc<VerifiedToken>, TokenFault> {
        // INVARIANT: read before the keys. If the keys change meanwhile, this result already counts as outdated.
        let generation = self.keyring.generation();
        let believed = Arc::new(believe(token.reveal(), &self.keyring.trusted(), self.now_secs())?);
        self.remembered.keep(token, generation, believed.clone());
        Ok(believed)
    }

    fn now_secs(&self) -> i64 {
        self.clock.now().as_second()
    }
}

#[cfg(test)]
mod tests;
