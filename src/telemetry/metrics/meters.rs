//! Metrics whose labels are known beforehand: looked up once, and then only counted.

use std::collections::HashMap;
use std::sync::OnceLock;

use prometheus::{Histogram, IntCounter};

use super::Metrics;
use crate::base::ids::OperationId;
use crate::catalog::Catalog;
use crate::ledger::StoreFault;
use crate::telemetry::Times;

/// The counters of one rate.
#[derive(Clone, Debug)]
pub struct RateCounters {
    pub allowed: IntCounter,
    pub limited: IntCounter,
    /// Allowed calls that left less than a fifth.
    pub near: IntCounter,
}

/// The meters of one kind of call to the store.
#[derive(Clone, Debug)]
pub struct StoreMeter {
    pub seconds: Histogram,
    away: IntCounter,
    in_doubt: IntCounter,
    broken: IntCounter,
}

impl StoreMeter {
    pub fn failed(&self, fault: &StoreFault) {
        match fault {
            StoreFault::Away(_) => self.away.inc(),
            StoreFault::InDoubt(_) => self.in_doubt.inc(),
            StoreFault::Broken(_) => self.broken.inc(),
            // The store answered: what was to be done waits.
            StoreFault::AwaitsJournals | StoreFault::FencedOff | StoreFault::NoRoomForEntry { .. } => {}
        }
    }
}

/// The times of requests to one environment, by operation, with one more series for requests without an operation.
#[derive(Debug)]
pub struct RequestMeters {
    environment: &'static str,
    metrics: Metrics,
    operations: HashMap<OperationId, OnceLock<OperationMeter>>,
    none: OnceLock<OperationMeter>,
}

#[derive(Debug)]
struct OperationMeter {
    request: Histogram,
    gate: Histogram,
    upstream: Histogram,
}

impl Metrics {
    pub fn of_environment(&self, environment: &'static str, catalog: &Catalog) -> RequestMeters {
        let operations = catalog.operations().iter().map(|operation| (operation.id.clone(), OnceLock::new())).collect();
        RequestMeters { environment, metrics: self.clone(), operations, none: OnceLock::new() }
    }

    /// Returns the counters of one rate, which exist from the start.
    pub fn of_rate(&self, rate: &str, mode: &str) -> RateCounters {
        let calls = |outcome: &str| self.all.rate_calls.with_label_values(&[rate, mode, outcome]);
        let near = self.all.rate_near.with_label_values(&[rate, mode]);
        RateCounters { allowed: calls("allowed"), limited: calls("limited"), near }
    }

    pub fn of_store(&self, call: &str) -> StoreMeter {
        let failures = |kind: &str| self.all.store_failures.with_label_values(&[call, kind]);
        StoreMeter {
            seconds: self.all.store_seconds.with_label_values(&[call]),
            away: failures("away"),
            in_doubt: failures("in-doubt"),
            broken: failures("broken"),
        }
    }
}

impl RequestMeters {
    pub fn observe(&self, operation: Option<&OperationId>, times: Times) {
        let place = match operation {
            None => Some(&self.none),
            Some(id) => self.operations.get(id),
        };
        let name = operation.map_or("none", OperationId::as_str);
        match place {
            Some(place) => place.get_or_init(|| self.meter(name)).observe(times),
            // A reloaded contract may have added it.
            None => self.meter(name).observe(times),
        }
    }

    fn meter(&self, operation: &str) -> OperationMeter {
        let (all, labels) = (&self.metrics.all, [self.environment, operation]);
        OperationMeter {
            request: all.request_seconds.with_label_values(&labels),
            gate: all.gate_seconds.with_label_values(&labels),
            upstream: all.upstream_seconds.with_label_values(&labels),
        }
    }
}

impl OperationMeter {
    fn observe(&self, times: Times) {
        self.request.observe(times.whole.as_secs_f64());
        self.gate.observe(times.gate.as_secs_f64());
        if let Some(upstream) = times.upstream {
            self.upstream.observe(upstream.as_secs_f64());
        }
    }
}
