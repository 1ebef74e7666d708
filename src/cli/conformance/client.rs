//! Sends one request to the sandbox: its host alone, no redirects, a deadline and a size limit.

use std::error::Error as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;
use http::HeaderMap;
use reqwest::{Certificate, Client, redirect};

use super::probes::{Probe, ProbeKind};
use crate::adapters::credential::Credential;
use crate::base::secret::Secret;
use crate::cli::read_named_text;
use crate::config::{EnvironmentConfig, UpstreamConfig};

/// A token that no sandbox accepts.
const INVALID_TOKEN: &str = "invalid";

/// An answer, or why there is none.
pub(super) type ProbeResult = Result<ProbeAnswer, String>;

#[derive(Debug)]
pub(super) struct ProbeAnswer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

pub(super) struct ProbeClient {
    client: Client,
    base: String,
    token: Secret,
    answer_bytes: usize,
}

impl ProbeClient {
    pub fn new(
        sandbox: &EnvironmentConfig,
        token_file: Option<&Path>,
        timeout: Duration,
        answer_bytes: usize,
    ) -> anyhow::Result<ProbeClient> {
        // Only the first installed provider counts, so a second call is harmless.
        rustls::crypto::ring::default_provider().install_default().ok();
        let builder = Client::builder().redirect(redirect::Policy::none()).no_proxy().timeout(timeout);
        let builder = match &sandbox.upstream.ca_pem {
            Some(pem) => builder.tls_certs_only(Certificate::from_pem_bundle(pem)?),
            None => builder,
        };
        let client = builder.build().context("the HTTP client cannot be built")?;
        Ok(ProbeClient { client, base: base(&sandbox.upstream), token: token(sandbox, token_file)?, answer_bytes })
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    pub async fn send(&self, probe: &Probe) -> ProbeResult {
        let token = if probe.kind == ProbeKind::InvalidToken { INVALID_TOKEN } else { self.token.reveal() };
        let url = format!("{}{}", self.base, probe.target);
        let request = self.client.request(probe.method().clone(), url).bearer_auth(token);
        let request = request.header("accept", "application/json").header("accept-encoding", "identity");
        let request = match &probe.body {
            Some((content_type, body)) => request.header("content-type", *content_type).body(body.clone()),
            None => request,
        };
        let mut answer = request.send().await.map_err(|error| reason(&error))?;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(|error| reason(&error))? {
            body.extend_from_slice(&piece);
            if body.len() > self.answer_bytes {
                return Err(format!("the answer is larger than {} bytes (`limits.answer_bytes`)", self.answer_bytes));
            }
        }
        Ok(ProbeAnswer { status, headers, body: Bytes::from(body) })
    }
}

/// The environment's own credential, otherwise the token of the file.
fn token(sandbox: &EnvironmentConfig, file: Option<&Path>) -> anyhow::Result<Secret> {
    let credential = Credential::new(sandbox.environment, &sandbox.credential)?;
    match (credential.for_calls_of(sandbox.environment), file) {
        (Some(own), None) => Ok((*own).clone()),
        (_, Some(file)) => {
            let text = read_named_text(file)?;
            let text = text.trim();
            if text.is_empty() || !text.bytes().all(|b| b.is_ascii_graphic()) {
                bail!("`{}` is not a token: one line of printable characters is expected", file.display());
            }
            Ok(Secret::new(text.to_owned()))
        }
        (None, None) => Err(anyhow!(
            "there is no token for the sandbox: set `credential` in `[sandbox]`, or name a file with `--token-file`"
        )),
    }
}

fn base(upstream: &UpstreamConfig) -> String {
    let scheme = if upstream.tls { "https" } else { "http" };
    let host = if upstream.host.contains(':') { format!("[{}]", upstream.host) } else { upstream.host.clone() };
    format!("{scheme}://{host}:{}{}", upstream.port, upstream.base_path)
}

/// The innermost cause of a failure, which names no request.
fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time (`--timeout-ms`)".to_owned();
    }
    let mut cause = error.source();
    let mut text = "the connection broke".to_owned();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    text
}
