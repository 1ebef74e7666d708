//! Counts of callers' connections, and of upstream's long answers.

use super::{Metrics, integer};
use crate::base::ids::Environment;

impl Metrics {
    pub fn unreadable(&self, listener: &str, reason: &str) {
        self.all.unreadable.with_label_values(&[listener, reason]).inc();
    }

    pub fn connected(&self, listener: &str) {
        self.all.connections.with_label_values(&[listener]).inc();
    }

    pub fn disconnected(&self, listener: &str) {
        self.all.connections.with_label_values(&[listener]).dec();
    }

    pub fn connection_refused(&self, listener: &str, reason: &str) {
        self.all.connections_refused.with_label_values(&[listener, reason]).inc();
    }

    /// An answer waits for room to be read.
    pub fn answer_waits(&self, environment: Environment) {
        self.all.answers_waited.with_label_values(&[environment.as_str()]).inc();
    }

    /// A late answer is not waited for, because its caller has too many already.
    pub fn late_answer_given_up(&self, environment: Environment) {
        self.all.late_answers_given_up.with_label_values(&[environment.as_str()]).inc();
    }

    /// Sets the bytes that slow callers hold, and counts the connections that were reset for it.
    pub fn buffered(&self, listener: &str, bytes: usize, resets: u64) {
        self.all.buffered.with_label_values(&[listener]).set(integer(bytes));
        if resets > 0 {
            self.all.connections_reset.with_label_values(&[listener]).inc_by(resets);
        }
    }
}
