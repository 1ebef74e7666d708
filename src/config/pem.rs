//! Certificates and keys in PEM files. A fault never repeats the content of a file.

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, SubjectPublicKeyInfoDer};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;

use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use super::fault::SettingFault;
use crate::stations::admit::KeyKind;

/// A public key or certificate, and the kind of key.
pub(super) struct PemKey {
    pub pem: Vec<u8>,
    pub kind: KeyKind,
}

/// Parses the certificates of a file; at least one, all of them valid.
pub(super) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, SettingFault> {
    let certificates = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| SettingFault::new("its content is not PEM, or is cut off"))?;
    if certificates.is_empty() {
        return Err(SettingFault::new("it contains no certificate")
            .remedy("a certificate starts with `-----BEGIN CERTIFICATE-----`"));
    }
    let unreadable = |c: &CertificateDer<'static>| ParsedCertificate::try_from(c).is_err();
    match certificates.iter().position(unreadable) {
        None => Ok(certificates),
        Some(at) => Err(SettingFault::new(format!("its certificate number {} is invalid", at.saturating_add(1)))),
    }
}

/// Checks that all certificates are those of authorities: any other would vouch for nobody.
pub(super) fn authorities(pem: &[u8]) -> Result<(), SettingFault> {
    let is_authority = |der: &CertificateDer<'_>| X509Certificate::from_der(der).is_ok_and(|(_, read)| read.is_ca());
    let certificates = certificates(pem)?;
    let other = certificates.iter().position(|certificate| !is_authority(certificate));
    let fault = |at: usize| {
        SettingFault::new(format!("its certificate number {} is not a CA certificate", at.saturating_add(1)))
            .remedy("name the file of the authorities that issue callers' certificates, not of those certificates")
    };
    other.map_or(Ok(()), |at| Err(fault(at)))
}

/// Parses the one public key of a file, or that of its one certificate.
pub(super) fn public_key(pem: Vec<u8>) -> Result<PemKey, SettingFault> {
    let cut_off = |_| SettingFault::new("its content is not PEM, or is cut off");
    let keys = SubjectPublicKeyInfoDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>().map_err(cut_off)?;
    let certificates = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>().map_err(cut_off)?;
    let kind = match (keys.as_slice(), certificates.as_slice()) {
        ([key], []) => KeyKind::of_public_key(key),
        ([], [certificate]) => {
            let parsed = ParsedCertificate::try_from(certificate);
            let parsed = parsed.map_err(|_| SettingFault::new("its certificate is invalid"))?;
            KeyKind::of_public_key(&parsed.subject_public_key_info())
        }
        _ => {
            return Err(SettingFault::new("it does not contain exactly one public key or certificate").remedy(
                "a public key starts with `-----BEGIN PUBLIC KEY-----`, a certificate with `-----BEGIN CERTIFICATE-----`",
            ));
        }
    };
    match kind {
        Some(kind) => Ok(PemKey { pem, kind }),
        None => Err(SettingFault::new("the key is of an unsupported kind")
            .remedy("use RSA of 2048 bits or more, ECDSA with P-256 or P-384 and an uncompressed point, or Ed25519")),
    }
}

/// Checks that the text has exactly one private key, and that the first certificate is for that key.
pub(super) fn fit(certificates_pem: &[u8], key_pem: &str) -> Result<(), SettingFault> {
    let certificates = certificates(certificates_pem)?;
    let keys = PrivateKeyDer::pem_slice_iter(key_pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| SettingFault::new("the key is not PEM, or is cut off"))?;
    let Ok([key]) = <[PrivateKeyDer<'static>; 1]>::try_from(keys) else {
        return Err(SettingFault::new("it does not contain exactly one private key")
            .remedy("a key starts with `-----BEGIN PRIVATE KEY-----`; keys with a password are not supported"));
    };
    match CertifiedKey::from_der(certificates, key, &ring::default_provider()) {
        Ok(_) => Ok(()),
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err(SettingFault::new("the key does not belong to the first certificate")
                .remedy("put the certificate for the key first, then the certificates of its chain"))
        }
        Err(_) => Err(SettingFault::new("the key is of an unsupported kind")
            .remedy("use RSA of 2048 bits or more, ECDSA with P-256 or P-384, or Ed25519")),
    }
}
