//! Counts of payments after their send, and of refused signatures.

use super::{Metrics, integer};

impl Metrics {
    /// Counts a signature of a vote that was refused.
    pub fn signature_refused(&self, environment: &str, reason: &str) {
        self.all.signatures_refused.with_label_values(&[environment, reason]).inc();
    }

    /// Counts a reading of upstream's list.
    pub fn list_read(&self, environment: &str, operation: &str, result: &str) {
        self.all.lists_read.with_label_values(&[environment, operation, result]).inc();
    }

    pub fn listed_unreadable(&self, environment: &str, operation: &str, count: u64) {
        self.all.listed_unreadable.with_label_values(&[environment, operation]).inc_by(count);
    }

    /// Counts a payment in a further state; the contract lists the states.
    pub fn followed(&self, environment: &str, operation: &str, state: &str, meaning: &str) {
        self.all.followed.with_label_values(&[environment, operation, state, meaning]).inc();
    }

    /// Counts a payment that no gate sent, or that is not as it was sent.
    pub fn foreign(&self, environment: &str, operation: &str, problem: &str) {
        self.all.foreign.with_label_values(&[environment, operation, problem]).inc();
    }

    pub fn foreign_listed(&self, environment: &str, count: usize) {
        self.all.foreign_listed.with_label_values(&[environment]).set(integer(count));
    }
}
