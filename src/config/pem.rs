//! Certificates and keys in PEM files. A fault never repeats what a file holds.

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, SubjectPublicKeyInfoDer, alg_id};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;

use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use super::fault::Fault;
use crate::stations::admit::KeyKind;

/// A public key or certificate, and the kind of key that it is.
pub(super) struct PublicKey {
    pub pem: Vec<u8>,
    pub kind: KeyKind,
}

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
    let unreadable = |c: &CertificateDer<'static>| ParsedCertificate::try_from(c).is_err();
    match certificates.iter().position(unreadable) {
        None => Ok(certificates),
        Some(at) => Err(Fault::new(format!("its certificate number {} cannot be read", at.saturating_add(1)))),
    }
}

/// Whether certificates are those of authorities: whoever else stood among them would vouch for nobody.
pub(super) fn authorities(pem: &[u8]) -> Result<(), Fault> {
    let is_authority = |der: &CertificateDer<'_>| X509Certificate::from_der(der).is_ok_and(|(_, read)| read.is_ca());
    let certificates = certificates(pem)?;
    let other = certificates.iter().position(|certificate| !is_authority(certificate));
    let fault = |at: usize| {
        Fault::new(format!("its certificate number {} is not that of an authority", at.saturating_add(1)))
            .remedy("name the file of those who certify callers, not of callers themselves")
    };
    other.map_or(Ok(()), |at| Err(fault(at)))
}

/// The one public key of a file, or that of its one certificate.
pub(super) fn public_key(pem: Vec<u8>) -> Result<PublicKey, Fault> {
    let cut_off = |_| Fault::new("what it holds is not PEM, or is cut off");
    let keys = SubjectPublicKeyInfoDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>().map_err(cut_off)?;
    let certificates = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>().map_err(cut_off)?;
    let kind = match (keys.as_slice(), certificates.as_slice()) {
        ([key], []) => kind(key),
        ([], [certificate]) => {
            let parsed = ParsedCertificate::try_from(certificate);
            kind(&parsed.map_err(|_| Fault::new("its certificate cannot be read"))?.subject_public_key_info())
        }
        _ => {
            return Err(Fault::new("there is not exactly one public key or certificate").remedy(
                "a public key starts with `-----BEGIN PUBLIC KEY-----`, a certificate with `-----BEGIN CERTIFICATE-----`",
            ));
        }
    };
    match kind {
        Some(kind) => Ok(PublicKey { pem, kind }),
        None => Err(Fault::new("the key is of a kind that cannot be used")
            .remedy("RSA, ECDSA with P-256, P-384 or P-521, and Ed25519 can")),
    }
}

/// What the outermost fields of a key in DER say of its kind.
fn kind(key: &[u8]) -> Option<KeyKind> {
    let kinds = [
        (alg_id::RSA_ENCRYPTION, KeyKind::Rsa),
        (alg_id::ECDSA_P256, KeyKind::P256),
        (alg_id::ECDSA_P384, KeyKind::P384),
        (alg_id::ECDSA_P521, KeyKind::P521),
        (alg_id::ED25519, KeyKind::Ed25519),
    ];
    let algorithm = sequence(sequence(key)?)?;
    kinds.into_iter().find(|(id, _)| algorithm.starts_with(id.as_ref())).map(|(_, kind)| kind)
}

/// From the content of a DER sequence on.
fn sequence(der: &[u8]) -> Option<&[u8]> {
    match der {
        [0x30, length, rest @ ..] if *length < 0x80 => Some(rest),
        [0x30, length, rest @ ..] => rest.get(usize::from(*length & 0x7f)..),
        _ => None,
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
