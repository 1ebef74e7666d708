//! What is measured of telling: webhooks, and holds that expire soon.

use std::time::Duration;

use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};

use super::metrics::registered;

/// Labelled by the names that the configuration gives, never by addresses.
#[derive(Clone, Debug)]
pub struct Told {
    deliveries: IntCounterVec,
    dropped: IntCounterVec,
    waiting: IntGaugeVec,
    oldest: IntGaugeVec,
    expiring: IntGaugeVec,
}

impl Told {
    pub(super) fn new(registry: &Registry) -> Result<Told, prometheus::Error> {
        let counters = |name: &str, help: &str, labels: &[&str]| {
            registered(registry, IntCounterVec::new(Opts::new(name, help), labels)?)
        };
        let gauges = |name: &str, help: &str, labels: &[&str]| {
            registered(registry, IntGaugeVec::new(Opts::new(name, help), labels)?)
        };
        Ok(Told {
            deliveries: counters(
                "sluice_webhook_deliveries_total",
                "Messages that were sent to a webhook, by what came of it; only `delivered` ones are not sent again.",
                &["webhook", "outcome"],
            )?,
            dropped: counters(
                "sluice_webhook_dropped_total",
                "Messages that nobody is told any more: they waited too long (`late`), or too many waited (`full`).",
                &["webhook", "why"],
            )?,
            waiting: gauges(
                "sluice_webhook_waiting",
                "Messages that wait to be delivered to a webhook.",
                &["environment", "webhook"],
            )?,
            oldest: gauges(
                "sluice_webhook_oldest_seconds",
                "How long the oldest message waits that is to be delivered to a webhook.",
                &["environment", "webhook"],
            )?,
            expiring: gauges(
                "sluice_holds_expiring",
                "Calls that wait for people and expire within `console.remind_before_secs`.",
                &["environment"],
            )?,
        })
    }

    pub fn delivered(&self, webhook: &str, outcome: &str) {
        self.deliveries.with_label_values(&[webhook, outcome]).inc();
    }

    pub fn dropped(&self, webhook: &str, why: &str, count: usize) {
        self.dropped.with_label_values(&[webhook, why]).inc_by(u64::try_from(count).unwrap_or(u64::MAX));
    }

    pub fn waiting(&self, environment: &str, webhook: &str, count: usize, oldest: Duration) {
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.waiting.with_label_values(&[environment, webhook]).set(count);
        self.oldest.with_label_values(&[environment, webhook]).set(number(oldest.as_secs()));
    }

    pub fn expiring(&self, environment: &str, count: usize) {
        self.expiring.with_label_values(&[environment]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}
