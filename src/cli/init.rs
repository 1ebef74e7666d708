//! `sluice init`: a first configuration to start from.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;

use super::{Ending, policies, print, random_secret};
use crate::config;

/// Write a first configuration, every setting explained
///
/// Its upstreams are on this machine, for something to start with; put the real ones in. Its issuer signs with a fresh
/// random secret, in the file `token.secret` beside it; its policies are in the folder `policies`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The file to write
    #[arg(long, value_name = "FILE", default_value = "sluice.toml")]
    output: PathBuf,
    /// Overwrite a file that is there
    #[arg(long)]
    force: bool,
    /// Print the reference of all settings instead of writing a file
    #[arg(long, conflicts_with_all = ["output", "force"])]
    reference: bool,
}

/// The environments of the first configuration.
const ENVIRONMENTS: [&str; 2] = ["production", "sandbox"];
/// What stands in the place of a token that only upstream can give; a simulator takes it.
const PLACEHOLDER: &str = "put-here-the-token-that-upstream-gave-you";

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Ending> {
    print(&if arguments.reference { config::reference() } else { start(arguments)? })?;
    Ok(Ending::Done)
}

/// Writes the file, and says what to do next.
fn start(arguments: &Arguments) -> anyhow::Result<String> {
    let file = arguments.output.display();
    let written = write(&arguments.output, arguments.force);
    if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists) {
        bail!("`{file}` is there already; name another file with `--output`, or overwrite it with `--force`");
    }
    written.with_context(|| format!("`{file}` cannot be written"))?;
    let policies = arguments.output.with_file_name("policies");
    let policies_are =
        if write_policies(&policies).with_context(|| format!("`{}` cannot be written", policies.display()))? {
            "Wrote first policies to"
        } else {
            "Left as they are the policies in"
        };
    let policies = policies.display();
    let secret = arguments.output.with_file_name(config::FIRST_SECRET);
    let secret_file = secret.display();
    let secret_is = if write_secret(&secret).with_context(|| format!("`{secret_file}` cannot be written"))? {
        "Wrote a secret that tokens are signed with to"
    } else {
        "Left as it is the secret that tokens are signed with in"
    };
    for environment in ENVIRONMENTS {
        let token = arguments.output.with_file_name(format!("{environment}.token"));
        write_new(&token, PLACEHOLDER).with_context(|| format!("`{}` cannot be written", token.display()))?;
    }
    Ok(format!(
        "Wrote `{file}`.\n{secret_is} `{secret_file}`.\n{policies_are} `{policies}`.\n\n\
         Next:\n  \
         1. Put your upstreams into `[production]` and `[sandbox]`, and the tokens that they know you by into\n     \
         `production.token` and `sandbox.token` beside it; or take a section out.\n  \
         2. Put who issues your tokens into `[issuer.main]`, with its keys instead of the secret.\n  \
         3. sluice check --config {file}\n  \
         4. sluice serve --config {file}\n"
    ))
}

fn write(path: &Path, force: bool) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(force).truncate(force).create_new(!force).open(path)?;
    file.write_all(config::first().as_bytes())
}

/// Whether they were written: a folder that is there is somebody's own.
fn write_policies(folder: &Path) -> io::Result<bool> {
    match policies::write(folder, "main") {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether it was written: a secret that is there already may have signed tokens, and stays.
fn write_secret(path: &Path) -> anyhow::Result<bool> {
    Ok(write_new(path, random_secret()?.reveal())?)
}

/// A file for its owner alone, of one line; one that is there stays.
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
        let arguments = |force| Arguments { output: output.clone(), force, reference: false };
        assert!(start(&arguments(false)).unwrap().contains("sluice check"));
        let found = check::findings(&Sources { config: Some(output.clone()), schemas: None });
        // Whoever puts real upstreams in decides where the key is kept.
        let [finding] = found.as_slice() else { panic!("{found:?}") };
        assert!(finding.text.contains("`store.seal_key` is not set"), "{finding}");

        let secret = folder.path().join(config::FIRST_SECRET);
        let held = std::fs::read_to_string(&secret).unwrap();
        assert_eq!(std::fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(held.trim_end().len() >= 64);

        std::fs::write(&output, "mine").unwrap();
        assert!(start(&arguments(false)).unwrap_err().to_string().contains("--force"));
        assert_eq!(std::fs::read_to_string(&output).unwrap(), "mine");
        assert!(start(&arguments(true)).unwrap().contains("Left as it is"));
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), held);
        assert_eq!(std::fs::read_to_string(&output).unwrap(), config::first());
    }
}
