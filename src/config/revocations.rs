//! Certificate revocation lists: parsed from a file when it is configured and again when it changes.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use thiserror::Error;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;
use x509_parser::revocation_list::CertificateRevocationList;

/// The lists of a file, at most one of each authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocations {
    lists: Vec<RevocationList>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct RevocationList {
    der: CertificateRevocationListDer<'static>,
    /// The encoded name of its authority.
    authority: Vec<u8>,
    /// In seconds since 1970.
    from_secs: i64,
    until_secs: i64,
}

/// Why lists cannot be used. It repeats nothing of their content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RevocationsFault {
    #[error("its content is neither a PEM file of revocation lists nor one in DER, or is cut off")]
    Unreadable,
    #[error("it contains no revocation list")]
    NoList,
    /// Two lists of one authority: the valid one is ambiguous.
    #[error("it contains two lists of one authority")]
    SameAuthority,
    /// An authority that issues callers' certificates has no list: its revoked certificates are unknown.
    #[error("it contains no list of an authority in `client_ca`")]
    Lacking,
    #[error("one of its lists has expired")]
    Expired,
    /// A list is older than the one in force: a revoked certificate would be accepted again.
    #[error("one of its lists is older than the one in force")]
    Older,
}

impl Revocations {
    /// Parses one list in DER, or any number in PEM, for these authorities; without authorities, that is not checked.
    /// Expiry is not checked here.
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
        let lists = lists.into_iter().map(RevocationList::read).collect::<Result<Vec<_>, _>>()?;
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
        // The verifier parses them more strictly.
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

    /// Returns the earliest expiry of the lists, in seconds since 1970.
    pub fn until_secs(&self) -> i64 {
        self.lists.iter().map(|list| list.until_secs).min().unwrap_or(i64::MIN)
    }

    /// Checks that these lists may replace the former ones.
    pub fn can_follow(&self, former: &Revocations, now_secs: i64) -> Result<(), RevocationsFault> {
        let is_older = |list: &RevocationList| {
            former.lists.iter().any(|other| other.authority == list.authority && other.from_secs > list.from_secs)
        };
        if self.lists.iter().any(is_older) {
            return Err(RevocationsFault::Older);
        }
        if now_secs >= self.until_secs() { Err(RevocationsFault::Expired) } else { Ok(()) }
    }
}

impl RevocationList {
    fn read(der: CertificateRevocationListDer<'static>) -> Result<RevocationList, RevocationsFault> {
        let (rest, read) = CertificateRevocationList::from_der(&der).map_err(|_| RevocationsFault::Unreadable)?;
        let until = read.next_update().filter(|_| rest.is_empty()).ok_or(RevocationsFault::Unreadable)?;
        let (authority, from_secs) = (read.issuer().as_raw().to_vec(), read.last_update().timestamp());
        Ok(RevocationList { authority, from_secs, until_secs: until.timestamp(), der })
    }
}
