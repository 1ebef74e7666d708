//! The caller's certificate, and the name in it.

use sha2::{Digest as _, Sha256};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;

use super::claims::is_name;

/// The certificate of a connection. Only code that saw the handshake succeed makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    name: Option<CertificateName>,
    sha256: [u8; 32],
}

/// The name of a certificate's holder: the first URI of its alternative names, else their first DNS name, else its one
/// common name. The kind belongs to the name, for an authority may check one kind with care and another not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CertificateName {
    Uri(String),
    Dns(String),
    Common(String),
}

impl Certificate {
    /// Reads a certificate in DER. A part that cannot be read, or could be misread, gives no name.
    pub fn read(der: &[u8]) -> Certificate {
        let name = X509Certificate::from_der(der).ok().and_then(|(_, read)| name(&read));
        Certificate { name, sha256: Sha256::digest(der).into() }
    }

    pub fn name(&self) -> Option<&CertificateName> {
        self.name.as_ref()
    }

    /// The digest of the whole certificate, as bound tokens state it.
    pub fn sha256(&self) -> &[u8; 32] {
        &self.sha256
    }
}

impl std::fmt::Display for CertificateName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CertificateName::Uri(name) => write!(f, "uri:{name}"),
            CertificateName::Dns(name) => write!(f, "dns:{name}"),
            CertificateName::Common(name) => write!(f, "cn:{name}"),
        }
    }
}

/// An unfit name gives no name at all: the next one was not meant to be the first.
fn name(certificate: &X509Certificate<'_>) -> Option<CertificateName> {
    let others = certificate.subject_alternative_name().ok()?;
    let others = others.map_or(&[][..], |extension| extension.value.general_names.as_slice());
    let uri = others.iter().find_map(|one| match one {
        GeneralName::URI(uri) => Some(*uri),
        _ => None,
    });
    let dns = others.iter().find_map(|one| match one {
        GeneralName::DNSName(name) => Some(*name),
        _ => None,
    });
    let fit = |name: &str| is_name(name).then(|| name.to_owned());
    match (uri, dns) {
        (Some(uri), _) => fit(uri).map(CertificateName::Uri),
        (None, Some(dns)) => fit(dns).map(|dns| CertificateName::Dns(dns.to_ascii_lowercase())),
        (None, None) => {
            let mut common = certificate.subject().iter_common_name();
            let (Some(one), None) = (common.next(), common.next()) else { return None };
            fit(one.as_str().ok()?).map(CertificateName::Common)
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

    use super::*;

    fn told(common: &[&str], others: Vec<SanType>) -> Option<String> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        for name in common {
            params.distinguished_name.push(DnType::CommonName, *name);
        }
        params.subject_alt_names = others;
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let read = Certificate::read(certificate.der());
        assert_eq!(read.sha256(), &<[u8; 32]>::from(Sha256::digest(certificate.der())));
        read.name().map(ToString::to_string)
    }

    #[test]
    fn a_certificate_has_one_name_and_which_is_told() {
        let uri = |name: &str| SanType::URI(name.try_into().unwrap());
        let dns = |name: &str| SanType::DnsName(name.try_into().unwrap());
        let (mail, ip) = (SanType::Rfc822Name("a@b".try_into().unwrap()), SanType::IpAddress([127, 0, 0, 1].into()));
        for (common, others, name) in [
            (&["payroll"][..], vec![], Some("cn:payroll")),
            (&["payroll"], vec![mail.clone(), ip.clone()], Some("cn:payroll")),
            (&["payroll"], vec![mail, dns("Pay.example"), dns("other.example")], Some("dns:pay.example")),
            (
                &["payroll"],
                vec![dns("pay.example"), uri("spiffe://x/Pay"), uri("spiffe://x/y")],
                Some("uri:spiffe://x/Pay"),
            ),
            (&["spiffe://x/Pay"], vec![], Some("cn:spiffe://x/Pay")),
            (&[], vec![], None),
            (&[], vec![ip], None),
            (&[" "], vec![], None),
            (&["pay\nroll"], vec![], None),
            // The name is unfit, and the next one is not a substitute.
            (&["payroll"], vec![dns("")], None),
            (&["payroll"], vec![dns("pay.example"), uri(" ")], None),
        ] {
            assert_eq!(told(common, others).as_deref(), name, "{common:?}");
        }
    }

    #[test]
    fn what_is_no_certificate_has_no_name() {
        for der in [&b""[..], b"0", &[0x30, 0x82, 0xff, 0xff]] {
            assert_eq!(Certificate::read(der).name(), None);
        }
    }
}
