//! `/livez`, `/readyz` and `/metrics`, on a listener of their own.

use std::sync::Arc;

use async_trait::async_trait;
use http::{Response, StatusCode};
use pingora::apps::http_app::ServeHttp;
use pingora::protocols::http::ServerSession;
use tokio::sync::watch;

use super::ending::Phase;
use super::guard;
use crate::adapters::identity::Keyring;
use crate::adapters::machine;
use crate::adapters::upstream::PinnedUpstream;
use crate::journey::{Books, InForce};
use crate::telemetry::Metrics;

/// What probes and Prometheus ask.
#[derive(Debug)]
pub struct Probes {
    pub metrics: Metrics,
    pub keyring: Arc<Keyring>,
    pub books: Arc<Books>,
    pub in_force: Arc<InForce>,
    pub upstreams: Vec<Arc<PinnedUpstream>>,
    /// True once the store was there.
    pub is_open: watch::Receiver<bool>,
    /// How far the process is from its end.
    pub phase: watch::Receiver<Phase>,
}

#[async_trait]
impl ServeHttp for Probes {
    async fn response(&self, session: &mut ServerSession) -> Response<Vec<u8>> {
        // Nothing is read until this answer is written.
        guard::answered(session.digest());
        let request = session.req_header();
        if request.method != http::Method::GET {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here\n");
        }
        match request.uri.path() {
            "/livez" => plain(StatusCode::OK, "live\n"),
            "/readyz" if *self.phase.borrow() > Phase::Serving => plain(StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
            "/readyz" if !self.upstreams.iter().all(|upstream| upstream.is_found()) => {
                plain(StatusCode::SERVICE_UNAVAILABLE, "an upstream's host has no known address\n")
            }
            "/readyz" if !*self.is_open.borrow() => {
                plain(StatusCode::SERVICE_UNAVAILABLE, "the store was not there since the start\n")
            }
            "/readyz" if !self.keyring.missing().is_empty() => {
                let missing = self.keyring.missing().join(", ");
                plain(StatusCode::SERVICE_UNAVAILABLE, &format!("keys are not known of: {missing}\n"))
            }
            // What is in force goes on: a fault in what was to follow is no reason to stop serving.
            "/readyz" => match self.in_force.fault() {
                None => plain(StatusCode::OK, "ready\n"),
                Some(fault) => plain(StatusCode::OK, &format!("ready\n{fault}\n")),
            },
            "/metrics" => match self.metrics() {
                Ok(text) => answer(StatusCode::OK, "text/plain; version=0.0.4", text),
                Err(error) => {
                    tracing::error!(%error, "the metrics cannot be written");
                    plain(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written\n")
                }
            },
            _ => plain(StatusCode::NOT_FOUND, "here are /livez, /readyz and /metrics\n"),
        }
    }
}

impl Probes {
    fn metrics(&self) -> Result<Vec<u8>, prometheus::Error> {
        // What changes by itself is told when somebody asks.
        self.keyring.tell_ages();
        self.metrics.audit_up(self.books.audit.is_well());
        self.metrics.process(machine::usage());
        self.metrics.text()
    }
}

fn plain(status: StatusCode, text: &str) -> Response<Vec<u8>> {
    answer(status, "text/plain; charset=utf-8", text.as_bytes().to_vec())
}

fn answer(status: StatusCode, content_type: &str, body: Vec<u8>) -> Response<Vec<u8>> {
    let length = body.len();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_LENGTH, http::HeaderValue::from(length));
    headers.extend(http::HeaderValue::from_str(content_type).ok().map(|v| (http::header::CONTENT_TYPE, v)));
    response
}
