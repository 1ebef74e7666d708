//! Believing a token: the first time, by algorithm, and again.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{
    self, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _, RsaEncoding, RsaKeyPair,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use sluice::adapters::clock::SystemClock;
use sluice::adapters::identity::{Identity, Keyring};
use sluice::base::ids::Environment;
use sluice::base::secret::Secret;
use sluice::config::{HoldsMode, IssuerConfig, KeySource, SubjectForm};
use sluice::ports::Clock as _;
use sluice::stations::admit::{Algorithm, FieldPath, IssuerRules, KeySet, Trusted, believe};
use sluice::telemetry::Metrics;

use crate::micro::{Step, few, step};
use crate::token::{ISSUER, SECRET, claims};

enum Pair {
    Rsa(RsaKeyPair, &'static dyn RsaEncoding),
    Curve(EcdsaKeyPair, &'static str),
    Ed(Ed25519KeyPair),
    Shared(hmac::Algorithm),
}

pub(crate) fn steps() -> anyhow::Result<Vec<Step>> {
    let mut steps = Vec::new();
    for algorithm in Algorithm::ALL {
        let pair = Pair::of(algorithm)?;
        let token = pair.token(algorithm)?;
        let trusted = [Trusted { rules: rules(algorithm)?, keys: Some(Arc::new(pair.keys()?)) }];
        let now_secs = SystemClock.now().as_second();
        believe(&token, &trusted, now_secs).map_err(|fault| anyhow::anyhow!("{}: {fault}", algorithm.as_str()))?;
        let name = format!("token, first time: {}", algorithm.as_str());
        steps.push(few(&name, || believe(&token, &trusted, now_secs).is_ok()));
    }
    steps.push(remembered()?);
    Ok(steps)
}

fn remembered() -> anyhow::Result<Step> {
    let issuer = IssuerConfig {
        name: "main".to_owned(),
        issuer: ISSUER.to_owned(),
        audiences: vec!["sluice".to_owned()],
        people_audiences: Vec::new(),
        environments: Environment::ALL.to_vec(),
        algorithms: vec![Algorithm::Hs256],
        keys: KeySource::Shared(Secret::new(SECRET.to_owned())),
        longest_stale: Duration::from_secs(86_400),
        leeway: Duration::ZERO,
        longest_lifetime: Duration::from_secs(86_400),
        required: Vec::new(),
        roles: None,
        requester: FieldPath::parse("act.sub").context("act.sub is a path")?,
        holds: HoldsMode::Wait,
        subjects: SubjectForm::Folded,
    };
    let keyring = Arc::new(Keyring::new(&[issuer], Metrics::new()?)?);
    let identity = Identity::new(keyring, Arc::new(SystemClock));
    let token = Secret::new(crate::token::token().to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    Ok(step("token, remembered", || runtime.block_on(identity.believe(&token)).is_ok()))
}

fn rules(algorithm: Algorithm) -> anyhow::Result<IssuerRules> {
    Ok(IssuerRules {
        name: "main".into(),
        issuer: ISSUER.to_owned(),
        audiences: vec!["sluice".to_owned()],
        people_audiences: Vec::new(),
        environments: Environment::ALL.to_vec(),
        algorithms: vec![algorithm],
        leeway_secs: 0,
        longest_lifetime_secs: 86_400,
        required: Vec::new(),
        roles: None,
        requester: FieldPath::parse("act.sub").context("act.sub is a path")?,
        refuses_holds: false,
        opaque: false,
    })
}

/// A key that `openssl` makes: ring makes none.
fn rsa_pair() -> anyhow::Result<RsaKeyPair> {
    let bits = "rsa_keygen_bits:2048";
    let arguments = ["genpkey", "-quiet", "-algorithm", "RSA", "-pkeyopt", bits];
    let made = Command::new("openssl").args(arguments).output().context("openssl can be run")?;
    let der = PrivateKeyDer::from_pem_slice(&made.stdout).context("openssl makes a key")?;
    RsaKeyPair::from_pkcs8(der.secret_der()).ok().context("the key can be read")
}

impl Pair {
    fn of(algorithm: Algorithm) -> anyhow::Result<Pair> {
        let rsa = |encoding: &'static dyn RsaEncoding| -> anyhow::Result<Pair> { Ok(Pair::Rsa(rsa_pair()?, encoding)) };
        let random = SystemRandom::new();
        let curve = |of: &'static EcdsaSigningAlgorithm, name: &'static str| -> anyhow::Result<Pair> {
            let made = EcdsaKeyPair::generate_pkcs8(of, &random).ok().context("a key can be made")?;
            let pair = EcdsaKeyPair::from_pkcs8(of, made.as_ref(), &random).ok().context("it can be read")?;
            Ok(Pair::Curve(pair, name))
        };
        match algorithm {
            Algorithm::Rs256 => rsa(&signature::RSA_PKCS1_SHA256),
            Algorithm::Rs384 => rsa(&signature::RSA_PKCS1_SHA384),
            Algorithm::Rs512 => rsa(&signature::RSA_PKCS1_SHA512),
            Algorithm::Ps256 => rsa(&signature::RSA_PSS_SHA256),
            Algorithm::Ps384 => rsa(&signature::RSA_PSS_SHA384),
            Algorithm::Ps512 => rsa(&signature::RSA_PSS_SHA512),
            Algorithm::Es256 => curve(&signature::ECDSA_P256_SHA256_FIXED_SIGNING, "P-256"),
            Algorithm::Es384 => curve(&signature::ECDSA_P384_SHA384_FIXED_SIGNING, "P-384"),
            Algorithm::EdDsa => {
                let made = Ed25519KeyPair::generate_pkcs8(&random).ok().context("a key can be made")?;
                Ok(Pair::Ed(Ed25519KeyPair::from_pkcs8(made.as_ref()).ok().context("it can be read")?))
            }
            Algorithm::Hs256 | Algorithm::Hs384 | Algorithm::Hs512 => {
                Ok(Pair::Shared(algorithm.hmac().context("it is one with a shared secret")?))
            }
        }
    }

    fn keys(&self) -> anyhow::Result<KeySet> {
        let encoded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let key: Value = match self {
            Pair::Rsa(pair, _) => {
                let signature::RsaPublicKeyComponents::<Vec<u8>> { n, e } = pair.public().into();
                json!({"kty": "RSA", "n": encoded(&n), "e": encoded(&e)})
            }
            Pair::Curve(pair, name) => {
                let point = pair.public_key().as_ref().get(1..).context("a point has coordinates")?;
                let (x, y) = point.split_at(point.len() / 2);
                json!({"kty": "EC", "crv": name, "x": encoded(x), "y": encoded(y)})
            }
            Pair::Ed(pair) => json!({"kty": "OKP", "crv": "Ed25519", "x": encoded(pair.public_key().as_ref())}),
            Pair::Shared(_) => return Ok(KeySet::shared(&Secret::new(SECRET.to_owned()))),
        };
        Ok(KeySet::from_jwks(json!({"keys": [key]}).to_string().as_bytes())?)
    }

    fn token(&self, algorithm: Algorithm) -> anyhow::Result<String> {
        let header = json!({"alg": algorithm.as_str(), "kid": "k-1", "typ": "JWT"}).to_string();
        let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims().to_string()));
        let (random, bytes) = (SystemRandom::new(), message.as_bytes());
        let signature = match self {
            Pair::Rsa(pair, encoding) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(*encoding, &random, bytes, &mut signature).ok().context("RSA can sign")?;
                signature
            }
            Pair::Curve(pair, _) => pair.sign(&random, bytes).ok().context("a curve can sign")?.as_ref().to_vec(),
            Pair::Ed(pair) => pair.sign(bytes).as_ref().to_vec(),
            Pair::Shared(hash) => hmac::sign(&hmac::Key::new(*hash, SECRET.as_bytes()), bytes).as_ref().to_vec(),
        };
        Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}
