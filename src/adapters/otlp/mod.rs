//! Traces: spans of requests, sent to a collector by OTLP over HTTP, in JSON.
//!
//! Nobody waits for a collector. The spans of a request go, together and when the last of them has ended, into a queue
//! that is bounded; what finds no room there, or is not taken, is dropped and counted. Where no collector is configured,
//! there is no [`Tracer`], and [`Spans`] are nothing.

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
/// So many requests may wait to be exported.
const MOST_WAITING: usize = 2_048;
/// A process that ends waits no longer for its collector.
const LAST: Duration = Duration::from_secs(1);

/// Begins traces, or goes on with those of callers.
#[derive(Clone, Debug)]
pub struct Tracer {
    queue: mpsc::Sender<Waiting>,
    metrics: Metrics,
    /// Of requests without a trace, one in so many begins one.
    one_in: u64,
}

/// The spans of one request, as long as any of them is open. By default nothing is kept.
#[derive(Clone, Debug, Default)]
pub struct Spans(Option<Arc<Open>>);

/// What is being traced.
#[derive(Debug)]
struct Open {
    /// The span of the whole request, as those inside it name their parent.
    root: TraceParent,
    queue: mpsc::Sender<Waiting>,
    metrics: Metrics,
    watch: Stopwatch,
    trace: Mutex<Trace>,
}

/// What stands in the queue.
#[derive(Debug)]
enum Waiting {
    Trace(Trace),
    /// Whoever is told when all before it is gone.
    Teller(oneshot::Sender<()>),
}

/// What a collector is told of one request.
#[derive(Debug, Default)]
struct Trace {
    id: u128,
    /// Since 1970.
    began: Duration,
    root: u64,
    /// The caller's span.
    parent: Option<u64>,
    name: String,
    /// Since it began; nothing where nobody told the end.
    ended: Option<Duration>,
    is_fault: bool,
    attributes: Vec<(&'static str, String)>,
    spans: Vec<Span>,
}

/// One station; its times are since the request began.
#[derive(Debug)]
struct Span {
    station: Station,
    id: u64,
    began: Duration,
    ended: Duration,
}

/// A station that a request is in, until it is dropped.
#[derive(Debug, Default)]
pub struct Entered(Option<Inside>);

#[derive(Debug)]
struct Inside {
    open: Arc<Open>,
    station: Station,
    id: u64,
    began: Duration,
}

impl Tracer {
    /// The tracer, and what exports what it traces.
    pub fn new(to: &Collector, node: &str, metrics: Metrics) -> Result<(Tracer, Exporter), reqwest::Error> {
        let (queue, waiting) = mpsc::channel(MOST_WAITING);
        let exporter = Exporter::new(to, node, waiting, metrics.clone())?;
        Ok((Tracer { queue, metrics, one_in: to.one_in.max(1) }, exporter))
    }

    /// Returns when what was traced until now is gone, or when that takes too long.
    pub async fn flush(&self) {
        let (teller, told) = oneshot::channel();
        let flushed = async {
            if self.queue.send(Waiting::Teller(teller)).await.is_ok() {
                told.await.ok();
            }
        };
        timeout(LAST, flushed).await.ok();
    }

    /// Goes on with the trace that the headers name, if its caller keeps one; begins one where they name none.
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
        let open = Open { root, queue, metrics, watch: Stopwatch::start(), trace: Mutex::new(trace) };
        Spans(Some(Arc::new(open)))
    }
}

impl Spans {
    pub fn enter(&self, station: Station) -> Entered {
        Entered(self.0.as_ref().map(|open| Inside {
            open: open.clone(),
            station,
            id: random::span(),
            began: open.watch.elapsed(),
        }))
    }

    /// What logs call the trace.
    pub fn id(&self) -> Option<String> {
        self.0.as_ref().map(|open| format!("{:032x}", open.root.trace))
    }

    /// The request was answered.
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

    /// It is no request of a caller, but this.
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
    /// The headers of a call that is made inside: its parent is this span. Where nothing is traced, they are as they came.
    pub fn headers<'h>(&self, of_caller: &'h HeaderMap) -> Cow<'h, HeaderMap> {
        let Some(Inside { open, id, .. }) = &self.0 else { return Cow::Borrowed(of_caller) };
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
        let Some(Inside { open, station, id, began }) = self.0.take() else { return };
        let ended = open.watch.elapsed();
        let mut trace = open.trace.lock().unwrap_or_else(PoisonError::into_inner);
        trace.spans.push(Span { station, id, began, ended });
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut trace = std::mem::take(self.trace.get_mut().unwrap_or_else(PoisonError::into_inner));
        trace.ended.get_or_insert(self.watch.elapsed());
        let count = trace.count();
        if self.queue.try_send(Waiting::Trace(trace)).is_err() {
            self.metrics.spans("dropped", count);
        }
    }
}

impl Trace {
    fn count(&self) -> usize {
        self.spans.len().saturating_add(1)
    }
}
