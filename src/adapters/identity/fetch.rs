//! Fetches documents from an issuer, such as its keys: one host, no redirects, a deadline and a size limit. Webhooks
//! use the same client settings.

use std::error::Error;
use std::time::Duration;
use std::{fmt, io};

use reqwest::header::HeaderMap;
use reqwest::{Certificate, Client, ClientBuilder, Response, redirect};
use rustls::CertificateError;

use crate::adapters::names::LookupPurpose;
use crate::stations::admit::{KeyFault, KeySet};

const DEADLINE: Duration = Duration::from_secs(5);
/// The size limit of a document.
const MAX_BYTES: usize = 256 * 1024;

/// Why a document could not be fetched. It contains nothing that the other side sent.
#[derive(Debug)]
pub(super) enum FetchFault {
    Unreachable,
    /// Its TLS certificate is not acceptable; the reason is in our own words, not in the certificate's.
    Untrusted(&'static str),
    Status(u16),
    TooLarge,
    Broken,
    Keys(KeyFault),
}

impl fmt::Display for FetchFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchFault::Unreachable => f.write_str("it could not be reached in time"),
            FetchFault::Untrusted(why) => f.write_str(why),
            FetchFault::Status(304) => {
                f.write_str("it answered 304 (not modified), although it was asked for the whole")
            }
            FetchFault::Status(status @ 300..400) => write!(f, "it answered {status}; redirects are not followed"),
            FetchFault::Status(status) => write!(f, "it answered {status}"),
            FetchFault::TooLarge => write!(f, "it is larger than {MAX_BYTES} bytes"),
            FetchFault::Broken => f.write_str("the connection broke off"),
            FetchFault::Keys(fault) => fault.fmt(f),
        }
    }
}

impl FetchFault {
    /// Returns the fault's name in metrics.
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            FetchFault::Unreachable => "unreachable",
            FetchFault::Untrusted(_) => "untrusted",
            FetchFault::Status(_) => "status",
            FetchFault::TooLarge => "too_large",
            FetchFault::Broken => "broken",
            FetchFault::Keys(_) => "unusable",
        }
    }
}

/// Builds a client for one issuer.
pub(super) fn client(authorities_pem: Option<&[u8]>) -> Result<Client, reqwest::Error> {
    builder(authorities_pem, DEADLINE, DEADLINE)?.build()
}

/// Returns client settings: no redirect is followed, and no proxy from the environment variables is used.
pub(in crate::adapters) fn builder(
    authorities_pem: Option<&[u8]>,
    whole: Duration,
    connect: Duration,
) -> Result<ClientBuilder, reqwest::Error> {
    let builder = Client::builder().redirect(redirect::Policy::none()).no_proxy().dns_resolver(LookupPurpose::Money);
    let builder = builder.timeout(whole).connect_timeout(connect);
    match authorities_pem {
        None => Ok(builder),
        Some(pem) => Ok(builder.tls_certs_only(Certificate::from_pem_bundle(pem)?)),
    }
}

/// The fetched keys, the document that they came in, and the head of the answer.
pub(super) struct Fetched {
    pub keys: KeySet,
    pub document: String,
    pub headers: HeaderMap,
}

pub(super) async fn keys(client: &Client, url: &str) -> Result<Fetched, FetchFault> {
    let request = client.get(url).header("accept", "application/json");
    let answer = request.send().await.map_err(|error| unreachable(&error))?;
    if answer.status() != reqwest::StatusCode::OK {
        return Err(FetchFault::Status(answer.status().as_u16()));
    }
    let headers = answer.headers().clone();
    let whole = whole(answer).await?;
    let keys = KeySet::from_jwks(&whole).map_err(FetchFault::Keys)?;
    Ok(Fetched { keys, document: String::from_utf8_lossy(&whole).into_owned(), headers })
}

/// Returns the body of an answer, up to the size limit.
pub(super) async fn whole(mut answer: Response) -> Result<Vec<u8>, FetchFault> {
    let mut whole = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(|_| FetchFault::Broken)? {
        if whole.len().saturating_add(piece.len()) > MAX_BYTES {
            return Err(FetchFault::TooLarge);
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole)
}

pub(super) fn unreachable(error: &(dyn Error + 'static)) -> FetchFault {
    why_untrusted(error).map_or(FetchFault::Unreachable, FetchFault::Untrusted)
}

/// Returns why TLS refused the other side; `None` if the failure is not one of TLS.
pub(in crate::adapters) fn why_untrusted(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let mut next = Some(error);
    while let Some(error) = next {
        let inner = error.downcast_ref::<io::Error>().and_then(|error| error.get_ref());
        let tls = error.downcast_ref::<rustls::Error>().or(inner.and_then(|inner| inner.downcast_ref()));
        match tls {
            Some(rustls::Error::InvalidCertificate(why)) => return Some(untrusted(why)),
            Some(_) => return Some("it supports no TLS version or cipher that Sluice accepts"),
            None => next = inner.map(|inner| inner as &(dyn Error + 'static)).or(error.source()),
        }
    }
    None
}

fn untrusted(why: &CertificateError) -> &'static str {
    match why {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate was not issued by a trusted authority"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another host"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "its certificate has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet"
        }
        _ => "its certificate is not acceptable",
    }
}
