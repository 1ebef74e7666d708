//! Sends finished spans to the collector: collected for a moment, sent together, and never sent twice.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Client, redirect};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::{QueuedSpan, Trace, TraceSpan};
use crate::adapters::names::LookupPurpose;
use crate::config::Collector;
use crate::telemetry::{Metrics, Station};

/// How long the first span of a batch waits for others.
const GATHER: Duration = Duration::from_millis(500);
const MAX_TRACES: usize = 256;
const DEADLINE: Duration = Duration::from_secs(5);
/// The pause after a batch that the collector refused.
const PAUSE: Duration = Duration::from_secs(1);
/// The span kinds of OTLP.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
const CLIENT: u8 = 3;

/// Sends finished traces.
#[derive(Debug)]
pub struct Exporter {
    client: Client,
    url: String,
    node: String,
    waiting: mpsc::Receiver<QueuedSpan>,
    metrics: Metrics,
}

impl Exporter {
    pub(super) fn new(
        to: &Collector,
        node: &str,
        waiting: mpsc::Receiver<QueuedSpan>,
        metrics: Metrics,
    ) -> Result<Exporter, reqwest::Error> {
        let mut headers = HeaderMap::new();
        // INVARIANT: a value that a header cannot hold was refused with the configuration.
        let said = to.authorization.as_ref().and_then(|said| HeaderValue::from_str(said.reveal()).ok());
        if let Some(mut value) = said {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let client = Client::builder().redirect(redirect::Policy::none()).no_proxy().timeout(DEADLINE);
        let client = client.dns_resolver(LookupPurpose::Notices).default_headers(headers).build()?;
        let url = format!("{}/v1/traces", to.url.trim_end_matches('/'));
        Ok(Exporter { client, url, node: node.to_owned(), waiting, metrics })
    }

    /// Runs as long as anything may be traced.
    pub async fn run(mut self) {
        let mut was_taken = true;
        while let Some(first) = self.waiting.recv().await {
            let (mut batch, mut teller) = (Vec::new(), None);
            match first {
                QueuedSpan::Trace(trace) => batch.push(trace),
                // Everything before it has been sent.
                QueuedSpan::Teller(_) => continue,
            }
            let gathering = async {
                while batch.len() < MAX_TRACES {
                    match self.waiting.recv().await {
                        Some(QueuedSpan::Trace(next)) => batch.push(next),
                        Some(QueuedSpan::Teller(next)) => {
                            teller = Some(next);
                            return;
                        }
                        None => return,
                    }
                }
            };
            // The batch keeps what arrived before the timeout.
            timeout(GATHER, gathering).await.ok();
            let count = batch.iter().fold(0_usize, |sum, trace| sum.saturating_add(trace.count()));
            let is_taken = self.send(&batch).await;
            self.metrics.spans(if is_taken { "exported" } else { "dropped" }, count);
            drop(teller);
            if is_taken != was_taken {
                was_taken = is_taken;
                match is_taken {
                    true => tracing::info!("the trace collector accepts spans again"),
                    false => tracing::warn!("the trace collector refuses spans: they are dropped"),
                }
            }
            if !is_taken {
                sleep(PAUSE).await;
            }
        }
    }

    async fn send(&self, batch: &[Trace]) -> bool {
        let body = batch_json(batch, &self.node).to_string();
        let request = self.client.post(&self.url).header("content-type", "application/json").body(body);
        request.send().await.is_ok_and(|answer| answer.status().is_success())
    }
}

/// Formats a batch as OTLP JSON.
pub(super) fn batch_json(batch: &[Trace], node: &str) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let spans: Vec<Value> = batch.iter().flat_map(told_of).collect();
    let resource = [("service.name", "sluice"), ("service.version", version), ("service.instance.id", node)];
    let resource: Vec<Value> = resource.map(|(name, value)| attribute(name, value)).into();
    json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{ "scope": { "name": "sluice", "version": version }, "spans": spans }],
    }] })
}

fn told_of(trace: &Trace) -> Vec<Value> {
    let nanos = |since: Duration| trace.began.saturating_add(since).as_nanos().to_string();
    let id = format!("{:032x}", trace.id);
    let mut root = json!({
        "traceId": id,
        "spanId": format!("{:016x}", trace.root),
        "name": trace.name,
        "kind": if trace.attributes.len() > 1 { SERVER } else { INTERNAL },
        "startTimeUnixNano": nanos(Duration::ZERO),
        "endTimeUnixNano": nanos(trace.ended.unwrap_or_default()),
        "attributes": trace.attributes.iter().map(|(name, value)| attribute(name, value)).collect::<Vec<_>>(),
        "status": if trace.is_fault { json!({ "code": 2 }) } else { json!({}) },
    });
    if let (Some(parent), Some(root)) = (trace.parent, root.as_object_mut()) {
        root.insert("parentSpanId".to_owned(), format!("{parent:016x}").into());
    }
    let station = |span: &TraceSpan| {
        json!({
            "traceId": id,
            "spanId": format!("{:016x}", span.id),
            "parentSpanId": format!("{:016x}", trace.root),
            "name": span.station.as_str(),
            "kind": if span.station == Station::Forward { CLIENT } else { INTERNAL },
            "startTimeUnixNano": nanos(span.began),
            "endTimeUnixNano": nanos(span.ended),
        })
    };
    let mut spans = vec![root];
    spans.extend(trace.spans.iter().map(station));
    spans
}

fn attribute(name: &str, value: &str) -> Value {
    match value.parse::<u16>() {
        Ok(_) if name == "http.response.status_code" => json!({ "key": name, "value": { "intValue": value } }),
        _ => json!({ "key": name, "value": { "stringValue": value } }),
    }
}
