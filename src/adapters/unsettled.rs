//! Outcomes that the store could not be told: a file each, on this node's disk, until it can.

use std::io;
use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::fs;
use tokio::io::AsyncWriteExt;

use crate::base::ids::Environment;
use crate::commit::{Kind, Number, RecordKey};
use crate::stations::claim::{Event, read_event, write_event};

/// The end of a name while its file is being written.
const UNFINISHED: &str = ".unfinished";

/// The folder of such files. It holds what callers were answered: nobody else may read it.
#[derive(Clone, Debug)]
pub struct Unsettled {
    folder: PathBuf,
}

/// An outcome that waits, and where.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub key: RecordKey,
    pub attempt: Number,
    pub event: Event,
    file: PathBuf,
}

impl Unsettled {
    pub fn new(folder: PathBuf) -> Unsettled {
        Unsettled { folder }
    }

    /// On disk when it returns.
    pub async fn keep(&self, key: &RecordKey, attempt: Number, event: &Event) -> io::Result<Option<PathBuf>> {
        let Some(event) = write_event(event) else { return Ok(None) };
        let environment = key.environment.as_str();
        let text =
            json!({ "environment": environment, "claim": key.name, "attempt": attempt.as_u64(), "event": event });
        fs::create_dir_all(&self.folder).await?;
        let path = self.folder.join(format!("{environment}-{attempt}.json"));
        let whole = self.folder.join(format!("{environment}-{attempt}{UNFINISHED}"));
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&whole).await?;
        file.write_all(text.to_string().as_bytes()).await?;
        file.sync_all().await?;
        fs::rename(&whole, &path).await?;
        fs::File::open(&self.folder).await?.sync_all().await?;
        Ok(Some(path))
    }

    pub async fn forget(&self, file: PathBuf) {
        if let Err(error) = fs::remove_file(&file).await {
            tracing::warn!(%error, "an outcome that was stored at last cannot be removed from the folder where it waited");
        }
    }

    /// What waits. A file that cannot be read stays where it is, and is told.
    pub async fn waiting(&self) -> io::Result<Vec<Waiting>> {
        let mut found = Vec::new();
        let mut files = match fs::read_dir(&self.folder).await {
            Ok(files) => files,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            Err(error) => return Err(error),
        };
        while let Some(entry) = files.next_entry().await? {
            let file = entry.path();
            if file.to_string_lossy().ends_with(UNFINISHED) {
                // Nobody was told that it is kept.
                continue;
            }
            match read(&fs::read(&file).await?) {
                Some((key, attempt, event)) => found.push(Waiting { key, attempt, event, file }),
                None => tracing::error!(file = %file.display(), "an outcome that waits to be stored cannot be read"),
            }
        }
        Ok(found)
    }
}

impl Waiting {
    pub fn into_file(self) -> PathBuf {
        self.file
    }
}

fn read(bytes: &[u8]) -> Option<(RecordKey, Number, Event)> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let environment = value.get("environment")?.as_str()?;
    let environment = Environment::ALL.into_iter().find(|known| known.as_str() == environment)?;
    let name = value.get("claim")?.as_str()?.to_owned();
    let attempt = Number::new(value.get("attempt")?.as_u64()?);
    let event = read_event(value.get("event")?).ok()?;
    Some((RecordKey { environment, kind: Kind::Claim, name }, attempt, event))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn what_waits_is_whole_and_its_owner_s_alone() {
        let home = tempfile::tempdir().unwrap();
        let unsettled = Unsettled::new(home.path().join("unsettled"));
        let key = RecordKey { environment: Environment::Production, kind: Kind::Claim, name: "r-1".to_owned() };
        let kept = unsettled.keep(&key, Number::new(7), &Event::Undone).await.unwrap().unwrap();
        assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(home.path().join("unsettled/production-8.unfinished"), "{\"env").unwrap();
        let waiting = unsettled.waiting().await.unwrap();
        assert_eq!(waiting.iter().map(|one| (&one.key, one.attempt)).collect::<Vec<_>>(), [(&key, Number::new(7))]);
        unsettled.forget(kept).await;
        assert_eq!(unsettled.waiting().await.unwrap().len(), 0);
    }
}
