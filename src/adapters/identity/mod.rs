//! Who a token's bearer is: the keys of the issuers as they are known now, and the tokens that were believed already.

pub(super) mod fetch;
mod kept;
mod keyring;
mod provider;
mod remembered;

use std::sync::Arc;

pub use keyring::{Keyring, KeyringError};
pub use provider::{Provider, ProviderFault};

use remembered::Remembered;

use crate::base::secret::Secret;
use crate::ports::Clock;
use crate::stations::admit::{Believed, TokenFault, believe};

/// What believes tokens.
#[derive(Debug)]
pub struct Identity {
    keyring: Arc<Keyring>,
    remembered: Remembered,
    clock: Arc<dyn Clock>,
}

impl Identity {
    pub fn new(keyring: Arc<Keyring>, clock: Arc<dyn Clock>) -> Identity {
        Identity { keyring, remembered: Remembered::default(), clock }
    }

    /// Believes a token, or not. A key that is not known is looked for once; where its issuer could not be asked, nobody
    /// knows whether the token is bad.
    pub async fn believe(&self, token: &Secret) -> Result<Arc<Believed>, TokenFault> {
        if let Some(believed) = self.remembered.find(token, self.keyring.generation(), self.now_secs()) {
            return Ok(believed);
        }
        match self.ask(token) {
            Err(TokenFault::UnknownKey { issuer } | TokenFault::NoKeys { issuer }) => {
                self.keyring.look_again(issuer).await;
                match self.ask(token) {
                    Err(TokenFault::UnknownKey { issuer }) if !self.keyring.is_answering(issuer) => {
                        Err(TokenFault::NoKeys { issuer })
                    }
                    other => other,
                }
            }
            other => other,
        }
    }

    fn ask(&self, token: &Secret) -> Result<Arc<Believed>, TokenFault> {
        // INVARIANT: taken before the keys. If they change meanwhile, what the former ones believed is already outdated.
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
