//! Records that cannot be read without a key: bodies and answers carry bank and personal data.
//!
//! A value is sealed with AES-256-GCM under a key of its record alone, which is derived (HKDF-SHA256) from the key that
//! is configured, and bound to its place: moved to another record it cannot be opened. As each record has its own key,
//! and few versions, random nonces never come near the number at which they might repeat. An older value of the same
//! record in place of a newer one is not noticed here: that is what versions are for.
//!
//! Values from before there were keys stay readable; they are sealed when they are written next.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{hkdf, rand};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use zeroize::Zeroizing;

use crate::base::digest::Fingerprint;
use crate::base::ids::Environment;
use crate::base::secret::Secret;
use crate::commit::{
    Commit, CommitError, Committed, Content, Found, Index, NodeId, Number, Obstacle, Outstanding, Record, RecordKey,
    Span, Step, StoreFault, StoreTime, WindowKey,
};
use crate::ports::{Part, Store};

/// What a sealed value begins with: format version 1. No value that Sluice writes begins so by itself.
const MAGIC: &[u8] = b"\0sealed\x01";
const KEY_LENGTH: usize = 32;

/// A key that records are sealed with.
#[derive(Clone)]
pub struct SealingKey {
    id: String,
    root: hkdf::Prk,
}

impl SealingKey {
    /// `id`: 1 to 64 of `A-Za-z0-9._-`. `secret`: 32 random bytes, as base64 or as 64 hexadecimal digits.
    pub fn new(id: &str, secret: &Secret) -> Result<SealingKey, SealingKeyError> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if !(1..=64).contains(&id.len()) || !id.bytes().all(allowed) {
            return Err(SealingKeyError::Id);
        }
        let bytes = key_bytes(secret.reveal().trim()).ok_or(SealingKeyError::Secret)?;
        Ok(SealingKey { id: id.to_owned(), root: hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &bytes) })
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingKey({})", self.id)
    }
}

/// Why a text is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealingKeyError {
    Id,
    Secret,
}

impl fmt::Display for SealingKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SealingKeyError::Id => "the id of a key is 1 to 64 of `A-Za-z0-9._-`",
            SealingKeyError::Secret => {
                "a key is 32 random bytes, as base64 or as 64 hexadecimal digits: make one with `openssl rand -hex 32`"
            }
        })
    }
}

impl std::error::Error for SealingKeyError {}

/// A store whose values are sealed on their way in and opened on their way out.
#[derive(Debug)]
pub struct Sealed {
    inner: Arc<dyn Store>,
    keys: Vec<SealingKey>,
}

impl Sealed {
    /// The first key seals, all of them open. Without a key values are kept as they are.
    pub fn new(inner: Arc<dyn Store>, keys: Vec<SealingKey>) -> Sealed {
        Sealed { inner, keys }
    }

    fn seal(&self, key: &RecordKey, value: &Bytes) -> Result<Bytes, StoreFault> {
        let Some(sealing) = self.keys.first() else {
            if value.starts_with(MAGIC) {
                return Err(StoreFault::Broken(format!("{} begins as a sealed value does", place(key))));
            }
            return Ok(value.clone());
        };
        let failed = || StoreFault::Away(format!("{} could not be sealed", place(key)));
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).map_err(|_| failed())?;
        let mut sealed = value.to_vec();
        let (of_record, bound) = (of_record(sealing, key).ok_or_else(failed)?, bound(sealing, key));
        of_record
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(&bound), &mut sealed)
            .map_err(|_| failed())?;
        let id_length = u8::try_from(sealing.id.len()).map_err(|_| failed())?;
        Ok([MAGIC, &[id_length], sealing.id.as_bytes(), &nonce, &sealed].concat().into())
    }

    fn open(&self, key: &RecordKey, value: Bytes) -> Result<Bytes, StoreFault> {
        let Some(sealed) = value.strip_prefix(MAGIC) else { return Ok(value) };
        let broken = |why: String| StoreFault::Broken(format!("{} {why}", place(key)));
        let Some((id, nonce, sealed)) = parts(sealed) else {
            return Err(broken("is sealed in a form that this version of Sluice does not know".to_owned()));
        };
        let Some(sealing) = self.keys.iter().find(|one| one.id == id) else {
            return Err(broken(format!("is sealed with the key `{id}`, which is not configured")));
        };
        let damaged = || broken(format!("cannot be opened with the key `{id}`: it was changed, or the key is another"));
        let (of_record, bound) = (of_record(sealing, key).ok_or_else(damaged)?, bound(sealing, key));
        let mut opened = sealed.to_vec();
        let length = of_record
            .open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(&bound), &mut opened)
            .map_err(|_| damaged())?
            .len();
        opened.truncate(length);
        Ok(opened.into())
    }

    fn open_record(&self, key: &RecordKey, record: Record) -> Result<Record, StoreFault> {
        let content = match record.content {
            Content::Whole(value) => Content::Whole(self.open(key, value)?),
            Content::Spent => Content::Spent,
        };
        Ok(Record { content, ..record })
    }

    fn open_obstacle(&self, key: Option<&RecordKey>, obstacle: Obstacle) -> Result<Obstacle, StoreFault> {
        let found = match (obstacle.found, key) {
            (Found::Record(record), Some(key)) => Found::Record(self.open_record(key, record)?),
            (found, _) => found,
        };
        Ok(Obstacle { found, ..obstacle })
    }
}

#[async_trait]
impl Store for Sealed {
    async fn commit(&self, mut commit: Commit) -> Result<Committed, CommitError> {
        let keys: Vec<Option<RecordKey>> = commit.steps.iter().map(|step| record_of(step).cloned()).collect();
        for step in &mut commit.steps {
            if let Step::Create { key, value, .. } | Step::Replace { key, value, .. } = step {
                *value = self.seal(key, value).map_err(CommitError::Fault)?;
            }
        }
        match self.inner.commit(commit).await {
            Err(CommitError::Stood { at, obstacles }) => {
                let opened = obstacles.into_iter().map(|obstacle| {
                    let key = keys.get(obstacle.step).and_then(Option::as_ref);
                    self.open_obstacle(key, obstacle)
                });
                let obstacles = opened.collect::<Result<_, _>>().map_err(CommitError::Fault)?;
                Err(CommitError::Stood { at, obstacles })
            }
            committed => committed,
        }
    }

    async fn read(&self, key: &RecordKey) -> Result<(Option<Record>, StoreTime), StoreFault> {
        let (record, now) = self.inner.read(key).await?;
        Ok((record.map(|record| self.open_record(key, record)).transpose()?, now))
    }

    async fn due(
        &self,
        environment: Environment,
        index: Index,
        until: Option<StoreTime>,
        count: usize,
    ) -> Result<Vec<(StoreTime, String)>, StoreFault> {
        self.inner.due(environment, index, until, count).await
    }

    async fn part(
        &self,
        environment: Environment,
        index: Index,
        part: Part,
    ) -> Result<Vec<(StoreTime, String)>, StoreFault> {
        self.inner.part(environment, index, part).await
    }

    async fn used(&self, environment: Environment, window: &WindowKey, span: Span) -> Result<u64, StoreFault> {
        self.inner.used(environment, window, span).await
    }

    async fn member(
        &self,
        environment: Environment,
        index: Index,
        member: &str,
    ) -> Result<Option<StoreTime>, StoreFault> {
        self.inner.member(environment, index, member).await
    }

    async fn windows(
        &self,
        environment: Environment,
        limit: Option<&str>,
        count: usize,
    ) -> Result<Vec<WindowKey>, StoreFault> {
        self.inner.windows(environment, limit, count).await
    }

    async fn outbox(
        &self,
        environment: Environment,
        node: &NodeId,
        count: usize,
    ) -> Result<Vec<Outstanding>, StoreFault> {
        self.inner.outbox(environment, node, count).await
    }

    async fn take_over(
        &self,
        environment: Environment,
        node: &NodeId,
        count: usize,
    ) -> Result<Vec<Outstanding>, StoreFault> {
        self.inner.take_over(environment, node, count).await
    }

    async fn drained(&self, environment: Environment, numbers: &[Number]) -> Result<(), StoreFault> {
        self.inner.drained(environment, numbers).await
    }

    async fn last(&self, environment: Environment) -> Result<Number, StoreFault> {
        self.inner.last(environment).await
    }

    async fn sweep(&self) -> Result<usize, StoreFault> {
        self.inner.sweep().await
    }

    async fn time(&self) -> Result<StoreTime, StoreFault> {
        self.inner.time().await
    }
}

/// The record whose content a step may find.
fn record_of(step: &Step) -> Option<&RecordKey> {
    match step {
        Step::Absent(key)
        | Step::Version { key, .. }
        | Step::Create { key, .. }
        | Step::Replace { key, .. }
        | Step::Delete { key, .. } => Some(key),
        Step::Before(_)
        | Step::After(_)
        | Step::Above(_)
        | Step::Member { .. }
        | Step::NotMember { .. }
        | Step::IndexAdd { .. }
        | Step::IndexRemove { .. }
        | Step::Reserve { .. }
        | Step::Force { .. }
        | Step::Settle { .. }
        | Step::GiveBack { .. } => None,
    }
}

fn of_record(sealing: &SealingKey, key: &RecordKey) -> Option<LessSafeKey> {
    let bound = bound(sealing, key);
    let info = [bound.as_slice()];
    let derived = sealing.root.expand(&info, &AES_256_GCM).ok()?;
    Some(LessSafeKey::new(UnboundKey::from(derived)))
}

/// Where a value belongs; each part behind its length.
fn bound(sealing: &SealingKey, key: &RecordKey) -> Vec<u8> {
    let parts = [MAGIC, sealing.id.as_bytes(), key.environment.as_str().as_bytes(), key.kind.as_str().as_bytes()];
    let parts = parts.into_iter().chain([key.name.as_bytes()]);
    parts.flat_map(|part| [(part.len() as u64).to_be_bytes().as_slice(), part].concat()).collect()
}

/// Id, nonce, and what is sealed.
fn parts(sealed: &[u8]) -> Option<(&str, [u8; NONCE_LEN], &[u8])> {
    let (length, rest) = sealed.split_first()?;
    let (id, rest) = rest.split_at_checked(usize::from(*length))?;
    let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
    Some((std::str::from_utf8(id).ok()?, *nonce, sealed))
}

/// A record in the words of an error. Its name may tell who was paid, so that its digest stands for it.
fn place(key: &RecordKey) -> String {
    let digest = Fingerprint::of(&[key.name.as_bytes()]).to_hex();
    let short = digest.get(..16).unwrap_or_default();
    format!("the {} {short} (a digest of its name) in {}", key.kind.as_str(), key.environment)
}

fn key_bytes(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let is_hex = text.len() == KEY_LENGTH * 2 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let bytes = if is_hex {
        let byte = |at: usize| u8::from_str_radix(text.get(at..at.checked_add(2)?)?, 16).ok();
        (0..KEY_LENGTH * 2).step_by(2).map(byte).collect::<Option<Vec<u8>>>()?
    } else {
        let bare = text.trim_end_matches('=');
        STANDARD_NO_PAD.decode(bare).or_else(|_| URL_SAFE_NO_PAD.decode(bare)).ok()?
    };
    (bytes.len() == KEY_LENGTH).then(|| Zeroizing::new(bytes))
}
