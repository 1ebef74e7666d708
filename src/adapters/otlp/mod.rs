//! Traces: spans of requests, sent to a collector by OTLP over HTTP, in JSON.
//!
//! No request waits for a collector. When the last span of a request has ended, all of its spans go into a bounded
//! queue; if the queue is full, or the collector refuses them, they are dropped and counted. Without a configured
//! collector there is no [`Tracer`], and [`Spans`] are empty.

mod export;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::adapters::clock::{Stopwatch, SystemClock};
use crate::adapters::random;
use crate::base::traceparent::TraceParent;
use crate::config::Collector;
use crate::ports::Clock as _;
use crate::telemetry::{Metrics, RequestLine, Station};

pub use export::Exporter;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// How many requests may wait for export.
const MAX_WAITING: usize = 2_048;
/// How long a process that ends waits for its collector.
const LAST: Duration = Duration::from_secs(1);

/// Begins traces, or continues those of callers.
#[derive(Clone, Debug)]
pub struct Tracer {
    queue: mpsc::Sender<QueuedSpan>,
    metrics: Metrics,
    /// One in this many requests without a trace begins one.
    one_in: u64,
}

/// The spans of one request, as long as any of them is open. The default records nothing.
#[derive(Clone, Debug, Default)]
pub struct Spans(Option<Arc<OpenTrace>>);

/// A trace in progress.
#[derive(Debug)]
struct OpenTrace {
    /// The span of the whole request: the parent of the spans inside it.
    root: TraceParent,
    queue: mpsc::Sender<QueuedSpan>,
    metrics: Metrics,
    watch: Stopwatch,
    trace: Mutex<Trace>,
}

/// An item of the queue.
#[derive(Debug)]
enum QueuedSpan {
    Trace(Trace),
    /// Notified when everything before it has been sent.
    Teller(oneshot::Sender<()>),
}

/// The finished trace of one request.
#[derive(Debug, Default)]
struct Trace {
    id: u128,
    /// The time since 1970 when the request began.
    began: Duration,
    root: u64,
    /// The caller's span.
    parent: Option<u64>,
    name: String,
    /// The time from its beginning to its end; `None` if no end was recorded.
    ended: Option<Duration>,
    is_fault: bool,
    attributes: Vec<(&'static str, String)>,
    spans: Vec<TraceSpan>,
}

/// The span of one station; its times count from the beginning of the request.
#[derive(Debug)]
struct TraceSpan {
    station: Station,
    id: u64,
    began: Duration,
    ended: Duration,
}

/// The open span of a station; dropping it ends the span.
#[derive(Debug, Default)]
pub struct Entered(Option<OpenSpan>);

#[derive(Debug)]
struct OpenSpan {
    open: Arc<OpenTrace>,
    station: Station,
    id: u64,
    began: Duration,
}

impl Tracer {
    /// Returns the tracer, and the exporter of its traces.
    pub fn new(to: &Collector, node: &str, metrics: Metrics) -> Result<(Tracer, Exporter), reqwest::Error> {
        let (queue, waiting) = mpsc::channel(MAX_WAITING);
        let exporter = Exporter::new(to, node, waiting, metrics.clone())?;
        Ok((Tracer { queue, metrics, one_in: to.one_in.max(1) }, exporter))
    }

    /// Returns when everything traced so far has been sent, or after a deadline.
    pub async fn flush(&self) {
        let (teller, told) = oneshot::channel();
        let flushed = async {
            if self.queue.send(QueuedSpan::Teller(teller)).await.is_ok() {
                told.await.ok();
            }
        };
        timeout(LAST, flushed).await.ok();
    }

    /// Continues the trace that the headers name, if its caller samples it; begins one if they name none.
    pub fn begin(&self, headers: &HeaderMap) -> Spans {
        let parent = headers.get(TRACEPARENT).and_then(|value| TraceParent::parse(value.to_str().ok()?));
        let root = match parent {
            Some(parent) if !parent.is_sampled => return Spans::default(),
            Some(parent) => TraceParent { span: random::span(), ..parent },
            None => {
                let trace = random::trace();
                if trace.checked_rem(u128::from(self.one_in)) != Some(0) {
                    return Spans::default();
                }
                TraceParent { trace, span: random::span(), is_sampled: true }
            }
        };
        let began = Duration::try_from(SystemClock.now().as_duration()).unwrap_or_default();
        let parent = parent.map(|parent| parent.span);
        let trace = Trace { id: root.trace, began, root: root.span, parent, ..Trace::default() };
        let (queue, metrics) = (self.queue.clone(), self.metrics.clone());
        let open = OpenTrace { root, queue, metrics, watch: Stopwatch::start(), trace: Mutex::new(trace) };
        Spans(Some(Arc::new(open)))
    }
}

impl Spans {
    pub fn enter(&self, station: Station) -> Entered {
        Entered(self.0.as_ref().map(|open| OpenSpan {
            open: open.clone(),
            station,
            id: random::span(),
            began: open.watch.elapsed(),
        }))
    }

    /// Returns the trace id for log lines.
    pub fn id(&self) -> Option<String> {
        self.0.as_ref().map(|open| format!("{:032x}", open.root.trace))
    }

    /// Records the answer to the request.
    pub fn answered(&self, line: &RequestLine<'_>) {
        let Some(open) = &self.0 else { return };
        let ended = open.watch.elapsed();
        let mut trace = open.trace.lock().unwrap_or_else(PoisonError::into_inner);
        trace.ended = Some(ended);
        trace.name = line.operation.to_owned();
        trace.is_fault = line.status.starts_with('5');
        trace.attributes = [
            ("sluice.request_id", line.request_id),
            ("sluice.environment", line.environment),
            ("http.request.method", line.method),
            ("http.response.status_code", line.status),
            ("sluice.origin", line.origin),
            ("sluice.outcome", line.outcome),
            ("sluice.code", line.code),
        ]
        .map(|(name, value)| (name, value.to_owned()))
        .into();
    }

    /// Names a trace that does not belong to a caller's request.
    pub fn named(self, name: &'static str, environment: &'static str) -> Spans {
        if let Some(open) = &self.0 {
            let mut trace = open.trace.lock().unwrap_or_else(PoisonError::into_inner);
            trace.name = name.to_owned();
            trace.attributes = vec![("sluice.environment", environment.to_owned())];
        }
        self
    }
}

impl Entered {
    /// Returns the headers of a call inside the gate, with this span as parent. Without a trace, the headers do not
    /// change.
    pub fn headers<'h>(&self, of_caller: &'h HeaderMap) -> Cow<'h, HeaderMap> {
        let Some(OpenSpan { open, id, .. }) = &self.0 else { return Cow::Borrowed(of_caller) };
        let mut headers = of_caller.clone();
        let parent = TraceParent { span: *id, ..open.root };
        if let Ok(value) = HeaderValue::from_str(&parent.to_string()) {
            headers.insert(TRACEPARENT, value);
        }
        Cow::Owned(headers)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let Some(OpenSpan { open, station, id, began }) = self.0.take() else { return };
        let ended = open.watch.elapsed();
        let mut trace = open.trace.lock().unwrap_or_else(PoisonError::into_inner);
        trace.spans.push(TraceSpan { station, id, began, ended });
    }
}

impl Drop for OpenTrace {
    fn drop(&mut self) {
        let mut trace = std::mem::take(self.trace.get_mut().unwrap_or_else(PoisonError::into_inner));
        trace.ended.get_or_insert(self.watch.elapsed());
        let count = trace.count();
        if self.queue.try_send(QueuedSpan::Trace(trace)).is_err() {
            self.metrics.spans("dropped", count);
        }
    }
}

impl Trace {
    fn count(&self) -> usize {
        self.spans.len().saturating_add(1)
    }
}
