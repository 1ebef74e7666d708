//! `sluice audit key`: the key that checkpoints are signed with.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;

use super::super::{Ending, print};
use crate::base::secret::Secret;
use crate::chain::PublicKey;

/// Make a key pair for checkpoints
///
/// The private key is for the gate alone. Keep the public one, and copies of the checkpoints, where nobody who can
/// change the audit files can change them.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The private key; the public one gets `.pub` behind its name. Neither is ever replaced
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Ending> {
    let pair = Ed25519KeyPair::generate().map_err(|_| anyhow!("no key can be made"))?;
    let der: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| anyhow!("the key cannot be written"))?;
    let private = Secret::new(format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        STANDARD.encode(der.as_ref())
    ));
    let public = PublicKey::of_bytes(pair.public_key().as_ref()).ok_or_else(|| anyhow!("no key can be made"))?;
    let mut public_file = arguments.file.clone().into_os_string();
    public_file.push(".pub");
    let public_file = PathBuf::from(public_file);
    write(&arguments.file, 0o600, private.reveal())?;
    write(&public_file, 0o644, &public.to_pem())?;
    print(&format!(
        "Wrote `{}`, which signs, and `{}`, for `sluice audit verify --public-key`.\nThe key is called {}.\n",
        arguments.file.display(),
        public_file.display(),
        public.id()
    ))?;
    Ok(Ending::Done)
}

fn write(path: &PathBuf, mode: u32, text: &str) -> anyhow::Result<()> {
    let told = || format!("`{}` cannot be written; a key is never replaced", path.display());
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path).with_context(told)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).with_context(told)
}
