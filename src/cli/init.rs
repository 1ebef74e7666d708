//! `sluice init`: writes a first configuration.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;

use super::{ExitReason, policies, print, random_secret};
use crate::config;

/// Write a first configuration in which every setting is explained
///
/// Its upstreams are on this machine; replace them with the real ones. Its issuer signs with a new random secret, in
/// the file `token.secret` beside it; its policies are in the folder `policies`.
#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// The file to write
    #[arg(long, value_name = "FILE", default_value = "sluice.toml")]
    output: PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
    /// Print the reference of all settings instead of writing a file
    #[arg(long, conflicts_with_all = ["output", "force"])]
    reference: bool,
}

/// The environments of the first configuration.
const ENVIRONMENTS: [&str; 2] = ["production", "sandbox"];
/// A placeholder for a token that only upstream can issue; the simulator accepts it.
const PLACEHOLDER: &str = "put-here-the-token-that-upstream-gave-you";

pub(super) fn run(arguments: &InitArgs) -> anyhow::Result<ExitReason> {
    print(&if arguments.reference { config::reference() } else { start(arguments)? })?;
    Ok(ExitReason::Done)
}

/// Writes the files; returns the next steps in words.
fn start(arguments: &InitArgs) -> anyhow::Result<String> {
    let file = arguments.output.display();
    let written = write_configuration(&arguments.output, arguments.force);
    if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists) {
        bail!("`{file}` already exists; name another file with `--output`, or overwrite it with `--force`");
    }
    written.with_context(|| format!("`{file}` cannot be written"))?;
    let policies = arguments.output.with_file_name("policies");
    let policies_are =
        if write_policies(&policies).with_context(|| format!("`{}` cannot be written", policies.display()))? {
            "Wrote first policies to the folder"
        } else {
            "Kept the existing policies in"
        };
    let policies = policies.display();
    let secret = arguments.output.with_file_name(config::FIRST_SECRET);
    let secret_file = secret.display();
    let secret_is = if write_secret(&secret).with_context(|| format!("`{secret_file}` cannot be written"))? {
        "Wrote a secret that signs tokens to"
    } else {
        "Kept the existing secret that signs tokens in"
    };
    for environment in ENVIRONMENTS {
        let token = arguments.output.with_file_name(format!("{environment}.token"));
        write_new(&token, PLACEHOLDER).with_context(|| format!("`{}` cannot be written", token.display()))?;
    }
    Ok(format!(
        "Wrote `{file}`.\n{secret_is} `{secret_file}`.\n{policies_are} `{policies}`.\n\n\
         Next:\n  \
         1. Set your upstreams in `[production]` and `[sandbox]`, and put the tokens that they gave you into\n     \
         `production.token` and `sandbox.token` beside it; or delete a section that you do not use.\n  \
         2. Set the issuer of your tokens in `[issuer.main]`, with its keys instead of the secret.\n  \
         3. sluice check --config {file}\n  \
         4. sluice store create --config {file}\n     \
         once for an installation: it creates the store of production.\n  \
         5. sluice serve --config {file}\n"
    ))
}

fn write_configuration(path: &Path, force: bool) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(force).truncate(force).create_new(!force).open(path)?;
    file.write_all(config::first().as_bytes())
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
        let arguments = |force| InitArgs { output: output.clone(), force, reference: false };
        assert!(start(&arguments(false)).unwrap().contains("sluice check"));
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
        assert_eq!(std::fs::read_to_string(&output).unwrap(), config::first());
    }
}
