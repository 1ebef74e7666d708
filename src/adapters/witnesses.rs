//! The client of a witness: brings it checkpoints, with the proof that the journal only grew, and gets its signature.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use reqwest::Client;
use thiserror::Error;

use super::audit::TreeFolder;
use super::identity::fetch;
use crate::audit::{
    Checkpoint, GrowingTree, Hash, Note, NoteKey, NoteSignature, NoteVerdict, Tiles as _, WitnessAnswer,
    WitnessRequest, consistency_proof, is_consistent, parse_signatures,
};
use crate::config::WitnessConfig;

const DEADLINE: Duration = Duration::from_secs(10);
/// The longest answer.
const MOST_BYTES: usize = 64 * 1024;

/// Why there is no signature of a witness.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WitnessFault {
    #[error("it could not be reached in time")]
    Unreachable,
    #[error("{0}")]
    Untrusted(&'static str),
    #[error("its answer is not one of a witness")]
    Strange,
    #[error("its signature is not one of the key in `witness.NAME.key`")]
    WrongSignature,
    /// The journal lacks lines that the witness has signed.
    #[error(
        "it signed {signed} lines of this journal, which has {here}: the journal was set back; keep it for the auditors, and begin \
         another `audit.folder`"
    )]
    SetBack { signed: u64, here: u64 },
    /// The witness could sign another journal for somebody.
    #[error(
        "it signed {signed} lines of this journal, and says that it signed {told}: it was set back, or begun anew; find out who did \
         that, and make a witness with a new name"
    )]
    Forgot { signed: u64, told: u64 },
    #[error(
        "the tree of the journal is damaged; a restart of the gate makes it again, if all files of the journal are there: {0}"
    )]
    Tree(String),
    #[error("{}", refusal(.0))]
    Refused(WitnessAnswer),
}

/// Explains the answer of a witness that does not sign.
fn refusal(answer: &WitnessAnswer) -> &'static str {
    match answer {
        WitnessAnswer::Unsigned | WitnessAnswer::UnknownLog => {
            "it does not take the key of this journal: give its operator the public key of `audit.checkpoint_key`, after a change of keys \
             instead of the former one"
        }
        WitnessAnswer::Inconsistent => {
            "this journal lacks lines that the witness signed before: it was rewritten, or set back; keep it for the auditors, and \
             begin another `audit.folder`"
        }
        WitnessAnswer::Failed => "it cannot write its folder",
        WitnessAnswer::OtherSize(_) => "it signs checkpoints of this journal for somebody else, too",
        WitnessAnswer::Signed(_) | WitnessAnswer::Unreadable(_) => "it cannot read the request",
    }
}

impl WitnessFault {
    /// Returns the fault's name in metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            WitnessFault::Unreachable => "unreachable",
            WitnessFault::Untrusted(_) => "untrusted",
            WitnessFault::Strange => "strange",
            WitnessFault::WrongSignature => "wrong_signature",
            WitnessFault::SetBack { .. } => "set_back",
            WitnessFault::Forgot { .. } => "forgot",
            WitnessFault::Tree(_) => "tree",
            WitnessFault::Refused(answer) => answer.as_str(),
        }
    }
}

/// A client of one witness.
pub struct WitnessClient {
    name: String,
    url: String,
    key: NoteKey,
    client: Client,
    /// The size that the witness signed last, as far as this gate knows.
    signed: AtomicU64,
}

impl WitnessClient {
    pub fn new(config: &WitnessConfig) -> Result<WitnessClient, String> {
        let fault = |error: reqwest::Error| format!("`witness.{}` cannot be used: {error}", config.name);
        let builder = fetch::builder(config.ca_pem.as_deref(), DEADLINE, DEADLINE / 2).map_err(fault)?;
        let client = builder.http1_only().build().map_err(fault)?;
        let (name, url, key) = (config.name.clone(), config.url.clone(), config.key.clone());
        Ok(WitnessClient { name, url, key, client, signed: AtomicU64::new(0) })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks for a signature of a checkpoint.
    pub async fn sign(&self, tree: &TreeFolder, checkpoint: &Checkpoint) -> Result<NoteSignature, WitnessFault> {
        let signed = self.signed_before(tree, checkpoint).await?;
        let old = match self.ask(tree, checkpoint, signed).await? {
            WitnessAnswer::OtherSize(told) if told < signed => return Err(WitnessFault::Forgot { signed, told }),
            // After a start of this gate, or where another one asked, it is not known what the witness signed last.
            WitnessAnswer::OtherSize(told) => told,
            answer => return self.signature(checkpoint, answer),
        };
        if old > checkpoint.size {
            return Err(WitnessFault::SetBack { signed: old, here: checkpoint.size });
        }
        let answer = self.ask(tree, checkpoint, old).await?;
        self.signature(checkpoint, answer)
    }

    /// Returns how many lines the witness has signed, as far as this gate knows: after a start, by what it published last.
    async fn signed_before(&self, tree: &TreeFolder, checkpoint: &Checkpoint) -> Result<u64, WitnessFault> {
        let known = self.signed.load(Ordering::Relaxed);
        if known > 0 {
            return Ok(known);
        }
        let folder = tree.clone();
        let published =
            tokio::task::spawn_blocking(move || folder.published()).await.map_err(io::Error::other).flatten();
        let published = published.map_err(|error| WitnessFault::Tree(error.to_string()))?;
        let own =
            published.filter(|published| published.origin == checkpoint.origin && published.size <= checkpoint.size);
        let is_signed = |own: &Checkpoint| matches!(own.note.verdict(&self.key), NoteVerdict::Signed { .. });
        Ok(own.filter(is_signed).map_or(0, |own| own.size))
    }

    async fn ask(&self, tree: &TreeFolder, checkpoint: &Checkpoint, old: u64) -> Result<WitnessAnswer, WitnessFault> {
        let (folder, size) = (tree.clone(), checkpoint.size);
        let root = checkpoint.root;
        let proof = tokio::task::spawn_blocking(move || proved(&folder, old.min(size), (size, root))).await;
        let proof =
            proof.map_err(std::io::Error::other).flatten().map_err(|error| WitnessFault::Tree(error.to_string()))?;
        let body = WitnessRequest { old, proof, note: checkpoint.note.to_string() }.to_text();
        let request = self.client.post(format!("{}/add-checkpoint", self.url)).header(CONTENT_TYPE, "text/plain");
        let mut answer =
            request.body(body).send().await.map_err(|error| {
                fetch::why_untrusted(&error).map_or(WitnessFault::Unreachable, WitnessFault::Untrusted)
            })?;
        let (status, mut body) = (answer.status().as_u16(), Vec::new());
        while let Some(piece) = answer.chunk().await.map_err(|_| WitnessFault::Unreachable)? {
            if body.len().saturating_add(piece.len()) > MOST_BYTES {
                return Err(WitnessFault::Strange);
            }
            body.extend_from_slice(&piece);
        }
        let body = String::from_utf8(body).map_err(|_| WitnessFault::Strange)?;
        WitnessAnswer::of_http(status, &body).ok_or(WitnessFault::Strange)
    }

    /// Takes only a signature that this witness made of this checkpoint.
    fn signature(&self, checkpoint: &Checkpoint, answer: WitnessAnswer) -> Result<NoteSignature, WitnessFault> {
        let WitnessAnswer::Signed(lines) = answer else { return Err(WitnessFault::Refused(answer)) };
        for signature in parse_signatures(&lines).ok_or(WitnessFault::Strange)? {
            let note = Note { text: checkpoint.note.text.clone(), signatures: vec![signature.clone()] };
            if matches!(note.verdict(&self.key), NoteVerdict::Signed { .. }) {
                self.signed.store(checkpoint.size, Ordering::Relaxed);
                return Ok(signature);
            }
        }
        Err(WitnessFault::WrongSignature)
    }
}

/// Returns the proof that the tree grew, if its files are not damaged: otherwise the witness would say that it was rewritten.
fn proved(folder: &TreeFolder, old: u64, new: (u64, Hash)) -> io::Result<Vec<Hash>> {
    let before = GrowingTree::of_edge(old, |place, width| folder.tile(place, width))?;
    let proof = consistency_proof(folder, old, new.0)?;
    let is_whole = is_consistent((old, before.root()), new, &proof);
    if is_whole { Ok(proof) } else { Err(io::Error::other("its files differ from the newest checkpoint")) }
}

impl fmt::Debug for WitnessClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WitnessClient").field("name", &self.name).finish_non_exhaustive()
    }
}
