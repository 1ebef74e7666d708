//! The kinds of metrics in the list.

use prometheus::core::Collector;
use prometheus::{
    Gauge as PrometheusGauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};

/// Upper bounds in seconds: 100 µs to 60 s.
const LATENCIES: [f64; 15] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0];
/// Upper bounds for waits of people: a minute to a week.
const WAITS: [f64; 11] =
    [60.0, 300.0, 900.0, 1_800.0, 3_600.0, 7_200.0, 14_400.0, 28_800.0, 86_400.0, 259_200.0, 604_800.0];

pub(super) type Counter = IntCounter;
pub(super) type Counters = IntCounterVec;
pub(super) type FloatCounter = prometheus::Counter;
pub(super) type Gauge = IntGauge;
pub(super) type Gauges = IntGaugeVec;
pub(super) type Float = PrometheusGauge;
pub(super) type Floats = GaugeVec;
pub(super) type Latency = Histogram;
pub(super) type Latencies = HistogramVec;

/// A histogram of how long people take.
#[derive(Clone, Debug)]
pub(super) struct Waits(pub HistogramVec);

/// A kind of metric that can be created and registered.
pub(super) trait Family: Sized {
    const KIND: &'static str;

    fn registered(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> Result<Self, prometheus::Error>;
}

fn registered<C: Collector + Clone + 'static>(registry: &Registry, collector: C) -> Result<C, prometheus::Error> {
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}

macro_rules! families {
    ($($family:ident $kind:literal |$name:ident, $help:ident, $labels:ident| $made:expr;)*) => {
        $(impl Family for $family {
            const KIND: &'static str = $kind;

            fn registered(registry: &Registry, $name: &str, $help: &str, $labels: &[&str]) -> Result<Self, prometheus::Error> {
                registered(registry, $made?)
            }
        })*
    };
}

families! {
    Counter "counter" |name, help, _labels| IntCounter::new(name, help);
    FloatCounter "counter" |name, help, _labels| prometheus::Counter::new(name, help);
    Counters "counter" |name, help, labels| IntCounterVec::new(Opts::new(name, help), labels);
    Gauge "gauge" |name, help, _labels| IntGauge::new(name, help);
    Float "gauge" |name, help, _labels| PrometheusGauge::new(name, help);
    Gauges "gauge" |name, help, labels| IntGaugeVec::new(Opts::new(name, help), labels);
    Floats "gauge" |name, help, labels| GaugeVec::new(Opts::new(name, help), labels);
    Latency "histogram" |name, help, _labels| Histogram::with_opts(HistogramOpts::new(name, help).buckets(LATENCIES.to_vec()));
    Latencies "histogram" |name, help, labels| HistogramVec::new(HistogramOpts::new(name, help).buckets(LATENCIES.to_vec()), labels);
}

impl Family for Waits {
    const KIND: &'static str = "histogram";

    fn registered(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> Result<Waits, prometheus::Error> {
        let options = HistogramOpts::new(name, help).buckets(WAITS.to_vec());
        registered(registry, HistogramVec::new(options, labels)?).map(Waits)
    }
}
