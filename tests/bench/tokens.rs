//! Believing a token: the first time, by algorithm, and again.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{self, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _, RsaEncoding};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::json;
use sluice::adapters::clock::SystemClock;
use sluice::adapters::identity::{Identity, Keyring};
use sluice::base::ids::Environment;
use sluice::base::secret::Secret;
use sluice::config::{HoldsMode, IssuerConfig, KeySource};
use sluice::ports::Clock as _;
use sluice::stations::admit::{Algorithm, FieldPath, IssuerRules, KeySet, Trusted, believe};
use sluice::telemetry::Metrics;

use crate::micro::{Step, few, step};
use crate::token::{ISSUER, SECRET, claims};

enum Pair {
    Rsa(RsaKeyPair, &'static dyn RsaEncoding),
    Curve(EcdsaKeyPair),
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
        environments: Environment::ALL.to_vec(),
        algorithms: vec![algorithm],
        leeway_secs: 0,
        longest_lifetime_secs: 86_400,
        required: Vec::new(),
        roles: None,
        requester: FieldPath::parse("act.sub").context("act.sub is a path")?,
        refuses_holds: false,
    })
}

impl Pair {
    fn of(algorithm: Algorithm) -> anyhow::Result<Pair> {
        let rsa = |encoding: &'static dyn RsaEncoding| -> anyhow::Result<Pair> {
            Ok(Pair::Rsa(RsaKeyPair::generate(KeySize::Rsa2048)?, encoding))
        };
        let curve = |of: &'static EcdsaSigningAlgorithm| -> anyhow::Result<Pair> {
            Ok(Pair::Curve(EcdsaKeyPair::generate(of)?))
        };
        match algorithm {
            Algorithm::Rs256 => rsa(&signature::RSA_PKCS1_SHA256),
            Algorithm::Rs384 => rsa(&signature::RSA_PKCS1_SHA384),
            Algorithm::Rs512 => rsa(&signature::RSA_PKCS1_SHA512),
            Algorithm::Ps256 => rsa(&signature::RSA_PSS_SHA256),
            Algorithm::Ps384 => rsa(&signature::RSA_PSS_SHA384),
            Algorithm::Ps512 => rsa(&signature::RSA_PSS_SHA512),
            Algorithm::Es256 => curve(&signature::ECDSA_P256_SHA256_FIXED_SIGNING),
            Algorithm::Es384 => curve(&signature::ECDSA_P384_SHA384_FIXED_SIGNING),
            Algorithm::Es512 => curve(&signature::ECDSA_P521_SHA512_FIXED_SIGNING),
            Algorithm::EdDsa => Ok(Pair::Ed(Ed25519KeyPair::generate()?)),
            Algorithm::Hs256 | Algorithm::Hs384 | Algorithm::Hs512 => {
                Ok(Pair::Shared(algorithm.hmac().context("it is one with a shared secret")?))
            }
        }
    }

    fn keys(&self) -> anyhow::Result<KeySet> {
        let der: PublicKeyX509Der<'_> = match self {
            Pair::Rsa(pair, _) => pair.public_key().as_der()?,
            Pair::Curve(pair) => pair.public_key().as_der()?,
            Pair::Ed(pair) => pair.public_key().as_der()?,
            Pair::Shared(_) => return Ok(KeySet::shared(&Secret::new(SECRET.to_owned()))),
        };
        let encoded = STANDARD.encode(der.as_ref());
        Ok(KeySet::from_pem(format!("-----BEGIN PUBLIC KEY-----\n{encoded}\n-----END PUBLIC KEY-----\n").as_bytes())?)
    }

    fn token(&self, algorithm: Algorithm) -> anyhow::Result<String> {
        let header = json!({"alg": algorithm.as_str(), "kid": "k-1", "typ": "JWT"}).to_string();
        let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims().to_string()));
        let (random, bytes) = (SystemRandom::new(), message.as_bytes());
        let signature = match self {
            Pair::Rsa(pair, encoding) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(*encoding, &random, bytes, &mut signature)?;
                signature
            }
            Pair::Curve(pair) => pair.sign(&random, bytes)?.as_ref().to_vec(),
            Pair::Ed(pair) => pair.sign(bytes).as_ref().to_vec(),
            Pair::Shared(hash) => hmac::sign(&hmac::Key::new(*hash, SECRET.as_bytes()), bytes).as_ref().to_vec(),
        };
        Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}
