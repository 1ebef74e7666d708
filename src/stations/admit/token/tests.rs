mod key_sets;

use std::process::Command;
use std::sync::LazyLock;

use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::json;

use super::*;
use crate::base::secret::Secret;
use crate::stations::admit::KeyKind;

const NOW: i64 = 1_800_000_000;
const SECRET: &str = "a secret of sixty-four bytes, long enough for every hash there is!";

/// A key pair of an issuer: what signs, and what the set shows.
enum TestSigner {
    Rsa(&'static RsaKeyPair),
    Curve(EcdsaKeyPair, &'static str),
    Ed(Ed25519KeyPair),
    Shared,
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl TestSigner {
    /// One pair for the whole process, made by `openssl`: ring makes none.
    fn rsa() -> TestSigner {
        static PAIR: LazyLock<RsaKeyPair> = LazyLock::new(|| {
            let bits = "rsa_keygen_bits:2048";
            let mut openssl = Command::new("openssl");
            let made = openssl.args(["genpkey", "-quiet", "-algorithm", "RSA", "-pkeyopt", bits]).output().unwrap();
            RsaKeyPair::from_pkcs8(PrivateKeyDer::from_pem_slice(&made.stdout).unwrap().secret_der()).unwrap()
        });
        TestSigner::Rsa(&PAIR)
    }

    fn curve(algorithm: &'static signature::EcdsaSigningAlgorithm, name: &'static str) -> TestSigner {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        TestSigner::Curve(EcdsaKeyPair::from_pkcs8(algorithm, made.as_ref(), &random).unwrap(), name)
    }

    fn ed() -> TestSigner {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        TestSigner::Ed(Ed25519KeyPair::from_pkcs8(made.as_ref()).unwrap())
    }

    fn jwk(&self, id: &str) -> Value {
        match self {
            TestSigner::Rsa(pair) => {
                let signature::RsaPublicKeyComponents::<Vec<u8>> { n, e } = pair.public().into();
                json!({"kty": "RSA", "kid": id, "use": "sig", "n": encoded(n), "e": encoded(e)})
            }
            TestSigner::Curve(pair, name) => {
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                json!({"kty": "EC", "crv": name, "kid": id, "x": encoded(x), "y": encoded(y)})
            }
            TestSigner::Ed(pair) => json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": encoded(pair.public_key())}),
            TestSigner::Shared => json!({"kty": "oct", "kid": id, "k": encoded(SECRET)}),
        }
    }

    fn sign(&self, algorithm: Algorithm, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            TestSigner::Rsa(pair) => {
                let padding: &dyn signature::RsaEncoding = match algorithm {
                    Algorithm::Rs256 => &signature::RSA_PKCS1_SHA256,
                    Algorithm::Rs384 => &signature::RSA_PKCS1_SHA384,
                    Algorithm::Rs512 => &signature::RSA_PKCS1_SHA512,
                    Algorithm::Ps256 => &signature::RSA_PSS_SHA256,
                    Algorithm::Ps384 => &signature::RSA_PSS_SHA384,
                    _ => &signature::RSA_PSS_SHA512,
                };
                let mut made = vec![0; pair.public().modulus_len()];
                pair.sign(padding, &random, message, &mut made).unwrap();
                made
            }
            TestSigner::Curve(pair, _) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            TestSigner::Ed(pair) => pair.sign(message).as_ref().to_vec(),
            TestSigner::Shared => {
                let key = hmac::Key::new(algorithm.hmac().unwrap(), SECRET.as_bytes());
                hmac::sign(&key, message).as_ref().to_vec()
            }
        }
    }
}

fn claims() -> Value {
    json!({"iss": "https://issuer.example", "aud": ["other", "sluice"], "sub": "service-1", "iat": NOW - 10, "exp": NOW + 600,
           "act": {"sub": "ada"}, "realm": {"roles": ["payroll", "viewer"]}, "client_id": "c-1"})
}

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut changed = claims();
    change(&mut changed);
    changed
}

fn token(signer: &TestSigner, algorithm: Algorithm, header: &Value, claims: &Value) -> String {
    let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
    let signature = encoded(signer.sign(algorithm, signed.as_bytes()));
    format!("{signed}.{signature}")
}

fn rules(algorithms: &[Algorithm]) -> IssuerRules {
    IssuerRules {
        name: "main".into(),
        issuer: "https://issuer.example".into(),
        audiences: vec!["sluice".into()],
        people_audiences: Vec::new(),
        environments: vec![Environment::Sandbox],
        algorithms: algorithms.to_vec(),
        leeway_secs: 30,
        longest_lifetime_secs: 3600,
        required: vec![FieldPath::parse("client_id").unwrap()],
        roles: FieldPath::parse("realm.roles"),
        requester: FieldPath::parse("act.sub").unwrap(),
        refuses_holds: false,
        opaque: false,
    }
}

/// A wrong signature of a key that the token names.
const WRONG: TokenFault = TokenFault::Signature { issuer: 0, is_key_named: true };

fn trusting(signer: &TestSigner, algorithms: &[Algorithm]) -> Vec<Trusted> {
    let set = json!({"keys": [signer.jwk("k-1")]}).to_string();
    let keys = match signer {
        TestSigner::Shared => KeySet::shared(&Secret::new(SECRET.into())),
        _ => KeySet::from_jwks(set.as_bytes()).unwrap(),
    };
    vec![Trusted { rules: rules(algorithms), keys: Some(Arc::new(keys)) }]
}

#[test]
fn good_tokens_of_every_algorithm_are_believed() {
    use Algorithm as A;
    let rsa = TestSigner::rsa();
    let p256 = TestSigner::curve(&signature::ECDSA_P256_SHA256_FIXED_SIGNING, "P-256");
    let p384 = TestSigner::curve(&signature::ECDSA_P384_SHA384_FIXED_SIGNING, "P-384");
    let (ed, shared) = (TestSigner::ed(), TestSigner::Shared);
    let rows: [(&TestSigner, &[A]); 5] = [
        (&rsa, &[A::Rs256, A::Rs384, A::Rs512, A::Ps256, A::Ps384, A::Ps512]),
        (&p256, &[A::Es256]),
        (&p384, &[A::Es384]),
        (&ed, &[A::EdDsa]),
        (&shared, &[A::Hs256, A::Hs384, A::Hs512]),
    ];
    let mut tried = 0;
    for (signer, algorithms) in rows {
        for algorithm in algorithms {
            for header in
                [json!({"alg": algorithm.as_str()}), json!({"alg": algorithm.as_str(), "typ": "JWT", "kid": "k-1"})]
            {
                let text = token(signer, *algorithm, &header, &claims());
                let believed = believe(&text, &trusting(signer, algorithms), NOW);
                let caller = believed.unwrap_or_else(|fault| panic!("{algorithm:?}: {fault}")).caller;
                assert_eq!((caller.issuer(), caller.subject(), caller.requester()), ("main", "service-1", Some("ada")));
                assert_eq!(caller.roles().iter().map(String::as_str).collect::<Vec<_>>(), ["payroll", "viewer"]);
                tried += 1;
            }
        }
    }
    assert_eq!(tried, 24);
}

fn pem(der: &[u8]) -> String {
    let standard = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN PUBLIC KEY-----\n{standard}\n-----END PUBLIC KEY-----\n")
}

/// An element of DER.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    match length {
        [0, short @ ..0x80] => [&[tag, short], content].concat(),
        [0, long] => [&[tag, 0x81, long], content].concat(),
        [high, low] => [&[tag, 0x82, high, low], content].concat(),
    }
}

#[test]
fn a_public_key_in_pem_is_a_key() {
    let rsa_id = [0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 0x05, 0];
    let ec_id = |curve: &[u8]| [&[0x06, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 0x06], curve].concat();
    let p256_id = ec_id(&[8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7]);
    let p384_id = ec_id(&[5, 0x2b, 0x81, 0x04, 0, 0x22]);
    let ed_id = [0x06, 3, 0x2b, 0x65, 0x70];
    let p256 = TestSigner::curve(&signature::ECDSA_P256_SHA256_FIXED_SIGNING, "P-256");
    let p384 = TestSigner::curve(&signature::ECDSA_P384_SHA384_FIXED_SIGNING, "P-384");
    let rows: [(TestSigner, &[u8], Algorithm, Algorithm); 4] = [
        (TestSigner::rsa(), &rsa_id, Algorithm::Rs256, Algorithm::Es256),
        (p256, &p256_id, Algorithm::Es256, Algorithm::Es384),
        (p384, &p384_id, Algorithm::Es384, Algorithm::Es256),
        (TestSigner::ed(), &ed_id, Algorithm::EdDsa, Algorithm::Rs256),
    ];
    for (signer, id, algorithm, other) in rows {
        let public = match &signer {
            TestSigner::Rsa(pair) => pair.public().as_ref().to_vec(),
            TestSigner::Curve(pair, _) => pair.public_key().as_ref().to_vec(),
            TestSigner::Ed(pair) => pair.public_key().as_ref().to_vec(),
            TestSigner::Shared => panic!("no shared secret is public"),
        };
        let bits = element(0x03, &[&[0], public.as_slice()].concat());
        let der = element(0x30, &[element(0x30, id), bits].concat());
        assert_eq!(KeyKind::of_public_key(&der), Some(algorithm.kind()));
        assert_eq!(KeyKind::of_public_key(&[&der, &[0][..]].concat()), None);
        let keys = Arc::new(KeySet::from_pem(pem(&der).as_bytes()).unwrap());
        let trusted = |algorithm| [Trusted { rules: rules(&[algorithm]), keys: Some(keys.clone()) }];
        let text = token(&signer, algorithm, &json!({"alg": algorithm.as_str()}), &claims());
        assert!(believe(&text, &trusted(algorithm), NOW).is_ok(), "{algorithm:?}");
        assert!(believe(&text, &trusted(other), NOW).is_err(), "{algorithm:?}");
        // The public key as a shared secret: the confusion of algorithms.
        let confused = token(&TestSigner::Shared, Algorithm::Hs256, &json!({"alg": "HS256"}), &claims());
        assert_eq!(believe(&confused, &trusted(algorithm), NOW).err(), Some(TokenFault::Algorithm));
    }
}

/// Each is wrong in one way, and none is believed.
#[test]
fn attacks_are_not_believed() {
    use TokenFault as F;
    let signer = TestSigner::curve(&signature::ECDSA_P256_SHA256_FIXED_SIGNING, "P-256");
    let stranger = TestSigner::curve(&signature::ECDSA_P256_SHA256_FIXED_SIGNING, "P-256");
    let trusted = trusting(&signer, &[Algorithm::Es256]);
    let plain = json!({"alg": "ES256", "kid": "k-1"});
    let good = token(&signer, Algorithm::Es256, &plain, &claims());
    let pieces: Vec<&str> = good.split('.').collect();
    let (h, c, s) = (pieces[0], pieces[1], pieces[2]);
    let header = |header: Value| token(&signer, Algorithm::Es256, &header, &claims());
    let claim = |change: fn(&mut Value)| token(&signer, Algorithm::Es256, &plain, &with(change));
    let text = |header: &str, claims: &str| {
        let signed = format!("{}.{}", encoded(header), encoded(claims));
        let signature = encoded(signer.sign(Algorithm::Es256, signed.as_bytes()));
        format!("{signed}.{signature}")
    };
    let body = claims().to_string();
    let rows: Vec<(&str, String, F)> = vec![
        ("empty", String::new(), F::Malformed),
        ("one piece", h.into(), F::Malformed),
        ("two pieces", format!("{h}.{c}"), F::Malformed),
        ("four pieces", format!("{good}.x"), F::Malformed),
        ("five pieces, as if encrypted", format!("{h}..{c}.{s}.x"), F::Malformed),
        ("no signature", format!("{h}.{c}."), F::Malformed),
        ("padded header", format!("{h}=.{c}.{s}"), F::Malformed),
        ("padded signature", format!("{h}.{c}.{s}=="), F::Malformed),
        ("line break", format!("{h}.{c}.{s}\n"), F::Malformed),
        ("space", format!("{h}. {c}.{s}"), F::Malformed),
        ("standard alphabet", format!("{h}.{c}.{}", "+/".repeat(43)), F::Malformed),
        ("junk behind the signature", format!("{h}.{c}.{s}AA"), WRONG),
        ("cut signature", format!("{h}.{c}.{}", &s[..s.len() - 2]), WRONG),
        ("too long", format!("{h}.{c}.{}", "A".repeat(9000)), F::Malformed),
        ("header no object", text("[]", &body), F::Malformed),
        ("header no JSON", text("{", &body), F::Malformed),
        ("claims no object", text(r#"{"alg":"ES256"}"#, "7"), F::Malformed),
        ("claims no JSON", text(r#"{"alg":"ES256"}"#, "{"), F::Malformed),
        ("alg twice", text(r#"{"alg":"none","alg":"ES256"}"#, &body), F::Malformed),
        ("sub twice", text(r#"{"alg":"ES256"}"#, &body.replacen('{', r#"{"sub":"admin","#, 1)), F::Malformed),
        (
            "exp twice, escaped",
            text(r#"{"alg":"ES256"}"#, &body.replacen('{', r#"{"\u0065xp":9999999999,"#, 1)),
            F::Malformed,
        ),
        ("trailing data", text(r#"{"alg":"ES256"}"#, &format!("{body} {{}}")), F::Malformed),
        ("BOM", text("\u{feff}{\"alg\":\"ES256\"}", &body), F::Malformed),
        ("alg none", format!("{}.{c}.{s}", encoded(r#"{"alg":"none"}"#)), F::Algorithm),
        ("alg None", header(json!({"alg": "None"})), F::Algorithm),
        ("alg nOnE", header(json!({"alg": "nOnE"})), F::Algorithm),
        ("alg empty", header(json!({"alg": ""})), F::Algorithm),
        ("alg missing", header(json!({"kid": "k-1"})), F::Algorithm),
        ("alg null", header(json!({"alg": null})), F::Algorithm),
        ("alg a list", header(json!({"alg": ["ES256"]})), F::Algorithm),
        ("alg in another case", header(json!({"alg": "es256"})), F::Algorithm),
        ("alg with a space", header(json!({"alg": "ES256 "})), F::Algorithm),
        ("alg not pinned", header(json!({"alg": "ES384"})), F::Algorithm),
        ("alg HS256", header(json!({"alg": "HS256"})), F::Algorithm),
        ("alg RS256", header(json!({"alg": "RS256"})), F::Algorithm),
        ("alg unknown", header(json!({"alg": "ES256K"})), F::Algorithm),
        ("crit", header(json!({"alg": "ES256", "crit": ["exp"]})), F::Header),
        ("crit empty", header(json!({"alg": "ES256", "crit": []})), F::Header),
        ("b64 false", header(json!({"alg": "ES256", "b64": false})), F::Header),
        (
            "jwk",
            token(&stranger, Algorithm::Es256, &json!({"alg": "ES256", "jwk": stranger.jwk("k-1")}), &claims()),
            F::Header,
        ),
        ("jku", header(json!({"alg": "ES256", "jku": "https://evil.example/keys"})), F::Header),
        ("x5u", header(json!({"alg": "ES256", "x5u": "https://evil.example/cert"})), F::Header),
        ("x5c", header(json!({"alg": "ES256", "x5c": ["MII"]})), F::Header),
        ("zip", header(json!({"alg": "ES256", "zip": "DEF"})), F::Header),
        ("enc", header(json!({"alg": "ES256", "enc": "A128GCM"})), F::Header),
        ("typ of an ID token's kind", header(json!({"alg": "ES256", "typ": "logout+jwt"})), F::Header),
        ("typ a number", header(json!({"alg": "ES256", "typ": 1})), F::Header),
        ("kid a number", header(json!({"alg": "ES256", "kid": 1})), F::Header),
        ("kid empty", header(json!({"alg": "ES256", "kid": ""})), F::Header),
        ("kid very long", header(json!({"alg": "ES256", "kid": "k".repeat(257)})), F::Header),
        ("kid unknown", header(json!({"alg": "ES256", "kid": "k-2"})), F::UnknownKey { issuer: 0 }),
        ("kid a path", header(json!({"alg": "ES256", "kid": "../../k-1"})), F::UnknownKey { issuer: 0 }),
        ("kid with SQL", header(json!({"alg": "ES256", "kid": "' OR 1=1"})), F::UnknownKey { issuer: 0 }),
        ("signed by a stranger", token(&stranger, Algorithm::Es256, &plain, &claims()), WRONG),
        ("signature of zeros", format!("{h}.{c}.{}", encoded([0_u8; 64])), WRONG),
        ("signature in DER", format!("{h}.{c}.{}", encoded([0x30, 6, 2, 1, 1, 2, 1, 1])), WRONG),
        ("claims changed", format!("{h}.{}.{s}", encoded(with(|c| c["sub"] = json!("admin")).to_string())), WRONG),
        ("header changed", format!("{}.{c}.{s}", encoded(r#"{"alg":"ES256","kid":"k-1","a":1}"#)), WRONG),
        ("iss missing", claim(|c| drop(c.as_object_mut().unwrap().remove("iss"))), F::Issuer),
        ("iss of nobody", claim(|c| c["iss"] = json!("https://evil.example")), F::Issuer),
        ("iss with a slash more", claim(|c| c["iss"] = json!("https://issuer.example/")), F::Issuer),
        ("iss in capitals", claim(|c| c["iss"] = json!("HTTPS://ISSUER.EXAMPLE")), F::Issuer),
        ("iss a list", claim(|c| c["iss"] = json!(["https://issuer.example"])), F::Issuer),
        ("aud missing", claim(|c| drop(c.as_object_mut().unwrap().remove("aud"))), F::Audience),
        ("aud of others", claim(|c| c["aud"] = json!("other")), F::Audience),
        ("aud a part of ours", claim(|c| c["aud"] = json!("sluic")), F::Audience),
        ("aud with ours inside", claim(|c| c["aud"] = json!("x sluice")), F::Audience),
        ("aud empty", claim(|c| c["aud"] = json!([])), F::Audience),
        ("aud mixed", claim(|c| c["aud"] = json!(["sluice", 1])), F::Audience),
        ("aud an object", claim(|c| c["aud"] = json!({"sluice": 1})), F::Audience),
        ("exp missing", claim(|c| drop(c.as_object_mut().unwrap().remove("exp"))), F::Fields),
        ("exp a text", claim(|c| c["exp"] = json!("1900000000")), F::Fields),
        ("exp null", claim(|c| c["exp"] = json!(null)), F::Fields),
        ("exp negative", claim(|c| c["exp"] = json!(-1)), F::Fields),
        (
            "exp huge",
            text(r#"{"alg":"ES256"}"#, &body.replace(&format!("{}", NOW + 600), "99999999999999999999")),
            F::Fields,
        ),
        (
            "exp with an exponent",
            text(r#"{"alg":"ES256"}"#, &body.replace(&format!("{}", NOW + 600), "1e12")),
            F::Fields,
        ),
        ("exp just over", claim(|c| c["exp"] = json!(NOW - 30)), F::Expired),
        ("exp long ago", claim(|c| c["exp"] = json!(1)), F::Expired),
        ("nbf ahead", claim(|c| c["nbf"] = json!(NOW + 31)), F::NotYet),
        ("nbf a text", claim(|c| c["nbf"] = json!("0")), F::Fields),
        ("iat ahead", claim(|c| c["iat"] = json!(NOW + 31)), F::NotYet),
        ("lives too long", claim(|c| c["exp"] = json!(NOW + 3591)), F::Lifetime),
        (
            "lives too long, iat hidden",
            claim(|c| {
                c["exp"] = json!(NOW + 3601);
                drop(c.as_object_mut().unwrap().remove("iat"));
            }),
            F::Lifetime,
        ),
        ("sub missing", claim(|c| drop(c.as_object_mut().unwrap().remove("sub"))), F::Fields),
        ("sub empty", claim(|c| c["sub"] = json!(" ")), F::Fields),
        ("sub a number", claim(|c| c["sub"] = json!(7)), F::Fields),
        ("sub with a control", claim(|c| c["sub"] = json!("a\nb")), F::Fields),
        ("sub with a soft hyphen", claim(|c| c["sub"] = json!("ops-1\u{ad}")), F::Fields),
        ("sub with a joiner", claim(|c| c["sub"] = json!("ops-1\u{200d}")), F::Fields),
        ("sub with a mark of byte order", claim(|c| c["sub"] = json!("\u{feff}ops-1")), F::Fields),
        ("sub with a change of direction", claim(|c| c["sub"] = json!("a\u{202e}b")), F::Fields),
        ("requester with a space of no width", claim(|c| c["act"] = json!({"sub": "ada\u{200b}"})), F::Fields),
        ("required field missing", claim(|c| drop(c.as_object_mut().unwrap().remove("client_id"))), F::Fields),
        ("required field empty", claim(|c| c["client_id"] = json!("")), F::Fields),
        ("requester no text", claim(|c| c["act"] = json!({"sub": ["ada"]})), F::Fields),
        ("requester empty", claim(|c| c["act"] = json!({"sub": ""})), F::Fields),
        ("requester in a text", claim(|c| c["act"] = json!("ops-2")), F::Fields),
        ("requester in a list", claim(|c| c["act"] = json!([{"sub": "ops-2"}])), F::Fields),
        ("requester in null", claim(|c| c["act"] = json!(null)), F::Fields),
        ("roles in a text", claim(|c| c["realm"] = json!("admin")), F::Fields),
        ("roles an object", claim(|c| c["realm"]["roles"] = json!({"admin": true})), F::Fields),
        ("roles mixed", claim(|c| c["realm"]["roles"] = json!(["a", 1])), F::Fields),
    ];
    assert!(rows.len() >= 80, "{}", rows.len());
    for (what, text, fault) in rows {
        assert_eq!(believe(&text, &trusted, NOW).err(), Some(fault), "{what}");
    }
    assert!(believe(&good, &trusted, NOW).is_ok());
}

#[test]
fn an_issuer_speaks_for_itself_alone() {
    let (one, other) = (TestSigner::ed(), TestSigner::ed());
    let mut trusted = trusting(&one, &[Algorithm::EdDsa]);
    let mut second = trusting(&other, &[Algorithm::EdDsa]).remove(0);
    second.rules.issuer = "https://second.example".into();
    trusted.push(second);
    let header = json!({"alg": "EdDSA", "kid": "k-1"});
    let forged = token(&other, Algorithm::EdDsa, &header, &claims());
    assert_eq!(believe(&forged, &trusted, NOW).err(), Some(WRONG));
    trusted[0].keys = None;
    let good = token(&one, Algorithm::EdDsa, &header, &claims());
    assert_eq!(believe(&good, &trusted, NOW).err(), Some(TokenFault::NoKeys { issuer: 0 }));
}
