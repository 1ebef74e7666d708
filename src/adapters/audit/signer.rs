//! Signs checkpoints, and writes them beside the files and into the process log.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ring::signature::{Ed25519KeyPair, KeyPair as _};

use super::log::Log;
use crate::audit::{Checkpoint, CheckpointKey, Statement};
use crate::base::ed25519;
use crate::ports::Clock;

/// When checkpoints are made, and where they are written.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    pub key: SigningKey,
    /// The most entries between two checkpoints.
    pub every_entries: u64,
    /// The longest time between two checkpoints, if anything was written since.
    pub every: Duration,
    /// Whether to log them as well: what leaves this machine cannot be changed on it.
    pub to_log: bool,
}

/// The key that signs checkpoints.
#[derive(Clone)]
pub struct SigningKey {
    pair: Arc<Ed25519KeyPair>,
    public: CheckpointKey,
}

impl SigningKey {
    /// Parses the one private key of a PEM file, as `sluice audit key` writes it.
    pub fn of_pem(pem: &[u8]) -> Option<SigningKey> {
        let pair = ed25519::of_pem(pem)?;
        let public = CheckpointKey::of_bytes(pair.public_key().as_ref())?;
        Some(SigningKey { pair: Arc::new(pair), public })
    }

    pub fn public(&self) -> &CheckpointKey {
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

/// Signs checkpoints when they are due.
#[derive(Debug)]
pub(super) struct CheckpointSigner {
    checkpoints: Checkpoints,
    clock: Arc<dyn Clock>,
    path: PathBuf,
    /// The file of the last checkpoint, and how many of its lines it covers.
    last: (u64, u64),
    last_at: Duration,
}

impl CheckpointSigner {
    pub(super) fn new(checkpoints: Checkpoints, clock: Arc<dyn Clock>, path: PathBuf) -> CheckpointSigner {
        let last_at = clock.elapsed();
        CheckpointSigner { checkpoints, clock, path, last: (0, 0), last_at }
    }

    /// Writes a checkpoint if one is due. If that fails, it is repeated when the next is due; the log itself does not
    /// wait.
    pub(super) fn write_if_due(&mut self, log: &mut Log, is_end: bool) {
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
                    tracing::error!(file = %self.path.display(), %error, "a checkpoint of the audit chain could not be written");
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

/// Truncates a line that a killed process did not finish.
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
