//! `sluice token`: keys and tokens to try things with.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::hmac;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::{Args, Subcommand};
use jiff::Timestamp;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Map, Value, json};

use super::{Ending, Sources, print};
use crate::base::secret::Secret;
use crate::config::{Config, IssuerConfig, KeySource};
use crate::ports::Clock as _;
use crate::stations::admit::{Algorithm, FieldPath};

const KEY_FILE: &str = "signing-key.pem";
const SET_FILE: &str = "jwks.json";

/// Make keys and tokens for development
///
/// Refused where a listener or an upstream is not on this machine: whoever can make tokens is everybody.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make a key pair: `signing-key.pem`, which signs, and `jwks.json`, which an issuer's `jwks_file` can name
    Keys {
        /// Where they are written
        #[arg(long, default_value = ".", value_name = "DIR")]
        folder: PathBuf,
    },
    /// Print a token of an issuer of the configuration
    Make(Make),
}

#[derive(Debug, Args)]
struct Make {
    #[command(flatten)]
    sources: Sources,
    /// The issuer's name in the configuration; not needed where there is one only
    #[arg(long)]
    issuer: Option<String>,
    /// Who calls
    #[arg(long, default_value = "developer")]
    subject: String,
    /// The person behind it
    #[arg(long)]
    requester: Option<String>,
    /// A role; may stand several times
    #[arg(long = "role")]
    roles: Vec<String>,
    /// How long it is good
    #[arg(long, default_value_t = 3600, value_name = "SECONDS")]
    lifetime_secs: i64,
    /// The key that `sluice token keys` made, where the issuer has no shared secret
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

/// What a token is to say.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub subject: String,
    pub requester: Option<String>,
    pub roles: Vec<String>,
    pub lifetime_secs: i64,
}

pub(super) fn run(arguments: Arguments) -> anyhow::Result<Ending> {
    match arguments.what {
        What::Keys { folder } => keys(&folder)?,
        What::Make(make) => {
            let loaded =
                make.sources.load().map_err(|_| anyhow!("the configuration is wrong; `sluice check` says where"))?;
            on_this_machine(&loaded.config)?;
            let issuer = issuer(&loaded.config, make.issuer.as_deref())?;
            let signer = Signer::of(issuer, make.key.as_deref())?;
            let Make { subject, requester, roles, lifetime_secs, .. } = make;
            let wanted = Wanted { subject, requester, roles, lifetime_secs };
            print(&format!("{}\n", token(issuer, &signer, &wanted, crate::adapters::clock::SystemClock.now())?))?;
        }
    }
    Ok(Ending::Done)
}

/// What signs.
pub(super) enum Signer {
    Shared(Algorithm, Secret),
    Key(Ed25519KeyPair),
}

impl Signer {
    pub(super) fn of(issuer: &IssuerConfig, key: Option<&Path>) -> anyhow::Result<Signer> {
        match (&issuer.keys, key) {
            (KeySource::Shared(secret), None) => {
                let algorithm =
                    issuer.algorithms.first().copied().ok_or_else(|| anyhow!("the issuer has no algorithm"))?;
                Ok(Signer::Shared(algorithm, secret.clone()))
            }
            (KeySource::Shared(_), Some(_)) => bail!("the issuer has a shared secret; leave `--key` out"),
            (_, Some(path)) if issuer.algorithms.contains(&Algorithm::EdDsa) => {
                let pem = std::fs::read(path).with_context(|| format!("`{}` cannot be read", path.display()))?;
                let broken = || anyhow!("`{}` is not a key that `sluice token keys` made", path.display());
                let der = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| broken())?;
                Ed25519KeyPair::from_pkcs8(der.secret_der()).map(Signer::Key).map_err(|_| broken())
            }
            (_, Some(_)) => bail!("the issuer does not take `EdDSA`; add it to its `algorithms`"),
            (_, None) => bail!("the issuer's own key is not here; name one with `--key`"),
        }
    }

    fn algorithm(&self) -> Algorithm {
        match self {
            Signer::Shared(algorithm, _) => *algorithm,
            Signer::Key(_) => Algorithm::EdDsa,
        }
    }

    fn sign(&self, message: &[u8]) -> anyhow::Result<Vec<u8>> {
        match self {
            Signer::Key(pair) => Ok(pair.sign(message).as_ref().to_vec()),
            Signer::Shared(algorithm, secret) => {
                let hash = algorithm
                    .hmac()
                    .ok_or_else(|| anyhow!("`{}` does not go with a shared secret", algorithm.as_str()))?;
                Ok(hmac::sign(&hmac::Key::new(hash, secret.reveal().as_bytes()), message).as_ref().to_vec())
            }
        }
    }
}

/// A token that the issuer's rules take.
pub(super) fn token(issuer: &IssuerConfig, signer: &Signer, wanted: &Wanted, now: Timestamp) -> anyhow::Result<String> {
    let longest = i64::try_from(issuer.longest_lifetime.as_secs()).unwrap_or(i64::MAX);
    if !(1..=longest).contains(&wanted.lifetime_secs) {
        bail!("a token of this issuer is good for 1 to {longest} seconds");
    }
    let now = now.as_second();
    let mut claims = Map::new();
    claims.insert("iss".to_owned(), json!(issuer.issuer));
    claims.insert("aud".to_owned(), json!(issuer.audiences.first()));
    claims.insert("sub".to_owned(), json!(wanted.subject));
    claims.insert("iat".to_owned(), json!(now));
    claims.insert("exp".to_owned(), json!(now.saturating_add(wanted.lifetime_secs)));
    let mut claims = Value::Object(claims);
    for path in &issuer.required {
        put(&mut claims, path, json!("development"));
    }
    match (&issuer.roles, wanted.roles.is_empty()) {
        (Some(path), false) => put(&mut claims, path, json!(wanted.roles)),
        (None, false) => bail!("the issuer's tokens have no roles; set its `roles`"),
        (_, true) => {}
    }
    if let Some(requester) = &wanted.requester {
        put(&mut claims, &issuer.requester, json!(requester));
    }
    let header = json!({ "alg": signer.algorithm().as_str(), "typ": "JWT" });
    let signed =
        format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()));
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signer.sign(signed.as_bytes())?)))
}

fn put(claims: &mut Value, path: &FieldPath, value: Value) {
    let mut place = claims;
    for step in path.steps() {
        if !place.is_object() {
            *place = json!({});
        }
        let Some(members) = place.as_object_mut() else { return };
        place = members.entry(step).or_insert(Value::Null);
    }
    *place = value;
}

fn issuer<'c>(config: &'c Config, name: Option<&str>) -> anyhow::Result<&'c IssuerConfig> {
    match (config.issuers.as_slice(), name) {
        ([only], None) => Ok(only),
        (all, Some(name)) => all.iter().find(|i| i.name == name).ok_or_else(|| anyhow!("there is no issuer `{name}`")),
        (_, None) => bail!("there are several issuers; name one with `--issuer`"),
    }
}

fn on_this_machine(config: &Config) -> anyhow::Result<()> {
    if !config.probes.listen.ip().is_loopback() {
        bail!("`probes` is not on this machine alone: tokens are made for development only");
    }
    if config.console.as_ref().is_some_and(|console| !console.listen.ip().is_loopback()) {
        bail!("`console` is not on this machine alone: tokens are made for development only");
    }
    for one in &config.environments {
        let host = &one.upstream.host;
        let upstream_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if !one.listen.ip().is_loopback() || !upstream_here {
            bail!("`{}` is not on this machine alone: tokens are made for development only", one.environment);
        }
    }
    Ok(())
}

fn keys(folder: &Path) -> anyhow::Result<()> {
    let pair = Ed25519KeyPair::generate().map_err(|_| anyhow!("no key can be made"))?;
    let der: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| anyhow!("the key cannot be written"))?;
    let text = base64::engine::general_purpose::STANDARD.encode(der.as_ref());
    let key_file = folder.join(KEY_FILE);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&key_file)
        .with_context(|| format!("`{}` cannot be written; a key is never replaced", key_file.display()))?;
    file.write_all(format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n").as_bytes())?;
    let x = URL_SAFE_NO_PAD.encode(pair.public_key());
    let set = json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "x": x }] });
    let set_file = folder.join(SET_FILE);
    std::fs::write(&set_file, format!("{set:#}\n"))
        .with_context(|| format!("`{}` cannot be written", set_file.display()))?;
    print(&format!(
        "Wrote `{}`, which signs, and `{}`, which an issuer's `jwks_file` can name; its `algorithms` need `EdDSA`.\n",
        key_file.display(),
        set_file.display()
    ))
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Signer(…)")
    }
}
