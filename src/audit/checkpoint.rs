//! Signed checkpoints: how far a file went. A file that is cut off or rewritten later contradicts them.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, UnparsedPublicKey};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};

use super::hash::Hash;
use super::line::{FORMAT, Highest, LineFault, parse_time, time};
use crate::base::digest::hex;
use crate::base::json::{self, FormError, Limits};
use crate::ledger::{NodeId, StoreTime};

/// The prefix of signed bytes, so that no other signature of the key can pass as a checkpoint.
const PURPOSE: &[u8] = b"sluice audit checkpoint\n";
/// The DER prefix of an Ed25519 public key.
const ED25519_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The extent of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub node: NodeId,
    pub sequence: u64,
    /// Lines of the file, its header among them.
    pub lines: u64,
    /// Their bytes.
    pub length: u64,
    /// The hash of the last of them.
    pub hash: Hash,
    /// The highest numbers in this file and those before it.
    pub highest: Highest,
    pub at: StoreTime,
}

/// A statement with its signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub statement: Statement,
    /// The signing key, by [`CheckpointKey::id`].
    pub key: String,
    pub signature: Vec<u8>,
}

/// A checkpoint as it is written; without the signature, as it is signed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckpointRecord {
    at: String,
    hash: Hash,
    highest: Highest,
    key: String,
    length: u64,
    lines: u64,
    node: NodeId,
    sequence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
}

/// A line of the log that holds a checkpoint.
#[derive(Debug, Deserialize)]
struct LoggedCheckpoint {
    checkpoint: String,
}

/// The public key of checkpoints.
#[derive(Clone, PartialEq, Eq)]
pub struct CheckpointKey([u8; 32]);

impl Statement {
    /// The bytes to sign.
    pub fn to_sign(&self, key: &str) -> Result<Vec<u8>, LineFault> {
        Ok([PURPOSE, json::to_record(&self.record(key, None)?, FORMAT).as_bytes()].concat())
    }

    fn record(&self, key: &str, signature: Option<String>) -> Result<CheckpointRecord, LineFault> {
        Ok(CheckpointRecord {
            at: time(self.at)?,
            hash: self.hash,
            highest: self.highest.clone(),
            key: key.to_owned(),
            length: self.length,
            lines: self.lines,
            node: self.node.clone(),
            sequence: self.sequence,
            signature,
        })
    }
}

impl Checkpoint {
    /// Writes the line without its end.
    pub fn to_line(&self) -> Result<String, LineFault> {
        let signature = Some(STANDARD.encode(&self.signature));
        Ok(json::to_record(&self.statement.record(&self.key, signature)?, FORMAT))
    }

    /// Reads a checkpoint, or a log line that holds one in `checkpoint`.
    pub fn read(bytes: &[u8]) -> Result<Checkpoint, LineFault> {
        let logged = json::from_slice::<LoggedCheckpoint>(bytes, Limits::ANSWER);
        let bytes = logged.as_ref().map_or(bytes, |logged| logged.checkpoint.as_bytes());
        let record: CheckpointRecord = json::from_record(bytes, FORMAT).map_err(|fault| match fault {
            FormError::Json(error) => LineFault::Json(error),
            FormError::Format { found, known } if found > known => LineFault::Newer(found),
            fault => LineFault::Checkpoint(fault),
        })?;
        let at = parse_time(&record.at)?;
        let signature = record.signature.and_then(|signature| STANDARD.decode(signature).ok());
        if time(at)? != record.at {
            return Err(LineFault::Spelling);
        }
        Ok(Checkpoint {
            statement: Statement {
                node: record.node,
                sequence: record.sequence,
                lines: record.lines,
                length: record.length,
                hash: record.hash,
                highest: record.highest,
                at,
            },
            key: record.key,
            signature: signature.ok_or(LineFault::Form("`signature` is not Base64"))?,
        })
    }
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

    /// The id by which a checkpoint names its key.
    pub fn id(&self) -> String {
        hex(Hash::of(&[&self.0]).as_bytes().get(..8).unwrap_or_default())
    }

    pub fn signed(&self, checkpoint: &Checkpoint) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, self.0);
        let signed = checkpoint.statement.to_sign(&checkpoint.key);
        checkpoint.key == self.id() && signed.is_ok_and(|signed| key.verify(&signed, &checkpoint.signature).is_ok())
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

    use serde_json::json;

    use super::*;
    use crate::base::ids::Environment;

    #[test]
    fn only_what_was_signed_by_the_key_is_believed() {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
        let public = CheckpointKey::of_bytes(pair.public_key().as_ref()).unwrap();
        assert_eq!(CheckpointKey::of_pem(public.to_pem().as_bytes()), Some(public.clone()));
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
        let other = Ed25519KeyPair::from_seed_unchecked(&[2; 32]).unwrap();
        assert!(!CheckpointKey::of_bytes(other.public_key().as_ref()).unwrap().signed(&checkpoint));
        assert_eq!(Checkpoint::read(line.replace(',', ", ").as_bytes()).unwrap(), checkpoint);
        assert!(Checkpoint::read(line.replace("\"lines\"", "\"line\"").as_bytes()).is_err());
    }
}
