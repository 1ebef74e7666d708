//! One webhook, as it goes at this node: how much is sent to it at one time, and how long it is left alone.

use std::sync::Arc;
use std::time::Duration;

use crate::adapters::random::jittered;
use crate::adapters::webhook::{Came, Webhook};

/// How many messages are sent to it at one time; while it fails, one.
const AT_ONCE: usize = 4;
/// How long it is left alone after it failed: so long, then ever twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(super) struct Line {
    pub webhook: Arc<Webhook>,
    /// How long its messages are kept.
    pub keep: Duration,
    busy: usize,
    /// Since it took anything.
    failures: u32,
    paused_until: Duration,
    /// It wants nothing more.
    is_off: bool,
}

impl Line {
    pub fn new(webhook: Arc<Webhook>, keep: Duration) -> Line {
        Line { webhook, keep, busy: 0, failures: 0, paused_until: Duration::ZERO, is_off: false }
    }

    /// Whether one more is sent to it now; then it counts.
    pub fn begin(&mut self, elapsed: Duration) -> bool {
        let most = if self.failures > 0 { 1 } else { AT_ONCE };
        let begins = !self.is_off && elapsed >= self.paused_until && self.busy < most;
        self.busy = self.busy.saturating_add(usize::from(begins));
        begins
    }

    /// It was not sent after all, or that is over.
    pub fn leave(&mut self) {
        self.busy = self.busy.saturating_sub(1);
    }

    /// That came of one.
    pub fn ended(&mut self, came: &Came, elapsed: Duration) {
        self.leave();
        let name = self.webhook.name();
        match came {
            Came::Delivered(_) => {
                if self.failures > 0 {
                    tracing::info!(webhook = name, "a webhook takes messages again");
                }
                (self.failures, self.paused_until) = (0, Duration::ZERO);
            }
            Came::Gone => {
                tracing::warn!(
                    webhook = name,
                    "a webhook wants no more messages (410): it is off until the next start"
                );
                self.is_off = true;
            }
            // Those that were under way with one that failed tell nothing new.
            _ if elapsed < self.paused_until => {}
            _ => {
                let doubled = FIRST_PAUSE.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX));
                let asked = match came {
                    Came::Refused { wait, .. } => wait.unwrap_or_default(),
                    _ => Duration::ZERO,
                };
                let pause = jittered(doubled.min(LONGEST_PAUSE)).max(asked);
                tracing::warn!(
                    webhook = name,
                    outcome = came.as_str(),
                    why = %came,
                    pause_secs = pause.as_secs(),
                    "a webhook did not take a message; it is sent again"
                );
                self.failures = self.failures.saturating_add(1);
                self.paused_until = elapsed.saturating_add(pause);
            }
        }
    }
}
