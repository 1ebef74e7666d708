//! TLS of listeners, replaced while the gate runs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use pingora::listeners::tls::Acceptor;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;

use crate::adapters::clients::Clients;
use crate::adapters::clock::SystemClock;
use crate::base::ids::Environment;
use crate::config::{ClientsConfig, ListenerTls};
use crate::telemetry::Metrics;

/// The names of protocols in ALPN.
pub(super) const H2: &[u8] = b"h2";
pub(super) const H1: &[u8] = b"http/1.1";
/// The poll interval for lists of revoked certificates.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The reasons why a listener's TLS cannot be set up.
#[derive(Debug, Error)]
pub enum TlsError {
    #[error("{listener}: certificate and key cannot be used: {why}")]
    Certificate { listener: &'static str, why: String },
    #[error("{listener}: callers' certificates cannot be verified: {why}")]
    Clients { listener: &'static str, why: String },
}

/// The certificate of a listener, and the checks of callers' certificates.
pub struct Tls {
    pub acceptor: Arc<Acceptor>,
    /// The checks of client certificates, if callers must present one.
    pub clients: Option<Arc<Clients>>,
    given: ListenerTls,
}

/// The TLS of one listener. New handshakes use the current one; open connections go on.
#[derive(Clone, Debug)]
pub struct Speaking {
    listener: &'static str,
    protocols: &'static [&'static [u8]],
    current: Arc<ArcSwap<Tls>>,
}

impl Speaking {
    pub fn new(
        listener: &'static str,
        environment: Option<Environment>,
        given: &ListenerTls,
        metrics: &Metrics,
    ) -> Result<Speaking, TlsError> {
        // HTTP/2 is for callers; the console speaks HTTP/1.1.
        let protocols: &'static [&'static [u8]] = if environment.is_some() { &[H2, H1] } else { &[H1] };
        let clients = given.clients.as_ref().map(|of| clients(environment, of, metrics)).transpose()?;
        let tls = made(listener, given, clients, protocols)?;
        let current = Arc::new(ArcSwap::from_pointee(tls));
        Ok(Speaking { listener, protocols, current })
    }

    pub fn now(&self) -> Arc<Tls> {
        self.current.load_full()
    }

    /// Returns the current checks of client certificates.
    pub fn clients(&self) -> Option<Arc<Clients>> {
        self.current.load().clients.clone()
    }

    /// Makes the next TLS without using it; `None` where nothing changes. Whether callers present certificates at all
    /// never changes.
    pub fn next(&self, given: &ListenerTls) -> Result<Option<Tls>, TlsError> {
        let now = self.current.load();
        let authorities = |tls: &ListenerTls| tls.clients.as_ref().map(|clients| clients.ca_pem.clone());
        let same_authorities = authorities(&now.given) == authorities(given);
        let is_same = given.certificates_pem == now.given.certificates_pem && given.key_pem == now.given.key_pem;
        if is_same && same_authorities {
            return Ok(None);
        }
        let clients = match (&now.clients, &given.clients) {
            (Some(former), Some(_)) if same_authorities => Some(former.clone()),
            (Some(former), Some(of)) => {
                let fault = |why| TlsError::Clients { listener: self.listener, why };
                Some(Arc::new(former.followed_by(of).map_err(fault)?))
            }
            (former, _) => former.clone(),
        };
        made(self.listener, given, clients, self.protocols).map(Some)
    }

    pub fn take(&self, next: Tls) {
        self.current.store(Arc::new(next));
    }

    pub fn listener(&self) -> &'static str {
        self.listener
    }

    /// Rereads lists of revoked certificates as long as the process lives.
    pub async fn keep_fresh(self) {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            if let Some(clients) = self.clients() {
                clients.reload().await;
            }
        }
    }
}

fn clients(
    environment: Option<Environment>,
    given: &ClientsConfig,
    metrics: &Metrics,
) -> Result<Arc<Clients>, TlsError> {
    let environment = environment.unwrap_or(Environment::Production);
    let made = Clients::new(environment, given, Arc::new(SystemClock), metrics.clone());
    made.map(Arc::new).map_err(|why| TlsError::Clients { listener: environment.as_str(), why })
}

fn made(
    listener: &'static str,
    given: &ListenerTls,
    clients: Option<Arc<Clients>>,
    protocols: &[&[u8]],
) -> Result<Tls, TlsError> {
    let fault = |why: String| TlsError::Certificate { listener, why };
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&given.certificates_pem)
        .collect::<Result<_, _>>()
        .map_err(|e| fault(e.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(given.key_pem.reveal().as_bytes()).map_err(|e| fault(e.to_string()))?;
    let builder = rustls::ServerConfig::builder();
    let builder = match &clients {
        None => builder.with_no_client_auth(),
        Some(clients) => builder.with_client_cert_verifier(clients.clone()),
    };
    let mut server = builder.with_single_cert(certificates, key).map_err(|e| fault(e.to_string()))?;
    if clients.is_some() {
        Clients::ask_of_all(&mut server);
    }
    server.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let acceptor = Arc::new(Acceptor::from_server_config(Arc::new(server)));
    Ok(Tls { acceptor, clients, given: given.clone() })
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("clients", &self.clients).finish_non_exhaustive()
    }
}
