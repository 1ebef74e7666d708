//! Measures of the journal: whether it can be written, how far it lags, and whether witnesses sign it.

use std::time::Duration;

use super::{Metrics, integer};

impl Metrics {
    /// Sets since when lines wait for witnesses, in seconds since 1970; 0 if none wait.
    pub fn unwitnessed_since(&self, second: i64) {
        self.all.unwitnessed_since.set(second);
    }

    pub fn witness_answered(&self, witness: &str, answer: &str) {
        self.all.witness_answers.with_label_values(&[witness, answer]).inc();
    }

    pub fn audit_up(&self, is_up: bool) {
        self.all.audit_up.set(i64::from(is_up));
    }

    /// Records how long a commit for money waited for its audit entry.
    pub fn recorded(&self, waited: Duration) {
        self.all.audit_seconds.observe(waited.as_secs_f64());
    }

    /// Sets the number of this node's waiting entries, and the age of the oldest.
    pub fn outbox(&self, environment: &str, entries: usize, oldest: Duration) {
        self.all.audit_outbox.with_label_values(&[environment]).set(integer(entries));
        self.all.audit_lag.with_label_values(&[environment]).set(integer(oldest.as_secs()));
    }
}
