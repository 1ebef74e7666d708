use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaKeyPair};
use aws_lc_rs::{encoding::AsDer, hmac};
use serde_json::json;

use super::*;
use crate::base::secret::Secret;

const NOW: i64 = 1_800_000_000;
const SECRET: &str = "a secret of sixty-four bytes, long enough for every hash there is!";

/// A key pair of an issuer: what signs, and what the set shows.
enum Signer {
    Rsa(RsaKeyPair),
    Curve(EcdsaKeyPair, &'static str),
    Ed(Ed25519KeyPair),
    Shared,
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Signer {
    fn rsa(size: KeySize) -> Signer {
        Signer::Rsa(RsaKeyPair::generate(size).unwrap())
    }

    fn curve(algorithm: &'static signature::EcdsaSigningAlgorithm, name: &'static str) -> Signer {
        Signer::Curve(EcdsaKeyPair::generate(algorithm).unwrap(), name)
    }

    fn ed() -> Signer {
        Signer::Ed(Ed25519KeyPair::generate().unwrap())
    }

    fn jwk(&self, id: &str) -> Value {
        match self {
            Signer::Rsa(pair) => {
                let (n, e) = modulus_and_exponent(pair.public_key().as_ref());
                json!({"kty": "RSA", "kid": id, "use": "sig", "n": encoded(n), "e": encoded(e)})
            }
            Signer::Curve(pair, name) => {
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                json!({"kty": "EC", "crv": name, "kid": id, "x": encoded(x), "y": encoded(y)})
            }
            Signer::Ed(pair) => json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": encoded(pair.public_key())}),
            Signer::Shared => json!({"kty": "oct", "kid": id, "k": encoded(SECRET)}),
        }
    }

    fn sign(&self, algorithm: Algorithm, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Signer::Rsa(pair) => {
                let padding: &dyn signature::RsaEncoding = match algorithm {
                    Algorithm::Rs256 => &signature::RSA_PKCS1_SHA256,
                    Algorithm::Rs384 => &signature::RSA_PKCS1_SHA384,
                    Algorithm::Rs512 => &signature::RSA_PKCS1_SHA512,
                    Algorithm::Ps256 => &signature::RSA_PSS_SHA256,
                    Algorithm::Ps384 => &signature::RSA_PSS_SHA384,
                    _ => &signature::RSA_PSS_SHA512,
                };
                let mut made = vec![0; pair.public_modulus_len()];
                pair.sign(padding, &random, message, &mut made).unwrap();
                made
            }
            Signer::Curve(pair, _) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Signer::Ed(pair) => pair.sign(message).as_ref().to_vec(),
            Signer::Shared => {
                let key = hmac::Key::new(algorithm.hmac().unwrap(), SECRET.as_bytes());
                hmac::sign(&key, message).as_ref().to_vec()
            }
        }
    }
}

/// From the DER of an RSA public key: a sequence of two integers.
fn modulus_and_exponent(der: &[u8]) -> (Vec<u8>, Vec<u8>) {
    fn element(der: &[u8]) -> (&[u8], &[u8]) {
        let long = usize::from(der[1] & 0x7f);
        let (start, length) = match der[1] {
            short @ ..0x80 => (2, usize::from(short)),
            _ => (2 + long, der[2..2 + long].iter().fold(0, |n, b| n << 8 | usize::from(*b))),
        };
        der[start..].split_at(length)
    }
    let (sequence, _) = element(der);
    let (modulus, rest) = element(sequence);
    let (exponent, _) = element(rest);
    (modulus.strip_prefix(&[0]).unwrap_or(modulus).to_vec(), exponent.to_vec())
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

fn token(signer: &Signer, algorithm: Algorithm, header: &Value, claims: &Value) -> String {
    let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
    let signature = encoded(signer.sign(algorithm, signed.as_bytes()));
    format!("{signed}.{signature}")
}

fn rules(algorithms: &[Algorithm]) -> IssuerRules {
    IssuerRules {
        name: "main".into(),
        issuer: "https://issuer.example".into(),
        audiences: vec!["sluice".into()],
        environments: vec![Environment::Sandbox],
        algorithms: algorithms.to_vec(),
        leeway_secs: 30,
        longest_lifetime_secs: 3600,
        required: vec![FieldPath::parse("client_id").unwrap()],
        roles: FieldPath::parse("realm.roles"),
        requester: FieldPath::parse("act.sub").unwrap(),
        refuses_holds: false,
    }
}

fn trusting(signer: &Signer, algorithms: &[Algorithm]) -> Vec<Trusted> {
    let set = json!({"keys": [signer.jwk("k-1")]}).to_string();
    let keys = match signer {
        Signer::Shared => KeySet::shared(&Secret::new(SECRET.into())),
        _ => KeySet::from_jwks(set.as_bytes()).unwrap(),
    };
    vec![Trusted { rules: rules(algorithms), keys: Some(Arc::new(keys)) }]
}

#[test]
fn good_tokens_of_every_algorithm_are_believed() {
    use Algorithm as A;
    let rsa = Signer::rsa(KeySize::Rsa2048);
    let p256 = Signer::curve(&signature::ECDSA_P256_SHA256_FIXED_SIGNING, "P-256");
    let p384 = Signer::curve(&signature::ECDSA_P384_SHA384_FIXED_SIGNING, "P-384");
    let p521 = Signer::curve(&signature::ECDSA_P521_SHA512_FIXED_SIGNING, "P-521");
    let (ed, shared) = (Signer::ed(), Signer::Shared);
    let rows: [(&Signer, &[A]); 6] = [
        (&rsa, &[A::Rs256, A::Rs384, A::Rs512, A::Ps256, A::Ps384, A::Ps512]),
        (&p256, &[A::Es256]),
        (&p384, &[A::Es384]),
        (&p521, &[A::Es512]),
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
    assert_eq!(tried, 26);
}

#[test]
fn a_public_key_in_pem_is_a_key() {
    let pair = EcdsaKeyPair::generate(&signature::ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let der: aws_lc_rs::encoding::PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
    let standard = base64::engine::general_purpose::STANDARD.encode(der.as_ref());
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{standard}\n-----END PUBLIC KEY-----\n");
    let keys = KeySet::from_pem(pem.as_bytes()).unwrap();
    let trusted = [Trusted { rules: rules(&[Algorithm::Es256]), keys: Some(Arc::new(keys)) }];
    let signer = Signer::Curve(pair, "P-256");
    let text = token(&signer, Algorithm::Es256, &json!({"alg": "ES256"}), &claims());
    assert!(believe(&text, &trusted, NOW).is_ok());
    // The public key as a shared secret: the confusion of algorithms.
    let confused = token(&Signer::Shared, Algorithm::Hs256, &json!({"alg": "HS256"}), &claims());
    assert_eq!(believe(&confused, &trusted, NOW).err(), Some(TokenFault::Algorithm));
}

/// Each is wrong in one way, and none is believed.
#[test]
fn attacks_are_not_believed() {
    use TokenFault as F;
    let signer = Signer::curve(&signature::ECDSA_P256_SHA256_FIXED_SIGNING, "P-256");
    let stranger = Signer::curve(&signature::ECDSA_P256_SHA256_FIXED_SIGNING, "P-256");
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
        ("junk behind the signature", format!("{h}.{c}.{s}AA"), F::Signature),
        ("cut signature", format!("{h}.{c}.{}", &s[..s.len() - 2]), F::Signature),
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
        ("signed by a stranger", token(&stranger, Algorithm::Es256, &plain, &claims()), F::Signature),
        ("signature of zeros", format!("{h}.{c}.{}", encoded([0_u8; 64])), F::Signature),
        ("signature in DER", format!("{h}.{c}.{}", encoded([0x30, 6, 2, 1, 1, 2, 1, 1])), F::Signature),
        (
            "claims changed",
            format!("{h}.{}.{s}", encoded(with(|c| c["sub"] = json!("admin")).to_string())),
            F::Signature,
        ),
        ("header changed", format!("{}.{c}.{s}", encoded(r#"{"alg":"ES256","kid":"k-1","a":1}"#)), F::Signature),
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
        ("required field missing", claim(|c| drop(c.as_object_mut().unwrap().remove("client_id"))), F::Fields),
        ("required field empty", claim(|c| c["client_id"] = json!("")), F::Fields),
        ("requester no text", claim(|c| c["act"] = json!({"sub": ["ada"]})), F::Fields),
        ("requester empty", claim(|c| c["act"] = json!({"sub": ""})), F::Fields),
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
    let (one, other) = (Signer::ed(), Signer::ed());
    let mut trusted = trusting(&one, &[Algorithm::EdDsa]);
    let mut second = trusting(&other, &[Algorithm::EdDsa]).remove(0);
    second.rules.issuer = "https://second.example".into();
    trusted.push(second);
    let header = json!({"alg": "EdDSA", "kid": "k-1"});
    let forged = token(&other, Algorithm::EdDsa, &header, &claims());
    assert_eq!(believe(&forged, &trusted, NOW).err(), Some(TokenFault::Signature));
    trusted[0].keys = None;
    let good = token(&one, Algorithm::EdDsa, &header, &claims());
    assert_eq!(believe(&good, &trusted, NOW).err(), Some(TokenFault::NoKeys { issuer: 0 }));
}

#[test]
fn sets_of_keys_are_read_strictly() {
    use crate::stations::admit::KeyFault;
    let fault = |set: Value| KeySet::from_jwks(set.to_string().as_bytes()).err();
    let rsa = Signer::rsa(KeySize::Rsa2048);
    assert_eq!(fault(json!({"keys": [rsa.jwk("a"), Signer::ed().jwk("b"), {"kty": "new"}]})), None);
    assert_eq!(fault(json!({"keys": [rsa.jwk("a"), Signer::ed().jwk("a")]})), Some(KeyFault::SameId));
    assert_eq!(fault(json!({"keys": []})), Some(KeyFault::NoneUsable));
    assert_eq!(fault(json!({"keys": [Signer::Shared.jwk("a")]})), Some(KeyFault::NoneUsable));
    assert_eq!(
        fault(json!({"keys": [{"kty": "RSA", "n": encoded([1_u8; 128]), "e": "AQAB"}]})),
        Some(KeyFault::NoneUsable)
    );
    assert_eq!(fault(json!({"keys": vec![json!({"kty": "new"}); 20_000]})), Some(KeyFault::TooMany));
    assert_eq!(fault(json!([])), Some(KeyFault::NotASet));
    assert!(matches!(KeySet::from_jwks(b"<html>").err(), Some(KeyFault::Json(_))));
    assert_eq!(KeySet::from_pem(b"nothing").err(), Some(KeyFault::Pem));
    let mut encrypting = rsa.jwk("a");
    encrypting["use"] = json!("enc");
    assert_eq!(fault(json!({"keys": [encrypting]})), Some(KeyFault::NoneUsable));
}
