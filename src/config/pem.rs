//! Certificates and keys in PEM files. A fault never repeats what a file holds.

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::written::Fault;

/// The certificates of a file; at least one, each of them readable.
pub(super) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let certificates = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| Fault::new("what it holds is not PEM, or is cut off"))?;
    if certificates.is_empty() {
        return Err(
            Fault::new("it holds no certificate").remedy("a certificate starts with `-----BEGIN CERTIFICATE-----`")
        );
    }
    let unreadable = |c: &CertificateDer<'static>| rustls::server::ParsedCertificate::try_from(c).is_err();
    match certificates.iter().position(unreadable) {
        None => Ok(certificates),
        Some(at) => Err(Fault::new(format!("its certificate number {} cannot be read", at.saturating_add(1)))),
    }
}

/// Whether the text holds exactly one private key, and the first certificate is the one for it.
pub(super) fn fit(certificates_pem: &[u8], key_pem: &str) -> Result<(), Fault> {
    let certificates = certificates(certificates_pem)?;
    let keys = PrivateKeyDer::pem_slice_iter(key_pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| Fault::new("the key is not PEM, or is cut off"))?;
    let Ok([key]) = <[PrivateKeyDer<'static>; 1]>::try_from(keys) else {
        return Err(Fault::new("there is not exactly one private key")
            .remedy("a key starts with `-----BEGIN PRIVATE KEY-----`; keys locked with a password cannot be used"));
    };
    match CertifiedKey::from_der(certificates, key, &ring::default_provider()) {
        Ok(_) => Ok(()),
        Err(rustls::Error::InconsistentKeys(_)) => Err(Fault::new("the key does not belong to the first certificate")
            .remedy("the certificate for the key comes first, then those that vouch for it")),
        Err(_) => Err(Fault::new("the key is of a kind that cannot be used")
            .remedy("RSA of 2048 bits or more, ECDSA with P-256 or P-384, and Ed25519 can")),
    }
}
