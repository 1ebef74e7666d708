//! The bound and the backoff of every loop that reads a record, decides, and commits with a guard on what it read.

use std::time::Duration;

use crate::ledger::StoreFault;

/// The number of tries, while other nodes change the same records.
const TRIES: u32 = 5;
/// The pause after the first conflict; each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// The tries of one loop. The loop reads its records anew in each try, and calls [`Retry::conflict`] at its end.
#[derive(Debug, Default)]
pub(super) struct Retry {
    conflicts: u32,
}

impl Retry {
    /// Pauses before the next try. Returns a fault after the last one.
    pub async fn conflict(&mut self) -> Result<(), StoreFault> {
        let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(self.conflicts));
        self.conflicts = self.conflicts.saturating_add(1);
        if self.conflicts >= TRIES {
            return Err(StoreFault::Away(format!("other nodes changed the same record {TRIES} times meanwhile")));
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }
}
