//! Lists of revoked certificates: what a file of them holds, read when it is configured and again when it changes.

use std::fmt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;
use x509_parser::revocation_list::CertificateRevocationList;

/// The lists of a file, at most one of each authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocations {
    lists: Vec<List>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct List {
    der: CertificateRevocationListDer<'static>,
    /// Its authority's name, as it is encoded.
    authority: Vec<u8>,
    /// In seconds since 1970.
    from_secs: i64,
    until_secs: i64,
}

/// Why lists cannot be used. Nothing of what they hold stands in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevocationsFault {
    Unreadable,
    NoList,
    /// Which of them is meant?
    SameAuthority,
    /// Of an authority that vouches for callers there is no list: nobody could tell which of its certificates are good.
    Lacking,
    Expired,
    /// Somebody whom the lists in force name would be good again.
    Older,
}

impl fmt::Display for RevocationsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RevocationsFault::Unreadable => {
                "it is neither PEM nor DER with lists of revoked certificates, or is cut off"
            }
            RevocationsFault::NoList => "it holds no list of revoked certificates",
            RevocationsFault::SameAuthority => "it holds two lists of one authority",
            RevocationsFault::Lacking => "it holds no list of an authority that stands in `client_ca`",
            RevocationsFault::Expired => "a list in it has expired",
            RevocationsFault::Older => "a list in it is older than the one in force",
        })
    }
}

impl std::error::Error for RevocationsFault {}

impl Revocations {
    /// Reads one list in DER, or any number in PEM, for these authorities; with none, that is left to be seen. Whether
    /// they have expired is not looked at.
    pub fn read(content: &[u8], authorities: &[CertificateDer<'_>]) -> Result<Revocations, RevocationsFault> {
        let unreadable = |_| RevocationsFault::Unreadable;
        let lists: Vec<CertificateRevocationListDer<'static>> = match content {
            // No text has such a second byte.
            [0x30, second, ..] if *second >= 0x80 => vec![content.to_vec().into()],
            _ => CertificateRevocationListDer::pem_slice_iter(content).collect::<Result<_, _>>().map_err(unreadable)?,
        };
        if lists.is_empty() {
            return Err(RevocationsFault::NoList);
        }
        let lists = lists.into_iter().map(List::read).collect::<Result<Vec<_>, _>>()?;
        let read = Revocations { lists };
        read.check(authorities)?;
        Ok(read)
    }

    fn check(&self, authorities: &[CertificateDer<'_>]) -> Result<(), RevocationsFault> {
        let twice = self
            .lists
            .iter()
            .enumerate()
            .any(|(at, list)| self.lists.iter().take(at).any(|other| other.authority == list.authority));
        if twice {
            return Err(RevocationsFault::SameAuthority);
        }
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            let (_, read) = X509Certificate::from_der(authority).map_err(|_| RevocationsFault::Lacking)?;
            if !self.lists.iter().any(|list| list.authority == read.subject().as_raw()) {
                return Err(RevocationsFault::Lacking);
            }
            roots.add(authority.clone().into_owned()).map_err(|_| RevocationsFault::Lacking)?;
        }
        // Who verifies by them reads them more strictly.
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        match verifier.with_crls(self.lists()).build() {
            Ok(_) | Err(VerifierBuilderError::NoRootAnchors) => Ok(()),
            Err(_) => Err(RevocationsFault::Unreadable),
        }
    }

    pub fn lists(&self) -> impl Iterator<Item = CertificateRevocationListDer<'static>> {
        self.lists.iter().map(|list| list.der.clone())
    }

    /// Until when all of them are good, in seconds since 1970.
    pub fn until_secs(&self) -> i64 {
        self.lists.iter().map(|list| list.until_secs).min().unwrap_or(i64::MIN)
    }

    /// Whether they may take the place of these.
    pub fn can_follow(&self, former: &Revocations, now_secs: i64) -> Result<(), RevocationsFault> {
        let is_older = |list: &List| {
            former.lists.iter().any(|other| other.authority == list.authority && other.from_secs > list.from_secs)
        };
        if self.lists.iter().any(is_older) {
            return Err(RevocationsFault::Older);
        }
        if now_secs >= self.until_secs() { Err(RevocationsFault::Expired) } else { Ok(()) }
    }
}

impl List {
    fn read(der: CertificateRevocationListDer<'static>) -> Result<List, RevocationsFault> {
        let (rest, read) = CertificateRevocationList::from_der(&der).map_err(|_| RevocationsFault::Unreadable)?;
        let until = read.next_update().filter(|_| rest.is_empty()).ok_or(RevocationsFault::Unreadable)?;
        let (authority, from_secs) = (read.issuer().as_raw().to_vec(), read.last_update().timestamp());
        Ok(List { authority, from_secs, until_secs: until.timestamp(), der })
    }
}
