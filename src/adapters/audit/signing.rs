//! The key that signs checkpoints, and when it does.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ring::signature::{Ed25519KeyPair, KeyPair as _};

use crate::audit::{CheckpointKey, NoteKey, NoteKeyKind, NoteSignature};
use crate::base::ed25519;

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
    /// Whether witnesses sign them before they are published.
    pub is_witnessed: bool,
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

    /// Returns the public key under a name.
    pub fn named(&self, name: &str, kind: NoteKeyKind) -> Option<NoteKey> {
        self.public.as_note_key(name, kind)
    }

    /// Signs a text under the name of its key; as a witness, at a time in seconds since 1970.
    pub fn sign(&self, key: &NoteKey, text: &str, at: u64) -> NoteSignature {
        key.sign(&self.pair, text, at)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public.id())
    }
}
