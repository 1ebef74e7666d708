//! The log: one line per request, and events of the process.
//!
//! What OpenTelemetry's conventions name has their name here, as in traces; Sluice's own fields have plain names.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::time::Duration;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, reload};

use super::human::Human;
use super::json_line::JsonLine;
use super::log_writer::{self, LogGuard};
use crate::config::{LogConfig, LogFormat, LogLevel};

/// The log level, changeable while the process runs.
static LEVEL: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// The duration of a request, and the shares of Sluice itself and of upstream.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub whole: Duration,
    pub gate: Duration,
    pub upstream: Option<Duration>,
}

/// The log line of one request, with all its fields.
#[derive(Clone, Copy, Debug)]
pub struct RequestLine<'l> {
    pub request_id: &'l str,
    pub environment: &'l str,
    pub operation: &'l str,
    pub method: &'l str,
    pub status: &'l str,
    pub origin: &'l str,
    pub outcome: &'l str,
    pub code: &'l str,
    pub bytes_in: usize,
    pub bytes_out: usize,
    /// The fault below HTTP, as the engine names it.
    pub fault: &'l str,
    /// The id of its trace, if it is traced.
    pub trace: Option<&'l str>,
}

impl RequestLine<'_> {
    pub fn write(&self, times: Times) {
        let micros = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
        tracing::info!(
            target: "sluice::request",
            request_id = self.request_id,
            environment = self.environment,
            operation = self.operation,
            http.request.method = self.method,
            http.response.status_code = self.status.parse::<u16>().ok(),
            origin = self.origin,
            outcome = self.outcome,
            code = self.code,
            http.request.body.size = self.bytes_in,
            http.response.body.size = self.bytes_out,
            whole_us = micros(times.whole),
            gate_us = micros(times.gate),
            upstream_us = times.upstream.map(micros),
            error.type = (!self.fault.is_empty()).then_some(self.fault),
            trace_id = self.trace,
            "request"
        );
    }
}

/// The log line of one request to the console; the audit log has the person's name.
#[derive(Clone, Copy, Debug)]
pub struct ConsoleLine<'l> {
    pub request_id: &'l str,
    pub act: &'l str,
    pub status: u16,
    pub code: &'l str,
}

impl ConsoleLine<'_> {
    pub fn write(&self, whole: Duration) {
        tracing::info!(
            target: "sluice::console",
            request_id = self.request_id,
            act = self.act,
            http.response.status_code = self.status,
            code = self.code,
            whole_us = u64::try_from(whole.as_micros()).unwrap_or(u64::MAX),
            "console"
        );
    }
}

/// Starts the log. A thread writes the lines; the guard writes the last ones when it is dropped.
pub fn init(config: &LogConfig) -> io::Result<LogGuard> {
    begin(config, std::io::stdout(), std::io::stdout().is_terminal())
}

/// Starts the log in a file.
pub fn init_in(config: &LogConfig, file: File) -> io::Result<LogGuard> {
    begin(config, file, false)
}

fn begin(config: &LogConfig, to: impl Write + Send + 'static, is_terminal: bool) -> io::Result<LogGuard> {
    let (lines, guard) = log_writer::start(to)?;
    let (filter, handle) = reload::Layer::new(filter(config.level));
    let registry = tracing_subscriber::registry().with(filter);
    let json = match config.format {
        LogFormat::Json => true,
        LogFormat::Human => false,
        LogFormat::Auto => !is_terminal,
    };
    let layer = tracing_subscriber::fmt::layer();
    let started = if json {
        let layer = layer.with_writer(move || lines.clone());
        registry.with(layer.event_format(JsonLine)).try_init()
    } else {
        let layer = layer.with_writer(move || lines.clone());
        registry.with(layer.with_ansi(is_terminal).event_format(Human)).try_init()
    };
    if started.is_err() || LEVEL.set(handle).is_err() {
        tracing::debug!("the log is already running");
    }
    Ok(guard)
}

/// Sets the log level.
pub fn set_level(level: LogLevel) {
    if LEVEL.get().is_none_or(|handle| handle.reload(filter(level)).is_err()) {
        tracing::error!("the log level cannot be changed");
    }
}

/// Excludes the engine's own lines, which may contain parts of requests; Sluice logs what matters of them.
fn filter(level: LogLevel) -> EnvFilter {
    EnvFilter::new(format!("off,sluice={}", level.as_str()))
}
