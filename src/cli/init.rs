//! `sluice init`: writes a first configuration.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use ring::signature::KeyPair as _;

use super::secret_contents::PLACEHOLDER;
use super::{ExitReason, new_ed25519_key, policies, print, random_secret};
use crate::adapters::random;
use crate::audit::CheckpointKey;
use crate::config;

/// Write a first configuration in which every setting is explained
///
/// Without options it is for a first try: its upstreams are on this machine, and its issuer signs with a new random secret,
/// in the file `token.secret` beside it. Its policies are in the folder `policies`. With `--production-upstream` and
/// `--jwks-url` it is for production: new keys seal the store and sign the audit log, and `sluice check --production`
/// passes when the tokens of upstream are in their files.
#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// The file to write
    #[arg(long, value_name = "FILE", default_value = "sluice.toml")]
    to: PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
    /// The payments API of production, such as https://api.example.com
    #[arg(long, value_name = "URL")]
    production_upstream: Option<String>,
    /// The payments API's sandbox
    #[arg(long, value_name = "URL")]
    sandbox_upstream: Option<String>,
    /// The exact `iss` of your issuer's tokens
    #[arg(long, value_name = "ISSUER", requires = "jwks_url")]
    issuer: Option<String>,
    /// The audience that a token must name
    #[arg(long, value_name = "AUDIENCE", default_value = "sluice")]
    audience: String,
    /// Where your issuer publishes its keys, instead of a secret of this gate
    #[arg(long, value_name = "URL", requires = "issuer")]
    jwks_url: Option<String>,
    /// The algorithm of your issuer's signatures
    #[arg(long, value_name = "NAME", default_value = "RS256", requires = "jwks_url")]
    algorithm: String,
    /// The folder of the store and the audit log, such as /var/lib/sluice [default: the folder of the file]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print the reference of all settings instead of writing a file
    #[arg(long, conflicts_with_all = ["to", "force", "production_upstream", "sandbox_upstream", "issuer", "data"])]
    reference: bool,
}

/// The key that seals the store of production, and the one that signs its audit log.
const SEAL_KEY: &str = "seal.key";
const CHECKPOINT_KEY: &str = "checkpoint.pem";
/// The environments of the first configuration.
const ENVIRONMENTS: [&str; 2] = ["production", "sandbox"];

pub(super) fn run(arguments: &InitArgs) -> anyhow::Result<ExitReason> {
    print(&if arguments.reference { config::reference() } else { start(arguments)? })?;
    Ok(ExitReason::Done)
}

/// Writes the files; returns the next steps in words.
fn start(arguments: &InitArgs) -> anyhow::Result<String> {
    let file = arguments.to.display();
    let written = write_configuration(&arguments.to, arguments.force, &chosen(arguments));
    if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists) {
        bail!("`{file}` already exists; name another file with `--to`, or overwrite it with `--force`");
    }
    written.with_context(|| format!("`{file}` cannot be written"))?;
    let policies = arguments.to.with_file_name("policies");
    let policies_are =
        if write_policies(&policies).with_context(|| format!("`{}` cannot be written", policies.display()))? {
            "Wrote first policies to the folder"
        } else {
            "Kept the existing policies in"
        };
    let policies = policies.display();
    let keys = if arguments.jwks_url.is_some() {
        "Your issuer signs tokens; the gate only verifies them.".to_owned()
    } else {
        let secret = arguments.to.with_file_name(config::FIRST_SECRET);
        let file = secret.display();
        match write_secret(&secret).with_context(|| format!("`{file}` cannot be written"))? {
            true => format!("Wrote a secret that signs tokens to `{file}`."),
            false => format!("Kept the existing secret that signs tokens in `{file}`."),
        }
    };
    let keys = if arguments.production_upstream.is_some() { keys + &write_keys(&arguments.to)? } else { keys };
    for environment in ENVIRONMENTS {
        let token = arguments.to.with_file_name(format!("{environment}.token"));
        write_new(&token, PLACEHOLDER).with_context(|| format!("`{}` cannot be written", token.display()))?;
    }
    let steps: String = (1..).zip(next_steps(arguments)).map(|(nth, step)| format!("  {nth}. {step}\n")).collect();
    Ok(format!("Wrote `{file}`.\n{keys}\n{policies_are} `{policies}`.\n\nNext:\n{steps}"))
}

/// Returns what is left to do, by what the command line said.
fn next_steps(arguments: &InitArgs) -> Vec<String> {
    let file = arguments.to.display();
    let is_for_production = arguments.production_upstream.is_some();
    let upstreams = match (&arguments.production_upstream, &arguments.sandbox_upstream) {
        (Some(_), Some(_)) => None,
        (Some(_), None) => Some("Set the upstream of `[sandbox]`, or delete that section."),
        (None, Some(_)) => Some("Set the upstream of `[production]`, or delete that section."),
        (None, None) => {
            Some("Set your upstreams in `[production]` and `[sandbox]`, or delete a section that you do not use.")
        }
    };
    let issuer = "Set the issuer of your tokens in `[issuer.main]`, with its keys instead of the secret.";
    let check = if is_for_production { "sluice check --production --config" } else { "sluice check --config" };
    let steps = [
        upstreams.map(str::to_owned),
        Some(
            "Put the tokens that upstream gave you into `production.token` and `sandbox.token` beside it.".to_owned(),
        ),
        arguments.jwks_url.is_none().then(|| issuer.to_owned()),
        Some(
            "Switch on `[console]`: there people approve calls that the policies hold, freeze money, and open it again.\n     \
             Nobody can without it."
                .to_owned(),
        ),
        Some(format!("{check} {file}")),
        Some(format!(
            "sluice store create --config {file}\n     once for an installation: it creates the store of production. Keep the id that it \
             shows as\n     `store.installation`."
        )),
        Some(format!("sluice serve --config {file}")),
    ];
    steps.into_iter().flatten().collect()
}

/// Returns the settings that the command line chose, as TOML.
fn chosen(arguments: &InitArgs) -> BTreeMap<&'static str, String> {
    let text = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let mut chosen = BTreeMap::new();
    if let Some(upstream) = &arguments.production_upstream {
        chosen.insert("production.upstream", text(upstream));
        chosen.insert("store.seal_key", format!("{{ file = {} }}", text(SEAL_KEY)));
        chosen.insert("audit.checkpoint_key", format!("{{ file = {} }}", text(CHECKPOINT_KEY)));
    }
    if let Some(upstream) = &arguments.sandbox_upstream {
        chosen.insert("sandbox.upstream", text(upstream));
    }
    if let (Some(issuer), Some(keys)) = (&arguments.issuer, &arguments.jwks_url) {
        chosen.insert("issuer.main.issuer", text(issuer));
        chosen.insert("issuer.main.jwks_url", text(keys));
        chosen.insert("issuer.main.algorithms", format!("[{}]", text(&arguments.algorithm)));
    }
    if let Some(folder) = &arguments.data {
        chosen.insert("store.folder", text(&folder.join("store").to_string_lossy()));
        chosen.insert("audit.folder", text(&folder.join("audit").to_string_lossy()));
    }
    chosen.insert("issuer.main.audience", format!("[{}]", text(&arguments.audience)));
    chosen
}

/// Writes the keys that production needs beside the configuration, and keeps those that exist; says so in words.
fn write_keys(output: &Path) -> anyhow::Result<String> {
    let (seal, sign) = (output.with_file_name(SEAL_KEY), output.with_file_name(CHECKPOINT_KEY));
    let failed = |path: &Path| format!("`{}` cannot be written", path.display());
    let key = random::bytes::<32>().context("the system provides no random bytes")?;
    write_new(&seal, &STANDARD.encode(key)).with_context(|| failed(&seal))?;
    let mut public = sign.clone().into_os_string();
    public.push(".pub");
    let public = PathBuf::from(public);
    if !sign.exists() {
        let (private, pair) = new_ed25519_key()?;
        let of_pair = CheckpointKey::of_bytes(pair.public_key().as_ref()).context("a key cannot be generated")?;
        write_new(&sign, private.reveal().trim_end()).with_context(|| failed(&sign))?;
        write_new(&public, of_pair.to_pem().trim_end()).with_context(|| failed(&public))?;
    }
    Ok(format!(
        "\nThe store is sealed with `{}`: keep a copy where the store's backups are not.\nThe audit log is signed with `{}`; \
         auditors need `{}`.",
        seal.display(),
        sign.display(),
        public.display()
    ))
}

fn write_configuration(path: &Path, force: bool, chosen: &BTreeMap<&str, String>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(force).truncate(force).create_new(!force).open(path)?;
    file.write_all(config::first(chosen).as_bytes())
}

/// Writes the policies; returns `false` if the folder exists, which is then left as it is.
fn write_policies(folder: &Path) -> io::Result<bool> {
    match policies::write_shipped(folder, "main") {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes the secret; returns `false` if the file exists, because that secret may have signed tokens.
fn write_secret(path: &Path) -> anyhow::Result<bool> {
    Ok(write_new(path, random_secret()?.reveal())?)
}

/// Writes a file of one line that only its owner can read; returns `false` if it exists.
fn write_new(path: &Path, line: &str) -> io::Result<bool> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => file.write_all(format!("{line}\n").as_bytes())?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(error),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::{Sources, check};
    use super::*;

    #[test]
    fn what_it_writes_passes_check_and_is_not_overwritten_unasked() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("sluice.toml");
        let arguments = |force| arguments(&output, &if force { vec!["--force"] } else { vec![] });
        let said = start(&arguments(false)).unwrap();
        for step in
            ["1. Set your upstreams", "3. Set the issuer", "4. Switch on `[console]`", "5. sluice check --config"]
        {
            assert!(said.contains(step), "{step}: {said}");
        }
        assert!(said.contains("`store.installation`"), "{said}");
        let found = check::findings(&Sources { config: Some(output.clone()), schemas: None });
        // Whether to seal the store, to sign the audit log and whose tokens to take is decided when real upstreams are set.
        let [seal, sign, tokens] = found.as_slice() else { panic!("{found:?}") };
        assert!(seal.text.contains("`store.seal_key` is not set"), "{seal}");
        assert!(sign.text.contains("`audit.checkpoint_key` is not set"), "{sign}");
        assert!(tokens.text.contains("can make tokens of anybody"), "{tokens}");

        let secret = folder.path().join(config::FIRST_SECRET);
        let held = std::fs::read_to_string(&secret).unwrap();
        assert_eq!(std::fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(held.trim_end().len() >= 64);

        std::fs::write(&output, "mine").unwrap();
        assert!(start(&arguments(false)).unwrap_err().to_string().contains("--force"));
        assert_eq!(std::fs::read_to_string(&output).unwrap(), "mine");
        assert!(start(&arguments(true)).unwrap().contains("Kept the existing secret"));
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), held);
        let first = config::first(&chosen(&arguments(true)));
        assert_eq!(std::fs::read_to_string(&output).unwrap(), first);
    }

    fn arguments(output: &Path, options: &[&str]) -> InitArgs {
        #[derive(Debug, clap::Parser)]
        struct Line {
            #[command(flatten)]
            arguments: InitArgs,
        }
        let line = ["init", "--to", output.to_str().unwrap()].into_iter().chain(options.iter().copied());
        <Line as clap::Parser>::parse_from(line).arguments
    }

    #[test]
    fn what_it_writes_for_production_is_secure() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("sluice.toml");
        let options = [
            "--production-upstream=https://api.example.com",
            "--sandbox-upstream=https://sandbox.example.com",
            "--issuer=https://issuer.example.com",
            "--jwks-url=https://issuer.example.com/keys",
            "--audience=payments \"here\"",
        ];
        let said = start(&arguments(&output, &options)).unwrap();
        assert!(said.contains("seal.key") && said.contains("checkpoint.pem.pub"), "{said}");
        // Upstreams and issuer are set.
        assert!(said.contains("1. Put the tokens") && said.contains("2. Switch on `[console]`"), "{said}");
        assert!(said.contains("3. sluice check --production") && !said.contains("instead of the secret"), "{said}");
        let found = check::findings(&Sources { config: Some(output.clone()), schemas: None });
        // The findings are the steps that are left.
        let left: Vec<bool> = found
            .iter()
            .map(|one| ["the placeholder", "no `[console]`"].iter().any(|left| one.text.contains(left)))
            .collect();
        assert_eq!(left, [true; 2], "{found:?}");
        for secret in [SEAL_KEY, CHECKPOINT_KEY] {
            assert_eq!(std::fs::metadata(folder.path().join(secret)).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert!(!folder.path().join(config::FIRST_SECRET).exists());

        // Keys that exist may have sealed and signed already.
        let key = std::fs::read(folder.path().join(SEAL_KEY)).unwrap();
        start(&arguments(&output, &[&options[..], &["--force"]].concat())).unwrap();
        assert_eq!(std::fs::read(folder.path().join(SEAL_KEY)).unwrap(), key);
    }
}
