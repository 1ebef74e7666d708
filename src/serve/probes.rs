//! `/livez`, `/readyz`, `/readyz/money` and `/metrics`, on a listener of their own.

use std::sync::Arc;

use async_trait::async_trait;
use http::{Response, StatusCode};
use pingora::apps::http_app::ServeHttp;
use pingora::protocols::http::ServerSession;

use crate::adapters::machine;
use crate::edge::guard;
use crate::edge::hosts::{FOREIGN_HOST, HostNames};
use crate::gateway::Readiness;
use crate::node::InForce;
use crate::telemetry::Metrics;

/// The service of the probe listener.
#[derive(Debug)]
pub struct Probes {
    pub metrics: Metrics,
    pub in_force: Arc<InForce>,
    pub readiness: Arc<Readiness>,
    pub hosts: HostNames,
}

#[async_trait]
impl ServeHttp for Probes {
    async fn response(&self, session: &mut ServerSession) -> Response<Vec<u8>> {
        // The guard reads nothing more until this answer is written.
        guard::answered(session.digest());
        let request = session.req_header();
        if !self.hosts.accept(&request.uri, &request.headers) {
            let text = format!("{FOREIGN_HOST}: add the name to `probes.hosts`, if it is its own\n");
            return text_response(StatusCode::FORBIDDEN, &text);
        }
        if request.method != http::Method::GET {
            return text_response(StatusCode::METHOD_NOT_ALLOWED, "use GET\n");
        }
        match request.uri.path() {
            "/livez" => text_response(StatusCode::OK, "live\n"),
            "/readyz" => self.reads(),
            "/readyz/money" => self.money(),
            "/metrics" => match self.metrics() {
                Ok(text) => response(StatusCode::OK, "text/plain; version=0.0.4", text),
                Err(error) => {
                    tracing::error!(%error, "cannot encode the metrics");
                    text_response(StatusCode::INTERNAL_SERVER_ERROR, "cannot encode the metrics\n")
                }
            },
            _ => text_response(StatusCode::NOT_FOUND, "not found; use /livez, /readyz, /readyz/money or /metrics\n"),
        }
    }
}

impl Probes {
    fn reads(&self) -> Response<Vec<u8>> {
        let stops = self.readiness.read_stops();
        if !stops.is_empty() {
            let lines: String = stops.iter().map(|stop| format!("{}\n", stop.text)).collect();
            return text_response(StatusCode::SERVICE_UNAVAILABLE, &lines);
        }
        // A faulty new configuration is no reason to stop serving with the old one.
        match self.in_force.fault() {
            None => text_response(StatusCode::OK, "ready\n"),
            Some(fault) => text_response(StatusCode::OK, &format!("ready\n{fault}\n")),
        }
    }

    fn money(&self) -> Response<Vec<u8>> {
        let money = self.readiness.money();
        let status = if money.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        match serde_json::to_vec(&money) {
            Ok(body) => response(status, "application/json", body),
            Err(error) => {
                tracing::error!(%error, "cannot write the answer of a probe");
                text_response(StatusCode::INTERNAL_SERVER_ERROR, "cannot write the answer\n")
            }
        }
    }

    fn metrics(&self) -> Result<Vec<u8>, prometheus::Error> {
        // These metrics change by themselves and are updated for each scrape.
        self.readiness.keyring.tell_ages();
        self.readiness.tell_reasons();
        self.metrics.audit_up(self.readiness.node.audit.is_well());
        self.metrics.process(machine::usage());
        self.metrics.text()
    }
}

fn text_response(status: StatusCode, text: &str) -> Response<Vec<u8>> {
    response(status, "text/plain; charset=utf-8", text.as_bytes().to_vec())
}

fn response(status: StatusCode, content_type: &str, body: Vec<u8>) -> Response<Vec<u8>> {
    let length = body.len();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_LENGTH, http::HeaderValue::from(length));
    headers.extend(http::HeaderValue::from_str(content_type).ok().map(|v| (http::header::CONTENT_TYPE, v)));
    response
}
