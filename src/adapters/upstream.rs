//! The way to upstream: one pinned host, verified, pooled, with a deadline on every step.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::header::{HeaderValue, InvalidHeaderValue};
use pingora::connectors::ConnectorOptions;
use pingora::connectors::http::v1::Connector;
use pingora::http::RequestHeader;
use pingora::protocols::http::v1::client::HttpSession;
use pingora::protocols::tls::CaType;
use pingora::upstreams::peer::{ALPN, HttpPeer, HttpUpstreamRequestPolicy};
use pingora::utils::tls::{WrappedX509, parse_x509};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::time::{Instant, timeout, timeout_at};

use crate::config::{TimeoutsConfig, UpstreamConfig};
use crate::ports::{Lease, Upstream};
use crate::stations::forward::{AnswerBody, Loss, Origin, Outgoing, Sent};

/// A pooled connection that was idle for longer may be stale, and a stale one makes an unknown outcome.
const FRESH: Duration = Duration::from_secs(1);
/// How long an answer is waited for when sending the request broke off.
const AFTER_BROKEN_WRITE: Duration = Duration::from_millis(400);
/// How many connections are kept open for writes.
const POOL_SIZE: usize = 128;
/// How often the host's addresses are looked up again.
const LOOKUP_EVERY: Duration = Duration::from_secs(30);

/// One environment's upstream.
pub struct PinnedUpstream {
    config: UpstreamConfig,
    origin: Origin,
    timeouts: TimeoutsConfig,
    answer_bytes: usize,
    authorities: Option<Arc<CaType>>,
    addresses: ArcSwap<Vec<SocketAddr>>,
    connector: Connector,
}

/// Why a configured upstream cannot be used.
#[derive(Debug)]
pub enum UpstreamError {
    Host(InvalidHeaderValue),
    Authority(String),
}

impl std::fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            UpstreamError::Host(_) => f.write_str("the host of `upstream` cannot stand in a header"),
            UpstreamError::Authority(why) => write!(f, "`upstream_ca` cannot be used: {why}"),
        }
    }
}

impl std::error::Error for UpstreamError {}

impl PinnedUpstream {
    pub fn new(
        config: UpstreamConfig,
        timeouts: TimeoutsConfig,
        answer_bytes: usize,
    ) -> Result<PinnedUpstream, UpstreamError> {
        let host = HeaderValue::from_str(&authority(&config)).map_err(UpstreamError::Host)?;
        let origin = Origin { host, base_path: config.base_path.clone() };
        let authorities = config.ca_pem.as_deref().map(authorities).transpose()?;
        let addresses = literal_address(&config).into_iter().collect();
        Ok(PinnedUpstream {
            connector: Connector::new(Some(ConnectorOptions::new(POOL_SIZE))),
            addresses: ArcSwap::from_pointee(addresses),
            authorities,
            answer_bytes,
            timeouts,
            origin,
            config,
        })
    }

    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Whether an address of the host is known.
    pub fn is_found(&self) -> bool {
        !self.addresses.load().is_empty()
    }

    /// Looks the host up, now and again; the last good addresses stay while the lookup fails.
    pub async fn keep_looking_up(self: Arc<PinnedUpstream>) {
        if literal_address(&self.config).is_some() {
            return;
        }
        loop {
            match tokio::net::lookup_host((self.config.host.as_str(), self.config.port)).await {
                Ok(found) => {
                    let found: Vec<SocketAddr> = found.collect();
                    if !found.is_empty() {
                        self.addresses.store(Arc::new(found));
                    }
                }
                Err(error) => {
                    tracing::warn!(host = self.config.host, %error, "upstream's host cannot be looked up; the last good addresses stay")
                }
            }
            tokio::time::sleep(LOOKUP_EVERY).await;
        }
    }

    /// The connection parameters of the host, by its address number `attempt`; `None` if no address is known.
    pub fn peer(&self, attempt: usize) -> Option<HttpPeer> {
        let addresses = self.addresses.load();
        let address = addresses.get(attempt.checked_rem(addresses.len())?)?;
        let mut peer = HttpPeer::new(*address, self.config.tls, self.config.host.clone());
        let options = &mut peer.options;
        options.connection_timeout = Some(self.timeouts.connect);
        options.total_connection_timeout = Some(self.timeouts.connect.saturating_add(self.timeouts.tls_handshake));
        options.read_timeout = Some(self.timeouts.answer);
        options.write_timeout = Some(self.timeouts.write);
        options.idle_timeout = Some(self.timeouts.upstream_idle);
        options.verify_cert = true;
        options.verify_hostname = true;
        options.alpn = ALPN::H1;
        options.ca = self.authorities.clone();
        options.http_upstream_request_policy = HttpUpstreamRequestPolicy::deny_upgrades();
        Some(peer)
    }

    /// What came of it, and whether the call was written whole.
    async fn exchange(&self, session: &mut HttpSession, outgoing: Outgoing) -> (Sent, bool) {
        // The engine bounds each write; this bounds all of them, with what is flushed.
        let whole = self.timeouts.write.saturating_mul(2);
        let written = timeout(whole, write(session, outgoing)).await.is_ok_and(|written| written.is_ok());
        (self.answer(session, written).await, written)
    }

    async fn answer(&self, session: &mut HttpSession, written: bool) -> Sent {
        let patience = if written { self.timeouts.answer } else { AFTER_BROKEN_WRITE };
        let deadline = Instant::now() + patience;
        match timeout_at(deadline, read_head(session)).await {
            Err(_) => Sent::Lost(if written { Loss::Silent } else { Loss::Broken }),
            // An upgrade that nobody asked for, or no status of HTTP.
            Ok(Err(_) | Ok(..200 | 600..)) => Sent::Lost(Loss::Broken),
            Ok(Ok(status)) => {
                let headers = session.resp_header().map(|h| h.headers.clone()).unwrap_or_default();
                let body = match timeout_at(deadline, self.read_body(session)).await {
                    Ok(Ok(Some(bytes))) => AnswerBody::Complete(bytes),
                    Ok(Ok(None) | Err(_)) => AnswerBody::Incomplete(Loss::Broken),
                    Err(_) => AnswerBody::Incomplete(Loss::Silent),
                };
                Sent::Answered { status, headers, body }
            }
        }
    }

    /// The whole body; `None` if it is larger than is read whole.
    async fn read_body(&self, session: &mut HttpSession) -> pingora::Result<Option<Bytes>> {
        let mut whole = BytesMut::new();
        while let Some(piece) = session.read_body_bytes().await? {
            if whole.len().saturating_add(piece.len()) > self.answer_bytes {
                return Ok(None);
            }
            whole.extend_from_slice(&piece);
        }
        Ok(Some(whole.freeze()))
    }

    async fn connect(&self) -> Option<(HttpSession, HttpPeer)> {
        let patience = self.timeouts.connect.saturating_add(self.timeouts.tls_handshake);
        let tries = self.addresses.load().len().min(2);
        for attempt in 0..tries {
            let peer = self.peer(attempt)?;
            match timeout(patience, self.connector.get_http_session(&peer)).await {
                Ok(Ok((session, _))) => return Some((session, peer)),
                Ok(Err(error)) => tracing::warn!(kind = error.etype().as_str(), "upstream cannot be reached"),
                Err(_) => tracing::warn!("upstream cannot be reached in time"),
            }
        }
        None
    }
}

impl std::fmt::Debug for PinnedUpstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PinnedUpstream")
            .field("host", &self.config.host)
            .field("port", &self.config.port)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Upstream for PinnedUpstream {
    async fn send(&self, outgoing: Outgoing, lease: Option<Lease>) -> Sent {
        let Some((mut session, peer)) = self.connect().await else {
            return Sent::NotWritten;
        };
        if lease.is_some_and(|lease| !lease.is_live()) {
            tracing::warn!("a claim's lease lapsed before its first byte was written; nothing was sent");
            return Sent::NotWritten;
        }
        // `exchange` has one deadline for all reading; a second one could fire first, and look like a broken connection.
        session.read_timeout = None;
        session.write_timeout = Some(self.timeouts.write);
        let (sent, written) = self.exchange(&mut session, outgoing).await;
        // What is not written whole would be the beginning of the next call.
        if written && matches!(sent, Sent::Answered { body: AnswerBody::Complete(_), .. }) {
            session.respect_keepalive();
            self.connector.release_http_session(session, &peer, Some(FRESH.min(self.timeouts.upstream_idle))).await;
        }
        sent
    }
}

/// The engine's form of a request's head.
pub fn request_header(outgoing: &Outgoing) -> pingora::Result<RequestHeader> {
    let mut head =
        RequestHeader::build(outgoing.method.clone(), outgoing.target.as_bytes(), Some(outgoing.headers.len()))?;
    for (name, value) in &outgoing.headers {
        head.append_header(name, value)?;
    }
    Ok(head)
}

async fn write(session: &mut HttpSession, outgoing: Outgoing) -> pingora::Result<()> {
    session.write_request_header(Box::new(request_header(&outgoing)?)).await?;
    if let Some(body) = &outgoing.body {
        session.write_body(body).await?;
    }
    session.finish_body().await?;
    Ok(())
}

/// The status of the answer; informational ones before it are skipped.
async fn read_head(session: &mut HttpSession) -> pingora::Result<u16> {
    loop {
        session.read_response().await?;
        let status = session.get_status().map_or(0, |s| s.as_u16());
        if !(100..200).contains(&status) || status == 101 {
            return Ok(status);
        }
    }
}

fn authority(config: &UpstreamConfig) -> String {
    let host = if config.host.contains(':') { format!("[{}]", config.host) } else { config.host.clone() };
    let usual = if config.tls { 443 } else { 80 };
    if config.port == usual { host } else { format!("{host}:{}", config.port) }
}

fn literal_address(config: &UpstreamConfig) -> Option<SocketAddr> {
    config.host.parse().ok().map(|ip| SocketAddr::new(ip, config.port))
}

fn authorities(pem: &[u8]) -> Result<Arc<CaType>, UpstreamError> {
    let fault = |why: String| UpstreamError::Authority(why);
    let mut store = RootCertStore::empty();
    let mut wrapped = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|e| fault(e.to_string()))?;
        store.add(certificate.clone()).map_err(|e| fault(e.to_string()))?;
        wrapped.push(WrappedX509::new(certificate.to_vec(), parse_x509));
    }
    if wrapped.is_empty() {
        return Err(fault("it holds no certificate".to_owned()));
    }
    Ok(Arc::from(wrapped))
}
