//! Proofs that callers must show: the settings, and the lists of revoked certificates.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, SerialNumber, date_time_ymd,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};

use super::*;

/// An authority, and a list that it made in one year for the years up to another.
fn authority_in(name: &str, years: (i32, i32)) -> (String, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(years.0, 1, 1),
        next_update: date_time_ymd(years.1, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: Vec::new(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    (certificate, list.signed_by(&Issuer::new(params, key)).unwrap().pem().unwrap())
}

pub(super) fn authority(name: &str) -> (String, String) {
    authority_in(name, (2024, 2030))
}

#[test]
fn callers_must_show_certificates_where_authorities_are_named() {
    let (certificate, key) = certificate();
    let (one, one_list) = authority("one");
    let (two, two_list) = authority("two");
    let both = format!("{one}{two}");
    let lists = format!("{one_list}{two_list}");
    let twice = format!("{one_list}{one_list}");
    let cut = one_list.get(..one_list.len() / 2).unwrap();
    let files = [
        ("c.pem", certificate.as_str()),
        ("k.pem", &key),
        ("one.pem", &one),
        ("both.pem", &both),
        ("one.crl", &one_list),
        ("two.crl", &two_list),
        ("lists.crl", &lists),
        ("twice.crl", &twice),
        ("cut.crl", cut),
        ("text", "no list"),
    ];
    let tls = "tls_certificate = \"c.pem\"\ntls_key = { file = \"k.pem\" }\n";
    for (written, told) in [
        ("client_ca = \"one.pem\"", None),
        ("client_ca = \"one.pem\"\nclient_revoked = \"one.crl\"", None),
        ("client_ca = \"one.pem\"\nclient_revoked = \"lists.crl\"", None),
        ("client_ca = \"both.pem\"\nclient_revoked = \"lists.crl\"", None),
        (
            "client_ca = \"both.pem\"\nclient_revoked = \"one.crl\"",
            Some("7:18 `production.client_revoked`: it contains no list of an authority in `client_ca`"),
        ),
        (
            "client_ca = \"one.pem\"\nclient_revoked = \"two.crl\"",
            Some("7:18 `production.client_revoked`: it contains no list of an authority in `client_ca`"),
        ),
        (
            "client_ca = \"one.pem\"\nclient_revoked = \"twice.crl\"",
            Some("7:18 `production.client_revoked`: `twice.crl`: it contains two lists of one authority"),
        ),
        (
            "client_ca = \"one.pem\"\nclient_revoked = \"cut.crl\"",
            Some(
                "7:18 `production.client_revoked`: `cut.crl`: its content is neither a PEM file of revocation lists nor one in DER, or is cut off",
            ),
        ),
        (
            "client_ca = \"one.pem\"\nclient_revoked = \"text\"",
            Some("7:18 `production.client_revoked`: `text`: it contains no revocation list"),
        ),
        (
            "client_ca = \"one.pem\"\nclient_revoked = \"one.pem\"",
            Some("7:18 `production.client_revoked`: `one.pem`: it contains no revocation list"),
        ),
        (
            "client_ca = \"one.pem\"\nclient_revoked = \"none\"",
            Some("7:18 `production.client_revoked`: the file `etc/none` cannot be read: entity not found"),
        ),
        (
            "client_ca = \"c.pem\"",
            Some("6:13 `production.client_ca`: its certificate number 1 is not a CA certificate"),
        ),
        (
            "client_revoked = \"one.crl\"",
            Some("6:18 `production.client_revoked` has no effect without `production.client_ca`"),
        ),
    ] {
        let found = read_in(&format!("{MINIMAL}{tls}{written}\n"), &files, &[]);
        let found = found.map(|reading| {
            let clients = reading.config.environments[0].tls.as_ref().unwrap().clients.as_ref().unwrap();
            assert_eq!(clients.revoked.is_some(), written.contains("client_revoked"), "{written}");
        });
        let found = found.map_err(|all| format!("{} {}", all[0].place.as_deref().unwrap_or("-"), all[0].text));
        assert_eq!(found, told.map_or(Ok(()), |told| Err(told.to_owned())), "{written}");
    }
    let without = wrong(&format!("{MINIMAL}client_ca = \"one.pem\"\n"), &files, &[]);
    assert_eq!(without, ["4:13 `production.client_ca` has no effect without `production.tls_certificate`"]);
}

#[test]
fn lists_follow_each_other_forwards_and_while_they_are_good() {
    const IN_2026: i64 = 1_780_000_000;
    let (one, former) = authority_in("one", (2024, 2027));
    let one = [CertificateDer::from_pem_slice(one.as_bytes()).unwrap()];
    let read = |text: &str| Revocations::read(text.as_bytes(), &one).unwrap();
    let former = read(&former);
    for (years, told) in [
        ((2025, 2027), Ok(())),
        ((2024, 2028), Ok(())),
        ((2023, 2028), Err(RevocationsFault::Older)),
        ((2025, 2026), Err(RevocationsFault::Expired)),
    ] {
        assert_eq!(read(&authority_in("one", years).1).can_follow(&former, IN_2026), told, "{years:?}");
    }
    assert_eq!(former.until_secs(), date_time_ymd(2027, 1, 1).unix_timestamp());
}

#[test]
fn a_list_in_der_is_one_whole_list() {
    let (one, list) = authority("one");
    let one = [CertificateDer::from_pem_slice(one.as_bytes()).unwrap()];
    let der = CertificateRevocationListDer::from_pem_slice(list.as_bytes()).unwrap().to_vec();
    assert_eq!(Revocations::read(&der, &one), Revocations::read(list.as_bytes(), &one));
    let longer = [der.as_slice(), b"0"].concat();
    for bytes in [&der[..der.len() - 1], &der[..20], &longer, &[0x30, 0x80], &one[0]] {
        assert_eq!(Revocations::read(bytes, &one), Err(RevocationsFault::Unreadable));
    }
    assert_eq!(Revocations::read(b"", &one), Err(RevocationsFault::NoList));
}
