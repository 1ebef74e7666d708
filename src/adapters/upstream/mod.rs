//! The client of upstream: one pinned host, verified, with a deadline on every step.
//!
//! | file | what it does |
//! |---|---|
//! | `line` | HTTP/1.1 on a connection |
//! | `answer_head` | the head of an answer |
//! | `answer_body` | the body of an answer, as its pieces come |
//! | `answer_room` | the memory for answers that are read whole |
//! | `asked_date` | the question for upstream's date at a start |
//! | `exchange` | writes a request and reads its answer |
//! | `open_read` | a read under way |
//! | `money_line` | a connection for one write, with its socket options |
//! | `fresh_pool` | connections for money, opened ahead and never used before |
//! | `proven_age` | how old such a connection may be |
//! | `unreachable` | why upstream cannot be reached |
//!
//! Reads use connections again; a write never does.

mod answer_body;
mod answer_head;
mod answer_room;
mod asked_date;
mod exchange;
mod fresh_pool;
mod line;
mod money_line;
mod open_read;
mod proven_age;
mod unreachable;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use http::header::{HeaderValue, InvalidHeaderValue};
use pingora::connectors::{ConnectorOptions, TransportConnector};
use pingora::protocols::tls::CaType;
use pingora::upstreams::peer::{ALPN, HttpPeer, HttpUpstreamRequestPolicy, Peer as _};
use pingora::utils::tls::{WrappedX509, parse_x509};
use pingora::{Error, ErrorType};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use thiserror::Error as ThisError;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

pub use self::answer_head::AnswerHead;
use self::answer_room::AnswerRoom;
use self::exchange::{Heard, Hearing, WriteResult, write_until};
use self::fresh_pool::FreshPool;
use self::line::UpstreamLine;
use self::money_line::{MoneyLine, UnusedLine, prepare};
pub use self::open_read::OpenRead;
use self::unreachable::{UnreachableReason, log_unreachable};
use crate::adapters::names::LookupPurpose;
use crate::base::ids::Environment;
use crate::config::{QuietTime, TimeoutsConfig, UpstreamConfig};
use crate::ports::{Clock, LateAnswer, SendResult, Upstream};
use crate::stations::claim::Owner;
use crate::stations::forward::{AnswerBody, Outgoing, Sent, UpstreamOrigin};
use crate::telemetry::Metrics;

/// How long an answer is waited for after sending the request broke off.
const AFTER_BROKEN_WRITE: Duration = Duration::from_millis(400);
/// How many connections are kept open for reads.
const POOL_SIZE: usize = 128;
/// How often the host's addresses are looked up again.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(30);
/// How often waiting connections are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The upstream of one environment.
pub struct PinnedUpstream {
    config: UpstreamConfig,
    origin: UpstreamOrigin,
    timeouts: TimeoutsConfig,
    answers: AnswerRoom,
    authorities: Option<Arc<CaType>>,
    addresses: ArcSwap<Vec<SocketAddr>>,
    connector: TransportConnector,
    fresh: FreshPool,
    clock: Arc<dyn Clock>,
    end: WireEnd,
}

/// Tells the client of upstream that the process ends.
#[derive(Clone, Debug, Default)]
pub struct WireEnd {
    /// Nothing new is written, and no answer is waited for any longer.
    pub cut: CancellationToken,
    /// No late answer is waited for any longer.
    pub hang_up: CancellationToken,
}

/// Why a configured upstream cannot be used.
#[derive(Debug, ThisError)]
pub enum UpstreamError {
    #[error("the host of `upstream` cannot be used in a header")]
    Host(InvalidHeaderValue),
    #[error("`upstream_ca` cannot be used: {0}")]
    Authority(String),
}

impl PinnedUpstream {
    pub fn new(
        config: UpstreamConfig,
        timeouts: TimeoutsConfig,
        (answers_bytes, answer_bytes): (usize, usize),
        clock: Arc<dyn Clock>,
        (environment, metrics): (Environment, Metrics),
        end: WireEnd,
    ) -> Result<PinnedUpstream, UpstreamError> {
        let host = HeaderValue::from_str(&authority(&config)).map_err(UpstreamError::Host)?;
        let origin = UpstreamOrigin { host, base_path: config.base_path.clone() };
        let authorities = config.ca_pem.as_deref().map(authorities).transpose()?;
        let addresses = literal_address(&config).into_iter().collect();
        let answers = AnswerRoom::new(answers_bytes, answer_bytes, environment, metrics.clone());
        Ok(PinnedUpstream {
            connector: TransportConnector::new(Some(ConnectorOptions::new(POOL_SIZE))),
            fresh: FreshPool::new(environment, metrics, timeouts.upstream_idle),
            end,
            addresses: ArcSwap::from_pointee(addresses),
            authorities,
            clock,
            answers,
            timeouts,
            origin,
            config,
        })
    }

    pub fn origin(&self) -> &UpstreamOrigin {
        &self.origin
    }

    pub fn environment(&self) -> Environment {
        self.fresh.environment
    }

    /// Whether an address of the host is known.
    pub fn is_found(&self) -> bool {
        !self.addresses.load().is_empty()
    }

    /// Looks the host up periodically; the last good addresses stay while the lookup fails.
    pub async fn keep_looking_up(self: Arc<PinnedUpstream>) {
        if literal_address(&self.config).is_some() {
            return;
        }
        loop {
            match LookupPurpose::Money.lookup_at(&self.config.host, self.config.port).await {
                Ok(found) => {
                    if !found.is_empty() {
                        self.addresses.store(Arc::new(found));
                    }
                }
                Err(error) => {
                    tracing::warn!(
                        environment = %self.environment(),
                        host = self.config.host,
                        %error,
                        "the host of upstream cannot be looked up; the last good addresses stay in use"
                    )
                }
            }
            tokio::time::sleep(LOOKUP_INTERVAL).await;
        }
    }

    /// Returns the connection parameters of the host, by its address number `attempt`; `None` if no address is known.
    fn peer(&self, attempt: usize) -> Option<HttpPeer> {
        let addresses = self.addresses.load();
        let address = addresses.get(attempt.checked_rem(addresses.len())?)?;
        let mut peer = HttpPeer::new(*address, self.config.tls, self.config.host.clone());
        let options = &mut peer.options;
        options.connection_timeout = Some(self.timeouts.connect);
        options.total_connection_timeout = Some(self.timeouts.connect.saturating_add(self.timeouts.tls_handshake));
        options.idle_timeout = Some(self.timeouts.upstream_idle);
        options.verify_cert = true;
        options.verify_hostname = true;
        options.alpn = ALPN::H1;
        options.ca = self.authorities.clone();
        options.http_upstream_request_policy = HttpUpstreamRequestPolicy::deny_upgrades();
        Some(peer)
    }

    /// Keeps connections for money: opens those that calls ask for, and looks at those that wait.
    pub async fn keep_connections(self: Arc<PinnedUpstream>) {
        let (mut opening, mut looked) = (JoinSet::new(), Duration::ZERO);
        loop {
            self.fresh.next_look(LOOK_INTERVAL).await;
            while opening.try_join_next().is_some() {}
            let now = self.clock.elapsed();
            // Each call that takes one asks for another: not each of them has all looked at.
            if now.saturating_sub(looked) >= LOOK_INTERVAL {
                self.fresh.look_through(now);
                looked = now;
            }
            for _ in 0..self.fresh.to_open() {
                let upstream = self.clone();
                opening.spawn(async move {
                    // A call that finds no connection opens one itself, and logs why it cannot.
                    let line = upstream.open_money(0).await.ok();
                    upstream.fresh.put(line, upstream.clock.elapsed());
                });
            }
        }
    }

    /// Returns a connection that never carried a request; `None` where upstream cannot be reached.
    async fn money_line(&self) -> Option<UnusedLine> {
        if let Some(line) = self.fresh.take(self.clock.elapsed()) {
            return Some(line);
        }
        let mut reason = UnreachableReason::Name;
        for attempt in 0..self.tries() {
            match self.open_money(attempt).await {
                Ok(line) => {
                    self.fresh.opened();
                    return Some(line);
                }
                Err(why) => reason = why,
            }
        }
        log_unreachable(self.environment(), reason);
        None
    }

    async fn open_money(&self, attempt: usize) -> Result<UnusedLine, UnreachableReason> {
        let mut peer = self.peer(attempt).ok_or(UnreachableReason::Name)?;
        let place = prepare(&mut peer.options, self.timeouts.answer);
        let stream = match timeout(self.patience(), self.connector.new_stream(&peer)).await {
            Ok(connected) => connected.map_err(|error| UnreachableReason::of(&error))?,
            Err(_) => return Err(UnreachableReason::Timeout),
        };
        UnusedLine::new(stream, &place).map_err(|error| UnreachableReason::of(&error))
    }

    /// Returns a connection for a read of this caller; `anew` excludes those that were used before. Logs why there is none.
    pub async fn open_read(&self, caller: &Arc<Owner>, anew: bool) -> pingora::Result<OpenRead> {
        let mut failed = Error::explain(ErrorType::ConnectNoRoute, "upstream's host has no known address");
        let mut reason = UnreachableReason::Name;
        for attempt in 0..self.tries() {
            let Some(peer) = self.peer(attempt) else { break };
            let reused = if anew { None } else { self.connector.reused_stream(&peer).await };
            let is_reused = reused.is_some();
            let connected = match reused {
                Some(stream) => Ok(Ok(stream)),
                None => timeout(self.patience(), self.connector.new_stream(&peer)).await,
            };
            failed = match connected {
                Ok(Ok(stream)) => {
                    let line = UpstreamLine::new(stream, self.answers.share_of(caller));
                    return Ok(OpenRead { line, pool: peer.reuse_hash(), is_reused, write_time: self.write_time() });
                }
                Ok(Err(error)) => error,
                Err(_) => Error::explain(ErrorType::ConnectTimedout, "upstream could not be reached in time"),
            };
            reason = UnreachableReason::of(&failed);
        }
        log_unreachable(self.environment(), reason);
        Err(failed)
    }

    /// Keeps the connection of a read that is over for the next one.
    pub async fn close_read(&self, read: OpenRead) {
        if let Some(stream) = read.line.into_reusable().await {
            self.connector.release_stream(stream, read.pool, Some(self.timeouts.upstream_idle));
        }
    }

    fn tries(&self) -> usize {
        self.addresses.load().len().min(2)
    }

    fn patience(&self) -> Duration {
        self.timeouts.connect.saturating_add(self.timeouts.tls_handshake)
    }

    /// The engine would bound each piece; this bounds all of them together.
    fn write_time(&self) -> Duration {
        self.timeouts.write.saturating_mul(2)
    }

    async fn send_write(&self, outgoing: Outgoing) -> SendResult {
        let cut = &self.end.cut;
        let line = tokio::select! {
            biased;
            () = cut.cancelled() => None,
            line = self.money_line() => line,
        };
        let Some(line) = line else {
            return SendResult::only(if cut.is_cancelled() { Sent::TooLate } else { Sent::NotWritten });
        };
        if !outgoing.may_leave(self.clock.elapsed()) {
            tracing::warn!(environment = %self.environment(), "a claim's lease lapsed before its first byte was written; nothing was sent");
            return SendResult::only(Sent::TooLate);
        }
        self.fresh.used();
        let first_byte = Instant::now();
        let room = || self.answers.share_of(outgoing.caller());
        let mut line = line.into_line(room());
        let mut hearing = Hearing::new(room());
        let answer_time = match write_until(&mut line.line, &outgoing, &*self.clock, self.write_time(), cut).await {
            WriteResult::Whole => self.timeouts.answer,
            WriteResult::Broken if line.has_certainly_sent_nothing() => return SendResult::only(Sent::NotWritten),
            // Upstream may have refused the request before it had read all of it.
            WriteResult::Broken => return Self::refused_early(line, hearing, AFTER_BROKEN_WRITE, cut).await,
            WriteResult::GivenUp => return Self::refused_early(line, hearing, Duration::ZERO, cut).await,
        };
        let heard = hearing.until(&mut line.line, Instant::now() + answer_time, cut).await;
        let sent = hearing.sent(heard);
        if heard.is_some() || cut.is_cancelled() {
            return SendResult::only(sent);
        }
        // What is still on its way is dropped by the reset.
        if !line.is_delivered() {
            return SendResult::only(sent);
        }
        let until = first_byte + QuietTime::of(&self.timeouts).from_first_byte;
        let hang_up = self.end.hang_up.clone();
        let late = LateAnswer::new(async move {
            // The whole line, with its handle: dropping the handle ends the sending side, and upstream may then hang up.
            let mut line = line;
            let heard = hearing.until(&mut line.line, until, &hang_up).await;
            hearing.sent(heard)
        });
        SendResult { sent, late: Some(late) }
    }

    /// Reads the answer to a request that was not written whole.
    async fn refused_early(
        mut line: MoneyLine,
        mut hearing: Hearing,
        time: Duration,
        cut: &CancellationToken,
    ) -> SendResult {
        let heard = hearing.until(&mut line.line, Instant::now() + time, cut).await;
        SendResult::only(hearing.sent(heard.or(Some(Heard::Broken))))
    }

    async fn send_read(&self, outgoing: Outgoing) -> Sent {
        let Ok(mut read) = self.open_read(outgoing.caller(), false).await else { return Sent::NotWritten };
        let (cut, mut hearing) = (&self.end.cut, Hearing::new(self.answers.share_of(outgoing.caller())));
        let written = write_until(&mut read.line, &outgoing, &*self.clock, self.write_time(), cut).await;
        let time = if written == WriteResult::Whole { self.timeouts.answer } else { AFTER_BROKEN_WRITE };
        let heard = hearing.until(&mut read.line, Instant::now() + time, cut).await;
        let sent = hearing.sent(heard);
        // The rest of a request that was not written whole would be read as the beginning of the next one.
        if written == WriteResult::Whole && matches!(sent, Sent::Answered { body: AnswerBody::Complete(_), .. }) {
            self.close_read(read).await;
        }
        sent
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
    async fn send(&self, outgoing: Outgoing) -> SendResult {
        if outgoing.is_write() {
            self.send_write(outgoing).await
        } else {
            SendResult::only(self.send_read(outgoing).await)
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
        return Err(fault("it contains no certificate".to_owned()));
    }
    Ok(Arc::from(wrapped))
}

#[cfg(test)]
mod tests;
