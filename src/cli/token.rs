//! `sluice token`: makes keys and tokens for development.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::{Args, Subcommand};
use jiff::Timestamp;
use ring::hmac;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Map, Value, json};

use super::{ExitReason, Sources, complain, new_ed25519_key, print, read_named_file};
use crate::base::ed25519;
use crate::base::finding::nearest;
use crate::base::secret::Secret;
use crate::config::{Config, IssuerConfig, KeySource};
use crate::console::role_names;
use crate::ports::Clock as _;
use crate::stations::admit::{Algorithm, FieldPath, is_name};

const KEY_FILE: &str = "signing-key.pem";
const SET_FILE: &str = "jwks.json";

/// Make keys and tokens for development
///
/// Refused unless all listeners and upstreams are on this machine: anyone who can mint tokens can impersonate anyone.
#[derive(Debug, Args)]
pub(super) struct TokenArgs {
    #[command(subcommand)]
    what: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Make a key pair: the private key `signing-key.pem`, and `jwks.json` for an issuer's `jwks_file`
    Keys {
        /// The folder for both files
        #[arg(long, default_value = ".", value_name = "DIR")]
        folder: PathBuf,
    },
    /// Print a token of a configured issuer
    Make(Make),
}

#[derive(Debug, Args)]
struct Make {
    #[command(flatten)]
    sources: Sources,
    /// The issuer's name in the configuration; needed only if there are several issuers
    #[arg(long)]
    issuer: Option<String>,
    /// The subject of the token (the caller)
    #[arg(long, default_value = "developer", value_parser = token_name)]
    subject: String,
    /// The person behind the caller
    #[arg(long, value_parser = token_name)]
    requester: Option<String>,
    /// A role; may be given several times
    #[arg(long = "role", value_parser = token_name)]
    roles: Vec<String>,
    /// How long the token is valid
    #[arg(long, default_value_t = 3600, value_name = "SECONDS")]
    lifetime_secs: i64,
    /// The private key written by `sluice token keys`, if the issuer has no shared secret
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

/// Takes a name that gates accept in a token.
fn token_name(text: &str) -> Result<String, String> {
    let refused =
        "every gate refuses a token with this name: write 1 to 512 bytes that are not blank and that people can see";
    if is_name(text) { Ok(text.to_owned()) } else { Err(refused.to_owned()) }
}

/// Says which role of the console was meant. Rules may name any other one, so the token is made as it is wanted.
fn meant_role(role: &str) -> Option<String> {
    let meant = nearest(role, role_names()).filter(|meant| *meant != role)?;
    Some(format!("the console has no role `{role}`: did you mean `{meant}`? The token has `{role}`"))
}

/// The contents of a token.
#[derive(Clone, Debug, Default)]
pub(super) struct WantedToken {
    pub subject: String,
    pub requester: Option<String>,
    pub roles: Vec<String>,
    pub lifetime_secs: i64,
}

pub(super) fn run(arguments: TokenArgs) -> anyhow::Result<ExitReason> {
    match arguments.what {
        TokenCommand::Keys { folder } => write_keys(&folder)?,
        TokenCommand::Make(make) => {
            let loaded =
                make.sources.load().map_err(|_| anyhow!("the configuration has errors; `sluice check` shows them"))?;
            require_loopback(&loaded.config)?;
            let issuer = issuer(&loaded.config, make.issuer.as_deref())?;
            let signer = TokenSigner::of(issuer, make.key.as_deref())?;
            let Make { subject, requester, roles, lifetime_secs, .. } = make;
            roles
                .iter()
                .filter_map(|role| meant_role(role))
                .for_each(|advice| complain(format_args!("sluice: {advice}")));
            let wanted = WantedToken { subject, requester, roles, lifetime_secs };
            print(&format!("{}\n", make_token(issuer, &signer, &wanted, crate::adapters::clock::SystemClock.now())?))?;
        }
    }
    Ok(ExitReason::Done)
}

/// The key that signs.
pub(super) enum TokenSigner {
    Shared(Algorithm, Secret),
    Key(Ed25519KeyPair),
}

impl TokenSigner {
    pub(super) fn of(issuer: &IssuerConfig, key: Option<&Path>) -> anyhow::Result<TokenSigner> {
        match (&issuer.keys, key) {
            (KeySource::Shared(secret), None) => {
                let algorithm =
                    issuer.algorithms.first().copied().ok_or_else(|| anyhow!("the issuer has no algorithm"))?;
                Ok(TokenSigner::Shared(algorithm, secret.clone()))
            }
            (KeySource::Shared(_), Some(_)) => bail!("the issuer has a shared secret; leave `--key` out"),
            (_, Some(path)) if issuer.algorithms.contains(&Algorithm::EdDsa) => {
                let pem = read_named_file(path)?;
                let pair = ed25519::of_pem(&pem);
                pair.map(TokenSigner::Key).with_context(|| {
                    format!("`{}` is not a private key written by `sluice token keys`", path.display())
                })
            }
            (_, Some(_)) => bail!("the issuer does not accept `EdDSA`; add it to the issuer's `algorithms`"),
            (_, None) => bail!("the issuer has no shared secret; name a private key with `--key`"),
        }
    }

    fn algorithm(&self) -> Algorithm {
        match self {
            TokenSigner::Shared(algorithm, _) => *algorithm,
            TokenSigner::Key(_) => Algorithm::EdDsa,
        }
    }

    fn sign(&self, message: &[u8]) -> anyhow::Result<Vec<u8>> {
        match self {
            TokenSigner::Key(pair) => Ok(pair.sign(message).as_ref().to_vec()),
            TokenSigner::Shared(algorithm, secret) => {
                let hash = algorithm
                    .hmac()
                    .ok_or_else(|| anyhow!("`{}` cannot be used with a shared secret", algorithm.as_str()))?;
                Ok(hmac::sign(&hmac::Key::new(hash, secret.reveal().as_bytes()), message).as_ref().to_vec())
            }
        }
    }
}

/// Makes a token that the issuer's rules accept.
pub(super) fn make_token(
    issuer: &IssuerConfig,
    signer: &TokenSigner,
    wanted: &WantedToken,
    now: Timestamp,
) -> anyhow::Result<String> {
    let longest = i64::try_from(issuer.longest_lifetime.as_secs()).unwrap_or(i64::MAX);
    if !(1..=longest).contains(&wanted.lifetime_secs) {
        bail!("the lifetime of this issuer's tokens must be 1 to {longest} seconds");
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
        (None, false) => bail!("the issuer's tokens have no roles; set `roles` of the issuer"),
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
        (all, Some(name)) => {
            all.iter().find(|i| i.name == name).ok_or_else(|| anyhow!("the configuration has no issuer `{name}`"))
        }
        (_, None) => bail!("the configuration does not have exactly one issuer; name one with `--issuer`"),
    }
}

fn require_loopback(config: &Config) -> anyhow::Result<()> {
    if !config.probes.listen.ip().is_loopback() {
        bail!("`probes` is reachable from other machines: tokens can be made only for development on this machine");
    }
    if config.console.as_ref().is_some_and(|console| !console.listen.ip().is_loopback()) {
        bail!("`console` is reachable from other machines: tokens can be made only for development on this machine");
    }
    for one in &config.environments {
        let host = &one.upstream.host;
        let upstream_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if !one.listen.ip().is_loopback() || !upstream_here {
            bail!(
                "`{}` is reachable from other machines: tokens can be made only for development on this machine",
                one.environment
            );
        }
    }
    Ok(())
}

fn write_keys(folder: &Path) -> anyhow::Result<()> {
    let (private, pair) = new_ed25519_key()?;
    let key_file = folder.join(KEY_FILE);
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&key_file).with_context(|| {
            format!("`{}` cannot be written; an existing key is never overwritten", key_file.display())
        })?;
    file.write_all(private.reveal().as_bytes())?;
    let x = URL_SAFE_NO_PAD.encode(pair.public_key());
    let set = json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "x": x }] });
    let set_file = folder.join(SET_FILE);
    std::fs::write(&set_file, format!("{set:#}\n"))
        .with_context(|| format!("`{}` cannot be written", set_file.display()))?;
    print(&format!(
        "Wrote the private key to `{}` and the public key to `{}`. Name the second in an issuer's `jwks_file`, and add \
         `EdDSA` to its `algorithms`.\n",
        key_file.display(),
        set_file.display()
    ))
}

impl std::fmt::Debug for TokenSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Signer(…)")
    }
}
