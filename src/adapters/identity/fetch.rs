//! Fetching a set of keys: one host, no redirects, with a deadline and a bound.

use std::fmt;
use std::time::Duration;

use reqwest::{Certificate, Client, redirect};

use crate::stations::admit::{KeyFault, KeySet};

const DEADLINE: Duration = Duration::from_secs(5);
/// The largest document that is read.
const MOST_BYTES: usize = 256 * 1024;

/// Why a set could not be had. Nothing of what came stands in it.
#[derive(Debug)]
pub(super) enum FetchFault {
    Unreachable,
    Status(u16),
    TooLarge,
    Broken,
    Keys(KeyFault),
}

impl fmt::Display for FetchFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchFault::Unreachable => f.write_str("it cannot be reached in time"),
            FetchFault::Status(status) => write!(f, "it answered {status}"),
            FetchFault::TooLarge => write!(f, "it is larger than {MOST_BYTES} bytes"),
            FetchFault::Broken => f.write_str("it broke off"),
            FetchFault::Keys(fault) => fault.fmt(f),
        }
    }
}

impl FetchFault {
    /// As metrics call it.
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            FetchFault::Unreachable => "unreachable",
            FetchFault::Status(_) => "status",
            FetchFault::TooLarge => "too_large",
            FetchFault::Broken => "broken",
            FetchFault::Keys(_) => "unusable",
        }
    }
}

/// A client for one issuer.
pub(super) fn client(authorities_pem: Option<&[u8]>) -> Result<Client, reqwest::Error> {
    let builder =
        Client::builder().redirect(redirect::Policy::none()).no_proxy().timeout(DEADLINE).connect_timeout(DEADLINE);
    match authorities_pem {
        None => builder.build(),
        Some(pem) => builder.tls_certs_only(Certificate::from_pem_bundle(pem)?).build(),
    }
}

/// Keys that came, and the document that they came in.
pub(super) struct Fetched {
    pub keys: KeySet,
    pub document: String,
}

pub(super) async fn keys(client: &Client, url: &str) -> Result<Fetched, FetchFault> {
    let request = client.get(url).header("accept", "application/json");
    let mut answer = request.send().await.map_err(|_| FetchFault::Unreachable)?;
    if answer.status() != reqwest::StatusCode::OK {
        return Err(FetchFault::Status(answer.status().as_u16()));
    }
    let mut whole = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(|_| FetchFault::Broken)? {
        if whole.len().saturating_add(piece.len()) > MOST_BYTES {
            return Err(FetchFault::TooLarge);
        }
        whole.extend_from_slice(&piece);
    }
    let keys = KeySet::from_jwks(&whole).map_err(FetchFault::Keys)?;
    Ok(Fetched { keys, document: String::from_utf8_lossy(&whole).into_owned() })
}
