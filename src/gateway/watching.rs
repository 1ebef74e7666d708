//! What looks after the process from inside: what operators watch is looked up, traces are exported, and the log says
//! more or less when it is told to.
//!
//! SIGUSR1: the log says one level more. SIGUSR2: it says what is configured. A signal needs no store and no console, so
//! that it can be given when these are what is looked into.

use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::start_error::StartError;
use super::workers::Workers;
use crate::adapters::clock::SystemClock;
use crate::adapters::otlp::Tracer;
use crate::base::ids::Environment;
use crate::config::{Config, LogLevel};
use crate::journey::lookout::look_out;
use crate::journey::{Books, InForce};
use crate::ports::Clock as _;
use crate::telemetry;

/// What is watched.
pub(super) struct Watching {
    pub books: Arc<Books>,
    pub in_force: Arc<InForce>,
    pub environments: Vec<Environment>,
}

/// Begins all of it; gives a tracer where traces are to be exported.
pub(super) fn watch_over(
    config: &Config,
    runtime: &Runtime,
    workers: &Workers,
    watching: Watching,
) -> Result<Option<Tracer>, StartError> {
    let Watching { books, in_force, environments } = watching;
    let metrics = books.metrics.clone();
    metrics.process_started(SystemClock.now().as_duration().try_into().unwrap_or_default());
    workers.keep("lookout", look_out(books, in_force, environments));
    let signals = {
        let _inside = runtime.enter();
        [SignalKind::user_defined1(), SignalKind::user_defined2()].map(signal)
    };
    let [louder, usual] = signals;
    let (louder, usual) = (louder.map_err(StartError::Runtime)?, usual.map_err(StartError::Runtime)?);
    workers.keep("the log's level", keep_level(config.log.level, louder, usual));
    let Some(collector) = &config.traces else { return Ok(None) };
    let traced = Tracer::new(collector, config.store.node.as_str(), metrics);
    let (tracer, exporter) = traced.map_err(StartError::Traces)?;
    workers.help("traces", exporter.run());
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
        tracing::error!(now = level.as_str(), "the log's level was changed by a signal");
    }
}
