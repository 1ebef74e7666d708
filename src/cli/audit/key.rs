//! `sluice audit key`: makes the key pair that signs checkpoints.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use ring::signature::KeyPair as _;

use super::super::{ExitReason, new_ed25519_key, print, write_new_file};
use crate::audit::CheckpointKey;

/// Make a key pair that signs checkpoints
///
/// Only the gate needs the private key. Keep the public key, and copies of the checkpoints, where people who can
/// change the audit files cannot change them.
#[derive(Debug, Args)]
pub(super) struct AuditKeyArgs {
    /// File for the private key; the public key goes to the same name with `.pub`. Existing files are never overwritten
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(arguments: &AuditKeyArgs) -> anyhow::Result<ExitReason> {
    let (private, pair) = new_ed25519_key()?;
    let public = CheckpointKey::of_bytes(pair.public_key().as_ref()).context("a key cannot be generated")?;
    let mut public_file = arguments.file.clone().into_os_string();
    public_file.push(".pub");
    let public_file = PathBuf::from(public_file);
    write_new_file(&arguments.file, 0o600, private.reveal())?;
    write_new_file(&public_file, 0o644, &public.to_pem())?;
    print(&format!(
        "Wrote the private key to `{}` and the public key to `{}`, for `sluice audit verify --public-key`.\nThe key's id is {}.\n",
        arguments.file.display(),
        public_file.display(),
        public.id()
    ))?;
    Ok(ExitReason::Done)
}
