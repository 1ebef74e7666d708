//! Signs checkpoints, and writes them beside the files and into the log.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;

use super::log::Log;
use crate::chain::{Checkpoint, PublicKey, Statement};
use crate::ports::Clock;

/// When checkpoints are made, and where they go.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    pub key: SigningKey,
    /// After so many entries, at the latest.
    pub every_entries: u64,
    /// After this time, at the latest, if anything was written since.
    pub every: Duration,
    /// In the log as well: what leaves this machine cannot be changed on it.
    pub to_log: bool,
}

/// The key that signs.
#[derive(Clone)]
pub struct SigningKey {
    pair: Arc<Ed25519KeyPair>,
    public: PublicKey,
}

impl SigningKey {
    /// The one private key of a PEM file, as `sluice audit key` writes it.
    pub fn of_pem(pem: &[u8]) -> Option<SigningKey> {
        let der = PrivateKeyDer::from_pem_slice(pem).ok()?;
        SigningKey::of_pair(Ed25519KeyPair::from_pkcs8(der.secret_der()).ok()?)
    }

    fn of_pair(pair: Ed25519KeyPair) -> Option<SigningKey> {
        let public = PublicKey::of_bytes(pair.public_key().as_ref())?;
        Some(SigningKey { pair: Arc::new(pair), public })
    }

    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    pub fn sign(&self, statement: Statement) -> io::Result<Checkpoint> {
        let key = self.public.id();
        let signature = self.pair.sign(&statement.to_sign(&key).map_err(io::Error::other)?).as_ref().to_vec();
        Ok(Checkpoint { statement, key, signature })
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public.id())
    }
}

/// Makes them when they are due.
#[derive(Debug)]
pub(super) struct Signer {
    checkpoints: Checkpoints,
    clock: Arc<dyn Clock>,
    path: PathBuf,
    /// Which file, and how many of its lines, the last one was about.
    last: (u64, u64),
    last_at: Duration,
}

impl Signer {
    pub(super) fn new(checkpoints: Checkpoints, clock: Arc<dyn Clock>, path: PathBuf) -> Signer {
        let last_at = clock.elapsed();
        Signer { checkpoints, clock, path, last: (0, 0), last_at }
    }

    /// One that cannot be written is tried again when the next is due; the chain itself does not wait for it.
    pub(super) fn look(&mut self, log: &mut Log, is_end: bool) {
        let mut due = log.take_ended();
        let now = log.statement();
        let (sequence, lines) = self.last;
        let since = if now.sequence == sequence { now.lines.saturating_sub(lines) } else { now.lines };
        let is_time = self.clock.elapsed().saturating_sub(self.last_at) >= self.checkpoints.every;
        if since > 0 && (is_end || is_time || since >= self.checkpoints.every_entries) {
            due.push(now);
        }
        for statement in due {
            let about = (statement.sequence, statement.lines);
            self.last_at = self.clock.elapsed();
            match self.write(statement) {
                Ok(()) => self.last = about,
                Err(error) => {
                    tracing::error!(file = %self.path.display(), %error, "a checkpoint of the audit chain is not written");
                }
            }
        }
    }

    fn write(&self, statement: Statement) -> io::Result<()> {
        let line = self.checkpoints.key.sign(statement)?.to_line().map_err(io::Error::other)?;
        if self.checkpoints.to_log {
            tracing::info!(checkpoint = %line, "audit checkpoint");
        }
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o640).open(&self.path)?;
        cut_torn(&mut file)?;
        file.write_all(format!("{line}\n").as_bytes())?;
        file.sync_all()
    }
}

/// A line that a killed process did not finish.
fn cut_torn(file: &mut File) -> io::Result<()> {
    const LONGEST: u64 = 4096;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(LONGEST);
    file.seek(SeekFrom::Start(from))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    let whole = end.iter().rposition(|b| *b == b'\n').map_or(0, |at| at.saturating_add(1));
    if whole < end.len() && (whole > 0 || from == 0) {
        file.set_len(from.saturating_add(whole as u64))?;
    }
    Ok(())
}
