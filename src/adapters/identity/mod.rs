//! Who a token's bearer is: the keys of the issuers as they are known now, and the tokens that were believed already.

mod fetch;
mod keyring;
mod remembered;

use std::sync::Arc;

use jiff::Timestamp;

pub use keyring::{Keyring, KeyringError};

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

    pub fn keyring(&self) -> &Arc<Keyring> {
        &self.keyring
    }

    /// Believes a token, or not. A key that is not known is looked for once.
    pub async fn believe(&self, token: &Secret) -> Result<Arc<Believed>, TokenFault> {
        let now = now_secs(self.clock.now());
        let generation = self.keyring.generation();
        if let Some(believed) = self.remembered.find(token, generation, now) {
            return Ok(believed);
        }
        let (believed, generation) = match believe(token.reveal(), &self.keyring.trusted(), now) {
            Err(TokenFault::UnknownKey { issuer } | TokenFault::NoKeys { issuer }) => {
                self.keyring.look_again(issuer).await;
                // Taken before the keys: were they to change in between, the token would be asked again.
                let generation = self.keyring.generation();
                (believe(token.reveal(), &self.keyring.trusted(), now)?, generation)
            }
            other => (other?, generation),
        };
        let believed = Arc::new(believed);
        self.remembered.keep(token, generation, believed.clone());
        Ok(believed)
    }
}

fn now_secs(now: Timestamp) -> i64 {
    now.as_second()
}
