//! Monitoring of the process: gauges for operators, free disk, the export of traces, and the log level.
//!
//! SIGUSR1 raises the log level by one step; SIGUSR2 restores the configured level. Signals need neither store nor
//! console, so that they work when these fail.

use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::start_error::StartError;
use super::workers::Workers;
use crate::adapters::clock::SystemClock;
use crate::adapters::otlp::Tracer;
use crate::base::ids::Environment;
use crate::config::{Config, LogLevel};
use crate::node::gauges::look_out;
use crate::node::{InForce, Node};
use crate::ports::Clock as _;
use crate::telemetry;

/// The parts that the gauges measure.
pub(super) struct Monitored {
    pub node: Arc<Node>,
    pub in_force: Arc<InForce>,
    pub environments: Vec<Environment>,
}

/// Starts monitoring; returns a tracer if traces are exported.
pub(super) fn start_monitoring(
    config: &Config,
    runtime: &Runtime,
    workers: &Workers,
    monitored: Monitored,
) -> Result<Option<Tracer>, StartError> {
    let Monitored { node, in_force, environments } = monitored;
    let metrics = node.metrics.clone();
    metrics.process_started(SystemClock.now().as_duration().try_into().unwrap_or_default());
    workers.spawn_optional("free disk", node.entries.clone().keep_measuring());
    workers.spawn_required("gauges", look_out(node, in_force, environments));
    let signals = {
        let _inside = runtime.enter();
        [SignalKind::user_defined1(), SignalKind::user_defined2()].map(signal)
    };
    let [louder, usual] = signals;
    let (louder, usual) = (louder.map_err(StartError::Runtime)?, usual.map_err(StartError::Runtime)?);
    workers.spawn_required("log level", keep_level(config.log.level, louder, usual));
    let Some(collector) = &config.traces else { return Ok(None) };
    let traced = Tracer::new(collector, config.store.node.as_str(), metrics);
    let (tracer, exporter) = traced.map_err(StartError::Traces)?;
    workers.spawn_optional("traces", exporter.run());
    Ok(Some(tracer))
}

async fn keep_level(configured: LogLevel, mut louder: Signal, mut usual: Signal) {
    let mut level = configured;
    loop {
        let next = tokio::select! {
            Some(()) = louder.recv() => level.louder(),
            Some(()) = usual.recv() => configured,
            else => return std::future::pending().await,
        };
        level = next;
        telemetry::set_level(level);
        tracing::error!(now = level.as_str(), "a signal changed the log level");
    }
}
