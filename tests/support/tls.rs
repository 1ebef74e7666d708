//! Certificates made at run time, for both sides, and lists of those that are revoked.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// An authority that certifies names.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM; the certificate comes first, then those that vouch for it.
pub struct Certified {
    pub certificate: String,
    pub key: String,
}

/// What a certificate is to say.
pub struct Leaf(CertificateParams);

impl Leaf {
    /// With this common name, and nothing else.
    pub fn new(common_name: &str) -> Leaf {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = called(common_name);
        Leaf(params)
    }

    /// A host or an address besides.
    pub fn named(mut self, name: &str) -> Leaf {
        self.0.subject_alt_names.extend(CertificateParams::new([name.to_owned()]).unwrap().subject_alt_names);
        self
    }

    pub fn serial(mut self, number: u64) -> Leaf {
        self.0.serial_number = Some(SerialNumber::from(number));
        self
    }

    pub fn expired(mut self) -> Leaf {
        (self.0.not_before, self.0.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
        self
    }

    pub fn not_yet(mut self) -> Leaf {
        (self.0.not_before, self.0.not_after) = (date_time_ymd(4001, 1, 1), date_time_ymd(4002, 1, 1));
        self
    }

    /// To be shown by servers alone.
    pub fn for_servers(mut self) -> Leaf {
        self.0.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self
    }

    /// Vouched for by nobody but itself.
    pub fn self_signed(self) -> Certified {
        let key = KeyPair::generate().unwrap();
        Certified { certificate: self.0.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
    }
}

impl Authority {
    pub fn new() -> Authority {
        Authority::called("an authority")
    }

    pub fn called(name: &str) -> Authority {
        Authority(CertifiedIssuer::self_signed(authority(name), KeyPair::generate().unwrap()).unwrap())
    }

    /// An authority below this one.
    pub fn below(&self, name: &str) -> Authority {
        let mut params = authority(name);
        params.serial_number = Some(SerialNumber::from(INTERMEDIATE));
        Authority(CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), &self.0).unwrap())
    }

    /// One that this one certified, and not as an authority.
    pub fn pretender(&self, name: &str) -> Authority {
        let mut params = authority(name);
        params.is_ca = IsCa::NoCa;
        Authority(CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), &self.0).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// For names and IP addresses.
    pub fn certify(&self, names: &[&str]) -> Certified {
        self.issue(names.iter().fold(Leaf::new("a server"), |leaf, name| leaf.named(name)))
    }

    pub fn issue(&self, leaf: Leaf) -> Certified {
        let key = KeyPair::generate().unwrap();
        let certificate = leaf.0.signed_by(&key, &self.0).unwrap();
        Certified { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// A list of its revoked certificates, good from the start of one year to the start of another.
    pub fn revoked_in(&self, serials: &[u64], years: (i32, i32)) -> String {
        let one = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2001, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(years.0, 1, 1),
            next_update: date_time_ymd(years.1, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(one).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.0).unwrap().pem().unwrap()
    }

    /// A list that is good now and for long.
    pub fn revoked(&self, serials: &[u64]) -> String {
        self.revoked_in(serials, (2024, 4000))
    }

    /// A client that trusts this authority and offers these protocols.
    pub fn client(&self, alpn: &[&[u8]]) -> ClientConfig {
        self.client_with(alpn, None)
    }

    /// The same, which shows a certificate of its own if there is one.
    pub fn client_with(&self, alpn: &[&[u8]], own: Option<&Certified>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem().as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match own {
            Some(own) => builder.with_client_auth_cert(own.chain(), own.key()).unwrap(),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        config
    }
}

/// The serial number of an authority below another.
pub const INTERMEDIATE: u64 = 900;

impl Certified {
    /// With another certificate after its own.
    pub fn vouched_for_by(mut self, authority: &Authority) -> Certified {
        self.certificate.push_str(&authority.pem());
        self
    }

    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(self.certificate.as_bytes()).collect::<Result<_, _>>().unwrap()
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap()
    }

    pub fn server(&self) -> ServerConfig {
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(self.chain(), self.key())
            .unwrap()
    }
}

fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = called(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

fn called(name: &str) -> DistinguishedName {
    let mut called = DistinguishedName::new();
    called.push(DnType::CommonName, name);
    called
}
