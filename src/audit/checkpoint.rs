//! Signed checkpoints: how far a journal went. A journal that is cut off or rewritten later contradicts them.
//!
//! A checkpoint is a note in the form of C2SP (`tlog-checkpoint`): the log's name, the number of its lines, and the root of
//! their Merkle tree. Witnesses add their signatures to it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject as _;

use super::hash::Hash;
use super::line::LineFault;
use super::note::{Note, NoteKey, NoteKeyKind, NoteVerdict};
use super::salts::Salts;
use super::tree::GrowingTree;
use crate::base::digest::hex;
use crate::ledger::NodeId;

/// The first part of the name of a log.
const SCHEME: &str = "sluice";
/// The DER prefix of an Ed25519 public key.
const ED25519_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The name of a log: of a node, and of the salts of its lines. A node whose salts were lost begins another log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    pub node: NodeId,
    /// 16 hexadecimal digits.
    log: String,
}

/// How many lines a log has, and the root of their tree, with signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub origin: Origin,
    pub size: u64,
    pub root: Hash,
    pub note: Note,
}

/// The public key of checkpoints.
#[derive(Clone, PartialEq, Eq)]
pub struct CheckpointKey([u8; 32]);

impl Origin {
    pub fn new(node: NodeId, salts: &Salts) -> Origin {
        Origin { node, log: hex(salts.name().as_slice()) }
    }

    pub fn parse(text: &str) -> Option<Origin> {
        let (node, log) = text.strip_prefix(SCHEME)?.strip_prefix('/')?.split_once('/')?;
        let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        let is_log = log.len() == 16 && log.bytes().all(is_digit);
        is_log.then(|| Some(Origin { node: NodeId::parse(node)?, log: log.to_owned() }))?
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}/{}/{}", self.node, self.log)
    }
}

impl Checkpoint {
    /// Writes the text that is signed.
    pub fn text(origin: &Origin, tree: &GrowingTree) -> String {
        format!("{origin}\n{}\n{}\n", tree.size(), STANDARD.encode(tree.root().as_bytes()))
    }

    /// Reads a note.
    pub fn of_note(note: &str) -> Result<Checkpoint, LineFault> {
        let note = Note::parse(note).ok_or(LineFault::Form("the checkpoint is not a signed note"))?;
        let lines: Vec<&str> = note.text.split_terminator('\n').collect();
        let [origin, size, root] = lines.as_slice() else {
            return Err(LineFault::Form("the checkpoint does not have three lines"));
        };
        let origin = Origin::parse(origin).ok_or(LineFault::Form("the first line does not name a log of Sluice"))?;
        let size = parse_size(size).ok_or(LineFault::Form("the second line is not a number of lines"))?;
        let root = parse_root(root).ok_or(LineFault::Form("the third line is not a hash in Base64"))?;
        Ok(Checkpoint { origin, size, root, note })
    }

    /// Returns the ids of the keys that signed as the log, for people.
    pub fn keys(&self) -> String {
        let origin = self.origin.to_string();
        let own = self.note.signatures.iter().filter(|signature| signature.name == origin);
        own.map(|signature| hex(&signature.key_id)).collect::<Vec<_>>().join(", ")
    }
}

/// Reads a number without leading zeros.
pub fn parse_size(text: &str) -> Option<u64> {
    text.parse().ok().filter(|size: &u64| size.to_string() == text)
}

/// Reads a hash in Base64.
pub fn parse_root(text: &str) -> Option<Hash> {
    STANDARD.decode(text).ok()?.try_into().ok().map(Hash::of_bytes)
}

impl CheckpointKey {
    pub fn of_bytes(bytes: &[u8]) -> Option<CheckpointKey> {
        bytes.try_into().ok().map(CheckpointKey)
    }

    /// Reads the one key of a PEM file, as `sluice audit key` writes it.
    pub fn of_pem(pem: &[u8]) -> Option<CheckpointKey> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem).ok()?;
        CheckpointKey::of_bytes(der.as_ref().strip_prefix(&ED25519_PREFIX)?)
    }

    pub fn to_pem(&self) -> String {
        let der = [ED25519_PREFIX.as_slice(), &self.0].concat();
        format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der))
    }

    /// The id by which people tell keys apart.
    pub fn id(&self) -> String {
        hex(Hash::of(&[&self.0]).as_bytes().get(..8).unwrap_or_default())
    }

    /// Returns the key as the one of a log, or of a witness by its name.
    pub fn as_note_key(&self, name: &str, kind: NoteKeyKind) -> Option<NoteKey> {
        NoteKey::new(name, kind, self.0)
    }

    pub fn signed(&self, checkpoint: &Checkpoint) -> bool {
        let key = self.as_note_key(&checkpoint.origin.to_string(), NoteKeyKind::Log);
        key.is_some_and(|key| matches!(checkpoint.note.verdict(&key), NoteVerdict::Signed { .. }))
    }
}

impl fmt::Debug for CheckpointKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.id())
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{Ed25519KeyPair, KeyPair as _};

    use super::*;
    use crate::audit::tree::leaf_hash;

    #[test]
    fn only_what_was_signed_by_the_key_is_believed() {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
        let public = CheckpointKey::of_bytes(pair.public_key().as_ref()).unwrap();
        assert_eq!(CheckpointKey::of_pem(public.to_pem().as_bytes()), Some(public.clone()));
        let origin = Origin::new(NodeId::parse("a").unwrap(), &Salts::of(&[3; 32]));
        assert_eq!(Origin::parse(&origin.to_string()), Some(origin.clone()));
        let mut tree = GrowingTree::default();
        tree.push(leaf_hash(b"1"));
        let text = Checkpoint::text(&origin, &tree);
        let key = public.as_note_key(&origin.to_string(), NoteKeyKind::Log).unwrap();
        let note = Note { signatures: vec![key.sign(&pair, &text, 0)], text };
        let checkpoint = Checkpoint { origin, size: 1, root: tree.root(), note };
        let written = checkpoint.note.to_string();
        assert_eq!(Checkpoint::of_note(&written).unwrap(), checkpoint);
        assert!(public.signed(&checkpoint));
        assert!(!public.signed(&Checkpoint::of_note(&written.replace("\n1\n", "\n2\n")).unwrap()));
        let other = Ed25519KeyPair::from_seed_unchecked(&[2; 32]).unwrap();
        assert!(!CheckpointKey::of_bytes(other.public_key().as_ref()).unwrap().signed(&checkpoint));
        for (from, to) in [("\n1\n", "\n01\n"), ("\n1\n", "\n-1\n"), ("sluice/a/", "other/a/"), ("\n\n", "\nmore\n\n")]
        {
            assert!(Checkpoint::of_note(&written.replace(from, to)).is_err(), "{from}");
        }
    }
}
