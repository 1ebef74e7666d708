//! One webhook at this node: how many deliveries run at once, and how long it rests after a failure.

use std::sync::Arc;
use std::time::Duration;

use crate::adapters::random::jittered;
use crate::adapters::webhook::{Came, Webhook};

/// The most deliveries at once; one while the webhook fails.
const AT_ONCE: usize = 4;
/// The pause after a failure; it doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// The pause after a 410, by which a webhook says that it wants no more notices. A proxy or a tool may say so by mistake.
const GONE_PAUSE: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(super) struct WebhookLine {
    pub webhook: Arc<Webhook>,
    /// How long notices for this webhook are kept.
    pub keep: Duration,
    busy: usize,
    /// Failures since the last delivery.
    failures: u32,
    paused_until: Duration,
}

impl WebhookLine {
    pub fn new(webhook: Arc<Webhook>, keep: Duration) -> WebhookLine {
        WebhookLine { webhook, keep, busy: 0, failures: 0, paused_until: Duration::ZERO }
    }

    /// Returns whether one more delivery may start now, and counts it.
    pub fn begin(&mut self, elapsed: Duration) -> bool {
        let most = if self.failures > 0 { 1 } else { AT_ONCE };
        let begins = elapsed >= self.paused_until && self.busy < most;
        self.busy = self.busy.saturating_add(usize::from(begins));
        begins
    }

    /// Ends a delivery that was not made, or is over.
    pub fn leave(&mut self) {
        self.busy = self.busy.saturating_sub(1);
    }

    /// Records the result of a delivery.
    pub fn ended(&mut self, came: &Came, elapsed: Duration) {
        self.leave();
        let name = self.webhook.name();
        match came {
            Came::Delivered(_) => {
                if self.failures > 0 {
                    tracing::info!(webhook = name, "a webhook accepts notices again");
                }
                (self.failures, self.paused_until) = (0, Duration::ZERO);
            }
            // Deliveries that ran beside the one that failed tell nothing new.
            _ if elapsed < self.paused_until => {}
            _ => {
                let doubled = FIRST_PAUSE.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX));
                let asked = match came {
                    Came::Refused { wait, .. } => wait.unwrap_or_default(),
                    _ => Duration::ZERO,
                };
                let pause = match came {
                    Came::Gone => GONE_PAUSE,
                    _ => jittered(doubled.min(LONGEST_PAUSE)).max(asked),
                };
                tracing::warn!(
                    webhook = name,
                    outcome = came.as_str(),
                    why = %came,
                    pause_secs = pause.as_secs(),
                    "a webhook did not accept a notice; it is sent again"
                );
                self.failures = self.failures.saturating_add(1);
                self.paused_until = elapsed.saturating_add(pause);
            }
        }
    }
}
