//! Outcomes that could not be written to the store: a file each, on this node's disk, until they can.
//!
//! A file holds the claim as it was sent, too: a proof of execution counts even if the store has lost the claim. With a
//! key configured, files are sealed, and each is bound to its attempt.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio::fs;
use tokio::io::AsyncWriteExt;

use crate::adapters::audit::AuditFolder;
use crate::adapters::store::sealed::Seals;
use crate::base::ids::Environment;
use crate::base::json;
use crate::ledger::{Kind, Number, RecordKey, StoreTime};
use crate::stations::claim::{Claim, ClaimEvent, StoredEvent};

/// The suffix of a file that is being written.
const UNFINISHED: &str = ".unfinished";

/// The format of a file. No other is read.
const FORMAT: u64 = 1;

/// The content of a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct UnsettledRecord {
    environment: Environment,
    name: String,
    attempt: Number,
    /// When the attempt was made.
    #[serde(rename = "atMicros")]
    at: StoreTime,
    /// The claim as it was sent.
    claim: Claim,
    event: StoredEvent,
}

/// The folder of such files. They contain answers to callers: no other user may read them.
#[derive(Clone, Debug)]
pub struct Unsettled {
    audit: AuditFolder,
    folder: PathBuf,
    seals: Seals,
}

/// The files of a folder.
#[derive(Debug, Default)]
pub struct WaitingOutcomes {
    pub outcomes: Vec<UnsettledOutcome>,
    /// Files that cannot be read, by the attempts that they are named after. Each may hold a proof.
    pub unreadable: Vec<Option<(Environment, Number)>>,
}

/// An outcome that waits, and its file.
#[derive(Clone, Debug)]
pub struct UnsettledOutcome {
    pub key: RecordKey,
    pub attempt: Number,
    pub at: StoreTime,
    pub claim: Claim,
    pub event: ClaimEvent,
    file: PathBuf,
}

impl Unsettled {
    /// Returns the outcomes in the folder `unsettled` beside an audit log.
    pub fn beside(audit: AuditFolder, seals: Seals) -> Unsettled {
        Unsettled { folder: audit.join("unsettled"), audit, seals }
    }

    /// Saves an outcome; on disk when this returns.
    pub async fn keep(
        &self,
        key: &RecordKey,
        (attempt, claim, at): (Number, &Claim, StoreTime),
        event: &ClaimEvent,
    ) -> io::Result<Option<PathBuf>> {
        let Some(event) = StoredEvent::of(event) else { return Ok(None) };
        let environment = key.environment;
        let record = UnsettledRecord { environment, name: key.name.clone(), attempt, at, claim: claim.clone(), event };
        let sealed = self.seals.seal(&file_key(environment, attempt), &json::to_record(&record, FORMAT).into());
        let sealed = sealed.map_err(io::Error::other)?;
        self.audit.make_inside(&self.folder)?;
        let path = self.folder.join(format!("{environment}-{attempt}.json"));
        let whole = self.folder.join(format!("{environment}-{attempt}{UNFINISHED}"));
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&whole).await?;
        file.write_all(&sealed).await?;
        file.sync_all().await?;
        fs::rename(&whole, &path).await?;
        fs::File::open(&self.folder).await?.sync_all().await?;
        Ok(Some(path))
    }

    pub async fn forget(&self, file: PathBuf) {
        if let Err(error) = fs::remove_file(&file).await {
            tracing::warn!(%error, "the file of an outcome that is now in the store cannot be removed");
        }
    }

    /// Returns the outcomes that wait. A file that cannot be read stays, and is logged.
    pub async fn waiting(&self) -> io::Result<WaitingOutcomes> {
        let mut found = WaitingOutcomes::default();
        let mut files = match fs::read_dir(&self.folder).await {
            Ok(files) => files,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            Err(error) => return Err(error),
        };
        while let Some(entry) = files.next_entry().await? {
            let file = entry.path();
            if file.to_string_lossy().ends_with(UNFINISHED) {
                // An unfinished file was confirmed to nobody.
                continue;
            }
            match self.read(&file).await {
                Ok(outcome) => found.outcomes.push(outcome),
                Err(error) => {
                    found.unreadable.push(named(&file));
                    tracing::error!(file = %file.display(), %error, "the file of an outcome that waits for the store cannot be read");
                }
            }
        }
        Ok(found)
    }

    async fn read(&self, file: &Path) -> io::Result<UnsettledOutcome> {
        let key = named(file).map(|(environment, attempt)| file_key(environment, attempt));
        let key = key.ok_or_else(|| io::Error::other("its name is not that of such a file"))?;
        let opened = self.seals.open(&key, fs::read(file).await?.into()).map_err(io::Error::other)?;
        let record: UnsettledRecord = json::from_record(&opened, FORMAT).map_err(io::Error::other)?;
        if file_key(record.environment, record.attempt) != key {
            return Err(io::Error::other("it belongs to another attempt"));
        }
        let UnsettledRecord { environment, name, attempt, at, claim, event } = record;
        let key = RecordKey { environment, kind: Kind::Claim, name };
        Ok(UnsettledOutcome { key, attempt, at, claim, event: event.into(), file: file.to_owned() })
    }
}

/// The attempt that a file is named after.
fn named(file: &Path) -> Option<(Environment, Number)> {
    let (environment, attempt) = file.file_stem()?.to_str()?.rsplit_once('-')?;
    Some((Environment::parse(environment)?, Number::new(attempt.parse().ok()?)))
}

/// The name that a file's content is sealed to. No claim has such a name.
fn file_key(environment: Environment, attempt: Number) -> RecordKey {
    RecordKey { environment, kind: Kind::Claim, name: format!("unsettled/{attempt}") }
}

impl UnsettledOutcome {
    pub fn into_file(self) -> PathBuf {
        self.file
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;
    use crate::adapters::store::sealed::SealingKey;
    use crate::base::digest::Fingerprint;
    use crate::base::ids::{OperationId, RequestId, TraceId};
    use crate::base::secret::Secret;
    use crate::stations::claim::{ClaimState, Owner, StoredAnswer};

    const SECRET: &str = "DE89370400440532013000";

    fn claim() -> Claim {
        Claim {
            owner: Owner::named("main", "payroll"),
            requester: None,
            operation: OperationId::new("createSwap"),
            fingerprint: Fingerprint::of(&[]),
            request_id: RequestId::parse("r-1"),
            trace: TraceId::parse("t-1").unwrap(),
            moves: None,
            hold: None,
            attempts: Vec::new(),
            state: ClaimState::Held,
        }
    }

    fn seals(digit: &str) -> Seals {
        Seals::new(vec![SealingKey::new("k1", &Secret::new(digit.repeat(64))).unwrap()])
    }

    fn executed() -> ClaimEvent {
        let body = Bytes::from(format!("{{\"iban\":\"{SECRET}\"}}"));
        ClaimEvent::Executed(StoredAnswer { status: 201, headers: HeaderMap::new(), body })
    }

    #[tokio::test]
    async fn what_waits_is_whole_and_its_owner_s_alone() {
        let home = tempfile::tempdir().unwrap();
        let unsettled = Unsettled::beside(AuditFolder::at(home.path()), Seals::default());
        let key = RecordKey { environment: Environment::Production, kind: Kind::Claim, name: "r-1".to_owned() };
        let sent = (Number::new(7), &claim(), StoreTime::of_micros(5));
        let kept = unsettled.keep(&key, sent, &ClaimEvent::Undone { status: None }).await.unwrap().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&kept), mode(kept.parent().unwrap())), (0o600, 0o700));
        std::fs::write(home.path().join("unsettled/production-8.unfinished"), "{\"env").unwrap();
        let waiting = unsettled.waiting().await.unwrap().outcomes;
        let told: Vec<_> = waiting.iter().map(|one| (&one.key, one.attempt, one.at, &one.claim)).collect();
        assert_eq!(told, [(&key, Number::new(7), StoreTime::of_micros(5), &claim())]);
        unsettled.forget(kept).await;
        assert_eq!(unsettled.waiting().await.unwrap().outcomes.len(), 0);
    }

    #[tokio::test]
    async fn with_a_key_nothing_waits_in_clear_text_and_nothing_moves() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("unsettled");
        let unsettled = Unsettled::beside(AuditFolder::at(home.path()), seals("a"));
        let key = RecordKey { environment: Environment::Production, kind: Kind::Claim, name: "r-1".to_owned() };
        let kept = unsettled.keep(&key, (Number::new(7), &claim(), StoreTime::of_micros(5)), &executed()).await;
        let kept = kept.unwrap().unwrap();
        let written = std::fs::read(&kept).unwrap();
        for clear in [SECRET, "payroll", "createSwap"] {
            assert!(!written.windows(clear.len()).any(|window| window == clear.as_bytes()), "{clear}");
        }
        let waiting = unsettled.waiting().await.unwrap().outcomes;
        assert_eq!(waiting.iter().map(|one| &one.event).collect::<Vec<_>>(), [&executed()]);
        // Under the name of another attempt, or with another key, it is not read; it stays.
        std::fs::rename(&kept, folder.join("production-8.json")).unwrap();
        let moved = unsettled.waiting().await.unwrap();
        assert_eq!(
            (moved.outcomes.len(), moved.unreadable),
            (0, vec![Some((Environment::Production, Number::new(8)))])
        );
        std::fs::rename(folder.join("production-8.json"), &kept).unwrap();
        let other = Unsettled::beside(AuditFolder::at(home.path()), seals("b")).waiting().await.unwrap();
        assert_eq!(
            (other.outcomes.len(), other.unreadable),
            (0, vec![Some((Environment::Production, Number::new(7)))])
        );
        assert_eq!(unsettled.waiting().await.unwrap().outcomes.len(), 1);
    }
}
