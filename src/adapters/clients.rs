//! Callers' certificates on one listener: which authorities are accepted, and which certificates are revoked.
//!
//! A certificate is verified in the handshake, and again while its connection is used: at once when a revocation list
//! changes, and every few seconds because certificates and lists expire. Sessions are never resumed, because a resumed
//! session is not verified again.

use std::cell::Cell;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::adapters::regular_file::{read_regular, read_regular_aside};
use crate::base::ids::Environment;
use crate::config::{ClientsConfig, Revocations};
use crate::ports::Clock;
use crate::stations::admit::Certificate;
use crate::telemetry::Metrics;
use arc_swap::ArcSwap;
use pingora::listeners::tls::Acceptor;
use pingora::protocols::tls::TlsStream;
use pingora::protocols::{IO, Ssl as _};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig, SignatureScheme,
};

/// How long a certificate of an open connection is accepted without another check.
const VERIFY_INTERVAL_SECS: i64 = 10;

tokio::task_local! {
    /// Why the certificate of this task's handshake was refused: the handshake's own error does not carry it.
    static REFUSED: Cell<Option<&'static str>>;
}

/// The checks of callers' certificates on one listener.
pub struct Clients {
    environment: Environment,
    authorities: Vec<CertificateDer<'static>>,
    roots: Arc<RootCertStore>,
    names: Vec<DistinguishedName>,
    revoked: Option<PathBuf>,
    current: ArcSwap<Current>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
}

/// The current verifier and its inputs.
struct Current {
    verifier: Arc<dyn ClientCertVerifier>,
    revocations: Option<Revocations>,
    generation: u64,
}

/// The certificate that a connection was opened with, and its chain.
#[derive(Debug)]
pub struct Presented {
    certificate: Arc<Certificate>,
    chain: Vec<CertificateDer<'static>>,
    verified: Mutex<Verified>,
}

/// When the certificate was last verified, and with which lists.
#[derive(Clone, Copy, Debug)]
struct Verified {
    generation: u64,
    at_secs: i64,
}

impl Clients {
    pub fn new(
        environment: Environment,
        config: &ClientsConfig,
        clock: Arc<dyn Clock>,
        metrics: Metrics,
    ) -> Result<Clients, String> {
        let authorities: Vec<_> = CertificateDer::pem_slice_iter(&config.ca_pem)
            .collect::<Result<_, _>>()
            .map_err(|error| format!("the authorities cannot be read: {error}"))?;
        let mut roots = RootCertStore::empty();
        for authority in &authorities {
            roots.add(authority.clone()).map_err(|error| format!("an authority cannot be used: {error}"))?;
        }
        let (names, roots) = (roots.subjects(), Arc::new(roots));
        let read = |path: &PathBuf| {
            let content = read_regular(path).map_err(|error| error.to_string());
            let read = content.and_then(|content| Revocations::read(&content, &authorities).map_err(|f| f.to_string()));
            read.map_err(|why| format!("`{}`: {why}", path.display()))
        };
        let revocations = config.revoked.as_ref().map(read).transpose()?;
        let verifier = verifier(&roots, revocations.as_ref()).map_err(|error| error.to_string())?;
        let current = ArcSwap::from_pointee(Current { verifier, revocations, generation: 0 });
        let revoked = config.revoked.clone();
        let clients = Clients { environment, authorities, roots, names, revoked, current, clock, metrics };
        clients.set_metrics();
        Ok(clients)
    }

    /// Makes a TLS configuration demand a certificate of every caller, in full each time.
    pub fn ask_of_all(config: &mut ServerConfig) {
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }

    /// Completes the handshake with a caller that has a valid certificate; if not, returns the reason's name.
    pub async fn handshake<S: IO + 'static>(
        &self,
        acceptor: &Acceptor,
        stream: S,
    ) -> Result<(TlsStream<S>, Presented), &'static str> {
        // INVARIANT: read before the handshake. If the lists change meanwhile, the certificate counts as verified by
        // outdated ones.
        let verified = Verified { generation: self.current.load().generation, at_secs: self.now_secs() };
        let handshake = async {
            let shaken = acceptor.tls_handshake(stream).await;
            shaken.map_err(|error| REFUSED.with(Cell::get).unwrap_or_else(|| otherwise(&error)))
        };
        let stream = REFUSED.scope(Cell::new(None), handshake).await?;
        let chain = stream.get_ssl().and_then(|tls| tls.peer_cert_chain_der()).unwrap_or_default().to_vec();
        let own = chain.first().ok_or(MISSING)?;
        let certificate = Arc::new(Certificate::read(own));
        Ok((stream, Presented { certificate, chain, verified: Mutex::new(verified) }))
    }

    /// Returns the certificate if it is still valid; if not, the reason's name.
    pub fn accepts(&self, presented: &Presented) -> Result<Arc<Certificate>, &'static str> {
        let (current, now_secs) = (self.current.load(), self.now_secs());
        let mut verified = presented.verified.lock().unwrap_or_else(PoisonError::into_inner);
        let age_secs = now_secs.saturating_sub(verified.at_secs);
        if verified.generation != current.generation || !(0..VERIFY_INTERVAL_SECS).contains(&age_secs) {
            let (own, others) = presented.chain.split_first().ok_or(MISSING)?;
            let since_1970 = Duration::from_secs(u64::try_from(now_secs).unwrap_or_default());
            let now = UnixTime::since_unix_epoch(since_1970);
            current.verifier.verify_client_cert(own, others, now).map_err(|error| reason(&error))?;
            *verified = Verified { generation: current.generation, at_secs: now_secs };
        }
        Ok(presented.certificate.clone())
    }

    /// Returns checks for a new configuration; certificates of open connections are verified again.
    pub fn followed_by(&self, config: &ClientsConfig) -> Result<Clients, String> {
        let next = Clients::new(self.environment, config, self.clock.clone(), self.metrics.clone())?;
        let Current { verifier, revocations, .. } = &*next.current.load_full();
        let generation = self.current.load().generation.wrapping_add(1);
        let (verifier, revocations) = (verifier.clone(), revocations.clone());
        next.current.store(Arc::new(Current { verifier, revocations, generation }));
        Ok(next)
    }

    /// Reads the lists again if they have changed; the last good ones stay while the new ones cannot be used.
    pub async fn reload(&self) {
        let Some(path) = &self.revoked else { return };
        let read = read_regular_aside(path).await.map_err(|error| error.to_string());
        let taken = read.and_then(|content| self.take(&content));
        if let Err(why) = taken {
            tracing::error!(environment = %self.environment, why, "the lists of revoked certificates cannot be used; the last good ones stay in use: correct the files");
        }
        let current = self.current.load();
        if current.revocations.as_ref().is_some_and(|lists| self.now_secs() >= lists.until_secs()) {
            tracing::error!(environment = %self.environment, "the lists of revoked certificates have expired; callers are refused until newer ones are written");
        }
    }

    fn take(&self, content: &[u8]) -> Result<(), String> {
        let read = Revocations::read(content, &self.authorities).map_err(|fault| fault.to_string())?;
        let current = self.current.load();
        if let Some(former) = &current.revocations {
            if *former == read {
                return Ok(());
            }
            read.can_follow(former, self.now_secs()).map_err(|fault| fault.to_string())?;
        }
        let verifier = verifier(&self.roots, Some(&read)).map_err(|error| error.to_string())?;
        let generation = current.generation.wrapping_add(1);
        self.current.store(Arc::new(Current { verifier, revocations: Some(read), generation }));
        self.set_metrics();
        tracing::info!(environment = %self.environment, "the lists of revoked certificates changed");
        Ok(())
    }

    fn set_metrics(&self) {
        if let Some(lists) = &self.current.load().revocations {
            self.metrics.revocations_expire(self.environment.as_str(), lists.until_secs());
        }
    }

    fn now_secs(&self) -> i64 {
        self.clock.now().as_second()
    }
}

/// Builds the verifier. If there are lists, every authority of a chain needs one, and no certificate may be on it.
fn verifier(
    roots: &Arc<RootCertStore>,
    revocations: Option<&Revocations>,
) -> Result<Arc<dyn ClientCertVerifier>, VerifierBuilderError> {
    let builder = WebPkiClientVerifier::builder_with_provider(roots.clone(), Arc::new(ring::default_provider()));
    match revocations {
        None => builder.build(),
        Some(revocations) => builder.with_crls(revocations.lists()).enforce_revocation_expiration().build(),
    }
}

const MISSING: &str = "certificate_missing";

/// Returns the reason's name for a handshake that failed before there was a certificate.
fn otherwise(error: &pingora::Error) -> &'static str {
    let none = error.to_string().contains(&Error::NoCertificatesPresented.to_string());
    if none { MISSING } else { "handshake" }
}

/// Returns the reason's name in metrics and logs.
fn reason(error: &Error) -> &'static str {
    match error {
        Error::InvalidCertificate(why) => match why {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => "certificate_foreign",
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => "certificate_expired",
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "certificate_not_yet",
            CertificateError::Revoked => "certificate_revoked",
            CertificateError::UnknownRevocationStatus => "revocations_lacking",
            CertificateError::ExpiredRevocationList | CertificateError::ExpiredRevocationListContext { .. } => {
                "revocations_expired"
            }
            _ => "certificate_unfit",
        },
        Error::InvalidCertRevocationList(_) => "revocations_unusable",
        _ => "certificate_unfit",
    }
}

/// Verifies with the current verifier at each handshake.
impl ClientCertVerifier for Clients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.names
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.current.load().verifier.verify_client_cert(own, others, now);
        if let Err(error) = &verified
            && REFUSED.try_with(|refused| refused.set(Some(reason(error)))).is_err()
        {
            tracing::debug!("a certificate was verified outside a handshake");
        }
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.current.load().verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.current.load().verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.current.load().verifier.supported_verify_schemes()
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients").field("environment", &self.environment).finish_non_exhaustive()
    }
}
