//! Signed notes, as C2SP defines them: a text, and lines with signatures of logs and of witnesses.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

use super::hash::Hash;
use crate::base::digest::hex;

/// The longest note that is read.
const LONGEST: usize = 64 * 1024;
/// The most signatures that a note may have.
const MOST_SIGNATURES: usize = 64;
const DASH: &str = "\u{2014} ";

/// A text with signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// With the end of its last line.
    pub text: String,
    pub signatures: Vec<NoteSignature>,
}

/// A signature, with what tells its key from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteSignature {
    pub name: String,
    pub key_id: [u8; 4],
    pub bytes: Vec<u8>,
}

/// The role of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoteKeyKind {
    /// The key signs notes of its owner.
    Log,
    /// The key signs, with a time, that a log only grew.
    Witness,
}

/// A public key for notes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NoteKey {
    name: String,
    kind: NoteKeyKind,
    public: [u8; 32],
}

/// The worth of a key's signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteVerdict {
    /// The key did not sign the note.
    Absent,
    /// The signature of that key is wrong.
    Wrong,
    /// The key signed; a witness at that time, in seconds since 1970.
    Signed { at: Option<u64> },
}

impl Note {
    /// Returns `None` for what is not a signed note.
    pub fn parse(note: &str) -> Option<Note> {
        if note.len() > LONGEST || note.chars().any(|char| char < ' ' && char != '\n') {
            return None;
        }
        let end = note.rfind("\n\n")?.checked_add(1)?;
        let (text, signatures) = note.split_at_checked(end)?;
        let signatures = parse_signatures(signatures.strip_prefix('\n')?)?;
        (!signatures.is_empty()).then(|| Note { text: text.to_owned(), signatures })
    }

    /// Says whether a key signed the note.
    pub fn verdict(&self, key: &NoteKey) -> NoteVerdict {
        let mut own = self.signatures.iter().filter(|signature| key.made(signature));
        let Some(first) = own.next() else { return NoteVerdict::Absent };
        let verified = key.verified(&self.text, &first.bytes);
        // A second signature of one key, which may be wrong, makes the note doubtful.
        match (verified, own.all(|signature| key.verified(&self.text, &signature.bytes).is_some())) {
            (Some(at), true) => NoteVerdict::Signed { at },
            _ => NoteVerdict::Wrong,
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text)?;
        self.signatures.iter().try_for_each(|signature| write!(f, "{signature}"))
    }
}

/// Parses lines with signatures, each with its end.
pub fn parse_signatures(lines: &str) -> Option<Vec<NoteSignature>> {
    let lines = lines.strip_suffix('\n')?;
    let signatures: Option<Vec<_>> = lines.split('\n').map(NoteSignature::parse).collect();
    signatures.filter(|signatures| signatures.len() <= MOST_SIGNATURES)
}

impl NoteSignature {
    fn parse(line: &str) -> Option<NoteSignature> {
        let (name, signature) = line.strip_prefix(DASH)?.split_once(' ')?;
        let signature = STANDARD.decode(signature).ok()?;
        let (key_id, bytes) = signature.split_first_chunk::<4>()?;
        is_name(name).then(|| NoteSignature { name: name.to_owned(), key_id: *key_id, bytes: bytes.to_vec() })
    }
}

impl fmt::Display for NoteSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signature = STANDARD.encode([self.key_id.as_slice(), &self.bytes].concat());
        writeln!(f, "{DASH}{} {signature}", self.name)
    }
}

/// Whether a text can be the name of a key.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 256 && !name.chars().any(|char| char.is_whitespace() || char == '+')
}

impl NoteKeyKind {
    fn byte(self) -> u8 {
        match self {
            NoteKeyKind::Log => 1,
            NoteKeyKind::Witness => 4,
        }
    }
}

impl NoteKey {
    pub fn new(name: &str, kind: NoteKeyKind, public: [u8; 32]) -> Option<NoteKey> {
        is_name(name).then(|| NoteKey { name: name.to_owned(), kind, public })
    }

    /// Returns the public key of a pair.
    pub fn of_pair(name: &str, kind: NoteKeyKind, pair: &Ed25519KeyPair) -> Option<NoteKey> {
        NoteKey::new(name, kind, pair.public_key().as_ref().try_into().ok()?)
    }

    /// Reads a key in the form of C2SP: `NAME+ID+KEY`.
    pub fn parse(text: &str) -> Option<NoteKey> {
        let (name, rest) = text.split_once('+')?;
        let (id, key) = rest.split_once('+')?;
        let key = STANDARD.decode(key).ok()?;
        let (kind, public) = key.split_first()?;
        let kind = [NoteKeyKind::Log, NoteKeyKind::Witness].into_iter().find(|known| known.byte() == *kind)?;
        NoteKey::new(name, kind, public.try_into().ok()?).filter(|key| hex(&key.id()) == id)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn kind(&self) -> NoteKeyKind {
        self.kind
    }

    /// Whether a signature names this key.
    pub fn made(&self, signature: &NoteSignature) -> bool {
        signature.name == self.name && signature.key_id == self.id()
    }

    /// Whether two keys are of one owner: names can differ.
    pub fn is_alike(&self, other: &NoteKey) -> bool {
        self.public == other.public
    }

    fn id(&self) -> [u8; 4] {
        let hash = Hash::of(&[self.name.as_bytes(), b"\n", &[self.kind.byte()], &self.public]);
        hash.as_bytes().first_chunk().copied().unwrap_or_default()
    }

    /// Signs a text with the private key; as a witness, at a time in seconds since 1970.
    pub fn sign(&self, pair: &Ed25519KeyPair, text: &str, at: u64) -> NoteSignature {
        let bytes = match self.kind {
            NoteKeyKind::Log => pair.sign(text.as_bytes()).as_ref().to_vec(),
            NoteKeyKind::Witness => {
                [at.to_be_bytes().as_slice(), pair.sign(cosigned(text, at).as_bytes()).as_ref()].concat()
            }
        };
        NoteSignature { name: self.name.clone(), key_id: self.id(), bytes }
    }

    /// Returns the time of a signature, which only witnesses tell; `None` if the key did not sign the text.
    fn verified(&self, text: &str, signature: &[u8]) -> Option<Option<u64>> {
        let key = UnparsedPublicKey::new(&ED25519, self.public);
        match self.kind {
            NoteKeyKind::Log => key.verify(text.as_bytes(), signature).ok().map(|()| None),
            NoteKeyKind::Witness => {
                let (at, signature) = signature.split_first_chunk::<8>()?;
                let at = u64::from_be_bytes(*at);
                key.verify(cosigned(text, at).as_bytes(), signature).ok()?;
                (at > 0 && i64::try_from(at).is_ok()).then_some(Some(at))
            }
        }
    }
}

/// Returns what a witness signs.
fn cosigned(text: &str, at: u64) -> String {
    format!("cosignature/v1\ntime {at}\n{text}")
}

impl fmt::Display for NoteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = STANDARD.encode([[self.kind.byte()].as_slice(), &self.public].concat());
        write!(f, "{}+{}+{key}", self.name, hex(&self.id()))
    }
}

impl fmt::Debug for NoteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NoteKey({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of C2SP's signed-note.
    const KEY: &str = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
    const NOTE: &str = "This is an example message.\n\n\u{2014} example.com/foo \
                        Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n";

    #[test]
    fn the_example_of_the_specification_is_verified() {
        let (key, note) = (NoteKey::parse(KEY).unwrap(), Note::parse(NOTE).unwrap());
        assert_eq!((key.to_string().as_str(), note.to_string().as_str()), (KEY, NOTE));
        assert_eq!(note.verdict(&key), NoteVerdict::Signed { at: None });
        let changed = Note { text: note.text.replace('.', "!"), ..note.clone() };
        assert_eq!(changed.verdict(&key), NoteVerdict::Wrong);
        let other = NoteKey { name: "example.com/bar".to_owned(), ..key.clone() };
        assert_eq!(note.verdict(&other), NoteVerdict::Absent);
        // A wrong signature beside a right one.
        let mut twice = note.clone();
        twice.signatures.push(NoteSignature { bytes: vec![0; 64], ..note.signatures[0].clone() });
        assert_eq!(twice.verdict(&key), NoteVerdict::Wrong);
        assert!(NoteKey::parse(&KEY.replace("530d", "530e")).is_none());
        for wrong in
            ["", "\n", "a\n\n", "a\n\nb\n", &NOTE.replace("\n\n", "\n"), NOTE.trim_end(), &NOTE.replace('!', "\t")]
        {
            assert!(Note::parse(wrong).is_none() || wrong == NOTE, "{wrong}");
        }
    }

    #[test]
    fn a_witness_signs_with_a_time_and_never_as_a_log() {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let [log, witness] =
            [NoteKeyKind::Log, NoteKeyKind::Witness].map(|kind| NoteKey::of_pair("w", kind, &pair).unwrap());
        let text = "w\n3\nabc\n".to_owned();
        let signature = witness.sign(&pair, &text, 1_700_000_000);
        let note = Note { text, signatures: vec![signature.clone(), log.sign(&pair, "w\n3\nabc\n", 0)] };
        let read = Note::parse(&note.to_string()).unwrap();
        assert_eq!(read, note);
        assert_eq!(read.verdict(&witness), NoteVerdict::Signed { at: Some(1_700_000_000) });
        assert_eq!(read.verdict(&log), NoteVerdict::Signed { at: None });
        let mut later = read;
        later.signatures[0].bytes[7] ^= 1;
        assert_eq!(later.verdict(&witness), NoteVerdict::Wrong);
        assert_eq!(NoteKey::parse(&witness.to_string()), Some(witness.clone()));
        assert_ne!(witness, log);
    }
}
