//! Encryption of records: bodies and answers contain bank and personal data.
//!
//! Each value is packed, then sealed with AES-256-GCM under a key of its own record, derived (HKDF-SHA256) from the configured key,
//! and bound to its record: moved to another record it cannot be opened. As each record has its own key, and few
//! versions, random nonces never come near the number at which they might repeat.
//!
//! A gate on a Redis compares what it reads with what its journal has, records that are not there included: see
//! `journalled_records`. So neither an older value of a record, nor one that somebody wrote there, nor the absence of one
//! that somebody removed is believed, with a key or without. The node looks again at each that is refused, and has the
//! store rebuilt where it is another one indeed.
//!
//! With a key, a value in plain text is refused, and a session in plain text counts as none: somebody without the key
//! wrote it. A setting accepts plain text while a store from before the key is taken over; values are sealed when they are
//! next written. A freeze in plain text is taken in any case: it only closes money.
//!
//! The entry of each commit gets its steps and their sealed values: see `journalled_steps`.

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use ring::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce};

pub use super::journalled_records::JournalledRecords;
use super::journalled_records::RecordBelief;
use super::packed::{self, PACKED};
use super::sealed_place::{FORMAT, SEALED, SealedPlace, parts};
pub use super::sealing_key::{SealingKey, SealingKeyError};
use crate::adapters::random;
use crate::base::ids::Environment;
use crate::ledger::{
    Commit, CommitError, Conflict, ConflictCause, Content, Kind, Number, Query, QueryAnswer, Receipt, Record,
    RecordKey, Sender, Step, StoreFault, StoreTime, TimeBounds,
};
use crate::ports::Store;
use crate::telemetry::Metrics;

/// Why a record is refused, as metrics name it.
const PLAIN: &str = "plain-text";
const UNOPENED: &str = "other-key";
const CHANGED: &str = "changed";
/// How often a record is read that is not as the journal has it.
const MAX_READS: usize = 3;
/// The kind under which the digest of a snapshot is sealed; no record has it.
const SNAPSHOT: &str = "snapshot";
/// The keys that seal: the first seals, and every key opens. Without a key, values stay in plain.
#[derive(Clone, Debug, Default)]
pub struct Seals {
    pub(super) keys: Vec<SealingKey>,
    /// Whether values from before the key are taken.
    pub(super) accepts_plain: bool,
}

/// A store that seals values on their way in and opens them on their way out.
#[derive(Debug)]
pub struct Sealed {
    pub(super) inner: Arc<dyn Store>,
    pub(super) seals: Seals,
    /// The store as this gate's journal has it, where the store is on a Redis.
    journalled: Option<Arc<dyn JournalledRecords>>,
    /// Counts the records that are refused.
    metrics: Option<Metrics>,
}

impl Seals {
    pub fn new(keys: Vec<SealingKey>) -> Seals {
        Seals { keys, accepts_plain: false }
    }

    /// Takes values in plain text as well, from before the key.
    pub fn accepting_plain(self, accepts_plain: bool) -> Seals {
        Seals { accepts_plain, ..self }
    }

    /// Seals a value, and binds it to its record.
    pub fn seal(&self, key: &RecordKey, value: &Bytes) -> Result<Bytes, StoreFault> {
        if value.starts_with(SEALED) || value.starts_with(PACKED) {
            return Err(StoreFault::Broken(format!("{} begins like a sealed value", SealedPlace::of(key))));
        }
        self.seal_at(&SealedPlace::of(key), value)
    }

    pub(super) fn seal_at(&self, place: &SealedPlace<'_>, value: &Bytes) -> Result<Bytes, StoreFault> {
        let value = packed::pack(value);
        let Some(sealing) = self.keys.first() else { return Ok(value) };
        let failed = || StoreFault::Away(format!("{place} could not be sealed"));
        let nonce = random::bytes::<NONCE_LEN>().ok_or_else(failed)?;
        let id_length = u8::try_from(sealing.id.len()).map_err(|_| failed())?;
        let head = [SEALED, &[FORMAT, id_length], sealing.id.as_bytes(), &nonce];
        let length = head.iter().map(|part| part.len()).sum::<usize>();
        let mut sealed = Vec::with_capacity(length.saturating_add(value.len()).saturating_add(AES_256_GCM.tag_len()));
        head.iter().for_each(|part| sealed.extend_from_slice(part));
        sealed.extend_from_slice(&value);
        let (of_place, bound) = place.key(sealing).ok_or_else(failed)?;
        let content = sealed.get_mut(length..).ok_or_else(failed)?;
        let tag = of_place
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(&bound), content)
            .map_err(|_| failed())?;
        sealed.extend_from_slice(tag.as_ref());
        Ok(sealed.into())
    }

    /// Whether a value is refused because it is in plain text.
    fn refuses(&self, key: &RecordKey, value: &Bytes) -> bool {
        let is_plain_taken = !self.is_sealing() || self.accepts_plain || key.kind == Kind::Freeze;
        !is_plain_taken && !value.starts_with(SEALED)
    }

    /// Opens the value of a record.
    pub fn open(&self, key: &RecordKey, value: Bytes) -> Result<Bytes, StoreFault> {
        if self.refuses(key, &value) {
            return Err(StoreFault::Broken(format!(
                "{} is in plain text, although `store.seal_key` is set: somebody without the key wrote it, or it is from before \
                 the key; to take over such a store, set `store.allow_plain = true` as `rotate.md` says",
                SealedPlace::of(key)
            )));
        }
        self.open_at(&SealedPlace::of(key), value)
    }

    pub(super) fn open_at(&self, place: &SealedPlace<'_>, value: Bytes) -> Result<Bytes, StoreFault> {
        let opened = if value.starts_with(SEALED) { self.open_in_place(place, value.into())?.into() } else { value };
        packed::unpack(opened).map_err(|error| StoreFault::Broken(format!("{place} cannot be read: {error}")))
    }

    /// Opens a value in its own memory.
    fn open_in_place(&self, place: &SealedPlace<'_>, mut value: Vec<u8>) -> Result<Vec<u8>, StoreFault> {
        let Some(sealed) = value.strip_prefix(SEALED) else { return Ok(value) };
        let broken = |why: String| StoreFault::Broken(format!("{place} {why}"));
        let Some((id, nonce, sealed)) = parts(sealed) else {
            return Err(broken("is sealed in a format that this version of Sluice does not know".to_owned()));
        };
        let Some(sealing) = self.keys.iter().find(|one| one.id == id) else {
            return Err(broken(format!("is sealed with the key `{id}`, which is not configured: add that key")));
        };
        let damaged = || {
            broken(format!(
                "cannot be opened with the key `{}`: the value was changed, or the key has another secret",
                sealing.id
            ))
        };
        let (of_place, bound) = place.key(sealing).ok_or_else(damaged)?;
        let begin = value.len().saturating_sub(sealed.len());
        let length = of_place
            .open_within(Nonce::assume_unique_for_key(nonce), Aad::from(&bound), &mut value, begin..)
            .map_err(|_| damaged())?
            .len();
        value.truncate(length);
        Ok(value)
    }

    /// Seals the digest of a snapshot, and binds it to the snapshot's name.
    pub(super) fn seal_digest(&self, name: &str, digest: &str) -> Result<Option<String>, StoreFault> {
        if self.keys.is_empty() {
            return Ok(None);
        }
        let sealed = self.seal_at(&of_snapshot(name), &digest.to_owned().into_bytes().into())?;
        Ok(Some(STANDARD_NO_PAD.encode(sealed)))
    }

    /// Whether a snapshot of this name and digest was made with one of the keys. Without a key, every one is taken.
    pub(super) fn proves_digest(&self, name: &str, digest: &str, sealed: Option<&str>) -> Result<bool, StoreFault> {
        if self.keys.is_empty() {
            return Ok(true);
        }
        let Some(sealed) = sealed.and_then(|sealed| STANDARD_NO_PAD.decode(sealed).ok()) else { return Ok(false) };
        Ok(sealed.starts_with(SEALED) && self.open_at(&of_snapshot(name), sealed.into())? == digest.as_bytes())
    }

    /// Whether a session was written by somebody who has no key. It may also be from before the key.
    fn is_forged_session(&self, key: &RecordKey, record: &Record) -> bool {
        let is_plain = |value: &Bytes| !value.starts_with(SEALED);
        let is_sealing = self.is_sealing() && !key.kind.is_journalled();
        is_sealing && matches!(&record.content, Content::Whole(value) if is_plain(value))
    }

    /// Whether values in plain text are taken although there is a key.
    pub fn takes_plain(&self) -> bool {
        self.is_sealing() && self.accepts_plain
    }

    /// Whether values are sealed.
    pub fn is_sealing(&self) -> bool {
        !self.keys.is_empty()
    }
}

fn changed_in_store(key: &RecordKey) -> String {
    format!("{} differs from what this gate's journal has: somebody changed it in the store", SealedPlace::of(key))
}

fn gone_meanwhile(key: &RecordKey) -> StoreFault {
    StoreFault::Away(format!("{} stood in the way of a commit, and has gone meanwhile", SealedPlace::of(key)))
}

fn of_snapshot(name: &str) -> SealedPlace<'_> {
    // A snapshot has the records of all environments.
    SealedPlace { environment: Environment::Production, kind: SNAPSHOT, name }
}

impl Sealed {
    pub fn new(inner: Arc<dyn Store>, seals: Seals) -> Sealed {
        Sealed { inner, seals, journalled: None, metrics: None }
    }

    /// Compares what the store has with what this gate's journal has.
    pub fn compared_with(self, journalled: Option<Arc<dyn JournalledRecords>>) -> Sealed {
        Sealed { journalled, ..self }
    }

    /// Counts the records that are refused.
    pub fn counted_by(self, metrics: Metrics) -> Sealed {
        Sealed { metrics: Some(metrics), ..self }
    }

    fn refused(&self, environment: Environment, reason: &str) {
        if let Some(metrics) = &self.metrics {
            metrics.record_refused(environment.as_str(), reason);
        }
    }

    /// Compares what the store has at this time with what the journal has.
    fn believes(&self, key: &RecordKey, found: Option<&Record>, now: StoreTime) -> Result<RecordBelief, StoreFault> {
        match self.journalled.as_ref().filter(|_| key.kind.is_journalled()) {
            Some(journalled) => Ok(journalled.known(key, now)?.stands_for(found)),
            None => Ok(RecordBelief::Stands),
        }
    }

    fn changed(&self, key: &RecordKey) -> StoreFault {
        self.refused(key.environment, CHANGED);
        StoreFault::Broken(self.doubt(key))
    }

    /// Has somebody look at a record again; returns the reason.
    fn doubt(&self, key: &RecordKey) -> String {
        let why = changed_in_store(key);
        if let Some(journalled) = &self.journalled {
            journalled.doubted(key, &why);
        }
        why
    }

    /// Reads a record, or that there is none, and believes it only as the journal has it.
    async fn read_believed(&self, key: &RecordKey) -> Result<(Option<Record>, StoreTime), StoreFault> {
        let (mut missed, mut outdated, mut has_gap, mut unproved) = (None, None, false, None);
        // The journal may have gone on since the store answered; a store that forgot stays behind.
        for _ in 0..MAX_READS {
            let (record, now) = self.inner.read(key).await?;
            unproved = None;
            match self.believes(key, record.as_ref(), now)? {
                RecordBelief::Stands => return Ok((record, now)),
                RecordBelief::Changed => break,
                RecordBelief::Outdated => outdated = record,
                RecordBelief::Unjournalled => match self.is_left_behind(key, record.as_ref()).await? {
                    Some(true) => return Ok((record, now)),
                    Some(false) => outdated = record,
                    // The journal may have it by now.
                    None => unproved = Some((record, now)),
                },
                RecordBelief::Missing { version, known_up_to } => {
                    match self.is_written_behind(key, known_up_to).await? {
                        Some(true) => return Ok((record, now)),
                        Some(false) => has_gap = false,
                        None => {
                            has_gap = true;
                            continue;
                        }
                    }
                    // The first answer may be from before that version.
                    if missed.replace(version) == Some(version) {
                        break;
                    }
                }
            }
        }
        // A gate that was away meets records whose entries have left the outbox; it moves no money before it has what was before.
        if let Some(read) = unproved {
            return Ok(read);
        }
        // What somebody wrote who has no key is told as that.
        if let Some(record) = outdated {
            self.open_record(key, record).inspect_err(|_| drop(self.doubt(key)))?;
        }
        if has_gap {
            let why = "entries are missing between this gate's journal and the store's newest ones";
            return Err(StoreFault::Away(format!("{} cannot be judged: {why}", SealedPlace::of(key))));
        }
        Err(self.changed(key))
    }

    fn open_record(&self, key: &RecordKey, record: Record) -> Result<Record, StoreFault> {
        let content = match record.content {
            Content::Whole(value) => {
                let reason = if self.seals.refuses(key, &value) { PLAIN } else { UNOPENED };
                let opened = self.seals.open(key, value);
                Content::Whole(opened.inspect_err(|_| self.refused(key.environment, reason))?)
            }
            Content::Spent => Content::Spent,
        };
        Ok(Record { content, ..record })
    }

    /// Seals a commit, and has it made within times that its entry tells others; returns the records of its steps beside it.
    fn seal_commit(&self, commit: Commit) -> Result<(Commit, Vec<Option<RecordKey>>), CommitError> {
        let keys = commit.steps.iter().map(|step| step.record().cloned()).collect();
        let within = self.inner.time_bounds(commit.environment).filter(|_| self.seals.is_sealing());
        let mut commit = self.seals.sealed_commit_within(commit, within).map_err(CommitError::Fault)?;
        commit.steps.extend(within.map(TimeBounds::guards).into_iter().flatten());
        Ok((commit, keys))
    }

    /// Opens what a rejected commit met.
    async fn opened(
        &self,
        keys: &[Option<RecordKey>],
        committed: Result<Receipt, CommitError>,
    ) -> Result<Receipt, CommitError> {
        let Err(CommitError::Rejected { at, conflicts }) = committed else { return committed };
        if conflicts.iter().any(|conflict| conflict.step >= keys.len()) {
            let why = "the time of the store is another one than this gate expects";
            return Err(CommitError::Fault(StoreFault::Away(why.to_owned())));
        }
        let mut opened = Vec::with_capacity(conflicts.len());
        for conflict in conflicts {
            let key = keys.get(conflict.step).and_then(Option::as_ref);
            opened.push(self.open_obstacle(key, conflict, at).await.map_err(CommitError::Fault)?);
        }
        Err(CommitError::Rejected { at, conflicts: opened })
    }

    async fn open_obstacle(
        &self,
        key: Option<&RecordKey>,
        conflict: Conflict,
        at: StoreTime,
    ) -> Result<Conflict, StoreFault> {
        let found = match (conflict.found, key) {
            (ConflictCause::Record(record), Some(key)) => {
                let is_believed = match self.believes(key, Some(&record), at)? {
                    RecordBelief::Stands => true,
                    RecordBelief::Changed | RecordBelief::Missing { .. } => return Err(self.changed(key)),
                    RecordBelief::Unjournalled => self.is_left_behind(key, Some(&record)).await? == Some(true),
                    RecordBelief::Outdated => false,
                };
                let record = if is_believed {
                    record
                } else {
                    self.read_believed(key).await?.0.ok_or_else(|| gone_meanwhile(key))?
                };
                ConflictCause::Record(self.open_record(key, record)?)
            }
            (found, _) => found,
        };
        Ok(Conflict { found, ..conflict })
    }
}

#[async_trait]
impl Store for Sealed {
    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        let (commit, keys) = self.seal_commit(commit)?;
        self.opened(&keys, self.inner.commit(commit).await).await
    }

    async fn commit_for_journal(&self, commit: Commit) -> Result<Receipt, CommitError> {
        // No journal has what it does not keep.
        if !commit.steps.iter().all(Step::is_journalled) {
            return self.commit(commit).await;
        }
        let (commit, keys) = self.seal_commit(commit)?;
        self.opened(&keys, self.inner.commit_for_journal(commit).await).await
    }

    fn leans_on_journal(&self) -> bool {
        self.inner.leans_on_journal()
    }

    fn journal_has(&self, key: &RecordKey) -> Result<bool, StoreFault> {
        // At the beginning of time nothing has expired.
        let known = self.journalled.as_ref().map(|journalled| journalled.known(key, StoreTime::default()));
        Ok(known.transpose()?.is_some_and(|known| known.record.is_some()))
    }

    fn time_bounds(&self, environment: Environment) -> Option<TimeBounds> {
        self.inner.time_bounds(environment)
    }

    async fn flush(&self) -> Result<(), StoreFault> {
        self.inner.flush().await
    }

    async fn query(&self, query: Query) -> Result<QueryAnswer, StoreFault> {
        let Query::Record(key) = query else { return self.inner.query(query).await };
        let (record, now) = self.read_believed(&key).await?;
        let is_forged = record.as_ref().is_some_and(|record| self.seals.is_forged_session(&key, record));
        if is_forged {
            self.refused(key.environment, PLAIN);
        }
        let record = record.filter(|_| !is_forged);
        let record = record.map(|record| self.open_record(&key, record)).transpose()?;
        Ok(QueryAnswer::Record(record, now))
    }

    async fn kept(&self, environment: Environment, by: &Sender, up_to: Number) -> Result<(), StoreFault> {
        self.inner.kept(environment, by, up_to).await
    }

    async fn sweep(&self) -> Result<usize, StoreFault> {
        self.inner.sweep().await
    }
}
