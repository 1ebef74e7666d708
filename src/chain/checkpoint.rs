//! A signed statement of how far a file went: what is cut off or written anew afterwards contradicts it.

use std::fmt;

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Map, Value, json};

use super::hash::Hash;
use super::line::{FORMAT, Highest, LineFault, at, environment, hash, node, number, text, time};
use crate::base::digest::hex;
use crate::base::json::{self, Limits};
use crate::commit::{NodeId, StoreTime};

/// What is signed begins with this, so that the key's other signatures, if there are any, are none of a checkpoint.
const PURPOSE: &[u8] = b"sluice audit checkpoint\n";
/// What stands before the 32 bytes of an Ed25519 key in DER.
const ED25519_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// How far a file went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub node: NodeId,
    pub sequence: u64,
    /// Lines of the file, its header among them.
    pub lines: u64,
    /// Their bytes.
    pub length: u64,
    /// Of the last of them.
    pub hash: Hash,
    /// In this file and those before it.
    pub highest: Highest,
    pub at: StoreTime,
}

/// A statement with its signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub statement: Statement,
    /// Which key signed, by [`PublicKey::id`].
    pub key: String,
    pub signature: Vec<u8>,
}

/// The key that checkpoints are checked with.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl Statement {
    /// What a key signs.
    pub fn to_sign(&self, key: &str) -> Result<Vec<u8>, LineFault> {
        Ok([PURPOSE, &json::to_bytes(&Value::Object(self.members(key)?))].concat())
    }

    fn members(&self, key: &str) -> Result<Map<String, Value>, LineFault> {
        let highest: Map<String, Value> =
            self.highest.iter().map(|(environment, number)| (environment.as_str().to_owned(), json!(number))).collect();
        let members = [
            ("at", time(self.at)?),
            ("format", FORMAT.into()),
            ("hash", self.hash.to_string().into()),
            ("highest", highest.into()),
            ("key", key.into()),
            ("length", self.length.into()),
            ("lines", self.lines.into()),
            ("node", self.node.as_str().into()),
            ("sequence", self.sequence.into()),
        ];
        Ok(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

impl Checkpoint {
    /// Without its end.
    pub fn to_line(&self) -> Result<String, LineFault> {
        let mut members = self.statement.members(&self.key)?;
        members.insert("signature".to_owned(), STANDARD.encode(&self.signature).into());
        Ok(Value::Object(members).to_string())
    }

    /// A checkpoint as it was written, or a line of the log that holds one in `checkpoint`.
    pub fn read(bytes: &[u8]) -> Result<Checkpoint, LineFault> {
        let parsed = |bytes: &[u8]| json::parse(bytes, Limits::ANSWER).map_err(LineFault::Json);
        let outer = parsed(bytes)?;
        let value = match outer.get("checkpoint").and_then(Value::as_str) {
            Some(text) => parsed(text.as_bytes())?,
            None => outer,
        };
        let members = value.as_object().ok_or(LineFault::Form("it is not an object"))?;
        match number(members, "format")? {
            FORMAT => {}
            newer if newer > FORMAT => return Err(LineFault::Newer(newer)),
            _ => return Err(LineFault::Form("`format` is unknown")),
        }
        let written =
            members.get("highest").and_then(Value::as_object).ok_or(LineFault::Form("`highest` is missing"))?;
        let mut highest = Highest::new();
        for name in written.keys() {
            highest.insert(environment(name)?, number(written, name)?);
        }
        let signature = STANDARD.decode(text(members, "signature")?);
        let checkpoint = Checkpoint {
            statement: Statement {
                node: node(members)?,
                sequence: number(members, "sequence")?,
                lines: number(members, "lines")?,
                length: number(members, "length")?,
                hash: hash(members, "hash")?,
                highest,
                at: at(members)?,
            },
            key: text(members, "key")?.to_owned(),
            signature: signature.map_err(|_| LineFault::Form("`signature` is not Base64"))?,
        };
        let written = json::to_bytes(&value);
        if checkpoint.to_line()?.as_bytes() == written { Ok(checkpoint) } else { Err(LineFault::Spelling) }
    }
}

impl PublicKey {
    pub fn of_bytes(bytes: &[u8]) -> Option<PublicKey> {
        bytes.try_into().ok().map(PublicKey)
    }

    /// The one key of a PEM file, as `sluice audit key` writes it.
    pub fn of_pem(pem: &[u8]) -> Option<PublicKey> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem).ok()?;
        PublicKey::of_bytes(der.as_ref().strip_prefix(&ED25519_PREFIX)?)
    }

    pub fn to_pem(&self) -> String {
        let der = [ED25519_PREFIX.as_slice(), &self.0].concat();
        format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der))
    }

    /// By which a checkpoint names its key.
    pub fn id(&self) -> String {
        hex(Hash::of(&[&self.0]).as_bytes().get(..8).unwrap_or_default())
    }

    pub fn signed(&self, checkpoint: &Checkpoint) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, self.0);
        let signed = checkpoint.statement.to_sign(&checkpoint.key);
        checkpoint.key == self.id() && signed.is_ok_and(|signed| key.verify(&signed, &checkpoint.signature).is_ok())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.id())
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};

    use super::*;
    use crate::base::ids::Environment;

    #[test]
    fn only_what_was_signed_by_the_key_is_believed() {
        let pair = Ed25519KeyPair::generate().unwrap();
        let public = PublicKey::of_bytes(pair.public_key().as_ref()).unwrap();
        assert_eq!(PublicKey::of_pem(public.to_pem().as_bytes()), Some(public.clone()));
        let statement = Statement {
            node: NodeId::parse("a").unwrap(),
            sequence: 3,
            lines: 9,
            length: 999,
            hash: Hash::of(&[b"x"]),
            highest: Highest::from([(Environment::Production, 8)]),
            at: StoreTime::of_micros(5),
        };
        let signature = pair.sign(&statement.to_sign(&public.id()).unwrap()).as_ref().to_vec();
        let checkpoint = Checkpoint { statement, key: public.id(), signature };
        let line = checkpoint.to_line().unwrap();
        assert_eq!(Checkpoint::read(line.as_bytes()).unwrap(), checkpoint);
        assert!(public.signed(&checkpoint));
        let logged = json!({"message": "audit checkpoint", "checkpoint": line}).to_string();
        assert_eq!(Checkpoint::read(logged.as_bytes()).unwrap(), checkpoint);

        let changed = Checkpoint::read(line.replace("\"lines\":9", "\"lines\":8").as_bytes()).unwrap();
        assert!(!public.signed(&changed));
        let other = Ed25519KeyPair::generate().unwrap();
        assert!(!PublicKey::of_bytes(other.public_key().as_ref()).unwrap().signed(&checkpoint));
        assert_eq!(Checkpoint::read(line.replace(',', ", ").as_bytes()).unwrap(), checkpoint);
        assert!(Checkpoint::read(line.replace("\"lines\"", "\"line\"").as_bytes()).is_err());
    }
}
